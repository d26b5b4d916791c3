"""One notebook through papermill, in a worker process: run, judge, and put in place only what is whole.

papermill by itself overwrites a good output with a failing one, takes `sys.exit(0)` for success, keeps the
kernelspec and the absolute paths of the machine, has no timeout, and starts whatever kernel the user's
Jupyter path calls python3. Each is handled here.
"""

import json
import logging
import re
import secrets
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines

from dprepro.base.cluster import private_prefix
from dprepro.base.kernel import KERNELSPEC, environment, kernel_manager, last_words, peak_memory
from dprepro.base.store import sha256_bytes, sha256_tree, write_atomic
from dprepro.kit.accept import accept, keep_failed
from dprepro.kit.plan import WATCHED, Job, Outcome, cells_sha256, read_cells

_START_SECONDS = 120
_CELL_FILE = re.compile(r"<temporary>[/\\]ipykernel_\d+[/\\]\d+\.py")
_BINARY = ("image/png", "image/jpeg", "image/gif", "application/pdf")  # base64 could hold a path by chance


class _BatchEngine(Engine):
    """papermill's own engine, but for the environment and the streams of the kernel process."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, *, client: dict[str, Any], launch: dict[str, Any], **_: Any
    ) -> None:
        PapermillNotebookClient(nb_man, kernel_name=kernel_name, **client).execute(cleanup_kc=True, **launch)


papermill_engines.register("dprepro", _BatchEngine)


class _Watch:
    """Follows one run through the client's hooks: which cell is in hand, time left, memory of the kernel."""

    def __init__(self, manager: AsyncKernelManager, cell_timeout: float, notebook_timeout: float) -> None:
        self.manager = manager
        self.cell_timeout = cell_timeout
        self.notebook_timeout = notebook_timeout
        self.deadline = time.monotonic() + notebook_timeout
        self.cell = 0
        self.peak_memory = 0

    def before(self, cell: Any, cell_index: int) -> None:
        self.cell = cell_index + 1

    def after(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        self.peak_memory = max(self.peak_memory, peak_memory(getattr(self.manager.provisioner, "pid", None)))

    def timeout(self, cell: Any) -> float:
        # The client takes 0 and less for "no limit".
        return max(min(self.cell_timeout, self.deadline - time.monotonic()), 0.001)

    def explain(self) -> str:
        if time.monotonic() >= self.deadline:
            return f"the notebook ran longer than {self.notebook_timeout:g} s (stopped in cell {self.cell})"
        return f"cell {self.cell} ran longer than {self.cell_timeout:g} s"


def execute(job: Job, cell_timeout: float, notebook_timeout: float) -> Outcome:
    """Run one notebook and put its results in place.

    Parameters
    ----------
    job : Job
    cell_timeout, notebook_timeout : float
        Seconds. A kernel that runs longer is killed, with the processes it started.

    Returns
    -------
    Outcome
        On success build/<profile>/<paper>/<notebook>.ipynb, .out/ and, last, .manifest.json are replaced and
        an earlier failure is removed. On failure these stay as they were, and .failed.ipynb and .failed.json
        lie beside them. A kernel that died is given one more chance, nothing else is.
    """
    # Log lines of the client and of a killed kernel's channels would run through the progress bar.
    for name in ("papermill", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    start = time.monotonic()
    for attempts in (1, 2):
        token = secrets.token_hex(4)
        partial, results = job.path(f".tmp-{token}.ipynb"), job.path(f".out.tmp-{token}")
        record: dict[str, Any] = {"name": job.name, "profile": job.profile, "attempts": attempts}
        try:
            results.mkdir(parents=True)
            error, died = _attempt(job, partial, results, (cell_timeout, notebook_timeout), record)
            if died and attempts == 1:
                continue
            record["seconds"] = round(time.monotonic() - start, 3)
            _put_in_place(job, partial, results, record, error)
        except OSError as failure:
            error = str(failure)
        finally:
            partial.unlink(missing_ok=True)
            shutil.rmtree(results, ignore_errors=True)
        break
    return Outcome(time.monotonic() - start, error, attempts)


def _attempt(
    job: Job, partial: Path, results: Path, limits: tuple[float, float], record: dict[str, Any]
) -> tuple[str, bool]:
    """Run once and leave the executed notebook in `partial`; return the error, '' if none, and "kernel died"."""
    _write_source(job, partial)
    with (
        tempfile.TemporaryDirectory(prefix=private_prefix(), ignore_cleanup_errors=True) as private,
        tempfile.TemporaryFile() as streams,
    ):
        manager = kernel_manager(Path(private))
        watch = _Watch(manager, *limits)
        # papermill takes a path for a format string.
        place = str(partial).replace("{", "{{").replace("}", "}}")
        try:
            papermill.execute_notebook(
                place,
                place,
                parameters=dict(job.parameters),
                engine_name="dprepro",
                kernel_name="python3",
                language="python",
                progress_bar=False,
                client={
                    "km": manager,
                    "timeout_func": watch.timeout,
                    "startup_timeout": _START_SECONDS,
                    "on_cell_execute": watch.before,
                    "on_cell_executed": watch.after,
                    "shutdown_kernel": "immediate",
                },
                launch={
                    "cwd": str(results),
                    "env": environment(job.build, results, Path(private)),
                    "stdout": streams,
                    "stderr": streams,
                },
            )
        except papermill.PapermillExecutionError as failure:
            return f"cell {watch.cell}: {failure.ename}: {failure.evalue}", False
        except CellTimeoutError:
            return watch.explain(), False
        except DeadKernelError:
            return f"the kernel died in cell {watch.cell}{last_words(streams)}", True
        except RuntimeError as failure:
            # How the client reports a kernel that ended, or was silent, before the first cell.
            return f"the kernel did not start: {failure}{last_words(streams)}", True
        finally:
            record["peak_memory_bytes"] = watch.peak_memory
    return _judge(job, nbformat.read(partial, as_version=4), record), False


def _write_source(job: Job, partial: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notebook = nbformat.v4.upgrade(nbformat.read(job.source, as_version=4))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        notebook.metadata.pop("papermill", None)
        _, notebook = nbformat.validator.normalize(notebook)
    write_atomic(partial, nbformat.writes(notebook))


def _judge(job: Job, notebook: nbformat.NotebookNode, record: dict[str, Any]) -> str:
    """Return why a run that papermill calls good is not complete, or ''."""
    completed = {
        number: cell.metadata.papermill.status == "completed" and cell.execution_count is not None
        for number, cell in enumerate(notebook.cells, start=1)
        if cell.cell_type == "code" and cell.source.strip()
    }
    record["code_cells"], record["code_cells_completed"] = len(completed), sum(completed.values())
    for number, done in completed.items():
        if not done:
            return f"cell {number} did not complete: the notebook ended early or skipped it"
    # The plan saw a gate in the last of these cells; what ran must be what it saw.
    if cells_sha256(read_cells(job.source)) != job.inputs["cells"]:
        return f"notebooks/{job.name}.ipynb changed while the batch ran: run it again"
    for name, folder in WATCHED.items():
        if sha256_tree([job.root / folder]) != job.inputs[name]:
            return f"{folder}/ changed while the notebook ran: run it again"
    return ""


def _put_in_place(job: Job, partial: Path, results: Path, record: dict[str, Any], error: str) -> None:
    content = _finish(job, nbformat.read(partial, as_version=4), results)
    record |= {
        "outcome": "failed" if error else "complete",
        "error": error,
        "inputs": dict(job.inputs),
        "parameters": dict(job.parameters),
        "seed": job.seed,
        "versions": dict(job.versions),
    }
    if error:
        keep_failed(job, content, json.dumps(record, indent=1))
        return
    record["notebook_sha256"] = sha256_bytes(content)
    record["results_sha256"] = sha256_tree(results.iterdir())
    accept(job, content, results, json.dumps(record, indent=1))


def _finish(job: Job, notebook: nbformat.NotebookNode, results: Path) -> bytes:
    """Return the executed notebook without this machine's paths, as it is stored."""
    notebook.metadata.kernelspec = nbformat.from_dict(KERNELSPEC)
    notebook.metadata.papermill.input_path = f"notebooks/{job.name}.ipynb"
    notebook.metadata.papermill.output_path = f"build/{job.profile}/{job.name}.ipynb"
    known = {
        results: "<results>",
        Path(sys.prefix): "<environment>",
        Path(sys.base_prefix): "<python>",
        Path(tempfile.gettempdir()): "<temporary>",
        job.build: "build",
        job.root: ".",
        Path.home(): "~",
    }
    names = {
        str(form): name
        for path, name in known.items()
        for form in (path, path.resolve())
        if form != form.parent
    }
    places = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    # A path begins where no name goes on, or behind the colour code that a traceback puts before it.
    pattern = re.compile(rf"(\x1b\[[\d;]*m|(?<![\w.-]))({places})(?![\w.-])")

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return _CELL_FILE.sub("<cell>", pattern.sub(lambda found: found[1] + names[found[2]], value))
        if isinstance(value, list):
            return [clean(item) for item in value]
        if isinstance(value, dict):
            return {key: item if key in _BINARY else clean(item) for key, item in value.items()}
        return value

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(clean(output)) for output in cell.outputs]
    return nbformat.writes(notebook).encode() + b"\n"
