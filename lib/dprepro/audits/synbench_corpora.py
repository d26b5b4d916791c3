"""Synthetic corpora of many private subsets, and what two attacks see of each: the data of the membership study.

The design of SynBench (arXiv 2509.14594) and of Meeus et al. (arXiv 2502.14921) on open text (``synbench_films``): a
generator (``mechanisms.synthesis.dp_gen``) writes a corpus for each private subset. Kept are, for each target, its
log-probability under n-gram models of that corpus (``ngram_scores``), which is all that the attack on the text needs,
and the loss of the generator's own model, the white box. The corpora themselves, three megabytes a generator, can be
made again from the seeds.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dprepro.audits.ngram_scores import blanks, target_logprobs, tokens
from dprepro.audits.synbench_films import LABELS, Films, films
from dprepro.base.check import one_of
from dprepro.mechanisms.synthesis.dp_gen import DPGen, TextGenerator
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.text.tiny_lm import tiny_lm

PLAIN, PRIVATE, NO_NOISE, HALF_NOISE, CONTROL = "plain", "private", "no noise", "half the noise", "control"
GENERATORS = (PLAIN, PRIVATE, NO_NOISE, HALF_NOISE, CONTROL)
ORDERS = (1, 2, 3, 4)

_SHARES = {PLAIN: 1.0, PRIVATE: 1.0, NO_NOISE: 0.0, HALF_NOISE: 0.5}


def corpus_scores(
    key: int,
    rng: np.random.Generator,
    *,
    targets: str,
    generator: str,
    epsilon: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
    written: int,
    max_tokens: int,
) -> dict[str, Any]:
    """Make the corpus of one subset and score all targets; one item of the saved results ``synbench_...``.

    Parameters
    ----------
    key : int
        Number of the subset.
    rng : Generator
    targets : str
        Saved result with the targets and the design.
    generator : str
        "plain": neither clipping nor noise; "private": at `epsilon`; "no noise", "half the noise": at `epsilon` by
        its account, with the noise left out or halved; "control": the public model, which saw no private text.
    epsilon, sample_rate, steps, learning_rate
        As of `DPGen`; delta is 1/N, with N the texts of a subset and all targets.
    written : int
        Texts of each label, the same number for every subset: a corpus whose size depended on its subset would tell
        how many targets are in.
    max_tokens : int
        Of a text.

    Returns
    -------
    dict
        epsilon (as a text: JSON has no infinity), delta, noise_multiplier, by the account; texts; blanks (texts
        without a visible character); wordless (without a word: blanks among them); words (in a text, on average); for
        each target: "log-probability, <n>", in total, under the n-gram model; loss, mean per token, of the white box.

    Notes
    -----
    In single precision: summing in another order moves losses by 3e-7 at most, relatively, and no text.
    """
    found = films(targets)
    made = _generator(key, rng, found, generator, epsilon, sample_rate, steps, learning_rate)
    wrote = made.sample(dict.fromkeys(LABELS, written), rng, max_tokens)
    return {
        "epsilon": f"{made.epsilon:.6g}",
        "delta": made.delta,
        "noise_multiplier": made.noise_multiplier,
        **_seen(wrote, found.targets),
        "loss": _rounded(made.losses(found.targets, found.labels)),
    }


def _generator(
    key: int,
    rng: np.random.Generator,
    found: Films,
    generator: str,
    epsilon: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
) -> TextGenerator:
    lm = tiny_lm()
    if one_of("generator", generator, GENERATORS) == CONTROL:
        return TextGenerator(*lm, LABELS, 0.0, 0.0, 0.0)
    budget = np.inf if generator == PLAIN else epsilon
    tuning = DPGen(budget, sample_rate, steps, learning_rate, noise_share=_SHARES[generator])
    # N does not depend on which targets are in, as the account assumes.
    records = found.design.private.shape[1] + len(found.targets)
    return tuning.fit(*lm, *found.subset(key), rng, records=records)


def _seen(wrote: SyntheticTexts, targets: list[str]) -> dict[str, Any]:
    return {
        "texts": len(wrote.texts),
        "blanks": wrote.blanks,
        "wordless": blanks(wrote.texts),
        "words": float(np.mean([len(tokens(text).split()) for text in wrote.texts])),
        **{
            f"log-probability, {order}": _rounded(target_logprobs(wrote.texts, targets, order))
            for order in ORDERS
        },
    }


def _rounded(values: ArrayLike) -> list[float]:
    # Seven digits: sums differ in their last bits between processors.
    return [float(f"{value:.7g}") for value in np.asarray(values, dtype=float)]
