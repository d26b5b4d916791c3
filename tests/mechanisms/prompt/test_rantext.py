import math

import numpy as np
import pytest
from scipy import stats

from dprepro.mechanisms.prompt import rantext
from dprepro.mechanisms.prompt.rantext import Rantext, noise_epsilon, radius_distribution
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = tuple("abcdefghijkl")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(WORDS, np.random.default_rng(3).normal(size=(12, 30)))


def test_one_coordinate_is_exponential():
    radii, shares = radius_distribution([2.0, 0.0], 400)
    assert shares.sum() == pytest.approx(1)
    for radius in (0.5, 2.0, 8.0):
        below = shares[radii <= radius].sum()
        assert below == pytest.approx(-math.expm1(-radius / 2), abs=0.02)


@pytest.mark.parametrize("scales", [[1.0, 0.3, 2.0], np.linspace(0.5, 1.5, 60)])
def test_radii_are_lengths_of_laplace_vectors(scales):
    radii, shares = radius_distribution(scales, 300)
    assert shares @ radii**2 == pytest.approx(2 * np.square(scales).sum(), rel=0.01)
    drawn = np.linalg.norm(np.random.default_rng(1).laplace(0, scales, (20_000, len(scales))), axis=1)
    edges = (radii[1:] + radii[:-1]) / 2
    found = np.searchsorted(np.sort(drawn), edges) / 20_000
    # The largest distance of an empirical distribution of 20,000 from the true one is below this but for 1e-4.
    assert np.abs(found - shares.cumsum()[:-1]).max() < stats.kstwobign.isf(1e-4) / 20_000**0.5 + 1e-3


def by_the_public_code(vocabulary, row, epsilon, rng):
    """One token as func.py of the public code draws it, coordinate by coordinate."""
    vectors = vocabulary.vectors.astype(float)
    tt = (
        0.01658160142016071 * math.log(epsilon * 19.064721649556482 - 38.1294334077209) + 9.311083811697406
        if epsilon > 2
        else 0
    )
    beta = np.ptp(vectors, axis=0) / (epsilon if epsilon < 2 else tt)
    noise = np.array([rng.laplace(0, b) for b in beta])
    radius = np.linalg.norm(noise)
    distances = np.linalg.norm(vectors - vectors[row], axis=1)
    close = np.flatnonzero(distances < radius)
    weights = np.exp(epsilon / 2 * (radius - distances[close]) / radius)
    return rng.choice(close, p=weights / weights.sum())


@pytest.mark.parametrize("epsilon", [1.0, 6.0, 20.0])
def test_ten_thousand_tokens_follow_channel_and_public_code(vocabulary, epsilon):
    mechanism, rng = Rantext(vocabulary), np.random.default_rng(11)
    expected = np.exp(mechanism.log_channel([4], epsilon))[0]
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    drawn = np.bincount(mechanism.draw(np.full(10_000, 4), epsilon, rng), minlength=12)
    public = np.bincount(
        [by_the_public_code(vocabulary, 4, epsilon, rng) for _ in range(2_000)], minlength=12
    )
    for counts in (drawn, public):
        common = expected * counts.sum() >= 5
        merged = np.append(counts[common], counts[~common].sum())
        wanted = np.append(expected[common], expected[~common].sum()) * counts.sum()
        used = wanted > 0
        assert merged[~used].sum() == 0
        assert stats.chisquare(merged[used], wanted[used] * counts.sum() / wanted.sum()).pvalue > 1e-3


def test_noise_of_the_public_code():
    assert noise_epsilon(2.0) == pytest.approx(9.12, abs=0.005)
    assert noise_epsilon(1.0) == 1.0
    assert noise_epsilon(1.99) == 1.99
    assert noise_epsilon(6.0) == pytest.approx(
        0.01658160142 * math.log(19.0647 * 6 - 38.1294) + 9.3111, abs=1e-4
    )
    # From just below 2 to just above it the noise falls to less than a quarter, then hardly at all.
    assert noise_epsilon(2.01) > 4 * noise_epsilon(1.99)
    assert noise_epsilon(20) < 1.02 * noise_epsilon(2.01)


def test_larger_than_claimed(vocabulary):
    """Whether a word can come out at all depends on the input: the loss exceeds the claimed epsilon."""
    table = Rantext(vocabulary).log_channel(range(12), 2.5)
    assert (table.max(axis=0) - table.min(axis=0)).max() > 2.5
    assert Rantext(vocabulary).budget(2.5, 10, turns=3) == (2.5, 25.0, 75.0)


def test_words_outside_are_dropped_and_counted(vocabulary):
    found = Rantext(vocabulary, keep="punctuation").perturb(
        ["a zebra, привет b", "", "東京"], 5.0, np.random.default_rng(0)
    )
    assert found.outside == 3
    assert found.kept == 1
    assert found.tokens[0][1] == ""
    assert found.tokens[0][2] == ","
    assert len(found.texts[0].split()) == 3
    assert found.texts[1:] == ("", "")


def test_blocks_hold_few_rows(vocabulary, rows_asked, monkeypatch):
    whole = Rantext(vocabulary).draw(range(12), 4.0, np.random.default_rng(1))
    rows_asked.clear()
    monkeypatch.setattr(rantext, "BLOCK", 40)
    found = Rantext(vocabulary).draw(range(12), 4.0, np.random.default_rng(1))
    assert max(rows_asked) == 3
    assert len(found) == len(whole) == 12


def test_bad_arguments_are_named(vocabulary):
    mechanism = Rantext(vocabulary)
    for epsilon in (0, -2.0, np.nan):
        with pytest.raises(ValueError, match="epsilon must be in"):
            mechanism.log_channel([0], epsilon)
        with pytest.raises(ValueError, match="epsilon must be in"):
            mechanism.perturb(["a"], epsilon, np.random.default_rng(0))
        with pytest.raises(ValueError, match="epsilon must be in"):
            mechanism.stated_loss(epsilon)
    with pytest.raises(ValueError, match="scales must be in"):
        radius_distribution([-1.0], 10)
    with pytest.raises(ValueError, match="scales must have a positive entry"):
        radius_distribution([0.0], 10)
    with pytest.raises(ValueError, match="nodes must be"):
        radius_distribution([1.0], 1)
    with pytest.raises(ValueError, match="keep must be one of"):
        Rantext(vocabulary, keep="words")
