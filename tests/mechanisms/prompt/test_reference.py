import mpmath
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from dprepro.mechanisms.prompt.exact_loss import worst_case_loss
from dprepro.mechanisms.prompt.reference import (
    EqualSizeBuckets,
    ExponentialMechanism,
    RandomisedResponse,
    top_mass_bound,
)
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


def words(n, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Vocabulary(tuple(f"w{i}" for i in range(n)), vectors)


@pytest.mark.parametrize("epsilon", [0.1, 3.0, 700.0])
def test_randomised_response_loses_exactly_epsilon(epsilon):
    mechanism = RandomisedResponse(words(20))
    assert worst_case_loss(mechanism, epsilon).value == pytest.approx(epsilon)
    assert mechanism.stated_loss(epsilon) == epsilon
    channel = np.exp(mechanism.log_channel([4, -1], epsilon))
    np.testing.assert_allclose(channel.sum(axis=1), 1)
    assert channel[0, 4] == pytest.approx(mechanism.stays(epsilon))
    np.testing.assert_allclose(channel[1], 0.05)


@pytest.mark.parametrize(
    "mechanism", [RandomisedResponse(words(30)), ExponentialMechanism(words(30), buckets=5)]
)
def test_ten_thousand_tokens_follow_the_channel(mechanism):
    rng = np.random.default_rng(1)
    context = None if isinstance(mechanism, RandomisedResponse) else rng.normal(0, 4, (1, 30))
    contexts = None if context is None else np.repeat(context, 10_000, axis=0)
    drawn = mechanism.draw(np.full(10_000, 7), 4.0, rng, contexts)
    expected = 10_000 * np.exp(mechanism.log_channel([7], 4.0, context))[0]
    assert chisquare(np.bincount(drawn, minlength=30), expected).pvalue > 1e-3


def test_exponential_mechanism_is_softmax_of_utilities():
    mechanism, context = ExponentialMechanism(words(8), buckets=5, bound=3.0), np.arange(8.0)[None]
    wanted = softmax(5.0 * mechanism.utilities([2], context) / (2 * 6**0.5), axis=1)
    np.testing.assert_allclose(np.exp(mechanism.log_channel([2], 5.0, context)), wanted)
    assert worst_case_loss(mechanism, 5.0, context[0]).value <= mechanism.stated_loss(5.0) == 5.0


def test_equal_sizes_by_hand():
    mechanism = EqualSizeBuckets(words(6), logit_weight=0, buckets=3)
    u = mechanism.utilities([1])[0]
    order = np.argsort(u)
    found = mechanism.bucketing([1])
    np.testing.assert_allclose(found.scores[0], u[order].reshape(3, 2).mean(axis=1))
    assert found.bucket[0, order].tolist() == [0, 0, 1, 1, 2, 2]
    odds = np.exp(2.0 * found.scores[0] / 2)
    channel = np.exp(mechanism.log_channel([1], 2.0))[0]
    np.testing.assert_allclose(channel[order], np.repeat(odds / odds.sum(), 2) / 2)


@pytest.mark.parametrize(("size", "buckets"), [(30, 5), (31, 5), (30, 30)])
def test_equal_sizes_keep_what_they_state(size, buckets):
    mechanism = EqualSizeBuckets(words(size), buckets=buckets)
    context = np.random.default_rng(2).normal(0, 4, size)
    for epsilon in (0.5, 8.0):
        assert worst_case_loss(mechanism, epsilon, context).value <= mechanism.stated_loss(epsilon) + 1e-12
    assert mechanism.stated_loss(1.0) == pytest.approx(1 + (np.log(7 / 6) if size % buckets else 0))


def test_mass_of_the_best():
    wanted = 10 * mpmath.e**3 / (10 * mpmath.e**3 + 49_990)
    assert top_mass_bound(10, 6.0, 50_000) == pytest.approx(float(wanted))
    assert top_mass_bound(3, 0.0, 12) == pytest.approx(0.25)
    assert top_mass_bound(4, 1.0, 4) == 1
    with pytest.raises(ValueError, match="k must be at most size, got 5 of 4"):
        top_mass_bound(5, 1.0, 4)
    # No utilities in the range give more.
    odds = np.exp(np.r_[np.ones(10), np.random.default_rng(0).random(90)] * 6 / 2)
    assert odds[:10].sum() / odds.sum() <= top_mass_bound(10, 6.0, 100)


@pytest.mark.parametrize("epsilon", [0, -2.0, np.nan, np.inf])
@pytest.mark.parametrize("kind", [RandomisedResponse, ExponentialMechanism, EqualSizeBuckets])
def test_epsilon_refused(kind, epsilon):
    mechanism = kind(words(60))
    with pytest.raises(ValueError, match="epsilon must be in"):
        mechanism.log_channel([0], epsilon, np.zeros((1, 60)))
    with pytest.raises(ValueError, match="epsilon must be in"):
        mechanism.stated_loss(epsilon)
    with pytest.raises(ValueError, match="keep must be one of"):
        kind(words(60), "most")
