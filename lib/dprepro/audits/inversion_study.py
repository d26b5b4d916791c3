"""The confidence-score attack on two public data sets: whose scores are exposed, by which classifier, to whom.

Diabetes (Efron, Hastie, Johnstone, Tibshirani 2004): 442 patients, ten numbers each, among them age, sex, body mass
index and blood pressure, which others may know (quasi-identifiers), and six serum values, which they hardly do; two
classes, progression above the median or not. Digits (UCI, Alpaydin and Kaynak 1998): 1,797 images of 64 pixels, ten
classes. Both come with scikit-learn.

Each record is in training by a fair coin of its own, as `stats.one_run` needs it. One log exposes the scores of N
records that were in training, another those of N that were not; others that were not are the adversary's *reference*:
complete records of other people. Numbers are scaled by the reference, so the scale is public and costs no budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.confidence_defences import entries
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel
from dprepro.mechanisms.one_vs_rest import OneVsRest, OneVsRestModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Classifier = Callable[[ArrayLike], FloatArray]  # records (n, d) to confidences (n, classes)

QUASI_IDENTIFIERS = (0, 1, 2, 3)  # of diabetes: age, sex, body mass index, blood pressure
SEX = 1


class Dataset(NamedTuple):
    """Records x, shape (n, d), with labels 0 to classes - 1, shape (n,)."""

    x: FloatArray
    labels: IntArray
    classes: int


def dataset(name: str) -> Dataset:
    """Return "diabetes" or "digits" in their own units; ValueError for another name."""
    from sklearn import datasets

    if one_of("name", name, ("diabetes", "digits")) == "digits":
        pixels, digits = datasets.load_digits(return_X_y=True)
        return Dataset(pixels, digits.astype(np.int64), 10)
    measured, progression = datasets.load_diabetes(return_X_y=True, scaled=False)
    return Dataset(measured, (progression > np.median(progression)).astype(np.int64), 2)


@dataclass(frozen=True)
class Split:
    """One draw of who is in training and whose scores are exposed.

    Attributes
    ----------
    data : Dataset
        Scaled: every column has mean 0 and standard deviation 1 on the reference, or 0 where it is constant there.
    member : ndarray of bool, shape (n,)
        In training.
    inside, outside : ndarray of int, shape (N,)
        Records of the two logs: in training, not in training.
    reference : ndarray of int
        The other records that were not in training.
    """

    data: Dataset
    member: NDArray[np.bool_]
    inside: IntArray
    outside: IntArray
    reference: IntArray

    @classmethod
    def draw(cls, data: Dataset, candidates: int, rng: np.random.Generator) -> "Split":
        """Draw coins, logs of `candidates` records each, and scale by the reference.

        Raises
        ------
        ValueError
            If there are too few records for two logs and a reference.
        """
        size = int(positive_count("candidates", candidates))
        member = rng.random(len(data.x)) < 0.5
        inside, outside = (rng.permutation(np.flatnonzero(side)) for side in (member, ~member))
        if min(inside.size, outside.size - 1) < size:
            raise ValueError(f"candidates must be below half of the {len(data.x)} records, got {size}")
        known = data.x[outside[size:]]
        spread = known.std(axis=0)
        varies = spread > 0
        scaled = np.where(varies, (data.x - known.mean(axis=0)) / np.where(varies, spread, 1), 0.0)
        return cls(data._replace(x=scaled), member, inside[:size], outside[:size], outside[size:])

    def train(self, mechanism: DPSGD, rng: np.random.Generator) -> Classifier:
        """Fit the members, one model for two classes and one a class for more; return the confidences' function.

        Batches are divided by half of all records, which is known; how many coins fell on "in" is not.
        """
        x, labels, records = self.data.x[self.member], self.data.labels[self.member], len(self.member) // 2
        if self.data.classes == 2:
            return _binary(mechanism.fit(x, labels, rng, records=records))
        return OneVsRest(mechanism, self.data.classes).fit(x, labels, rng, records=records).confidences

    def untrained(self, rng: np.random.Generator) -> Classifier:
        """Return the confidences of a classifier with random weights, which saw no record at all: epsilon 0."""
        d = self.data.x.shape[1]
        models = [LogisticModel(rng.normal(size=d) / np.sqrt(d), 0.0) for _ in range(self.data.classes)]
        return _binary(models[0]) if self.data.classes == 2 else OneVsRestModel(tuple(models)).confidences


def epsilon(data: Dataset, mechanism: DPSGD, delta: float) -> float:
    """Return what `Split.train` costs, over all models that it fits."""
    return (
        mechanism.epsilon(delta) if data.classes == 2 else OneVsRest(mechanism, data.classes).epsilon(delta)
    )


def _binary(model: LogisticModel) -> Classifier:
    return lambda x: entries("probability", model.probability(x))
