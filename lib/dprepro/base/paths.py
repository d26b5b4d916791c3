"""Where the repository, its data and what it builds lie.

Everything is found from this file, never from the working directory, so a notebook reads the same data
whether it is run by JupyterLab, by plain papermill from another folder or by the batch. Two environment
variables move what is written: DPREPRO_BUILD (the whole build folder) and DPREPRO_OUT (the results of the one
notebook now running).
"""

import os
from pathlib import Path


def _find_root() -> Path:
    root = Path(__file__).resolve().parents[3]
    if not (root / "data" / "reported").is_dir():
        raise FileNotFoundError(
            f"no folder data/reported in {root}: dprepro reads its data from the repository, so it must be "
            "installed from a checkout with `pip install -e .` (an ordinary install leaves the data behind)"
        )
    return root


ROOT = _find_root()
DATA = ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"
FIGURES = ROOT / "figures"


def build_dir() -> Path:
    """Return the folder for everything generated: DPREPRO_BUILD if set, else `build` in the repository.

    Returns
    -------
    Path
        Absolute. It is not created here; `store.write_atomic` creates the folders it needs.
    """
    chosen = os.environ.get("DPREPRO_BUILD")
    return Path(chosen).expanduser().absolute() if chosen else ROOT / "build"


def output_dir() -> Path:
    """Return the folder for the results of the notebook now running.

    Returns
    -------
    Path
        DPREPRO_OUT if set (the batch gives each run a fresh folder), else `interactive` in the build folder.
        Absolute, not created here.
    """
    chosen = os.environ.get("DPREPRO_OUT")
    return Path(chosen).expanduser().absolute() if chosen else build_dir() / "interactive"
