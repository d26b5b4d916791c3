"""The suite's steps: all of them run, whatever fails, and what fails is named."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from dprepro.base import paths
from dprepro.kit import suite


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Record the processes that would start; `answers` gives statuses by a word of the command."""
    found, answers = [], {}
    types = SimpleNamespace(returncode=0, communicate=lambda: ("no issues", None))

    def call(command, *, cwd, env):
        assert cwd == paths.ROOT
        # Processes that share the cores have a thread each; their memory is kept.
        assert (env["OMP_NUM_THREADS"], env["MALLOC_MMAP_MAX_"]) == ("1", "0")
        found.append(command[1:])
        return next((status for word, status in answers.items() if word in command), 0)

    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(suite.subprocess, "call", call)
    monkeypatch.setattr(
        suite.subprocess, "Popen", lambda command, **_: found.append(command[1:]) or nullcontext(types)
    )
    return SimpleNamespace(found=found, answers=answers, types=types)


def test_every_step_runs(started, capsys):
    assert suite.run() == 0
    assert "== mypy\nno issues" in capsys.readouterr().out
    mypy, check, formatted, tests, coverage, notebooks, rows = started.found
    assert mypy == ["-m", "mypy"]
    assert check[1:3] == ["ruff", "check"]
    assert formatted[1:4] == ["ruff", "format", "--check"]
    # Spread over processes by notebook: cells split between two kernels would fail.
    spread = ["--dist", "loadscope", "-n"]
    assert notebooks[2:] == ["notebooks", "--ignore=notebooks/labs", suite.SAVED, *suite.NBVAL, *spread, "3"]
    assert tests[tests.index("pytest") + 1] == "tests"
    assert tests[-4:] == [*spread, "4"]
    assert [part for part in tests if "ignore=" in part] == [
        "--ignore=tests/benchmarks",
        f"--ignore={suite.SAVED}",
    ]
    assert (paths.ROOT / suite.SAVED).exists()
    assert (paths.ROOT / rows[-1]).exists()
    # The coverage of all that the tests walked through fails below 90 %.
    assert tests[tests.index("--out") + 1] == coverage[coverage.index("--merge") + 1]
    assert coverage[coverage.index("--fail-under") + 1] == "90"


def test_coverage_of_an_earlier_run_is_not_taken_for_this_one(started, tmp_path):
    stale = tmp_path / "build" / "coverage.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    suite.run()
    assert not stale.exists()


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("check", "ruff check"),
        ("format", "ruff format"),
        ("tests", "tests"),
        ("--merge", "their coverage"),
        ("slipcover", "tests, their coverage"),
        ("notebooks", "notebooks and saved results"),
        ("tests/notebooks/after_nbval.py", "their rows"),
    ],
)
def test_a_step_that_fails_is_named_and_the_others_run(started, capsys, word, named):
    started.answers[word] = 1
    assert suite.run() == 1
    assert len(started.found) == 7
    assert capsys.readouterr().err.strip() == f"FAILED: {named}"


def test_types_that_fail_are_shown(started, capsys):
    started.types.returncode = 1
    started.types.communicate = lambda: ("lib/x.py:1: error", None)
    assert suite.run() == 1
    printed = capsys.readouterr()
    assert "FAILED: mypy" in printed.err
    assert "lib/x.py:1: error" in printed.out
