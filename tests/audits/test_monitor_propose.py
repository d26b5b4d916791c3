"""Events found on first runs: as good as those of the paper or better, and no false alarms on the runs to come."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_events import Among, AnyOf, Reversed, count
from dprepro.audits.monitor_panel import MonitorPanel
from dprepro.audits.monitor_propose import EachStep, propose_events
from dprepro.audits.monitor_watch import watch
from dprepro.mechanisms.additive import GaussianCount, LaplaceCount
from dprepro.mechanisms.events import Exactly, Interval, OneOf
from dprepro.mechanisms.noisy_max import ReportNoisyMax
from dprepro.mechanisms.sparse_vector import SparseVector

X, NEIGHBOUR = np.zeros(10), np.array([1.0] + [0.0] * 9)
LOW, HIGH = np.array([0.0] * 5 + [1.0] * 5), np.array([1.0] * 5 + [0.0] * 5)
ONES, TWOS = np.ones(5), np.full(5, 2.0)


def svt(variant):
    return SparseVector(variant, epsilon=1.0, threshold=1.0, cutoff=1)


# The events of ReTiDP's table of scenarios.
BROKEN = {
    "a": (LaplaceCount(0.5), X, NEIGHBOUR, Interval(high=0)),
    "b": (GaussianCount(2**0.5), X, NEIGHBOUR, Interval(high=-1)),
    "c": (ReportNoisyMax(1.0, output="maximum"), ONES, TWOS, Interval(high=2)),
    "d": (svt(4), LOW, HIGH, Exactly((0, 0, 0, 0, 0, 0, 1))),
    "e": (svt(5), LOW, HIGH, Exactly((0,) * 5 + (1,) * 5)),
    "f": (svt(6), HIGH, LOW, Exactly((1,) * 5 + (0,) * 5)),
}


def probability(mechanism, x, event):
    """Exact probability of a proposed event, put together from those of its disjoint parts."""
    if isinstance(event, AnyOf):
        return sum(mechanism.probability(x, part) for part in event.events)
    if isinstance(event, Among):
        rows = (tuple(entry for entry in row if entry >= 0) for row in event.values)
        return sum(mechanism.probability(x, Exactly(row)) for row in rows)
    return mechanism.probability(x, event)


def drift(mechanism, x, neighbour, event, n=750):
    """Exact standardised violation of epsilon = 1 in one step of n runs."""
    if isinstance(event, Reversed):
        return drift(mechanism, neighbour, x, event.event, n)
    a, b = (probability(mechanism, database, event) for database in (x, neighbour))
    return (a - np.e * b) / np.sqrt((a * (1 - a) + np.e**2 * b * (1 - b)) / n)


@pytest.mark.parametrize("scenario", BROKEN)
def test_events_that_nobody_named_show_a_broken_mechanism_as_well_as_the_papers(scenario):
    mechanism, x, neighbour, papers = BROKEN[scenario]
    found = propose_events(mechanism, x, neighbour, epsilon=1.0, n=20_000, rng=np.random.default_rng(1))
    best = next(iter(found.values()))
    assert drift(mechanism, x, neighbour, best) >= 0.95 * drift(mechanism, x, neighbour, papers)
    assert drift(mechanism, x, neighbour, best) > 1.0  # a standard error a step or more


def test_of_two_directions_the_one_that_violates_more_is_first():
    # The maximum of many tells smaller answers, not larger ones: x' has no event of its own.
    mechanism, x, neighbour, _ = BROKEN["c"]
    for exchange in (False, True):
        pair = (neighbour, x) if exchange else (x, neighbour)
        first, second = propose_events(
            mechanism, *pair, epsilon=1.0, n=20_000, rng=np.random.default_rng(1)
        ).values()
        assert isinstance(first, Reversed) is exchange
        assert isinstance(second, Reversed) is not exchange
        assert drift(mechanism, *pair, first) > 3 > 0 > drift(mechanism, *pair, second)


def test_the_panel_of_proposals_finds_a_broken_mechanism_within_a_few_steps():
    for mechanism, x, neighbour, _ in (BROKEN["a"], BROKEN["d"], BROKEN["f"]):
        rng = np.random.default_rng(2)
        events = propose_events(mechanism, x, neighbour, epsilon=1.0, n=20_000, rng=rng)
        panel = MonitorPanel(lambda alpha: BettingMonitor(1.0, alpha), events, 0.05)
        watched = watch(mechanism, x, neighbour, events, panel, n=750, steps=20, rng=rng)
        assert watched.alarm
        assert watched.results[-1].event == next(iter(events))


@pytest.mark.parametrize("name", ["laplace", "svt1"])
def test_proposals_raise_no_false_alarms_on_later_runs(name):
    # Few first runs on purpose: chance has a large part in the choice. Laplace noise of scale 1 at epsilon 1 is on
    # the boundary of the claim for every half line below 0.
    private = {"laplace": (LaplaceCount(1.0), X, NEIGHBOUR), "svt1": (svt(1), LOW, HIGH)}
    mechanism, x, neighbour = private[name]
    rng, repetitions, steps, n = np.random.default_rng(3), 100, 25, 100
    counts = np.empty((2, 2, repetitions, steps), dtype=int)  # event, database, ...
    for repetition in range(repetitions):
        events = propose_events(mechanism, x, neighbour, epsilon=1.0, n=400, rng=rng)
        later = [mechanism(database, steps * n, rng) for database in (x, neighbour)]
        for place, event in enumerate(events.values()):
            inside = [event(outputs).reshape(steps, n).sum(axis=1) for outputs in later]
            counts[place, :, repetition] = inside[::-1] if isinstance(event, Reversed) else inside
    panels = [
        MonitorPanel(lambda alpha: BettingMonitor(1.0, alpha), "ab", 0.05),
        MonitorPanel(lambda alpha: ReTiDPMonitor(1.0, alpha, horizon=steps, threshold=3.0), "ab", 0.05),
    ]
    for step in range(steps):
        results = [
            panel.update({"a": counts[0, :, :, step], "b": counts[1, :, :, step]}, n) for panel in panels
        ]
    # More alarms than this have a probability below 1e-4 if the level is .05. ReTiDP holds it in the limit of large n
    # only, so it is asked where the claim holds with room to spare.
    limit = stats.binom.isf(1e-4, repetitions, 0.05)
    assert results[0].alarm.sum() <= limit
    assert name == "laplace" or results[1].alarm.sum() <= limit


def test_a_private_mechanism_gets_an_event_on_which_a_change_would_show():
    events = propose_events(
        LaplaceCount(1.0), X, NEIGHBOUR, epsilon=1.0, n=20_000, rng=np.random.default_rng(4)
    )
    for event in events.values():
        assert drift(LaplaceCount(1.0), X, NEIGHBOUR, event) == pytest.approx(0, abs=0.5)
        assert drift(LaplaceCount(0.5), X, NEIGHBOUR, event) > 8  # 10.2 for the paper's


def test_noise_that_depends_on_the_data_shows_in_both_tails():
    def mechanism(scale, n, rng):
        return scale * rng.standard_normal(n)

    first = next(
        iter(
            propose_events(mechanism, 3.0, 1.0, epsilon=1.0, n=20_000, rng=np.random.default_rng(5)).values()
        )
    )
    assert isinstance(first, AnyOf)
    # The likelihood ratio exp(4 x^2 / 9) / 3 passes e where |x| > 2.17.
    outside = np.array([-8.0, -3.0, 3.0, 8.0])
    assert first(outside).all()
    assert not first(np.linspace(-1.5, 1.5, 7)).any()
    assert " or " in str(first)


def test_whole_numbers_become_a_set_of_values():
    def geometric(x, n, rng):
        return x + rng.geometric(0.7, n) - rng.geometric(0.7, n)

    events = propose_events(geometric, 0, 1, epsilon=1.0, n=20_000, rng=np.random.default_rng(6))
    # The ratio is 1/.3 below the larger database, .3 above: e^1 is passed at every value up to 0, from 1 on for x'.
    forward = next(event for event in events.values() if not isinstance(event, Reversed))
    backward = next(event.event for event in events.values() if isinstance(event, Reversed))
    assert isinstance(forward, OneOf)
    assert {0, -1} <= set(forward.values) <= set(range(-30, 1))
    assert {1, 2} <= set(backward.values) <= set(range(1, 30))


@pytest.mark.parametrize(
    "shape",
    [
        lambda yes: ["yes" if value else None for value in yes],
        lambda yes: [("a", 1) if value else ("b",) for value in yes],
        lambda yes: np.where(yes, "yes", "no"),
        lambda yes: yes,
        lambda yes: yes.astype(float),
        lambda yes: yes.astype(int).tolist(),
        lambda yes: np.stack([yes, ~yes], axis=1),
        lambda yes: np.where(yes, 2**62, 2**62 + 1),
        lambda yes: [np.array([1, 2]) if value else np.array([3]) for value in yes],
    ],
)
def test_outputs_of_every_kind(shape):
    def mechanism(x, n, rng):
        return shape(rng.random(n) < x)

    events = propose_events(mechanism, 0.9, 0.1, epsilon=1.0, n=1000, rng=np.random.default_rng(7))
    for event in events.values():
        found = count(event, *(mechanism(x, 1000, np.random.default_rng(8)) for x in (0.9, 0.1)))
        assert found[0] > 850
        assert found[1] < 150


def test_a_clamped_output_keeps_its_atoms():
    def mechanism(x, n, rng):
        return np.clip(LaplaceCount(0.5)(x, n, rng), 0, 1)

    events = propose_events(mechanism, X, NEIGHBOUR, epsilon=1.0, n=20_000, rng=np.random.default_rng(9))
    event = next(event for event in events.values() if not isinstance(event, Reversed))
    found = count(event, *(mechanism(x, 100_000, np.random.default_rng(10)) for x in (X, NEIGHBOUR)))
    assert found[0] / 100_000 == pytest.approx(0.5, abs=0.15)
    assert found[0] - np.e * found[1] > 28_000  # .316 by the half line, .39 at best


@pytest.mark.parametrize("epsilon", [0.0, 30.0, 700.0])
def test_extreme_claims_give_an_event(epsilon):
    events = propose_events(
        LaplaceCount(1.0), X, NEIGHBOUR, epsilon=epsilon, n=1000, rng=np.random.default_rng(11)
    )
    assert len(events) == 2


def test_delta_is_granted():
    # Released unchanged with probability .1: a violation of (1, 0) and of (1, .05), none of (1, .2).
    def mechanism(x, n, rng):
        return np.where(rng.random(n) < 0.1, x, rng.integers(2, size=n) + 2)

    events = propose_events(mechanism, 0, 1, epsilon=1.0, delta=0.05, n=20_000, rng=np.random.default_rng(12))
    assert {str(event) for event in events.values()} == {"{0}", "{1} under x'"}


def test_the_choice_depends_on_the_seed_alone():
    def names(seed):
        rng = np.random.default_rng(seed)
        return list(propose_events(LaplaceCount(1.0), X, NEIGHBOUR, epsilon=1.0, n=500, rng=rng))

    assert names(1) == names(1) != names(2)


@pytest.mark.parametrize("scenario", ["b", "e", "f"])
def test_events_chosen_at_each_step_find_what_those_chosen_before_the_change_cannot(scenario):
    mechanism, x, neighbour, _ = BROKEN[scenario]
    before = LaplaceCount(1.0) if scenario == "b" else svt(2)
    deployed = [before] * 8 + [mechanism] * 12

    def alarm(events):
        rng = np.random.default_rng(13)
        panel = MonitorPanel(lambda alpha: BettingMonitor(1.0, alpha), events.names, 0.05)
        return watch(deployed, x, neighbour, events, panel, n=750, rng=rng)

    watched = alarm(EachStep(epsilon=1.0, n=10_000))
    assert 8 < watched.alarm <= 18
    assert set(watched.counts["event"]) == set(EachStep.names)
    early = propose_events(before, x, neighbour, epsilon=1.0, n=10_000, rng=np.random.default_rng(13))
    panel = MonitorPanel(lambda alpha: BettingMonitor(1.0, alpha), early, 0.05)
    watched = watch(deployed, x, neighbour, early, panel, n=750, rng=np.random.default_rng(13))
    assert watched.alarm is None


def test_events_chosen_at_each_step_raise_no_false_alarms():
    # One panel of many streams under Laplace noise on the boundary, each with events of its own at each step.
    rng, streams, steps, n = np.random.default_rng(14), 40, 12, 150
    panel = MonitorPanel(lambda alpha: BettingMonitor(1.0, alpha), EachStep.names, 0.05)
    for _ in range(steps):
        counts = {
            name: (np.empty(streams, dtype=int), np.empty(streams, dtype=int)) for name in EachStep.names
        }
        for stream in range(streams):
            events = EachStep(1.0, 300).propose(LaplaceCount(1.0), X, NEIGHBOUR, rng)
            outputs = [LaplaceCount(1.0)(database, n, rng) for database in (X, NEIGHBOUR)]
            for name, event in events.items():
                counts[name][0][stream], counts[name][1][stream] = count(event, *outputs)
        result = panel.update(counts, n)
    assert result.alarm.sum() <= stats.binom.isf(1e-4, streams, 0.05)


def vectors(x, n, rng):
    return rng.standard_normal((n, 3))


def broken(x, n, rng):
    return np.full(n, np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 99}, "n must be a whole number of at least 100, got 99"),
        ({"epsilon": -1}, "epsilon must be in"),
        ({"epsilon": np.nan}, "epsilon must be in"),
        ({"delta": 1}, "delta must be in"),
        (
            {"mechanism": vectors},
            "outputs must be numbers or repeat, got 2000 different of 2000: reduce them",
        ),
        ({"mechanism": broken}, "mechanism broken must return numbers, got [0-9]+ NaN"),
        ({"mechanism": lambda x, n, rng: np.zeros(n + 1)}, "must return n = 1000 outputs, got 1001 outputs"),
    ],
)
def test_what_makes_no_sense_is_named(change, message):
    arguments = {"mechanism": LaplaceCount(1.0), "epsilon": 1.0, "n": 1000, **change}
    with pytest.raises(ValueError, match=message):
        propose_events(x=X, x_neighbour=NEIGHBOUR, rng=np.random.default_rng(1), **arguments)
