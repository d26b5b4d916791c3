"""Oracles: scipy.stats.binomtest, statements of the papers worked by hand, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dprepro.stats.bounds import bernstein_radius, clopper_pearson, hoeffding_radius, modal_mass_low


def failure_limit(repeats, alpha):
    """Failures that a method of exact failure rate alpha exceeds in one test of a thousand."""
    return stats.binom.ppf(0.999, repeats, alpha)


@given(data=st.data(), trials=st.integers(1, 400_000), alpha=st.floats(1e-6, 0.5))
def test_clopper_pearson_against_scipy(data, trials, alpha):
    successes = data.draw(st.integers(0, trials))
    expected = stats.binomtest(successes, trials).proportion_ci(1 - alpha, method="exact")
    low, high = clopper_pearson(successes, trials, alpha)
    assert low == pytest.approx(expected.low, rel=1e-8, abs=1e-300)
    assert high == pytest.approx(expected.high, rel=1e-8)


def test_clopper_pearson_inverts_the_binomial_tail():
    low, high = clopper_pearson(17, 230, 0.05)
    assert stats.binom.sf(16, 230, low) == pytest.approx(0.025, rel=1e-9)
    assert stats.binom.cdf(17, 230, high) == pytest.approx(0.025, rel=1e-9)


def test_clopper_pearson_ends():
    low, high = clopper_pearson([0, 2000], 2000, 0.05)
    assert low[0] == 0
    assert high[0] == pytest.approx(0.001842739793, rel=1e-9)  # mpmath: 1 - .025^(1/2000)
    assert low[1] == pytest.approx(1 - high[0], rel=1e-12)
    assert high[1] == 1
    # A level that 1 - level cannot hold: the closed form is (alpha/2)^(1/n).
    assert clopper_pearson(0, 10, 1e-30)[1] == pytest.approx(1 - (0.5e-30) ** 0.1, rel=1e-12)


def test_clopper_pearson_broadcasts():
    low, high = clopper_pearson([[1], [2]], [10, 20, 30], 0.1)
    assert low.shape == high.shape == (2, 3)
    assert (low[1, 2], high[1, 2]) == clopper_pearson(2, 30, 0.1)
    assert isinstance(clopper_pearson(1, 2, 0.1)[0], float)


def test_clopper_pearson_coverage():
    repeats, alpha, rng = 20_000, 0.05, np.random.default_rng(1)
    for p, n in [(0.003, 500), (0.5, 40), (0.97, 2000)]:
        low, high = clopper_pearson(rng.binomial(n, p, repeats), n, alpha)
        limit = failure_limit(repeats, alpha / 2)
        assert np.count_nonzero(low > p) <= limit
        assert np.count_nonzero(high < p) <= limit


def test_hoeffding():
    assert hoeffding_radius(2000, 0.05) == pytest.approx(math.sqrt(math.log(40) / 4000), rel=1e-15)
    # SnapAudit's Hoeffding term alone, for its 2,000 calls: log(8/.05) in place of log(2/alpha).
    assert hoeffding_radius(2000, 2 * 0.05 / 8) == pytest.approx(0.0356, abs=5e-5)
    repeats, rng = 4000, np.random.default_rng(2)
    means = rng.integers(0, 2, (repeats, 100)).mean(axis=1)  # a coin is the worst case
    misses = np.count_nonzero(np.abs(means - 0.5) > hoeffding_radius(100, 0.05))
    assert misses <= failure_limit(repeats, 0.05)


def test_bernstein_radius_as_stated():
    assert bernstein_radius(0, 2000, 400_000) == pytest.approx(0.008443, abs=5e-7)
    assert bernstein_radius(0.001, 2000, 400_000) == pytest.approx(0.010696, abs=5e-7)
    np.testing.assert_array_equal(
        bernstein_radius([0, 0.001], [[2000], [2000]], 400_000),
        [[bernstein_radius(v, 2000, 400_000) for v in (0, 0.001)]] * 2,
    )


def test_bernstein_radius_coverage():
    # Clean outputs of success rate .9 or 1, a release for each of n_sample draws from the snapshot.
    repeats, n_llm, n_sample, rng = 3000, 300, 3000, np.random.default_rng(3)
    high = rng.binomial(n_llm, 0.3, repeats)
    h_mean = 0.9 + 0.1 * high / n_llm
    variance = 0.01 * high * (n_llm - high) / (n_llm * (n_llm - 1))
    estimate = rng.binomial(n_sample, h_mean) / n_sample
    misses = np.count_nonzero(np.abs(estimate - 0.93) > bernstein_radius(variance, n_llm, n_sample))
    assert misses <= failure_limit(repeats, 0.05)


def test_modal_mass_names_on_the_first_rows_and_counts_on_the_rest():
    outputs = np.array([[1, 2]] * 3 + [[0, 3]] * 2 + [[1, 2]] * 195)
    mode, mass = modal_mass_low(outputs, 0.025, naming_share=0.025)  # names on 5 rows
    np.testing.assert_array_equal(mode, [1, 2])
    assert mass == pytest.approx(0.025 ** (1 / 195), rel=1e-12)
    # The first row alone names a rare output: low mass, still a bound.
    mode, mass = modal_mass_low(["b", "a", "a", "b"], 0.1, naming_share=0.01)
    assert mode == "b"
    assert mass == pytest.approx(clopper_pearson(1, 3, 0.2)[0])
    # Among equals the first to appear.
    assert modal_mass_low([7, 3, 3, 7, 3], 0.1, naming_share=0.8)[0] == 7
    assert modal_mass_low([1, 2, 2], 0.1)[1] == 0


def test_modal_mass_coverage():
    # Twelve equally likely outputs: naming on the counted rows would choose the luckiest of them.
    repeats, alpha, rng = 4000, 0.05, np.random.default_rng(4)
    failures = naive = 0
    for outputs in rng.integers(0, 12, (repeats, 200)):
        failures += modal_mass_low(outputs, alpha, naming_share=0.2)[1] > 1 / 12
        naive += clopper_pearson(np.bincount(outputs).max(), 200, 2 * alpha)[0] > 1 / 12
    assert failures <= failure_limit(repeats, alpha)
    assert naive > failure_limit(repeats, alpha)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clopper_pearson(1, 0, 0.05), "trials must be a whole number of at least 1, got 0"),
        (lambda: clopper_pearson(-1, 5, 0.05), "successes must be a whole number of at least 0, got -1"),
        (lambda: clopper_pearson(6, 5, 0.05), "successes must be at most trials, got 6 of 5"),
        (lambda: clopper_pearson([[1], [4]], [9, 3], 0.05), "successes must be at most trials, got 4 of 3"),
        (lambda: clopper_pearson(1.5, 5, 0.05), "successes must be a whole number of at least 0, got 1.5"),
        (lambda: clopper_pearson(1, 5, 0), r"alpha must be in \(0, 1\), got 0"),
        (lambda: hoeffding_radius(0, 0.05), "n must be a whole number of at least 1, got 0"),
        (lambda: bernstein_radius(-1, 10, 10), r"variance must be in \[0, 0.5\], got -1"),
        (lambda: bernstein_radius(0, 1, 10), "n_llm must be a whole number of at least 2, got 1"),
        (lambda: bernstein_radius(0, 10, 0), "n_sample must be a whole number of at least 1, got 0"),
        (lambda: bernstein_radius(0, 10, 10, 1), r"confidence must be in \(0, 1\), got 1"),
        (
            lambda: modal_mass_low([], 0.05),
            r"outputs must be an array \(n,\) or \(n, d\) with n of at least 2",
        ),
        (lambda: modal_mass_low([1, 1], 0.5), r"alpha must be in \(0, 0.5\), got 0.5"),
        (lambda: modal_mass_low([1, 1], 0.1, 0), r"naming_share must be in \(0, 1\), got 0"),
        (lambda: modal_mass_low([1, np.nan], 0.1), "outputs must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
