"""Snapshot audits of differentially private in-context learning, after SnapAudit (arXiv 2511.13502).

A language model at temperature 0 gives nearly the same clean output each time; the privacy noise is what varies.
So the clean outputs are collected once, with and without the canary (a *snapshot*), and the release is simulated
on them. A passive audit spends one model call on each trial; an active audit draws many releases from the
snapshot (a bootstrap). How error rates become a lower bound on epsilon is a *recipe*; `snapshot_code` says what
each one does.

Two modes, never mixed: ``code`` draws from the mechanism's own ``release``, so it can find a bug in it;
``design`` computes with the closed form of the declared noise, so it cannot.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dprepro.audits import snapshot_code, snapshot_design
from dprepro.audits.snapshot_trial import Array, Mechanism, Trial
from dprepro.base.check import finite, in_interval, one_of, positive_count
from dprepro.base.store import sha256_bytes
from dprepro.stats.lower_bound import Rates

BOUNDS = {
    "inferred": ("Clopper-Pearson",),
    "as_stated": ("empirical Bernstein",),
    "valid": ("modal", "betting"),
}


@dataclass(frozen=True)
class Snapshot:
    """Clean outputs with and without the canary.

    Parameters
    ----------
    with_canary, without_canary : array, shape (n, d)
        One row for each model call, in the order of the calls; n may differ between the two.
    provenance : mapping
        Where the outputs come from (model, revision, prompt, date): JSON values.

    Raises
    ------
    ValueError
        If a side has under two calls, is not two-dimensional, holds NaN or infinity, d differs, or the
        provenance is not JSON.
    """

    with_canary: Array
    without_canary: Array
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("with_canary", "without_canary"):
            rows = finite(name, getattr(self, name))
            if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 1:
                raise ValueError(
                    f"{name} must have shape (n, d) with n >= 2 calls and d >= 1, got {rows.shape}"
                )
            # A copy of its own, read-only: neither the caller nor a release that works in place can change it.
            rows = rows.copy()
            rows.flags.writeable = False
            object.__setattr__(self, name, rows)
        if self.with_canary.shape[1] != self.without_canary.shape[1]:
            raise ValueError(
                "with_canary and without_canary must have rows of one length, "
                f"got {self.with_canary.shape[1]} and {self.without_canary.shape[1]}"
            )
        try:
            _json(self.provenance)
        except (TypeError, ValueError) as error:
            raise ValueError(f"provenance must be a mapping to JSON values, got {error}") from None

    @property
    def sha256(self) -> str:
        """Hash of both sides (values and shapes) and of the provenance."""
        parts = [repr(self.with_canary.shape).encode(), self.with_canary.astype("<f8").tobytes()]
        parts += [repr(self.without_canary.shape).encode(), self.without_canary.astype("<f8").tobytes()]
        return sha256_bytes(b"|".join([*parts, _json(self.provenance)]))

    def save(self, path: str | Path) -> None:
        """Write to a ``.npz`` file, with its hash."""
        np.savez_compressed(
            path,
            with_canary=self.with_canary,
            without_canary=self.without_canary,
            provenance=np.frombuffer(_json(self.provenance), dtype=np.uint8),
            sha256=np.frombuffer(self.sha256.encode(), dtype=np.uint8),
        )

    @classmethod
    def load(cls, path: str | Path) -> "Snapshot":
        """Read a file written by `save`.

        Raises
        ------
        ValueError
            If the file is not a snapshot or its content does not fit its hash.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                provenance = json.loads(file["provenance"].tobytes())
                snapshot = cls(file["with_canary"], file["without_canary"], provenance)
                stored = file["sha256"].tobytes().decode()
        except FileNotFoundError:
            raise
        except Exception as error:  # damaged files fail in many ways inside zip, zlib and json
            raise ValueError(f"{path} must be a snapshot file, could not be read as one: {error}") from error
        if snapshot.sha256 != stored:
            raise ValueError(
                f"{path} must fit its hash {stored[:12]}..., its content has {snapshot.sha256[:12]}..."
            )
        return snapshot


@dataclass(frozen=True)
class Audit:
    """The lower bound on epsilon that an audit found, with everything that it rests on."""

    epsilon: float
    claimed: float
    delta: float
    alpha: float
    mode: str
    recipe: str
    view: str
    bound: str
    conversion: str
    rates: Rates
    n_llm: int
    n_sample: int

    @property
    def violation(self) -> bool | None:
        """True if the claim is disproved at confidence 1 - alpha; None where the audit cannot say.

        Only the valid recipe in code mode looked at the release function and gives a bound at that confidence.
        """
        if self.mode != "code" or self.recipe != "valid":
            return None
        return self.epsilon > self.claimed

    def __str__(self) -> str:
        bound = f"epsilon >= {self.epsilon:.3f} ({self.recipe}, {self.view} box, {self.bound}"
        bound += ", assumes Gaussian noise)" if self.conversion == "gdp" else ")"
        if self.mode == "design":
            return f"{bound}; design mode: the closed form of the declared noise, release() was not looked at"
        if self.violation is None:
            return f"{bound}; the {self.recipe} recipe is not a valid bound, so it proves nothing"
        verdict = "VIOLATION of" if self.violation else "no violation found of"
        return f"{bound}; {verdict} the claimed {self.claimed:g} at confidence {1 - self.alpha:g}"


def active_audit(
    snapshot: Snapshot,
    mechanism: Mechanism,
    *,
    recipe: str = "valid",
    mode: str = "code",
    view: str = "white",
    bound: str | None = None,
    conversion: str | None = None,
    n_sample: int = 400_000,
    alpha: float = 0.05,
    rng: np.random.Generator | None = None,
) -> Audit:
    """Audit a mechanism by simulating its release on a snapshot.

    Parameters
    ----------
    snapshot : Snapshot
    mechanism : Mechanism
    recipe : {"valid", "inferred", "as_stated"}
        How rates become a bound.
    mode : {"code", "design"}
    view : {"white", "black"}
        What the attacker sees.
    bound : {"modal", "betting"}, optional
        For the valid recipe. Default: modal for a discrete clean output, betting otherwise. Fix it in advance.
    conversion : {"gdp", "standard", "kairouz"}, optional
        Default: gdp where the release is declared Gaussian, standard otherwise.
    n_sample : int
        Simulated releases a side.
    alpha : float
        The bound holds with confidence 1 - alpha, over both rates jointly.
    rng : numpy.random.Generator
        Needed in code mode.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If an argument is outside its domain or `release` returns another number of rows.
    """
    trial = _trial(snapshot, mechanism, view, conversion, n_sample, alpha)
    bounds = BOUNDS[one_of("recipe", recipe, tuple(BOUNDS))]
    if bound is None:
        bound = bounds[-1] if recipe == "valid" and not trial.discrete else bounds[0]
    one_of(f"bound of the {recipe} recipe", bound, bounds)
    if one_of("mode", mode, ("code", "design")) == "design":
        rates = snapshot_design.RECIPES[recipe, bound](trial)
    else:
        rates = snapshot_code.RECIPES[recipe, bound](trial, _generator(rng))
    return _audit(trial, rates, mode, recipe, bound)


def stated_ceiling(
    snapshot: Snapshot,
    mechanism: Mechanism,
    *,
    view: str = "white",
    conversion: str | None = None,
    n_sample: int = 400_000,
    alpha: float = 0.05,
    chance: float = 1e-6,
) -> float:
    """Epsilon that an active audit by the as_stated recipe exceeds with probability at most `chance`.

    Parameters
    ----------
    snapshot, mechanism, view, conversion, n_sample, alpha
        As in `active_audit`; the clean outputs must be constant on each side.
    chance : float
        In (0, 1).
    """
    for name in ("with_canary", "without_canary"):
        rows = getattr(snapshot, name)
        if np.any(rows != rows[0]):
            raise ValueError(f"{name} must be constant for the ceiling, got rows that differ")
    in_interval("chance", chance, 0.0, 1.0, closed="neither")
    trial = _trial(snapshot, mechanism, view, conversion, n_sample, alpha)
    return snapshot_design.stated_ceiling(trial, chance)


def passive_audit(
    snapshot: Snapshot,
    mechanism: Mechanism,
    *,
    recipe: str = "valid",
    view: str = "white",
    conversion: str | None = None,
    alpha: float = 0.05,
    rng: np.random.Generator,
) -> Audit:
    """Audit a mechanism with one release for each model call: every row of the snapshot is used once.

    Parameters
    ----------
    snapshot, mechanism, view, conversion, alpha, rng
        As in `active_audit`; always in code mode.
    recipe : {"valid", "inferred"}
        Trials are independent here, so Clopper-Pearson alone is a bound: with the threshold chosen on a held-out
        half (valid) or on the tested trials themselves (inferred). The paper's correction is about snapshots and
        says nothing of a passive audit, so there is no as_stated.

    Returns
    -------
    Audit
    """
    one_of("recipe", recipe, ("valid", "inferred"))
    calls = min(len(snapshot.with_canary), len(snapshot.without_canary))
    trial = _trial(snapshot, mechanism, view, conversion, calls, alpha)
    rates = snapshot_code.passive(trial, recipe, _generator(rng))
    return _audit(trial, rates, "code", recipe, "Clopper-Pearson")


def _trial(
    snapshot: Snapshot, mechanism: Mechanism, view: str, conversion: str | None, n_sample: int, alpha: float
) -> Trial:
    in_interval("epsilon of the mechanism", mechanism.epsilon, 0.0, np.inf, closed="left")
    in_interval("delta of the mechanism", mechanism.delta, 0.0, 1.0, closed="left")
    return Trial(
        with_canary=snapshot.with_canary,
        without_canary=snapshot.without_canary,
        mechanism=mechanism,
        view=one_of("view", view, ("white", "black")),
        conversion=_conversion(mechanism, conversion),
        n_sample=int(positive_count("n_sample", n_sample)),
        alpha=float(in_interval("alpha", alpha, 0.0, 1.0, closed="neither")),
    )


def _audit(trial: Trial, rates: Rates, mode: str, recipe: str, bound: str) -> Audit:
    return Audit(
        epsilon=float(trial.epsilon(rates.tpr_low, rates.fpr_up)),
        claimed=float(trial.mechanism.epsilon),
        delta=float(trial.mechanism.delta),
        alpha=trial.alpha,
        mode=mode,
        recipe=recipe,
        view=trial.view,
        bound=bound,
        conversion=trial.conversion,
        rates=rates,
        n_llm=trial.calls,
        n_sample=trial.n_sample,
    )


def _conversion(mechanism: Mechanism, conversion: str | None) -> str:
    default = "gdp" if getattr(mechanism, "gaussian", False) else "standard"
    return one_of("conversion", conversion or default, ("gdp", "standard", "kairouz"))


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng must be a numpy.random.Generator in code mode, got {rng!r}")
    return rng


def _json(provenance: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(provenance), sort_keys=True, allow_nan=False).encode()
