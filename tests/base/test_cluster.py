"""Workers that end with their owner, and tasks handed out one by one."""

import os
import time
from typing import Any

import psutil
import pytest

from dprepro.base.cluster import finished, local_client


def test_worker_that_dies_takes_its_task_with_it() -> None:
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"), local_client(0):
        pass
    with local_client(1) as client:
        pid = client.submit(os.getpid).result()
        ended = [future.status for _, future in finished(client, os._exit, [3], 1, lambda running: None)]
        assert ended == ["error"]
    assert not psutil.pid_exists(pid)


def test_tasks_are_handed_out_one_by_one(workers: Any) -> None:
    seen: list[list[float]] = []
    tasks = [0.0, 0.01, 0.02, 1.2]
    done = [
        task
        for task, _ in finished(workers, time.sleep, tasks, 2, lambda running: seen.append(list(running)))
    ]
    assert sorted(done) == tasks
    assert max(map(len, seen)) == 2
    assert seen[0] == [0.0, 0.01]
    assert seen.count([1.2]) >= 1
