"""The batch as a whole: what is refused, what is skipped, how each failure ends, and what an interrupt leaves."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from dprepro.base import paths
from dprepro.base.cluster import local_client
from dprepro.kit import batch, plan

WRITE_ROWS = """from dprepro.base.paths import output_dir
from dprepro.base.store import write_atomic
import numpy as np
rows = np.random.default_rng(seed).normal(size=3)
write_atomic(output_dir() / "rows.csv", "value\\n" + "\\n".join(map(str, rows)) + "\\n")"""


# --- what is refused before anything runs -----------------------------------------------------------------------


def test_discover_leaves_out_labs_index_and_checkpoints(house: Any) -> None:
    for name in ("toy/b", "toy/a", "labs/lab", "toy/index", "toy/.ipynb_checkpoints/a-checkpoint", "index"):
        house.notebook(name)
    assert [notebook.name for notebook in batch.discover()] == ["toy/a", "toy/b"]
    assert batch.discover()[0].path == house.root / "notebooks" / "toy" / "a.ipynb"


@pytest.mark.parametrize(
    ("profiles", "problem"),
    [
        ('[smoke."toy/one"]\ntypo = 1', r"profile smoke, notebook toy/one: unknown parameter typo.*seed, x"),
        (
            '[smoke."toy/one"]\nx = nan',
            r"profile smoke, notebook toy/one: parameter x must be a finite number.*nan",
        ),
        ('[smoke."toy/one"]\nx = [1, [-inf]]', r"parameter x must be a finite number"),
        ('[smoke."toy/one"]\nx = 1979-05-27', r"parameter x must be a finite number"),
        (
            '[smoke."toy/other"]\nx = 1',
            r"profile smoke, notebook toy/other: no such notebook; there are: toy/one",
        ),
        ("[smoke]\nx = 1", r"notebook x: no such notebook"),
        ("[tiny]\n", r"profiles.toml: profile must be one of .*, got 'tiny'"),
        ("[smoke\n", r"profiles.toml: "),
    ],
)
def test_profiles_that_are_wrong(house: Any, profiles: str, problem: str) -> None:
    house.notebook("toy/one", parameters="seed = 1\nx: int | None = None\nx.y = f(1)\nimport os")
    house.profiles(profiles)
    with pytest.raises(ValueError, match=problem):
        batch.run("smoke")
    assert not (house.root / "build").exists()


def test_parameters_arrive_as_typed(house: Any) -> None:
    house.notebook("toy/one", parameters="seed = 1\nx: int | None = None\na = b = 2")
    house.profiles('[smoke."toy/one"]\nx = 1e-5\na = ["t", true, [1]]\nb = 007.5\n'.replace("007.5", "7.5"))
    assert plan.profile_parameters("smoke") == {"toy/one": {"x": 1e-5, "a": ["t", True, [1]], "b": 7.5}}
    assert plan.profile_parameters("paper") == {}


def test_laptop_is_what_the_notebooks_say(house: Any) -> None:
    house.notebook("toy/one")
    house.profiles('[laptop."toy/one"]\nseed = 2')
    with pytest.raises(ValueError, match="laptop takes the notebooks' own parameters"):
        batch.run("laptop")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"profile": "large"}, "profile must be one of 'smoke', 'laptop', 'paper', got 'large'"),
        ({"only": "toy/tw*"}, r"no notebook matches 'toy/tw\*'; there are: toy/one"),
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
        ({"cell_timeout": 0}, r"cell_timeout must be in \(0, inf\), got 0"),
        (
            {"notebook_timeout": float("nan")},
            r"notebook_timeout must be in \(0, inf\), got nan",
        ),
    ],
)
def test_arguments_that_are_wrong(house: Any, options: dict[str, Any], problem: str) -> None:
    house.notebook("toy/one")
    with pytest.raises(ValueError, match=problem):
        batch.run(**options)


@pytest.mark.parametrize(
    ("structure", "problem"),
    [
        ({"parameters": None}, "notebook toy/one has no cell tagged 'parameters'"),
        ({"parameters": "%time x = 1"}, "its parameters cell is not plain Python"),
        ({"gate": None}, "its last code cell must be its gate"),
    ],
)
def test_notebooks_that_could_never_count(house: Any, structure: dict[str, Any], problem: str) -> None:
    house.notebook("toy/one", "x = 1", **structure)
    with pytest.raises(ValueError, match=problem):
        batch.run()


def test_output_of_a_run_and_other_files_are_no_sources(house: Any) -> None:
    path = house.notebook("toy/one", "x = 1")
    path.write_text(path.read_text().replace('"parameters"', '"parameters", "injected-parameters"'))
    with pytest.raises(ValueError, match="it is the output of a run"):
        batch.run()
    path.write_text('{"worksheets": []}')
    with pytest.raises(ValueError, match="cannot be read as a notebook of format 4"):
        batch.run()


def test_build_that_cannot_be_written(house: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notebook("toy/one")
    (house.root / "build").touch()
    with pytest.raises(OSError, match="DPREPRO_BUILD"):
        run()
    (house.root / "build").unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"free some space.*No space left"):
        run()
    assert list((house.root / "build" / "laptop").iterdir()) == []


# --- what is run, and what is skipped ---------------------------------------------------------------------------


CHANGED_INPUTS = [
    "lib/dprepro/code.py",
    "data/reported/toy.csv",
    "requirements.lock",
    "notebooks/toy/one.ipynb",
]
CHANGED_RESULTS = [".out/rows.csv", ".ipynb", ".manifest.json"]


def test_unchanged_is_skipped_and_any_change_runs_again(
    house: Any, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    house.notebook("toy/one", WRITE_ROWS, "# a remark")
    assert run() == batch.RunSummary(ok=["toy/one"])
    (result,) = batch.accepted("laptop")
    assert (result.name, result.current, result.folder.name) == ("toy/one", True, "one.out")
    rows = (result.folder / "rows.csv").read_text()
    assert run().skipped == ["toy/one"]
    assert "skipped (unchanged)" in capsys.readouterr().out
    # Refreshed outputs do not make another notebook.
    source = house.root / "notebooks/toy/one.ipynb"
    source.write_text(source.read_text().replace('"execution_count": null', '"execution_count": 3'))
    assert run().skipped == ["toy/one"]
    for name in CHANGED_INPUTS:
        original = (house.root / name).read_text()
        (house.root / name).write_text(original.replace("1", "2").replace("remark", "comment"))
        (result,) = batch.accepted("laptop")
        assert not result.current, name
        assert (result.folder / "rows.csv").read_text() == rows
        (house.root / name).write_text(original)
        assert batch.accepted("laptop")[0].current, name
    for ending in CHANGED_RESULTS:
        kept = house.built("toy/one", ending).read_text()
        house.built("toy/one", ending).write_text(kept[:-5])
        assert batch.accepted("laptop") == [], ending
        house.built("toy/one", ending).write_text(kept)
        assert batch.accepted("laptop")[0].current, ending
    (house.root / "lib/dprepro/new.py").touch()
    assert run().ok == ["toy/one"]
    house.built("toy/one", ".out/rows.csv").unlink()
    assert run().ok == ["toy/one"]
    assert run(force=True).ok == ["toy/one"]
    assert house.built("toy/one", ".out/rows.csv").read_text() == rows
    assert house.leftovers() == []


def test_other_parameters_run_again_and_profiles_are_apart(house: Any, run: Any) -> None:
    house.notebook("toy/one", WRITE_ROWS)
    house.notebook("toy/two", WRITE_ROWS)
    house.profiles('[smoke."toy/one"]\nseed = 2\n')
    assert run("smoke").ok == ["toy/one", "toy/two"]
    one, two = (house.built(f"toy/{name}", ".out", "smoke") / "rows.csv" for name in ("one", "two"))
    assert one.read_text() != two.read_text()
    house.profiles('[smoke."toy/one"]\nseed = 1\n')
    summary = run("smoke")
    assert (summary.ok, summary.skipped) == (["toy/one"], ["toy/two"])
    assert one.read_text() == two.read_text()
    assert batch.accepted("laptop") == []
    assert house.manifest("toy/one", profile="smoke")["parameters"] == {"seed": 1}


def test_one_worker_and_two_give_the_same_rows(
    house: Any, run: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        house.notebook(f"toy/n{number}", WRITE_ROWS, parameters=f"seed = {number}")
    assert run().ok == ["toy/n0", "toy/n1"]
    two = [(house.built(f"toy/n{number}", ".out") / "rows.csv").read_bytes() for number in range(2)]
    monkeypatch.setenv("DPREPRO_BUILD", str(house.root / "build" / "again"))
    capfd.readouterr()
    assert batch.run(jobs=1).ok == ["toy/n0", "toy/n1"]
    again = house.root / "build" / "again" / "laptop" / "toy"
    assert [(again / f"n{number}.out" / "rows.csv").read_bytes() for number in range(2)] == two
    printed = capfd.readouterr()
    assert [line.split()[0::4] for line in printed.out.splitlines() if line.endswith("ok")] == [
        ["toy/n0"],
        ["toy/n1"],
    ]
    assert printed.err == ""  # no warning of a kernel or a worker may run through the bar


# --- how each failure ends --------------------------------------------------------------------------------------

FAILURES = {
    "exit": (["import sys\nsys.exit(0)", "x = 1"], {}, "cell 2 did not complete"),
    "exit_gate": ([], {"gate": "raise SystemExit"}, "cell 2 did not complete"),
    "error": (["1 / 0"], {}, "cell 2: ZeroDivisionError: division by zero"),
    "gate": ([], {"gate": "assert not ['row 1'], 'row 1 moved'"}, "cell 2: AssertionError: row 1 moved"),
    "dead": (["count()", "import os\nos._exit(1)"], {}, "the kernel died in cell 3"),
    "once": (
        ["count()", "raise RuntimeError('DeadKernelError')"],
        {},
        "cell 3: RuntimeError: DeadKernelError",
    ),
    "slow": (["import time\ntime.sleep(60)"], {}, "cell 2 ran longer than 3 s"),
    "editor": (["edit()"], {}, "notebooks/toy/editor.ipynb changed while the batch ran: run it again"),
    "meddler": (["meddle()"], {}, "lib/dprepro/ changed while the notebook ran: run it again"),
}


@pytest.fixture(scope="module")
def ends(
    tmp_path_factory: pytest.TempPathFactory, workers: Any, new_house: Any
) -> Iterator[tuple[Any, batch.RunSummary]]:
    """Run all of FAILURES, and a good notebook, in one batch."""
    house = new_house(tmp_path_factory.mktemp("ends") / "house")
    for name, (cells, options, _) in FAILURES.items():
        prelude = (
            f"from pathlib import Path\nroot = Path({str(house.root)!r})\n"
            f"def count():\n    print('run', file=(root / 'runs-{name}').open('a'))\n"
            "def meddle():\n    (root / 'lib/dprepro/code.py').write_text('x = 3')\n"
            "def edit():\n    source = root / 'notebooks/toy/editor.ipynb'\n"
            "    source.write_text(source.read_text().replace('assert True', 'assert 1'))\n"
        )
        house.notebook(f"toy/{name}", *cells, parameters="seed = 1\n" + prelude, **options)
    house.notebook("toy/good")
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in {"ROOT": "", "DATA": "data", "NOTEBOOKS": "notebooks"}.items():
            patch.setattr(paths, name, house.root / folder)
        patch.setenv("DPREPRO_BUILD", str(house.root / "build"))
        # The meddler goes last and alone: what it does to lib would fail the others as well.
        summary = batch.run(only="toy/[!m]*", cell_timeout=3, client=workers)
        alone = batch.run(only="toy/m*", cell_timeout=3, client=workers)
        yield (
            house,
            batch.RunSummary(summary.ok, summary.failed + alone.failed, [], summary.errors | alone.errors),
        )


@pytest.mark.parametrize("name", FAILURES)
def test_failure(ends: tuple[Any, batch.RunSummary], name: str) -> None:
    house, summary = ends
    assert f"toy/{name}" in summary.failed
    assert summary.errors[f"toy/{name}"].startswith(FAILURES[name][2])
    assert house.built(f"toy/{name}", ".failed.ipynb").exists()
    assert house.manifest(f"toy/{name}", ".failed.json")["outcome"] == "failed"
    for ending in (".ipynb", ".out", ".manifest.json"):
        assert not house.built(f"toy/{name}", ending).exists()


def test_others_go_on_and_only_a_dead_kernel_is_tried_again(ends: tuple[Any, batch.RunSummary]) -> None:
    house, summary = ends
    assert summary.ok == ["toy/good"]
    assert (house.root / "runs-dead").read_text().split() == ["run", "run"]
    assert (house.root / "runs-once").read_text().split() == ["run"]
    assert house.leftovers() == []
    assert [result.name for result in batch.accepted("laptop")] == ["toy/good"]


# --- interrupts -------------------------------------------------------------------------------------------------

DRIVER = """
import sys
from pathlib import Path
from dprepro.base import paths
from dprepro.kit import batch
root = Path(sys.argv[1])
paths.ROOT, paths.DATA, paths.NOTEBOOKS = root, root / "data", root / "notebooks"
batch.run(jobs=2)
"""


def _wait_for(condition: Any, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["kill -9", "ctrl-c"])
def test_interrupt_loses_only_the_notebook_in_hand(house: Any, run: Any, how: str) -> None:
    started = house.root / "started"
    house.notebook("toy/done", WRITE_ROWS)
    house.notebook(
        "toy/hand",
        "from pathlib import Path\nimport time\nfrom dprepro.base.paths import output_dir\n"
        "(output_dir() / 'rows.csv').write_text('half')\n"
        f"started = Path({str(started)!r})\nif not started.exists():\n    started.touch()\n    time.sleep(300)",
        WRITE_ROWS,
    )
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(house.root)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(lambda: started.exists() and house.built("toy/done", ".manifest.json").exists())
        with pytest.raises(BlockingIOError, match=rf"another batch is writing .*process {process.pid} on "):
            run()
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 3  # two workers and a kernel
        if how == "kill -9":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        _, errors = process.communicate(timeout=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    if how == "ctrl-c":
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert errors.count("Traceback") == 1
    assert [result.name for result in batch.accepted("laptop")] == ["toy/done"]
    summary = run()
    assert (summary.ok, summary.skipped) == (["toy/hand"], ["toy/done"])
    assert (house.built("toy/hand", ".out") / "rows.csv").read_text().startswith("value\n")
    assert house.leftovers() == []
    with local_client(1):
        ours = {process.pid for process in family}
    assert [
        p.name for p in Path(tempfile.gettempdir()).glob("dprepro-*-*") if int(p.name.split("-")[1]) in ours
    ] == []


def test_holder_that_has_just_started_is_named_as_such(house: Any, run: Any) -> None:
    from filelock import FileLock

    house.notebook("toy/one")
    (house.root / "build" / "laptop").mkdir(parents=True)
    with (
        FileLock(house.root / "build" / "laptop" / ".lock"),
        pytest.raises(BlockingIOError, match="a process that has just started"),
    ):
        run()


def test_worker_that_is_killed_fails_its_notebook_alone(house: Any) -> None:
    started = house.root / "started"
    house.notebook("toy/a", f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(300)")
    house.notebook("toy/b")
    here = psutil.Process()
    before = set(here.children(recursive=True))
    with ThreadPoolExecutor() as pool:
        future = pool.submit(batch.run, jobs=1)
        _wait_for(started.exists)
        family = set(here.children(recursive=True)) - before
        (worker,) = (process for process in family if process.children() and process.parent() == here)
        worker.kill()
        summary = future.result(60)
    assert (summary.ok, summary.failed) == (["toy/b"], ["toy/a"])
    assert summary.errors["toy/a"].startswith("its worker ended: KilledWorker")
    _, alive = psutil.wait_procs(family, timeout=10)
    assert [process for process in alive if "resource_tracker" not in " ".join(process.cmdline())] == []
