"""How many canaries, or trainings, a verdict needs, and what a test of the final model can show at most.

A bound from few trials is low whatever the model leaks: an attack without an error on r guesses shows no more than
about log(r/3) at 95 % confidence (``canary.trainings_ceiling`` and `one_run_ceiling` are exact). What an attack with
errors shows is planned here for Gaussian scores, N(0, 1) without and N(signal, 1) with the canary. That is what a
canary with a direction of its own has under DP-SGD, up to the number of times that it is drawn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from dprepro.base.check import at_most, in_interval, positive_count
from dprepro.stats.bounds import lower_limit, upper_limit
from dprepro.stats.one_run import epsilon_one_run
from dprepro.stats.tradeoff import epsilon_kairouz

FloatArray = NDArray[np.float64]

LARGEST_COUNT = 100_000  # beyond it `canaries_needed` gives up


def one_run_ceiling(canaries: ArrayLike, delta: float, alpha: float) -> FloatArray:
    """Largest epsilon that so many canaries in one training can show: all coins guessed, all guesses right.

    Parameters
    ----------
    canaries : array_like of whole numbers, at least 1
    delta : float
        In [0, 1].
    alpha : float
        In (0, 1).

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    return epsilon_one_run(canaries, canaries, canaries, delta, alpha)


def typical_one_run(
    signal: float, canaries: int, delta: float, alpha: float, guesses: int | None = None
) -> float:
    """Bound of `one_run_audit` if the share of right guesses is what it is on average.

    Parameters
    ----------
    signal : float
        Distance of the scores of included canaries from the others, in standard deviations; at least 0.
    canaries : int
        At least 2.
    delta, alpha
        As of `canary_one_run.one_run_audit`.
    guesses : int, optional
        At most the canaries; by default a quarter of them, and at least 2.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    mu = float(in_interval("signal", signal, 0, np.inf, closed="left"))
    m = int(positive_count("canaries", canaries, minimum=2))
    number = max(2, m // 4) if guesses is None else int(positive_count("guesses", guesses))
    at_most("guesses", np.array(number), "canaries", np.array(m))
    # Half of the guesses lie above the edge of the mixture of both laws, and the case is the same below.
    edge = optimize.brentq(lambda t: (special.ndtr(-t) + special.ndtr(mu - t)) - number / m, -9, mu + 40)
    right = special.ndtr(mu - edge) / (special.ndtr(mu - edge) + special.ndtr(-edge))
    return float(epsilon_one_run(m, number, np.floor(number * right + 1e-9), delta, alpha))


def typical_trainings(signal: float, trainings: int, delta: float, alpha: float) -> float:
    """Bound of `canary_audit` with the best threshold, if the rates on the tested half are what they are on average.

    Parameters
    ----------
    signal
        As of `typical_one_run`.
    trainings : int
        Half with the canary and half without; half of each chooses the threshold. At least 4.
    delta, alpha
        As of `canary.canary_audit`.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    mu = float(in_interval("signal", signal, 0, np.inf, closed="left"))
    tested = int(positive_count("trainings", trainings, minimum=4)) // 4
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither")) / 2
    cuts = np.linspace(-4, mu + 4, 400)
    # Of two candidates the one with an error less is as typical as the other: round, where one_run rounds down.
    hits, alarms = (np.round(tested * special.ndtr(at - cuts)) for at in (mu, 0.0))
    return float(
        epsilon_kairouz(lower_limit(hits, tested, level), upper_limit(alarms, tested, level), delta).max()
    )


class Plan(NamedTuple):
    """How many canaries to insert, and how many of them to guess."""

    canaries: int
    guesses: int


def canaries_needed(epsilon: float, signal: float, delta: float, alpha: float) -> Plan | None:
    """Least number of canaries, to within a fifth, whose typical bound in one run exceeds `epsilon`.

    Parameters
    ----------
    epsilon : float
        A claim to contradict, at least 0.
    signal, delta, alpha
        As of `typical_one_run`.

    Returns
    -------
    Plan or None
        With the best of the shares 1/2, 1/4, ... 1/64 of guesses; None if a hundred thousand canaries do not do it.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    claim = float(in_interval("epsilon", epsilon, 0, np.inf))
    for m in np.unique(np.geomspace(8, LARGEST_COUNT, 60).round().astype(int)):
        numbers = [int(m) // 2**k for k in range(1, 7) if m >= 2 ** (k + 1)]
        # Without delta the bound is larger, and cheap.
        bounds = [typical_one_run(signal, int(m), 0.0, alpha, number) for number in numbers]
        best = numbers[int(np.argmax(bounds))]
        if max(bounds) > claim and typical_one_run(signal, int(m), delta, alpha, best) > claim:
            return Plan(int(m), best)
    return None


def final_model_epsilon(
    noise_multiplier: float, sample_rate: float, steps: int, delta: float, share: float = 1.0
) -> float:
    """Epsilon that a perfect test of the final model can show for a canary with a direction of its own.

    Parameters
    ----------
    noise_multiplier : float
        Of DP-SGD, in (0, inf).
    sample_rate : float
        In (0, 1].
    steps : int
        At least 1.
    delta : float
        In (0, 1).
    share : float
        Of the clipped gradient in that direction, in (0, 1] (`canary_designs.own_share`).

    Returns
    -------
    float
        At most the account of `mechanisms.accounting`, which allows the attacker to see every step.

    Raises
    ------
    ValueError
        An argument outside its domain.

    Notes
    -----
    In units of the clipping norm, the final weight in that direction is N(0, T sigma^2) noise and `share` for each
    of the Bin(T, q) times that the canary is drawn, as long as its gradient is clipped; other records do not touch
    it. The score is a function of it. Its likelihood ratio rises with the weight, so the best events are half-lines,
    and epsilon solves sup_w [P(in, W > w) - exp(epsilon) P(out, W > w)] = delta, or the same with "in" and "out"
    exchanged and W < w, whichever is larger.
    """
    sigma = float(in_interval("noise_multiplier", noise_multiplier, 0, np.inf, closed="neither"))
    rate = float(in_interval("sample_rate", sample_rate, 0, 1, closed="right"))
    count = int(positive_count("steps", steps))
    wanted = float(in_interval("delta", delta, 0, 1, closed="neither"))
    part = float(in_interval("share", share, 0, 1, closed="right"))
    drawn = np.arange(count + 1)
    weight = stats.binom.logpmf(drawn, count, rate)
    keep = weight > np.log(wanted) - 60  # what is rarer has no part in this delta
    shifts, weight = part * drawn[keep] / (sigma * np.sqrt(count)), weight[keep]
    if shifts[-1] == 0:
        return 0.0  # the canary is never drawn
    # Logarithm of the chance that it is never drawn.
    never = float(weight[0]) if shifts[0] == 0 else -np.inf
    largest, least = float(shifts[-1]), float(shifts[shifts > 0][0])

    def log_ratio(w: float) -> float:
        return float(special.logsumexp(weight + shifts * w - shifts**2 / 2))

    def excess(epsilon: float) -> float:
        # At 0 the ratio is at most 1; each term of its sum, and so the last, bounds it from below.
        reach = (epsilon - weight[-1] + largest**2 / 2) / largest * (1 + 1e-9) + 1e-9
        # Under so much noise that the ratio is 1 up to rounding, one cut is as good as another.
        cut = (
            optimize.brentq(lambda w: log_ratio(w) - epsilon, 0.0, reach) if log_ratio(0.0) < epsilon else 0.0
        )
        # Products of exp(epsilon) and a chance, both beyond floats, as one exponential.
        gain = np.exp(weight) @ special.ndtr(shifts - cut) - np.exp(epsilon + special.log_ndtr(-cut))
        # Without the canary no event is likelier by more than 1 over the chance that it is never drawn.
        room = -np.expm1(min(never + epsilon, 0.0))
        far = (np.log(room) - epsilon) / least * (1 + 1e-9) - 1e-9 if room > 0 else 0.0
        if log_ratio(far) < -epsilon:  # what rounding leaves out has a chance of about `room`, next to none
            cut = optimize.brentq(lambda w: log_ratio(w) + epsilon, far, reach)
            inside = special.logsumexp(weight + special.log_ndtr(cut - shifts))
            gain = max(gain, special.ndtr(cut) - np.exp(epsilon + inside))
        return float(gain) - wanted

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-9))
