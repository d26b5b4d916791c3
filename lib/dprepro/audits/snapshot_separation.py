"""What a white box is expected to report when the canary shifts its score by a given number of noise units.

For two kinds of mechanism in SnapAudit (arXiv 2511.13502) the clean outputs were not published, but only one number
of them matters to a white box:

* exponential mechanism (product of experts, keywords): the difference of two noisy utilities is logistic, and the
  canary shifts it by r * epsilon, with one r a data set (`mechanisms.in_context.experts.logistic_rates`);
* Gaussian noise on embeddings: the canary shifts the score by mu(epsilon) * d/2 standard deviations, with one
  distance d a data set (`mechanisms.in_context.embedding`).

So what a recipe reports is a function of the shift alone: one curve for each noise, number of trials and choice of
threshold (`report`, a saved result). The unknown r or d is calibrated on one printed number (`calibrate`) and
predicts the others (`predict`), with the error of the calibration carried along.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit, logit

from dprepro.audits.snapshot_expectation import pooled, sorted_uniforms, white_box_runs
from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.stats.lower_bound import LowerBound, Rates, best_rates, epsilon_lower_bound
from dprepro.stats.tradeoff import CONVERSIONS

Array = NDArray[np.float64]
DELTA = 1e-5
TRIALS = {"active": 400_000, "passive": 2_000}
# How the threshold is chosen: on the tested scores, from 2,000 of their quantiles or from all; on a held-out half.
THRESHOLDS: dict[str, tuple[str, int | None]] = {
    "2000 quantiles": ("same", 2_000),
    "all scores": ("same", None),
    "held-out half": ("held_out", None),
}


def logistic_runs(
    shifts: ArrayLike,
    trials: int,
    repeats: int,
    rng: np.random.Generator,
    *,
    delta: float,
    alpha: float = 0.05,
    choice: str = "same",
    grid: int | None = None,
) -> Array:
    """Epsilon that white-box audits of an exponential mechanism report, one row an audit.

    As `snapshot_expectation.white_box_runs`, with logistic noise and the standard conversion: scores are standard
    logistic without and shifted with the canary, Clopper-Pearson limits at alpha/2 a rate.

    Parameters
    ----------
    shifts : array, shape (m,)
        r * epsilon, in [0, inf).
    trials : int
        Trials a side.
    repeats : int
        Audits; the noise of each is shared by all shifts, and each has its own child of `rng`.
    rng : numpy.random.Generator
    delta, alpha, choice, grid
        As there.

    Returns
    -------
    array, shape (repeats, m)
    """
    moves = np.atleast_1d(in_interval("shifts", shifts, 0.0, np.inf, closed="left"))
    n = int(positive_count("trials", trials, minimum=2))
    one_of("choice", choice, ("same", "held_out"))
    limits = np.empty((2, int(positive_count("repeats", repeats)), len(moves)))
    for row, child in enumerate(rng.spawn(limits.shape[1])):
        noise = (
            logit([sorted_uniforms(n, child), sorted_uniforms(n, child)])
            if choice == "same"
            else child.logistic(size=(2, n))
        )
        for column, move in enumerate(moves):
            found: Rates | LowerBound
            if choice == "same":
                found = best_rates(noise[0] + move, noise[1], alpha, delta=delta, grid=grid)
            else:
                found = epsilon_lower_bound(noise[0] + move, noise[1], delta, alpha, "held_out")
            limits[:, row, column] = found.tpr_low, found.fpr_up
    return np.asarray(CONVERSIONS["standard"](limits[0], limits[1], delta))


def report(
    key: str,
    rng: np.random.Generator,
    *,
    logistic_shifts: Sequence[float],
    gaussian_shifts: Sequence[float],
    active_repeats: int,
    passive_repeats: int,
) -> dict[str, list[float] | int]:
    """Mean and standard deviation of what one audit reports, by shift: an item of a saved result.

    Parameters
    ----------
    key : str
        Noise, mode, choice of the threshold and number of the part: "logistic, active, 2000 quantiles, 0". Parts
        differ in their audits only; `report_curves` joins them.
    rng : numpy.random.Generator
    logistic_shifts, gaussian_shifts : sequence of float
        Rising knots.
    active_repeats, passive_repeats : int
        Audits simulated in a part.

    Returns
    -------
    dict
        "shift", "mean" and "sd", a value for each knot, and "repeats".

    Raises
    ------
    ValueError
        For a key that names no noise, mode or choice.
    """
    noise, mode, choice, *_ = [*key.split(", "), "", ""]
    trials = TRIALS[one_of("mode of the key", mode, tuple(TRIALS))]
    how, grid = THRESHOLDS[one_of("threshold of the key", choice, tuple(THRESHOLDS))]
    repeats = active_repeats if mode == "active" else passive_repeats
    if one_of("noise of the key", noise, ("logistic", "gaussian")) == "logistic":
        shifts = list(logistic_shifts)
        runs = logistic_runs(shifts, trials, repeats, rng, delta=DELTA, choice=how, grid=grid)
    else:
        shifts = list(gaussian_shifts)
        runs = white_box_runs(shifts, trials, repeats, rng, delta=DELTA, choice=how, grid=grid)
    return {
        "shift": shifts,
        "mean": runs.mean(axis=0).tolist(),
        "sd": runs.std(axis=0, ddof=1).tolist(),
        "repeats": repeats,
    }


@dataclass(frozen=True, eq=False)
class ReportCurve:
    """Expected report as a function of the shift: a cubic spline through simulated means.

    Parameters
    ----------
    shift, mean, sd : array, shape (k,)
        Rising knots, mean and standard deviation of a single audit there.
    repeats : int
        Audits behind each mean.
    """

    shift: Array
    mean: Array
    sd: Array
    repeats: int

    @classmethod
    def of(cls, *parts: Mapping[str, list[float] | int]) -> "ReportCurve":
        """Curve of one or more items that `report` returned, with equal shifts and audits of their own."""
        audits, means, deviations = ([part[name] for part in parts] for name in ("repeats", "mean", "sd"))
        shift = np.asarray(parts[0]["shift"], dtype=np.float64)
        return cls(shift, *pooled(audits, means, deviations), int(np.sum(audits)))

    @cached_property
    def _spline(self) -> CubicSpline:
        return CubicSpline(self.shift, self.mean)

    def __call__(self, shift: ArrayLike) -> Array:
        """Mean report; ValueError outside the knots."""
        return np.asarray(self._spline(self._inside(shift)))

    def slope(self, shift: ArrayLike) -> Array:
        """Derivative of the mean report."""
        return np.asarray(self._spline(self._inside(shift), 1))

    def spread(self, shift: ArrayLike) -> Array:
        """Standard deviation of one audit, linear between the knots."""
        return np.interp(self._inside(shift), self.shift, self.sd)

    def error(self, shift: ArrayLike) -> Array:
        """Monte Carlo standard error of the mean report."""
        return self.spread(shift) / np.sqrt(self.repeats)

    def inverse(self, value: float) -> float:
        """Shift at which this value is the mean report; ValueError if none of the knots' range is."""
        in_interval("value", value, float(self.mean[0]), float(self.mean[-1]))
        return float(brentq(lambda s: float(self._spline(s)) - value, self.shift[0], self.shift[-1]))

    def _inside(self, shift: ArrayLike) -> Array:
        return in_interval("shift", shift, float(self.shift[0]), float(self.shift[-1]))


def report_curves(saved: Mapping[Any, Mapping[str, list[float] | int]]) -> dict[str, ReportCurve]:
    """Curves of all items of `report`, by noise, mode and choice: "logistic, active, 2000 quantiles"."""
    parts: dict[str, list[Mapping[str, list[float] | int]]] = {}
    for key, item in saved.items():
        parts.setdefault(str(key).rpartition(", ")[0], []).append(item)
    return {key: ReportCurve.of(*items) for key, items in parts.items()}


class Separation(NamedTuple):
    """A calibrated r or d with its standard error."""

    value: float
    error: float


class Prediction(NamedTuple):
    """A predicted report; `error` holds the Monte Carlo error and that of the calibration."""

    value: float
    monte_carlo: float
    error: float


def calibrate(curve: ReportCurve, printed: float, printed_error: float, scale: float) -> Separation:
    """The separation at which a printed number is the expected report.

    Parameters
    ----------
    curve : ReportCurve
        Of the recipe behind the number.
    printed, printed_error : float
        The number and its standard error.
    scale : float
        Shift for a separation of 1: epsilon for an r, mu(epsilon)/2 for a d.

    Returns
    -------
    Separation
        Its error is the printed one and the curve's, over the slope.

    Raises
    ------
    ValueError
        A printed number that the curve does not reach, or an argument outside its domain.
    """
    in_interval("scale", scale, 0.0, np.inf, closed="neither")
    error = float(in_interval("printed_error", printed_error, 0.0, np.inf, closed="left"))
    shift = curve.inverse(printed)
    whole = np.hypot(error, curve.error(shift)) / curve.slope(shift)
    return Separation(shift / scale, float(whole) / scale)


def predict(curve: ReportCurve, separation: Separation, scale: float) -> Prediction:
    """Expected report at another epsilon, mode or recipe, for a calibrated separation.

    Parameters
    ----------
    curve : ReportCurve
        Of the number to predict.
    separation : Separation
    scale : float
        As in `calibrate`, at that number's epsilon.

    Raises
    ------
    ValueError
        A shift outside the knots of the curve.
    """
    shift = separation.value * scale
    simulated = float(curve.error(shift))
    carried = float(curve.slope(shift)) * scale * separation.error
    return Prediction(float(curve(shift)), simulated, float(np.hypot(simulated, carried)))


def corrected_ceiling(epsilon: float, delta: float, radius: float) -> float:
    """Largest log((TPR - radius - delta)/(FPR + radius)) of any attack on any (epsilon, delta)-DP release.

    The region that (epsilon, delta) allows has its corner at FPR = (1 - delta)/(1 + e^epsilon), TPR =
    e^epsilon FPR + delta (Kairouz, Oh, Viswanath 2015), and the ratio is largest there: along either side of the
    region it falls away from the corner.

    Parameters
    ----------
    epsilon : float
        In [0, inf]; at infinity, where TPR = 1 and FPR = 0, the cap that the radius alone sets.
    delta : float
        In [0, 1).
    radius : float
        By which both rates are corrected, in (0, 1).

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    e = float(in_interval("epsilon", epsilon, 0.0, np.inf))
    rest = 1 - float(in_interval("delta", delta, 0.0, 1.0, closed="left"))
    r = float(in_interval("radius", radius, 0.0, 1.0, closed="neither"))
    above = rest * float(expit(e)) - r
    below = rest * float(expit(-e)) + r
    return max(0.0, float(np.log(above / below))) if above > 0 else 0.0
