"""Runs a student's notebook, cell by cell, and reports the answers it leaves. Runs inside the sandbox.

Reads a job from standard input, {"cells": [source, ...], "cell_seconds": float, "seconds": float}, and prints JSON
lines: the answers, whenever they have changed, then how the run ended. Answers are taken along the way, so a cell
that kills everything costs only what comes after it. A student's code can reach this process too: what it prints is
data that the grader does not trust.
"""

import asyncio
import json
import os
import re
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from dprepro.kit.labs_answers import LARGEST, save_code

# The grader's checks run elsewhere, so the notebook's own need not run at all.
STUB = """\
import sys as _sys, types as _types
class _Grader:
    def __init__(self, *args, **kwargs): pass
    def __getattr__(self, name): return lambda *args, **kwargs: None
_sys.modules["otter"] = _types.ModuleType("otter")
_sys.modules["otter"].Notebook = _Grader
del _sys, _types, _Grader
"""
ANSWER = re.compile(r"\bq\d+_")


class _Quiet(NotebookClient):
    """Drops outputs as they come, however large; errors are reported by the reply."""

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> None:
        """Keep nothing."""


def run(job: dict[str, Any], report: Any) -> None:
    """Execute the cells of a job; `report` is called with each finding, a dict."""
    cells = [nbformat.v4.new_code_cell(source) for source in job["cells"]]
    book = nbformat.v4.new_notebook(cells=cells)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
    if os.name == "posix":  # without a network there is no TCP either
        manager.transport, manager.ip = "ipc", str(Path(tempfile.mkdtemp()) / "kernel")
    client = _Quiet(book, km=manager, startup_timeout=60, interrupt_on_timeout=True, allow_errors=False)
    asyncio.run(_execute(client, job, report))


async def _execute(client: NotebookClient, job: dict[str, Any], report: Any) -> None:
    end = time.monotonic() + job["seconds"]
    saved = Path(tempfile.mkdtemp()) / "answers.json"
    problems: list[str] = []
    async with client.async_setup_kernel():
        await _silently(client, STUB)
        last = ""
        for number, cell in enumerate(client.nb.cells, start=1):
            left = end - time.monotonic()
            if left <= 0:
                problems.append(f"stopped before cell {number}: {job['seconds']:g} s were over")
                break
            client.timeout = min(job["cell_seconds"], left)
            try:
                await client.async_execute_cell(cell, number - 1)
            except CellTimeoutError:
                problems.append(f"cell {number} was interrupted after {client.timeout:.0f} s")
            except CellExecutionError as error:
                problems.append(f"cell {number}: {error.ename}: {error.evalue}"[:200])
            except DeadKernelError:
                problems.append(f"cell {number} ended the notebook's process")
                break
            if ANSWER.search(cell.source) or number == len(client.nb.cells):
                await _silently(client, save_code(str(saved)))
                text = _read(saved)
                if text and text != last:
                    report({"answers": text})
                    last = text
        report({"problems": problems[:5], "errors": len(problems)})


async def _silently(client: NotebookClient, code: str) -> None:
    """Run code of ours in the kernel; whatever goes wrong there is the student's doing."""
    client.timeout = 20
    with suppress(CellExecutionError, CellTimeoutError, DeadKernelError):
        await client.async_execute_cell(nbformat.v4.new_code_cell(code), 0, store_history=False)


def _read(path: Path) -> str:
    """Return what the kernel saved; nothing if it is no ordinary file or too large."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        content = stream.read(2 * LARGEST)
        return content.decode(errors="replace") if len(content) < 2 * LARGEST else ""


def main() -> None:
    """Read the job, report on what was standard output."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the kernel inherits this one
    job = json.loads(sys.stdin.buffer.read())
    fonts = Path(os.environ["MPLCONFIGDIR"])
    fonts.mkdir(exist_ok=True)
    for name, text in job["fonts"].items():  # finding the fonts takes seconds
        (fonts / name).write_text(text, encoding="utf-8")

    def report(finding: dict[str, Any]) -> None:
        results.write(json.dumps(finding) + "\n")
        results.flush()

    run(job, report)


if __name__ == "__main__":
    main()
