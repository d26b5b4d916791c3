"""The exact two-sample test: Barnard's test, enumeration, closed forms, and its level at every pair of rates."""

import numpy as np
import pytest
from scipy import stats

from dprepro.stats.two_sample import _score, epsilon_box, epsilon_two_sample, largest_tpr, p_value


@pytest.mark.parametrize(("x", "n", "y", "m"), [(7, 10, 2, 12), (19, 50, 5, 50), (3, 5, 1, 4), (5, 5, 0, 5)])
def test_at_epsilon_zero_it_is_barnards_test(x, n, y, m):
    """scipy searches the common rate by another method."""
    table = [[x, y], [n - x, m - y]]
    sides = [stats.barnard_exact(table, alternative=side, pooled=True).pvalue for side in ("less", "greater")]
    assert p_value(x, n, y, m, 0.0, 0.0) == pytest.approx(min(sides), abs=1e-5)


@pytest.mark.parametrize(("x", "n", "y", "m"), [(68, 127, 13, 30), (17, 30, 59, 127), (40, 90, 9, 25)])
def test_a_peak_near_an_end_is_not_overlooked(x, n, y, m):
    """At epsilon 0 the statistic is that of two proportions. In the first case the largest chance is at .984."""
    a, b = np.arange(n + 1)[:, None], np.arange(m + 1)
    share = (a + b) / (n + m)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (a / n - b / m) / np.sqrt(share * (1 - share) * (1 / n + 1 / m))
    extreme = z >= z[x, y] - 1e-9
    end = np.geomspace(1e-4, 0.5, 500)
    rates = np.r_[end, 1 - end]
    in_pmf, out_pmf = (stats.binom.pmf(np.arange(k + 1), k, rates[:, None]) for k in (n, m))
    chance = ((in_pmf @ extreme) * out_pmf).sum(axis=1).max()
    assert p_value(x, n, y, m, 0.0, 0.0) == pytest.approx(chance, rel=1e-4)


def test_the_higher_of_two_peaks_is_not_always_the_one_that_looks_higher():
    """At epsilon 1 the first look finds .0747 at one peak; the other one reaches .0756."""
    x, n, y, m, ratio = 15, 25, 4, 36, np.e
    a, b = np.arange(n + 1)[:, None], np.arange(m + 1)
    extreme = _score(a, n, b, m, ratio, 0.0) >= _score(np.array(x), n, np.array(y), m, ratio, 0.0) - 1e-9
    fpr = np.linspace(0, 1, 3001)[1:-1]
    tpr = np.minimum(ratio * fpr, 1 - (1 - fpr) / ratio)
    in_pmf, out_pmf = (stats.binom.pmf(np.arange(k + 1), k, p[:, None]) for k, p in ((n, tpr), (m, fpr)))
    chance = ((in_pmf @ extreme) * out_pmf).sum(axis=1).max()
    assert p_value(x, n, y, m, 1.0, 0.0) == pytest.approx(chance, rel=2e-4)


def score(x, n, y, m, ratio, delta):
    """Farrington and Manning's statistic with the likeliest rates found by brute force."""
    fpr = np.linspace(0, (1 - delta) / ratio, 20_001)[1:-1]
    tpr = ratio * fpr + delta
    likelihood = stats.binom.logpmf(x, n, tpr) + stats.binom.logpmf(y, m, fpr)
    p, q = tpr[likelihood.argmax()], fpr[likelihood.argmax()]
    return (x / n - ratio * y / m - delta) / np.sqrt(p * (1 - p) / n + ratio**2 * q * (1 - q) / m)


@pytest.mark.parametrize(
    ("x", "y", "epsilon", "delta"), [(6, 1, 0.5, 0.0), (5, 2, 0.2, 0.05), (7, 0, 1.0, 0.01)]
)
def test_the_p_value_is_that_of_enumeration_over_the_whole_region(x, y, epsilon, delta):
    n, m, ratio = 7, 6, np.exp(epsilon)
    statistic = np.array([[score(a, n, b, m, ratio, delta) for b in range(m + 1)] for a in range(n + 1)])
    extreme = statistic >= statistic[x, y] - 1e-3
    fpr, share = np.meshgrid(np.linspace(0, 1, 301), np.linspace(0, 1, 41))
    tpr = share * largest_tpr(fpr, epsilon, delta)  # the interior too
    in_pmf = stats.binom.pmf(np.arange(n + 1)[:, None, None], n, tpr)
    out_pmf = stats.binom.pmf(np.arange(m + 1)[:, None, None], m, fpr)
    chance = np.einsum("aij,bij,ab->ij", in_pmf, out_pmf, extreme)
    assert p_value(x, n, y, m, epsilon, delta) == pytest.approx(chance.max(), abs=2e-3)
    assert p_value(x, n, y, m, epsilon, delta) >= chance.max() - 1e-9


def test_an_attack_without_an_error_has_a_closed_form():
    """Only that outcome is as extreme; the corner (r/(1+r), 1/(1+r)) makes it likeliest, with (r/(1+r))^(n+m)."""
    for n, m, alpha in ((20, 20, 0.05), (30, 50, 0.01), (1, 1, 0.5)):
        a = alpha ** (1 / (n + m))
        assert epsilon_two_sample(n, n, 0, m, 0.0, alpha) == pytest.approx(np.log(a / (1 - a)), abs=3e-3)
    assert epsilon_two_sample(1, 1, 0, 1, 0.0, 0.5) == pytest.approx(np.log(1 + np.sqrt(2)), abs=2e-3)
    a = 1e-20 ** (1 / 200)  # a level below the spacing of floats at 1
    assert epsilon_two_sample(100, 100, 0, 100, 0.0, 1e-20) == pytest.approx(np.log(a / (1 - a)), abs=1e-2)


def test_the_level_is_kept_at_every_pair_of_rates_on_the_edge():
    n = m = 7
    epsilon, alpha = 0.7, 0.1
    rejected = np.array(
        [[p_value(x, n, y, m, epsilon, 0.0) <= alpha for y in range(m + 1)] for x in range(n + 1)]
    )
    assert rejected.any()
    for fpr in np.linspace(0, 1, 60):
        in_pmf = stats.binom.pmf(np.arange(n + 1), n, largest_tpr(fpr, epsilon))
        assert in_pmf @ rejected @ stats.binom.pmf(np.arange(m + 1), m, fpr) <= alpha + 1e-4


def test_the_bound_is_where_the_p_value_crosses_first():
    bound = epsilon_two_sample(38, 100, 10, 100, 1e-3, 0.05)
    below = np.linspace(0, bound, 12)
    assert max(p_value(38, 100, 10, 100, epsilon, 1e-3) for epsilon in below) <= 0.05
    assert p_value(38, 100, 10, 100, bound + 1e-3, 1e-3) > 0.05
    assert epsilon_box(38, 100, 10, 100, 1e-3, 0.05) < bound < np.log(3.8)


def test_box_against_the_limits_of_another_package():
    limits = stats.binomtest(19, 50).proportion_ci(0.95), stats.binomtest(5, 50).proportion_ci(0.95)
    expected = np.log(limits[0].low / limits[1].high)
    assert epsilon_box(19, 50, 5, 50, 0.0, 0.05) == pytest.approx(expected, rel=1e-9)
    # 38 and 10 of 100: worked out separately.
    assert epsilon_box([38, 10], 100, [10, 38], 100, 0.0, 0.05) == pytest.approx([0.480, 0], abs=5e-4)


def test_no_evidence_gives_nothing():
    assert epsilon_two_sample(2, 20, 10, 20, 0.0, 0.05) == 0
    assert epsilon_two_sample(0, 5, 0, 5, 0.0, 0.05) == 0
    assert epsilon_two_sample(1, 1, 0, 1, 0.0, 0.05) == 0


def test_edge_of_the_region():
    """At (1 - delta)/(1 + e^epsilon) the two lines meet, where TPR = 1 - FPR."""
    corner = (1 - 1e-2) / (1 + np.exp(1.5))
    assert largest_tpr(corner, 1.5, 1e-2) == pytest.approx(1 - corner)
    assert largest_tpr([0.0, 0.1, 1.0], 0.0) == pytest.approx([0, 0.1, 1])
    assert largest_tpr(0.0, 3.0, 0.25) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"x": 11}, "x must be at most n"),
        ({"y": -1}, "y must be"),
        ({"m": 0}, "m must be"),
        ({"x": 2.5}, "x must be a whole number"),
        ({"delta": 1.0}, "delta must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha": 0.6}, "alpha must be"),
    ],
)
def test_arguments_outside_their_domain(changes, name):
    good = {"x": 5, "n": 10, "y": 1, "m": 10, "delta": 0.0, "alpha": 0.05}
    for function in (epsilon_two_sample, epsilon_box):
        with pytest.raises(ValueError, match=name):
            function(**good | changes)


def test_a_negative_claim_is_refused():
    with pytest.raises(ValueError, match="epsilon must be"):
        p_value(5, 10, 1, 10, -0.1, 0.0)
    with pytest.raises(ValueError, match="epsilon must be"):
        largest_tpr(0.1, -1.0)
