"""Ablations: rates against closed forms and runs of the mechanisms, alarms against what the definitions demand."""

import numpy as np
import pytest

from dprepro.audits import retidp_ablation as ablation
from dprepro.audits.retidp_ablation import CHANGES, STAGES, draw, mean_delay, report, rolled_out, staged
from dprepro.audits.retidp_scenarios import SCENARIOS, event_counts
from dprepro.audits.retidp_study import NEVER
from dprepro.stats import brownian

SIZES = {"repetitions": 60, "many": 80, "n": 750, "horizon": 100, "change": 50, "alpha": 0.05}


@pytest.fixture(autouse=True)
def thresholds(monkeypatch):
    """Without the simulation: the quantiles at beta = 1/4, which other tests check."""
    finite, limit = {0.05: 2.416, 0.0125: 2.867}, {0.05: 2.575, 0.0125: 3.01}
    monkeypatch.setattr(brownian, "stored_quantile", lambda alpha, beta, grid: (finite[alpha], 0.0))
    monkeypatch.setattr(brownian, "stored_limit", lambda alpha, beta: (limit[alpha], 0.0))


def alarms(histogram, first=1, last=100):
    return sum(histogram[first : last + 1])


def test_rates_in_closed_form():
    (a, b), (after_a, after_b) = CHANGES["Laplace 0.9"]
    assert (a, after_a) == pytest.approx((0.5, 0.5))
    assert (b, after_b) == pytest.approx((np.exp(-1) / 2, np.exp(-1 / 0.9) / 2))
    assert CHANGES["no change"][0] == CHANGES["no change"][1] == CHANGES["b"][0]
    assert CHANGES["no change"][0][0] == pytest.approx(np.e * CHANGES["no change"][0][1])  # the boundary
    assert CHANGES["h"][1] == pytest.approx(CHANGES["h"][0])  # SVT 1 and 2 are one mechanism at cutoff 1


@pytest.mark.parametrize("name", ["b", "d", "f"])
def test_binomial_counts_have_the_law_of_the_mechanism(name):
    scenario, rng, groups, n = SCENARIOS[name], np.random.default_rng(11), 300, 750
    rates = staged([(1, CHANGES[name][0]), (2, CHANGES[name][1])], 2)
    for step, mechanism in enumerate((scenario.before, scenario.after)):
        for side, x in enumerate((scenario.x, scenario.x_neighbour)):
            run = event_counts(mechanism, x, scenario.event, groups, n, rng)
            drawn = draw(rates, groups, n, rng)[side][:, step]
            expected = n * rates[step, side]
            spread = np.sqrt(expected * (1 - rates[step, side]))
            for counts in (run, drawn):
                assert abs(counts.mean() - expected) <= 4.5 * spread / groups**0.5
                # A sample variance of near-normal counts has the relative error sqrt(2/groups); sparse ones have
                # heavier tails by 1/expected.
                error = np.sqrt((2 + 1 / max(expected, 1e-9)) / groups)
                assert abs(counts.var() - spread**2) <= 4.5 * error * spread**2 + 1e-12


def test_staged_rates_hold_until_the_next_stage():
    rates = staged([(1, (0.1, 0.2)), (3, (0.3, 0.4)), (5, (0.1, 0.2))], 6)
    assert rates.tolist() == [[0.1, 0.2]] * 2 + [[0.3, 0.4]] * 2 + [[0.1, 0.2]] * 2


def test_a_rollout_is_a_mixture_that_grows_evenly():
    rates = rolled_out((0.2, 0.1), (0.4, 0.0), change=4, horizon=8)
    np.testing.assert_allclose(rates[:3], [[0.2, 0.1]] * 3)
    np.testing.assert_allclose(rates[3:, 0], [0.24, 0.28, 0.32, 0.36, 0.4])
    np.testing.assert_allclose(rates[3:, 1], [0.08, 0.06, 0.04, 0.02, 0.0])


def test_mean_delay_by_hand():
    first = np.array([3, 5, 7, 9, NEVER])  # a false alarm, delays of 0, 2 and 4, none: 6 = 11 - 5
    mean, error = mean_delay(first, change=5, horizon=10)
    assert mean == pytest.approx(3)
    assert error == pytest.approx(np.std([0, 2, 4, 6]) / 2)
    assert np.isnan(mean_delay(np.array([1, 2]), change=5, horizon=10)[0])


def test_sizes_share_their_counts():
    found = report("size, b, 500", np.random.default_rng(1), **SIZES)
    inferred, stated = (np.cumsum(found[name][1:]) for name in ("inferred", "as_stated"))
    assert np.all(stated <= inferred)  # the same statistic against a larger threshold
    assert stated[60] < inferred[60]
    assert [sum(found[name]) for name in ("inferred", "as_stated", "betting")] == [80, 80, 60]
    smaller = report("size, b, 200", np.random.default_rng(1), **SIZES)
    assert alarms(smaller["inferred"], 50, 65) < alarms(found["inferred"], 50, 65)


def test_beta_moves_the_alarm_of_gross_and_of_rare_changes():
    found = {
        beta: report(f"beta, {beta}, 750", np.random.default_rng(2), **SIZES | {"alpha": 0.05})
        for beta in (0.25,)
    }
    names = {"no change", *(f"{name}, {how}" for name in ablation.GRADUAL for how in ("abrupt", "slow"))}
    assert set(found[0.25]) == names
    assert alarms(found[0.25]["a, abrupt"], 50, 55) >= 55
    assert alarms(found[0.25]["a, slow"], 50, 55) < 5
    assert all(sum(histogram) == 60 for histogram in found[0.25].values())


def test_a_floor_above_the_standard_error_hides_a_rare_event():
    found = report("floor, f", np.random.default_rng(3), **SIZES)
    assert set(found) == set(map(str, ablation.FLOORS))
    assert alarms(found["1/n"]) == alarms(found["1e-06"]) == 60
    assert alarms(found["0.01"]) == 0
    assert 10 < alarms(found["0.005"]) < 60


@pytest.mark.parametrize("grid", ["20", "limit"])
def test_a_finer_grid_raises_threshold_and_delay(grid):
    sizes = SIZES | {"many": 1_500}
    found = report(f"grid, {grid}", np.random.default_rng(4), **sizes)
    low, high = found["quantile"]
    assert low < high
    exact = {"20": 2.28, "limit": 2.575}[grid]  # to the first digit, from 400,000 paths
    assert abs(low - exact) < 5 * found["standard error"][0] + 0.03
    assert sum(found["no change"]) == sum(found["b"]) == 1_500


def test_a_break_that_is_repaired_and_one_that_follows_a_harmless_change():
    found = report("two changes, a from 30 to 39", np.random.default_rng(5), **SIZES)
    for histogram in found.values():
        assert alarms(histogram, 30, 39) >= 55
    assert STAGES["a from 30 to 39"][2] == (40, CHANGES["a"][0])
    later = report("two changes, h at 30, d at 60", np.random.default_rng(6), **SIZES)
    for histogram in later.values():
        assert alarms(histogram, 1, 59) <= 6  # .05 of 60, and four standard deviations would be 10
        assert alarms(histogram, 60, 100) >= 50


def test_a_panel_is_split_into_parts():
    sizes = SIZES | {"n": 60, "horizon": 12, "change": 6}
    quiet = report("panel, no change, part 3 of 4", np.random.default_rng(7), **sizes)
    assert sum(quiet["inferred, panel"]) == 20
    assert sum(quiet["betting, panel"]) == 15
    changed = report("panel, Gaussian, part 2 of 3", np.random.default_rng(7), **sizes)
    assert sum(changed["inferred, panel"]) == sum(changed["betting, panel"]) == 20


@pytest.mark.parametrize(
    "key", ["sizes, b, 200", "size, z, 200", "floor, z", "two changes, z", "panel, z, part 1 of 2"]
)
def test_unknown_keys_are_named(key):
    with pytest.raises(ValueError, match=r"z|sizes"):
        report(key, np.random.default_rng(1), **SIZES)
