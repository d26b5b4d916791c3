"""One notebook at a time, in this process: what is stored, what is never stored, and what a kernel inherits."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from dprepro.base import kernel, paths
from dprepro.base.store import write_atomic
from dprepro.kit import accept, execute
from dprepro.kit.plan import Outcome, plan

REPOSITORY = Path(__file__).resolve().parents[2]


def run(cell_timeout: float = 60, notebook_timeout: float = 60, profile: str = "laptop") -> Outcome:
    (job,) = plan(profile)
    return execute.execute(job, cell_timeout, notebook_timeout)


def test_stored_notebook_names_neither_machine_nor_other_kernel(
    house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kernelspec called python3 that cannot start, first on the search path, and a notebook saved elsewhere.
    kernels = house.root / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        '{"argv": ["/bin/false"], "display_name": "x", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(house.root / "jupyter"))
    startup = house.root / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-mine.py").write_text("mine = 1\n")
    monkeypatch.setenv("IPYTHONDIR", str(house.root / "ipython"))
    spec = {"name": "conda-env-colleague-py", "display_name": "colleague", "language": "python"}
    house.notebook(
        "toy/one",
        "import os, sys, warnings\nassert 'mine' not in globals()",
        "print(os.getcwd(), sys.prefix, os.environ['HOME'])",
        "from dprepro.base.paths import build_dir, output_dir\nprint(output_dir(), build_dir(), sys.executable)",
        f"print({str(house.root / 'lib' / 'code.py')!r}); warnings.warn('w')",
        "print([os.environ[f'{n}_NUM_THREADS'] for n in ('OMP', 'OPENBLAS', 'MKL')])",
        kernelspec=spec,
    )
    assert run() == Outcome(pytest.approx(0, abs=60), "", 1)
    book = house.executed("toy/one")
    text = nbformat.writes(book)
    for place in (house.root, Path(sys.prefix), Path.home(), Path(tempfile.gettempdir())):
        # The cell's own source names the repository of this test; nothing else may.
        assert str(place) not in text.replace(repr(str(house.root / "lib" / "code.py")), "")
    assert book.metadata.kernelspec == kernel.KERNELSPEC
    assert book.metadata.papermill.input_path == "notebooks/toy/one.ipynb"
    assert book.metadata.papermill.output_path == "build/laptop/toy/one.ipynb"
    printed = [cell.outputs[0].text.split() for cell in book.cells[2:6]]
    assert printed[0] == ["<results>", "<environment>", "~"]
    assert printed[1][:2] == ["<results>", "build"]
    assert printed[2] == ["./lib/code.py"]
    assert printed[3] == ["['1',", "'1',", "'1']"]
    manifest = house.manifest("toy/one")
    assert manifest["code_cells"] == manifest["code_cells_completed"] == 7
    assert manifest["seed"] == 1
    assert manifest["peak_memory_bytes"] > 20e6  # a bare interpreter with IPython
    assert manifest["versions"]["numpy"]
    assert house.leftovers() == []


def test_braces_and_a_path_too_long_for_a_socket(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = house.root / "a {brace} and {seed}" / ("long" * 20)
    monkeypatch.setenv("DPREPRO_BUILD", str(place / "build"))
    (place / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    house.notebook("toy/one", "print(seed)", parameters="seed = 1\nx: int | None = None")
    house.profiles('[smoke."toy/one"]\nseed = 7\nx = 3\n')
    assert run(profile="smoke").error == ""
    book = nbformat.read(place / "build" / "smoke" / "toy" / "one.ipynb", as_version=4)
    assert [cell.metadata.tags for cell in book.cells[:2]] == [["parameters"], ["injected-parameters"]]
    assert book.cells[2].outputs[0].text == "7\n"
    assert list((place / "tmp").iterdir()) == []


def test_failure_stays_beside_the_good_run_until_the_next_success(house: Any) -> None:
    house.notebook("toy/one", "print('good')")
    assert run().error == ""
    good = (
        house.built("toy/one", ".ipynb").read_bytes(),
        house.built("toy/one", ".manifest.json").read_bytes(),
    )
    house.notebook("toy/one", "print('bad')", gate="assert False, 'row 3 moved'")
    assert run().error == "cell 3: AssertionError: row 3 moved"
    assert good == (
        house.built("toy/one", ".ipynb").read_bytes(),
        house.built("toy/one", ".manifest.json").read_bytes(),
    )
    assert "row 3 moved" in nbformat.writes(house.executed("toy/one", ".failed.ipynb"))
    failed = house.manifest("toy/one", ".failed.json")
    assert (failed["outcome"], failed["attempts"]) == ("failed", 1)
    house.notebook("toy/one", "print('good again')")
    assert run().error == ""
    assert not house.built("toy/one", ".failed.ipynb").exists()
    assert not house.built("toy/one", ".failed.json").exists()
    assert house.leftovers() == []


@pytest.mark.parametrize(
    ("cell", "notebook", "error"),
    [
        (0.5, 60.0, "cell 2 ran longer than 0.5 s"),
        (60.0, 2.0, "the notebook ran longer than 2 s (stopped in cell "),
    ],
)
def test_timeouts(house: Any, cell: float, notebook: float, error: str) -> None:
    house.notebook("toy/one", "import time\ntime.sleep(30)")
    outcome = run(cell, notebook)
    assert outcome.error.startswith(error)  # a slow start of the kernel uses up the notebook's time as well
    assert outcome.seconds < 20


def test_kernel_that_dies_once_gets_one_more_chance(house: Any) -> None:
    marker = house.root / "died"
    house.notebook(
        "toy/one",
        f"import os, pathlib\nmarker = pathlib.Path({str(marker)!r})\n"
        "if not marker.exists():\n    marker.touch()\n    os.write(2, b'out of memory')\n    os._exit(1)",
    )
    outcome = run()
    assert (outcome.error, outcome.attempts) == ("", 2)
    assert house.manifest("toy/one")["attempts"] == 2


def test_kernel_that_cannot_start(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, Any]:
        argv = [sys.executable, "-c", "raise SystemExit('no such module: ipykernel')"]
        return {"argv": argv, "display_name": "x", "language": "python", "metadata": {}}

    monkeypatch.setattr(kernel, "get_kernel_dict", broken)
    house.notebook("toy/one")
    outcome = run()
    assert outcome.error.startswith("the kernel did not start")
    assert "no such module: ipykernel" in outcome.error
    assert outcome.attempts == 2


def test_full_disk_keeps_the_good_run(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notebook("toy/one")
    assert run().error == ""
    (job,) = plan("laptop")
    before = job.manifest()
    assert before is not None
    # Full at once, when the executed notebook is written, when the manifest is.
    for room in range(3):
        left = iter(range(room))

        def write(path: Path, data: Any, left: Any = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write_atomic(path, data)

        for module in (execute, accept):
            monkeypatch.setattr(module, "write_atomic", write)
        assert "No space left" in run().error
        assert job.manifest() == before
        assert house.leftovers() == []


def test_plain_papermill_from_another_folder(tmp_path: Path, house: Any) -> None:
    source = house.notebook(
        "toy/plain",
        "from dprepro.base.paths import DATA\nassert (DATA / 'reported').is_dir()\nprint(seed)",
        kernelspec=kernel.KERNELSPEC,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(source),
        "out.ipynb",
        "-p",
        "seed",
        "5",
        "--log-level",
        "ERROR",
    ]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    book = nbformat.read(elsewhere / "out.ipynb", as_version=4)
    assert book.cells[2].outputs[0].text == "5\n"
    assert (
        paths.ROOT != REPOSITORY
    )  # the house fixture holds here; the kernel above found the real data by itself
