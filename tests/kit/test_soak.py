"""A soak: batches that are killed, meet a full or read-only disk or a clock that jumps, one after the other.

Run as a script, this file is the process that forks the batches and reads along. A notebook's cells are executed
in the batch's own process instead of a kernel, and one after the other instead of by Dask; all that writes is the
real thing. DPREPRO_SOAK=200 makes it 200 batches instead of 20.
"""

import csv
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest

from dprepro.base import paths

DATA = paths.DATA
NAMES = ("toy/a", "toy/b", "toy/c")
MODES = ("whole", "killed", "killed", "killed", "full", "large", "read-only", "clock")
JUDGE = """from dprepro.base.paths import output_dir
from dprepro.base.store import write_atomic
from dprepro.kit import claims
printed = claims.load_reported("retidp", "table1").iloc[place : place + 2]
claims.save([claims.judge(row, seed + .5, recipe="as_stated") for _, row in printed.iterrows()])
write_atomic(output_dir() / "figures" / "large.bin", bytes([seed % 256]) * 1_500_000)"""


BATCHES = int(os.environ.get("DPREPRO_SOAK", "20"))
SECONDS = 60 + 15 * BATCHES  # half a second each when nothing else runs


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.timeout(SECONDS + 60)
def test_every_surviving_row_is_right(house: Any) -> None:
    for name in ("retidp.csv", "claims.csv"):
        lines = (DATA / "reported" / name).read_text().splitlines(keepends=True)
        kept = [line for line in lines[1:] if name == "retidp.csv" or line.startswith("retidp-")]
        (house.root / "data" / "reported" / name).write_text("".join(lines[:1] + kept))
    (house.root / "data" / "reported" / "toy.csv").unlink()
    for place, name in enumerate(NAMES):
        house.notebook(name, JUDGE, parameters=f"seed = 0\nplace = {2 * place}")
    found = subprocess.run(
        [sys.executable, __file__, str(house.root), str(BATCHES)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    told = json.loads(found.stdout.splitlines()[-1])
    print(told)
    assert sum(told["modes"].values()) == BATCHES
    assert told["ended badly"] > BATCHES / 10
    assert told["rows read"] > BATCHES
    # A kill inside `gather` leaves its half file in build, under a name that nothing reads.
    assert [left for left in house.leftovers() if "laptop" in left] == []


# --- the process that forks -------------------------------------------------------------------------------------


def main(root: Path, batches: int) -> None:
    """Run batches on `root`, look at all files while they run and after, and print what happened as JSON."""
    rng = random.Random(5)
    seeds = dict.fromkeys(NAMES, 0)
    told: dict[str, Any] = {"modes": Counter(), "ended badly": 0, "rows read": 0, "looks": 0}
    longest = 1.0
    for number in range(batches + 1):
        for name in NAMES:
            if number == 0 or rng.random() < 0.5:
                seeds[name] = set_seed(root, name, rng.randrange(1000))
        mode = "whole" if number in (0, batches) else rng.choice(MODES)
        delay = rng.uniform(0, longest)
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            run_one(mode, rng.random())
        status = None
        while status is None:
            if mode == "killed" and time.monotonic() > start + delay:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                break
            pid, code = os.waitpid(child, os.WNOHANG)
            status = code if pid else None
            told["rows read"] += len(list(rows(root)))
            told["looks"] += 1
            time.sleep(0.01)
        if mode == "whole":
            assert status == 0, f"batch {number} ended with {status}"
            longest = time.monotonic() - start
        told["modes"][mode] += number < batches
        told["ended badly"] += status != 0
        told["rows read"] += len(list(rows(root)))
    # The last batch was left alone: all is there, and of the last seeds.
    last = {name: {value for whose, value in rows(root) if whose == name} for name in NAMES}
    assert last == {name: {seeds[name] + 0.5} for name in NAMES}, last
    print(json.dumps(told))


def rows(root: Path) -> Iterator[tuple[str, float]]:
    """Yield (notebook, recomputed) of what a reader accepts now; assert that each file is whole and right."""
    from dprepro.kit.plan import Job

    build = root / "build"
    for name in NAMES:
        job = Job(name, "laptop", root, build, root, {}, 0, {}, {})
        for ending in (".manifest.json", ".failed.json", ".ipynb", ".failed.ipynb"):
            if job.path(ending).exists():
                json.loads(job.path(ending).read_bytes())
        manifest = job.manifest()
        if manifest is not None:
            try:
                text = (job.path(".out") / "rows.csv").read_text()
            except FileNotFoundError:  # replaced between the two looks
                continue
            if job.manifest() != manifest:
                continue
            found = {float(row["recomputed"]) for row in csv.DictReader(text.splitlines())}
            assert found == {manifest["seed"] + 0.5}, (name, found, manifest["seed"])
            yield name, found.pop()
    if (build / "ledger.csv").exists():
        text = (build / "ledger.csv").read_text()
        whole = list(csv.DictReader(text.splitlines()))
        assert text.endswith("\n")
        assert len(whole) >= 26, "half a ledger"
        for row in whole:
            assert bool(row["notebook"]) == bool(row["recomputed"]), row
            assert not row["notebook"] or float(row["recomputed"]) % 1 == 0.5, row


def set_seed(root: Path, name: str, seed: int) -> int:
    """Give a notebook another seed."""
    path = root / "notebooks" / f"{name}.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[0].source = f"seed = {seed}\n" + book.cells[0].source.split("\n", 1)[1]
    nbformat.write(book, path)
    return seed


def run_one(mode: str, chance: float) -> None:
    """Run one batch and gather its ledger in this forked process, under what `mode` says; never returns."""
    from dprepro.kit import batch, execute, ledger

    def attempt(job: Any, place: Path, results: Path, limits: Any, record: Any) -> tuple[str, bool]:
        execute._write_source(job, place)
        book = nbformat.read(place, as_version=4)
        os.environ["DPREPRO_OUT"] = str(results)
        names: dict[str, Any] = {}
        for count, cell in enumerate(book.cells, start=1):
            exec(cell.source, names)
            cell.execution_count = count
            cell.metadata.papermill = {"status": "completed"}
        book.metadata.papermill = {}
        nbformat.write(book, place)
        return execute._judge(job, book, record), False

    def one_by_one(todo: Any, limits: Any, *_: Any) -> Iterator[Any]:
        for job in todo:
            yield job, execute.execute(job, *limits)

    execute._attempt = attempt  # type: ignore[assignment]
    batch._run_here = one_by_one  # type: ignore[assignment]
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    break_disk_or_clock(mode, chance)
    status = 1
    try:
        failed = batch.run(jobs=1).failed
        ledger.gather()
        status = 1 if failed else 0
    except OSError:
        if mode == "whole":
            traceback.print_exc()
        status = 2
    finally:
        os._exit(status)


def break_disk_or_clock(mode: str, chance: float) -> None:
    import resource

    calls = iter(range(int(40 * chance)))
    if mode in ("full", "read-only"):
        # From some call on, everything that reaches the disk fails.
        code = errno.ENOSPC if mode == "full" else errno.EROFS

        def refuse(real: Any, *arguments: Any, **options: Any) -> Any:
            if next(calls, None) is None:
                raise OSError(code, os.strerror(code))
            return real(*arguments, **options)

        for name in (
            ("fsync", "mkdir") if mode == "full" else ("fsync", "mkdir", "replace", "unlink", "rename")
        ):
            setattr(os, name, partial(refuse, getattr(os, name)))
    if (
        mode == "large"
    ):  # a file may have 1.2 MB: enough for the batch to begin, not for what a notebook writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_200_000, 1_200_000))
    if mode == "clock":
        real = time.time
        time.time = lambda: real() + random.uniform(-1e7, 1e7)  # type: ignore[assignment]
        for path in paths.ROOT.rglob("*"):
            if random.random() < 0.3 and path.is_file():
                shifted = real() + random.uniform(-1e7, 1e7)
                os.utime(path, (shifted, shifted))


if __name__ == "__main__":
    # First, so that a fork has it all, and the versions are those of this repository.
    from dprepro.kit import batch, execute, ledger  # noqa: F401

    main_root = Path(sys.argv[1])
    paths.ROOT, paths.DATA, paths.NOTEBOOKS = main_root, main_root / "data", main_root / "notebooks"
    os.environ["DPREPRO_BUILD"] = str(main_root / "build")
    main(main_root, int(sys.argv[2]))
