"""Answers of a submission as plain data: how they leave the student's kernel, and how they are read.

`SAVE` runs in the student's kernel, where the student's code may have changed anything; so what it writes is taken
for hostile. `read_answers` builds only numbers, strings, booleans, None, lists, tuples, dicts and NumPy arrays of
plain values, within limits of size and depth, and refuses all else. Nothing is unpickled or evaluated.

JSON has no tuple, array or NaN. They are objects of one key: {"tuple": [...]}, {"array": [kind, shape, values]},
{"float": "nan"}; a dict is {"dict": [[key, value], ...]}.
"""

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what runs a submission starts once for each, and has no use for NumPy
    from numpy.typing import NDArray

LARGEST = 1_000_000  # bytes, of all answers of a lab
LONGEST = 200_000  # values in one array
DEEPEST = 8
KINDS = {"b": (bool, "bool"), "i": (int, "int64"), "u": (int, "uint64"), "f": (float, "float64")}

SAVE = f"""
import json, math, re, sys
np = sys.modules.get("numpy")
def plain(v, depth={DEEPEST}):
    if np is not None and isinstance(v, np.generic):
        v = v.item()
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, int):
        if abs(v) >= 10**300:
            raise TypeError("a number too large")
        return int(v)
    if isinstance(v, float):
        return float(v) if math.isfinite(v) else {{"float": repr(float(v))}}
    if depth == 0:
        raise TypeError("nested too deeply")
    if np is not None and isinstance(v, np.ndarray):
        if v.dtype.kind not in "biufU" or v.size > {LONGEST}:
            raise TypeError(f"an array of {{v.size}} values of type {{v.dtype}}")
        return {{"array": [v.dtype.kind, list(v.shape), [plain(x) for x in v.ravel().tolist()]]}}
    if isinstance(v, list):
        return [plain(x, depth - 1) for x in v]
    if isinstance(v, tuple):
        return {{"tuple": [plain(x, depth - 1) for x in v]}}
    if isinstance(v, dict):
        return {{"dict": [[plain(k, 0), plain(x, depth - 1)] for k, x in v.items()]}}
    raise TypeError(f"of type {{type(v).__name__}}")
answers, refused, size = {{}}, {{}}, 0
for name in sorted(n for n in space if isinstance(n, str) and re.match(r"q\\d+_\\w+$", n))[:500]:
    if space[name] is ...:
        continue
    try:
        text = json.dumps(plain(space[name]), allow_nan=False)
        if size + len(text) > {LARGEST}:
            raise TypeError("too large")
        size += len(text)
        answers[name] = json.loads(text)
    except Exception as error:
        refused[name] = str(error)[:100]
with open(path, "w", encoding="utf-8") as stream:
    json.dump({{"answers": answers, "refused": refused}}, stream)
"""


def save_code(path: str) -> str:
    """Return the code that writes a kernel's answers to the file `path`, without leaving a name behind."""
    call = "__import__('builtins')"
    return f"{call}.exec({SAVE!r}, {{'space': {call}.globals(), 'path': {path!r}}})"


def read_answers(text: str | bytes) -> dict[str, Any]:
    """Return the answers by name.

    Parameters
    ----------
    text : str or bytes
        A JSON object of encoded values by name; from an untrusted source.

    Raises
    ------
    ValueError
        Anything else: too large, not JSON, an unknown form, nested too deeply.
    """
    if len(text) > 2 * LARGEST:
        raise ValueError(f"answers have {len(text)} bytes, more than {2 * LARGEST}")
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"answers are not plain JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("answers are not a JSON object")
    return {name: _value(encoded, DEEPEST) for name, encoded in found.items()}


def _no_constant(name: str) -> Any:
    raise ValueError(f"answers hold the bare constant {name}")


def _value(encoded: Any, depth: int) -> Any:
    if encoded is None or isinstance(encoded, bool | int | str):
        return encoded
    if isinstance(encoded, float):
        if not math.isfinite(encoded):  # 1e999 is JSON
            raise ValueError("answers hold a number that is too large")
        return encoded
    if depth == 0:
        raise ValueError("answers are nested too deeply")
    if isinstance(encoded, list):
        return [_value(inner, depth - 1) for inner in encoded]
    if not isinstance(encoded, dict) or len(encoded) != 1:
        raise ValueError("answers hold an object of unknown form")
    [(form, inner)] = encoded.items()
    if form == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if form in ("tuple", "dict", "array") and isinstance(inner, list):
        if form == "tuple":
            return tuple(_value(item, depth - 1) for item in inner)
        if form == "dict":
            return dict(_item(pair, depth) for pair in inner)
        return _array(inner)
    raise ValueError(f"answers hold an object of unknown form {form[:20]!r}")


def _item(pair: Any, depth: int) -> tuple[Any, Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("answers hold a dict of unknown form")
    key = _value(pair[0], 1)
    if not isinstance(key, bool | int | float | str | None):
        raise ValueError("answers hold a dict with a key that is not plain")
    return key, _value(pair[1], depth - 1)


def _array(parts: list[Any]) -> "NDArray[Any]":
    import numpy as np

    if len(parts) != 3 or not isinstance(parts[1], list) or not isinstance(parts[2], list):
        raise ValueError("answers hold an array of unknown form")
    kind, shape, values = parts
    if len(shape) > DEEPEST or any(type(n) is not int or not 0 <= n <= LONGEST for n in shape):
        raise ValueError("answers hold an array of unknown shape")
    if len(values) > LONGEST or math.prod(shape) != len(values):
        raise ValueError("answers hold an array whose shape does not fit its values")
    values = [_value(item, 1) for item in values]
    if kind == "U":
        # NumPy gives every string the room of the longest.
        if (
            not all(type(item) is str for item in values)
            or len(values) * max(map(len, values), default=0) > 4 * LARGEST
        ):
            raise ValueError("answers hold an array of strings that is too large, or not of strings")
        return np.array(values, dtype=np.str_).reshape(shape)
    if kind not in KINDS or not all(type(item) is KINDS[kind][0] for item in values):
        raise ValueError("answers hold an array of values that do not fit its type")
    try:
        return np.array(values, dtype=KINDS[kind][1]).reshape(shape)
    except OverflowError as error:
        raise ValueError("answers hold an array with a number that is too large") from error
