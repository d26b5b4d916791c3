"""Does DP-Diffusion collapse under strong noise? Its texts on film reviews, by budget and by where it starts from.

SynBench (arXiv 2509.14594) reports that its diffusion model collapses at epsilon 1 and below: blanks and garbled
symbols. What counts as broken is fixed here, text by text (`broken`); ``diffusion_report`` says when a model has
collapsed. The starts are the generator's two: weights drawn anew, and weights from public text, which holds no film
review.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dprepro.base.check import one_of
from dprepro.mechanisms.synthesis.diffusion_net import Weights
from dprepro.mechanisms.synthesis.diffusion_start import public_start
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window
from dprepro.mechanisms.synthesis.dp_diffusion import DiffusionGenerator, DPDiffusion
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.stats.f1 import F1, f1
from dprepro.text.classifiers import tfidf_classifier
from dprepro.text.corpora import corpus
from dprepro.text.public_text import public_pieces

SCRATCH, PUBLIC, UNTRAINED, REAL = "scratch", "public", "untrained", "real"
STARTS = (SCRATCH, PUBLIC)
LABELS = ("bad", "good")
_WORD = re.compile(r"[a-z]+")
_LEAST = 4  # words: a shorter text has no room to repeat itself


class Films(NamedTuple):
    """Private texts and texts to test on, all cut to the window, with their classes."""

    texts: list[str]
    labels: list[str]
    test_texts: list[str]
    test_labels: list[str]


class Broken(NamedTuple):
    """How many texts are blank, repeat one word, or are garbled; a text counts once, in the first that fits."""

    blank: int
    repeated: int
    garbled: int


def corpus_quality(
    key: str,
    rng: np.random.Generator,
    *,
    private: int,
    tested: int,
    written: int,
    sample_rate: float,
    steps: int,
    learning_rate: float,
    denoising: int,
    shown: int,
) -> dict[str, Any]:
    """Train a generator, let it write, and look at what it wrote; one item of ``synbench_diffusion``.

    Parameters
    ----------
    key : str
        "<start>, <epsilon>, <number>" with start "scratch" or "public", the number that of a repetition: private
        texts are the same in all. To hold them against: "untrained, inf, <number>", the public start without any
        private text, and "real, <number>", further real texts in place of synthetic ones.
    rng : Generator
    private, tested : int
        Private texts (N) and texts to test on.
    written : int
        Texts of each class.
    sample_rate, steps, learning_rate
        As of `DPDiffusion`; delta is 1/N.
    denoising : int
        Steps from noise to text.
    shown : int
        Texts of each class to keep as examples.

    Returns
    -------
    dict
        epsilon (as a text: JSON has no infinity), delta, noise_multiplier, by the account; texts; blank, repeated,
        garbled (counts, `broken`); words (in a text, on average); distinct (different words over all words; 0
        without words); micro, macro (F1 of a classifier of the texts on real ones); correct (of `tested`); examples.
    """
    start, *rest = key.split(", ")
    found = films(private, tested)
    account: dict[str, Any] = {"epsilon": "inf", "delta": 0.0, "noise_multiplier": 0.0}
    if one_of("start", start, (*STARTS, UNTRAINED, REAL)) == REAL:
        wrote = _further(private, written, int(rest[0]))
    else:
        weights = None if start == SCRATCH else public_start()
        if start == UNTRAINED:
            made = untrained(weights)  # type: ignore[arg-type]  # not from scratch, so there are weights
        else:
            mechanism = DPDiffusion(float(rest[0]), sample_rate, steps, learning_rate)
            made = mechanism.fit(found.texts, found.labels, rng, start=weights)
            account = {
                "epsilon": f"{made.epsilon:.6g}",
                "delta": made.delta,
                "noise_multiplier": float(f"{made.noise_multiplier:.6g}"),
            }
        wrote = made.sample(dict.fromkeys(LABELS, written), rng, denoising)
    words = [word for text in wrote.texts for word in _words(text)]
    score = utility(wrote, found)
    return {
        **account,
        "texts": len(wrote.texts),
        **broken(wrote.texts, known_words(private))._asdict(),
        "words": len(words) / len(wrote.texts),
        "distinct": len(set(words)) / max(1, len(words)),
        "micro": score.micro,
        "macro": score.macro,
        "correct": round(score.micro * len(found.test_labels)),
        "examples": [wrote.texts[i] for first in (0, written) for i in range(first, first + shown)],
    }


def untrained(weights: Weights) -> DiffusionGenerator:
    """Return a generator of the public start itself: two labels without an effect, nothing spent."""
    import torch

    none = torch.zeros(len(LABELS), weights["label"].shape[1])
    return DiffusionGenerator({**weights, "label": none}, LABELS, 0.0, 0.0, 0.0)


def broken(texts: Sequence[str], known: frozenset[str]) -> Broken:
    """Count broken texts.

    Parameters
    ----------
    texts : sequence of str
    known : frozenset of str
        Words in lower case.

    Returns
    -------
    Broken
        *blank*: no word of letters a to z. *repeated*: four words or more, at least half of them the same.
        *garbled*: more than half of the words are not known.
    """
    counts = Counter(_kind(_words(text), known) for text in texts)
    return Broken(*(counts[kind] for kind in Broken._fields))


def utility(wrote: SyntheticTexts, found: Films) -> F1:
    """F1 on real texts of a classifier that was trained on synthetic ones with a word.

    Where a class has no such text, the classifier is one that always answers the other, or the first.
    """
    pairs = [(t, label) for t, label in zip(wrote.texts, wrote.labels, strict=True) if _words(t)]
    left = sorted({label for _, label in pairs}) or [LABELS[0]]
    if len(left) == 1:
        return f1(found.test_labels, left * len(found.test_labels))
    classifier = tfidf_classifier().fit(*map(list, zip(*pairs, strict=True)))
    return f1(found.test_labels, classifier.predict(found.test_texts).tolist())


@cache
def films(private: int, tested: int) -> Films:
    """Return the first snippets of film reviews of the training and of the test side, in an order of their own."""
    sides = []
    for side, number in (("train", private), ("test", tested)):
        table = corpus("movies").without_copies().split(side).table
        rows = table.iloc[np.random.default_rng(20250916).permutation(len(table))[:number]]
        sides += [
            cut_to_window(list(rows["text"])),
            [LABELS[int(value > 0)] for value in rows["sentiment"]],
        ]
    return Films(*sides)


@cache
def known_words(private: int) -> frozenset[str]:
    """Return all words of the public text and of the private texts."""
    public = (piece for pieces in public_pieces("train").values() for piece in pieces)
    return frozenset(
        word for texts in (public, films(private, 1).texts) for text in texts for word in _words(text)
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _kind(words: list[str], known: frozenset[str]) -> str:
    if not words:
        return "blank"
    if len(words) >= _LEAST and 2 * Counter(words).most_common(1)[0][1] >= len(words):
        return "repeated"
    return "garbled" if 2 * sum(word not in known for word in words) > len(words) else "whole"


def _further(private: int, number: int, repetition: int) -> SyntheticTexts:
    """Real texts of each class behind the private ones, others in each repetition."""
    width = 4 * number  # no class is so rare that it lacks `number` texts among so many
    behind = films(private + width * (repetition + 1), 1)
    pairs = list(zip(behind.texts, behind.labels, strict=True))[-width:]
    rows = [[text for text, own in pairs if own == label][:number] for label in LABELS]
    return SyntheticTexts([*rows[0], *rows[1]], [LABELS[0]] * number + [LABELS[1]] * number, 0)
