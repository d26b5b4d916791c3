import math
from datetime import date

import numpy as np
import pytest

from dprepro.base import check


@pytest.mark.parametrize(
    ("closed", "inside", "outside"),
    [
        ("both", [0.0, 0.5, 1.0], [-1e-9, 1.0000001]),
        ("left", [0.0, 0.5], [-1e-9, 1.0]),
        ("right", [0.5, 1.0], [0.0, 1.5]),
        ("neither", [1e-300, 0.5], [0.0, 1.0]),
    ],
)
def test_in_interval_ends(closed, inside, outside):
    np.testing.assert_array_equal(check.in_interval("x", inside, 0, 1, closed=closed), inside)
    for value in [*outside, np.nan]:
        with pytest.raises(ValueError, match="x must be in"):
            check.in_interval("x", [0.5, value], 0, 1, closed=closed)


def test_in_interval_message_names_argument_domain_and_value():
    with pytest.raises(ValueError) as caught:
        check.in_interval("alpha", 1.5, 0, 1, closed="neither")
    assert str(caught.value) == "alpha must be in (0, 1), got 1.5"
    with pytest.raises(ValueError, match=r"epsilon must be in \[0, inf\), got -1"):
        check.in_interval("epsilon", -1, 0, np.inf, closed="left")


def test_in_interval_keeps_shape_and_takes_infinity_where_the_end_is_closed():
    assert check.in_interval("x", [[1, 2]], 0, 3).shape == (1, 2)
    assert check.in_interval("x", 2, 0, 3).shape == ()
    assert check.in_interval("mu", np.inf, 0, np.inf) == np.inf
    with pytest.raises(ValueError):
        check.in_interval("mu", np.inf, 0, np.inf, closed="left")


def test_in_interval_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="delta must be a number or an array of numbers, got 'small'"):
        check.in_interval("delta", "small", 0, 1)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got nan"):
        check.in_interval("delta", None, 0, 1)


def test_positive_count():
    counts = check.positive_count("n", [1, 2e3])
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(counts, [1, 2000])
    assert check.positive_count("k", 0, minimum=0) == 0
    for bad in (0, -3, 37.3, np.nan, np.inf):
        with pytest.raises(ValueError, match="n must be a whole number of at least 1, got"):
            check.positive_count("n", [5, bad])


def test_at_most():
    check.at_most("k", np.array([1, 5]), "n", np.array(5))
    with pytest.raises(ValueError, match="k must be at most n, got 4 of 3"):
        check.at_most("k", np.array([[1], [4]]), "n", np.array([9, 3]))


def test_finite_says_how_many_and_where():
    np.testing.assert_array_equal(check.finite("v", [[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    with pytest.raises(ValueError) as caught:
        check.finite("scores", [1.0, np.nan, np.inf, 2.0])
    assert (
        str(caught.value)
        == "scores must be finite, got 2 of 4 entries that are not, the first at index 1: nan"
    )


def test_sample():
    np.testing.assert_array_equal(check.sample("s", [1, -np.inf]), [1, -np.inf])
    with pytest.raises(
        ValueError, match="s must be free of NaN, got 1 of 3 entries that are not, the first at index 2"
    ):
        check.sample("s", [1, 2, np.nan])
    for bad in ([], 3.0, [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="s must be a one-dimensional array of at least 1 values"):
            check.sample("s", bad)
    with pytest.raises(ValueError, match="at least 2 values"):
        check.sample("s", [1.0], minimum=2)


def test_one_of():
    assert check.one_of("conversion", "gdp", ["standard", "gdp"]) == "gdp"
    with pytest.raises(ValueError, match="conversion must be one of 'standard', 'gdp', got 'rdp'"):
        check.one_of("conversion", "rdp", ["standard", "gdp"])
    with pytest.raises(ValueError, match="conversion must be one of"):
        check.one_of("conversion", np.array(["gdp"]), ["standard", "gdp"])


@pytest.mark.parametrize("value", [1, 1e-5, "text", True, None, [], [1, ["a", 2.5]]])
def test_json_values(value):
    check.json_value("x", value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [1, [-math.inf]], {}, {"a": 1}, date(1979, 5, 27), object()]
)
def test_what_is_no_json_value(value):
    with pytest.raises(
        ValueError, match=r"^x must be a finite number, a text, true, false or a list of these, got"
    ):
        check.json_value("x", value)
