"""DP-Gen in the utility and fidelity study (``synbench_by``): items of synbench_utility_dp_gen."""

import numpy as np

from dprepro.audits.synbench_by import Study, batch_rate
from dprepro.audits.synbench_tasks import Task
from dprepro.mechanisms.synthesis.dp_gen import DPGen, TextGenerator
from dprepro.text.embedders import TextEmbedder
from dprepro.text.tiny_lm import tiny_lm


def fitted(
    task: Task,
    epsilon: float,
    rng: np.random.Generator,
    embed: TextEmbedder,
    *,
    batch: int,
    steps: int,
    learning_rate: float,
) -> TextGenerator:
    """Fine-tune the packaged model on a task.

    Parameters
    ----------
    task, epsilon, rng
        As of `synbench_by.Study`.
    embed : TextEmbedder
        Not used.
    batch : int
        Texts in a batch, as expected; at most those of the task.
    steps, learning_rate
        As of `DPGen`.
    """
    tuning = DPGen(epsilon, batch_rate(task, batch), steps, learning_rate)
    return tuning.fit(*tiny_lm(), task.texts, task.labels, rng)


STUDY = Study(fitted, sampling=("max_tokens",))
item, scores = STUDY.item, STUDY.scores
