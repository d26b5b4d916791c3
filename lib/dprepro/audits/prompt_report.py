"""Mechanisms compared at equal exposure: estimates over sentences with 95 % intervals.

A nominal epsilon means another protection for each mechanism of prompt perturbation (Cape, arXiv 2505.05922, compares
at one nominal epsilon). Put on one axis of a measured exposure, the exact loss or the success of the best attacker,
each mechanism is a curve of what it leaves of the text. Sentences are the units: intervals are for their mean, by the
normal approximation, and differences of two mechanisms are taken sentence by sentence.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, sample

Array = NDArray[np.float64]
Z = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


class Estimate(NamedTuple):
    """A value with the limits of its 95 % interval."""

    value: float
    low: float
    high: float


def mean(values: ArrayLike) -> Estimate:
    """Mean over sentences, shape (n,), n >= 2; ValueError for fewer or a value that is not finite."""
    array = sample("values", finite("values", values), minimum=2)
    reach = Z * float(array.std(ddof=1)) / len(array) ** 0.5
    return Estimate(float(array.mean()), float(array.mean()) - reach, float(array.mean()) + reach)


def difference(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Mean difference of two values of the same sentences, shape (n,) each.

    Raises
    ------
    ValueError
        Values of other sentences, fewer than two, or one that is not finite.
    """
    a, b = (
        sample(name, finite(name, values), minimum=2)
        for name, values in (("first", first), ("second", second))
    )
    if a.shape != b.shape:
        raise ValueError(f"first and second must be of the same sentences, got {len(a)} and {len(b)}")
    return mean(a - b)


def ratio(hits: ArrayLike, counts: ArrayLike) -> Estimate:
    """Share of tokens hit, with sentences as the units that vary.

    Parameters
    ----------
    hits, counts : array_like, shape (n,)
        (Expected) hits and tokens of each sentence; n >= 2, some token.

    Returns
    -------
    Estimate
        Limits from the linearised variance of a ratio, cut at 0 and 1.

    Raises
    ------
    ValueError
        Other numbers of hits and counts, fewer than two, one that is negative or infinite, or no token at all.
    """
    a, b = (
        sample(name, in_interval(name, values, 0, np.inf, closed="left"), minimum=2)
        for name, values in (("hits", hits), ("counts", counts))
    )
    if a.shape != b.shape or not b.sum() > 0:
        raise ValueError(f"counts must have a positive sum and one entry for each of hits, got {b.sum():g}")
    value = float(a.sum() / b.sum())
    reach = Z * float(np.std(a - value * b, ddof=1)) * len(a) ** 0.5 / float(b.sum())
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))


def at_exposure(exposure: float, exposures: ArrayLike, values: ArrayLike) -> Array | None:
    """Values of each sentence at an exposure between two that a mechanism was run at, by linear interpolation.

    Parameters
    ----------
    exposure : float
        Any number; infinity is beyond all.
    exposures : array_like, shape (m,)
        Measured exposure of each run; finite, different from each other.
    values : array_like, shape (m, n)
        What each run left of n sentences.

    Returns
    -------
    array, shape (n,), or None
        None where the mechanism was not run at smaller and at larger exposures: nothing is extrapolated.

    Raises
    ------
    ValueError
        An exposure that is NaN; exposures that are equal or not finite (nothing lies halfway to infinity), or values
        of another shape.
    """
    wanted = float(in_interval("exposure", exposure, -np.inf, np.inf))
    places, table = sample("exposures", finite("exposures", exposures)), finite("values", values)
    if table.ndim != 2 or len(table) != len(places) or len(np.unique(places)) != len(places):
        raise ValueError(
            f"values must have a row for each of {len(places)} different exposures, got shape {table.shape}"
        )
    order = np.argsort(places)
    places, table = places[order], table[order]
    if not places[0] <= wanted <= places[-1]:
        return None
    right = max(1, int(np.searchsorted(places, wanted)))
    if len(places) == 1:
        return table[0]
    weight = (wanted - places[right - 1]) / (places[right] - places[right - 1])
    return (1 - weight) * table[right - 1] + weight * table[right]


def nearest_by_mechanism(items: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, Array]]:
    """Add up the parts of the outputs in the saved result of `prompt_exposure.nearest`.

    Parameters
    ----------
    items : mapping
        By its keys, such as "Cape, 1 6, 0"; for each mechanism and epsilon all parts of the outputs.

    Returns
    -------
    dict
        By mechanism: sensitive, kept: number of tokens of each snippet; "<epsilon>, <K>": expected number of
        sensitive tokens found in each.

    Raises
    ------
    ValueError
        A part that is missing or double: the attack would look weaker or stronger than it is.
    """
    found: dict[str, dict[str, Array]] = {}
    parts: dict[str, list[int]] = defaultdict(list)
    for key, item in items.items():
        mechanism, epsilons, number = key.split(", ")
        for epsilon in epsilons.split():
            parts[f"{mechanism}, {epsilon}"].append(int(number))
        whole = found.setdefault(mechanism, {})
        for name, values in item.items():
            if name in ("sensitive", "kept"):
                whole[name] = np.asarray(values)
            else:
                whole[name] = whole.get(name, 0) + np.asarray(values)
    wanted = list(range(1 + max((max(numbers) for numbers in parts.values()), default=0)))
    for which, numbers in parts.items():
        if sorted(numbers) != wanted:
            raise ValueError(f"items must have parts {wanted} of {which!r} once each, got {sorted(numbers)}")
    return found


def kept_by_label(items: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Put what is guessed from each keep-list together, in the saved result of `prompt_exposure.kept_words`.

    Parameters
    ----------
    items : mapping
        By its keys, such as "domain, both".

    Returns
    -------
    dict
        By label: texts, chance; by what is seen, the number of right guesses.
    """
    found: dict[str, dict[str, Any]] = {}
    for key, item in items.items():
        found.setdefault(key.partition(", ")[0], {}).update(item)
    return found
