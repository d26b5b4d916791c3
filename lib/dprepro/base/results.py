"""Saved results: what takes too long for a notebook, computed once and refused as soon as its origin has changed.

data/results/recipes.toml says how each is made, data/results/NAME.json holds the values with a manifest:

    [retidp_delays]
    function = "dprepro.audits.monitor.detection_delay"   # function(key, rng, **parameters) -> dict of JSON values
    items = ["shift_0.1", "shift_0.2"]                     # the keys, or a number n for the keys 0 ... n - 1
    seed = 20240501
    data = ["snapshots/pv.json"]                           # files or folders below data/ that it reads, if any
    [retidp_delays.parameters]
    horizon = 2000

Each item has a random stream of its own, SeedSequence(seed).spawn(n)[i], so one can be recomputed alone, at
full size, and any number of processes gives the same values. (Workers have one BLAS thread; `recompute` runs with
those of its caller, which may move the last digits of a sum.)
"""

import ast
import importlib
import importlib.util
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dprepro.base import paths
from dprepro.base.check import json_value
from dprepro.base.environment import package_versions
from dprepro.base.store import locked, sha256_bytes, sha256_json, sha256_tree, write_atomic

Key = str | int


@dataclass(frozen=True)
class Recipe:
    """One entry of recipes.toml."""

    name: str
    function: str
    items: tuple[Key, ...]
    seed: int
    parameters: Mapping[str, Any]
    data: tuple[str, ...]

    def origin(self) -> dict[str, Any]:
        """Return all that the values depend on: what is asked, and hashes of the code and the data behind it."""
        return {
            "function": self.function,
            "seed": self.seed,
            "parameters": dict(self.parameters),
            "items": list(self.items),
            "code": code_hashes(self.function.rpartition(".")[0]),
            "data": {name: sha256_tree([paths.DATA / name]) for name in self.data},
        }


def names() -> list[str]:
    """Return the names of all saved results, sorted."""
    return sorted(_recipes())


def recipe(name: str) -> Recipe:
    """Return the recipe of a saved result.

    Raises
    ------
    ValueError
        Unknown name, or an entry of recipes.toml that lacks something or has something unknown.
    """
    tables = _recipes()
    if name not in tables:
        raise ValueError(f"no saved result {name!r}; there are: {', '.join(sorted(tables)) or 'none'}")
    table = {"parameters": {}, "data": [], **tables[name]}
    where = f"recipes.toml, {name}"
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"{where}: a name has letters, digits, _ and - only")
    if set(table) != {"function", "items", "seed", "parameters", "data"}:
        raise ValueError(
            f"{where}: needs function, items, seed and may have parameters, data; got {', '.join(table)}"
        )
    if not isinstance(table["seed"], int) or table["seed"] < 0:
        raise ValueError(f"{where}: seed must be an integer of 0 or more, got {table['seed']!r}")
    keys = range(table["items"]) if isinstance(table["items"], int) else table["items"]
    if not keys or len({str(key) for key in keys}) != len(keys):
        raise ValueError(
            f"{where}: items must be a positive number or a list of different keys, got {table['items']}"
        )
    for key, value in table["parameters"].items():
        json_value(f"{where}: parameter {key}", value)
    return Recipe(
        name, table["function"], tuple(keys), table["seed"], table["parameters"], tuple(table["data"])
    )


def load(name: str) -> dict[Key, dict[str, Any]]:
    """Return the values of a saved result by item, in the order of its recipe.

    Raises
    ------
    FileNotFoundError
        It was never made; the message has the command.
    ValueError
        It was made by other code, parameters, seed or data than those here, or its values were edited: the message
        says what differs and has the command.
    """
    wanted = recipe(name)
    command = f"run `python -m dprepro rebuild {name}`"
    try:
        saved = json.loads(_file(name).read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(f"the saved result {name} is missing ({_file(name)}): {command}") from None
    except ValueError as error:
        raise ValueError(f"the saved result {name} is not readable ({error}): {command}") from error
    changed = list(_differences(saved.get("origin", {}), wanted.origin()))
    if saved.get("values_sha256") != sha256_json(saved.get("values")):
        changed.append("its values, edited by hand")
    if changed:
        raise ValueError(
            f"the saved result {name} does not fit any more, changed: {', '.join(changed)}; {command}"
        )
    return {key: saved["values"][str(key)] for key in wanted.items}


def recompute(name: str, key: Key) -> dict[str, Any]:
    """Return one item computed anew at full size, as `load(name)[key]` would hold it.

    Raises
    ------
    ValueError
        Unknown name or key; a function that does not return a dict of finite JSON values.
    """
    wanted = recipe(name)
    if key not in wanted.items:
        raise ValueError(f"key must be an item of {name}, got {key!r}")
    return _compute(key, wanted)


def rebuild(name: str, jobs: int | None = None) -> Path:
    """Compute a saved result by its recipe and store it in data/results.

    Parameters
    ----------
    name : str
    jobs : int, optional
        Worker processes, by default one for each core; the values do not depend on it.

    Returns
    -------
    Path
        The file written. Finished items are kept in the build folder until then, so that a rebuild that was
        interrupted goes on with the items it had in hand.

    Raises
    ------
    ValueError
        Unknown name; a function that does not return a dict of finite JSON values.
    BlockingIOError
        Another process is rebuilding it.
    """
    from dprepro.base.cluster import cores, finished, local_client

    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    wanted = recipe(name)
    origin = wanted.origin()
    folder = paths.build_dir() / "results"
    with locked(folder / f".{name}.lock", f"another process is rebuilding {name}"):
        checkpoint = folder / f"{name}.{sha256_json(origin)[:16]}.jsonl"
        values = dict(_finished_items(checkpoint))
        todo = [key for key in wanted.items if str(key) not in values]
        if todo:
            width = min(jobs or cores(), len(todo))
            with (
                tqdm(
                    desc=name, total=len(wanted.items), initial=len(values), unit="item", disable=None
                ) as bar,
                checkpoint.open("a", encoding="utf-8") as log,
                local_client(width) as client,
            ):
                for key, future in finished(
                    client, partial(_compute, wanted=wanted), todo, width, lambda _: bar.refresh()
                ):
                    values[str(key)] = future.result()
                    log.write(json.dumps([str(key), values[str(key)]]) + "\n")
                    log.flush()
                    os.fsync(log.fileno())
                    bar.update()
        if wanted.origin() != origin:
            raise ValueError(f"code or data of {name} changed during the rebuild: rebuild it again")
        ordered = {str(key): values[str(key)] for key in wanted.items}
        content = {
            "name": name,
            "origin": origin,
            "versions": package_versions(),
            "values_sha256": sha256_json(ordered),
        }
        write_atomic(_file(name), json.dumps({**content, "values": ordered}, indent=1) + "\n")
        for used in folder.glob(f"{name}.*.jsonl"):
            used.unlink()
    return _file(name)


def code_hashes(module: str) -> dict[str, str]:
    """Return a hash for a module and for every module of its package or of dprepro that it imports, transitively.

    The hash is of the code alone, without comments, docstrings and layout: better prose does not cost a day of
    computing. Imports are found in the source, also those inside functions; nothing is imported.

    Raises
    ------
    ValueError
        There is no such module.
    """
    families = {module.partition(".")[0], "dprepro"} - {""}
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in families:
            continue
        source = _source(name)
        if source is None:
            continue  # `from package import something` names a function as often as a module
        tree = ast.parse(source.read_bytes())
        parent = name.rpartition(".")[0]
        waiting += [parent, *_imports(tree, name if source.name == "__init__.py" else parent)]
        found[name] = _hash(tree)
    if module not in found:
        raise ValueError(f"no module {module!r}: recipes.toml needs the full dotted name of a function")
    return dict(sorted(found.items()))


def _source(module: str) -> Path | None:
    top, *rest = module.split(".")
    # Looked up by path below the top package: find_spec of a module imports the packages above it.
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return None
    base = Path(spec.submodule_search_locations[0], *rest)
    return next((path for path in (base / "__init__.py", Path(f"{base}.py")) if path.is_file()), None)


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(source, package) if node.level else source
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _hash(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node):
            node.body = node.body[1:]
    return sha256_bytes(ast.dump(tree).encode())


def _recipes() -> dict[str, dict[str, Any]]:
    file = paths.DATA / "results" / "recipes.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _file(name: str) -> Path:
    return paths.DATA / "results" / f"{name}.json"


def _differences(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for part, now in wanted.items():
        then = saved.get(part)
        if isinstance(now, dict) and isinstance(then, dict):
            yield from (f"{part} {key}" for key in sorted({*now, *then}) if now.get(key) != then.get(key))
        elif now != then:
            yield part


def _compute(key: Key, wanted: Recipe) -> dict[str, Any]:
    module, _, attribute = wanted.function.rpartition(".")
    function: Callable[..., dict[str, Any]] = getattr(importlib.import_module(module), attribute)
    child = np.random.SeedSequence(wanted.seed).spawn(len(wanted.items))[wanted.items.index(key)]
    found = function(key, np.random.default_rng(child), **wanted.parameters)
    if not isinstance(found, dict):
        raise ValueError(f"{wanted.function} must return a dict for each item, got {type(found).__name__}")
    try:
        return json.loads(json.dumps(found, allow_nan=False, default=_plain))
    except ValueError as error:
        raise ValueError(
            f"{wanted.function}, item {key!r}: values must be finite ({error}); write None for none"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a saved result holds JSON values and arrays, got {type(value).__name__}")


def _finished_items(checkpoint: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with suppress(FileNotFoundError):
        for line in checkpoint.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the line that was being written when the process was killed
                key, found = json.loads(line)
                yield key, found
