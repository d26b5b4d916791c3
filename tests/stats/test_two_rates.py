"""Oracles: every pair of counts enumerated, scipy's minimiser, a rival e-variable that averages over pairings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from dprepro.stats.two_rates import EDGE, anchored_bet, checked_claim, log_e_value, violation

CLAIMS = [(0, 0), (0.3, 0), (1, 0), (4, 0), (50, 0), (0, 0.05), (1, 1e-5), (1, 0.1), (2, 0.9)]


def pairs(n):
    return np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]


def weights(n, a, b):
    """P(X, Y), shape (..., n + 1, n + 1)."""
    x, y = pairs(n)
    return stats.binom.pmf(x, n, np.asarray(a)[..., None, None]) * stats.binom.pmf(
        y, n, np.asarray(b)[..., None, None]
    )


def largest_stake(ratio, delta, anchor):
    with np.errstate(divide="ignore"):
        return np.minimum(1 / (ratio * anchor + delta), 1 / (ratio * (1 - anchor)))


def bets_and_payoffs(rng, n, epsilon, delta, bets=60):
    """Payoffs of random bets, shape (bets, n + 1, n + 1): some of them stake all but nothing, some have no anchor."""
    ratio, top = np.exp(epsilon), (1 - delta) / np.exp(epsilon)
    anchor = top * np.concatenate([[0, 1], rng.random(bets // 2), 10 ** rng.uniform(-6, 0, bets // 2 - 2)])
    share = np.concatenate([[0.5, 0.5], rng.random(bets - 12), np.full(10, 1 - 1e-12)])
    limit = largest_stake(ratio, delta, anchor)
    stake = share * np.where(np.isinf(limit), 1, limit)
    own = anchored_bet(
        rng.uniform(EDGE, 1 - EDGE, 20), np.maximum(rng.random(20) / ratio, EDGE), epsilon, delta
    )
    stake, anchor = np.append(stake, own[0]), np.append(anchor, own[1])
    x, y = pairs(n)
    return np.exp(log_e_value(x, y, n, stake[:, None, None], anchor[:, None, None], epsilon, delta))


def nulls(epsilon, delta):
    """A grid of (a, b) that keep the claim: its boundary, its inside, its corners."""
    ratio, top = np.exp(epsilon), (1 - delta) / np.exp(epsilon)
    b = np.concatenate([[0, top, 1], top * np.linspace(0, 1, 9) ** 2, np.linspace(top, 1, 4)])
    largest = np.minimum(ratio * b + delta, 1)
    share = np.array([0, 0.2, 0.7, 0.95, 1])[:, None]
    return (share * largest).ravel(), np.broadcast_to(b, (5, len(b))).ravel()


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_mean_is_at_most_1_under_every_null(epsilon, delta, n):
    payoff = bets_and_payoffs(np.random.default_rng(1), n, epsilon, delta)
    mean = np.einsum("kxy,mxy->km", payoff, weights(n, *nulls(epsilon, delta)))
    assert mean.max() <= 1 + 1e-9
    assert mean.max() > 0.999  # the limit is reached: the check is not empty


@given(
    epsilon=st.floats(0, 6),
    delta=st.one_of(st.just(0.0), st.floats(0, 0.999)),
    # scipy's binomial overflows at rates such as 1e-308
    shares=st.tuples(*[st.one_of(st.just(0.0), st.floats(1e-100, 1))] * 4),
    n=st.integers(1, 4),
)
def test_mean_is_at_most_1_whatever_the_bet(epsilon, delta, shares, n):
    ratio, top = np.exp(epsilon), (1 - delta) / np.exp(epsilon)
    anchor = max(shares[0], 1e-9) * top
    stake = min(shares[1], 1 - 1e-12) * largest_stake(ratio, delta, anchor)
    b = shares[2]
    a = shares[3] * min(ratio * b + delta, 1)
    x, y = pairs(n)
    payoff = np.exp(log_e_value(x, y, n, stake, anchor, epsilon, delta))
    assert (payoff * weights(n, a, b)).sum() <= 1 + 1e-9


def divergence(p, q):
    return stats.entropy([p, 1 - p], [q, 1 - q])


def nearest(a, b, epsilon, delta):
    """The null's nearest point to (a, b), by a minimiser that searches the whole null."""
    ratio = np.exp(epsilon)
    found = optimize.minimize(
        lambda z: divergence(a, z[0]) + divergence(b, z[1]),
        x0=[(a + min(ratio * b + delta, 1)) / 2, (b + (a - delta) / ratio) / 2],
        bounds=[(1e-9, 1 - 1e-9)] * 2,
        constraints={"type": "ineq", "fun": lambda z: ratio * z[1] + delta - z[0]},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 200},
    )
    return found.x, found.fun


VIOLATIONS = [
    (0.5, 0.06767, 1, 0),
    (0.9, 0.7, 0, 0),
    (0.02, 0.001, 1, 0),
    (0.3, 0.002, 4, 0),
    (0.0263, 0.0072, 1, 0),
    (0.6, 0.01, 1, 1e-5),
    (0.5, 0.1, 1, 0.1),
    (0.9, 0.2, 0, 0.5),
    (0.6, 1e-4, 1, 0.1),
]


@pytest.mark.parametrize(("a", "b", "epsilon", "delta"), VIOLATIONS)
def test_payoff_is_the_likelihood_ratio_at_the_nearest_null(a, b, epsilon, delta):
    (a0, b0), least = nearest(a, b, epsilon, delta)
    stake, anchor = anchored_bet(a, b, epsilon, delta)
    n = 20
    x, y = pairs(n)
    log_payoff = log_e_value(x, y, n, stake, anchor, epsilon, delta)
    # A minimiser finds the place of a flat minimum to half of its digits.
    assert anchor == pytest.approx(b0, rel=1e-4)
    assert (log_payoff * weights(n, a, b)).sum() / n == pytest.approx(least, rel=1e-5)
    ratio = sum(
        stats.binom.logpmf(count, n, p) - stats.binom.logpmf(count, n, p0)
        for count, p, p0 in ((x, a, a0), (y, b, b0))
    )
    np.testing.assert_allclose(log_payoff, ratio, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("epsilon", [0, 0.5, 1, 3, 10, 50])
def test_without_delta_the_anchor_is_exact(epsilon):
    # At the minimum the derivative vanishes: r (a0 - a)/V(a0) + (b0 - b)/V(b0) = 0. Both terms are the stake.
    rng = np.random.default_rng(2)
    ratio = np.exp(epsilon)
    a = rng.uniform(1e-3, 1 - 1e-3, 300)
    b = a / ratio * rng.uniform(0.001, 0.9, 300)
    stake, anchor = anchored_bet(a, np.maximum(b, EDGE), epsilon)
    bets = a > 1.01 * ratio * np.maximum(b, EDGE)
    assert bets.any() == (epsilon < 50)
    a, b, stake, anchor = a[bets], b[bets], stake[bets], anchor[bets]
    a0 = ratio * anchor
    np.testing.assert_allclose((a - a0) / (a0 * (1 - a0)), stake, rtol=1e-6)
    np.testing.assert_allclose((anchor - b) / (ratio * anchor * (1 - anchor)), stake, rtol=1e-6)


@pytest.mark.parametrize(("a", "b", "epsilon", "delta"), VIOLATIONS)
def test_no_other_bet_grows_faster(a, b, epsilon, delta):
    def growth(payoff):
        with np.errstate(divide="ignore"):
            return (weights(8, a, b) * np.log(payoff)).sum(axis=(-2, -1))

    x, y = pairs(8)
    own = growth(np.exp(log_e_value(x, y, 8, *anchored_bet(a, b, epsilon, delta), epsilon, delta)))
    others = growth(bets_and_payoffs(np.random.default_rng(3), 8, epsilon, delta, bets=400)[:400])
    assert own > 0
    assert (others <= own * (1 + 1e-7)).all()


def pairing_average(n, epsilon, delta, stakes):
    """Payoff of bets on a_i - e^epsilon b_i - delta of n pairs, averaged over all pairings of the outputs.

    Given the counts, the number of pairs with both outputs in the event is hypergeometric. Shape (stakes, X, Y).
    """
    x, y = (side[..., None] for side in pairs(n))
    both = np.arange(n + 1)
    chance = stats.hypergeom.pmf(both, n, x, y)
    ratio, stake = np.exp(epsilon), stakes[:, None, None, None]
    cells = (both, x - both, y - both, n - x - y + both)
    gains = (1 - ratio - delta, 1 - delta, -ratio - delta, -delta)
    payoff = math.prod(
        (1 + stake * gain) ** np.maximum(cell, 0).astype(float)
        for cell, gain in zip(cells, gains, strict=True)
    )
    return (chance * payoff).sum(axis=-1)


@pytest.mark.parametrize(("a", "b", "epsilon", "delta"), VIOLATIONS)
def test_grows_at_least_as_fast_as_bets_on_pairs(a, b, epsilon, delta):
    n = 12
    stakes = np.linspace(0, 1, 200)[1:-1] / (np.exp(epsilon) + delta)
    rival = pairing_average(n, epsilon, delta, stakes)
    null = np.einsum("kxy,mxy->km", rival, weights(n, *nulls(epsilon, delta)))
    assert null.max() <= 1 + 1e-9  # the rival is an e-variable too
    x, y = pairs(n)
    own = log_e_value(x, y, n, *anchored_bet(a, b, epsilon, delta), epsilon, delta)
    chances = weights(n, a, b)
    best = (chances * np.log(rival)).sum(axis=(1, 2)).max()
    assert 0 < best < (chances * own).sum()


def test_no_stake_where_the_claim_holds():
    for epsilon, delta in CLAIMS:
        a, b = (np.clip(side, EDGE, 1 - EDGE) for side in nulls(epsilon, delta))
        keeps = a <= (np.exp(epsilon) * b + delta) * (1 - 1e-9)
        stake, anchor = anchored_bet(a[keeps], b[keeps], epsilon, delta)
        assert not stake.any()
        assert not log_e_value(3, 1, 5, stake, anchor, epsilon, delta).any()


@pytest.mark.parametrize("epsilon", [0, 1e-12, 1, 50, 300])
@pytest.mark.parametrize("delta", [0, 1e-300, 1e-5, 0.5, 0.99, 1 - 2**-53])
def test_bets_at_the_edges_never_end_the_game(epsilon, delta):
    rates = np.array([EDGE, 1e-9, 0.1, 0.5, 1 - 1e-9, 1 - EDGE])
    stake, anchor = anchored_bet(rates[:, None], rates, epsilon, delta)
    assert (anchor > 0).all()
    assert (anchor <= (1 - delta) / np.exp(epsilon)).all()
    assert (stake >= 0).all()
    for n in (1, 10**9):
        for x in (0, 1, n):
            for y in (0, 1, n):
                assert np.isfinite(log_e_value(x, y, n, stake, anchor, epsilon, delta)).all()


@pytest.mark.parametrize("n", [10**6, 10**9, 10**12])
def test_rounding_stays_small_at_large_n(n):
    # At the anchor itself the mean of one output's payoff is 1: to the power of n it must still be 1.
    a, b = np.array([0.5, 0.2, 0.02]), np.array([0.5, 0.2, 0.02]) / np.e - 1 / np.sqrt(n)
    stake, anchor = anchored_bet(a, b, 1)
    a0 = np.e * anchor
    mean_x = a0 * np.expm1(np.log1p(stake * (1 - a0))) + (1 - a0) * np.expm1(np.log1p(-stake * a0))
    assert (np.abs(n * np.log1p(mean_x)) < 1e-3).all()


def test_violation_by_hand():
    # n = 10, X = 5, Y = 1, e^epsilon = 2: .5 - .2 - .05, variance .25/10 + 4 * .09/10 = .061.
    p_hat, sigma_hat = violation(5, 1, 10, np.log(2), 0.05)
    assert p_hat == pytest.approx(0.25)
    assert sigma_hat == pytest.approx(0.061**0.5)
    for x, y in ((0, 0), (10, 10), (10, 0)):
        assert violation(x, y, 10, np.log(2)) == pytest.approx((x / 10 - y / 5, 0))


def test_violation_is_unbiased_and_its_variance_nearly():
    n, a, b, epsilon, delta = 7, 0.6, 0.1, 0.8, 0.05
    p_hat, sigma_hat = violation(*pairs(n), n, epsilon, delta)
    chances = weights(n, a, b)
    mean = (chances * p_hat).sum()
    assert mean == pytest.approx(a - np.exp(epsilon) * b - delta)
    variance = (chances * (p_hat - mean) ** 2).sum()
    assert (chances * sigma_hat**2).sum() == pytest.approx((n - 1) / n * variance)


def test_arrays_broadcast():
    p_hat, sigma_hat = violation([[1], [2]], [0, 1, 2], 4, 1)
    assert p_hat.shape == sigma_hat.shape == (2, 3)
    stake, anchor = anchored_bet([0.9, 0.8], 0.01, 1)
    for i, a in enumerate((0.9, 0.8)):
        assert (stake[i], anchor[i]) == pytest.approx(anchored_bet(a, 0.01, 1), rel=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((11, 0, 10, 1), "count_x must be at most n, got 11 of 10"),
        ((0, [3, 11], 10, 1), "count_y must be at most n, got 11 of 10"),
        ((-1, 0, 10, 1), "count_x must be a whole number of at least 0, got -1"),
        ((0, 0.5, 10, 1), "count_y must be a whole number of at least 0, got 0.5"),
        ((0, np.nan, 10, 1), "count_y must be a whole number of at least 0, got nan"),
        ((0, 0, 0, 1), "n must be a whole number of at least 1, got 0"),
        ((0, 0, np.inf, 1), "n must be a whole number of at least 1, got inf"),
        (([0, 0], [0, 0, 0], 10, 1), r"count_x, count_y and n must have shapes that broadcast, got \(2,\), "),
        (("a", 0, 10, 1), "count_x must be a number"),
        ((0, 0, 10, -0.1), r"epsilon must be in \[0, 300\], got -0.1"),
        ((0, 0, 10, 301), r"epsilon must be in \[0, 300\], got 301"),
        ((0, 0, 10, np.nan), r"epsilon must be in \[0, 300\], got nan"),
        ((0, 0, 10, 1, 1), r"delta must be in \[0, 1\), got 1"),
        ((0, 0, 10, 1, -1e-9), r"delta must be in \[0, 1\), got -1e-09"),
    ],
)
def test_bad_counts_and_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        violation(*arguments)


@pytest.mark.parametrize(("a", "b"), [(0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1), (np.nan, 0.5)])
def test_bad_rates(a, b):
    with pytest.raises(ValueError, match=r"must be in \[1e-12, 1"):
        anchored_bet(a, b, 1)


def test_claim():
    assert checked_claim(0, 0) == (1, 0)
    assert checked_claim(np.log(3), 0.5) == pytest.approx((3, 0.5))
