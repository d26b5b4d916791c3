from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


class Fixed:
    """A model whose logits are known: those of row i are for the word i at any place."""

    def __init__(self, table):
        self.table = table

    def logits(self, cuts, texts, positions):
        return np.stack([self.table[cuts[t].rows[p]] for t, p in zip(texts, positions, strict=True)])


def words(n, seed=0, dimension=3):
    vectors = np.random.default_rng(seed).normal(size=(n, dimension)).astype(np.float32)
    return Vocabulary(tuple(f"w{i}" for i in range(n)), vectors)


def few(vocabulary, **changes):
    return Cape(vocabulary, **{"buckets": 5, **changes})


def by_hand(mechanism, row, logits, epsilon):
    """The definition, a token at a time, in plain Python."""
    vectors = mechanism.vocabulary.vectors.astype(float)
    distance = np.linalg.norm(vectors - vectors[row], axis=1)
    bound = mechanism.bound
    shifted = np.clip(logits - logits.mean(), -bound, bound) + bound
    closeness = np.exp(-distance / distance.max())
    u = shifted**mechanism.logit_weight * closeness**mechanism.distance_weight
    buckets = {}
    for token, value in enumerate(u):
        place = int((value - u.min()) / (u.max() - u.min()) * mechanism.buckets)
        buckets.setdefault(min(place, mechanism.buckets - 1), []).append(token)
    delta = (2 * bound) ** mechanism.logit_weight
    odds = {b: np.exp(epsilon * u[tokens].mean() / (2 * delta)) for b, tokens in buckets.items()}
    probability = np.empty(len(u))
    for b, tokens in buckets.items():
        probability[tokens] = odds[b] / sum(odds.values()) / len(tokens)
    return probability


@pytest.mark.parametrize(
    ("buckets", "weights"), list(product([1, 4, 30], [(0.5, 1.0), (1.0, 0.0), (0.0, 2.0)]))
)
def test_channel_is_the_definition(buckets, weights):
    vocabulary, rng = words(30), np.random.default_rng(1)
    mechanism = Cape(vocabulary, buckets=buckets, logit_weight=weights[0], distance_weight=weights[1])
    contexts = rng.normal(0, 4, (30, 30))
    for epsilon in (0.1, 6.0, 20.0):
        found = np.exp(mechanism.log_channel(np.arange(30), epsilon, contexts))
        wanted = [by_hand(mechanism, row, contexts[row], epsilon) for row in range(30)]
        np.testing.assert_allclose(found, wanted, rtol=2e-5)
        np.testing.assert_allclose(found.sum(axis=1), 1)


def test_ten_thousand_tokens_follow_the_channel():
    vocabulary, rng = words(40), np.random.default_rng(2)
    mechanism = Cape(vocabulary, buckets=8)
    context = rng.normal(0, 4, (1, 40))
    for epsilon in (1.0, 14.0):
        drawn = mechanism.draw(np.full(10_000, 7), epsilon, rng, np.repeat(context, 10_000, axis=0))
        expected = 10_000 * np.exp(mechanism.log_channel([7], epsilon, context))[0]
        assert chisquare(np.bincount(drawn, minlength=40), expected).pvalue > 1e-3


def test_texts_at_once_follow_their_own_contexts():
    vocabulary, rng = words(12), np.random.default_rng(3)
    table = rng.normal(0, 5, (12, 12))
    mechanism = Cape(vocabulary, "punctuation", Fixed(table), buckets=4)
    found = mechanism.perturb(["w3 . w9", "", "w9"] * 5_000, 10.0, rng)
    assert found.kept == 5_000
    assert found.tokens[1] == ()
    for text, place, row in ((0, 0, 3), (0, 2, 9), (2, 0, 9)):
        drawn = [vocabulary.number[line[place]] for line in found.tokens[text::3]]
        expected = 5_000 * np.exp(mechanism.log_channel([row], 10.0, table[[row]]))[0]
        assert chisquare(np.bincount(drawn, minlength=12), expected).pvalue > 1e-3


def test_blocks_have_the_same_law(monkeypatch):
    vocabulary, rng = words(12), np.random.default_rng(4)
    mechanism, context = Cape(vocabulary, buckets=4), rng.normal(0, 4, (1, 12))
    monkeypatch.setattr("dprepro.mechanisms.prompt.cape.BLOCK", 36)
    drawn = mechanism.draw(np.full(4_000, 5), 8.0, rng, np.repeat(context, 4_000, axis=0))
    expected = 4_000 * np.exp(mechanism.log_channel([5], 8.0, context))[0]
    assert chisquare(np.bincount(drawn, minlength=12), expected).pvalue > 1e-3


def test_one_bucket_is_uniform():
    mechanism = Cape(words(9), buckets=1, logit_weight=0)
    np.testing.assert_allclose(np.exp(mechanism.log_channel([0, 5], 20.0)), 1 / 9)
    assert mechanism.stated_loss(3.0) == 3.0
    assert Cape(words(9), buckets=2).stated_loss(3.0) == pytest.approx(3 + np.log(8))


def test_logits_equal_and_infinite():
    vocabulary = words(10)
    # Centred, each is in the middle of the clip: distance alone decides, with a factor sqrt(B / 2B) before epsilon.
    equal = few(vocabulary).log_channel([2], 5.0 * 2**0.5, np.full((1, 10), 3.0))
    np.testing.assert_allclose(equal, few(vocabulary, logit_weight=0).log_channel([2], 5.0), rtol=1e-5)
    logits = np.zeros((1, 10))
    logits[0, :3] = -np.inf, np.inf, -np.inf
    clipped = logits.copy()
    clipped[0, :3] = -99, 99, -99
    found = few(vocabulary).utilities([4], logits)
    raw = few(vocabulary, centred=False)
    np.testing.assert_allclose(found, raw.utilities([4], clipped))
    # All below the clip: no token is better than another, hence one bucket.
    np.testing.assert_allclose(np.exp(raw.log_channel([4], 5.0, np.full((1, 10), -np.inf))), 0.1)


def test_utilities_do_not_leave_the_range_of_the_sensitivity():
    mechanism = few(words(20), bound=2.0, centred=False)
    logits = np.random.default_rng(0).normal(0, 9, (20, 20))
    found = mechanism.utilities(np.arange(20), logits)
    assert found.min() >= 0
    assert found.max() <= mechanism.sensitivity == 2.0
    # It is reached: the word itself with a logit at the clip, against any with one at the other end.
    logits[0, 0], logits[0, 1] = 9, -9
    ends = mechanism.utilities([0], logits[:1])[0]
    assert (ends[0], ends[1]) == (2.0, 0.0)


def test_constant_of_the_logits_matters_only_without_centring():
    vocabulary, logits = words(15), np.random.default_rng(0).normal(0, 3, (1, 15))
    moved = [few(vocabulary).log_channel([1], 9.0, logits + c) for c in (0, 4)]
    np.testing.assert_allclose(*moved, atol=1e-4)
    raw = [few(vocabulary, centred=False).log_channel([1], 9.0, logits + c) for c in (0, 4)]
    assert np.abs(raw[0] - raw[1]).max() > 0.1


def test_a_word_outside_the_vocabulary_is_far_from_all():
    vocabulary = words(10)
    np.testing.assert_allclose(few(vocabulary, logit_weight=0).utilities([-1]), np.exp(-1), rtol=1e-6)
    found = few(vocabulary, logit_weight=0).perturb(["電影 w1 Ж"], 60.0, np.random.default_rng(0))
    assert found.outside == 2
    assert all(token in vocabulary.words for token in found.tokens[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buckets": 0}, "buckets must be a whole number of at least 1, got 0"),
        ({"buckets": 11}, "buckets must be at most the 10 words there are, got 11"),
        ({"buckets": 2.5}, "buckets must be a whole number"),
        ({"bound": 0}, "bound must be in"),
        ({"bound": np.inf}, "bound must be in"),
        ({"logit_weight": -1}, "logit_weight must be in"),
        ({"distance_weight": np.nan}, "distance_weight must be in"),
        ({"keep": "all"}, "keep must be one of"),
    ],
)
def test_settings_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Cape(words(10), **changes)


def test_bad_calls():
    mechanism, rng = few(words(10)), np.random.default_rng(0)
    for epsilon in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be in"):
            mechanism.log_channel([0], epsilon, np.zeros((1, 10)))
        with pytest.raises(ValueError, match="epsilon must be in"):
            mechanism.stated_loss(epsilon)
    for logits in (None, np.zeros((1, 9)), np.zeros((3, 10)), np.zeros(10)):
        with pytest.raises(ValueError, match="contexts must have shape"):
            mechanism.log_channel([0, 1], 1.0, logits)
    with pytest.raises(ValueError, match="free of NaN"):
        mechanism.log_channel([0], 1.0, np.full((1, 10), np.nan))
    with pytest.raises(ValueError, match="rows must be -1 to 9, got -1 to 10"):
        mechanism.log_channel([-1, 10], 1.0, np.zeros((2, 10)))
    with pytest.raises(ValueError, match="context must be a model"):
        mechanism.perturb(["w1"], 1.0, rng)
