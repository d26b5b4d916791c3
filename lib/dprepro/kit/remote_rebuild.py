"""Saved results computed on a Dask cluster beyond this machine, item by item.

Finished items are written to the checkpoint of `results.rebuild` (in build/results, a line [key, values] each), so
that either goes on where the other was interrupted. Once the last item is there `results.rebuild` finds nothing to
compute, checks that code and data are still the same, and writes the result.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from tqdm import tqdm

from dprepro.base import paths, results
from dprepro.base.remote import Task, carried_out
from dprepro.base.store import locked, sha256_json


def rebuild(name: str, address: str, jobs: int | None = None) -> Path:
    """Compute a saved result on a cluster and store it in data/results.

    Parameters
    ----------
    name : str
    address : str
        Of the scheduler, such as "tcp://10.0.0.5:8786".
    jobs : int, optional
        Items on the cluster at a time, as in `remote.carried_out`; the values do not depend on it.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ChildProcessError
        An item failed there; the message has the traceback. The finished ones are kept.
    ValueError, BlockingIOError, OSError
        As `results.rebuild` and `remote.carried_out`.
    """
    wanted = results.recipe(name)
    folder = paths.build_dir() / "results"
    with locked(folder / f".{name}.lock", f"another process is rebuilding {name}"):
        checkpoint = folder / f"{name}.{sha256_json(wanted.origin())[:16]}.jsonl"
        done = set(_keys(checkpoint))
        tasks = [
            Task(str(key), "dprepro.base.results.recompute", {"name": name, "key": key})
            for key in wanted.items
            if str(key) not in done
        ]
        with (
            tqdm(desc=name, total=len(wanted.items), initial=len(done), unit="item", disable=None) as bar,
            checkpoint.open("a", encoding="utf-8") as log,
            closing(carried_out(address, tasks, jobs, say=bar.write)) as answers,
        ):
            if log.tell() and not checkpoint.read_bytes().endswith(b"\n"):
                log.write("\n")  # a killed process left half a line
            for task, answer in answers:
                if answer.error:
                    raise ChildProcessError(
                        f"{name}, item {task.name}, failed on the cluster: {answer.error}"
                    )
                log.write(json.dumps([task.name, answer.value]) + "\n")
                log.flush()
                os.fsync(log.fileno())
                bar.update()
    return results.rebuild(name)


def _keys(checkpoint: Path) -> Iterator[str]:
    with suppress(FileNotFoundError):
        for line in checkpoint.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the line that was being written when the process was killed
                yield json.loads(line)[0]
