"""DP-SGD on logistic regression in NumPy: Abadi et al., "Deep Learning with Differential Privacy", Algorithm 1.

The loss of one record has the gradient (p - y) (x, 1) in (weights, bias), where p is the predicted probability. Its
norm is |p - y| sqrt(|x|^2 + 1), so the factor that clips weights and bias together follows without the gradients, and
a clipped sum is one product of a vector with the rows of the batch.

Three things that the privacy account assumes, and that a quick implementation gets wrong: weights and bias are
clipped as one vector (apart, the sum has sensitivity sqrt(2) C), a batch holds each record independently (Poisson
sampling, so its size varies and may be 0), and the noisy sum is divided by the expected size, not by the size that
came out, which depends on the records.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dprepro.base.check import finite, in_interval, positive_count
from dprepro.mechanisms.accounting import dp_sgd_epsilon

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """A trained logistic regression.

    Parameters
    ----------
    weights : array, shape (d,)
    bias : float
    empty_batches : int
        Steps of the training whose batch was empty; each of them added noise and is in the account.
    """

    weights: FloatArray
    bias: float
    empty_batches: int = 0

    def logits(self, x: ArrayLike) -> FloatArray:
        """Log-odds of label 1: x (m, d) -> (m,); ValueError for another shape or entries that are not finite."""
        return _rows(x, len(self.weights)) @ self.weights + self.bias

    def probability(self, x: ArrayLike) -> FloatArray:
        """Probability of label 1, in [0, 1]: x (m, d) -> (m,)."""
        return expit(self.logits(x))

    def loss(self, x: ArrayLike, y: ArrayLike) -> FloatArray:
        """Log-loss of each record in nats: x (m, d), y (m,) of 0 and 1 -> (m,)."""
        logits = self.logits(x)
        signs = 1 - 2 * _labels(y, len(logits))
        return np.logaddexp(0, signs * logits)  # -log p without 1 - p, which rounds to 0

    def accuracy(self, x: ArrayLike, y: ArrayLike) -> float:
        """Share of the records on the right side; a log-odds of exactly 0 counts as label 0."""
        logits = self.logits(x)
        return float(np.mean((logits > 0) == _labels(y, len(logits))))


@dataclass(frozen=True)
class DPSGD:
    """Noisy gradient descent on the log-loss, from weights and bias 0.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over `clipping_norm`, in [0, inf); 0 is training without privacy.
    clipping_norm : float
        Largest norm of a record's gradient in (weights, bias) together, positive and finite.
    sample_rate : float
        Probability that a record is in a batch, in [0, 1]; 1 is full participation. At 0 no record is ever seen and
        there is no batch size to divide by, so `fit` returns the start.
    steps : int
        At least 0.
    learning_rate : float
        Positive and finite; it multiplies the noisy sum over the expected batch size.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """

    noise_multiplier: float
    clipping_norm: float
    sample_rate: float
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        in_interval("noise_multiplier", self.noise_multiplier, 0, np.inf, closed="left")
        in_interval("clipping_norm", self.clipping_norm, 0, np.inf, closed="neither")
        in_interval("sample_rate", self.sample_rate, 0, 1)
        positive_count("steps", self.steps, minimum=0)
        in_interval("learning_rate", self.learning_rate, 0, np.inf, closed="neither")

    def epsilon(self, delta: float, accountant: str = "pld", *, records: int | None = None) -> float:
        """Epsilon of `fit` at `delta`, every iterate published; `dp_sgd_epsilon` says what it bounds.

        `records`, the size of the training set, makes a delta of at least 1/records a warning.
        """
        return dp_sgd_epsilon(
            self.noise_multiplier, self.sample_rate, self.steps, delta, accountant, records=records
        )

    def fit(
        self, x: ArrayLike, y: ArrayLike, rng: np.random.Generator, *, records: int | None = None
    ) -> LogisticModel:
        """Train on records x (n, d) with labels y (n,) of 0 and 1.

        Parameters
        ----------
        x : array_like, shape (n, d)
            Finite; n at least 1.
        y : array_like, shape (n,)
        rng : numpy.random.Generator
        records : int, optional
            Number of records, taken as public, that the expected batch size is counted from; n unless given. Give
            the same number for both where training sets with and without a record are compared.

        Raises
        ------
        ValueError
            If a shape, a label or an entry does not fit.
        """
        x = _rows(x)
        y = _labels(y, len(x))
        n = len(x) if records is None else int(positive_count("records", records))
        theta = np.zeros(x.shape[1] + 1)
        steps, rate = int(self.steps), float(self.sample_rate)
        if rate == 0:
            return LogisticModel(theta[:-1], 0.0, empty_batches=steps)
        rows = np.column_stack([x, np.ones(len(x))])
        norms = np.linalg.norm(rows, axis=1) / self.clipping_norm  # of gradients with |p - y| = 1
        noise_scale = self.noise_multiplier * self.clipping_norm
        step_size = self.learning_rate / (rate * n)
        batch: slice | NDArray[np.int64] = slice(None)
        empty = 0
        for _ in range(steps):
            if rate < 1:
                batch = np.flatnonzero(rng.random(len(x)) < rate)
                empty += batch.size == 0
            in_batch = rows[batch]
            error = expit(in_batch @ theta) - y[batch]
            # Divided by max(1, norm/C) instead of multiplied by min(1, C/norm): a norm of 0 leaves it as it is.
            error /= np.maximum(np.abs(error) * norms[batch], 1.0)
            noisy_sum = error @ in_batch
            if noise_scale > 0:
                noisy_sum += noise_scale * rng.standard_normal(theta.size)
            theta -= step_size * noisy_sum
        return LogisticModel(theta[:-1], float(theta[-1]), empty)


def per_example_gradients(weights: ArrayLike, bias: float, x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Gradient of each record's log-loss, unclipped: x (n, d), y (n,) -> (n, d + 1), the bias last.

    Raises
    ------
    ValueError
        If a shape, a label or an entry does not fit.
    """
    weights = finite("weights", weights)
    if weights.ndim != 1:
        raise ValueError(f"weights must be an array (d,), got shape {weights.shape}")
    x = _rows(x, len(weights))
    error = expit(x @ weights + float(finite("bias", bias))) - _labels(y, len(x))
    return error[:, np.newaxis] * np.column_stack([x, np.ones(len(x))])


def with_canaries(
    x: ArrayLike, y: ArrayLike, canaries_x: ArrayLike, canaries_y: ArrayLike, included: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Training set with those canaries appended whose entry in `included` is true.

    Parameters
    ----------
    x, y : array_like, shapes (n, d) and (n,)
    canaries_x, canaries_y : array_like, shapes (m, d) and (m,)
    included : array_like of bool, shape (m,)

    Returns
    -------
    x, y : arrays, shapes (n + k, d) and (n + k,) with k canaries included, in their order
        Pass ``records=n + m`` to `DPSGD.fit`, or the batch size that it divides by tells how many there are.

    Raises
    ------
    ValueError
        If a shape, a label or an entry does not fit, or `included` is not boolean.
    """
    x = _rows(x)
    y = _labels(y, len(x))
    canaries_x = _rows(canaries_x, x.shape[1], name="canaries_x")
    canaries_y = _labels(canaries_y, len(canaries_x), name="canaries_y")
    mask = np.asarray(included)
    if mask.dtype != bool or mask.shape != canaries_y.shape:
        raise ValueError(
            f"included must be a boolean array of shape {canaries_y.shape}, got {mask.dtype} of shape {mask.shape}"
        )
    return np.concatenate([x, canaries_x[mask]]), np.concatenate([y, canaries_y[mask]])


def _rows(x: ArrayLike, columns: int | None = None, name: str = "x") -> FloatArray:
    rows = finite(name, x)
    if rows.ndim != 2 or len(rows) == 0 or (columns is not None and rows.shape[1] != columns):
        wanted = "d" if columns is None else columns
        raise ValueError(
            f"{name} must be an array (n, {wanted}) with n of at least 1, got shape {rows.shape}"
        )
    return rows


def _labels(y: ArrayLike, n: int, name: str = "y") -> FloatArray:
    labels = in_interval(name, y, 0, 1)
    if labels.shape != (n,):
        raise ValueError(f"{name} must be an array ({n},), one label a record, got shape {labels.shape}")
    between = labels[(labels != 0) & (labels != 1)]
    if between.size:
        raise ValueError(f"{name} must hold labels 0 and 1 only, got {between[0]:g}")
    return labels
