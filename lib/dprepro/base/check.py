"""Argument checks of every room: one ValueError that names the argument, its domain and the value got.

The checks return what they checked as a NumPy array, so that a function opens with one line an argument and
computes on arrays from there.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BRACKETS = {"both": ("[", "]"), "left": ("[", ")"), "right": ("(", "]"), "neither": ("(", ")")}


def in_interval(
    name: str, value: ArrayLike, low: float, high: float, *, closed: str = "both"
) -> NDArray[np.float64]:
    """Return `value` as float64 if all of it lies in the interval from `low` to `high`.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : array_like, any shape
    low, high : float
        Ends of the interval; either may be infinite.
    closed : {"both", "left", "right", "neither"}
        Which ends belong to the interval.

    Raises
    ------
    ValueError
        If an entry lies outside or is NaN, or if `value` cannot be read as numbers (NumPy reads "0.5" as one).
    """
    array = _floats(name, value)
    left, right = _BRACKETS[closed]
    # Written with "not inside", so that NaN, which compares false with everything, is refused.
    inside = (array >= low if left == "[" else array > low) & (
        array <= high if right == "]" else array < high
    )
    if not inside.all():
        first = array[~inside].flat[0]
        raise ValueError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {first:g}")
    return array


def positive_count(name: str, value: ArrayLike, minimum: int = 1) -> NDArray[np.int64]:
    """Return `value` as int64 if all of it are whole numbers of at least `minimum`.

    Floats that hold a whole number (``2e3``) pass. Nothing is ever truncated: 37.3 is refused.

    Raises
    ------
    ValueError
        If an entry is not a whole number, is below `minimum`, or is NaN or infinite.
    """
    array = _floats(name, value)
    whole = (array >= minimum) & (array == np.floor(array)) & (array < 2.0**53)
    if not whole.all():
        first = array[~whole].flat[0]
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {first:g}")
    return array.astype(np.int64)


def at_most(name: str, value: NDArray[np.int64], bound_name: str, bound: NDArray[np.int64]) -> None:
    """Refuse `value` where it exceeds `bound`, both checked numbers that broadcast.

    Raises
    ------
    ValueError
        Names both and says the first pair.
    """
    excess = np.asarray(value > bound)
    if excess.any():
        first, limit = (np.broadcast_to(side, excess.shape)[excess].flat[0] for side in (value, bound))
        raise ValueError(f"{name} must be at most {bound_name}, got {first} of {limit}")


def finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as float64 if none of them is NaN or infinite.

    Raises
    ------
    ValueError
        Says how many entries are not finite and where the first one stands.
    """
    array = _floats(name, values)
    _refuse(name, "finite", array, ~np.isfinite(array))
    return array


def sample(name: str, values: ArrayLike, minimum: int = 1) -> NDArray[np.float64]:
    """Return `values` as a one-dimensional float64 array of at least `minimum` entries without NaN.

    Infinite entries pass: scores need an order only, and a log-likelihood ratio may be infinite.

    Raises
    ------
    ValueError
        If the array has another dimension, is too short, or holds NaN.
    """
    array = _floats(name, values)
    if array.ndim != 1 or array.size < minimum:
        raise ValueError(
            f"{name} must be a one-dimensional array of at least {minimum} values, got shape {array.shape}"
        )
    # min() passes NaN on: one pass without a temporary array settles the usual case.
    if np.isnan(array.min()):
        _refuse(name, "free of NaN", array, np.isnan(array))
    return array


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of `allowed`.

    Raises
    ------
    ValueError
        Lists what is allowed.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def json_value(name: str, value: Any) -> None:
    """Refuse what a JSON file or a TOML table of parameters cannot carry from one process to another.

    Raises
    ------
    ValueError
        For NaN and infinity, which JSON lacks, and for a date, a table or any other object.
    """
    if isinstance(value, list):
        for entry in value:
            json_value(name, entry)
    elif not (
        value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    ):
        raise ValueError(
            f"{name} must be a finite number, a text, true, false or a list of these, got {value!r}"
        )


def _floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}") from None


def _refuse(name: str, demand: str, array: NDArray[np.float64], bad: NDArray[np.bool_]) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name} must be {demand}, got {int(bad.sum())} of {array.size} entries that are not, "
            f"the first at index {first}: {array.flat[first]}"
        )
