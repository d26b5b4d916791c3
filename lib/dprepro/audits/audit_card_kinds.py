"""What the value of a key in a claim file may be: texts, true or false, numbers in a domain, names from a list.

TOML has types, and a claim is typed by hand: 1e-5 in quotes, true for 1, PLD for pld. A wrong type is refused with
what was expected and what was got; capitals, spaces and underscores in a name are not held against anybody.
"""

import datetime
import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dprepro.base.check import in_interval, positive_count

_LARGEST_COUNT = 10**12


@dataclass(frozen=True)
class Kind:
    """One domain of values.

    Attributes
    ----------
    expected : str
        Completes the sentence "the key must be".
    accept : callable
        Returns the value as it is used; raises ValueError, with a hint for the user or without text.
    """

    expected: str
    accept: Callable[[Any], Any]

    def read(self, name: str, value: Any) -> Any:
        """Return the value as it is used.

        Raises
        ------
        ValueError
            Names the key, what was expected, what was got and, where one can be given, a hint.
        """
        try:
            return self.accept(value)
        except ValueError as error:
            hint = f" ({error})" if str(error) else ""
            raise ValueError(f"{name} must be {self.expected}, got {described(value)}{hint}") from None


def described(value: Any) -> str:
    """Return a value of a TOML file in words that say its type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value!r:.60}"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"the list {value!r:.60}"
    if isinstance(value, datetime.date | datetime.time):
        return f"the date or time {value}"
    return f"{value!r:.40}"


def number(low: float, high: float, closed: str) -> Kind:
    """Return the kind of finite numbers from `low` to `high`; `closed` as in `base.check.in_interval`."""
    left = "[" if closed in ("both", "left") else "("
    right = "]" if closed in ("both", "right") else ")"

    def accept(value: Any) -> float:
        _refuse_other_types(value)
        try:
            real = float(value)
        except OverflowError:
            raise ValueError("it is too large") from None
        if math.isinf(real):
            raise ValueError("an infinite value promises nothing")
        in_interval("value", real, low, high, closed=closed)
        return real

    return Kind(f"a finite number in {left}{low:g}, {high:g}{right}", _without_text(accept))


def count(minimum: int, maximum: int = _LARGEST_COUNT) -> Kind:
    """Return the kind of whole numbers from `minimum` to `maximum`."""

    def accept(value: Any) -> int:
        _refuse_other_types(value)
        if not minimum <= value <= maximum:
            raise ValueError
        return int(positive_count("value", value, minimum))

    return Kind(f"a whole number from {minimum} to {maximum:,}", _without_text(accept))


def choice(*options: str) -> Kind:
    """Return the kind of one name of several."""
    return Kind("one of " + ", ".join(map(repr, options)), lambda value: _option(value, options))


def choices(*options: str) -> Kind:
    """Return the kind of one or more names of several; a single name needs no brackets, "none" stands alone."""

    def accept(value: Any) -> list[str]:
        names = [_option(entry, options) for entry in (value if isinstance(value, list) else [value])]
        if not names:
            raise ValueError('for none write "none"')
        if "none" in names and len(names) > 1:
            raise ValueError('"none" stands alone')
        return list(dict.fromkeys(names))

    return Kind("a list of some of " + ", ".join(map(repr, options)), accept)


def _option(value: Any, options: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise ValueError
    name = value.strip().lower().replace(" ", "-").replace("_", "-")
    if name not in options:
        close = difflib.get_close_matches(name, options, n=1)
        raise ValueError(f"did you mean {close[0]!r}?" if close else "")
    return name


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return " ".join(value.split())


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("write true or false, without quotes" if isinstance(value, str) else "")
    return value


def _refuse_other_types(value: Any) -> None:
    if isinstance(value, str):
        raise ValueError("write it without quotes")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError


def _without_text(accept: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Drop the text of the array checks, which name no key; hints of this module stay."""

    def wrapped(value: Any) -> Any:
        try:
            return accept(value)
        except ValueError as error:
            raise ValueError("" if str(error).startswith("value must") else str(error)) from None

    return wrapped


TEXT = Kind("a text", _text)
FLAG = Kind("true or false", _flag)
