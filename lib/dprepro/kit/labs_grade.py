"""Grades a folder of submissions into one CSV and a text of feedback for each student.

Each notebook runs in a sandbox (`labs_sandbox`); the checks then see its answers, as data, in a second process
(`labs_checks`), with the seed that the roster gives the student, not the one in the notebook. A submission that
breaks costs one line. What has not changed since the last call is not run again.
"""

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.paths import ROOT, build_dir
from dprepro.base.store import sha256_json, sha256_tree, write_atomic
from dprepro.kit import labs_sandbox
from dprepro.kit.labs_checks import Mark, no_points, run_checks
from dprepro.kit.labs_masters import Lab, labs_dir, load_labs
from dprepro.kit.labs_report import Grade, line, write
from dprepro.kit.labs_sandbox import Limits
from dprepro.kit.labs_students import known_students, read_roster, read_secret, release_mark, student_seed
from dprepro.kit.labs_submissions import Submission, find

CELL_SECONDS = 60.0
# Before the sandbox ends a run, the notebook is stopped in good order; what is left is for saving.
NOTEBOOK_SHARE = 0.8


def grade(
    submissions: Path,
    *,
    trusted: bool = False,
    jobs: int = 1,
    roster: Path | None = None,
    secret: Path | None = None,
    limits: Limits | None = None,
    cell_seconds: float = CELL_SECONDS,
) -> list[Grade]:
    """Grade a folder; write build/labs/grades.csv and build/labs/feedback/<student>.txt as it goes.

    Parameters
    ----------
    submissions : path
        A folder for each student, in it their notebooks.
    trusted : bool
        Run without isolation where this system has none. Otherwise that is refused.
    jobs : int
        Submissions at a time, at least 1.
    roster : path, optional
        CSV with a column `student`; by default all students of the releases so far.
    secret : path, optional
        By default build/labs/secret.
    limits : Limits, optional
        Of each submission.
    cell_seconds : float
        After which a cell is interrupted; the cells after it still run.

    Returns
    -------
    list of Grade
        In the order of the CSV.

    Raises
    ------
    ValueError
        Before anything runs: no isolation, no labs, no roster, no secret, an empty folder.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    labs, key = load_labs(), read_secret(secret)
    students = read_roster(roster) if roster else known_students()
    if not labs or not students:
        raise ValueError("no labs to grade by" if not labs else "no student is known: release the labs first")
    way = _way(trusted, submissions)
    found = find(submissions, labs, students)
    grader = Grader(way, limits or Limits(), cell_seconds, key, labs)
    print(
        f"{len(found)} to grade, isolated by {way}"
        if way != "none"
        else f"{len(found)} to grade, NOT ISOLATED"
    )
    done: dict[int, Grade] = {}
    stop = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(grader.grade, one, stop): number for number, one in enumerate(found)}
        try:
            for count, future in enumerate(as_completed(waiting), start=1):
                done[waiting[future]] = _result(future, found[waiting[future]])
                write([done[number] for number in sorted(done)], labs)
                print(f"[{count}/{len(found)}] {line(done[waiting[future]])}", flush=True)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [done[number] for number in sorted(done)]


def _way(trusted: bool, submissions: Path) -> str:
    way = labs_sandbox.way_to_isolate()
    if way == "none":
        if not trusted:
            raise ValueError(
                "cannot isolate the submissions here: neither bubblewrap nor unshare works. On Linux install "
                "bubblewrap; or say --trusted to run them as ordinary programs, which may read and write your "
                "files and use the network"
            )
        return way
    labs_sandbox.check_hidden([submissions, build_dir(), paths.NOTEBOOKS])
    return way


def _result(future: "Future[Grade]", submission: Submission) -> Grade:
    try:
        return future.result()
    except Exception as error:  # one submission must not end the batch
        return Grade(submission.student, submission.lab, (), f"the grader failed on it: {error!r}"[:300])


@dataclass(frozen=True)
class Grader:
    """All that grading one submission needs."""

    way: str
    limits: Limits
    cell_seconds: float
    key: bytes
    labs: dict[str, Lab]

    def grade(self, submission: Submission, stop: threading.Event) -> Grade:
        """Return the grade of a submission: the kept one if nothing has changed since.

        Raises
        ------
        KeyboardInterrupt
            `stop` is set before it has begun.
        """
        if submission.problem:
            tests = self.labs[submission.lab].checks if submission.lab else {}
            marks = tuple(no_points(question, test) for question, test in tests.items())
            return Grade(submission.student, submission.lab, marks, submission.problem)
        seed = student_seed(submission.student, self.key)
        checks = self.labs[submission.lab].checks
        settings = [self.way, asdict(self.limits), self.cell_seconds, _library()]
        now = sha256_json([submission.cells, submission.remarks, submission.release, seed, checks, settings])
        kept = labs_dir() / "graded" / submission.student / f"{submission.lab}.json"
        if earlier := _kept(kept, now):
            return earlier
        if stop.is_set():
            raise KeyboardInterrupt
        grade = self._fresh(submission, seed, checks, stop)
        if not stop.is_set():
            write_atomic(kept, json.dumps({"key": now, "grade": asdict(grade)}))
        return grade

    def _fresh(
        self, submission: Submission, seed: int, checks: dict[str, Any], stop: threading.Event
    ) -> Grade:
        start = time.monotonic()
        seconds = self.limits.wall * NOTEBOOK_SHARE
        job = {
            "cells": submission.cells,
            "cell_seconds": self.cell_seconds,
            "seconds": seconds,
            "fonts": _fonts(),
        }
        ended = labs_sandbox.run(
            ["-m", "dprepro.kit.labs_run"],
            json.dumps(job).encode(),
            way=self.way,
            limits=self.limits,
            stop=stop,
        )
        answers, refused, told = read_printed(ended.output)
        remarks = [*submission.remarks, *_seed_remarks(submission, seed, self.key), *told]
        if ended.why:
            remarks.append(f"killed: {ended.why}")
        elif not told and ended.status != 0:
            remarks.append(f"its run ended with status {ended.status}: {ended.errors.strip()[-150:]}")
        if answers:
            marks = run_checks(answers, seed, checks)
        else:
            marks = [no_points(question, test, "no answers") for question, test in checks.items()]
        marks = [_with_refused(mark, refused) for mark in marks]
        remark = "; ".join(" ".join(text.split()) for text in remarks)
        return Grade(
            submission.student, submission.lab, tuple(marks), remark, round(time.monotonic() - start, 1)
        )


def _with_refused(mark: Mark, refused: dict[str, str]) -> Mark:
    own = [
        f"{name} is not taken: {why}" for name, why in refused.items() if name.startswith(f"{mark.question}_")
    ]
    return replace(mark, messages=(*own, *mark.messages)) if mark.score < mark.possible else mark


@cache
def _library() -> str:
    return sha256_tree([ROOT / "lib" / "dprepro"])


@cache
def _fonts() -> dict[str, str]:
    import matplotlib as mpl
    from matplotlib import font_manager  # noqa: F401  writes the list if there is none

    return {path.name: path.read_text() for path in Path(mpl.get_cachedir()).glob("fontlist-*.json")}


def _kept(path: Path, key: str) -> Grade | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if found["key"] != key:
        return None
    marks = tuple(Mark(**{**mark, "messages": tuple(mark["messages"])}) for mark in found["grade"]["marks"])
    return Grade(**{**found["grade"], "marks": marks, "kept": True})


def read_printed(output: bytes) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return answers, refused answers and remarks from what the sandbox printed, which a student may have forged."""
    answers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    told: list[str] = []
    for printed in output.splitlines():
        try:
            found = json.loads(printed)
            if "answers" in found:
                inner = json.loads(found["answers"])
                answers, refused = (
                    dict(inner["answers"]),
                    {str(k)[:60]: str(v)[:100] for k, v in inner["refused"].items()},
                )
            elif found.get("errors"):
                more = int(found["errors"]) - 1
                told = [f"{str(found['problems'][0])[:200]}{f' (and {more} more)' if more else ''}"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IndexError):
            continue
    return answers, refused, told


def _seed_remarks(submission: Submission, seed: int, key: bytes) -> list[str]:
    if submission.release not in ("", release_mark(key)):
        return ["it was released under another secret, so its seed is not the grader's"]
    if submission.seed not in (None, seed):
        return ["its student_seed is not this student's, so its numbers are another's"]
    return []
