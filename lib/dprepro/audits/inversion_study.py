"""The confidence-score attack on two public data sets: whose scores are exposed, by which classifier, to whom.

Diabetes (Efron, Hastie, Johnstone, Tibshirani 2004): 442 patients, ten numbers each, among them age, sex, body mass
index and blood pressure, which others may know (quasi-identifiers), and six serum values, which they hardly do; two
classes, progression above the median or not. Digits (UCI, Alpaydin and Kaynak 1998): 1,797 images of 64 pixels, ten
classes. Both come with scikit-learn.

A quarter of the records, drawn first, are the adversary's *reference*: complete records of other people, taken as
public and never in training. Numbers are scaled by them, so the scale costs no budget. (Were the reference those that
a coin left out, the coins would move the scale, which no account of DP-SGD covers.) Each other record is in training
by a fair coin of its own, as `stats.one_run` needs it. One log exposes the scores of N records that are in training,
another those of N that are not.
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
_REFERENCE = 4  # one record of so many is public


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
    """One draw of who is public, who is in training and whose scores are exposed.

    Attributes
    ----------
    data : Dataset
        Scaled: every column has mean 0 and standard deviation 1 on the reference, or 0 where it is constant there.
    member : ndarray of bool, shape (n,)
        In training.
    inside, outside : ndarray of int, shape (N,)
        Records of the two logs: in training, not in training; both from `by_coin`.
    reference : ndarray of int
        Public records.
    by_coin : ndarray of int
        All others, each in training by its own fair coin: those that a membership test may ask about.
    """

    data: Dataset
    member: NDArray[np.bool_]
    inside: IntArray
    outside: IntArray
    reference: IntArray
    by_coin: IntArray

    @classmethod
    def draw(cls, data: Dataset, candidates: int, rng: np.random.Generator) -> "Split":
        """Draw the reference, coins and logs of `candidates` records each, and scale by the reference.

        Raises
        ------
        ValueError
            If there are too few records for two logs.
        """
        size = int(positive_count("candidates", candidates))
        order = rng.permutation(len(data.x))
        reference, by_coin = np.split(order, [max(1, len(order) // _REFERENCE)])
        coins = rng.random(by_coin.size) < 0.5
        inside, outside = (rng.permutation(by_coin[side]) for side in (coins, ~coins))
        if min(inside.size, outside.size) < size:
            raise ValueError(
                f"candidates must be at most the records in training and the others that are not public, got {size} "
                f"of {inside.size} and {outside.size}"
            )
        member = np.isin(np.arange(len(order)), inside)
        known = data.x[reference]
        spread = known.std(axis=0)
        varies = spread > 0
        scaled = np.where(varies, (data.x - known.mean(axis=0)) / np.where(varies, spread, 1), 0.0)
        return cls(
            data._replace(x=scaled), member, inside[:size], outside[:size], reference, np.sort(by_coin)
        )

    def train(self, mechanism: DPSGD, rng: np.random.Generator) -> Classifier:
        """Fit the members, one model for two classes and one a class for more; return the confidences' function.

        Batches are divided by half of the records with a coin, which is known; how many coins fell on "in" is not.
        """
        x, labels, records = self.data.x[self.member], self.data.labels[self.member], len(self.by_coin) // 2
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
