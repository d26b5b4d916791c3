r"""What a single test of one event needs in outputs, to lay beside a monitor that decides step by step.

"Monitoring Violations of Differential Privacy over Time" (ReTiDP, arXiv 2509.20283) compares its 750 outputs a step
with 500,000 and 10.7 million of samplers that also search for the event. The test here is given the event, as the
monitor is, and has the monitor's error rates: it rejects a <= e^epsilon b where the lower Clopper-Pearson limit of a
exceeds e^epsilon times the upper one of b, alpha/2 each. That has level alpha at every n.
"""

import numpy as np
from scipy.stats import binom, norm

from dprepro.base.check import in_interval, positive_count
from dprepro.stats.bounds import upper_limit
from dprepro.stats.score_law import Rates
from dprepro.stats.two_rates import checked_claim


def one_shot_power(rates: Rates, n: int, epsilon: float, alpha: float) -> float:
    """Exact probability that the test rejects.

    Parameters
    ----------
    rates : (float, float)
        P(A(x) in E) and P(A(x') in E), in [0, 1].
    n : int
        Outputs a side.
    epsilon : float
        The claim.
    alpha : float
        Level of the test, in (0, 1).

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    a, b = (float(in_interval("rates", p, 0, 1)) for p in rates)
    ratio, _ = checked_claim(epsilon, 0.0)
    n, alpha = int(positive_count("n", n)), float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    # Counts of Y that are likelier than 1e-12; given one, the test rejects from some count of X on:
    # the lower limit of a exceeds u exactly where P(Bin(n, u) >= X) < alpha/2.
    y = np.arange(binom.ppf(1e-12, n, b), binom.isf(1e-12, n, b) + 1)
    reach = ratio * upper_limit(y, n, alpha / 2)
    last_kept = np.where(reach < 1, binom.isf(alpha / 2, n, np.minimum(reach, 1)), n)
    return float(np.sum(binom.pmf(y, n, b) * binom.sf(last_kept, n, a)))


def one_shot_size(rates: Rates, epsilon: float, alpha: float, power: float) -> int:
    """Outputs a side with which the test finds a violation with probability `power`.

    Parameters
    ----------
    rates, epsilon, alpha
        As in `one_shot_power`; the rates break the claim.
    power : float
        In (0, 1).

    Returns
    -------
    int
        Found by bisection. Counts are whole, so the power has small teeth as n grows: a slightly smaller n may reach
        it too.

    Raises
    ------
    ValueError
        If the rates keep the claim, or an argument lies outside its domain.
    """
    _checked(rates, epsilon, power)
    low, high = 0, 1
    while one_shot_power(rates, high, epsilon, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if one_shot_power(rates, middle, epsilon, alpha) < power:
            low = middle
        else:
            high = middle
    return high


def normal_size(rates: Rates, epsilon: float, alpha: float, power: float) -> float:
    """Outputs a side by the normal formula ((z_alpha + z_power) sigma / (a - e^epsilon b))^2; its level is a limit.

    Parameters and errors are those of `one_shot_size`.
    """
    ratio = _checked(rates, epsilon, power)
    (a, b), alpha = rates, float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    variance = a * (1 - a) + ratio**2 * b * (1 - b)
    return float(((norm.isf(alpha) + norm.ppf(power)) ** 2) * variance / (a - ratio * b) ** 2)


def _checked(rates: Rates, epsilon: float, power: float) -> float:
    """Return e^epsilon; ValueError unless the rates break the claim and power lies in (0, 1)."""
    ratio, _ = checked_claim(epsilon, 0.0)
    in_interval("power", power, 0, 1, closed="neither")
    in_interval("rates", rates, 0, 1)
    if rates[0] <= ratio * rates[1]:
        raise ValueError(f"rates must break the claim a <= e^epsilon b, got {rates}")
    return ratio
