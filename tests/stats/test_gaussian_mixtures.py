"""Epsilon of Gaussian mixtures against GDP, against adaptive quadrature, and in its limits."""

import numpy as np
import pytest
from scipy import optimize, stats

from dprepro.stats.gaussian_mixtures import mixture_epsilon
from dprepro.stats.gdp import mu_to_epsilon


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("sigma", [0.7, 1.5])
@pytest.mark.parametrize(("one", "other"), [([0.0], [1.0]), ([3.0, 0], [2, 1])])
def test_a_single_output_is_the_gaussian_mechanism(one, other, sigma, delta):
    exact = float(mu_to_epsilon(np.linalg.norm(np.subtract(one, other)) / sigma, delta))
    assert mixture_epsilon([one], [other], sigma, delta) == pytest.approx(exact, rel=2e-4)
    assert mixture_epsilon([other] * 3, [one] * 2, sigma, delta) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize("copies", [1, 3, 9])
def test_a_canary_that_is_copied_now_and_then(copies):
    """p = w phi(x - 1) + (1 - w) phi(x) exceeds e^epsilon phi(x) above x* = log((e^epsilon - 1 + w)/w) + 1/2."""
    share, delta = copies / 10, 1e-4

    def excess(epsilon):
        cut = np.log((np.exp(epsilon) - 1 + share) / share) + 0.5
        tail = share * stats.norm.sf(cut - 1) + (1 - share) * stats.norm.sf(cut)
        return tail - np.exp(epsilon) * stats.norm.sf(cut) - delta

    exact = optimize.brentq(excess, 1e-9, 20)
    rows = [[2.0]] * copies + [[0.0]] * (10 - copies)
    found = mixture_epsilon(rows, [[0.0]], 2.0, delta)
    assert exact > _other_way(share, delta) + 0.01, "the other direction is smaller"
    assert found == pytest.approx(exact, rel=1e-4)
    assert mixture_epsilon([[0.0]], rows, 2.0, delta) == pytest.approx(exact, rel=1e-4)


def _other_way(share, delta):
    """q - e^epsilon p is positive below x* = log((e^-epsilon - 1 + w)/w) + 1/2."""

    def excess(epsilon):
        cut = np.log((np.exp(-epsilon) - 1 + share) / share) + 0.5
        tail = share * stats.norm.cdf(cut - 1) + (1 - share) * stats.norm.cdf(cut)
        return stats.norm.cdf(cut) - np.exp(epsilon) * tail - delta

    return optimize.brentq(excess, 0, -np.log(1 - share) - 1e-12)


def test_random_answers_are_a_little_more_private():
    """A canary copied in 84 of 100 runs leaks less than one that always is, and more than one that never is."""
    always, never = [[2.0, 1.0]] * 100, [[3.0, 0.0]] * 100
    leaks = [mixture_epsilon(always[:n] + never[n:], never, 1.5, 1e-5) for n in (0, 10, 84, 100)]
    assert leaks[0] == 0 < leaks[1] < leaks[2] < leaks[3]
    assert leaks[2] > 0.9 * leaks[3]


def test_rows_too_many_sigma_apart_are_refused_before_memory_is_taken():
    for rows, sigma in (([[0.0], [1.0]], 1e-6), ([[0.0, 0], [1, 1]], 2e-3), ([[0.0], [1e300]], 1e-300)):
        with pytest.raises(ValueError, match=r"sigma must be larger .* cells, at most 2e\+07"):
            mixture_epsilon(rows[:1], rows[1:], sigma, 1e-5)


def test_centres_in_blocks(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(2, 30, 1))
    whole = mixture_epsilon(*rows, 1.0, 1e-5)
    monkeypatch.setattr("dprepro.stats.gaussian_mixtures._LARGEST_GRID", 10**5)  # a few centres at once
    assert mixture_epsilon(*rows, 1.0, 1e-5) == pytest.approx(whole, rel=1e-9)


def test_limits():
    assert mixture_epsilon([[1.0, 2]], [[1.0, 2]], 1.0, 1e-5) == 0
    assert mixture_epsilon([[1.0], [2]], [[2.0], [1]], 1.0, 1e-5) == pytest.approx(0, abs=1e-6)
    assert mixture_epsilon([[0.0]], [[0.1]], 1.0, 0.5) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [[1.0]], 1.0, 0.1), r"rows_in must have shape \(n, d\)"),
        (([[1.0, 2]], [[1.0]], 1.0, 0.1), "rows_out must have the 2 columns of rows_in, got 1"),
        ((np.zeros((2, 1)), np.ones((2, 3)), 1.0, 0.1), r"rows_out must have .* d of 1 or 2, got \(2, 3\)"),
        ((np.zeros((2, 1)), np.ones((0, 1)), 1.0, 0.1), "rows_out must have .* n of at least 1"),
        (([[np.nan]], [[1.0]], 1.0, 0.1), "rows_in must be finite"),
        (([[0.0]], [[1.0]], 0.0, 0.1), "sigma must be in"),
        (([[0.0]], [[1.0]], 1.0, 0.0), "delta must be in"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixture_epsilon(*arguments)
