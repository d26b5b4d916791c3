"""A claim in words after its test, the mean that most of these tests rest on, and how a printed number cites one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dprepro.base.check import in_interval, sample


class Judged(NamedTuple):
    """A claim judged.

    Attributes
    ----------
    outcome : {"HOLDS", "FAILS", "UNDECIDED"}
    effect, low, high : float
        What was measured, with its interval.
    n : int
        Values behind it: runs, series or corpora.
    reason : str
    """

    outcome: str
    effect: float
    low: float
    high: float
    n: int
    reason: str


class Mean(NamedTuple):
    """A mean over independent values with Student's interval."""

    value: float
    low: float
    high: float


def mean_of(values: ArrayLike, alpha: float = 0.05) -> Mean:
    """Return the mean of independent values and its two-sided interval.

    Parameters
    ----------
    values : array_like, shape (n,)
        n of at least 2.
    alpha : float
        One minus the level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        Fewer than two values, one that is not finite, or `alpha` outside its domain.
    """
    array = sample("values", values, minimum=2)
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    mean = float(array.mean())
    half = float(stats.t.isf(level / 2, array.size - 1) * array.std(ddof=1) / np.sqrt(array.size))
    return Mean(mean, mean - half, mean + half)


def stand_in(id: str, claim: Judged, about: str) -> str:
    """Return the reason of a printed number that a claim stands in for; ``kit.verdicts`` checks its form.

    Parameters
    ----------
    id : str
        Of the claim.
    claim : Judged
    about : str
        What was tested.
    """
    interval = f"effect={claim.effect:.3f} [{claim.low:.3f}, {claim.high:.3f}]"
    return f"{id} n={claim.n} {interval} {claim.outcome.lower()}: {about}; {claim.reason}"
