"""What a batch is to run: notebooks, their parameters, and the hashes that make a result current.

A notebook is named by folder and stem, `snapaudit/table1_classification`. A profile gives it parameters in
notebooks/profiles.toml (TOML, because YAML 1.1 reads 1e-5 as text); every name and value is checked before
anything runs, since papermill ignores unknown names and writes NaN as invalid JSON.
"""

import ast
import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dprepro.base import paths
from dprepro.base.check import json_value, one_of
from dprepro.base.environment import package_versions
from dprepro.base.store import sha256_file, sha256_json, sha256_tree

PROFILES = ("smoke", "laptop", "paper")
# Folders whose content every notebook depends on; looked at again when it has run.
WATCHED = {"lib": "lib/dprepro", "data": "data"}


@dataclass(frozen=True)
class Job:
    """One notebook under one profile, with all that a worker on another machine needs to run it.

    `inputs` are the hashes that make a result current: of the notebook's cells and parameters, of each folder in
    WATCHED, of the locks and of the installed versions.
    """

    name: str
    profile: str
    source: Path
    build: Path
    root: Path
    parameters: Mapping[str, Any]
    seed: Any
    inputs: Mapping[str, str]
    versions: Mapping[str, str]

    def path(self, ending: str) -> Path:
        """Return build/<profile>/<paper>/<notebook><ending>."""
        return self.build / self.profile / f"{self.name}{ending}"

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest of the last good run, or None unless its files are as that run left them.

        A manifest is written after everything else, so a run that was killed at any moment has none that
        fits.
        """
        try:
            found = json.loads(self.path(".manifest.json").read_bytes())
            intact = (
                found["outcome"] == "complete"
                and found["notebook_sha256"] == sha256_file(self.path(".ipynb"))
                and found["results_sha256"] == sha256_tree(self.path(".out").iterdir())
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if intact else None


@dataclass(frozen=True)
class Outcome:
    """How one notebook ended: `error` is empty for a complete run."""

    seconds: float
    error: str = ""
    attempts: int = 1


@dataclass(frozen=True, order=True)
class Notebook:
    """A notebook of the batch; `name` is folder and stem, such as snapaudit/table1_classification."""

    name: str
    path: Path


def discover() -> list[Notebook]:
    """Return all notebooks of the batch by name: notebooks/<folder>/*.ipynb without labs and index."""
    return sorted(
        Notebook(f"{path.parent.name}/{path.stem}", path)
        for path in paths.NOTEBOOKS.glob("*/*.ipynb")
        if path.parent.name != "labs" and path.stem != "index" and not path.parent.name.startswith(".")
    )


def select(only: str) -> list[Notebook]:
    """Return the notebooks whose name matches a glob; ValueError that lists what there is if none does."""
    notebooks = discover()
    chosen = [notebook for notebook in notebooks if fnmatchcase(notebook.name, only)]
    if not chosen:
        raise ValueError(f"no notebook matches {only!r}; there are: {_names(notebooks)}")
    return chosen


def _names(notebooks: Sequence[Notebook]) -> str:
    return ", ".join(notebook.name for notebook in notebooks) or "none"


def profile_parameters(profile: str) -> dict[str, dict[str, Any]]:
    """Return the parameters that a profile changes, by notebook name.

    Parameters
    ----------
    profile : {"smoke", "laptop", "paper"}
        laptop is what the notebooks themselves say, so it has no entries.

    Raises
    ------
    ValueError
        Names profile and notebook: an unknown profile or notebook, a name that the notebook's parameters
        cell does not assign, a value that is not a finite JSON scalar or a list of them, an entry under
        laptop.
    """
    one_of("profile", profile, PROFILES)
    file = paths.NOTEBOOKS / "profiles.toml"
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: {error}") from error
    for name in tables:
        one_of(f"{file}: profile", name, PROFILES)
    chosen = tables.get(profile, {})
    if profile == "laptop" and chosen:
        raise ValueError(f"{file}: laptop takes the notebooks' own parameters, so it can have no entries")
    known = {notebook.name: notebook for notebook in discover()}
    for name, parameters in chosen.items():
        where = f"{file}, profile {profile}, notebook {name}"
        if name not in known or not isinstance(parameters, dict):
            raise ValueError(f"{where}: no such notebook; there are: {_names([*known.values()])}")
        defaults = parameter_defaults(name, read_cells(known[name].path))
        for key, value in parameters.items():
            if key not in defaults:
                raise ValueError(
                    f"{where}: unknown parameter {key}; its parameters cell has {', '.join(defaults)}"
                )
            json_value(f"{where}: parameter {key}", value)
    return chosen


@dataclass(frozen=True)
class Cell:
    """What a run depends on in one cell."""

    kind: str
    source: str
    tags: tuple[str, ...]


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a notebook; ValueError if the file is not a notebook of format 4."""
    # Not by nbformat: importing it takes over a second, and the command line reads notebooks only to list them.
    try:
        return [
            Cell(cell["cell_type"], "".join(cell["source"]), tuple(cell["metadata"].get("tags", ())))
            for cell in json.loads(path.read_bytes())["cells"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read as a notebook of format 4: {error!r}") from error


def cells_sha256(cells: Sequence[Cell]) -> str:
    """Return the hash of what a run depends on in a notebook: not its stored outputs."""
    return sha256_json([astuple(cell) for cell in cells])


def parameter_defaults(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the names that the parameters cell assigns, each with its literal value (None if not a literal).

    Annotated names count, which papermill's own inspection misses for `x: int | None = None`.

    Raises
    ------
    ValueError
        If no cell is tagged `parameters`, or the cell is not plain Python.
    """
    tagged = [cell for cell in cells if "parameters" in cell.tags]
    if not tagged:
        raise ValueError(
            f"notebook {name} has no cell tagged 'parameters' (add one, even if it only sets a seed)"
        )
    try:
        statements = ast.parse(tagged[0].source).body
    except SyntaxError as error:
        raise ValueError(f"notebook {name}: its parameters cell is not plain Python: {error}") from error
    found: dict[str, Any] = {}
    for statement in statements:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            found |= dict.fromkeys(names, _literal(statement.value))
    return found


def _literal(expression: ast.expr | None) -> Any:
    with suppress(ValueError):
        return ast.literal_eval(expression) if expression else None
    return None


def check_structure(name: str, cells: Sequence[Cell]) -> None:
    """Raise ValueError for a notebook that could never count as executed, or that is the output of a run."""
    tags = [cell.tags for cell in cells if cell.kind == "code" and cell.source.strip()]
    if not tags or "gate" not in tags[-1]:
        raise ValueError(f"notebook {name}: its last code cell must be its gate, an assertion tagged 'gate'")
    if any("injected-parameters" in found for found in tags):
        raise ValueError(
            f"notebook {name} holds an injected-parameters cell: it is the output of a run, not a source"
        )


def plan(profile: str, only: str = "*") -> list[Job]:
    """Return the jobs of a profile whose name matches a glob; ValueError for anything that could not run."""
    changed = profile_parameters(profile)
    versions = package_versions()
    shared = {name: sha256_tree([paths.ROOT / folder]) for name, folder in WATCHED.items()}
    shared["locks"] = sha256_tree(paths.ROOT / name for name in ("requirements.lock", "models.lock"))
    shared["versions"] = sha256_json(versions)
    jobs = []
    for notebook in select(only):
        name, cells = notebook.name, read_cells(notebook.path)
        defaults = parameter_defaults(name, cells)
        check_structure(name, cells)
        parameters = changed.get(name, {})
        jobs.append(
            Job(
                name=name,
                profile=profile,
                source=notebook.path,
                build=paths.build_dir(),
                root=paths.ROOT,
                parameters=parameters,
                seed={**defaults, **parameters}.get("seed"),
                inputs={"cells": cells_sha256(cells), "parameters": sha256_json(parameters), **shared},
                versions=versions,
            )
        )
    return jobs
