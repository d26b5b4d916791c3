"""The account that holds: against the laws of tokens, added up over every draw, from random and from bad experts."""

from itertools import combinations

import numpy as np
import pytest

from dprepro.mechanisms.pmixed_ball import project, renyi_divergence
from dprepro.mechanisms.pmixed_bound import sound_radius, sound_rdp


def token_law(experts, p0, rate):
    """Law of one token from projected experts: the sum over all subsets."""
    n, law = len(experts), np.zeros(len(p0))
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            mixture = experts[list(chosen)].mean(axis=0) if size else p0
            law += rate**size * (1 - rate) ** (n - size) * mixture
    return law


def loss(experts, p0, rate, order):
    """Renyi loss of the first expert's presence, both ways."""
    with_it, without = token_law(experts, p0, rate), token_law(experts[1:], p0, rate)
    return max(renyi_divergence(with_it, without, order), renyi_divergence(without, with_it, order))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("rate", [0.03, 0.4, 1.0])
def test_no_experts_lose_more(n, order, rate):
    rng = np.random.default_rng(order)
    worst = 0.0
    for radius in (0.02, 0.3, 1.5):
        stated = sound_rdp(radius, order, rate, n)
        for _ in range(30):
            p0 = rng.dirichlet(np.full(6, 0.5))
            raw = rng.dirichlet(np.full(6, rng.choice([0.05, 0.5])), n)
            if rng.random() < 0.5:  # the others agree against the first, the bad case
                raw[1:] = raw[-1]
            share = loss(project(raw, p0, radius, order, np.inf).mixture, p0, rate, order) / stated
            worst = max(worst, share)
    assert worst <= 1 + 1e-9
    assert worst > 0.1  # and the bound is not idle


def test_one_expert_alone_is_the_ball():
    """With one expert always drawn the loss is that of the ball, and a distribution on its surface reaches it."""
    p0, p = np.array([0.9, 0.1]), np.array([0.1, 0.9])
    m = project(p, p0, 0.4, 3, np.inf).mixture
    assert loss(m[None], p0, 1.0, 3) <= sound_rdp(0.4, 3, 1.0, 1) == pytest.approx(0.4)


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5, 1.0])
def test_limits(rate):
    assert sound_rdp(0.0, 3, rate, 80) == pytest.approx(0, abs=1e-12)
    assert sound_rdp(5.0, 3, 0.0, 80) == pytest.approx(0, abs=1e-12)
    values = [sound_rdp(r, 3, max(rate, 1e-9), 80) for r in (0.1, 0.5, 2, 10, 400)]
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) > 0)


def test_tiny_rates_keep_their_digits():
    for rate in (1e-4, 1e-6, 1e-9):  # order 2: t^2 (exp(rho) - 1), added, for a single expert
        assert sound_rdp(1.0, 2, rate, 1) == pytest.approx(rate**2 * np.expm1(1.0), rel=1e-3)


@pytest.mark.parametrize("order", [2, 3, 9])
@pytest.mark.parametrize("rate", [0.03, 1.0])
def test_radius_spends_the_budget_and_no_more(order, rate):
    radius = sound_radius(0.003, order, rate, 80)
    assert 0 <= 0.003 - sound_rdp(radius, order, rate, 80) < 1e-9
    assert sound_rdp(radius * 1.00001, order, rate, 80) > 0.003
    assert sound_radius(0.003, order, 0.0, 80) == np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": -1}, "radius must be in"),
        ({"radius": np.inf}, "radius must be in"),
        ({"order": 1}, "order must be a whole number of at least 2, got 1"),
        ({"order": 3.5}, "order must be"),
        ({"sample_rate": 1.2}, r"sample_rate must be in \[0, 1\], got 1.2"),
        ({"n_experts": 0}, "n_experts must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        sound_rdp(**{"radius": 1, "order": 3, "sample_rate": 0.03, "n_experts": 80, **change})
