"""Exact laws against all subsets and all draws with replacement; worst cases against the mechanism itself."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

from dprepro.audits.pmixed_worst import delta_of_counts, rare_word_delta, token_law, worst_case
from dprepro.mechanisms.pmixed import PMixED
from dprepro.mechanisms.pmixed_account import published_beta, published_loss
from dprepro.mechanisms.pmixed_ball import project, renyi_divergence
from dprepro.mechanisms.pmixed_bound import sound_rdp

RATE, N = 0.4, 4


def four_experts(seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(6, 0.4), N), rng.dirichlet(np.full(6, 0.6))


@pytest.mark.parametrize("account", ["sound", "published"])
def test_law_against_all_subsets(account):
    mechanism = PMixED(8, n_experts=N, sample_rate=RATE, account=account)
    experts, p0 = four_experts()
    law = np.zeros(6)
    for size in range(N + 1):
        for chosen in combinations(range(N), size):
            mixture = mechanism.mix(experts[list(chosen)].reshape(-1, 6), p0)
            law += RATE**size * (1 - RATE) ** (N - size) * mixture
    np.testing.assert_allclose(token_law(mechanism, experts, p0), law, atol=1e-14)


@pytest.mark.parametrize("account", ["sound", "published"])
def test_replacement_does_not_move_the_law(account):
    """The public code draws Binomial(N, p) experts with replacement; its token has the law of Poisson draws."""
    mechanism = PMixED(8, n_experts=N, sample_rate=RATE, account=account)
    experts, p0 = four_experts(1)
    law = np.zeros(6)
    for size in range(N + 1):
        draws = list(product(range(N), repeat=size))
        mixtures = [mechanism.mix(experts[list(draw)].reshape(-1, 6), p0) for draw in draws]
        law += binom.pmf(size, N, RATE) * np.mean(mixtures, axis=0)
    np.testing.assert_allclose(token_law(mechanism, experts, p0), law, atol=1e-14)


def test_the_sampling_rate_moves_the_share_of_the_public_model_alone():
    experts, p0 = four_experts(2)
    rows = project(experts, p0, 0.8, 3, np.inf).mixture.mean(axis=0)
    for rate in (0.1, 0.9, 1.0):
        mechanism = PMixED(8, n_experts=N, sample_rate=rate)
        object.__setattr__(mechanism, "radius", lambda size: 0.8)
        empty = (1 - rate) ** N
        np.testing.assert_allclose(
            token_law(mechanism, experts, p0), empty * p0 + (1 - empty) * rows, atol=1e-12
        )


def test_delta_of_counts_against_the_sum():
    p, q, n, e = 0.3, 0.1, 5, 0.7
    direct = sum(max(0, binom.pmf(k, n, p) - np.exp(e) * binom.pmf(k, n, q)) for k in range(n + 1))
    assert delta_of_counts(p, q, n, e) == pytest.approx(direct, rel=1e-12)
    assert delta_of_counts(p, p, n, 0.0) == 0
    assert delta_of_counts(0.3, 0.0, 5, 50.0) == pytest.approx(1 - 0.7**5)  # the word cannot come without it


@pytest.mark.parametrize(
    ("radius", "order", "rate", "reverse"),
    [
        (0.58, 3, 0.03, None),
        (0.126, 3, 0.1, None),
        (1.47, 3, 0.03, np.inf),
        (0.47, 9, 0.03, np.inf),
        (1.3, 3, 1.0, np.inf),
    ],
)
def test_worst_cases_are_real(radius, order, rate, reverse):
    """The neighbours found lie in the ball, and the mechanism run on them loses what the programme says."""
    found = worst_case(radius, order, rate, 80, reverse, points=60)
    rows, weight = project([found.expert, found.others], found.public, radius * (1 + 1e-6), order, reverse)
    assert weight == pytest.approx([1, 1])
    empty = [(1 - rate) ** n for n in (80, 79)]
    law = empty[0] * found.public + (1 - empty[0]) * (rows[0] + 79 * rows[1]) / 80
    neighbour = empty[1] * found.public + (1 - empty[1]) * rows[1]
    assert renyi_divergence(law, neighbour, order) == pytest.approx(found.rdp, rel=1e-3)


@pytest.mark.parametrize("rate", [0.03, 0.25, 1.0])
@pytest.mark.parametrize(("order", "radius"), [(3, 0.3), (3, 1.47), (9, 0.47)])
def test_the_sound_account_covers_the_worst_case_and_is_not_loose(order, radius, rate):
    stated = sound_rdp(radius, order, rate, 80)
    assert 0.25 * stated < worst_case(radius, order, rate, 80, np.inf, points=60).rdp <= stated


def test_the_published_step_has_no_bound():
    """Two distributions in the ball around p0 differ as much as one likes; the account says 4 beta alpha."""
    beta, order = 0.2, 3
    losses = []
    for mass in (1e-3, 1e-6, 1e-9):
        room = np.expm1((order - 1) * beta * order)
        up, down = mass * (room / mass) ** (1 / 3), mass * (mass / room) ** 0.5
        p0 = [mass, 1 - mass]
        rows = project([[up * 0.9, 1 - up * 0.9], [down * 1.1, 1 - down * 1.1]], p0, beta * order, order)
        assert rows.weight.tolist() == [1, 1]  # both inside as they are
        losses.append(float(renyi_divergence(*rows.mixture, order)))
    assert losses[0] > 4 * beta * order
    assert losses[2] > 6 * beta * order
    assert np.diff(losses) == pytest.approx(np.log(1000) / 2, rel=0.1)  # grows like log(1 / mass) / 2


def test_two_experts_exceed_the_published_loss_at_its_own_size():
    """s = 2, the expert and one other: more than the published bound of that very size."""
    beta, order, mass = 0.2, 3, 1e-9
    room = np.expm1(2 * beta * order)
    up, down = 0.9 * mass * (room / mass) ** (1 / 3), 1.1 * mass * (mass / room) ** 0.5
    expert, other = np.array([up, 1 - up]), np.array([down, 1 - down])
    loss = renyi_divergence((expert + other) / 2, other, order)
    assert loss > 1.5 * published_loss(beta, 2, order)


@pytest.mark.parametrize(("rate", "public"), [(0.1, 1e-7), (0.25, 3e-8), (0.5, 3e-8)])
def test_published_settings_that_are_not_private_as_stated(rate, public):
    """Sampling rates of the public code's sweep: a rare word needs several times the delta that is claimed."""
    mechanism = PMixED(8, sample_rate=rate, account="published")
    assert rare_word_delta(mechanism, public, others=1e-5 * public) > 3 * mechanism.delta
    assert rare_word_delta(PMixED(8, sample_rate=rate), public, others=1e-5 * public) < 1e-6


def test_the_published_default_survives_this_attack():
    """At rate .03 nobody is drawn in 9 % of queries, and p0 answers: the word is never that rare."""
    worst = max(
        rare_word_delta(PMixED(8, account="published"), public, 1e-12) for public in (1e-8, 1e-7, 1e-6, 1e-5)
    )
    assert worst < 1e-6
    radius = 3 * published_beta(PMixED(8).rdp_per_query, 2, 3, 0.03)
    assert worst_case(radius, 3, 0.03, 80).rdp < PMixED(8).rdp_per_query


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": -1}, "radius must be in"),
        ({"order": 1}, "order must be a whole number of at least 2"),
        ({"sample_rate": 2}, "sample_rate must be in"),
        ({"n_experts": 1}, "n_experts must be a whole number of at least 2"),
        ({"reverse_order": 7}, "reverse_order must be order or infinity, got 7"),
        ({"points": 1}, "points must be"),
    ],
)
def test_bad_input(change, message):
    good = {"radius": 0.5, "order": 3, "sample_rate": 0.1, "n_experts": 5}
    with pytest.raises(ValueError, match=message):
        worst_case(**{**good, **change})


def test_bad_laws():
    experts, p0 = four_experts()
    with pytest.raises(ValueError, match="at most 2 rows, got 4"):
        token_law(PMixED(8, n_experts=2), experts, p0)
    with pytest.raises(ValueError, match="q must be in"):
        delta_of_counts(0.1, 1.1, 5, 1)
