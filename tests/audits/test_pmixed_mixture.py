"""A published mixture: never a false alarm, an alarm exactly where the expert was drawn."""

import numpy as np
import pytest

from dprepro.audits.pmixed_mixture import chance_of_a_draw, leaves_the_plane, outside_the_plane
from dprepro.mechanisms.pmixed import PMixED


@pytest.mark.parametrize("account", ["sound", "published"])
def test_alarms_say_exactly_when_the_expert_was_drawn(account):
    rng = np.random.default_rng(1)
    p0 = rng.dirichlet(np.full(40, 0.5))
    experts = rng.dirichlet(40 * p0 + 0.05, 8)
    mechanism = PMixED(8, n_experts=8, sample_rate=0.3, account=account)
    said, drawn = [], []
    for _ in range(200):
        prediction = mechanism.predict(experts, p0, rng)
        said.append(leaves_the_plane(prediction.mixture, p0, experts[1:]))
        drawn.append(0 in prediction.drawn)
    assert said == drawn
    assert 30 < sum(said) < 90  # Binomial(200, .3) outside with 1e-5

    others = PMixED(8, n_experts=7, sample_rate=0.3, account=account)
    without = [others.predict(experts[1:], p0, rng).mixture for _ in range(200)]
    assert not any(leaves_the_plane(mixture, p0, experts[1:]) for mixture in without)


def test_an_expert_that_says_nothing_new_is_not_seen():
    rng = np.random.default_rng(2)
    p0 = rng.dirichlet(np.ones(10))
    others = rng.dirichlet(np.ones(10), 3)
    assert not leaves_the_plane((p0 + others[0] + others[2]) / 3, p0, others)
    assert not leaves_the_plane(p0, p0, others)
    assert leaves_the_plane(rng.dirichlet(np.ones(10)), p0, others)


def test_what_lies_outside_names_the_experts_own_word():
    p0 = np.full(6, 1 / 6)
    others = np.array([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]])
    expert = np.array([0.2, 0.1, 0.1, 0.1, 0.4, 0.1])
    mixture = (expert + others[0] + p0) / 3
    found = outside_the_plane(mixture, p0, others)
    np.testing.assert_allclose(found @ (others - p0).T, 0, atol=1e-12)  # nothing is left along the plane
    assert found.argmax() == 4
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_chance_of_a_draw():
    assert chance_of_a_draw(0.03, 1) == pytest.approx(0.03)
    assert chance_of_a_draw(0.03, 1024) == pytest.approx(1 - 0.97**1024, rel=1e-12)
    assert chance_of_a_draw(1, 5) == 1
    assert chance_of_a_draw(0, 5) == 0


def test_bad_input():
    p0 = np.full(4, 0.25)
    with pytest.raises(ValueError, match=r"others must have shape \(n, 4\), got \(4,\)"):
        leaves_the_plane(p0, p0, p0)
    with pytest.raises(ValueError, match="mixture must sum to 1"):
        leaves_the_plane(p0 / 2, p0, [p0])
    with pytest.raises(ValueError, match="tolerance must be in"):
        leaves_the_plane(p0, p0, [p0], -1)
    with pytest.raises(ValueError, match="sample_rate must be in"):
        chance_of_a_draw(1.5, 3)
