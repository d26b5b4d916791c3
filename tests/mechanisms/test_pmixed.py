"""The mechanism: what is drawn, what the token's law is, what it may cost, and what is refused."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from dprepro.mechanisms.pmixed import PMixED, Predictor
from dprepro.mechanisms.pmixed_account import published_rdp, rdp_to_epsilon
from dprepro.mechanisms.pmixed_ball import project, renyi_divergence
from dprepro.mechanisms.pmixed_bound import sound_rdp


def vocabulary(seed=0, experts=6, words=5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(words, 0.5), experts), rng.dirichlet(np.full(words, 0.5))


@pytest.mark.parametrize("account", ["sound", "published"])
@pytest.mark.parametrize(("epsilon", "order"), [(2, 9), (8, 3)])
def test_the_target_is_met_and_never_exceeded(account, epsilon, order):
    """The radius goes back through the account: what all queries spend is the target, from below."""
    mechanism = PMixED(epsilon, order=order, account=account)
    for size in (1, 2, 7):
        radius = mechanism.radius(size)
        if account == "sound":
            loss = sound_rdp(radius, order, 0.03, 80)
        else:
            loss = published_rdp(radius / order, size, order, 0.03)
        assert epsilon - 1e-5 < rdp_to_epsilon(1024 * loss, order, 1e-5) <= epsilon
    assert mechanism.spent(0) == 0
    assert mechanism.spent(1024) == pytest.approx(epsilon)
    assert np.all(np.diff([mechanism.spent(n) for n in (1, 10, 500, 1024)]) > 0)


def test_radii_of_the_published_account_grow_with_the_draw():
    published, sound = PMixED(8, account="published"), PMixED(8)
    radii = [published.radius(size) for size in (1, 2, 3, 10, 80)]
    assert radii[0] > radii[1]  # one expert is compared with the public model, two with each other
    assert np.all(np.diff(radii[1:]) > 0)
    assert len({sound.radius(size) for size in (1, 2, 80)}) == 1


def test_poisson_draws():
    mechanism, rng = PMixED(8, n_experts=20, sample_rate=0.2), np.random.default_rng(1)
    draws = [mechanism.draw(rng) for _ in range(4000)]
    assert all(len(set(draw)) == len(draw) for draw in draws)  # without replacement
    sizes = np.bincount([len(draw) for draw in draws], minlength=10)[:10]
    expected = 4000 * np.append(binom.pmf(np.arange(9), 20, 0.2), binom.sf(8, 20, 0.2))
    assert chisquare(np.append(sizes[:9], 4000 - sizes[:9].sum()), expected).pvalue > 1e-4


def test_the_mixture_is_the_mean_of_projections():
    experts, p0 = vocabulary()
    for account, reverse in (("sound", np.inf), ("published", 3)):
        mechanism = PMixED(8, n_experts=6, account=account)
        for drawn in ([0], [1, 4], [0, 2, 3, 5]):
            radius = mechanism.radius(len(drawn))
            expected = project(experts[drawn], p0, radius, 3, reverse).mixture.mean(axis=0)
            np.testing.assert_array_equal(mechanism.mix(experts[drawn], p0), expected)
    np.testing.assert_allclose(mechanism.mix(np.empty((0, 5)), p0), p0, atol=1e-15)


def test_an_empty_draw_answers_from_the_public_model():
    experts, p0 = vocabulary()
    mechanism = PMixED(8, n_experts=6, sample_rate=0)
    token, mixture, drawn = mechanism.predict(experts, p0, np.random.default_rng(2))
    np.testing.assert_allclose(mixture, p0, atol=1e-15)
    assert len(drawn) == 0
    assert 0 <= token < 5
    np.testing.assert_allclose(mechanism.mix(experts, p0), experts.mean(axis=0), atol=1e-12)  # no ball binds


def test_tokens_follow_their_law():
    """Sampling rate and subsets do not matter for one radius: a share of p0, and the mean of all experts."""
    experts, p0 = vocabulary(3)
    mechanism, rng = PMixED(8, n_experts=6, sample_rate=0.3), np.random.default_rng(4)
    tokens = [mechanism.predict(experts, p0, rng).token for _ in range(1500)]
    empty = 0.7**6
    projected = project(experts, p0, mechanism.radius(1), 3, np.inf).mixture
    law = empty * p0 + (1 - empty) * projected.mean(axis=0)
    assert chisquare(np.bincount(tokens, minlength=5), 1500 * law).pvalue > 1e-4


def by_replacement(rows, p0, rate):
    """Law of one token under the public code's draws: Binomial(n, rate) of them, each from all experts."""
    n, law = len(rows), np.zeros(len(p0))
    for size in range(n + 1):
        chance = binom.pmf(size, n, rate)
        draws = list(product(range(n), repeat=size))
        law += chance * (np.mean([rows[list(d)].mean(axis=0) for d in draws], axis=0) if size else p0)
    return law


def test_replacement_leaves_the_law_of_a_token_alone():
    """With one radius: each expert's mean share is the same, so the account of Poisson draws holds for both."""
    experts, p0 = vocabulary(5, experts=4)
    rows = project(experts, p0, 0.7, 3, np.inf).mixture
    empty = 0.6**4
    np.testing.assert_allclose(
        by_replacement(rows, p0, 0.4), empty * p0 + (1 - empty) * rows.mean(axis=0), atol=1e-14
    )


def test_guarantee_on_random_experts():
    """The loss of one query, exact from the law of the token, stays below what the account grants it."""
    for seed in range(20):
        experts, p0 = vocabulary(seed, experts=8)
        for order, rate in ((3, 0.03), (3, 0.5), (8, 0.1)):
            mechanism = PMixED(8, order=order, n_experts=8, sample_rate=rate)
            rows = project(experts, p0, mechanism.radius(1), order, np.inf).mixture
            law = []
            for chosen in (rows, rows[1:]):
                empty = (1 - rate) ** len(chosen)
                law.append(empty * p0 + (1 - empty) * chosen.mean(axis=0))
            assert renyi_divergence(*law, order) <= mechanism.rdp_per_query
            assert renyi_divergence(*law[::-1], order) <= mechanism.rdp_per_query


def test_a_budget_is_refused_when_spent():
    experts, p0 = vocabulary()
    predictor = Predictor(PMixED(8, n_experts=6, n_queries=3), np.random.default_rng(6))
    assert predictor.epsilon == 0
    with pytest.raises(ValueError, match="must have 6 rows"):
        predictor.answer(experts[:5], p0)
    assert predictor.answered == 0  # a query that was refused costs nothing
    assert all(predictor.answer(experts, p0) in range(5) for _ in range(3))
    assert predictor.epsilon == pytest.approx(8, abs=1e-5)
    with pytest.raises(
        RuntimeError, match=r"all 3 queries are answered: epsilon 8 of 8 at delta 1e-05 is spent"
    ):
        predictor.answer(experts, p0)
    assert predictor.answered == 3


def test_equal_seeds_give_equal_answers():
    experts, p0 = vocabulary()
    mechanism = PMixED(8, n_experts=6, sample_rate=0.5)
    one, two = np.random.default_rng(7), np.random.default_rng(7)
    for _ in range(20):
        assert mechanism.predict(experts, p0, one).token == mechanism.predict(experts, p0, two).token


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 1}, "order must be a whole number of at least 2, got 1"),
        ({"order": 2.5}, "order must be a whole number"),
        ({"epsilon": 0}, "epsilon must be in"),
        ({"epsilon": 2}, r"epsilon must be above 4.80. at order 3"),
        ({"epsilon": np.nan}, "epsilon must be in"),
        ({"delta": 0}, "delta must be in"),
        ({"delta": 1}, "delta must be in"),
        ({"sample_rate": 1.5}, r"sample_rate must be in \[0, 1\], got 1.5"),
        ({"sample_rate": -0.1}, "sample_rate must be in"),
        ({"n_experts": 0}, "n_experts must be a whole number of at least 1, got 0"),
        ({"n_queries": 0}, "n_queries must be"),
        ({"n_queries": 10.5}, "n_queries must be"),
        ({"unit": "text"}, "unit must be one of 'expert', 'record', got 'text'"),
        ({"unit": "record", "account": "published"}, "unit must be one of 'expert', got 'record'"),
        ({"account": "rdp"}, "account must be one of 'sound', 'published', got 'rdp'"),
    ],
)
def test_bad_settings(change, message):
    with pytest.raises(ValueError, match=message):
        PMixED(**{"epsilon": 8, **change})


def test_bad_queries():
    experts, p0 = vocabulary()
    mechanism, rng = PMixED(8, n_experts=6), np.random.default_rng(8)
    with pytest.raises(ValueError, match="expert_distributions must sum to 1"):
        mechanism.predict(2 * experts / 3, p0, rng)
    with pytest.raises(ValueError, match="public must sum to 1"):
        mechanism.predict(experts, p0 / 2, rng)
    with pytest.raises(ValueError, match="over public's vocabulary"):
        mechanism.predict(experts, np.full(4, 0.25), rng)
    with pytest.raises(ValueError, match="at most 6 rows"):
        mechanism.mix(np.repeat(experts, 2, axis=0), p0)
    with pytest.raises(ValueError, match="one an expert, got shape"):
        mechanism.predict(experts[0], p0, rng)
    with pytest.raises(ValueError, match="queries must be at most n_queries, got 1025 of 1024"):
        mechanism.spent(1025)
