"""Exact losses of Cape at places of film snippets, a part of the pairs at a time (arXiv 2505.05922).

The loss of one token is the largest log-ratio over all pairs of the vocabulary (`exact_loss.bucketed_losses`), half a
minute's work at 29,523 words. Here the words that may stand at the place are dealt to 13 blocks, and an item looks at
four of them. Blocks i, i + 1, i + 3 and i + 9 (mod 13) for i = 0 ... 12 are the lines of the projective plane of
order 3 (0, 1, 3, 9 is a perfect difference set: Singer 1938): any two blocks are together in exactly one of them, so
every pair of words is in some item, and `joined` gives what one pass over all words would.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dprepro.audits.cape_study import ABLATION, context_named, cut_snippets, places_of
from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.perturbation import BLOCK, Array
from dprepro.mechanisms.prompt.vocabulary import IntArray

BLOCKS = 13
LINE = (0, 1, 3, 9)  # every difference but 0 occurs once, mod 13


class Losses(NamedTuple):
    """Losses of Cape over all pairs of some inputs, and the buckets of these.

    Attributes
    ----------
    exact : array, shape (m,)
        Largest log-ratio in nats, for each epsilon.
    output, likely, unlikely : int
        Rows of the output and of the two inputs that give the last one.
    fewest, most : int
        Buckets that are not empty.
    smallest, largest : int
        Words in a bucket that is not empty.
    ratio : float
        Largest over smallest size within one input, the largest over inputs.
    """

    exact: Array
    output: int
    likely: int
    unlikely: int
    fewest: int
    most: int
    smallest: int
    largest: int
    ratio: float


def inputs_of(item: int, size: int) -> IntArray:
    """Return the rows of a vocabulary that an item looks at: those of four blocks, a row's block being row mod 13."""
    return np.flatnonzero(np.isin((np.arange(size) - item) % BLOCKS, LINE))


def losses_among(
    mechanism: Cape, epsilons: Sequence[float], context: ArrayLike | None, inputs: IntArray
) -> Losses:
    """Exact losses of Cape at one place over all pairs of some inputs.

    Parameters
    ----------
    mechanism : Cape
    epsilons : sequence of float
    context : array, shape (V,), or None
        Logits at the place; None only if they have no weight.
    inputs : int array, shape (n,)
        Rows of the words that may stand there.
    """
    size, line = len(mechanism.vocabulary), None if context is None else np.asarray(context)[None]
    high, low = np.full((size, len(epsilons)), -np.inf), np.full((size, len(epsilons)), np.inf)
    ends = np.zeros((2, size), np.int64)  # the inputs where the last epsilon's high and low are
    least, largest, filled, values = [], [], [], np.empty_like(high)
    width = max(1, BLOCK // size)
    for start in range(0, len(inputs), width):
        rows = inputs[start : start + width]
        found = mechanism.bucketing(rows, line)
        tokens = np.stack([mechanism.log_token(found, epsilon) for epsilon in epsilons], axis=2)
        before = high[:, -1].copy(), low[:, -1].copy()
        # Input by input the running extremes stay in the cache; a whole block of them would not.
        for of_bucket, bucket in zip(tokens, found.bucket, strict=True):
            np.take(of_bucket, bucket, axis=0, out=values, mode="clip")  # "clip" writes without a copy
            np.maximum(high, values, out=high)
            np.minimum(low, values, out=low)
        for end, moved, best in zip(
            ends, (high[:, -1] > before[0], low[:, -1] < before[1]), (high, low), strict=True
        ):
            columns = np.flatnonzero(moved)
            last = tokens[np.arange(len(rows))[:, None], found.bucket[:, columns], -1]
            end[columns] = rows[np.argmax(last == best[columns, -1], axis=0)]
        least.append(np.where(found.sizes > 0, found.sizes, size).min(axis=1))
        largest.append(found.sizes.max(axis=1))
        filled.append((found.sizes > 0).sum(axis=1))
    exact, output = (high - low).max(axis=0), int((high - low)[:, -1].argmax())
    fewest, most = np.concatenate(filled), np.concatenate(largest)
    smallest = np.concatenate(least)
    return Losses(
        exact,
        output,
        int(ends[0, output]),
        int(ends[1, output]),
        int(fewest.min()),
        int(fewest.max()),
        int(smallest.min()),
        int(most.max()),
        float((most / smallest).max()),
    )


def losses(
    key: str, rng: np.random.Generator, *, sentences: int, place_seed: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: losses of Cape at one place of a snippet, over the pairs of four of 13 blocks of words.

    Parameters
    ----------
    key : str
        "Cape, 0, 12": a variant of `ABLATION`, the number of the place, a sensitive token drawn by `place_seed`, and
        which four blocks.
    rng : Generator
        Not used: nothing is sampled.
    sentences : int
        The places are in the first so many test snippets.
    place_seed : int
    epsilons : sequence of float

    Returns
    -------
    dict
        word, the token at the place, and text; epsilons; the parts of `Losses`, with words in place of rows.

    Raises
    ------
    ValueError
        A key that names no variant.
    """
    name, number, blocks = key.split(", ")
    model = context_named("masked")
    cuts = cut_snippets(model, "both", sentences, 1, 0)
    texts, positions = next(places_of(cuts, len(cuts) * 100))
    order = np.random.default_rng([place_seed, int(number)]).permutation(len(texts))[:1]
    cut, position = cuts[texts[order[0]]], int(positions[order[0]])
    mechanism = Cape(model.vocabulary, "both", model, **ABLATION[one_of("variant", name, tuple(ABLATION))])
    context = model.logits(cuts, texts[order], positions[order])[0]
    words = model.vocabulary.words
    found = losses_among(mechanism, epsilons, context, inputs_of(int(blocks), len(words)))
    return {
        "word": cut.tokens[position],
        "text": model.vocabulary.join(cut.tokens),
        "epsilons": list(epsilons),
        **found._asdict(),
        **{part: words[getattr(found, part)] for part in ("output", "likely", "unlikely")},
    }


def joined(items: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Put the items of each variant and place together: exact losses over all pairs, beside the bounds.

    Parameters
    ----------
    items : mapping
        The saved result, by the keys of `losses`.

    Returns
    -------
    dict
        By "Cape, 0": word and text; lists over epsilons: exact, own, stated, corrected (see
        `exact_loss.BucketedLoss`); output, likely, unlikely: where the last exact loss is reached; fewest, most:
        buckets that are not empty, over all inputs.

    Raises
    ------
    ValueError
        A variant and place without all of its items.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for key, item in items.items():
        groups[key.rpartition(", ")[0]].append(item)
    found = {}
    for key, parts in groups.items():
        if {f"{key}, {i}" for i in range(BLOCKS)} - set(items):
            raise ValueError(f"items must have 0 to {BLOCKS - 1} of {key!r}, got {len(parts)}")
        worst = max(parts, key=lambda part: part["exact"][-1])
        fewest, smallest = (min(part[name] for part in parts) for name in ("fewest", "smallest"))
        most, largest, ratio = (max(part[name] for part in parts) for name in ("most", "largest", "ratio"))
        epsilons = np.array(worst["epsilons"])
        stated = epsilons + np.log(largest / smallest)
        found[key] = {
            **{name: worst[name] for name in ("word", "text", "output", "likely", "unlikely")},
            "exact": np.max([part["exact"] for part in parts], axis=0).tolist(),
            "own": (epsilons + np.log(ratio)).tolist(),
            "stated": stated.tolist(),
            "corrected": (stated + np.log(most / fewest)).tolist(),
            "fewest": fewest,
            "most": most,
        }
    return found
