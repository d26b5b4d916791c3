"""The training loop of a public course lesson, with its flaws, so that its printed numbers come out exactly.

"Differential privacy for LLMs", lesson 22 of phase 18 of the course rohitg00/ai-engineering-from-scratch: logistic
regression on two features, trained record by record. Written anew from what its code does; only the order of the
random draws is kept, because the printed accuracies depend on it.

How the loop differs from DP-SGD (`mechanisms.dp_sgd`), and what that does to its privacy:

- Weights and bias are clipped apart, each to C. Together they move a step by up to sqrt(2) C, while the noise is
  scaled to C: the noise multiplier that counts is the declared one over sqrt(2).
- Each step uses one record, and every record is used once in each epoch. Nothing is sampled, so no amplification
  holds; but a record touches `epochs` of the steps only, not all of them.
- Its epsilon, sqrt(2 ln(1.25/delta)) sqrt(steps)/sigma, puts the norm over all steps into the classical Gaussian
  formula, which holds below epsilon = 1 only, and replaces sigma = 0 by 0.01.
"""

import math
import random
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.accounting import dp_sgd_epsilon

FloatArray = NDArray[np.float64]

SEED = 59
TRAINING, TEST, EPOCHS = 500, 200, 10
LEARNING_RATE, CLIPPING_NORM, DELTA = 0.05, 1.0, 1e-5
SIGMAS = (0.0, 0.5, 1.0, 2.0, 4.0)
SLOPE = np.array([0.6, -0.4])  # a record has label 1 where its product with this is positive
SEPARATE_CLIPPING = math.sqrt(2)  # joint sensitivity of a separately clipped gradient, in units of C


class LessonRow(NamedTuple):
    """One line of the lesson's table."""

    noise_multiplier: float
    epsilon: float
    accuracy: float


def lesson_table(seed: int = SEED) -> list[LessonRow]:
    """The lesson's table: for each sigma, its epsilon and the accuracy of one run on 200 test records.

    One stream of Python's generator feeds everything in turn, and the runs share the training set, each in the order
    in which the run before it left the records.
    """
    source = random.Random(seed)
    x, y = lesson_data(TRAINING, source)
    test_x, test_y = lesson_data(TEST, source)
    order, table = list(range(TRAINING)), []
    for sigma in SIGMAS:
        visits, normals = lesson_draws(order, EPOCHS, source)
        theta = record_by_record(x, y, visits, normals, sigma)
        table.append(LessonRow(sigma, lesson_epsilon(sigma), float(accuracy(theta, test_x, test_y))))
    return table


def lesson_data(n: int, source: random.Random) -> tuple[FloatArray, FloatArray]:
    """Records x (n, 2), standard normal, and their labels y (n,), without label noise."""
    x = np.array([[source.gauss(0, 1), source.gauss(0, 1)] for _ in range(n)])
    return x, (x @ SLOPE > 0).astype(float)


def lesson_draws(
    order: list[int], epochs: int, source: random.Random
) -> tuple[NDArray[np.int64], FloatArray]:
    """Which record each step visits, (steps,), and its standard normals, (steps, 3): weights, then bias.

    `order` is shuffled in place at the start of each epoch, as the lesson shuffles its training set.
    """
    visits, normals = [], []
    for _ in range(epochs):
        source.shuffle(order)
        visits += order
        normals += [[source.gauss(0, 1) for _ in range(3)] for _ in order]
    return np.array(visits), np.array(normals)


def record_by_record(
    x: ArrayLike,
    y: ArrayLike,
    visits: ArrayLike,
    normals: ArrayLike,
    noise_multiplier: ArrayLike,
    clipping_norm: ArrayLike = CLIPPING_NORM,
    learning_rate: float = LEARNING_RATE,
) -> FloatArray:
    """Train from 0, one record a step, clipping weights and bias apart; many runs at once where arrays broadcast.

    Parameters
    ----------
    x, y : array_like, shapes (..., n, d) and (..., n)
    visits : array_like of int, shape (..., steps)
        The record that each step uses.
    normals : array_like, shape (..., steps, d + 1)
        Standard normals; the noise is `noise_multiplier` times `clipping_norm` times these.
    noise_multiplier, clipping_norm : array_like, shape (...)
    learning_rate : float

    Returns
    -------
    array, shape (..., d + 1)
        Weights, then bias.

    Raises
    ------
    ValueError
        If `noise_multiplier` is negative, or `clipping_norm` or `learning_rate` is not positive.
    """
    sigma = in_interval("noise_multiplier", noise_multiplier, 0, np.inf, closed="left")
    clip = in_interval("clipping_norm", clipping_norm, 0, np.inf, closed="neither")
    rate = float(in_interval("learning_rate", learning_rate, 0, np.inf, closed="neither"))
    x, y, visits, normals = np.asarray(x), np.asarray(y), np.asarray(visits), np.asarray(normals)
    # Step first, so that the loop reads whole blocks.
    records = np.moveaxis(np.take_along_axis(x, visits[..., np.newaxis], axis=-2), -2, 0)
    labels = np.moveaxis(np.take_along_axis(y, visits, axis=-1), -1, 0)
    normals = np.moveaxis(normals, -2, 0)
    lengths = np.linalg.norm(records, axis=-1)
    scale = (sigma * clip)[..., np.newaxis]
    shape = np.broadcast_shapes(labels.shape[1:], normals.shape[1:-1], sigma.shape, clip.shape)
    weights, bias = np.zeros((*shape, x.shape[-1])), np.zeros(shape)
    for record, label, length, normal in zip(records, labels, lengths, normals, strict=True):
        error = expit(bias + (weights * record).sum(axis=-1)) - label
        shrunk = error / np.maximum(np.abs(error) * length / clip, 1.0)
        noise = scale * normal
        weights -= rate * (shrunk[..., np.newaxis] * record + noise[..., :-1])
        bias -= rate * (np.clip(error, -clip, clip) + noise[..., -1])
    return np.concatenate([weights, bias[..., np.newaxis]], axis=-1)


def accuracy(theta: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Share of records on the right side: theta (..., d + 1), x (..., m, d), y (..., m) -> (...)."""
    logits = (x * theta[..., np.newaxis, :-1]).sum(axis=-1) + theta[..., -1:]
    return np.mean((logits > 0) == y, axis=-1)


def lesson_epsilon(noise_multiplier: float, steps: int = EPOCHS * TRAINING, delta: float = DELTA) -> float:
    """The lesson's formula for epsilon, which bounds nothing: see the top of this module.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    sigma = float(in_interval("noise_multiplier", noise_multiplier, 0, np.inf))
    steps = int(positive_count("steps", steps, minimum=0))
    delta = float(in_interval("delta", delta, 0, 1, closed="neither"))
    return math.sqrt(2 * math.log(1.25 / delta)) * math.sqrt(steps) / max(sigma, 0.01)


def exact_epsilon(
    noise_multiplier: float, uses: int, *, sensitivity: float, accountant: str = "pld"
) -> float:
    """Epsilon at `DELTA` of a record that is used in `uses` steps without sampling, every iterate published.

    Parameters
    ----------
    noise_multiplier : float
        The lesson's sigma, in [0, inf].
    uses : int
        `EPOCHS` for what the code does, all ``EPOCHS * TRAINING`` steps for what its formula composes. The steps
        without the record are the same function of what came before, so they cost nothing.
    sensitivity : float
        Largest norm that the record adds to a step, in units of C, positive: `SEPARATE_CLIPPING`, or 1 for a gradient
        clipped as one vector.
    accountant
        As of `dp_sgd_epsilon`; "pld" is exact here.

    Returns
    -------
    float
        For neighbours in which the record's gradient is zeroed out.

    Raises
    ------
    ValueError
        If an argument lies outside its domain.
    """
    sigma = float(in_interval("noise_multiplier", noise_multiplier, 0, np.inf))
    sensitivity = float(in_interval("sensitivity", sensitivity, 0, np.inf, closed="neither"))
    return dp_sgd_epsilon(sigma / sensitivity, 1.0, uses, DELTA, accountant)
