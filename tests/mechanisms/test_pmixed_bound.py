"""The account that holds: against the laws of tokens, added up over every draw, from random and from bad experts."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

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


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("order", [2, 3, 8])
@pytest.mark.parametrize("rate", [0.03, 0.4, 1.0])
def test_no_records_lose_more(n, order, rate):
    """An expert that turns into another one."""
    rng = np.random.default_rng(order)
    worst = 0.0
    for radius in (0.02, 0.3, 1.5):
        stated = sound_rdp(radius, order, rate, n, "record")
        for _ in range(30):
            p0 = rng.dirichlet(np.full(6, 0.5))
            raw = rng.dirichlet(np.full(6, rng.choice([0.05, 0.5])), n + 1)
            if rng.random() < 0.5:
                raw[1:] = raw[-1]
            rows = project(raw, p0, radius, order, np.inf).mixture
            one, two = token_law(rows[:-1], p0, rate), token_law(rows[1:], p0, rate)  # first goes, last comes
            found = max(renyi_divergence(one, two, order), renyi_divergence(two, one, order))
            worst = max(worst, found / stated)
    assert worst <= 1 + 1e-9
    assert worst > 0.05


def test_worst_record_on_a_grid():
    """A linear programme over the ratios of the others, the old and the new expert to p0."""
    radius, order, rate, n = 0.8, 3, 0.03, 80
    line = np.append(np.geomspace(np.exp(-radius), 200, 22), 1)
    others, old, new = (side.ravel() for side in np.meshgrid(line, line, line))
    empty = (1 - rate) ** n
    laws = [empty + (1 - empty) / n * ((n - 1) * others + one) for one in (old, new)]
    gain = laws[0] ** order * laws[1] ** (1 - order)
    balls, means = [others**order, old**order, new**order], [np.ones_like(others), others, old, new]
    scale = 1 / np.max([*balls, *means], axis=0)
    found = linprog(
        -(gain - laws[0]) * scale,
        A_ub=np.array(balls) * scale,
        b_ub=np.full(3, np.exp((order - 1) * radius)),
        A_eq=np.array(means) * scale,
        b_eq=np.ones(4),
    )
    worst = np.log1p(-found.fun) / (order - 1)
    assert 0.2 * sound_rdp(radius, order, rate, n, "record") < worst
    assert worst <= sound_rdp(radius, order, rate, n, "record")
    assert worst > sound_rdp(radius, order, rate, n) / 4  # and it is not the price of an expert


@pytest.mark.parametrize("order", [2, 3, 9])
def test_a_record_costs_more_than_an_expert(order):
    for radius in (0.0, 0.01, 0.5, 3.0, 400.0):
        record, expert = (sound_rdp(radius, order, 0.03, 80, unit) for unit in ("record", "expert"))
        assert np.isfinite(record)
        assert record >= expert
    assert sound_rdp(0.0, order, 0.03, 80, "record") == pytest.approx(0, abs=1e-14)


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
        ({"unit": "text"}, "unit must be one of 'expert', 'record', got 'text'"),
        ({"n_experts": 0}, "n_experts must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        sound_rdp(**{"radius": 1, "order": 3, "sample_rate": 0.03, "n_experts": 80, **change})
