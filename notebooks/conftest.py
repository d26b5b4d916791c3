"""For nbval: each notebook leaves its rows in a folder of its own, build/nbval/<paper>/<notebook>.out."""

import os

from dprepro.base.paths import build_dir


def pytest_runtest_setup(item):
    # Runs before the notebook's kernel starts, which inherits the variable.
    os.environ["DPREPRO_OUT"] = str(build_dir() / "nbval" / item.path.parent.name / f"{item.path.stem}.out")
