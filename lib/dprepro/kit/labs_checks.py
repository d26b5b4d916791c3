"""The second process of grading: the checks of a lab on the answers of a submission, as data.

It never imports or runs a student's code. What a check sees is the answers, the student's seed from the roster and
what it imports itself. The checks are otter-grader's (OK format), run by otter's own class.

``python -m dprepro.kit.labs_checks`` reads a job from standard input, {"answers": {...}, "seed": int,
"checks": {question: OK test}, "seconds": float}, and prints a JSON line for each question as it is done, so that
a check that never ends costs its question only.
"""

import copy
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from dprepro.base.paths import ROOT
from dprepro.kit.labs_answers import read_answers

# Of CPU time, for one question. More means an answer that makes a check work without end.
SECONDS = 10.0


@dataclass(frozen=True)
class Mark:
    """One question: points earned and possible, and a line for each visible check that failed.

    `hidden_failed` counts the hidden checks that failed; what they say stays with the instructor. `visible_failed`
    counts the others.
    """

    question: str
    score: float
    possible: float
    messages: tuple[str, ...] = ()
    hidden_failed: int = 0
    visible_failed: int = 0


def run_checks(
    answers: Mapping[str, Any], seed: int, checks: Mapping[str, Any], seconds: float = SECONDS
) -> list[Mark]:
    """Run a lab's checks in a process of their own.

    Parameters
    ----------
    answers : mapping
        Encoded values by name, as a submission left them; not trusted.
    seed : int
        The student's, from the roster.
    checks : mapping
        OK tests by question.
    seconds : float
        Of CPU time for one question, positive.

    Returns
    -------
    list of Mark
        In the order of `checks`. A question whose checks did not end, or for which the process died, has none of
        its points and says so.
    """
    marks: dict[str, Mark] = {}
    while left := {name: test for name, test in checks.items() if name not in marks}:
        job = {"answers": answers, "seed": seed, "checks": left, "seconds": seconds}
        marks |= _in_own_process(json.dumps(job), 60 + 10 * seconds * len(left))
        for name, test in left.items():
            if name not in marks:  # the process ended in this one; the others get another
                marks[name] = no_points(name, test, "its checks did not end on these answers")
                break
    return [marks[name] for name in checks]


def _in_own_process(job: str, seconds: float) -> dict[str, Mark]:
    command = [sys.executable, "-P", "-m", "dprepro.kit.labs_checks"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=job.encode(), env=environment, capture_output=True, timeout=seconds, check=False
        )
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        output, errors = error.stdout or b"", b""
    if not output and (b"ImportError" in errors or b"ModuleNotFoundError" in errors):
        raise RuntimeError(f"the checks could not start: {errors.decode()[-2000:]}")
    found = [json.loads(line) for line in output.decode().splitlines()]
    return {one["question"]: Mark(**{**one, "messages": tuple(one["messages"])}) for one in found}


def no_points(question: str, test: Mapping[str, Any], message: str = "") -> Mark:
    """Return the mark of a question whose checks did not run, with the points that it would have."""
    return Mark(question, 0.0, round(float(sum(test["points"])), 6), (message,) if message else ())


def main() -> None:
    """Read a job, print the marks."""
    # What a check prints must not mix with the marks.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read())
    _limit_memory()
    _otter_without_its_front()
    namespace: dict[str, Any] = {"student_seed": job["seed"]}
    notes = []
    for name, encoded in job["answers"].items():
        try:
            namespace |= read_answers(json.dumps({name: encoded}))
        except ValueError as error:
            notes.append(f"{name}: {error}")
    for question, test in job["checks"].items():
        own = [note for note in notes if note.startswith(f"{question}_")]
        found = run_question(question, test, namespace, job["seconds"], own)
        results.write(json.dumps(found.__dict__) + "\n")
        results.flush()


def _otter_without_its_front() -> None:
    """Let otter's class for OK tests be imported alone, without the exporters, notebooks and IPython around it."""
    for name in ("otter", "otter.test_files"):
        found = find_spec(name)
        if found is not None:
            sys.modules[name] = module_from_spec(found)  # which is not executed
    utils = ModuleType("otter.utils")
    utils.hide_outputs = nullcontext  # type: ignore[attr-defined]  # no display in this process
    sys.modules["otter.utils"] = utils


def run_question(
    question: str,
    test: dict[str, Any],
    namespace: dict[str, Any],
    seconds: float = SECONDS,
    notes: Sequence[str] = (),
) -> Mark:
    """Run the checks of one question in this process.

    Parameters
    ----------
    question : str
    test : dict
        An OK test.
    namespace : dict
        Answers and student_seed, left as it is.
    seconds : float
        Of CPU time; checks that go on longer earn nothing.
    notes : sequence of str
        With which the mark's messages begin.
    """
    from otter.test_files.ok_test import OKTestFile

    ok = OKTestFile.from_spec(test)
    _stop_after(seconds)
    try:
        ok.run(copy.deepcopy(namespace))
    except KeyboardInterrupt:
        return Mark(question, 0.0, ok.possible, (*notes, f"its checks did not end within {seconds:g} s"))
    finally:
        _stop_after(0)
    failed = [result for result in ok.test_case_results if not result.passed]
    visible = [result for result in failed if not result.test_case.hidden]
    messages = [_reason(result.test_case.failure_message or result.message or "") for result in visible]
    told = [result.test_case.failure_message for result in failed if result.test_case.hidden]
    return Mark(
        question,
        round(float(ok.score), 6),
        round(float(ok.possible), 6),
        (*notes, *messages, *(message for message in told if message)),
        len(failed) - len(visible),
        len(visible),
    )


def _stop_after(seconds: float) -> None:
    """Raise KeyboardInterrupt after so much CPU time; failing that (inside C), end the process. 0: not any more.

    CPU time, because a busy machine must not cost a student points.
    """
    if hasattr(signal, "setitimer"):  # on Windows the parent's limit must do
        signal.signal(signal.SIGVTALRM, _interrupt)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        signal.setitimer(signal.ITIMER_PROF, 2 * seconds)


def _interrupt(number: int, frame: Any) -> None:
    # The one exception that a doctest does not take for a failed line.
    raise KeyboardInterrupt


def _reason(message: str) -> str:
    """Return the last error of a doctest's report; of a failed assertion its message alone."""
    errors = re.findall(r"^\s*(\w*(?:Error|Exception|Exit)\b.*)$", message, re.MULTILINE)
    last = errors[-1].strip() if errors else message.strip().splitlines()[-1] if message.strip() else "failed"
    if match := re.match(r"NameError: name '(q\d+_\w+)' is not defined", last):
        return f"{match[1]} has no answer"
    return last.removeprefix("AssertionError: ")[:200]


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


if __name__ == "__main__":
    main()
