"""What the zero-shot filter does to MAUVE: synthetic film reviews with it and without, at equal numbers of texts.

SynBench (arXiv 2509.14594) reports that keeping texts with a high P(yes) - P(no) raises MAUVE. MAUVE depends on the
number of texts, so the half that the filter keeps is compared with random halves of the same corpus. Each corpus
comes from a generator that was fitted anew on private texts of its own.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from dprepro.base.check import one_of
from dprepro.mechanisms.synthesis.aug_pe import AugPE, EvolvedTexts
from dprepro.mechanisms.synthesis.dp_gen import DPGen, TextGenerator
from dprepro.mechanisms.synthesis.post_filter import PostFilter, best
from dprepro.mechanisms.synthesis.variations import Continuations
from dprepro.stats.tradeoff import auc
from dprepro.text.corpora import corpus
from dprepro.text.embedders import embedder
from dprepro.text.fidelity import mauve
from dprepro.text.responders import responder
from dprepro.text.tiny_lm import tiny_lm

FloatArray = NDArray[np.float64]

DP_GEN, AUG_PE = "DP-Gen", "AUG-PE"
GENERATORS = (DP_GEN, AUG_PE)
LABELS = ("negative", "positive")
SHOWN = 3  # texts at each end of the scores that are kept for the reader
REAL = 60  # reference texts that are scored as well


def report(
    key: str,
    rng: np.random.Generator,
    *,
    question: str,
    epsilon: float,
    private: int,
    reference: int,
    written: int,
    share: float,
    halves: int,
    max_tokens: int,
    dp_gen: list[float],
    aug_pe: list[int],
) -> dict[str, Any]:
    """Fit a generator, filter its corpus, measure; one item of the saved result ``synbench_post_filter``.

    Parameters
    ----------
    key : str
        "DP-Gen, <number>" or "AUG-PE, <number>".
    rng : Generator
    question : str
        Of `PostFilter`.
    epsilon : float
        Of the generator; delta is its default.
    private : int
        Texts of the train split, drawn anew for each corpus, half of each class.
    reference : int
        Texts of the test split, the same for all: MAUVE is measured against them.
    written : int
        Texts of each class.
    share : float
        What is kept.
    halves : int
        Random choices of as many texts of each class.
    max_tokens : int
        Of a text.
    dp_gen : list of float
        sample_rate, steps, learning_rate; by the RDP account, the quickest.
    aug_pe : list of int
        rounds, kept, variations.

    Returns
    -------
    dict
        epsilon, delta; texts and blanks; mauve of the whole corpus, of what the filter keeps, of what it drops, and
        of the half that lies nearest to real texts, which a filter that knew them could keep; "mauve, random" of each
        random choice, "mauve, random visible" where blank texts are chosen last, as the filter does; recognised: AUC
        of the scores of real texts against those of synthetic ones; nearness: rank correlation of a text's score with
        its cosine to the nearest real one; "score, mean"; best, worst: the texts at both ends.

    Notes
    -----
    The scores themselves differ from processor to processor in their fifth digit, and are not stored.
    """
    kind = one_of("key", key.partition(", ")[0], GENERATORS)
    asks = PostFilter(_responder(), question, share)
    texts, labels = _films("train", private, rng)
    made: EvolvedTexts | TextGenerator
    counts = dict.fromkeys(LABELS, written)
    if kind == AUG_PE:
        writer = Continuations(*tiny_lm(), max_tokens)
        rounds, keeps, variations = aug_pe
        made = AugPE(epsilon, rounds, keeps, variations).fit(writer, _embedder(), texts, labels, rng)
        wrote = made.sample(counts, rng)
    else:
        rate, steps, speed = dp_gen
        made = DPGen(epsilon, rate, int(steps), speed, accountant="rdp").fit(*tiny_lm(), texts, labels, rng)
        wrote = made.sample(counts, rng, max_tokens)
    scores = asks.scores(wrote.texts, wrote.labels)
    real_texts, real_labels, real = _reference(reference)
    vectors = _embedder().encode(wrote.texts)
    kept = best(scores, wrote.labels, share)
    nearest = (vectors @ real.T).max(axis=1)
    order = np.argsort(-scores, kind="stable")

    def measured(places: NDArray[np.int64]) -> float:
        return float(f"{mauve(real, vectors[places]):.6g}")

    everything = np.arange(len(scores))
    visible = np.array([bool(text.strip()) for text in wrote.texts])
    return {
        "epsilon": made.epsilon,
        "delta": made.delta,
        "texts": len(wrote.texts),
        "blanks": wrote.blanks,
        "mauve": measured(everything),
        "mauve, kept": measured(kept),
        "mauve, dropped": measured(np.setdiff1d(everything, kept)),
        "mauve, nearest": measured(best(nearest, wrote.labels, share)),
        "mauve, random": [
            measured(best(rng.random(len(scores)), wrote.labels, share)) for _ in range(halves)
        ],
        "mauve, random visible": [
            measured(best(visible + rng.random(len(scores)), wrote.labels, share)) for _ in range(halves)
        ],
        "recognised": round(float(auc(asks.scores(real_texts[:REAL], real_labels[:REAL]), scores)), 2),
        "nearness": round(float(spearmanr(scores, nearest).statistic), 2),
        "score, mean": round(float(scores[visible].mean()), 3),
        "best": [wrote.texts[place] for place in order[:SHOWN]],
        "worst": [wrote.texts[place] for place in order[: -SHOWN - 1 : -1]],
    }


def _films(side: str, number: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Draw film reviews of one side of the split, half of each sign."""
    table = corpus("movies").without_copies().split(side).table
    texts: list[str] = []
    for positive in (False, True):
        pool = table["text"][(table["sentiment"] > 0) == positive].to_numpy()
        texts += rng.choice(pool, size=number // 2, replace=False).tolist()
    return texts, [label for label in LABELS for _ in range(number // 2)]


@cache
def _reference(number: int) -> tuple[list[str], list[str], FloatArray]:
    """Real texts, the same for every corpus, in random order, with their embeddings."""
    rng = np.random.default_rng(0)
    texts, labels = _films("test", number, rng)
    order = rng.permutation(len(texts))
    texts, labels = ([values[place] for place in order] for values in (texts, labels))
    return texts, labels, _embedder().encode(texts)


@cache
def _embedder() -> Any:
    return embedder()


@cache
def _responder() -> Any:
    return responder(progress=False)
