"""AUG-PE in the utility and fidelity study (``synbench_by``): items of synbench_utility_aug_pe."""

from typing import Any

import numpy as np

from dprepro.audits.synbench_by import Study
from dprepro.audits.synbench_tasks import Task
from dprepro.base.check import positive_count
from dprepro.mechanisms.synthesis.aug_pe import AugPE, EvolvedTexts
from dprepro.mechanisms.synthesis.variations import Continuations
from dprepro.text.embedders import TextEmbedder
from dprepro.text.tiny_lm import tiny_lm

_LEAST = 2  # texts of a class that stay: a class of one says the same again in all it writes


def fitted(
    task: Task,
    epsilon: float,
    rng: np.random.Generator,
    embed: TextEmbedder,
    *,
    pool: int,
    rounds: int,
    variations: int,
    max_tokens: int,
) -> EvolvedTexts:
    """Let the private texts of a task vote on texts of the packaged model.

    Parameters
    ----------
    task, epsilon, rng
        As of `synbench_by.Study`.
    embed : TextEmbedder
        Of the votes and of the measures alike.
    pool : int
        Texts that stay after each round, in all classes together and as many of each; beyond them, what is written
        are variations of them.
    rounds, variations
        As of `AugPE`.
    max_tokens : int
        Of a text.

    Raises
    ------
    ValueError
        A pool of fewer than two texts a class.
    """
    classes = len(set(task.labels))
    kept = int(positive_count("pool", pool)) // classes
    if kept < _LEAST:
        raise ValueError(f"pool must be at least {_LEAST} texts for each of {classes} classes, got {pool}")
    votes = AugPE(epsilon, rounds=rounds, kept=kept, variations=variations)
    return votes.fit(Continuations(*tiny_lm(), max_tokens), embed, task.texts, task.labels, rng)


def said(made: EvolvedTexts) -> dict[str, Any]:
    """Return what the votes say of themselves, over all classes.

    Returns
    -------
    dict
        random_rounds: rounds in which no noisy count passed the threshold; unchanged: variations that were their
        source again.
    """
    return {
        "random_rounds": sum(above.count(0) for above in made.passed.values()),
        "unchanged": made.unchanged,
    }


STUDY = Study(fitted, also=said)
item, scores = STUDY.item, STUDY.scores
