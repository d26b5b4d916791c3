"""Attacks on perturbed prompts, computed from the exact output distribution wherever it can be.

Three attackers see one token come out and name what came in. *Nearest neighbours* (embedding inversion, as in the
evaluation of Cape, arXiv 2505.05922): the original is among the K words nearest to the output, itself counted as the
first. *Bayes*: the word with the largest posterior probability for a prior over words, the best that any attacker who
sees this token can do. *Mask-token inference*: mask a place of the perturbed text and take a masked language model's
first guess; this one uses the text around, and is counted on samples.

A success rate is over sensitive tokens, those the mechanism is there to protect; `with_kept` adds tokens of the
keep-list, which come out as they are, as hits. Published rates mix the two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.prompt.context import MaskedContext
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array, Perturbed, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import OUTSIDE, FloatArray, Tokens, Vocabulary


def neighbour_reach(vocabulary: Vocabulary, ks: Sequence[int]) -> FloatArray:
    """Distance from each word within which its K nearest words lie, itself the first of them.

    Parameters
    ----------
    vocabulary : Vocabulary
    ks : sequence of int
        Each 1 to V.

    Returns
    -------
    float32 array, shape (V, len(ks))

    Raises
    ------
    ValueError
        A K outside its domain.
    """
    counts = positive_count("ks", list(ks))
    size = len(vocabulary)
    if counts.max() > size:
        raise ValueError(f"ks must be at most the {size} words there are, got {counts.max()}")
    found = np.empty((size, len(counts)), np.float32)
    width = max(1, BLOCK // size)
    for start in range(0, size, width):
        rows = np.arange(start, min(start + width, size))
        nearest = np.partition(vocabulary.distances(rows), np.unique(counts - 1), axis=1)
        found[rows] = nearest[:, counts - 1]
    # A distance computed from its other end differs in the last bits; the K-th word must not fall out by them.
    return found * np.float32(1 + 1e-5)


def nearest_success(
    mechanism: PromptMechanism,
    rows: ArrayLike,
    epsilon: float,
    reach: FloatArray,
    contexts: ArrayLike | None = None,
) -> Array:
    """Probability that the original is among the K words nearest to the output, exactly.

    Parameters
    ----------
    mechanism : PromptMechanism
    rows : int array, shape (n,)
        Original tokens. One outside the vocabulary (-1) is found with certainty where the mechanism keeps such
        tokens, and never otherwise.
    epsilon : float
    reach : float32 array, shape (V, m)
        From `neighbour_reach`, for m values of K.
    contexts : array, shape (n, V), optional

    Returns
    -------
    array, shape (n, m)
    """
    wanted = np.asarray(rows, np.int64)
    found = np.full((len(wanted), reach.shape[1]), float(mechanism.outside == "kept"))
    inside = np.flatnonzero(wanted != OUTSIDE)
    # Without context equal inputs share a distribution.
    first, which = np.arange(len(inside)), np.arange(len(inside))
    if contexts is None:
        _, first, which = np.unique(wanted[inside], return_index=True, return_inverse=True)
    each = np.empty((len(first), reach.shape[1]))
    width = max(1, BLOCK // len(mechanism.vocabulary))
    for start in range(0, len(first), width):
        places = inside[first[start : start + width]]
        context = None if contexts is None else np.asarray(contexts)[places]
        channel = np.exp(mechanism.log_channel(wanted[places], epsilon, context))
        distance = mechanism.vocabulary.distances(wanted[places])
        for column, limit in enumerate(reach.T):
            each[start : start + width, column] = (channel * (distance <= limit)).sum(axis=1)
    found[inside] = each[which]
    return found


def bayes_success(
    mechanism: PromptMechanism,
    rows: ArrayLike,
    prior: ArrayLike,
    epsilon: float,
    context: ArrayLike | None = None,
) -> float:
    """Probability that the attacker who knows prior and mechanism names the original token, exactly.

    Parameters
    ----------
    mechanism : PromptMechanism
    rows : int array, shape (n,)
        The tokens that can come in, in the vocabulary, each once.
    prior : array_like, shape (n,)
        Their probabilities.
    epsilon : float
    context : array, shape (V,), optional
        What a contextual mechanism is told of the place; the attacker knows it too.

    Returns
    -------
    float
        The sum over outputs y of the largest prior(x) P(y|x); at least the largest prior, which is what a guess
        without the output is right with.

    Raises
    ------
    ValueError
        A prior that is not one.
    """
    inputs, weight = np.asarray(rows, np.int64), in_interval("prior", prior, 0.0, 1.0)
    if weight.shape != inputs.shape or abs(weight.sum() - 1) > 1e-9:
        raise ValueError(
            f"prior must be one probability for each of {inputs.size} tokens with sum 1, "
            f"got shape {weight.shape} and sum {weight.sum():.6g}"
        )
    best = np.zeros(len(mechanism.vocabulary))
    width = max(1, BLOCK // len(best))
    for start in range(0, len(inputs), width):
        part = slice(start, start + width)
        places = None if context is None else np.asarray(context)[None]
        joint = np.exp(mechanism.log_channel(inputs[part], epsilon, places))
        joint *= weight[part, None]
        np.maximum(best, joint.max(axis=0), out=best)
    return float(best.sum())


class Hits(NamedTuple):
    """Guessed tokens of perturbed texts.

    Attributes
    ----------
    sensitive, kept : bool array
        Whether the original was guessed, one entry a token that is not on the keep-list, and one that is.
    """

    sensitive: NDArray[np.bool_]
    kept: NDArray[np.bool_]


def mask_inference(perturbed: Perturbed, model: MaskedContext) -> Hits:
    """Mask each place of the perturbed texts in turn, and compare the model's first guess with the original.

    Parameters
    ----------
    perturbed : Perturbed
        By a mechanism whose vocabulary is the model's; a token that was dropped left no place, so it is not guessed.
    model : MaskedContext
        With the view "masked", which is the attack's.

    Raises
    ------
    ValueError
        Another view.
    """
    if model.view != "masked":
        raise ValueError(f"model must have the view 'masked', got {model.view!r}")
    sent, texts, positions, original, kept = [], [], [], [], []
    for number, (cut, after) in enumerate(zip(perturbed.cuts, perturbed.tokens, strict=True)):
        stayed = [i for i, token in enumerate(after) if token]
        sent.append(Tokens(tuple(after[i] for i in stayed), cut.rows[stayed], cut.kept[stayed]))
        places = np.full(len(after), OUTSIDE)
        places[stayed] = np.arange(len(stayed))
        texts.append(np.full(len(after), number))
        positions.append(places)
        original.append(cut.rows)
        kept.append(cut.kept)
    where, place, true, on_list = (
        np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (texts, positions, original, kept)
    )
    right, left = np.zeros(len(true), bool), np.flatnonzero(place != OUTSIDE)
    width = max(1, BLOCK // len(model.vocabulary))
    for start in range(0, len(left), width):
        part = left[start : start + width]
        right[part] = model.logits(sent, where[part], place[part]).argmax(axis=1) == true[part]
    return Hits(right[on_list == 0], right[on_list == 1])


def with_kept(success: float, sensitive: int, kept: int) -> float:
    """Return a success rate over all tokens, those on the keep-list counted as hits.

    Parameters
    ----------
    success : float
        Rate over the sensitive tokens.
    sensitive, kept : int
        How many tokens there are of each; not both 0.

    Raises
    ------
    ValueError
        An argument outside its domain, or no token at all.
    """
    rate = float(in_interval("success", success, 0.0, 1.0))
    hidden, shown = (
        int(positive_count(n, v, minimum=0)) for n, v in (("sensitive", sensitive), ("kept", kept))
    )
    if hidden + shown == 0:
        raise ValueError("sensitive and kept must not both be 0")
    return (rate * hidden + shown) / (hidden + shown)
