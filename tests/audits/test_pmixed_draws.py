"""All draws of a small ensemble: against the mechanism, sequence by sequence, and by hand for two experts."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from dprepro.audits.pmixed_draws import all_draws
from dprepro.audits.pmixed_worst import token_law
from dprepro.mechanisms.pmixed import PMixED


def ensemble(n, words=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(words, 0.6), n), rng.dirichlet(np.full(words, 0.8))


@pytest.mark.parametrize("account", ["sound", "published"])
def test_sampling_does_not_move_the_law_of_a_token(account):
    experts, p0 = ensemble(5)
    mechanism = PMixED(8, sample_rate=0.4, n_experts=5, account=account)
    for replacement, count in ((False, 32), (True, 252)):
        draws = all_draws(mechanism, experts, p0, replacement=replacement)
        assert draws.mixture.shape == (count, 6)
        assert draws.chance.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(draws.law, token_law(mechanism, experts, p0), atol=1e-12)


def test_cost_against_each_sequence_of_draws():
    experts, p0 = ensemble(4, seed=1)
    mechanism = PMixED(8, sample_rate=0.3, n_experts=4, account="published")
    costs = []
    for replacement in (False, True):
        mean = 0.0
        for size in range(5):
            sequences = [s for s in product(range(4), repeat=size) if replacement or len(set(s)) == size]
            logs = [np.log(mechanism.mix(experts[list(s)].reshape(-1, 6), p0)[2]) for s in sequences]
            mean -= binom.pmf(size, 4, 0.3) * np.mean(logs)
        draws = all_draws(mechanism, experts, p0, replacement=replacement)
        costs.append(draws.cost(2))
        assert costs[-1] == pytest.approx(mean + np.log(draws.law[2]), rel=1e-9)
    assert 0 < costs[0] < costs[1]


def test_two_experts_by_hand():
    experts, p0 = np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([0.5, 0.5])
    mechanism = PMixED(100, sample_rate=0.5, n_experts=2, n_queries=1)  # no ball binds
    once, twice = (all_draws(mechanism, experts, p0, replacement=again) for again in (False, True))
    np.testing.assert_allclose(once.chance, [1 / 4, 1 / 4, 1 / 4, 1 / 4])
    np.testing.assert_allclose(once.mixture[:, 0], [0.5, 0.6, 0.4, 0.5])
    np.testing.assert_allclose(twice.chance, [1 / 4, 1 / 4, 1 / 4, 1 / 16, 1 / 8, 1 / 16])
    np.testing.assert_allclose(twice.mixture[:, 0], [0.5, 0.6, 0.4, 0.6, 0.5, 0.4])


def test_bad_input():
    experts, p0 = ensemble(9)
    with pytest.raises(ValueError, match=r"at most 8, got shape \(9, 6\) for 9"):
        all_draws(PMixED(8, n_experts=9), experts, p0, replacement=True)
    with pytest.raises(ValueError, match=r"n_experts rows, at most 8, got shape \(3, 6\) for 4"):
        all_draws(PMixED(8, n_experts=4), experts[:3], p0, replacement=False)
    with pytest.raises(ValueError, match="vocabulary"):
        all_draws(PMixED(8, n_experts=4), experts[:4], p0[:5] / p0[:5].sum(), replacement=False)
