"""Tasks on a real scheduler and workers over TCP: versions, data, errors, and what happens when something dies."""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dprepro.base import remote
from dprepro.base.remote import Answer, Task, carried_out
from dprepro.base.remote_code import identity

TOYS = '''"""Tasks that leave a trace."""
import os, sys, time
from pathlib import Path


def note(log, key, until=None):
    """Write a line in a log, then wait for a file if one is named."""
    with open(log, "a") as stream:
        print(key, os.getpid(), file=stream)
    while until and not Path(until).exists():
        time.sleep(.05)
    return key * key


def read(name):
    from dprepro.base import paths
    return (paths.DATA / name).read_text(), str(paths.ROOT), os.environ["OMP_NUM_THREADS"], os.getcwd()


def leave(status):
    print("one last word", flush=True)
    os._exit(status)
'''


@pytest.fixture(scope="module")
def cluster(tcp_cluster: Any) -> Any:
    """A scheduler and two workers."""
    (tcp_cluster.toys / "toys.py").write_text(TOYS)
    tcp_cluster.start_scheduler()
    for name in ("one", "two"):
        tcp_cluster.start_worker(name)
    return tcp_cluster


@pytest.fixture
def notes(tmp_path: Path) -> Callable[..., list[Task]]:
    """Return a maker of tasks that write in a log; `hold` names those that wait for the file `go`."""

    def make(n: int, hold: int = -1) -> list[Task]:
        wait = str(tmp_path / "go")
        return [
            Task(
                str(key),
                "toys.note",
                {"log": str(tmp_path / "log"), "key": key, "until": wait if key == hold else None},
            )
            for key in range(n)
        ]

    return make


def runs(tmp_path: Path) -> Counter[str]:
    """Return how often each task has been started."""
    log = tmp_path / "log"
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


def child_of(name: str, tmp_path: Path) -> int:
    """Return the process in which a task was first started."""
    lines = (tmp_path / "log").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == name)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.05)


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=60)
    return alive == []


def values(answers: Iterator[tuple[Task, Answer]]) -> dict[str, Any]:
    found = {task.name: answer for task, answer in answers}
    assert {answer.error for answer in found.values()} <= {""}
    return {name: answer.value for name, answer in found.items()}


def test_data_that_a_worker_lacks_goes_with_the_task(cluster: Any, checkout: Any) -> None:
    """Each worker's own folder has no data at all."""
    (checkout.root / "data" / "reported" / "toy.csv").write_text("value\n1\n")
    tasks = [Task(str(n), "toys.read", {"name": "reported/toy.csv"}) for n in range(8)]
    found = values(carried_out(cluster.address, tasks))
    assert len(found) == 8
    places = set()
    for text, root, threads, folder in found.values():
        assert text == "value\n1\n"
        assert threads == "1"
        places.add(Path(root).relative_to(cluster.folder).parts[0])
        assert str(cluster.folder) in folder
    assert places <= {"one", "two"}
    # Another state of the data is another checkout.
    (checkout.root / "data" / "reported" / "toy.csv").write_text("value\n2\n")
    (again,) = values(carried_out(cluster.address, tasks[:1])).values()
    assert again[0] == "value\n2\n"


def test_errors_are_those_of_the_task_alone(cluster: Any, checkout: Any, notes: Any) -> None:
    tasks = [
        Task("bad", "toys.read", {"name": "none"}),
        Task("left", "toys.leave", {"status": 3}),
        Task("unknown", "toys.nothing", {}),
        *notes(3),
    ]
    found = {task.name: answer for task, answer in carried_out(cluster.address, tasks, jobs=1)}
    assert "FileNotFoundError" in found["bad"].error
    assert found["left"].error == "its process ended with status 3 (its last output: one last word)"
    assert "has no attribute 'nothing'" in found["unknown"].error
    assert [found[str(n)].value for n in range(3)] == [0, 1, 4]


def test_a_worker_of_another_version_is_refused_by_name(cluster: Any, checkout: Any, notes: Any) -> None:
    said: list[str] = []
    name = "other"
    cluster.start_worker(name, __main__="x = 1\n")
    wait_for(lambda: "Registered to" in cluster.log(name) or "Starting established" in cluster.log(name))
    answers = carried_out(cluster.address, notes(12), say=said.append)
    assert len(values(answers)) == 12
    here, there = identity()["dprepro"], said[0].split("dprepro ")[1].split(" there")[0]
    assert said == [
        f"worker {said[0].split()[1]} is refused: dprepro {there} there, {here} here",
    ]
    assert said[0].split()[1].startswith("tcp://127.0.0.1:")
    assert there != here
    cluster.stop_worker(name)


def test_nobody_waits_any_more(cluster: Any, checkout: Any, notes: Any, tmp_path: Path) -> None:
    answers = carried_out(cluster.address, notes(3, hold=2), jobs=3)
    assert sorted(next(answers)[0].name for _ in range(2)) == ["0", "1"]
    wait_for(lambda: runs(tmp_path)["2"])
    process = psutil.Process(child_of("2", tmp_path))
    answers.close()
    assert gone([process])


def test_worker_killed_and_scheduler_restarted_midway(
    cluster: Any, checkout: Any, notes: Any, tmp_path: Path
) -> None:
    said: list[str] = []
    answers = carried_out(cluster.address, notes(10, hold=1), jobs=4, say=said.append)
    done = [next(answers)]
    wait_for(lambda: runs(tmp_path)["1"])
    pid = child_of("1", tmp_path)
    (name,) = (
        name
        for name, process in cluster.workers.items()
        if pid in {child.pid for child in psutil.Process(process.pid).children()}
    )
    assert gone(cluster.stop_worker(name))
    wait_for(lambda: runs(tmp_path)["1"] == 2)  # given to the other worker by the scheduler
    before = runs(tmp_path)
    (other,) = cluster.workers
    family = psutil.Process(cluster.workers[other].pid).children(recursive=True)
    cluster.stop_scheduler()
    assert gone(family)  # a worker that has lost its scheduler ends, with what it had in hand
    cluster.workers.pop(other).wait(60)
    cluster.start_scheduler()
    for restarted in ("one", "two"):
        cluster.start_worker(restarted)
    (tmp_path / "go").touch()
    answered = {task.name for task, _ in done}
    done += answers
    assert sorted(answer.value for _, answer in done) == [n * n for n in range(10)]
    after = runs(tmp_path)
    assert {after[name] for name in answered} == {1}
    # At most what was in hand was started again: two a thread.
    assert after["1"] == 3
    assert sum(after.values()) - sum(before.values()) <= 10 - len(answered)
    assert [line for line in said if "is back" in line]


def test_arguments_that_are_wrong(checkout: Any, notes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_CONNECT", 0.5)
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        next(carried_out("tcp://127.0.0.1:9", notes(1), jobs=0))
    with pytest.raises(ValueError, match="scheduler must be an address like tcp://host:8786, got None"):
        next(carried_out(None, notes(1)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scheduler must be an address like tcp://host:8786, got 'nowhere'"):
        next(carried_out("nowhere", notes(1)))
    with pytest.raises(OSError, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
        next(carried_out("tcp://127.0.0.1:9", notes(1)))


def test_only_workers_that_do_not_fit(tcp_cluster: Any, cluster: Any, checkout: Any, notes: Any) -> None:
    """Comes last: every worker's dprepro now differs from the client's."""
    (checkout.root / "lib" / "dprepro" / "__main__.py").write_text("y = 2\n")
    with pytest.raises(ValueError, match=r"no worker of the cluster fits. tcp:.*dprepro .* there, .* here"):
        list(carried_out(cluster.address, notes(2)))
    assert os.getpid() not in {process.pid for process in cluster.workers.values()}


@pytest.mark.parametrize("content", [None, "value\n2\n"])
def test_data_that_changes_meanwhile_is_an_error_and_no_lost_connection(checkout: Any, content: Any) -> None:
    file = checkout.root / "data" / "reported" / "toy.csv"
    file.write_text("value\n1\n")
    dispatch = remote._Dispatch(remote._needs(), deque(), None, print)
    dispatch.lacking["task"].add("reported/toy.csv")
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"data/reported/toy\.csv changed while tasks were on the cluster"):
        dispatch._submit(None, Task("task", "toys.note", {}), [])  # type: ignore[arg-type]
