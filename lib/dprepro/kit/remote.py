"""Notebooks of a batch on a Dask cluster beyond this machine.

The notebook goes with its task and is executed there as `execute` does it here; the executed notebook, its results
folder and its manifest come back and are put in place by the client, so the build folder looks as after a local
batch and an interrupted run goes on from it.
"""

import json
import secrets
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.remote import Task, carried_out
from dprepro.base.store import sha256_bytes, sha256_tree, write_atomic
from dprepro.kit.accept import accept, keep_failed
from dprepro.kit.plan import Job, Outcome

_SENT = ("name", "profile", "parameters", "seed", "inputs", "versions")  # of a job; its places differ there


def outcomes(
    address: str,
    jobs: Sequence[Job],
    limits: tuple[float, float],
    width: int | None = None,
    say: Callable[[str], object] = print,
) -> Generator[tuple[Job, Outcome]]:
    """Execute notebooks on a cluster, put their results in place here and yield each job with its outcome.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.5:8786".
    jobs : sequence of Job
    limits : (float, float)
        Seconds for one cell and for one notebook.
    width, say
        As jobs and say of `remote.carried_out`, which also names the errors.
    """
    by_name = {job.name: job for job in jobs}
    tasks = [
        Task(
            job.name,
            "dprepro.kit.remote.execute_there",
            {
                "job": {name: getattr(job, name) for name in _SENT},
                "notebook": job.source.read_bytes(),
                "limits": limits,
            },
        )
        for job in jobs
    ]
    with closing(carried_out(address, tasks, width, say)) as answers:
        for task, answer in answers:
            job = by_name[task.name]
            yield job, Outcome(0.0, answer.error) if answer.error else receive(job, answer.value)


def execute_there(job: Mapping[str, Any], notebook: bytes, limits: tuple[float, float]) -> dict[str, Any]:
    """Execute a notebook in this process, on a worker.

    Parameters
    ----------
    job : mapping
        Fields of the Job but for its places, which are this machine's here.
    notebook : bytes
        The source.
    limits : (float, float)
        Seconds for one cell and for one notebook.

    Returns
    -------
    dict
        The fields of the Outcome, "files" (what belongs beside each other in the build folder, content by ending)
        and "results" (content by name below the results folder).
    """
    # As in a local worker: jsonschema would take seconds to build a grammar that no notebook needs.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from dprepro.kit.execute import execute

    build = paths.build_dir()
    source = build / "sources" / f"{job['name']}.ipynb"
    write_atomic(source, notebook)
    here = Job(source=source, build=build, root=paths.ROOT, **job)
    shutil.rmtree(build / here.profile, ignore_errors=True)
    outcome = execute(here, *limits)
    endings = (".failed.ipynb", ".failed.json") if outcome.error else (".ipynb", ".manifest.json")
    files = {ending: here.path(ending).read_bytes() for ending in endings if here.path(ending).exists()}
    folder = here.path(".out")
    results = {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    return {**vars(outcome), "files": files, "results": results}


def receive(job: Job, value: Mapping[str, Any]) -> Outcome:
    """Put what came back for a job in place, if it is whole and of the inputs that were sent."""
    outcome = Outcome(value["seconds"], value["error"], value["attempts"])
    files = value["files"]
    results = job.path(f".out.tmp-{secrets.token_hex(4)}")
    try:
        if outcome.error:
            if ".failed.ipynb" in files and ".failed.json" in files:
                keep_failed(job, files[".failed.ipynb"], files[".failed.json"])
            return outcome
        results.mkdir(parents=True)
        for name, content in value["results"].items():
            write_atomic(results / name, content)
        problem = _problem(job, files, results)
        if not problem:
            accept(job, files[".ipynb"], results, files[".manifest.json"])
    except OSError as error:
        problem = str(error)
    finally:
        shutil.rmtree(results, ignore_errors=True)
    return Outcome(outcome.seconds, problem, outcome.attempts)


def _problem(job: Job, files: Mapping[str, bytes], results: Path) -> str:
    """Return what is wrong with a run that came back as complete, or ''."""
    try:
        manifest = json.loads(files[".manifest.json"])
        whole = manifest["notebook_sha256"] == sha256_bytes(files[".ipynb"])
        whole = whole and manifest["results_sha256"] == sha256_tree(results.iterdir())
        ours = manifest["inputs"] == dict(job.inputs)
    except (ValueError, KeyError) as error:
        return f"what came back is no complete run: {error!r}"
    if not whole:
        return "what came back does not fit its manifest"
    return "" if ours else "what came back is of other inputs than those that were sent"
