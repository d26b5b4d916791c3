"""Tasks on a Dask cluster that runs somewhere else, over TCP and without a file system in common.

A task names a function of dprepro and its arguments. What it needs besides goes with it or is looked at on the
worker: a worker whose code of dprepro, locks or installed versions differ is refused, data that differs is sent.
What may happen to a cluster is expected. Workers come and go; Dask gives the tasks of a dead one to the next. A
scheduler that is gone is waited for, and what it had in hand is sent again. `remote_worker` is the other end.
"""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import Client, Future, wait
from distributed.comm import CommClosedError

from dprepro.base import paths
from dprepro.base.remote_code import as_code, identity, on_worker
from dprepro.base.store import sha256_bytes, sha256_file, sha256_json

# A scheduler that cannot be reached is told in a sentence here, and by Dask with a traceback.
logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
PATIENCE = 300.0  # seconds that a scheduler may be away
_CONNECT = 30.0  # seconds of one attempt
_LOST = (CancelledError, CommClosedError, OSError)  # TimeoutError is an OSError


@dataclass(frozen=True)
class Task:
    """A call on the cluster: `function` by its full dotted name, arguments of plain Python values and bytes."""

    name: str
    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the function returned, or in `error` why there is nothing."""

    value: Any = None
    error: str = ""


def carried_out(
    address: str, tasks: Iterable[Task], jobs: int | None = None, say: Callable[[str], object] = print
) -> Generator[tuple[Task, Answer]]:
    """Carry tasks out on a cluster and yield each with its answer as it ends.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.5:8786".
    tasks : iterable of Task
        Of different names.
    jobs : int, optional
        Tasks on the cluster at a time, at least 1; by default two for each thread of its workers, however many
        there come to be.
    say : callable
        Told what the user should know: no worker yet, a worker refused, the scheduler gone and back.

    Raises
    ------
    ValueError
        jobs below 1; an address that is none; every worker is refused; a file of data/ changed meanwhile.
    OSError
        No scheduler answers at the address, or for `PATIENCE` seconds none did any more.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if not isinstance(address, str):  # Dask would start a cluster of its own
        raise ValueError(f"scheduler must be an address like tcp://host:8786, got {address!r}")
    dispatch = _Dispatch(_needs(), deque(tasks), jobs, say)
    away_since: float | None = None
    while dispatch.waiting:
        try:
            client = Client(address, timeout=_CONNECT, set_as_default=False)
        except ValueError as error:
            raise ValueError(f"scheduler must be an address like tcp://host:8786, got {address!r}") from error
        except OSError as error:
            if away_since is None or time.monotonic() > away_since + PATIENCE:
                raise OSError(f"no Dask scheduler answers at {address} ({error})") from error
            time.sleep(1)
            continue
        if away_since is not None:
            say(f"the scheduler at {address} is back: what it had in hand is sent again")
        away_since = None
        try:
            yield from dispatch.over(client)
        except _LOST:
            # Futures of a scheduler that went away are cancelled; their tasks wait again.
            say(f"the scheduler at {address} is gone: waiting for it up to {PATIENCE:.0f} s")
            away_since = time.monotonic()
        finally:
            with suppress(*_LOST):
                client.close(timeout=5)


def _needs() -> dict[str, Any]:
    files = sorted(path for path in paths.DATA.rglob("*") if path.is_file())
    data = {path.relative_to(paths.DATA).as_posix(): sha256_file(path) for path in files}
    wanted = identity()
    return {"identity": wanted, "data": data, "key": sha256_json([wanted, data])[:16]}


@dataclass
class _Dispatch:
    """What is left to do, and what is known of the workers, from one connection to the next."""

    needs: dict[str, Any]
    waiting: deque[Task]
    jobs: int | None
    say: Callable[[str], object]
    refused: dict[str, str] = field(default_factory=dict)
    lacking: defaultdict[str, set[str]] = field(default_factory=partial(defaultdict, set))

    def over(self, client: Client) -> Iterator[tuple[Task, Answer]]:
        """Yield each task with its answer; what is unanswered waits again when the connection is lost."""
        running: dict[Future, Task] = {}
        warned = False
        try:
            while self.waiting or running:
                threads = client.nthreads()
                fit = {address: n for address, n in threads.items() if address not in self.refused}
                self._check_workers(threads, fit)
                if not threads and not warned:
                    self.say("the cluster has no worker yet: waiting for one")
                    warned = True
                width = self.jobs or max(1, 2 * sum(fit.values()))
                while self.waiting and len(running) < width:
                    task = self.waiting[0]
                    future = self._submit(client, task, list(fit))
                    running[future] = self.waiting.popleft()
                try:
                    with client.as_current():
                        done = wait(list(running), timeout=1, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    continue
                for future in done:
                    answer = self._answer(running[future], future)
                    task = running.pop(future)
                    future.release()  # else Dask would run it again if the worker that keeps the answer died
                    if answer is None:
                        self.waiting.appendleft(task)
                    else:
                        yield task, answer
        finally:
            self.waiting.extendleft(reversed(running.values()))

    def _submit(self, client: Client, task: Task, fit: list[str]) -> Future:
        shipped = {}
        for name in self.lacking[task.name]:
            try:
                content = (paths.DATA / name).read_bytes()
            except OSError:  # which must not be taken for a connection that was lost
                content = None
            if content is None or sha256_bytes(content) != self.needs["data"][name]:
                raise ValueError(f"data/{name} changed while tasks were on the cluster: start again")
            shipped[name] = content
        request = {**self.needs, "shipped": shipped, "function": task.function, "arguments": task.arguments}
        only = {"workers": fit, "allow_other_workers": True} if self.refused and fit else {}
        return client.submit(as_code(on_worker), as_code(identity), request, pure=False, **only)

    def _answer(self, task: Task, future: Future) -> Answer | None:
        """Return the answer, or None for a task that has to go out again."""
        if future.status == "error":
            return Answer(error=f"its worker ended: {future.exception()!r}")
        reply = future.result()
        if "refused" in reply:
            if reply["worker"] not in self.refused:
                self.say(f"worker {reply['worker']} is refused: {reply['refused']}")
            self.refused[reply["worker"]] = reply["refused"]
            return None
        if "missing" in reply:
            self.lacking[task.name].update(reply["missing"])
            return None
        return Answer(**reply)

    def _check_workers(self, threads: Mapping[str, int], fit: Mapping[str, int]) -> None:
        if threads and not fit:
            reasons = "; ".join(f"{address}: {self.refused[address]}" for address in sorted(threads))
            raise ValueError(f"no worker of the cluster fits. {reasons}")
