"""The batch: notebooks through papermill on Dask, resumed by manifest.

`run` writes under build/<profile>/<paper>/, for each notebook: the executed notebook, its results folder
(.out) and, last, its manifest. A notebook whose manifest still fits is skipped, so a run that was
interrupted at any moment continues with the notebook it had in hand.
"""

import math
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from tqdm import tqdm

from dprepro.base.check import in_interval
from dprepro.base.paths import build_dir
from dprepro.base.store import locked
from dprepro.kit.plan import Job, Outcome, plan
from dprepro.kit.plan import discover as discover  # what there is to run belongs to the batch for its callers

if TYPE_CHECKING:
    from distributed import Client

# Seconds: (one cell, one notebook). The budgets of a laptop run are minutes; a paper run may train models.
TIMEOUTS = {"smoke": (120.0, 300.0), "laptop": (900.0, 1800.0), "paper": (86_400.0, 172_800.0)}
# For Dask: its processes look at themselves up to a hundred times a second, which nobody here reads and which takes a
# twelfth of a core from the notebooks.
UNWATCHED = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


@dataclass(frozen=True)
class RunSummary:
    """Names of the notebooks by how they ended; `errors` says why for each of `failed`."""

    ok: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """A complete result. `folder` holds rows.csv, claims.csv, figures; `current`: no input has changed since."""

    name: str
    folder: Path
    notebook: Path
    current: bool


def run(
    profile: str = "laptop",
    only: str = "*",
    jobs: int | None = None,
    force: bool = False,
    *,
    cell_timeout: float | None = None,
    notebook_timeout: float | None = None,
    client: "Client | None" = None,
    scheduler: str | None = None,
) -> RunSummary:
    """Execute the notebooks of a profile whose inputs have changed.

    Parameters
    ----------
    profile : {"smoke", "laptop", "paper"}
    only : str
        Glob on names such as `snapaudit/table1_classification`.
    jobs : int, optional
        Notebooks at a time: worker processes of the local cluster; by default one for each core.
    force : bool
        Run also what is unchanged.
    cell_timeout, notebook_timeout : float, optional
        Seconds, positive; by default those of the profile in `TIMEOUTS`.
    client : distributed.Client, optional
        Running workers to use instead, which share this file system. They are left running.
    scheduler : str, optional
        Address of a Dask scheduler, "tcp://host:port": the notebooks go to its workers, which need not share a
        file system with this machine (`kit.remote`). `jobs` is then how many are there at a time.

    Returns
    -------
    RunSummary
        A line for each notebook is printed as it ends.

    Raises
    ------
    ValueError
        Nothing has run then: unknown profile, notebook, parameter or value; no match for `only`; a notebook
        without parameters cell or gate.
    OSError
        The build folder cannot be written; no scheduler answers.
    BlockingIOError
        Another batch is writing the same profile; the message says which process.
    """
    todo = plan(profile, only)
    cell_default, notebook_default = TIMEOUTS[profile]
    cell_limit = cell_default if cell_timeout is None else cell_timeout
    notebook_limit = notebook_default if notebook_timeout is None else notebook_timeout
    in_interval("cell_timeout", cell_limit, 0, math.inf, closed="neither")
    in_interval("notebook_timeout", notebook_limit, 0, math.inf, closed="neither")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")

    summary = RunSummary()
    with _claimed(build_dir() / profile):
        if not force:
            earlier = [_accepted(job) for job in todo]
            summary.skipped.extend(result.name for result in earlier if result and result.current)
            todo = [job for job in todo if job.name not in summary.skipped]
        for name in summary.skipped:
            print(_line(name, 0.0, "skipped (unchanged)"))
        if todo:
            with tqdm(total=len(todo), unit="notebook", disable=None, dynamic_ncols=True) as bar:
                limits = (cell_limit, notebook_limit)
                if scheduler is None:
                    ended = _run_here(todo, limits, jobs, client, bar)
                else:
                    from dprepro.kit.remote import outcomes  # Dask takes half a second, as below

                    ended = outcomes(scheduler, todo, limits, jobs, bar.write)
                with closing(ended):
                    _report(ended, summary, bar)
    return summary


def accepted(profile: str) -> list[Accepted]:
    """Return the complete results of a profile by name, without those whose files were touched since."""
    return [result for job in plan(profile) if (result := _accepted(job))]


def _accepted(job: Job) -> Accepted | None:
    manifest = job.manifest()
    if manifest is None:
        return None
    return Accepted(job.name, job.path(".out"), job.path(".ipynb"), manifest["inputs"] == job.inputs)


def _run_here(
    todo: list[Job], limits: tuple[float, float], jobs: int | None, client: "Client | None", bar: tqdm
) -> Generator[tuple[Job, Outcome]]:
    # Imported here: Dask takes half a second, which `list` and `ledger` need not wait for.
    import dask

    from dprepro.base.cluster import cores, finished, local_client

    with ExitStack() as stack:
        if client is None:
            stack.enter_context(dask.config.set(UNWATCHED))
            client = stack.enter_context(local_client(min(jobs or cores(), len(todo))))
        width = jobs or sum(client.nthreads().values()) or 1
        started: set[str] = set()

        def in_hand(running: list[Job]) -> None:
            new = [job.name for job in running if job.name not in started]
            started.update(new)
            bar.set_description_str(", ".join(job.name for job in running))
            if bar.disable:  # no terminal: one line when a notebook starts instead
                for name in new:
                    print(_line(name, 0.0, "started"), flush=True)

        for job, future in finished(client, partial(_execute, limits=limits), todo, width, in_hand):
            failure = future.exception()
            yield job, Outcome(0.0, f"its worker ended: {failure!r}") if failure else future.result()


def _report(ended: Iterator[tuple[Job, Outcome]], summary: RunSummary, bar: tqdm) -> None:
    for job, outcome in ended:
        if outcome.error:
            summary.failed.append(job.name)
            summary.errors[job.name] = outcome.error
        else:
            summary.ok.append(job.name)
        bar.write(_line(job.name, outcome.seconds, _verdict(job, outcome)), file=sys.stdout)
        bar.update()
    for names in (summary.ok, summary.failed):
        names.sort()


def _execute(job: Job, limits: tuple[float, float]) -> Outcome:
    # papermill takes two seconds to import, which only the workers need to spend.
    from dprepro.kit.execute import execute

    return execute(job, *limits)


def _line(name: str, seconds: float, outcome: str) -> str:
    return f"{name:<44} {seconds:8.1f} s  {outcome}"


def _verdict(job: Job, outcome: Outcome) -> str:
    if not outcome.error:
        return "ok" if outcome.attempts == 1 else "ok (its kernel died and was started again)"
    kept = job.path(".failed.ipynb")
    where = f" ({os.path.relpath(kept)})" if kept.exists() else ""
    return f"failed: {shorten(outcome.error, 160, placeholder=' ...')}{where}"


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Make sure that `folder` can be written and is ours alone; sweep what a killed batch left there."""
    with locked(folder / ".lock", f"another batch is writing {folder}"):
        for stale in [*folder.rglob("*.tmp-*"), *folder.rglob(".*.tmp")]:
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
        yield
