"""The published account against the sums written out, dp_accounting's conversion, and the public code's settings."""

from math import comb, exp, log

import dp_accounting
import numpy as np
import pytest

from dprepro.mechanisms.pmixed_account import (
    epsilon_to_rdp,
    poisson_moment,
    published_beta,
    published_loss,
    published_order,
    published_rdp,
    rdp_to_epsilon,
)


@pytest.mark.parametrize("order", [2, 3, 9, 32])
@pytest.mark.parametrize("rdp", [0.01, 0.95, 3.2, 40.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_conversion_against_dp_accounting(order, rdp, delta):
    reference, _ = dp_accounting.rdp.compute_epsilon([order], [rdp], delta)
    found = rdp_to_epsilon(rdp, order, delta)
    # their function also knows when a tiny loss cannot reach delta at all, and says 0
    assert found == pytest.approx(reference, rel=1e-12) or (reference == 0 and found >= 0)


@pytest.mark.parametrize(("epsilon", "order"), [(2, 9), (4, 5), (6, 4), (8, 3), (10, 3)])
def test_conversion_goes_both_ways(epsilon, order):
    assert published_order(epsilon, 1e-5) == order
    assert rdp_to_epsilon(epsilon_to_rdp(epsilon, order, 1e-5), order, 1e-5) == pytest.approx(epsilon)


def test_default_budget_of_the_public_code():
    assert epsilon_to_rdp(8, 3, 1e-5) == pytest.approx(3.198, abs=5e-4)
    assert rdp_to_epsilon(0, 3, 1e-5) == 0


def test_an_epsilon_below_the_cost_of_the_order_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be above 4.80. at order 3 and delta 1e-05, got 2"):
        epsilon_to_rdp(2, 3, 1e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 80])
@pytest.mark.parametrize("order", [2, 3, 9])
def test_amplified_loss_against_the_sum_written_out(size, order):
    beta, p = 0.07, 0.2

    def loss(k):
        if size == 1:
            return beta * k
        return log((size - 1) / size + exp(4 * (k - 1) * beta * k) / size) / (k - 1)

    direct = sum(
        comb(order, k) * (1 - p) ** (order - k) * p**k * exp((k - 1) * loss(k)) for k in range(2, order + 1)
    )
    direct += (1 - p) ** (order - 1) * (1 + (order - 1) * p)
    assert published_loss(beta, size, order) == pytest.approx(loss(order), rel=1e-12)
    assert published_rdp(beta, size, order, p) == pytest.approx(log(direct) / (order - 1), rel=1e-10)


def test_the_binomial_sum_is_an_expectation():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(6), 2)
    for order in (2, 3, 8):
        for rate in (0.0, 0.1, 1.0):
            moments = [np.log(np.sum(q * (p / q) ** k)) for k in range(2, order + 1)]
            direct = np.log(np.sum(q * (1 - rate + rate * p / q) ** order))
            assert poisson_moment(rate, order, moments) == pytest.approx(direct, abs=1e-13)
    both = poisson_moment([0.1, 0.3], 2, [[0.5, 0.7]])
    assert both == pytest.approx([float(poisson_moment(0.1, 2, [0.5])), float(poisson_moment(0.3, 2, [0.7]))])


@pytest.mark.parametrize("rate", [0.02, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_beta_spends_the_budget_and_no_more(rate, size):
    budget = epsilon_to_rdp(8, 3, 1e-5) / 1024
    beta = published_beta(budget, size, 3, rate)
    assert 0 <= budget - published_rdp(beta, size, 3, rate) < 1e-9
    assert published_rdp(beta * (1 + 1e-6), size, 3, rate) > budget


def test_ends():
    assert published_beta(0.1, 2, 3, 0.0) == np.inf  # nothing is ever drawn
    assert published_beta(0.0, 2, 3, 0.1) == 0
    assert published_rdp(0.0, 2, 3, 0.1) == pytest.approx(0, abs=1e-15)
    assert np.isfinite(published_loss(1e4, 3, 9))  # exp(4 * 8 * 9e4) is not a number


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: published_loss(0.1, 2, 1), "order must be a whole number of at least 2, got 1"),
        (lambda: published_loss(0.1, 2, 2.5), "order must be a whole number"),
        (lambda: published_loss(-0.1, 2, 3), "beta must be in"),
        (lambda: published_loss(0.1, 0, 3), "size must be a whole number of at least 1, got 0"),
        (lambda: published_rdp(0.1, 2, 3, 1.5), r"sample_rate must be in \[0, 1\], got 1.5"),
        (lambda: published_rdp(0.1, 2, 3, -0.1), "sample_rate must be in"),
        (lambda: rdp_to_epsilon(-1, 3, 1e-5), "rdp must be in"),
        (lambda: rdp_to_epsilon(1, 3, 0), r"delta must be in \(0, 1\), got 0"),
        (lambda: epsilon_to_rdp(0, 3, 1e-5), "epsilon must be in"),
        (lambda: published_order(8, 1), "delta must be in"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
