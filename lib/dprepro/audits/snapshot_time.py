"""How many model calls an audit needs until its bound is near: active against passive (SnapAudit, arXiv 2511.13502).

The paper sets the cost of a *trial* of an active audit beside that of a passive one. A trial is not what an auditor
wants; a bound near the truth is. For clean outputs that never vary, which is what a snapshot rests on, everything is
known in closed form: the attack's error rates at each threshold (`success` of the mechanism), hence the epsilon that
these two outputs have, and what each audit proves of it after n calls a side:

* passive: n trials, Clopper-Pearson limits at the expected counts;
* active, valid: the exact rates, less the calls that n equal answers do not rule out (`snapshot_code`, modal);
* active, as stated: the exact rates, less the radius of the paper for variance 0.

Each takes the threshold that is best for it, known in advance. The simulation of an active audit costs time but no
precision here, which favours it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.snapshot_trial import named
from dprepro.base.check import finite, in_interval, one_of, positive_count
from dprepro.stats.bounds import bernstein_radius, lower_limit, upper_limit
from dprepro.stats.tradeoff import CONVERSIONS

Array = NDArray[np.float64]
KINDS = ("passive", "active, valid", "active, as stated")
_THRESHOLDS = 4001
_RAREST = 1e-13  # a rate nearer to 0 or 1 is not told from rounding


@dataclass(frozen=True, eq=False)
class ConstantOutputs:
    """A mechanism and the two clean outputs that every run gives, with the canary and without.

    Parameters
    ----------
    mechanism : Mechanism
        With the closed form `success`; a white box sees its release.
    with_canary, without_canary : array, shape (d,)
    n_sample : int
        Simulated releases a side of an active audit.
    alpha : float
        Of the bounds, over both rates jointly.

    Raises
    ------
    ValueError
        Outputs that are equal, not finite or not of one length; a mechanism without `success`; `n_sample` or `alpha`
        outside its domain.
    """

    mechanism: Any
    with_canary: Array
    without_canary: Array
    n_sample: int = 400_000
    alpha: float = 0.05

    def __post_init__(self) -> None:
        for name in ("with_canary", "without_canary"):
            object.__setattr__(self, name, finite(name, getattr(self, name)))
        if self.with_canary.ndim != 1 or self.with_canary.shape != self.without_canary.shape:
            raise ValueError(
                "with_canary and without_canary must be rows of one length, "
                f"got shapes {self.with_canary.shape} and {self.without_canary.shape}"
            )
        if np.array_equal(self.with_canary, self.without_canary):
            raise ValueError("with_canary must differ from without_canary, got equal rows")
        if not hasattr(self.mechanism, "success"):
            raise ValueError(f"mechanism must have a success method, got {type(self.mechanism).__name__}")
        positive_count("n_sample", self.n_sample)
        in_interval("alpha", self.alpha, 0.0, 1.0, closed="neither")

    @cached_property
    def rates(self) -> tuple[Array, Array]:
        """TPR and FPR of a white box at a grid of thresholds, each in [0, 1]."""
        low, high = -1.0, 1.0
        while self._success(np.array([low])).min() < 1 - _RAREST and low > -1e6:
            low *= 2
        while self._success(np.array([high])).max() > _RAREST and high < 1e6:
            high *= 2
        tpr, fpr = self._success(np.linspace(low, high, _THRESHOLDS))
        return tpr, fpr

    def _success(self, thresholds: Array) -> Array:
        both = np.stack([self.with_canary, self.without_canary])
        return np.asarray(self.mechanism.success(both, *both, "white", thresholds))

    @cached_property
    def exact(self) -> float:
        """Epsilon of these two outputs: what no audit of them exceeds, but for its confidence."""
        tpr, fpr = self.rates
        told = (fpr > _RAREST) & (tpr < 1 - _RAREST)
        return float(self._epsilon(tpr[told], fpr[told]).max())

    def _epsilon(self, tpr: Array, fpr: Array) -> Array:
        conversion = "gdp" if getattr(self.mechanism, "gaussian", False) else "standard"
        return np.asarray(CONVERSIONS[conversion](tpr, fpr, self.mechanism.delta))

    def bound(self, kind: str, calls: int) -> float:
        """Lower bound on epsilon that an audit is expected to prove.

        Parameters
        ----------
        kind : {"passive", "active, valid", "active, as stated"}
        calls : int
            Runs of the pipeline a side, at least 2.

        Raises
        ------
        ValueError
            Another kind, or fewer than two calls.
        """
        one_of("kind", kind, KINDS)
        n = int(positive_count("calls", calls, minimum=2))
        tpr, fpr = self.rates
        if kind == "passive":
            # Expected counts are no whole numbers; rounded, the best threshold would be one that rounds well.
            low, up = lower_limit(tpr * n, n, self.alpha / 2), upper_limit(fpr * n, n, self.alpha / 2)
        elif kind == "active, valid":
            mass = (self.alpha / 2) ** (1 / (n - named(n)))
            low, up = mass * tpr, mass * fpr + 1 - mass
        else:
            radius = float(bernstein_radius(0.0, n, self.n_sample, 1 - self.alpha))
            low, up = np.maximum(tpr - radius, 0), np.minimum(fpr + radius, 1)
        return float(self._epsilon(low, up).max())

    def calls_to(self, kind: str, below: float, most: int = 10_000_000) -> int | None:
        """Runs of the pipeline a side until the bound lies at most `below` under `exact`.

        Parameters
        ----------
        kind : {"passive", "active, valid", "active, as stated"}
        below : float
            In epsilon, positive: the half-width of what is left unknown.
        most : int
            Where to stop looking.

        Returns
        -------
        int or None
            Found by doubling and bisection: with one call less the bound lies further off. None if `most` calls do
            not get there: the paper's radius has a part that only more releases make smaller.

        Raises
        ------
        ValueError
            Another kind, or `below` or `most` outside their domains.
        """
        positive_count("most", most, minimum=2)
        wanted = self.exact - float(in_interval("below", below, 0.0, np.inf, closed="neither"))
        short, enough = 2, 2
        while self.bound(kind, enough) < wanted:
            if enough >= most:
                return None
            short, enough = enough, min(2 * enough, most)
        while enough - short > 1:
            middle = (short + enough) // 2
            short, enough = (short, middle) if self.bound(kind, middle) >= wanted else (middle, enough)
        return enough

    def seconds(self, kind: str, calls: int, call: float, release: float) -> float:
        """Time of an audit: both sides' calls, and the releases that they are followed by.

        Parameters
        ----------
        kind : {"passive", "active, valid", "active, as stated"}
        calls : int
        call, release : float
            Seconds of a run of the pipeline up to the noise, and of a release with its score; at least 0.

        Raises
        ------
        ValueError
            Another kind, or an argument outside its domain.
        """
        n = int(positive_count("calls", calls))
        in_interval("call", call, 0.0, np.inf, closed="left")
        in_interval("release", release, 0.0, np.inf, closed="left")
        releases = n if one_of("kind", kind, KINDS) == "passive" else self.n_sample
        return float(2 * (n * call + releases * release))
