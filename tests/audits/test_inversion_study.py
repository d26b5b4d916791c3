"""Who is in training and whose scores are exposed; the two data sets; the finding on a small scale."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn import datasets

from dprepro.audits.inversion import reidentify
from dprepro.audits.inversion_study import QUASI_IDENTIFIERS, SEX, Dataset, Split, dataset, epsilon
from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.dp_sgd import DPSGD

NOISY = DPSGD(noise_multiplier=16.0, clipping_norm=1.0, sample_rate=1.0, steps=20, learning_rate=1.0)


def test_data_sets_are_those_of_scikit_learn():
    diabetes, digits = dataset("diabetes"), dataset("digits")
    assert diabetes.x.shape == (442, 10)
    assert digits.x.shape == (1797, 64)
    assert abs(np.bincount(diabetes.labels)[0] - 221) <= 3
    assert set(digits.labels) == set(range(10))
    names = datasets.load_diabetes().feature_names
    assert [names[i] for i in QUASI_IDENTIFIERS] == ["age", "sex", "bmi", "bp"]
    assert names[SEX] == "sex"
    assert np.unique(diabetes.x[:, SEX]).size == 2
    with pytest.raises(ValueError, match="name must be one of 'diabetes', 'digits', got 'iris'"):
        dataset("iris")


def test_a_split_keeps_training_logs_and_reference_apart():
    data = dataset("diabetes")
    split = Split.draw(data, 100, np.random.default_rng(0))
    assert split.member[split.inside].all()
    assert not split.member[np.concatenate([split.outside, split.reference])].any()
    assert sorted([*split.reference, *split.by_coin]) == list(range(442))
    assert len(split.reference) == 110
    assert not np.isin([*split.inside, *split.outside], split.reference).any()
    assert np.unique(split.inside).size == np.unique(split.outside).size == 100
    known = split.data.x[split.reference]
    assert known.mean(axis=0) == pytest.approx(np.zeros(10), abs=1e-12)
    assert known.std(axis=0) == pytest.approx(np.ones(10))


class GivenCoins:
    """A generator that orders as a seeded one does and throws given coins (in steps of one record)."""

    def __init__(self, coins):
        self.coins = coins

    def permutation(self, what):
        return np.random.default_rng(0).permutation(what)

    def random(self, size):
        assert size == len(self.coins)
        return np.where(self.coins, 0.2, 0.8)


def test_a_coin_moves_its_own_record_and_nothing_else():
    # What the account of the training covers: one record more or less, at the same scale and the same divisor.
    data = dataset("diabetes")
    coins = np.random.default_rng(1).random(332) < 0.5
    other = coins.copy()
    other[7] = ~other[7]
    one, two = (Split.draw(data, 50, GivenCoins(side)) for side in (coins, other))
    assert np.count_nonzero(one.member != two.member) == 1
    assert np.array_equal(one.data.x, two.data.x)
    assert np.array_equal(one.reference, two.reference)
    quiet = DPSGD(noise_multiplier=0.0, clipping_norm=1.0, sample_rate=1.0, steps=1, learning_rate=1.0)
    logits = [
        np.log(p[:, 1] / p[:, 0])
        for p in (split.train(quiet, np.random.default_rng(2))(split.data.x) for split in (one, two))
    ]
    # A step from 0 moves the weights by the record's clipped gradient over half of the records with a coin.
    rows = np.column_stack([one.data.x, np.ones(442)])
    (moved,) = np.flatnonzero(one.member != two.member)
    gradient = (0.5 - data.labels[moved]) * rows[moved]
    gradient /= max(1, np.linalg.norm(gradient))
    sign = -1 if one.member[moved] else 1
    np.testing.assert_allclose(logits[0] - logits[1], rows @ gradient * sign / 166, atol=1e-9)


def test_membership_is_a_fair_coin_for_each_record_that_is_not_public():
    data = dataset("diabetes")
    splits = [Split.draw(data, 100, np.random.default_rng(seed)) for seed in range(200)]
    inside = sum(int(split.member[split.by_coin].sum()) for split in splits)
    assert stats.binomtest(inside, 200 * 332, 0.5).pvalue > 1e-3
    # In training: not public (332 of 442) and the coin.
    each = np.sum([split.member for split in splits], axis=0)
    chance = 332 / 442 / 2
    middle = int(200 * chance)
    law = [
        stats.binom.cdf(middle - 1, 200, chance),
        stats.binom.pmf(middle, 200, chance),
        stats.binom.sf(middle, 200, chance),
    ]
    seen = [np.sum(each < middle), np.sum(each == middle), np.sum(each > middle)]
    assert stats.chisquare(seen, 442 * np.array(law)).pvalue > 1e-3


def test_a_column_that_is_constant_in_the_reference_is_left_out():
    x = np.zeros((60, 2))
    x[:, 0] = np.arange(60)
    x[0, 1] = 5
    for seed in range(10):
        split = Split.draw(Dataset(x, np.arange(60) % 2, 2), 5, np.random.default_rng(seed))
        assert np.isfinite(split.data.x).all()
        if 0 not in split.reference:
            assert (split.data.x[:, 1] == 0).all()


@pytest.mark.parametrize("name", ["diabetes", "digits"])
def test_scores_of_a_private_classifier_re_identify_members_and_others_alike(name):
    split = Split.draw(dataset(name), 60, np.random.default_rng(3))
    rng = np.random.default_rng(4)
    for classifier in (split.train(NOISY, rng), split.untrained(rng)):
        log = classifier(split.data.x)
        assert log.shape == (len(split.data.x), split.data.classes)
        assert log.sum(axis=1) == pytest.approx(np.ones(len(log)))
        for who in (split.inside, split.outside):
            found = reidentify(log[who], classifier(split.data.x[who]))
            assert found.success.mean() == 1


def test_classifiers_learn_from_members():
    split = Split.draw(dataset("digits"), 60, np.random.default_rng(5))
    classifier = split.train(replace(NOISY, noise_multiplier=0.0), np.random.default_rng(6))
    right = classifier(split.data.x).argmax(axis=1) == split.data.labels
    assert right[~split.member].mean() > 0.8


def test_the_account_counts_every_model():
    assert epsilon(dataset("diabetes"), NOISY, 1e-5) == dp_sgd_epsilon(16.0, 1.0, 20, 1e-5)
    assert epsilon(dataset("digits"), NOISY, 1e-5) == dp_sgd_epsilon(16.0, 1.0, 200, 1e-5)


@pytest.mark.parametrize("candidates", [0, 221, 442, 1.5])
def test_impossible_logs_are_refused(candidates):
    with pytest.raises(ValueError, match="candidates must be"):
        Split.draw(dataset("diabetes"), candidates, np.random.default_rng(0))
