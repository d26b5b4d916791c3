"""Runs code of a student in a process of its own, without network, neighbours, or more than its share.

Three ways, the first that works here: `bubblewrap` and `unshare` (Linux) give the process its own network, process
numbers and file system, in which it sees Python and dprepro, read-only, and an empty working folder in memory
(`labs_inside`). `none` is an ordinary process with limits on its time: only for code that is trusted.

A watch outside counts time, memory and processes together, and kills the whole group when one runs over.
"""

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from dprepro.base.check import one_of
from dprepro.base.paths import ROOT

WORK = "/home/student"  # as in labs_inside, which cannot be imported here on every system

WAYS = ("bubblewrap", "unshare", "none")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/fonts", "/etc/localtime")
_LINKER = ("/etc/ld.so.cache", "/etc/alternatives")
_users = (
    itertools.count()
)  # each run as root has a user number of its own, so that process limits hold for each


@dataclass(frozen=True)
class Limits:
    """What one run may use: seconds of wall and CPU time, MiB, processes. All are positive.

    `memory` is that of all its processes together; `written` that of all its files, which lie in memory.
    """

    wall: float = 300.0
    cpu: int = 300
    memory: int = 3072
    written: int = 128
    processes: int = 48
    output: int = 32


@dataclass(frozen=True)
class Ended:
    """How a run ended: what it printed, its status, and `why` it was killed (empty if it was not)."""

    output: bytes
    errors: str
    status: int
    seconds: float
    why: str


@functools.cache
def way_to_isolate() -> str:
    """Return the first of `WAYS` that runs a Python here; "none" if neither isolates."""
    for way in isolating_ways():
        ended = run(["-c", "print(6 * 7)"], b"", way=way, limits=Limits(wall=30))
        if ended.output.strip() == b"42":
            return way
    return "none"


def isolating_ways() -> list[str]:
    """Return the ways whose program is installed. Root prefers unshare, under which it can take another user."""
    found = [way for way in WAYS[:2] if sys.platform == "linux" and _program(way)]
    return found[::-1] if _is_root() else found


def _program(way: str) -> str:
    return shutil.which({"bubblewrap": "bwrap", "unshare": "unshare"}[way]) or ""


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def visible_paths() -> list[str]:
    """Return what a run sees of this machine's files: the system's programs, this Python, and the library."""
    python = [sys.prefix, sys.base_prefix, str(ROOT / "lib")]
    return [*_SYSTEM, *_LINKER, *dict.fromkeys(python)]


def check_hidden(paths: Iterable[Path]) -> None:
    """Raise ValueError if one of `paths` lies inside what a run sees."""
    for path, seen in itertools.product(paths, map(Path, visible_paths())):
        if path.resolve().is_relative_to(seen.resolve()):
            raise ValueError(
                f"{path} would be seen by the students' code, because it lies in {seen}; move it"
            )


def run(
    arguments: Sequence[str],
    data: bytes,
    *,
    way: str,
    limits: Limits,
    stop: threading.Event | None = None,
) -> Ended:
    """Run this Python with `arguments` and `data` on its standard input.

    Parameters
    ----------
    arguments : sequence of str
        Such as ["-m", "dprepro.kit.labs_run"].
    data : bytes
    way : {"bubblewrap", "unshare", "none"}
    limits : Limits
    stop : threading.Event, optional
        Set from elsewhere, it ends the run.

    Returns
    -------
    Ended
        Nothing that the run started is alive by then.

    Raises
    ------
    ValueError
        Another way.
    """
    one_of("way", way, WAYS)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, tempfile.TemporaryFile() as stdin:
        stdin.write(data)
        stdin.seek(0)
        with open(Path(folder) / "stderr", "w+b") as stderr:
            process = subprocess.Popen(
                _command(way, arguments, limits, folder),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder if way == "none" else "/",
                env=_environment(folder) if way == "none" else {"PATH": os.defpath},
                start_new_session=True,
            )
            kept = _Collector(process, limits.output << 20)
            try:
                why = _watch(process, kept, limits, start, stop or threading.Event())
            finally:
                _kill(process)
            output = kept.finish()
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 4000))
            errors = stderr.read().decode(errors="replace")
    return Ended(output, errors, process.returncode, time.monotonic() - start, why)


def _command(way: str, arguments: Sequence[str], limits: Limits, folder: str) -> list[str]:
    command = [sys.executable, "-P", *arguments]
    if sys.platform != "linux":
        return command
    apart = way == "unshare" and _is_root()
    job = {
        "build": way == "unshare",
        "isolated": way != "none",
        "paths": visible_paths(),
        "size": limits.written << 20,
        "owner": 60_000 + next(_users) % 5000 if apart else None,
        "limits": {
            "AS": max(limits.memory, 4096) << 20,
            "CPU": limits.cpu,
            "FSIZE": limits.written << 20,
            "NOFILE": 1024,
            # Threads count too. As the user who runs the grader, all of that user's own would.
            **({"NPROC": 4 * limits.processes} if way == "unshare" else {}),
        },
        "command": command,
        "environment": _environment(folder if way == "none" else "/tmp"),
    }
    script = str(Path(__file__).with_name("labs_inside.py"))
    inner = [sys.executable, "-I", "-S", script, json.dumps(job)]
    if way == "bubblewrap":
        binds = [part for path in visible_paths() for part in ("--ro-bind-try", path, path)]
        flags = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
        # Root of this machine could write there.
        flags += ["--cap-drop", "ALL", "--ro-bind-try", "/proc/sys", "/proc/sys"]
        rooms = [
            ("--size", str(limits.written << 20), "--tmpfs", path) for path in ("/tmp", WORK, "/dev/shm")
        ]
        return [_program(way), *flags, *itertools.chain(*rooms), *binds, *inner]
    if way == "unshare":
        namespaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
        return [_program(way), *namespaces, *([] if apart else ["--user", "--map-root-user"]), *inner]
    return inner


def _environment(folder: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "IPYTHONDIR"), folder)
    return {
        **kept,
        **one_thread,
        **own,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLCONFIGDIR": f"{folder}/fonts",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


class _Collector:
    """Reads what a process prints, up to a limit, so that it never waits for us."""

    def __init__(self, process: "subprocess.Popen[bytes]", limit: int) -> None:
        assert process.stdout is not None
        self._stream, self._limit, self._parts, self._size = process.stdout, limit, list[bytes](), 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(ValueError, OSError):
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._size += len(part)
                if not self.over:
                    self._parts.append(part)

    @property
    def over(self) -> bool:
        return self._size > self._limit

    def finish(self) -> bytes:
        self._thread.join(timeout=5)
        self._stream.close()
        return b"".join(self._parts)


def _watch(
    process: "subprocess.Popen[bytes]", kept: _Collector, limits: Limits, start: float, stop: threading.Event
) -> str:
    """Wait for the end; return why the run must be killed, or nothing."""
    reasons: dict[str, Callable[[list[psutil.Process]], bool]] = {
        "stopped": lambda _: stop.is_set(),
        f"it ran over {limits.wall:g} s": lambda _: time.monotonic() - start > limits.wall,
        f"it printed over {limits.output} MiB": lambda _: kept.over,
        f"it had over {limits.processes} processes": lambda tree: len(tree) > limits.processes,
        f"it used over {limits.memory} MiB of memory": lambda tree: _resident(tree) > limits.memory << 20,
    }
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)  # looking through all processes takes milliseconds
            return ""
        tree = _tree(process)
        for why, holds in reasons.items():
            if holds(tree):
                return why


def _tree(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def _resident(tree: Sequence[psutil.Process]) -> int:
    total = 0
    for process in tree:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def _kill(process: "subprocess.Popen[bytes]") -> None:
    # In a process namespace the kernel ends everything with its first process; without one the tree must do.
    tree = _tree(process)
    for member in tree:
        with suppress(psutil.Error):
            member.kill()
    with suppress(OSError):
        process.kill()
    process.wait()
    psutil.wait_procs(tree, timeout=5)
