"""DP-Diffusion in the utility and fidelity study (``synbench_by``): items of synbench_utility_diffusion."""

import numpy as np

from dprepro.audits.synbench_by import Study, batch_rate
from dprepro.audits.synbench_tasks import Task
from dprepro.mechanisms.synthesis.diffusion_start import public_start
from dprepro.mechanisms.synthesis.dp_diffusion import DiffusionGenerator, DPDiffusion
from dprepro.text.embedders import TextEmbedder


def fitted(
    task: Task,
    epsilon: float,
    rng: np.random.Generator,
    embed: TextEmbedder,
    *,
    batch: int,
    steps: int,
    learning_rate: float,
) -> DiffusionGenerator:
    """Train the diffusion model on a task, from its public start.

    Parameters
    ----------
    task, epsilon, rng
        As of `synbench_by.Study`.
    embed : TextEmbedder
        Not used.
    batch : int
        Texts in a batch, as expected; at most those of the task.
    steps, learning_rate
        As of `DPDiffusion`.
    """
    training = DPDiffusion(epsilon, batch_rate(task, batch), steps, learning_rate)
    return training.fit(task.texts, task.labels, rng, start=public_start())


STUDY = Study(fitted, sampling=("denoising",))
item, scores = STUDY.item, STUDY.scores
