"""Notebooks on workers over TCP, each in its own folder: the ledger of a local batch, whatever dies on the way."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from dprepro.base import paths
from dprepro.kit import batch, ledger, plan, remote

DATA = paths.DATA
MORE = (
    "DPREPRO_SOAK" in os.environ
)  # also four workers and one: a minute of processor time, so not in every run
pytestmark = pytest.mark.timeout(1800 if MORE else 600)
NOTE = """
import time
from pathlib import Path
folder = Path({folder!r})
print({name!r}, file=(folder / "runs").open("a"))
"""
JUDGE = """import numpy as np
from dprepro.base.paths import DATA, output_dir
from dprepro.base.store import write_atomic
from dprepro.kit import claims
rng = np.random.default_rng(seed)
printed = claims.load_reported("retidp", "table1").iloc[first : first + 3]
claims.save([claims.judge(row, float(rng.normal()), 0.1, recipe="as_stated") for _, row in printed.iterrows()])
write_atomic(output_dir() / "figures" / "toy" / "one.csv", f"x\\n{rng.normal()}\\n")"""
HOLD = """
while (folder / "hold").exists():
    time.sleep(.05)"""


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.05)


@pytest.fixture
def client(checkout: Any, tmp_path: Path) -> Any:
    """A house with two notebooks that judge printed numbers; toy/b waits while the file `hold` is there."""
    shutil.rmtree(checkout.root / "data" / "reported")
    shutil.copytree(DATA / "reported", checkout.root / "data" / "reported")
    note = NOTE.format(folder=str(tmp_path), name="{}")
    for number, (name, hold) in enumerate({"a": "", "b": HOLD}.items()):
        checkout.notebook(
            f"toy/{name}",
            note.format(name) + hold,
            JUDGE,
            parameters=f"seed = {number}\nfirst = {3 * number}",
        )
    return checkout


DRIVER = """
import sys
from pathlib import Path
from dprepro.base import paths
from dprepro.kit import batch
root = Path(sys.argv[1])
paths.ROOT, paths.DATA, paths.NOTEBOOKS = root, root / "data", root / "notebooks"
batch.run(scheduler=sys.argv[2])
"""


@dataclass
class Scene:
    """The cluster, the client's house and a folder that all processes of this test see."""

    cluster: Any
    client: Any
    shared: Path

    def runs(self) -> str:
        """Return the notebooks started since the last `ledger`, one letter each."""
        log = self.shared / "runs"
        return "".join(sorted(log.read_text().split())) if log.exists() else ""

    def ledger(self) -> dict[str, bytes]:
        """Gather, and return the ledger and what it was gathered from."""
        ledger.gather()
        build = paths.build_dir()
        files = [build / "ledger.csv", build / "claims.csv", *(build / "laptop").rglob("*.out/**/*.csv")]
        assert [left for left in build.rglob("*") if "tmp" in left.name] == []
        (self.shared / "runs").unlink()
        return {str(file.relative_to(build)): file.read_bytes() for file in files}

    @contextmanager
    def b_in_hand(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a batch in a process of its own; go on when toy/a is finished and toy/b has started."""
        (self.shared / "hold").touch()
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(self.client.root), self.cluster.address]
        )
        finished = paths.build_dir() / "laptop" / "toy" / "a.manifest.json"
        try:
            wait_for(lambda: self.runs() == "ab" and finished.exists())
            yield process
        finally:
            process.kill()
            process.wait()
            (self.shared / "hold").unlink(missing_ok=True)

    def busy(self) -> list[str]:
        """Return the workers below which more runs than one process that waits."""
        family = {name: psutil.Process(process.pid) for name, process in self.cluster.workers.items()}
        return [name for name, worker in family.items() if len(worker.children(recursive=True)) > 1]


def test_same_ledger_on_workers_and_here(
    tcp_cluster: Any, client: Any, workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tcp_cluster, client, tmp_path)

    def build_in(name: str) -> None:
        monkeypatch.setenv("DPREPRO_BUILD", str(client.root / "build" / name))

    build_in("here")
    assert batch.run(client=workers).ok == ["toy/a", "toy/b"]
    here = scene.ledger()
    assert here.keys() >= {"ledger.csv", "laptop/toy/b.out/rows.csv", "laptop/toy/b.out/figures/toy/one.csv"}
    assert here["ledger.csv"].count(b"toy/b") == 3

    tcp_cluster.start_scheduler()
    if MORE:
        for name in ("one", "two", "three", "four"):
            tcp_cluster.start_worker(name)
        build_in("four")
        assert batch.run(scheduler=tcp_cluster.address).ok == ["toy/a", "toy/b"]
        assert scene.runs() == "ab"
        assert scene.ledger() == here
        for name in ("three", "four"):
            tcp_cluster.stop_worker(name)
    else:
        for name in ("one", "two"):
            tcp_cluster.start_worker(name)

    # Two workers: the client is killed, with one notebook finished and one in hand, and started again.
    build_in("two")
    with scene.b_in_hand() as process:
        process.kill()
        process.wait()
        wait_for(lambda: scene.busy() == [])  # what nobody waits for any more ends
    summary = batch.run(scheduler=tcp_cluster.address)
    assert (summary.ok, summary.skipped, summary.failed) == (["toy/b"], ["toy/a"], [])
    assert scene.runs() == "abb"
    assert scene.ledger() == here
    executed = (paths.build_dir() / "laptop/toy/b.ipynb").read_text()
    assert str(tcp_cluster.folder) not in executed
    assert os.fspath(client.root) not in executed
    assert all(job.manifest()["inputs"] == job.inputs for job in plan.plan("laptop"))

    if MORE:  # one worker is left, after the other was killed with a notebook in hand
        build_in("one")
        with scene.b_in_hand() as process:
            (busy,) = scene.busy()
            tcp_cluster.stop_worker(busy)
            wait_for(lambda: scene.runs() == "abb")
            (tmp_path / "hold").unlink()
            assert process.wait(120) == 0
        assert scene.ledger() == here


# --- what comes back, without any cluster -----------------------------------------------------------------------


@pytest.fixture
def came_back(house: Any, run: Any) -> tuple[plan.Job, dict[str, Any]]:
    """A job, and what a worker would send for it."""
    house.notebook("toy/a", "from dprepro.base.paths import output_dir\n(output_dir() / 'x').write_text('1')")
    (job,) = plan.plan("laptop")
    assert run().ok == ["toy/a"]
    files = {ending: job.path(ending).read_bytes() for ending in (".ipynb", ".manifest.json")}
    shutil.rmtree(job.build / "laptop")
    outcome = {"seconds": 1.0, "error": "", "attempts": 1}
    return job, {**outcome, "files": files, "results": {"x": b"1"}}


def test_what_is_not_whole_is_not_put_in_place(came_back: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job, value = came_back
    manifest = value["files"][".manifest.json"]
    other = json.dumps({**json.loads(manifest), "inputs": {}}).encode()
    wrong = {
        "does not fit its manifest": [
            {"results": {}},
            {"results": {"x": b"2"}},
            {"results": {"x": b"1", "y": b""}},
            {"files": {**value["files"], ".ipynb": b"{}"}},
        ],
        "is of other inputs": [{"files": {**value["files"], ".manifest.json": other}}],
        "is no complete run": [
            {"files": {**value["files"], ".manifest.json": manifest[:-9]}},
            {"files": {".ipynb": b""}},
        ],
    }
    for problem, cases in wrong.items():
        for case in cases:
            assert problem in remote.receive(job, {**value, **case}).error
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert "No space left on device" in remote.receive(job, value).error
    assert [file for file in (job.build / "laptop").rglob("*") if file.is_file()] == []
    assert remote.receive(job, value) == plan.Outcome(1.0)
    assert job.manifest() == json.loads(manifest)
    # A failure leaves what was there, and lies beside it.
    failed = {**value, "error": "cell 2: no", "files": {".failed.ipynb": b"{}", ".failed.json": b"{}"}}
    assert remote.receive(job, failed).error == "cell 2: no"
    assert job.manifest() is not None
    assert job.path(".failed.json").read_bytes() == b"{}"
    assert remote.receive(job, value).error == ""
    assert not job.path(".failed.json").exists()
