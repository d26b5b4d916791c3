"""AUG-PE in the utility and fidelity study (``synbench_utility``): items of synbench_utility_aug_pe."""

from typing import Any

import numpy as np

from dprepro.audits.synbench_tasks import Task
from dprepro.audits.synbench_utility import account, measured, parsed, vectors
from dprepro.mechanisms.synthesis.aug_pe import AugPE
from dprepro.mechanisms.synthesis.variations import Continuations
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
    pool: int,
    rounds: int,
    variations: int,
    written: int,
    max_tokens: int,
) -> dict[str, Any]:
    """Let the private texts of a task vote on texts of the packaged model, and measure those chosen.

    Parameters
    ----------
    task : Task
    epsilon : float
        Infinity for votes without noise.
    rng : Generator
    embed : TextEmbedder
        Of the votes and of the measures alike.
    pool : int
        Texts that stay after each round, in all classes together.
    rounds, variations
        As of `AugPE`.
    written : int
        Synthetic texts, about; by classes as the private texts. Beyond those that stay they are variations of them.
    max_tokens : int
        Of a text.

    Returns
    -------
    dict
        As `synbench_utility.account` and `synbench_utility.measured`, and random_rounds: rounds, over all classes,
        in which no noisy count passed the threshold; unchanged: variations that were their source again.
    """
    kept = max(2, pool // len(set(task.labels)))
    votes = AugPE(epsilon, rounds=rounds, kept=kept, variations=variations)
    made = votes.fit(Continuations(*tiny_lm(), max_tokens), embed, task.texts, task.labels, rng)
    return {
        **account(made),
        **measured(task, made.sample(task.counts(written), rng), embed),
        "random_rounds": sum(above.count(0) for above in made.passed.values()),
        "unchanged": made.unchanged,
    }
