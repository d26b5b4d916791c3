"""DP-Gen in the utility and fidelity study (``synbench_utility``): items of synbench_utility_dp_gen."""

from typing import Any

import numpy as np

from dprepro.audits.synbench_tasks import Task
from dprepro.audits.synbench_utility import account, measured, parsed, vectors
from dprepro.mechanisms.synthesis.dp_gen import DPGen
from dprepro.text.embedders import TextEmbedder
from dprepro.text.tiny_lm import tiny_lm


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
    max_tokens: int,
) -> dict[str, Any]:
    """Fine-tune the packaged model on a task and measure what it writes.

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
        As of `DPGen`.
    written : int
        Synthetic texts, about; by classes as the private texts.
    max_tokens : int
        Of a text.

    Returns
    -------
    dict
        As `synbench_utility.account` and `synbench_utility.measured`.
    """
    rate = min(1.0, batch / len(task.texts))
    tuning = DPGen(epsilon, rate, steps, learning_rate)
    made = tuning.fit(*tiny_lm(), task.texts, task.labels, rng)
    return {**account(made), **measured(task, made.sample(task.counts(written), rng, max_tokens), embed)}
