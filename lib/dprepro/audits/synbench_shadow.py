"""Classifiers to be attacked: trained on synthetic text, or on the private text itself, with DP and without.

The stand-in for SynBench's table 4 (arXiv 2509.14594). Private texts are short film reviews, each in the training set
of exactly half of M models (``ngram_design.half_and_half``), so that every model is a target once and a shadow model
for all others (``shadow``). SYN: a generator (DP-Gen) is fine-tuned on the private texts, and a classifier is trained
without any privacy on what it writes. PRI: a classifier is trained on the private texts, with DP-SGD or without. Both
are the same logistic regression on the same public features, so that what differs is the way from the texts to it.
The generators take long, so the confidences of SYN are saved results; PRI is trained where it is looked at.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.ngram_design import half_and_half
from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.accounting import noise_multiplier_for
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel
from dprepro.mechanisms.synthesis.dp_gen import DPGen
from dprepro.text.corpora import corpus
from dprepro.text.embedders import embedder
from dprepro.text.tiny_lm import tiny_lm

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LABELS = ("bad", "good")
FEATURES = ("sentences", "words")

_HASHED = 2048  # columns of words: public, since a vocabulary taken from the texts would tell of them
_LARGEST_GRADIENT = 2**0.5  # rows have length one at most, and the bias adds one


@dataclass(frozen=True)
class ShadowDesign:
    """Texts, labels and who is trained on what.

    Attributes
    ----------
    texts, labels : list of str, length T + Z
        T private texts, then Z texts of the same population that no model is trained on. Half of each are "good".
    included : ndarray of bool, shape (M, T)
        Which model is trained on which private text, each text in exactly half of them.
    """

    texts: list[str]
    labels: list[str]
    included: BoolArray

    @property
    def good(self) -> FloatArray:
        """Return the labels as numbers, 1 for "good", shape (T + Z,)."""
        return (np.array(self.labels) == "good").astype(float)

    def private(self, model: int) -> tuple[list[str], list[str]]:
        """Return the private texts of a model and their labels."""
        places = np.flatnonzero(self.included[model]).tolist()
        return [self.texts[place] for place in places], [self.labels[place] for place in places]


@cache
def shadow_design(
    data_seed: int, fewest: int, most: int, private: int, population: int, models: int
) -> ShadowDesign:
    """Draw film snippets and the models' training sets.

    Parameters
    ----------
    data_seed : int
    fewest, most : int
        Tokens of the small causal model that a snippet may have.
    private, population : int
        T and Z, both even.
    models : int
        M, even.

    Raises
    ------
    ValueError
        Odd or too large numbers.
    """
    sizes = [int(positive_count(name, n)) for name, n in (("private", private), ("population", population))]
    texts, good = _snippets(fewest, most)
    halves = [size // 2 for size in sizes]
    if any(size % 2 for size in sizes) or sum(halves) > min(good.sum(), (~good).sum()):
        raise ValueError(f"private and population must be even and fit the snippets, got {sizes}")
    rng = np.random.default_rng(data_seed)
    drawn = [rng.permutation(np.flatnonzero(side))[: sum(halves)] for side in (~good, good)]
    parts = [part[: halves[0]] for part in drawn] + [part[halves[0] :] for part in drawn]
    order = np.concatenate(parts).tolist()
    labels = [LABELS[int(good[place])] for place in order]
    return ShadowDesign([texts[place] for place in order], labels, half_and_half(models, private, rng))


def features(kind: str, texts: list[str]) -> FloatArray:
    """Return public features of texts, rows of Euclidean length one (a text without a word: 0 under "words").

    Parameters
    ----------
    kind : {"sentences", "words"}
        Embeddings of the packaged sentence embedder; or words and word pairs, hashed to 2,048 columns.
    texts : list of str, length n

    Returns
    -------
    ndarray, shape (n, d)
    """
    if one_of("kind", kind, FEATURES) == "sentences":
        return _embedder().encode(texts)
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(n_features=_HASHED, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b")
    return hashed.transform(texts).toarray()


def training(epsilon: float, delta: float, sample_rate: float, steps: int, learning_rate: float) -> DPSGD:
    """Return how a classifier is trained: DP-SGD with clipping norm 1; at infinite epsilon no noise, no clipping.

    Raises
    ------
    ValueError
        As `noise_multiplier_for`.
    """
    noise = noise_multiplier_for(epsilon, sample_rate, steps, delta)
    clipping = _LARGEST_GRADIENT if epsilon == np.inf else 1.0
    return DPSGD(noise, clipping, sample_rate, steps, learning_rate)


def confidences(model: LogisticModel, x: FloatArray, good: FloatArray) -> FloatArray:
    """Return the probability that a classifier gives the true label of each text, shape (n,)."""
    return np.exp(-model.loss(x, good))


def private_confidences(
    design: ShadowDesign, x: FloatArray, mechanism: DPSGD, rng: np.random.Generator
) -> FloatArray:
    """Train every model of a design on its private texts: the arm PRI.

    Parameters
    ----------
    design : ShadowDesign
    x : ndarray, shape (T + Z, d)
        `features` of its texts.
    mechanism : DPSGD
        From `training`.
    rng : Generator

    Returns
    -------
    ndarray, shape (M, T + Z)
        Confidences in the true labels.
    """
    private, good = design.included.shape[1], design.good
    found = []
    for members in design.included:
        own = np.flatnonzero(members)
        # Divided by T for every model, as the account assumes: how many texts are in tells nothing.
        model = mechanism.fit(x[own], good[own], rng, records=private)
        found.append(confidences(model, x, good))
    return np.array(found)


def synthetic_confidences(
    key: int,
    rng: np.random.Generator,
    *,
    data_seed: int,
    fewest: int,
    most: int,
    private: int,
    population: int,
    models: int,
    epsilon: float | str,
    sample_rate: float,
    steps: int,
    learning_rate: float,
    written: int,
    max_tokens: int,
    classifier_rate: float,
    classifier_steps: int,
    classifier_learning_rate: float,
) -> dict[str, Any]:
    """Fine-tune a generator on the private texts of a model, train classifiers on what it writes: the arm SYN.

    Parameters
    ----------
    key : int
        Number of the model; one item of the saved results ``synbench_shadow_...``.
    rng : Generator
    data_seed, fewest, most, private, population, models
        As of `shadow_design`.
    epsilon : float or "inf"
        Of the generator; JSON has no infinity. Delta is 1/T.
    sample_rate, steps, learning_rate
        As of `DPGen`.
    written : int
        Texts of each label.
    max_tokens : int
        Of a text.
    classifier_rate, classifier_steps, classifier_learning_rate
        As of `training`, which is without privacy here: what is written is no longer private.

    Returns
    -------
    dict
        epsilon (as a text), delta, noise_multiplier of the generator's account; blanks; copied_in, copied_out: how
        many of the private texts in and out it wrote word for word; for each kind of features the confidences in
        the true labels of the T + Z texts.
    """
    design = shadow_design(data_seed, fewest, most, private, population, models)
    budget = float(in_interval("epsilon", float(epsilon), 0, np.inf, closed="right"))
    tuning = DPGen(budget, sample_rate, steps, learning_rate)
    made = tuning.fit(*tiny_lm(), *design.private(key), rng, records=private)
    wrote = made.sample(dict.fromkeys(LABELS, written), rng, max_tokens)
    copied = np.isin(design.texts[:private], wrote.texts)
    good = (np.array(wrote.labels) == "good").astype(float)
    plain = training(np.inf, made.delta, classifier_rate, classifier_steps, classifier_learning_rate)
    return {
        "epsilon": f"{made.epsilon:.6g}",
        "delta": made.delta,
        "noise_multiplier": made.noise_multiplier,
        "blanks": wrote.blanks,
        "copied_in": int(copied[design.included[key]].sum()),
        "copied_out": int(copied[~design.included[key]].sum()),
        **{
            kind: _rounded(
                confidences(
                    plain.fit(features(kind, wrote.texts), good, rng),
                    _design_features(kind, tuple(design.texts)),
                    design.good,
                )
            )
            for kind in FEATURES
        },
    }


@cache
def _snippets(fewest: int, most: int) -> tuple[list[str], BoolArray]:
    table = corpus("movies").without_copies().table
    lengths = np.array([len(row) for row in tiny_lm().tokenizer(list(table["text"]))["input_ids"]])
    fits = table[(lengths >= fewest) & (lengths <= most)]
    return list(fits["text"]), fits["sentiment"].to_numpy() > 0


@cache
def _design_features(kind: str, texts: tuple[str, ...]) -> FloatArray:
    return features(kind, list(texts))


@cache
def _embedder() -> Any:
    return embedder(threads=1)


def _rounded(values: FloatArray) -> list[float]:
    # Seven digits: sums differ in their last bits between processors.
    return [float(f"{value:.7g}") for value in values]
