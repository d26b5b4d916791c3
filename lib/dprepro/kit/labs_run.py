"""Runs a student's notebook, cell by cell, and reports the answers it leaves. Runs inside the sandbox.

Reads a job from standard input, {"cells": [source, ...], "cell_seconds": float, "seconds": float}, and prints JSON
lines: the answers, whenever they have changed, then how the run ended. Answers are taken along the way, so a cell
that kills everything costs only what comes after it. A student's code can reach this process too: what it prints is
data that the grader does not trust.
"""

import json
import os
import queue
import re
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

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


OWN = 20.0  # seconds for code of ours, and at most for an interrupted cell to stop


class _GoneError(Exception):
    """The kernel can run no more cells; the text says why."""


class _Kernel:
    """A Python kernel whose outputs nobody listens to, so that it may print any amount."""

    def __init__(self) -> None:
        # Figures are closed where they would be shown, but not drawn: that takes a third of the time.
        unseen = "--InlineBackend.figure_formats=set()"
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", unseen]
        self._manager = KernelManager()
        # Whatever kernel the notebook names, or none.
        self._manager._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
        if os.name == "posix":  # without a network there is no TCP either
            self._manager.transport, self._manager.ip = "ipc", str(Path(tempfile.mkdtemp()) / "kernel")
        self._manager.start_kernel()
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=False)
        if self._reply(self._client.kernel_info(), 60.0) is None:
            raise _GoneError("did not start a kernel within 60 s")

    def execute(self, source: str, seconds: float, *, silent: bool = False) -> str:
        """Run code; return what went wrong, in a line, or nothing. _GoneError if the kernel is lost."""
        sent = self._client.execute(source, silent=silent, allow_stdin=False, stop_on_error=False)
        content = self._reply(sent, seconds)
        if content is None:
            self._manager.interrupt_kernel()
            if self._reply(sent, min(OWN, seconds)) is None:
                raise _GoneError(f"ran over {seconds:.0f} s and could not be interrupted")
            return f"interrupted after {seconds:.0f} s"
        if content.get("status") == "ok":
            return ""
        return f"{content.get('ename', 'not run')}: {content.get('evalue', '')}"[:200]

    def _reply(self, sent: str, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            with suppress(queue.Empty):
                message = self._client.get_shell_msg(timeout=min(left, 0.2))
                if message["parent_header"].get("msg_id") == sent:
                    return message["content"]
                continue
            if not self._manager.is_alive():
                raise _GoneError("ended the notebook's process")
        return None

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def run(job: dict[str, Any], report: Any) -> None:
    """Execute the cells of a job; `report` is called with each finding, a dict."""
    end = time.monotonic() + job["seconds"]
    saved = Path(tempfile.mkdtemp()) / "answers.json"
    problems: list[str] = []
    kernel = _Kernel()
    try:
        kernel.execute(STUB, OWN, silent=True)
        last = ""
        for number, source in enumerate(job["cells"], start=1):
            if (left := end - time.monotonic()) <= 0:
                problems.append(f"stopped before cell {number}, since {job['seconds']:.0f} s were over")
                break
            try:
                if error := kernel.execute(source, min(job["cell_seconds"], left)):
                    problems.append(f"cell {number}: {error}")
                if ANSWER.search(source) or number == len(job["cells"]):
                    kernel.execute(save_code(str(saved)), OWN, silent=True)
                    text = _read(saved)
                    if text and text != last:
                        report({"answers": text})
                        last = text
            except _GoneError as gone:
                problems.append(f"cell {number} {gone}")
                break
        report({"problems": problems[:5], "errors": len(problems)})
    finally:
        kernel.close()


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
