"""More than two classes: one DP-SGD model a class, which is against all others, under one account.

Rifkin and Klautau, "In Defense of One-Vs-All Classification" (2004). Every record is in the training set of each
class's model, so their privacy losses add up: the account is that of classes * steps noisy steps. It holds whatever
the labels are, since one record moves the sum of each step by at most the clipping norm, as positive or as negative.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class OneVsRest:
    """Binary DP-SGD for each of several classes, known in advance and not taken from the data.

    Parameters
    ----------
    mechanism : DPSGD
        How each model is trained; the steps are those of one model.
    classes : int
        At least 2.

    Raises
    ------
    ValueError
        If `classes` is not a whole number of at least 2.
    """

    mechanism: DPSGD
    classes: int

    def __post_init__(self) -> None:
        positive_count("classes", self.classes, minimum=2)

    def fit(
        self, x: ArrayLike, labels: ArrayLike, rng: np.random.Generator, *, records: int | None = None
    ) -> "OneVsRestModel":
        """Train the models one after another.

        Parameters
        ----------
        x : array_like, shape (n, d)
        labels : array_like of whole numbers, shape (n,)
            0 to classes - 1. A class may have no record.
        rng : numpy.random.Generator
        records : int, optional
            As of `DPSGD.fit`.

        Raises
        ------
        ValueError
            If a label is none of the classes; `DPSGD.fit` checks the rest.
        """
        y = positive_count("labels", labels, minimum=0)
        in_interval("labels", y, 0, self.classes - 1)
        sides = (y == c for c in range(self.classes))
        return OneVsRestModel(tuple(self.mechanism.fit(x, side, rng, records=records) for side in sides))

    def epsilon(self, delta: float, accountant: str = "pld") -> float:
        """Return the epsilon at `delta` of all models together."""
        whole = replace(self.mechanism, steps=self.classes * self.mechanism.steps)
        return whole.epsilon(delta, accountant)


@dataclass(frozen=True)
class OneVsRestModel:
    """The models of all classes.

    Attributes
    ----------
    models : tuple of LogisticModel
    """

    models: tuple[LogisticModel, ...]

    def confidences(self, x: ArrayLike) -> FloatArray:
        """Return the odds p/(1 - p) that each model gives to its class, scaled to sum to 1.

        Parameters
        ----------
        x : array_like, shape (n, d)

        Returns
        -------
        ndarray, shape (n, classes)
        """
        return softmax(np.stack([model.logits(x) for model in self.models], axis=1), axis=1)
