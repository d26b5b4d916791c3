"""A panel of dependent events: one alpha for all, no later than Bonferroni, a state that comes back exactly."""

import json

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_panel import MonitorPanel, update
from dprepro.mechanisms.additive import LaplaceCount
from dprepro.mechanisms.events import Interval

THRESHOLDS = {"(-inf, 0]": 0.0, "(-inf, -0.5]": -0.5, "(-inf, -1]": -1.0}
NEIGHBOURS = np.zeros(10), np.array([1.0] + [0.0] * 9)


def betting(alpha):
    return BettingMonitor(1.0, alpha)


def retidp(alpha):
    return ReTiDPMonitor(1.0, alpha, horizon=30, threshold=2.5)


def draw(scale, n, panels, rng):
    """Counts of nested half lines on the same outputs, as dependent as events can be."""
    found = {}
    sides = [LaplaceCount(scale)(x, n * panels, rng).reshape(panels, n) for x in NEIGHBOURS]
    for name, top in THRESHOLDS.items():
        found[name] = tuple((side <= top).sum(axis=1) for side in sides)
    return found


def test_the_average_of_capitals_is_that_of_single_monitors():
    rng = np.random.default_rng(1)
    panel = MonitorPanel(betting, THRESHOLDS, 0.05)
    alone = {name: betting(0.05) for name in THRESHOLDS}
    for _ in range(8):
        counts = {name: (int(x[0]), int(y[0])) for name, (x, y) in draw(0.9, 300, 1, rng).items()}
        result = panel.update(counts, 300)
        single = {name: monitor.update(*counts[name], 300) for name, monitor in alone.items()}
        capital = np.mean([np.exp(found.statistic) for found in single.values()])
        assert result.statistic == pytest.approx(np.log(capital), rel=1e-12)
        assert result.statistics == pytest.approx({name: found.statistic for name, found in single.items()})
        assert result.event == max(single, key=lambda name: single[name].statistic)
        assert result.change_point == single[result.event].change_point
    assert panel.steps == 8
    assert result.threshold == pytest.approx(np.log(20))


def test_the_average_alarms_whenever_bonferroni_does():
    rng = np.random.default_rng(2)
    panel = MonitorPanel(betting, THRESHOLDS, 0.05)
    earlier = 0
    for _ in range(25):
        result = panel.update(draw(0.8, 300, 40, rng), 300)
        bonferroni = np.max(list(result.statistics.values()), axis=0) >= np.log(3 / 0.05)
        assert not (bonferroni & ~result.alarm).any()
        earlier += (result.alarm & ~bonferroni).sum()
    assert result.alarm.mean() > 0.9
    assert earlier > 0


def test_retidp_shares_alpha_by_bonferroni():
    made = []
    panel = MonitorPanel(lambda alpha: made.append(alpha) or retidp(alpha), THRESHOLDS, 0.06)
    assert made == pytest.approx([0.02])
    alone = {name: retidp(0.02) for name in THRESHOLDS}
    rng = np.random.default_rng(3)
    for _ in range(10):
        counts = draw(0.9, 300, 5, rng)
        result = panel.update(counts, 300)
        single = {name: monitor.update(*counts[name], 300) for name, monitor in alone.items()}
        assert (result.statistic == np.max([found.statistic for found in single.values()], axis=0)).all()
        assert (result.alarm == np.any([found.alarm for found in single.values()], axis=0)).all()
    assert result.event.shape == (5,)
    assert set(result.event) <= set(THRESHOLDS)


def test_false_alarms_of_dependent_events_on_the_boundary():
    # Scale 1 at epsilon 1: all three half lines lie on the boundary of the claim.
    rng = np.random.default_rng(4)
    panel, panels = MonitorPanel(betting, THRESHOLDS, 0.05), 400
    for _ in range(60):
        result = panel.update(draw(1.0, 200, panels, rng), 200)
    # More alarms than this have a probability below 1e-4 if the level is .05.
    assert result.alarm.sum() <= stats.binom.isf(1e-4, panels, 0.05)
    # The limit bites: for a scale of .9 it is passed.
    panel = MonitorPanel(betting, THRESHOLDS, 0.05)
    for _ in range(60):
        result = panel.update(draw(0.9, 200, panels, rng), 200)
    assert result.alarm.sum() > stats.binom.isf(1e-4, panels, 0.05)


def test_a_panel_finds_what_its_first_event_cannot_see():
    rng = np.random.default_rng(5)
    panel = MonitorPanel(betting, {"blind": Interval(high=np.inf), "(-inf, 0]": Interval(high=0)}, 0.05)
    for _ in range(10):
        counts = draw(0.5, 300, 1, rng)["(-inf, 0]"]
        result = panel.update({"blind": (300, 300), "(-inf, 0]": (int(counts[0][0]), int(counts[1][0]))}, 300)
    assert result.alarm
    assert result.event == "(-inf, 0]"


@pytest.mark.parametrize("make", [betting, retidp])
def test_the_state_comes_back_exactly(make):
    rng = np.random.default_rng(6)
    panel = MonitorPanel(make, THRESHOLDS, 0.05)
    for _ in range(5):
        panel.update(draw(0.5, 300, 2, rng), 300)
    text = panel.to_json()
    again = MonitorPanel(make, THRESHOLDS, 0.05)
    again.restore(text)
    assert again.to_json() == text
    counts = draw(1.0, 300, 2, rng)
    first, second = panel.update(counts, 300), again.update(counts, 300)
    assert (first.statistic == second.statistic).all()
    assert (first.alarm == second.alarm).all()
    assert first.alarm.all()  # an alarm stays


def test_a_scalar_panel_gives_plain_numbers_and_restores():
    panel = MonitorPanel(betting, ["a"], 0.05)
    result = update(panel, {"a": (300, 0)}, 300)
    assert (type(result.statistic), type(result.alarm), type(result.event)) == (float, bool, str)
    assert result.alarm
    again = MonitorPanel(betting, ["a"], 0.05)
    again.restore(panel.to_json())
    assert again.update({"a": (100, 100)}, 300).alarm is True
    assert panel.horizon is None


def test_a_single_monitor_goes_by_the_empty_name():
    assert update(betting(0.05), {"": (10, 5)}, 100) == betting(0.05).update(10, 5, 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": ["a", "b"]}, r"of the events \('a', 'c'\), got \('a', 'b'\)"),
        ({"alpha": 0.1}, "alpha = 0.05, got 0.1"),
        ({"make": lambda alpha: BettingMonitor(2.0, alpha)}, "epsilon"),
        ({"make": retidp}, "BettingMonitor.* got one of a ReTiDPMonitor"),
    ],
)
def test_a_state_of_another_panel_is_refused(change, message):
    other = MonitorPanel(**{"make": betting, "events": ["a", "c"], "alpha": 0.05, **change})
    with pytest.raises(ValueError, match=message):
        MonitorPanel(betting, ["a", "c"], 0.05).restore(other.to_json())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '"x"', "null", json.dumps({"events": 3})])
def test_a_malformed_state_is_refused(text):
    with pytest.raises(ValueError, match="saved state of a panel"):
        MonitorPanel(betting, ["a"], 0.05).restore(text)


@pytest.mark.parametrize("events", [[], ["a", "a"], [""], [" a"], ["a\nb"], ["a\n"], [3]])
def test_names_that_a_csv_file_could_not_hold_are_refused(events):
    with pytest.raises(ValueError, match="^events must "):
        MonitorPanel(betting, events, 0.05)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, np.nan])
def test_alpha_outside_its_domain(alpha):
    with pytest.raises(ValueError, match="^alpha must be in"):
        MonitorPanel(betting, ["a"], alpha)


def test_a_refused_step_leaves_the_state():
    panel = MonitorPanel(betting, ["a", "b"], 0.05)
    panel.update({"a": (1, 1), "b": (2, 2)}, 10)
    before = panel.to_json()
    for counts, message in [
        ({"a": (1, 1)}, r"events \('a', 'b'\), got \('a',\)"),
        ({"a": (1, 1), "b": (1, 1), "c": (1, 1)}, "got"),
        ({"a": (1, 1), "b": (11, 1)}, "at most n"),
    ]:
        with pytest.raises(ValueError, match=message):
            panel.update(counts, 10)
    assert panel.to_json() == before
