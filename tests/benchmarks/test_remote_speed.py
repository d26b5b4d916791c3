"""Stated target of the dispatch over TCP: a trivial task costs at most a tenth of a second, however many there are.

Two workers on this machine. Trivial bodies stand for the dispatch alone; ten notebooks show what a real one costs.
Processor time is told beside wall time, since other work on the machine moves it far less.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from dprepro.base.remote import Task, carried_out
from dprepro.kit import batch

pytestmark = pytest.mark.benchmark


@pytest.fixture(scope="module")
def address(tcp_cluster: Any) -> str:
    tcp_cluster.start_scheduler()
    for name in ("one", "two"):
        tcp_cluster.start_worker(name)
    return tcp_cluster.address


def test_a_trivial_task_costs_at_most_a_tenth_of_a_second(
    address: str, checkout: Any, tcp_cluster: Any
) -> None:
    others = [psutil.Process(one.pid) for one in (tcp_cluster.scheduler, *tcp_cluster.workers.values())]

    def clocks() -> np.ndarray:
        """Wall, the client's processor, that of scheduler and workers."""
        family = [member for one in others for member in (one, *one.children(recursive=True))]
        theirs = sum(sum(member.cpu_times()[:4]) for member in family)  # with children that have ended
        return np.array([time.perf_counter(), time.process_time(), theirs])

    def seconds(n: int) -> np.ndarray:
        tasks = [Task(str(i), "dprepro.base.store.sha256_json", {"obj": [i]}) for i in range(n)]
        start = clocks()
        assert sum(not answer.error for _, answer in carried_out(address, tasks)) == n
        return (clocks() - start) / n

    seconds(4)  # the checkouts of the workers, and their processes
    found = {n: seconds(n) for n in (10, 100, 1000)}
    for n, taken in found.items():
        wall, own, theirs = 1e3 * taken
        print(
            f"\n{n} trivial tasks: {wall:.1f} ms each; processor: the client {own:.1f} ms, "
            f"scheduler and workers {theirs:.1f} ms"
        )
    load = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert found[1000][0] / load <= 0.1


def test_ten_notebooks(address: str, checkout: Any, workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        checkout.notebook(f"toy/n{number}", "x = 1")
    found = {}
    for name, how in {
        "local workers": {"client": workers},
        "workers over TCP": {"scheduler": address},
    }.items():
        monkeypatch.setenv("DPREPRO_BUILD", str(Path(checkout.root) / name))
        batch.run(only="toy/n[01]", force=True, **how)  # papermill is imported
        start = time.perf_counter()
        assert len(batch.run(force=True, **how).ok) == 10
        found[name] = (time.perf_counter() - start) / 10
        print(f"\n10 notebooks on two {name}: {found[name]:.2f} s each")
    assert found["workers over TCP"] <= 2 * found["local workers"] + 0.5
