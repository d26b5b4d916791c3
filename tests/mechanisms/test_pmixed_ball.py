"""Renyi divergence and projection: against scipy and many digits, on the boundary, at the ends and with zeros."""

import mpmath
import numpy as np
import pytest
from scipy.stats import entropy

from dprepro.mechanisms.pmixed_ball import distributions, project, renyi_divergence


def by_hand(p, q, order):
    """The definition, in 60 digits."""
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(float(x)), mpmath.mpf(float(y))) for x, y in zip(p, q, strict=True) if x > 0]
        if any(y == 0 for _, y in pairs):
            return np.inf
        if order == np.inf:
            return float(mpmath.log(max(x / y for x, y in pairs)))
        total = mpmath.fsum(x**order * y ** (1 - order) for x, y in pairs)
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize("order", [1.001, 1.5, 2, 3, 9, 64, np.inf])
def test_divergence_against_many_digits(order):
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.full(30, 0.2), 2)
    p = distributions("p", np.where(np.arange(30) < 3, 0, p) / p[3:].sum())
    found = renyi_divergence(p, q, order)
    assert found == pytest.approx(by_hand(p, q, order), rel=1e-9)


def test_divergence_near_order_one_is_relative_entropy():
    p, q = np.random.default_rng(2).dirichlet(np.ones(8), 2)
    assert renyi_divergence(p, q, 1 + 1e-7) == pytest.approx(entropy(p, q), rel=1e-5)


def test_divergence_of_a_power_law_underflows_nowhere():
    p = np.array([1 - 1e-300, 1e-300])
    q = np.array([1 - 1e-12, 1e-12])
    assert renyi_divergence(q, p, 3) == pytest.approx((3 * np.log(1e-12) - 2 * np.log(1e-300)) / 2, rel=1e-12)


def test_support():
    half, one = np.array([0.5, 0.5, 0]), np.array([1.0, 0, 0])
    assert renyi_divergence(one, half, 3) == pytest.approx(np.log(2))
    assert renyi_divergence(half, one, 3) == np.inf
    assert renyi_divergence(half, one, np.inf) == np.inf
    assert renyi_divergence(half, half, 2) == 0
    assert renyi_divergence([half, one], [one, one], 2).tolist() == [np.inf, 0]


@pytest.mark.parametrize("order", [1.5, 2, 3, 7, 40, np.inf])
@pytest.mark.parametrize("reverse", [None, 1.5, 6, np.inf])
@pytest.mark.parametrize("radius", [1e-3, 0.3, 2.0])
def test_projection_ends_on_the_boundary(order, reverse, radius):
    rng = np.random.default_rng(3)
    p0 = rng.dirichlet(np.full(50, 0.3))
    experts = rng.dirichlet(np.full(50, 0.3), 20)
    mixture, weight = project(experts, p0, radius, order, reverse)
    np.testing.assert_allclose(mixture, weight[:, None] * experts + (1 - weight[:, None]) * p0, atol=1e-15)

    def worst(m):
        return max(by_hand(m, p0, order), by_hand(p0, m, reverse or order))

    for p, m, w in zip(experts, mixture, weight, strict=True):
        assert worst(m) <= radius * (1 + 1e-9)
        if w < 1:  # a little further is outside
            more = min(1, w + 2e-6)
            assert worst(more * p + (1 - more) * p0) > radius


def test_a_near_expert_stays_as_it_is():
    p0 = np.full(4, 0.25)
    p = np.array([0.26, 0.24, 0.25, 0.25])
    mixture, weight = project(p, p0, 0.5, 3)
    assert weight == 1
    np.testing.assert_allclose(mixture, p, atol=1e-15)
    assert project(p, p0, 0.5, 3, np.inf).weight == 1
    assert project(p0, p0, 0.0, 3).weight.shape == ()


def test_radius_zero_gives_the_public_model():
    p0, p = np.random.default_rng(4).dirichlet(np.ones(5), 2)
    np.testing.assert_array_equal(project(p, p0, 0, 3).mixture, p0)


def test_words_without_public_mass():
    p0 = np.array([0.5, 0.5, 0, 0])
    inside, outside = np.array([0.9, 0.1, 0, 0]), np.array([0.9, 0.05, 0.05, 0])
    weight = project([inside, outside], p0, 0.1, 3, np.inf).weight
    assert 0 < weight[0] < 1
    assert weight[1] == 0


def test_a_word_the_expert_never_says_bounds_the_weight():
    p0, p = np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.5, 0])
    assert project(p, p0, 0.2, 2, np.inf).weight == pytest.approx(-np.expm1(-0.2), rel=1e-9)
    m, weight = project(p, p0, 50.0, 2, 2)
    assert weight < 1  # D(p0 || p) is infinite
    assert m[2] > 0


def test_tiny_public_probabilities():
    p0 = np.array([1 - 1e-300, 1e-300])
    for reverse in (None, np.inf):
        mixture, weight = project([0.5, 0.5], p0, 0.5, 3, reverse)
        assert 0 <= weight < 1e-6
        assert renyi_divergence(mixture, p0, 3) <= 0.5


def test_float32_probabilities_are_accepted():
    logits = np.random.default_rng(5).normal(size=(3, 50_000)).astype(np.float32)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert project(p[:2], p[2], 0.5, 3).weight.shape == (2,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 1}, r"order must be in \(1, inf\], got 1"),
        ({"order": 0.5}, "order must be"),
        ({"reverse_order": 1}, "reverse_order must be"),
        ({"radius": -0.1}, r"radius must be in \[0, inf\], got -0.1"),
        ({"radius": np.nan}, "radius must be"),
        ({"p": [0.5, 0.4, 0.0]}, "p must sum to 1 over the vocabulary, got a sum of 0.9"),
        ({"p": [1.5, -0.5, 0.0]}, "p must be in"),
        ({"p": [np.nan, 0.5, 0.5]}, "p must be finite"),
        ({"p": []}, "p must hold a probability for each word"),
        ({"p0": [0.5, 0.5]}, "p must have p0's vocabulary of 2 words, got 3"),
        ({"p0": [[0.5, 0.25, 0.25]]}, "p0 must have shape"),
        ({"p": 1.0}, "p must hold a probability"),
    ],
)
def test_bad_input(change, message):
    good = {"p": [0.5, 0.25, 0.25], "p0": [0.25, 0.5, 0.25], "radius": 0.5, "order": 3}
    project(**good)
    with pytest.raises(ValueError, match=message):
        project(**{**good, **change})


def test_bad_divergence():
    with pytest.raises(ValueError, match="order must be"):
        renyi_divergence([1.0], [1.0], 1)
    with pytest.raises(ValueError, match="vocabulary of 3 words, got 2"):
        renyi_divergence([0.5, 0.5], [0.2, 0.3, 0.5], 2)
