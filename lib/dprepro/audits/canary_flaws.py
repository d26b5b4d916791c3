"""A flaw that needs a canary of its own: weights and bias clipped separately, noise for one clipping norm.

Clipped one by one to norm C, weights and bias together move by up to sqrt(2) C, so noise of sigma C keeps the claim
for sigma/sqrt(2) only. (The public lesson's toy does this.) A canary shows it if both its gradients reach C and both
raise its own logit: a feature of its own of value 1, beside the bias, which is 1 for every record. The larger the
feature, the less the bias counts.

Full participation: T steps are a Gaussian mechanism with mu = sqrt(T)/sigma, so the GDP conversion is right, and a
few thousand short trainings tell mu from sqrt(2) mu.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dprepro.audits.canary import CanaryAudit, canary_audit, canary_scores
from dprepro.audits.canary_designs import own_token_canaries
from dprepro.base.check import finite
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel, with_canaries

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SeparatelyClipped(DPSGD):
    """DP-SGD with the flaw: the gradients of weights and bias are clipped to the clipping norm one by one."""

    def fit(
        self, x: ArrayLike, y: ArrayLike, rng: np.random.Generator, *, records: int | None = None
    ) -> LogisticModel:
        """Train; arguments and result as of `DPSGD.fit`."""
        rows, labels = finite("x", x), finite("y", y)
        size = self.sample_rate * (len(rows) if records is None else records)
        norms = np.linalg.norm(rows, axis=1)
        weights, bias, empty = np.zeros(rows.shape[1]), 0.0, 0
        for _ in range(self.steps):
            batch = np.flatnonzero(rng.random(len(rows)) < self.sample_rate)
            empty += batch.size == 0
            error = expit(rows[batch] @ weights + bias) - labels[batch]
            reach = np.maximum(1, np.abs(error) * norms[batch] / self.clipping_norm)
            noise = self.noise_multiplier * self.clipping_norm * rng.standard_normal(weights.size + 1)
            both = np.append(
                (error / reach) @ rows[batch], np.clip(error, -self.clipping_norm, self.clipping_norm).sum()
            )
            step = self.learning_rate * (both + noise) / size
            weights, bias = weights - step[:-1], bias - step[-1]
        return LogisticModel(weights, float(bias), empty)


def gaussian_records(
    records: int, features: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw records with a last feature that none of them has, labels, and a canary with that feature alone.

    Parameters
    ----------
    records, features : int
        The first feature carries the label.
    rng : Generator

    Returns
    -------
    x, y, canary : ndarray, shapes (records, features + 1), (records,) and (1, features + 1)
    """
    x = np.pad(rng.normal(size=(records, features)), ((0, 0), (0, 1)))
    y = (rng.random(records) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(float)
    return x, y, own_token_canaries(x, [features], 1.0)


def clipping_audit(
    sgd: DPSGD,
    trainings: int,
    delta: float,
    alpha: float,
    rng: np.random.Generator,
    *,
    records: int = 50,
    features: int = 10,
) -> CanaryAudit:
    """Audit one training with many runs on Gaussian records, against the account of joint clipping.

    Parameters
    ----------
    sgd : DPSGD
        Of full participation; the flawed one or not. Its learning rate and steps must leave the canary's gradients
        above the clipping norm to the end, or the audit loses power.
    trainings : int
        Half with the canary and half without, in turn.
    delta, alpha
        As of `canary.canary_audit`.
    rng : Generator
    records, features
        As of `gaussian_records`.

    Raises
    ------
    ValueError
        With subsampling, where the GDP conversion would claim too much.
    """
    if sgd.sample_rate != 1:
        raise ValueError(f"sample_rate must be 1 for the GDP conversion, got {sgd.sample_rate:g}")
    x, y, canary = gaussian_records(records, features, rng)
    label = np.ones(1)
    scores: tuple[list[float], list[float]] = ([], [])
    for k in range(trainings):
        inside = k % 2 == 0
        data = with_canaries(x, y, canary, label, np.array([inside]))
        model = sgd.fit(*data, rng, records=records + 1)
        scores[k % 2].append(float(canary_scores(model.loss(canary, label))[0]))
    return canary_audit(*scores, delta, alpha, conversion="gdp", claimed=sgd.epsilon(delta))


def convictions(
    key: str,
    rng: np.random.Generator,
    *,
    audits: int,
    trainings: int,
    delta: float,
    alpha: float,
    noise_multiplier: float,
    clipping_norm: float,
    steps: int,
    learning_rate: float,
) -> dict[str, Any]:
    """Audit many times; one item of the saved result ``canary_flaws``.

    Parameters
    ----------
    key : str
        "<clipping>, <part>", the clipping "joint" or "separate".
    rng : Generator
    audits : int
        Of this item.
    trainings, delta, alpha
        As of `clipping_audit`.
    noise_multiplier, clipping_norm, steps, learning_rate
        As of `mechanisms.dp_sgd.DPSGD`.

    Returns
    -------
    dict
        epsilon_low, a list; claimed.
    """
    kind = SeparatelyClipped if key.startswith("separate") else DPSGD
    sgd = kind(noise_multiplier, clipping_norm, 1.0, steps, learning_rate)
    found = [clipping_audit(sgd, trainings, delta, alpha, rng) for _ in range(audits)]
    return {
        "epsilon_low": [float(f"{audit.epsilon_low:.6g}") for audit in found],
        "claimed": float(f"{found[0].claimed:.6g}"),
    }
