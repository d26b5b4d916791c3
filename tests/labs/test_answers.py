"""Answers as data: what survives the way out of a kernel, and what a hostile file cannot do."""

import json
import math
import time

import numpy as np
import pytest

from dprepro.kit.labs_answers import LARGEST, LONGEST, read_answers, save_code
from dprepro.kit.labs_checks import Mark, run_checks


def saved(tmp_path, **names):
    """Run the saving code in a namespace, as the kernel would."""
    space = dict(names)
    exec(save_code(str(tmp_path / "out.json")), space)
    assert set(space) - {"__builtins__"} == set(names)
    return json.loads((tmp_path / "out.json").read_text())


def there_and_back(tmp_path, value):
    found = saved(tmp_path, q1_x=value)
    assert found["refused"] == {}
    return read_answers(json.dumps(found["answers"]))["q1_x"]


@pytest.mark.parametrize(
    "value",
    [1, -(10**30), 0.1, 1e-300, True, False, None, "text \u03b5 \x00", [], [1, [2.5, "a"]], (1, (2,)), {},
     {"a": 1, 2: [None], 0.5: {"b": ()}, True: 3}],
    ids=str,
)  # fmt: skip
def test_plain_values_come_back_the_same(tmp_path, value):
    found = there_and_back(tmp_path, value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value",
    [np.arange(6).reshape(2, 3), np.array([0.1, -1e300]), np.array([True, False]), np.array(["a", "bcd"]),
     np.array(2.5), np.zeros((0, 3)), np.arange(3, dtype=np.uint8), np.float32([0.1])],
    ids=lambda a: f"{a.dtype}{a.shape}",
)  # fmt: skip
def test_arrays_come_back(tmp_path, value):
    found = there_and_back(tmp_path, value)
    assert isinstance(found, np.ndarray)
    assert found.shape == value.shape
    assert found.dtype.kind == value.dtype.kind
    np.testing.assert_array_equal(found, value)


def test_numbers_of_numpy_and_those_that_json_lacks(tmp_path):
    assert type(there_and_back(tmp_path, np.int64(3))) is int
    assert type(there_and_back(tmp_path, np.float64(0.5))) is float
    assert type(there_and_back(tmp_path, np.bool_(True))) is bool
    assert math.isnan(there_and_back(tmp_path, math.nan))
    assert there_and_back(tmp_path, -math.inf) == -math.inf
    np.testing.assert_array_equal(
        there_and_back(tmp_path, np.array([1, np.nan, np.inf])), [1, np.nan, np.inf]
    )


def test_what_is_saved_and_what_is_refused(tmp_path):
    loop = []
    loop.append(loop)

    class Trick:
        def __reduce__(self):
            return (print, ("run",))

    class Number(float):
        def __repr__(self):
            raise RuntimeError

    found = saved(
        tmp_path,
        q1_right=1, q12_x=2, q1=3, x_q1_y=4, q_x=5, q2_blank=...,
        q3_loop=loop, q3_set={1}, q3_object=np.array([None]), q3_trick=Trick(), q3_function=print,
        q3_large="x" * (LARGEST + 1), q3_long=np.zeros(LONGEST + 1), q3_huge=10**300,
        q3_complex=1j, q3_keys={(1, 2): 3},
        q4_number=Number(2.5), q4_after=7,
    )  # fmt: skip
    assert found["answers"] == {"q1_right": 1, "q12_x": 2, "q4_number": 2.5, "q4_after": 7}
    refused = {"loop", "set", "object", "trick", "function", "large", "long", "huge", "complex", "keys"}
    assert set(found["refused"]) == {f"q3_{name}" for name in refused}
    assert found["refused"]["q3_function"] == "of type builtin_function_or_method"


HOSTILE = {
    "not json": "q1_x = 1",
    "a list": "[1]",
    "a bare NaN": '{"q1_x": NaN}',
    "infinite": '{"q1_x": 1e999}',
    "unknown object": '{"q1_x": {"pickle": "gASV"}}',
    "two keys": '{"q1_x": {"tuple": [], "dict": []}}',
    "not a list": '{"q1_x": {"tuple": {"tuple": 3}}}',
    "a float of code": '{"q1_x": {"float": "__import__(\'os\')"}}',
    "unhashable key": '{"q1_x": {"dict": [[[], 1]]}}',
    "odd pair": '{"q1_x": {"dict": [[1]]}}',
    "deep": '{"q1_x": ' + "[" * 20 + "]" * 20 + "}",
    "very deep": '{"q1_x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep tuples": '{"q1_x": ' + '{"tuple": [' * 5000 + "]}" * 5000 + "}",
    "many digits": '{"q1_x": ' + "9" * 10_000 + "}",
    "an object array": '{"q1_x": {"array": ["O", [1], [null]]}}',
    "a large shape": '{"q1_x": {"array": ["f", [1000000000], []]}}',
    "a negative shape": '{"q1_x": {"array": ["f", [-1, -1], [1.0]]}}',
    "a shape of booleans": '{"q1_x": {"array": ["f", [true], [1.0]]}}',
    "many axes": '{"q1_x": {"array": ["f", [1,1,1,1,1,1,1,1,1], [1.0]]}}',
    "mixed": '{"q1_x": {"array": ["f", [2], [1.0, "a"]]}}',
    "overflow": '{"q1_x": {"array": ["i", [1], [99999999999999999999]]}}',
    "a wide string": json.dumps({"q1_x": {"array": ["U", [101], ["x" * 10**5] + [""] * 100]}}),
    "large": json.dumps({"q1_x": "x" * (2 * LARGEST)}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    with pytest.raises(ValueError, match=r"answers|limit"):
        read_answers(HOSTILE[name])


def check(code, hidden=False):
    return {"code": f">>> {code}\n", "hidden": hidden, "locked": False}


def ok(name, points, *cases):
    suite = {"cases": list(cases), "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    return {"name": name, "points": points, "suites": [suite]}


def test_checks_in_their_own_process(tmp_path):
    """Points for each check; answers that are hostile, slow or fatal cost their own question."""
    checks = {
        "q1": ok("q1", [1, 2], check("assert q1_x > 0, 'is positive'"), check("assert q1_x == student_seed", True)),
        "q2": ok("q2", [1, 1], check("while q2_n: pass"), check("assert True", True)),
        "q3": ok("q3", [1], check("q3_x.append(1)")),
        "q4": ok("q4", [1], check("assert q4_x == [], 'was changed'"), ),
        "q5": ok("q5", [1, 1], check("print(q1_x)"), check("assert q5_x", True)),
        "q6": ok("q6", [1], check("import os; os._exit(1)")),
        "q7": ok("q7", [1], check("assert sum(range(q2_n)) >= 0")),
        "q8": ok("q8", [1], check("assert True")),
    }  # fmt: skip
    answers = {"q1_x": 7, "q2_n": 10**12, "q3_x": [], "q4_x": [], "q5_x": {"pickle": "x"}}
    start = time.monotonic()
    marks = {mark.question: mark for mark in run_checks(answers, 8, checks, seconds=0.5)}
    assert time.monotonic() - start < 60
    assert marks["q1"] == Mark("q1", 1.0, 3.0, (), hidden_failed=1)
    assert marks["q2"] == Mark("q2", 0.0, 2.0, ("its checks did not end within 0.5 s",))
    assert marks["q3"].score == 1
    assert marks["q4"].score == 1
    assert marks["q5"].score == 0
    assert marks["q5"].messages[0] == "q5_x: answers hold an object of unknown form 'pickle'"
    for fatal in ("q6", "q7"):
        assert marks[fatal] == Mark(fatal, 0.0, 1.0, ("its checks did not end on these answers",))
    assert marks["q8"].score == 1


def test_messages_of_visible_checks():
    checks = {
        "q1": ok("q1", [1, 0, 0], check("assert q1_x > 9, 'too small'"), check("q1_y"), check("q1_x.shape"))
    }
    (mark,) = run_checks({"q1_x": 7}, 1, checks)
    assert mark.messages == (
        "too small",
        "q1_y has no answer",
        "AttributeError: 'int' object has no attribute 'shape'",
    )
    assert (mark.visible_failed, mark.hidden_failed) == (3, 0)
