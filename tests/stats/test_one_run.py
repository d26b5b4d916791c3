"""Oracles: values of the authors' code (appendix D), closed forms, scipy.stats, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.one_run import _tail, epsilon_one_run


# The authors' code, at its bisection's accuracy.
@pytest.mark.parametrize(
    ("m", "guesses", "correct", "delta", "epsilon"),
    [
        (1000, 100, 90, 1e-5, 1.6261436787),
        (1000, 100, 100, 0, 3.4929653462),
        (100_000, 1500, 1429, 1e-5, 2.6687544240),
    ],
)
def test_values_of_the_authors_code(m, guesses, correct, delta, epsilon):
    assert epsilon_one_run(m, guesses, correct, delta, 0.05) == pytest.approx(epsilon, abs=1e-6)


def test_all_right_has_a_closed_form():
    # q^r = alpha
    q = 0.05**0.01
    assert epsilon_one_run(1000, 100, 100, 0, 0.05) == pytest.approx(math.log(q / (1 - q)), rel=1e-12)


@given(data=st.data(), guesses=st.integers(1, 3000), alpha=st.floats(1e-6, 0.4))
def test_without_delta_it_is_clopper_pearson_on_the_logit(data, guesses, alpha):
    correct = data.draw(st.integers(0, guesses))
    low = clopper_pearson(correct, guesses, 2 * alpha)[0]
    expected = max(0.0, math.log(low / (1 - low))) if low > 0 else 0.0
    assert epsilon_one_run(3000, guesses, correct, 0, alpha) == pytest.approx(expected, rel=1e-8, abs=1e-8)


@given(data=st.data(), guesses=st.integers(1, 200), epsilon=st.floats(0, 6), delta=st.floats(0, 1e-2))
def test_tail_is_the_theorem_term_by_term(data, guesses, epsilon, delta):
    correct = data.draw(st.integers(1, guesses))
    law = stats.binom(guesses, 1 / (1 + math.exp(-epsilon)))
    pmf = law.pmf(np.arange(guesses + 1))
    worst = max(pmf[correct - i : correct].sum() / i for i in range(1, correct + 1))
    expected = min(1.0, law.sf(correct - 1) + 2 * 250 * delta * worst)
    assert _tail(250, guesses, correct, delta, epsilon) == pytest.approx(expected, rel=1e-8, abs=1e-14)


@given(data=st.data(), guesses=st.integers(1, 400), delta=st.floats(0, 0.01), alpha=st.floats(1e-4, 0.3))
def test_monotone(data, guesses, delta, alpha):
    correct = data.draw(st.integers(0, guesses - 1))
    value = epsilon_one_run(400, guesses, correct, delta, alpha)
    assert 0 <= value < np.inf
    assert epsilon_one_run(400, guesses, correct + 1, delta, alpha) >= value - 1e-9
    assert epsilon_one_run(400, guesses, correct, 2 * delta, alpha) <= value + 1e-9
    tails = [_tail(400, guesses, correct, delta, e) for e in np.linspace(0, 8, 60)]
    assert np.all(np.diff(tails) >= -1e-12)  # what the bisection relies on


def test_degenerate_limits():
    assert epsilon_one_run(10, 0, 0, 1e-5, 0.05) == 0
    assert epsilon_one_run(1000, 100, 0, 1e-5, 0.05) == 0
    assert epsilon_one_run(1000, 100, 50, 1e-5, 0.05) == 0
    assert epsilon_one_run(1000, 1000, 1000, 1, 0.05) == 0
    values = epsilon_one_run(1000, 100, [[80], [90]], [0, 1e-5], 0.05)
    assert values.shape == (2, 2)
    assert values[1, 1] == epsilon_one_run(1000, 100, 90, 1e-5, 0.05)


def test_coverage():
    # Randomised response on each coin is exactly epsilon-DP and attains the tail of the theorem at delta = 0.
    rng, repeats, epsilon = np.random.default_rng(12), 4000, 1.0
    correct = rng.binomial(200, 1 / (1 + math.exp(-epsilon)), repeats)
    bounds = epsilon_one_run(200, 200, np.arange(201), 0, 0.05)[correct]
    assert np.count_nonzero(bounds > epsilon) <= stats.binom.ppf(0.999, repeats, 0.05)
    # And with delta: every coin is published with probability delta, else answered as above.
    published = rng.binomial(200, 0.01, repeats)
    correct = published + rng.binomial(200 - published, 1 / (1 + math.exp(-epsilon)))
    bounds = epsilon_one_run(200, 200, np.arange(201), 0.01, 0.05)[correct]
    assert np.count_nonzero(bounds > epsilon) <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 0, 0, 0.05), "m must be a whole number of at least 1, got 0"),
        ((10, 11, 0, 0, 0.05), "guesses must be at most m, got 11 of 10"),
        ((10, 5, 6, 0, 0.05), "correct must be at most guesses, got 6 of 5"),
        ((10, 5, -1, 0, 0.05), "correct must be a whole number of at least 0, got -1"),
        ((10, 5, 5, 1.1, 0.05), r"delta must be in \[0, 1\], got 1.1"),
        ((10, 5, 5, 0, 0), r"alpha must be in \(0, 1\), got 0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        epsilon_one_run(*arguments)
