"""Panels of events on one noisy count: the joint law of the counts, and alarms that follow from the definitions."""

import numpy as np
import pytest
from scipy.special import logsumexp

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.retidp_event_panel import (
    AFTER,
    BEFORE,
    DATABASES,
    EVENTS,
    first_reached,
    paired_difference,
    panel_alarms,
    panel_counts,
    statistics,
)
from dprepro.stats import brownian

N, HORIZON, CHANGE = 200, 30, 16


@pytest.fixture(autouse=True)
def thresholds(monkeypatch):
    quantile, limit = {0.05: 2.3, 0.0125: 2.75}, {0.05: 2.575, 0.0125: 3.01}
    monkeypatch.setattr(brownian, "stored_quantile", lambda alpha, beta, grid: (quantile[alpha], 0.0))
    monkeypatch.setattr(brownian, "stored_limit", lambda alpha, beta: (limit[alpha], 0.0))


def alarm(name, seed=3, repetitions=40):
    return panel_alarms(
        name,
        np.random.default_rng(seed),
        repetitions=repetitions,
        betting=repetitions - 10,
        n=N,
        horizon=HORIZON,
        change=CHANGE,
        alpha=0.05,
    )


def test_counts_of_all_events_come_from_the_same_outputs():
    counts = panel_counts(AFTER["Laplace 0.9"], 400, 5, N, np.random.default_rng(1))
    for side, x in enumerate(DATABASES):
        found = np.stack([counts[name][side].ravel() for name in EVENTS])
        assert np.all(np.diff(found, axis=0) <= 0)  # (-inf, .5] holds (-inf, 0], and so on
        exact = np.array([AFTER["Laplace 0.9"].probability(x, event) for event in EVENTS.values()])
        spread = np.sqrt(N * exact * (1 - exact))
        assert np.all(np.abs(found.mean(axis=1) - N * exact) <= 4.5 * spread / found.shape[1] ** 0.5)
        # Nested events: the covariance of the indicators is P(smaller) (1 - P(larger)).
        correlation = exact[3] * (1 - exact[0]) * N / (spread[0] * spread[3])
        assert abs(np.corrcoef(found[0], found[3])[0, 1] - correlation) <= 4.5 / found.shape[1] ** 0.5


def test_the_weak_event_is_weak_under_the_milder_changes_alone():
    def violation(name, event):
        a, b = (AFTER[name].probability(x, EVENTS[event]) for x in DATABASES)
        return a - np.e * b

    assert violation("Laplace 0.5", "(-inf, 0.5]") == pytest.approx(violation("Laplace 0.5", "(-inf, 0]"))
    assert violation("Laplace 0.9", "(-inf, 0]") == pytest.approx(0.5 - np.e * np.exp(-1 / 0.9) / 2)
    assert violation("Laplace 0.9", "(-inf, 0.5]") < 0
    assert AFTER["no change"] == BEFORE


def test_first_reached_against_a_loop():
    statistic = np.random.default_rng(2).normal(size=(9, 50))
    for column, found in zip(statistic.T, first_reached(statistic, 1.2), strict=True):
        steps = [step for step, value in enumerate(column, 1) if value >= 1.2]
        assert found == (steps[0] if steps else 0)


def test_panel_statistics_against_single_monitors():
    counts = panel_counts(AFTER["Laplace 0.5"], 6, 8, N, np.random.default_rng(4))
    makers = {
        "retidp": lambda alpha: ReTiDPMonitor(1.0, alpha, horizon=8, threshold=2.3),
        "betting": lambda alpha: BettingMonitor(1.0, alpha),
    }
    for name, make in makers.items():
        whole, single = statistics(make, 0.05, counts, N)
        assert whole.shape == (8, 6)
        for place, (x, y) in enumerate(counts.values()):
            monitor = make(0.05)
            alone = [monitor.update(x[:, step], y[:, step], N).statistic for step in range(8)]
            np.testing.assert_allclose(single[:, place], alone)
        together = single.max(axis=1) if name == "retidp" else logsumexp(single, axis=1) - np.log(4)
        np.testing.assert_allclose(whole, together)


def test_alarms_of_panel_and_events():
    found = alarm("Laplace 0.8")
    for recipe, repetitions in (("inferred", 40), ("as_stated", 40), ("betting", 30)):
        whole = np.cumsum(found[f"{recipe}, panel"][1:])
        for event in EVENTS:
            share, alone = (np.cumsum(found[f"{recipe}, {event}, {word}"][1:]) for word in ("share", "alone"))
            assert np.all(share <= whole)  # any event at its share of alpha sets the panel off
            assert np.all(share <= alone)  # a lower threshold
            assert sum(found[f"{recipe}, {event}, alone"]) == repetitions
    assert np.all(np.cumsum(found["as_stated, panel"][1:]) <= np.cumsum(found["inferred, panel"][1:]))


def test_paired_differences_by_hand():
    panel = np.array([7, 5, 0, 0, 3, 9, 8])
    alone = np.array([5, 9, 6, 0, 8, 2, 8])  # the fifth and the sixth have a false alarm
    assert paired_difference(panel, alone, change=5, horizon=10) == [5, 2 - 4 + 5, 4 + 16 + 25]
    found = alarm("Laplace 0.5")
    pairs, total, _ = found["inferred, panel - (-inf, -1]"]
    assert total < 0 < found["inferred, panel - (-inf, 0]"][1]  # the tail is slow, the middle is fast
    assert pairs <= 40


def test_an_unknown_change_is_named():
    with pytest.raises(ValueError, match=r"Laplace 0\.7"):
        alarm("Laplace 0.7")
