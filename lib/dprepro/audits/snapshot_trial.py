"""What every recipe of a snapshot audit shares: the clean outputs, the attacker's view, scores and conversion."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprepro.stats.bounds import modal_mass_low
from dprepro.stats.tradeoff import CONVERSIONS

Array = NDArray[np.float64]

GRID = 2000  # quantiles tried as thresholds by `inferred` and `as_stated`: a parameter that the paper does not name
NAMING_SHARE = 0.01  # of the calls, to name the reference outputs; at least one call


class Mechanism(Protocol):
    """What an audit needs of a mechanism.

    ``release(clean, rng)`` maps n clean outputs, shape (n, d), to n releases. Optional attributes:

    * ``gaussian``: the release is declared to be the clean output under Gaussian noise;
    * ``discrete``: clean outputs take few values;
    * ``score(released, clean_in, clean_out, view)``: the attacker's score of each release, shape (n,), for a
      "white" or "black" box; without it releases are projected on the difference of the two clean outputs;
    * ``success(clean, clean_in, clean_out, view, threshold)``: P(score >= threshold) in closed form, shape
      (n, t); design mode needs it.
    """

    @property
    def epsilon(self) -> float: ...

    @property
    def delta(self) -> float: ...

    def release(self, clean: Array, rng: np.random.Generator, /) -> Array: ...


@dataclass(frozen=True)
class Trial:
    """One audit to be made.

    ``with_canary`` and ``without_canary`` have shape (calls, d); ``n_sample`` is the number of simulated
    releases a side.
    """

    with_canary: Array
    without_canary: Array
    mechanism: Mechanism
    view: str
    conversion: str
    n_sample: int
    alpha: float

    @property
    def sides(self) -> tuple[Array, Array]:
        return self.with_canary, self.without_canary

    @property
    def calls(self) -> int:
        return min(map(len, self.sides))

    @property
    def discrete(self) -> bool:
        return bool(getattr(self.mechanism, "discrete", False))

    @property
    def threshold(self) -> float | None:
        """A black box's score is 1 or 0, so its threshold is fixed; a white box's has to be chosen."""
        return 0.5 if self.view == "black" else None

    @cached_property
    def references(self) -> tuple[Array, Array]:
        """The clean outputs to tell apart: the mode (discrete) or mean of the first 1 % of the calls."""
        return self._reference(self.with_canary), self._reference(self.without_canary)

    def _reference(self, rows: Array) -> Array:
        if self.discrete:
            return np.asarray(modal_mass_low(rows, self.alpha / 2, NAMING_SHARE)[0])
        return rows[: named(len(rows))].mean(axis=0)

    def epsilon(self, tpr: float | Array, fpr: float | Array) -> Array:
        """The epsilon that a pair of rates proves under the trial's conversion."""
        return np.asarray(CONVERSIONS[self.conversion](tpr, fpr, self.mechanism.delta))

    def scores(self, clean: Array, rng: np.random.Generator) -> Array:
        """Scores of one release for each row of `clean`, shape (n,).

        Raises
        ------
        ValueError
            A release that is not real, holds NaN or has another number of rows; a black box, or a release of another
            shape, without a score method.
        """
        released = np.asarray(self.mechanism.release(clean, rng))
        if not np.isrealobj(released) or (released.dtype.kind == "f" and np.isnan(np.sum(released))):
            raise ValueError(
                f"release must return real numbers without NaN, got {released.dtype} with NaN or complex"
            )
        if released.ndim == 0 or len(released) != len(clean):
            raise ValueError(
                f"release must return a row for each of {len(clean)} clean outputs, got shape {released.shape}"
            )
        clean_in, clean_out = self.references
        score = getattr(self.mechanism, "score", None)
        if score is not None:
            return np.asarray(score(released, clean_in, clean_out, self.view), dtype=np.float64)
        if self.view == "black":
            raise ValueError("view must be 'white' for a mechanism without a score method, got 'black'")
        if released.shape != clean.shape:
            raise ValueError(
                f"release must keep the shape {clean.shape} where there is no score method, got {released.shape}"
            )
        return (released - (clean_in + clean_out) / 2) @ (clean_in - clean_out)

    def bootstrap(self, rows: Array, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
        """n_sample calls drawn with replacement from `rows`: their positions, and the scores of a release each."""
        picked = rng.integers(len(rows), size=self.n_sample)
        return picked, self.scores(rows[picked], rng)


def named(calls: int) -> int:
    """How many of the first calls name the reference output."""
    return int(np.ceil(NAMING_SHARE * calls))
