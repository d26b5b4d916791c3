"""Lower bound on epsilon from one run of a mechanism with many canaries.

Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run" (2023, arXiv 2305.08846). Each of m
canaries is included by its own fair coin; the auditor guesses some of the coins and abstains on the others.
Theorem 5.2: under (epsilon, delta)-DP the number of correct ones among r guesses is, up to a term in delta,
no larger than Binomial(r, q) with q = exp(epsilon)/(1 + exp(epsilon)):

    P[correct >= v] <= P[Bin(r, q) >= v] + 2 m delta max_{i = 1..v} P[v > Bin(r, q) >= v - i] / i.

The bound is the epsilon at which the right-hand side reaches alpha (their appendix D).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.base.check import at_most, in_interval, positive_count

FloatArray = NDArray[np.float64]

_LARGEST_EPSILON = 700.0  # exp of it is still a float; no finite number of guesses shows this much
_BISECTIONS = 60


def epsilon_one_run(
    m: ArrayLike, guesses: ArrayLike, correct: ArrayLike, delta: ArrayLike, alpha: ArrayLike
) -> FloatArray:
    """Lower bound on epsilon at confidence 1 - alpha from the guesses of one run.

    Parameters
    ----------
    m : array_like of whole numbers, at least 1
        Canaries, each included independently with probability 1/2.
    guesses : array_like of whole numbers
        Canaries about which the auditor made a guess, at most m; 0 gives epsilon 0.
    correct : array_like of whole numbers
        Right guesses, at most `guesses`.
    delta : array_like
        In [0, 1].
    alpha : array_like
        Chance that the bound exceeds epsilon, in (0, 1).

    Returns
    -------
    ndarray or scalar
        epsilon >= 0 in nats, all arguments broadcast; 0 if guessing at random does as well.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    m = positive_count("m", m)
    guesses = positive_count("guesses", guesses, minimum=0)
    correct = positive_count("correct", correct, minimum=0)
    delta = in_interval("delta", delta, 0, 1)
    alpha = in_interval("alpha", alpha, 0, 1, closed="neither")
    at_most("guesses", guesses, "m", m)
    at_most("correct", correct, "guesses", guesses)
    return np.vectorize(_bound, otypes=[np.float64])(m, guesses, correct, delta, alpha)[()]


def _bound(m: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """Bisection for an epsilon at which the tail reaches alpha, from below.

    One with a tail below alpha is a bound, whatever the tail does below it: who is private at less is private at it.
    """
    if _tail(m, guesses, correct, delta, 0.0) >= alpha:
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(m, guesses, correct, delta, middle) < alpha else (low, middle)
    return low


def _tail(m: int, guesses: int, correct: int, delta: float, epsilon: float) -> float:
    """Right-hand side of Theorem 5.2: the largest chance of at least `correct` right guesses."""
    if correct == 0:
        return 1.0
    q, failure = special.expit(epsilon), special.expit(-epsilon)
    # P[Bin >= v] and P[Bin = k] through the complement, whose probability stays exact as q approaches 1.
    beta = special.bdtr(guesses - correct, guesses, failure)
    if delta == 0:
        return float(beta)
    below = np.arange(correct - 1, -1, -1)
    log_choose = (
        special.gammaln(guesses + 1) - special.gammaln(below + 1) - special.gammaln(guesses - below + 1)
    )
    pmf = np.exp(log_choose + special.xlogy(below, q) + special.xlogy(guesses - below, failure))
    worst = (np.cumsum(pmf) / np.arange(1, correct + 1)).max()
    return float(min(1.0, beta + 2 * m * delta * worst))
