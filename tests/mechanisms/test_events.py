"""Events: which outputs belong, how they read, and what is refused."""

import numpy as np
import pytest

from dprepro.mechanisms.events import Exactly, Interval, OneOf

INF, NAN = np.inf, np.nan


def test_interval_is_open_below_and_closed_above():
    outputs = [-INF, -1.0, -1 + 1e-12, 0.0, 1e-12, INF, NAN]
    assert Interval(-1, 0)(outputs).tolist() == [False, False, True, True, False, False, False]
    assert Interval(high=0)(outputs).tolist() == [False, True, True, True, False, False, False]
    assert Interval()(outputs).tolist() == [False, True, True, True, True, True, False]


def test_one_of():
    assert OneOf([3, 1])(np.array([1, 2, 3, 3])).tolist() == [True, False, True, True]


BOOLEAN = np.array(
    [[0, 0, 1, -1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, -1, -1], [1, 0, 1, -1], [0, 0, -1, -1]], dtype=np.int8
)
VALUED = np.where(BOOLEAN == 1, 7.5, np.where(BOOLEAN == 0, -INF, NAN))


@pytest.mark.parametrize("rows", [BOOLEAN, np.asfortranarray(BOOLEAN), VALUED], ids=["C", "F", "floats"])
@pytest.mark.parametrize(
    ("pattern", "members"),
    [
        ((0, 0, 1), [0]),
        ((0, 0, 1, 0), [1]),
        ((0, 0, 0, 1), [2]),
        ((0, 1), [3]),
        ((1, 0, 1), [4]),
        ((0, 0), [5]),
    ],
)
def test_exactly_asks_that_the_list_ends(rows, pattern, members):
    assert np.flatnonzero(Exactly(pattern)(rows)).tolist() == members


def test_exactly_with_the_interval_of_a_noisy_answer():
    assert np.flatnonzero(Exactly((0, 0, Interval(7, 7.5)))(VALUED)).tolist() == [0]
    assert not Exactly((0, 0, Interval(7.5, 8)))(VALUED).any()
    # "below" lies in no interval, and nothing does after the end
    assert not Exactly((0, Interval(high=8), 1))(VALUED).any()
    assert not Exactly((0, 1, Interval()))(VALUED).any()
    with pytest.raises(ValueError, match=r"\{\(0, \(7, 8\]\)\} needs noisy answers as outputs, got int8"):
        Exactly((0, Interval(7, 8)))(BOOLEAN)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Interval(high=0), "(-inf, 0]"),
        (Interval(low=-1.25), "(-1.25, inf)"),
        (OneOf(np.array([3])), "{3}"),
        (OneOf((1, 2.5)), "{1, 2.5}"),
        (Exactly(np.array([0, 1], dtype=np.int8)), "{(0, 1)}"),
        (Exactly([0, Interval(1, 2)]), "{(0, (1, 2])}"),
    ],
)
def test_text(event, text):
    assert str(event) == text


def test_equal_events_are_one_key():
    assert len({Exactly([0, 1]), Exactly((False, np.int8(1))), OneOf([1]), OneOf(np.array([1.0]))}) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Interval(1, 1), "low must be below high, got 1 and 1"),
        (lambda: Interval(2, 1), "low must be below high"),
        (lambda: Interval(NAN, 1), "low must be below high"),
        (lambda: OneOf([]), "values must be a one-dimensional array of at least 1"),
        (lambda: OneOf(3), "values must be a one-dimensional array"),
        (lambda: OneOf([NAN]), "values must be free of NaN"),
        (lambda: Exactly([]), "pattern must have at least one entry"),
        (lambda: Exactly([0, 2]), "pattern must hold 0, 1 or Interval, got 2"),
        (lambda: Exactly([-1]), "pattern must hold 0, 1 or Interval, got -1"),
        (lambda: Exactly([[0, 1]]), r"pattern must hold 0, 1 or Interval, got \[0, 1\]"),
        (lambda: Interval()([[1.0]]), r"\(-inf, inf\) needs outputs of shape \(n,\), got \(1, 1\)"),
        (lambda: OneOf([1])(1.0), r"\{1\} needs outputs of shape \(n,\)"),
        (lambda: Exactly([0])([1.0]), r"needs outputs of shape \(n, 1 or more\), got \(1,\)"),
        (lambda: Exactly([0] * 5)(BOOLEAN), r"needs outputs of shape \(n, 5 or more\), got \(6, 4\)"),
    ],
)
def test_bad_events(make, message):
    with pytest.raises(ValueError, match=message):
        make()
