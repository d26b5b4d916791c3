"""DP-Diffusion in the utility and fidelity study (``synbench_utility``): items of synbench_utility_diffusion."""

from typing import Any

import numpy as np

from dprepro.audits.synbench_tasks import Task
from dprepro.audits.synbench_utility import account, measured, parsed, vectors
from dprepro.mechanisms.synthesis.diffusion_start import public_start
from dprepro.mechanisms.synthesis.dp_diffusion import DPDiffusion
from dprepro.text.embedders import TextEmbedder


def item(key: str, rng: np.random.Generator, **settings: Any) -> dict[str, Any]:
    """Return one item, "<domain>, <epsilon>, <number of the draw>"; `settings` as of `scores`."""
    task, epsilon = parsed(key)
    return scores(task, epsilon, rng, vectors(), **settings)


def scores(
    task: Task,
    epsilon: float,
    rng: np.random.Generator,
    embed: TextEmbedder,
    *,
    batch: int,
    steps: int,
    learning_rate: float,
    written: int,
    denoising: int,
) -> dict[str, Any]:
    """Train the diffusion model on a task, from its public start, and measure what it writes.

    Parameters
    ----------
    task : Task
    epsilon : float
        Infinity for no privacy.
    rng : Generator
    embed : TextEmbedder
    batch : int
        Texts in a batch, as expected; at most those of the task.
    steps, learning_rate
        As of `DPDiffusion`.
    written : int
        Synthetic texts, about; by classes as the private texts.
    denoising : int
        Steps from noise to a text.

    Returns
    -------
    dict
        As `synbench_utility.account` and `synbench_utility.measured`.
    """
    training = DPDiffusion(epsilon, min(1.0, batch / len(task.texts)), steps, learning_rate)
    made = training.fit(task.texts, task.labels, rng, start=public_start())
    return {**account(made), **measured(task, made.sample(task.counts(written), rng, denoising), embed)}
