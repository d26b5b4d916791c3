"""A local Dask cluster that ends with its owner, and a loop that hands it tasks one by one.

Workers end by themselves when the process that started them is killed (Dask watches a pipe to its parent, a
kernel watches its parent's process id); `local_client` sees to every other way out.
"""

import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import dask
import psutil
from distributed import Client, Future, LocalCluster, wait

Task = TypeVar("Task")
# Dask logs a connection that closes while a message is under way, with a traceback: the usual end of an interrupt.
logging.getLogger("distributed.batched").setLevel(logging.CRITICAL)
# One thread a worker: workers share the cores, and sums come out in the same order on any machine.
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in _THREADS} | {"VECLIB_MAXIMUM_THREADS": "1"}


def dask_setup(worker: Any) -> None:
    """Prepare a worker (Dask calls this in each): Ctrl-C, which a terminal sends to all, is its owner's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # jsonschema, behind papermill, takes seconds to build a grammar of web addresses if JupyterLab brought it along;
    # no notebook is checked for those.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_client(jobs: int) -> Iterator[Client]:
    """Start `jobs` worker processes of one thread each, and leave none behind.

    Parameters
    ----------
    jobs : int
        Number of processes, at least 1.

    Yields
    ------
    distributed.Client
        On leaving, also by KeyboardInterrupt, the workers and every process they started are ended.

    Raises
    ------
    ValueError
        If jobs is below 1.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    # A worker that dies must not take its task to the next one: the task decides what is tried again.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        cluster = LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            preload=[__name__],
            env=ONE_THREAD,
            silence_logs=logging.CRITICAL,
        )
    _sweep_private()
    try:
        with Client(cluster, set_as_default=False) as client:
            yield client
    finally:
        # At once: a worker that is asked to close waits for its task, and leaves the kernel behind.
        for nanny in cluster.workers.values():
            nanny.auto_restart = False
        for process in _with_descendants(nanny.pid for nanny in cluster.workers.values()):
            with suppress(psutil.Error):
                process.kill()
        cluster.close()
        _sweep_private()


def private_prefix() -> str:
    """Return how this process names the folders of its kernels, so that others can tell when it is gone."""
    return f"dprepro-{os.getpid()}-"


def _sweep_private() -> None:
    for folder in Path(tempfile.gettempdir()).glob("dprepro-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _with_descendants(pids: Iterable[int | None]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        if pid is None:  # the worker is gone; psutil takes None for this very process
            continue
        with suppress(psutil.Error):
            found += [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return found


def finished(
    client: Client,
    function: Callable[[Task], Any],
    tasks: Iterable[Task],
    width: int,
    in_hand: Callable[[list[Task]], object],
) -> Iterator[tuple[Task, Future]]:
    """Run `function` on each task, at most `width` at a time, and yield each task with its future as it ends.

    Parameters
    ----------
    client : distributed.Client
    function : callable
        Takes a task; what it raises is in the future.
    tasks : iterable
    width : int
        At least 1.
    in_hand : callable
        Given the tasks now running whenever they change, and once a second.

    Notes
    -----
    Tasks are handed out singly, so `in_hand` is exact and an interrupt meets no queue of started work.
    """
    waiting = deque(tasks)
    running: dict[Future, Task] = {}
    while waiting or running:
        while waiting and len(running) < width:
            task = waiting.popleft()
            running[client.submit(function, task, pure=False)] = task
        in_hand(list(running.values()))
        try:
            with client.as_current():
                done = wait(list(running), timeout=1, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            continue
        for future in done:
            yield running.pop(future), future
