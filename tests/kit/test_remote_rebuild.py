"""Saved results on workers over TCP: the file of a local rebuild, with any number of workers, resumed by item."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dprepro.base import paths, results
from dprepro.kit import cli, remote_rebuild

RECIPES = """
[many]
function = "farbox.item"
items = 8
seed = 7
data = ["reported/toy.txt"]

[broken]
function = "farbox.broken"
items = 2
seed = 7
"""
# Not named as the package of tests/base/test_results.py: a worker of the suite that has imported that one would hash
# its code. The log is named by the data, since a worker has nothing else of the client's.
FARBOX = '''"""Items that leave a trace, and may wait for a file."""
import time
from pathlib import Path


def item(key, rng):
    from dprepro.base import paths
    folder = Path((paths.DATA / "reported/toy.txt").read_text())
    with (folder / "runs").open("a") as stream:
        print(key, file=stream)
    while key == 3 and (folder / "hold").exists():
        time.sleep(.05)
    return {"draws": rng.normal(size=3), "key": key}


def broken(key, rng):
    raise RuntimeError("no such luck")
'''


@pytest.fixture
def client(
    checkout: Any, tcp_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[str]]:
    """Recipes for the cluster's farbox; returns a function that lists the items started so far."""
    (tcp_cluster.toys / "farbox").mkdir(exist_ok=True)
    (tcp_cluster.toys / "farbox" / "__init__.py").write_text(FARBOX)
    (paths.DATA / "results").mkdir()
    (paths.DATA / "results" / "recipes.toml").write_text(RECIPES)
    (paths.DATA / "reported/toy.txt").write_text(str(tmp_path))
    monkeypatch.syspath_prepend(tcp_cluster.toys)
    if tcp_cluster.scheduler is None:
        tcp_cluster.start_scheduler()
        tcp_cluster.start_worker("w1")
    return lambda: (tmp_path / "runs").read_text().split() if (tmp_path / "runs").exists() else []


DRIVER = """
import sys
from pathlib import Path
from dprepro.base import paths
root = Path(sys.argv[1])
paths.ROOT, paths.DATA = root, root / "data"
sys.path.insert(0, sys.argv[3])
from dprepro.kit import remote_rebuild
remote_rebuild.rebuild("many", sys.argv[2])
"""


def test_same_file_with_1_2_and_4_workers_and_here(
    tcp_cluster: Any, checkout: Any, client: Any, tmp_path: Path
) -> None:
    cluster, file = tcp_cluster, paths.DATA / "results" / "many.json"

    def there() -> bytes:
        assert cli.main(["rebuild", "many", "--scheduler", cluster.address]) == 0
        assert sorted(client()) == list("01234567")  # each once
        (tmp_path / "runs").unlink()
        found = file.read_bytes()
        file.unlink()
        return found

    one = there()
    cluster.start_worker("w2")
    # The client is killed with an item in hand, and started again.
    (tmp_path / "hold").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(checkout.root), cluster.address, str(cluster.toys)]
    )
    try:
        limit = time.monotonic() + 120
        while len(client()) < 8 or len(checkpoint().read_text().splitlines()) < 7:
            assert time.monotonic() < limit
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (tmp_path / "hold").unlink()
    checkpoint().write_text(checkpoint().read_text() + '["3", {"dr')  # as if killed in mid-line
    assert remote_rebuild.rebuild("many", cluster.address, jobs=3) == file
    assert sorted(client()) == list("012334567")  # only the one in hand again
    two = file.read_bytes()
    file.unlink()
    (tmp_path / "runs").unlink()
    for name in ("w3", "w4"):
        cluster.start_worker(name)
    four = there()
    values = json.loads(one)["values"]
    assert one == two == four
    # What a local rebuild holds.
    assert {int(key): value for key, value in values.items()} == {
        key: results.recompute("many", key) for key in range(8)
    }


def checkpoint() -> Path:
    (found,) = (paths.build_dir() / "results").glob("many.*.jsonl")
    return found


def test_an_item_that_fails_is_named_with_its_traceback(
    tcp_cluster: Any, checkout: Any, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ChildProcessError, match=r"broken, item \d, failed on the cluster: Traceback(.|\n)*no such luck"
    ):
        remote_rebuild.rebuild("broken", tcp_cluster.address)
    with pytest.raises(ValueError, match="no saved result 'none'"):
        remote_rebuild.rebuild("none", tcp_cluster.address)


def test_small_models_are_trained_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dprepro.text import pretrained

    name = pretrained.names()[0]
    monkeypatch.setattr(pretrained, "rebuild", lambda name: pytest.fail("trained"))
    assert cli.main(["rebuild", name, "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert f"{name} is trained on this machine: leave out --scheduler" in capsys.readouterr().err
