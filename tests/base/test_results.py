"""Saved results: refused as soon as their origin changes, the same from any number of processes, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from dprepro.base import paths, results

RECIPES = """
[walk]
function = "toybox.walks.walk"
items = ["short", "long"]
seed = 5
data = ["reported"]
[walk.parameters]
steps = 10

[many]
function = "toybox.walks.slow"
items = 6
seed = 7
"""
WALKS = '''"""Random walks."""
from . import helper
import numpy as np


def walk(key, rng, steps):
    """Walk."""
    from toybox.unit import UNIT

    return {"ends": rng.normal(size=3).cumsum() * UNIT, "n": np.int64(helper.length(key, steps)), "none": None}


def slow(key, rng):
    import os, time
    log = os.environ["TOYBOX_LOG"]
    with open(log, "a") as file:
        print(key, os.getpid(), os.environ["OMP_NUM_THREADS"], file=file)
    time.sleep(float(os.environ.get("TOYBOX_SLEEP", "0")))
    return {"value": rng.uniform()}


def bad(key, rng):
    return [1]


def infinite(key, rng):
    return {"x": float("inf")}


def typed(key, rng):
    return {"x": object()}
'''


@pytest.fixture
def box(house: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package `toybox` that this process and its workers can import, and recipes that use it."""
    package = tmp_path / "path" / "toybox"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "walks.py").write_text(WALKS)
    (package / "helper.py").write_text(
        "def length(key, steps):\n    return steps if key == 'short' else 10 * steps\n"
    )
    (package / "unit.py").write_text("from dprepro.base import check\n\nUNIT = 1.0\n")
    (package / "unused.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setenv("TOYBOX_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    for name in [name for name in sys.modules if name.startswith("toybox")]:
        del sys.modules[name]
    (house.root / "data" / "results").mkdir()
    (house.root / "data" / "results" / "recipes.toml").write_text(RECIPES)
    return package


def save(name: str) -> None:
    """Store a result as `rebuild` does, without the workers."""
    recipe = results.recipe(name)
    values = {str(key): results.recompute(name, key) for key in recipe.items}
    content = {"origin": recipe.origin(), "values_sha256": results.sha256_json(values), "values": values}
    (paths.DATA / "results" / f"{name}.json").write_text(json.dumps(content))


def test_rebuild_load_recompute(box: Path) -> None:
    assert results.names() == ["many", "walk"]
    path = results.rebuild("walk", jobs=1)
    assert path == paths.DATA / "results" / "walk.json"
    loaded = results.load("walk")
    assert list(loaded) == ["short", "long"]
    # The oracle: numpy's own child streams.
    for key, child in zip(loaded, np.random.SeedSequence(5).spawn(2), strict=True):
        np.testing.assert_array_equal(
            loaded[key]["ends"], np.random.default_rng(child).normal(size=3).cumsum()
        )
        assert loaded[key] == results.recompute("walk", key)
    assert [item["n"] for item in loaded.values()] == [10, 100]
    stored = json.loads(path.read_text())
    assert set(stored["origin"]["code"]) >= {
        "toybox",
        "toybox.walks",
        "toybox.helper",
        "toybox.unit",
        "dprepro.base.check",
    }
    assert "toybox.unused" not in stored["origin"]["code"]
    assert stored["versions"]["python"]
    assert list((paths.build_dir() / "results").glob("*.jsonl")) == []


def test_any_number_of_processes_gives_the_same_file(box: Path, tmp_path: Path) -> None:
    one = results.rebuild("many", jobs=1).read_bytes()
    two = results.rebuild("many", jobs=2).read_bytes()
    assert one == two
    assert list(results.load("many")) == list(range(6))
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len({process for _, process, _ in lines}) == 3
    assert {threads for *_, threads in lines} == {"1"}


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("walks.py", "cumsum()", "cumprod()", "code toybox.walks"),
        ("helper.py", "10 *", "11 *", "code toybox.helper"),
        ("unit.py", "1.0", "2.0", "code toybox.unit"),
        ("recipes.toml", "steps = 10", "steps = 11", "parameters steps"),
        ("recipes.toml", "seed = 5", "seed = 6", "seed"),
        ("recipes.toml", '"long"]', '"longer"]', "items"),
        ("toy.csv", "1", "2", "data reported"),
        ("walk.json", '"n": 10,', '"n": 12,', "its values, edited by hand"),
    ],
)
def test_any_change_of_origin_is_refused(box: Path, file: str, old: str, new: str, named: str) -> None:
    save("walk")
    assert results.load("walk")["short"]["n"] == 10
    places = {"recipes.toml": "results", "walk.json": "results", "toy.csv": "reported"}
    path = paths.DATA / places[file] / file if file in places else box / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"changed: {named}; run `python -m dprepro rebuild walk`"):
        results.load("walk")


def test_prose_and_modules_it_does_not_use_change_nothing(box: Path) -> None:
    save("walk")
    (box / "walks.py").write_text(
        "# A remark.\n" + WALKS.replace("Random walks", "Walks").replace('"""Walk."""', '"""W."""')
    )
    (box / "unused.py").write_text("x = 2\n")
    assert results.load("walk")["short"]["n"] == 10


def test_code_is_found_without_running_it(box: Path) -> None:
    (box / "unit.py").write_text("raise RuntimeError\n")
    (box / "walks.py").write_text(
        "import toybox.unit, json\nfrom toybox import helper as h\nfrom .nothing import x\n"
    )
    assert list(results.code_hashes("toybox.walks")) == [
        "toybox",
        "toybox.helper",
        "toybox.unit",
        "toybox.walks",
    ]
    assert "toybox.walks" not in sys.modules
    with pytest.raises(ValueError, match=r"no module 'toybox\.none'"):
        results.code_hashes("toybox.none")
    with pytest.raises(ValueError, match=r"no module ''"):
        results.code_hashes("")


def test_missing_and_unreadable(box: Path) -> None:
    with pytest.raises(ValueError, match="no saved result 'other'; there are: many, walk"):
        results.load("other")
    with pytest.raises(FileNotFoundError, match="run `python -m dprepro rebuild walk`"):
        results.load("walk")
    (paths.DATA / "results" / "walk.json").write_text("{")
    with pytest.raises(ValueError, match="not readable.*run `python -m dprepro rebuild walk`"):
        results.load("walk")
    with pytest.raises(ValueError, match="key must be an item of walk, got 'middle'"):
        results.recompute("walk", "middle")
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        results.rebuild("walk", jobs=0)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("[x]\nitems = 1\nseed = 1", "needs function, items, seed"),
        ("[x]\nfunction = 'a.b'\nitems = 1\nseed = 1\nsize = 2", "needs function, items, seed"),
        ("[x]\nfunction = 'a.b'\nitems = []\nseed = 1", "items must be"),
        ("[x]\nfunction = 'a.b'\nitems = ['1', 1]\nseed = 1", "items must be"),
        ("[x]\nfunction = 'a.b'\nitems = 1\nseed = 'one'", "seed must be an integer of 0 or more, got 'one'"),
        (
            "[x]\nfunction = 'a.b'\nitems = 1\nseed = 1\nparameters = {y = nan}",
            "parameter y must be a finite number",
        ),
        ("['x/y']\nfunction = 'a.b'\nitems = 1\nseed = 1", "a name has letters"),
    ],
)
def test_recipes_that_are_wrong(box: Path, entry: str, problem: str) -> None:
    (paths.DATA / "results" / "recipes.toml").write_text(entry)
    with pytest.raises(ValueError, match=problem):
        results.recipe(results.names()[0])


@pytest.mark.parametrize(
    ("function", "error", "problem"),
    [
        ("bad", ValueError, "must return a dict for each item, got list"),
        ("infinite", ValueError, "item 0: values must be finite"),
        ("typed", TypeError, "JSON values and arrays, got object"),
    ],
)
def test_functions_that_return_something_else(
    box: Path, function: str, error: type[Exception], problem: str
) -> None:
    entry = f"[x]\nfunction = 'toybox.walks.{function}'\nitems = 1\nseed = 1"
    (paths.DATA / "results" / "recipes.toml").write_text(entry)
    with pytest.raises(error, match=problem):
        results.recompute("x", 0)


DRIVER = """
import sys
from pathlib import Path
from dprepro.base import paths
root = Path(sys.argv[1])
paths.ROOT, paths.DATA = root, root / "data"
from dprepro.base import results
results.rebuild("many", jobs=1)
"""


def test_kill_loses_only_the_item_in_hand(house: Any, box: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(house.root)], env={**os.environ, "TOYBOX_SLEEP": "0.3"}
    )
    limit = time.monotonic() + 60
    while not log.exists() or len(log.read_text().splitlines()) < 3:
        assert time.monotonic() < limit
        time.sleep(0.02)
    with pytest.raises(BlockingIOError, match=rf"rebuilding many: process {process.pid} on "):
        results.rebuild("many")
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    (checkpoint,) = (house.root / "build" / "results").glob("many.*.jsonl")
    checkpoint.write_text(checkpoint.read_text() + '["5", {"val')  # as if killed in mid-line
    results.rebuild("many", jobs=1)
    keys = [line.split()[0] for line in log.read_text().splitlines()]
    assert sorted(set(keys)) == ["0", "1", "2", "3", "4", "5"]
    assert len(keys) <= 7  # one item was computed twice: the one in hand
    assert results.load("many")[3] == results.recompute("many", 3)
