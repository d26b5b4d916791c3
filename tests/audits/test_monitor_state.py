"""A saved monitor goes on identically; steps, parameters and states that are wrong are refused and change nothing."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor

MAKERS = {
    "retidp": lambda **more: ReTiDPMonitor(
        **{"epsilon": 1, "alpha": 0.05, "horizon": 100, "threshold": 2.4, **more}
    ),
    "betting": lambda **more: BettingMonitor(**{"epsilon": 1, "alpha": 0.05, **more}),
}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)

steps_of_counts = st.lists(
    st.tuples(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=35
)


@both
@settings(max_examples=25)
@given(counts=steps_of_counts, share=st.floats(0, 1), streams=st.sampled_from([(), (1,), (2, 3)]))
def test_a_saved_monitor_goes_on_with_the_same_numbers(make, counts, share, streams):
    steps = [(np.full(streams, round(n * x)), np.full(streams, round(n * y)), n) for n, x, y in counts]
    first, second = make(delta=0.01), make(delta=0.01)
    cut = round(share * len(steps))
    for step in steps[:cut]:
        first.update(*step)
    second.restore(first.to_json())
    assert second.to_json() == first.to_json()
    assert second.steps == cut
    for step in steps[cut:]:
        ours, theirs = first.update(*step), second.update(*step)
        np.testing.assert_array_equal(ours.statistic, theirs.statistic)
        np.testing.assert_array_equal(ours.alarm, theirs.alarm)
        np.testing.assert_array_equal(ours.change_point, theirs.change_point)
    assert second.to_json() == first.to_json()


@both
def test_restoring_replaces_what_was_there(make):
    empty, used = make(), make()
    used.update([600, 1], [10, 1], 750)
    used.restore(empty.to_json())
    assert used.to_json() == empty.to_json()
    assert used.update(3, 1, 10) == empty.update(
        3, 1, 10
    )  # another shape: nothing of the former state is left


# Refusals


@both
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((11, 0, 10), "count_x must be at most n, got 11 of 10"),
        ((0, 11, 10), "count_y must be at most n, got 11 of 10"),
        ((-1, 0, 10), "count_x must be a whole number of at least 0, got -1"),
        ((0, 1.5, 10), "count_y must be a whole number of at least 0, got 1.5"),
        ((0, math.nan, 10), "count_y must be a whole number"),
        ((0, 0, 0), "n must be a whole number of at least 1, got 0"),
        (([1, 1], [0, 0, 0], 10), r"must have shapes that broadcast, got \(2,\), \(3,\) and \(\)"),
        (([], [], 10), r"count_x, count_y and n must not be empty, got shape \(0,\)"),
        ((None, 0, 10), "count_x must be a whole number"),
        (("many", 0, 10), "count_x must be a number"),
    ],
)
def test_a_refused_step_leaves_the_state_as_it_was(make, counts, message):
    new, used = make(), make()
    used.update(3, 1, 10)
    for monitor in (new, used):
        before = monitor.to_json()
        with pytest.raises(ValueError, match=message):
            monitor.update(*counts)
        assert monitor.to_json() == before
        assert monitor.steps == (monitor is used)


@both
def test_another_shape_is_refused(make):
    for first, second in (((3, 1, 10), ([3, 1], 1, 10)), (([3, 1], 1, 10), (3, 1, 10))):
        monitor = make()
        monitor.update(*first)
        before = monitor.to_json()
        with pytest.raises(ValueError, match=r"must broadcast to shape \(.*\) as before, got \("):
            monitor.update(*second)
        assert monitor.to_json() == before


@both
def test_steps_after_the_horizon_are_refused(make):
    monitor = make(horizon=2)
    monitor.update(1, 1, 10)
    monitor.update(1, 1, 10)
    before = monitor.to_json()
    with pytest.raises(ValueError, match="horizon is 2 steps and all are taken"):
        monitor.update(1, 1, 10)
    assert monitor.to_json() == before


@both
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"epsilon": -1}, r"epsilon must be in \[0, 300\], got -1"),
        ({"epsilon": math.inf}, r"epsilon must be in \[0, 300\], got inf"),
        ({"delta": 1}, r"delta must be in \[0, 1\), got 1"),
        ({"delta": -0.1}, r"delta must be in \[0, 1\), got -0.1"),
        ({"alpha": 0}, r"alpha must be in \(0, 1\), got 0"),
        ({"alpha": 1}, r"alpha must be in \(0, 1\), got 1"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number of at least 1, got 2.5"),
    ],
)
def test_bad_parameters(make, more, message):
    with pytest.raises(ValueError, match=message):
        make(**more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"horizon": None}, "horizon must be a whole number of at least 1, got None"),
        ({"beta": 0.5}, r"beta must be in \[0, 0.5\), got 0.5"),
        ({"beta": -0.1}, r"beta must be in \[0, 0.5\), got -0.1"),
        ({"floor": 0}, r"floor must be in \[1e-100, inf\), got 0"),
        ({"floor": math.inf}, r"floor must be in \[1e-100, inf\), got inf"),
        ({"floor": "n"}, "floor must be one of '1/n', got 'n'"),
        ({"threshold": 0}, r"threshold must be in \(0, inf\), got 0"),
        ({"threshold": "exact"}, "threshold must be one of 'horizon', 'limit', got 'exact'"),
    ],
)
def test_bad_parameters_of_retidp(more, message):
    with pytest.raises(ValueError, match=message):
        MAKERS["retidp"](**more)


OTHERS = {"epsilon": 2, "alpha": 0.01, "delta": 0.01, "horizon": 50}
OTHERS_OF_RETIDP = OTHERS | {"beta": 0.1, "floor": 1e-3, "threshold": 3.0}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("betting", *pair) for pair in OTHERS.items()]
    + [("retidp", *pair) for pair in OTHERS_OF_RETIDP.items()],
)
def test_a_state_of_other_parameters_is_refused(kind, name, value):
    monitor, other = MAKERS[kind](), MAKERS[kind](**{name: value})
    other.update(3, 1, 10)
    before = monitor.to_json()
    with pytest.raises(
        ValueError, match=rf"text must be the state of a monitor with {name} = .*, got {value}"
    ):
        monitor.restore(other.to_json())
    assert monitor.to_json() == before


def test_a_state_of_the_other_monitor_is_refused():
    with pytest.raises(
        ValueError, match="text must be the state of a BettingMonitor, got one of a ReTiDPMonitor"
    ):
        MAKERS["betting"]().restore(MAKERS["retidp"]().to_json())


@both
def test_a_truncated_state_is_refused(make):
    saved, monitor = make(), make()
    for _ in range(3):
        saved.update([3, 1], [1, 0], 10)
        monitor.update(5, 1, 10)
    text, before = saved.to_json(), monitor.to_json()
    for length in range(0, len(text), 7):
        with pytest.raises(
            ValueError, match="text must be the saved state of a monitor, got one that is not"
        ):
            monitor.restore(text[:length])
    assert monitor.to_json() == before


WRONG = {
    "steps": [-1, 2.5, 101, None, "three", 1e400, 0],
    "shape": [None, [3], [-2], [[2]], "two", 2],
    "alarm": [[], [True], [[True, False]], None],
    "state": [None, {}, [], 3],
}


@both
@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_a_damaged_state_is_refused(make, key, value):
    saved, monitor = make(horizon=100), make(horizon=100)
    for _ in range(3):
        saved.update([3, 1], [1, 0], 10)
        monitor.update(5, 1, 10)
    before = monitor.to_json()
    with pytest.raises(
        ValueError, match="text must be the saved state of a monitor, got one that is damaged"
    ):
        monitor.restore(json.dumps({**json.loads(saved.to_json()), key: value}))
    assert monitor.to_json() == before
    monitor.restore(saved.to_json())
    assert monitor.to_json() == saved.to_json()


@both
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null", '"x"', "[1]"])
def test_a_state_with_a_number_that_is_none_is_refused(make, number):
    saved = make()
    saved.update(3, 1, 10)
    content = json.loads(saved.to_json())
    name = "sums" if "sums" in content["state"] else "capital"
    content["state"][name] = [["here"]] if name == "sums" else ["here"]
    text = json.dumps(content).replace('"here"', number)
    with pytest.raises(
        ValueError, match="text must be the saved state of a monitor, got one that is damaged"
    ):
        make().restore(text)


@both
@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", "{}", '{"monitor": 1, "parameters": 3}', "[" * 100_000]
)
def test_texts_that_are_no_state_are_refused(make, text):
    with pytest.raises(ValueError, match="text must be the saved state of a monitor"):
        make().restore(text)
