"""Watching a mechanism of one's own: alarms where they belong, and nothing counted is lost or counted twice."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_events import Reversed
from dprepro.audits.monitor_panel import MonitorPanel
from dprepro.audits.monitor_propose import EachStep
from dprepro.audits.monitor_watch import watch
from dprepro.mechanisms.additive import LaplaceCount
from dprepro.mechanisms.events import Interval

X, NEIGHBOUR = np.zeros(10), np.array([1.0] + [0.0] * 9)
GOOD, BAD = LaplaceCount(1.0), LaplaceCount(0.5)
EVENT = Interval(high=0)
EVENTS = {"(-inf, 0]": EVENT, "(-inf, -1]": Interval(high=-1)}
N = 300


def betting(alpha=0.05):
    return BettingMonitor(1.0, alpha)


def panel():
    return MonitorPanel(betting, EVENTS, 0.05)


def seeded():
    return np.random.default_rng(7)


class Breaking:
    """A mechanism that raises in one of its runs, once."""

    def __init__(self, error, at):
        self.error, self.left, self.calls = error, at, 0

    def __call__(self, x, n, rng):
        self.left -= 1
        self.calls += 1
        if self.left == 0:
            raise self.error
        return GOOD(x, n, rng)


def test_an_alarm_after_the_change_names_step_event_and_change():
    watched = watch([GOOD] * 20 + [BAD] * 20, X, NEIGHBOUR, EVENTS, panel(), n=N, rng=seeded())
    assert 21 <= watched.alarm <= 24
    assert watched.results[-1].change_point == pytest.approx(21, abs=1)
    assert str(watched).startswith(
        f"alarm at step {watched.alarm}, event (-inf, 0]; the change is put at step 2"
    )
    assert list(watched.counts) == ["step", "event", "count_x", "count_y", "n"]
    assert len(watched.counts) == 2 * len(watched.results) == 2 * watched.alarm
    assert not any(result.alarm for result in watched.results[:-1])


def test_the_counts_are_those_of_the_event_and_the_results_those_of_the_counts():
    watched = watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=40, rng=seeded())
    assert (watched.alarm, str(watched)) == (None, "no alarm in 40 steps")
    assert list(watched.counts["step"]) == list(range(1, 41))
    # Sums over independent steps are binomial: outside these limits with probability 1e-6.
    for column, database in (("count_x", X), ("count_y", NEIGHBOUR)):
        low, high = stats.binom.interval(1 - 1e-6, 40 * N, GOOD.probability(database, EVENT))
        assert low <= watched.counts[column].sum() <= high
    assert watched.counts["count_x"].nunique() > 10  # a step does not repeat another
    monitor = betting()
    again = [monitor.update(row.count_x, row.count_y, row.n) for row in watched.counts.itertuples()]
    assert again == watched.results


def test_a_reversed_event_counts_for_the_neighbour():
    plain = watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=3, rng=seeded()).counts
    other = watch(GOOD, X, NEIGHBOUR, Reversed(EVENT), betting(), n=N, steps=3, rng=seeded()).counts
    assert (other["count_x"] == plain["count_y"]).all()
    assert (other["count_y"] == plain["count_x"]).all()


@pytest.mark.parametrize("kept_in", ["file", "monitor"])
@pytest.mark.parametrize("run", [1, 2, 3, 8, 11])
def test_ctrl_c_loses_and_repeats_nothing(tmp_path, run, kept_in):
    whole = watch(GOOD, X, NEIGHBOUR, EVENTS, panel(), n=N, steps=6, rng=seeded())
    path = tmp_path / "counts.csv" if kept_in == "file" else None
    monitor, mechanism = panel(), Breaking(KeyboardInterrupt(), run)
    first = watch(mechanism, X, NEIGHBOUR, EVENTS, monitor, n=N, steps=6, rng=seeded(), path=path)
    assert first.interrupted
    assert len(first.results) == (run - 1) // 2 == monitor.steps
    assert str(first).endswith("interrupted")
    monitor = panel() if kept_in == "file" else monitor
    second = watch(mechanism, X, NEIGHBOUR, EVENTS, monitor, n=N, steps=6, rng=seeded(), path=path)
    assert not second.interrupted
    assert second.results[-1] == whole.results[-1]
    assert mechanism.calls == 12 + (1 if run % 2 else 2)  # the interrupted step alone was run again
    if kept_in == "file":
        assert second.counts.equals(whole.counts)
        assert second.results == whole.results


def test_events_of_each_step_survive_ctrl_c(tmp_path):
    def again(mechanism, path=None):
        events = EachStep(1.0, 500)
        chosen = MonitorPanel(betting, events.names, 0.05)
        return watch(mechanism, X, NEIGHBOUR, events, chosen, n=N, steps=4, rng=seeded(), path=path)

    mechanism = Breaking(KeyboardInterrupt(), 7)  # four runs a step: two to choose, two to count
    assert again(mechanism, tmp_path / "c.csv").interrupted
    assert again(mechanism, tmp_path / "c.csv").counts.equals(again(GOOD).counts)


@pytest.mark.parametrize("kind", [betting, lambda: ReTiDPMonitor(1.0, 0.05, horizon=9, threshold=2.5)])
def test_ctrl_c_within_the_monitor_leaves_it_whole(monkeypatch, kind):
    whole = watch(GOOD, X, NEIGHBOUR, EVENT, kind(), n=N, steps=6, rng=seeded())
    monitor = kind()
    step, left = monitor._step, [4]

    def interrupted(*arguments):
        found = step(*arguments)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(monitor, "_step", interrupted)
    first = watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=6, rng=seeded())
    assert first.interrupted
    assert monitor.steps == 3
    second = watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=6, rng=seeded())
    assert first.results + second.results == whole.results


def test_an_error_of_the_mechanism_says_when_and_keeps_what_was_before(tmp_path):
    path = tmp_path / "counts.csv"
    mechanism = Breaking(ZeroDivisionError("mine"), 6)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        watch(mechanism, X, NEIGHBOUR, EVENT, betting(), n=N, steps=5, rng=seeded(), path=path)
    assert caught.value.__notes__ == ["watch: at step 3; the 2 steps before are kept"]
    watched = watch(mechanism, X, NEIGHBOUR, EVENT, betting(), n=N, steps=5, rng=seeded(), path=path)
    assert watched.counts.equals(
        watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=5, rng=seeded()).counts
    )


def test_a_step_written_but_not_yet_counted_is_counted_by_the_next_call(tmp_path):
    path = tmp_path / "counts.csv"
    monitor = betting()
    watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=3, rng=seeded(), path=path)
    watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=5, rng=seeded(), path=path)
    assert len(watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=5, rng=seeded(), path=path).results) == 2
    assert monitor.steps == 5


def test_mechanisms_of_each_step_go_on_where_they_stopped():
    seen = []

    def numbered(number):
        return lambda x, n, rng: seen.append(number) or GOOD(x, n, rng)

    mechanisms = [numbered(number) for number in range(1, 5)]
    monitor = betting()
    watch(mechanisms, X, NEIGHBOUR, EVENT, monitor, n=N, steps=2, rng=seeded())
    watched = watch(mechanisms, X, NEIGHBOUR, EVENT, monitor, n=N, rng=seeded())
    assert seen == [1, 1, 2, 2, 3, 3, 4, 4]
    assert list(watched.counts["step"]) == [3, 4]


def test_a_watch_that_is_complete_runs_nothing(tmp_path):
    path = tmp_path / "counts.csv"
    mechanism = Breaking(AssertionError("ran"), 1)
    found = watch([GOOD, BAD, BAD, BAD], X, NEIGHBOUR, EVENT, betting(), n=N, rng=seeded(), path=path)
    assert found.alarm
    for _ in range(2):
        again = watch(mechanism, X, NEIGHBOUR, EVENT, betting(), n=N, steps=99, rng=seeded(), path=path)
        assert (again.alarm, again.results) == (found.alarm, found.results)
    empty = watch(mechanism, X, NEIGHBOUR, EVENT, betting(), n=N, steps=0, rng=seeded())
    assert (len(empty.counts), empty.alarm) == (0, None)


def test_the_horizon_is_the_number_of_steps():
    def retidp():
        return ReTiDPMonitor(1.0, 0.05, horizon=4, threshold=9.0)

    assert len(watch(GOOD, X, NEIGHBOUR, EVENT, retidp(), n=N, rng=seeded()).results) == 4
    assert len(watch([GOOD] * 9, X, NEIGHBOUR, EVENT, retidp(), n=N, rng=seeded()).results) == 4
    with pytest.raises(ValueError, match="steps must be at most the monitor's horizon, got 5 of 4"):
        watch(GOOD, X, NEIGHBOUR, EVENT, retidp(), n=N, steps=5, rng=seeded())


def few(x, n, rng):
    return GOOD(x, n, rng)[:-1]


def nothing(x, n, rng):
    return None


def no_numbers(x, n, rng):
    return np.where(np.arange(n) < 7, np.nan, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": few}, "mechanism few must return n = 300 outputs, got 299 outputs"),
        ({"mechanism": nothing}, "mechanism nothing must return n = 300 outputs, got None"),
        ({"mechanism": no_numbers}, "mechanism no_numbers must return numbers, got 7 NaN of 300"),
        (
            {"events": lambda outputs: [True]},
            "must return a bool array of shape .300,., got bool of shape .1,",
        ),
        ({"events": lambda outputs: outputs}, "must return a bool array of shape .300,., got float64"),
        ({"events": EVENTS}, "monitor must be a MonitorPanel of the events .*, got a BettingMonitor"),
        ({"events": EachStep(1.0, 500)}, "monitor must be a MonitorPanel of the events .'favoured by x', "),
        ({"monitor": panel()}, "events must have the panel's names .* got Interval"),
        ({"monitor": panel(), "events": {"a": EVENT}}, "events must have the panel's names .* got .'a',"),
        (
            {"monitor": panel(), "events": EachStep(1.0, 500)},
            "events must have the panel's names .* got .'fav",
        ),
        ({"n": 0}, "n must be a whole number of at least 1, got 0"),
        ({"steps": -1}, "steps must be a whole number of at least 0, got -1"),
        ({"steps": None}, "steps must be given"),
    ],
)
def test_what_makes_no_sense_is_named(change, message):
    arguments = {"mechanism": GOOD, "events": EVENT, "monitor": betting(), "n": N, "steps": 2, **change}
    with pytest.raises(ValueError, match=message):
        watch(x=X, x_neighbour=NEIGHBOUR, rng=seeded(), **arguments)


def test_a_monitor_that_has_its_alarm_or_lacks_its_file_is_refused(tmp_path):
    monitor = betting()
    watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=2, rng=seeded())
    with pytest.raises(ValueError, match="path must hold the 2 steps that monitor has taken, got 0"):
        watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=3, rng=seeded(), path=tmp_path / "c.csv")
    monitor.update(N, 0, N)
    with pytest.raises(ValueError, match="monitor must not have raised its alarm already"):
        watch(GOOD, X, NEIGHBOUR, EVENT, monitor, n=N, steps=9, rng=seeded())


def test_progress_is_for_terminals_or_who_asks(capsys):
    watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=2, rng=seeded())
    assert capsys.readouterr() == ("", "")
    watch(GOOD, X, NEIGHBOUR, EVENT, betting(), n=N, steps=2, rng=seeded(), progress=True)
    assert "2/2" in capsys.readouterr().err
