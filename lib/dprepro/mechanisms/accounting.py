"""Privacy accounts of DP-SGD: epsilon of a number of noisy steps, and the noise that keeps a given epsilon.

One step adds N(0, (noise_multiplier C)^2) to a sum of gradients of norm at most C, over a Poisson sample that holds
each record with probability sample_rate (Abadi et al., "Deep Learning with Differential Privacy", 2016). The accounts
are public packages': Renyi DP ("rdp": Mironov, Talwar, Zhang 2019) and privacy loss distributions ("pld": Doroshenko
et al. 2022) by dp_accounting, privacy random variables ("prv": Gopi, Lee, Wutschitz 2021) by Opacus. Each is an upper
bound. The central-limit account ("gdp" in Opacus) is not: it comes out too small, so it is refused here.

Neighbours: one record is added or removed or, equally, zeroed out (it stays, with gradient 0). Zeroing out is the
reading to quote where the number of records is public, as in a division by the expected batch size. Replacing a
record by another one moves a clipped sum by up to 2C: account for it with half the noise multiplier.
"""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import optimize

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.stats.gdp import epsilon_to_mu

ACCOUNTANTS = ("rdp", "pld", "prv")
_PRV_ERROR = 0.01  # what Opacus adds to its estimate to make it an upper bound
_PRV_CELLS = 1e6
_LARGEST_PLD = 1e8  # beyond it the account without sampling stands for the one with it
_SMALLEST_NOISE = 1e-6  # of a whole run: below it epsilon exceeds 1e11, and float64 arithmetic on losses ends


def dp_sgd_epsilon(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    *,
    records: int | None = None,
) -> float:
    """Upper bound on the epsilon of `steps` noisy steps whose every iterate is published.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm, in [0, inf]; 0 gives infinity.
    sample_rate : float
        Probability that a record is in a batch, in [0, 1]. 0 gives 0; 1 is full participation.
    steps : int
        At least 0; 0 gives 0.
    delta : float
        In (0, 1), and well below 1/records to mean anything.
    accountant : {"pld", "rdp", "prv"}
        "pld" is tightest, and exact without sampling; "prv" needs Opacus, hence torch.
    records : int, optional
        Size of the training set; a delta of at least 1/records then raises a UserWarning.

    Returns
    -------
    float
        Epsilon in nats, in [0, inf], for neighbours that differ in one record zeroed out, added or removed.

    Raises
    ------
    ValueError
        If an argument lies outside its domain, "gdp" is asked for, or "prv" is asked for an account that Opacus
        cannot compute.
    """
    noise_multiplier = float(in_interval("noise_multiplier", noise_multiplier, 0, np.inf))
    sample_rate, steps, delta = _checked(sample_rate, steps, delta, accountant, records)
    if sample_rate == 0 or steps == 0 or noise_multiplier == np.inf:
        return 0.0
    if noise_multiplier / math.sqrt(steps) < _SMALLEST_NOISE:
        return np.inf
    return _ACCOUNTS[accountant](noise_multiplier, sample_rate, steps, delta)


def noise_multiplier_for(
    epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    *,
    records: int | None = None,
) -> float:
    """Noise multiplier whose account stays at or below `epsilon`, and close to it.

    Parameters
    ----------
    epsilon : float
        The budget in nats, in (0, inf]. Infinity gives 0: no noise.
    sample_rate, steps, delta, accountant, records
        As of `dp_sgd_epsilon`. A rate of 0 or no steps gives 0.

    Returns
    -------
    float
        ``dp_sgd_epsilon(result, ...) <= epsilon`` holds; the least such noise is smaller by a few tenths of a
        per cent ("pld" searches on a coarse grid), or by what an account jumps over (one step of "rdp" near 0).

    Raises
    ------
    ValueError
        If an argument lies outside its domain or the accountant cannot certify so small an epsilon.
    """
    epsilon = float(in_interval("epsilon", epsilon, 0, np.inf, closed="right"))
    sample_rate, steps, delta = _checked(sample_rate, steps, delta, accountant, records)
    if epsilon == np.inf or sample_rate == 0 or steps == 0:
        return 0.0
    if accountant == "prv" and epsilon <= 2 * _PRV_ERROR:
        raise ValueError(
            f"epsilon must be above {2 * _PRV_ERROR} for accountant 'prv', which adds {_PRV_ERROR} to every "
            f"estimate, got {epsilon:g}; 'pld' has no such floor"
        )
    account = _ACCOUNTS[accountant]
    search = _SEARCHES[accountant]
    # The central limit is a guess to start from; sampling never hurts, so full participation needs more noise.
    mu = float(epsilon_to_mu(epsilon, delta))
    guess = 1 / math.sqrt(math.log1p((mu / sample_rate) ** 2 / steps))
    low, high = _bracket(lambda sigma: search(sigma, sample_rate, steps, delta), guess, epsilon)

    def excess(log_sigma: float) -> float:
        value = search(math.exp(log_sigma), sample_rate, steps, delta)
        return math.log(min(max(value, 1e-300), 1e300) / epsilon)

    root = optimize.brentq(excess, math.log(low), math.log(high), xtol=1e-4)
    sigma = math.exp(root)
    step = 2e-4
    while account(sigma, sample_rate, steps, delta) > epsilon:  # the root may lie on the wrong side
        sigma *= 1 + step
        step *= 2
    return sigma


def _checked(
    sample_rate: float, steps: int, delta: float, accountant: str, records: int | None
) -> tuple[float, int, float]:
    sample_rate = float(in_interval("sample_rate", sample_rate, 0, 1))
    steps = int(positive_count("steps", steps, minimum=0))
    delta = float(in_interval("delta", delta, 0, 1, closed="neither"))
    if accountant == "gdp":
        raise ValueError(
            "accountant must be 'rdp', 'pld' or 'prv', got 'gdp': the central-limit account is an approximation "
            "that comes out too small, so it bounds nothing"
        )
    one_of("accountant", accountant, ACCOUNTANTS)
    if records is not None and delta >= 1 / int(positive_count("records", records)):
        warnings.warn(
            f"delta = {delta:g} is at least 1/{records}: a mechanism that publishes one record in full at random "
            "satisfies it, whatever epsilon says",
            UserWarning,
            stacklevel=3,
        )
    return sample_rate, steps, delta


def _bracket(epsilon_of: Callable[[float], float], guess: float, target: float) -> tuple[float, float]:
    """Noise with an epsilon above the target, and noise with one at most the target, a factor 2 or 1.2 apart."""
    value, sigma, factor = epsilon_of(guess), guess, 1.2
    grow = value > target
    while True:
        last, sigma = sigma, sigma * factor if grow else sigma / factor
        value = epsilon_of(sigma)
        if (value > target) != grow:
            return (last, sigma) if grow else (sigma, last)
        factor = 2.0


def _event(sigma: float, sample_rate: float, steps: int) -> Any:
    import dp_accounting

    step = dp_accounting.GaussianDpEvent(sigma)
    if sample_rate < 1:
        step = dp_accounting.PoissonSampledDpEvent(sample_rate, step)
    return dp_accounting.SelfComposedDpEvent(step, steps)


def _rdp(sigma: float, sample_rate: float, steps: int, delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant

    with _without_reports():
        accountant = RdpAccountant().compose(_event(sigma, sample_rate, steps))
        return float(accountant.get_epsilon(delta))


def _pld(sigma: float, sample_rate: float, steps: int, delta: float, coarse: bool = False) -> float:
    from dp_accounting import get_epsilon_gaussian
    from dp_accounting.pld import PLDAccountant

    # Without sampling, the steps are one Gaussian mechanism; with it, they are at most that.
    with np.errstate(all="ignore"):
        epsilon = float(get_epsilon_gaussian(sigma / math.sqrt(steps), delta))
    if sample_rate == 1 or epsilon == 0 or epsilon > _LARGEST_PLD:
        return epsilon
    # The package's own interval of 1e-4 takes gigabytes where noise is little, and is too wide where epsilon is
    # tiny. Every interval gives an upper bound: the first is cheap, the next follows from the epsilon found.
    one_step = 1 / (2 * sigma**2) + 8 / sigma  # the losses of one step lie below it
    interval, wanted = np.inf, max(epsilon / 2e4, one_step / 2e3)
    while wanted < interval / 2 and epsilon > 0:
        interval = min(wanted, 100.0)  # exp(interval) is a float
        accountant = PLDAccountant(value_discretization_interval=interval)
        with np.errstate(all="ignore"):  # probabilities that round to 0 or 1 have infinite logarithms
            accountant.compose(_event(sigma, sample_rate, steps))
            epsilon = min(epsilon, float(accountant.get_epsilon(delta)))
        # An interval h adds at most h^2/4 to the variance of a step's loss, which is mu^2/steps.
        per_step = float(epsilon_to_mu(epsilon, delta)) / math.sqrt(steps)
        if coarse:
            wanted = max(0.1 * per_step, one_step / 5e3, epsilon / 1e5)
        else:
            cells = 2e5 if epsilon < 15 else 2e4
            wanted = max(min(1e-4, 0.05 * per_step), one_step / cells, epsilon / 3e5)
    return epsilon


def _pld_coarse(sigma: float, sample_rate: float, steps: int, delta: float) -> float:
    return _pld(sigma, sample_rate, steps, delta, coarse=True)


def _prv(sigma: float, sample_rate: float, steps: int, delta: float) -> float:
    from opacus.accountants import PRVAccountant

    # Opacus' grid spans the Renyi epsilon at delta/4000 both ways, in cells of this size.
    cell = _PRV_ERROR / math.sqrt(steps * math.log(12_000 / delta) / 2)
    cells = 2 * (_rdp(sigma, sample_rate, steps, delta / 4000) + 3) / cell
    where = f"noise_multiplier={sigma:g}, sample_rate={sample_rate:g}, steps={steps}, delta={delta:g}"
    if cells > _PRV_CELLS:
        raise ValueError(f"accountant 'prv' needs {cells:.0e} cells for {where}: use 'pld'")
    accountant = PRVAccountant()
    accountant.history = [(sigma, sample_rate, steps)]
    try:
        with _without_reports(), np.errstate(all="ignore"):
            return float(accountant.get_epsilon(delta, eps_error=_PRV_ERROR))
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"accountant 'prv' has no answer for {where} ({error}): use 'pld'") from error


@contextmanager
def _without_reports() -> Iterator[None]:
    """The packages report each Renyi order that they leave out, which only loosens a bound."""
    absl = logging.getLogger("absl")
    level = absl.level
    absl.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        absl.setLevel(level)


_ACCOUNTS: dict[str, Callable[[float, float, int, float], float]] = {"rdp": _rdp, "pld": _pld, "prv": _prv}
# What the search for noise asks instead of a slow account, which then checks the result.
_SEARCHES: dict[str, Callable[[float, float, int, float], float]] = {
    "rdp": _rdp,
    "pld": _pld_coarse,
    "prv": lambda sigma, rate, steps, delta: _pld_coarse(sigma, rate, steps, delta) + _PRV_ERROR,
}
