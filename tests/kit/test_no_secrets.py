"""Nothing that a batch produces carries a key from the environment, or says where on which machine it ran."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from dprepro.base import paths

KEY = "sk-planted-5f1c9e7d3b"
DRIVER = """
from dprepro.kit import cli
assert cli.main(["run", "--jobs", "1"]) == 1
assert cli.main(["site"]) == 0
"""
# Folders that an absolute path on some machine begins with; what is in a web address comes after a letter or dot.
SOMEWHERE = re.compile(rb"(?<![\w./~-])/(?:home|root|tmp|work|Users|var|opt|mnt|srv|usr)/[\w.-]+")


def test_neither_keys_nor_places(tmp_path: Path) -> None:
    root = tmp_path / "a house"
    for folder in ("lib/dprepro", "data/reported"):
        shutil.copytree(paths.ROOT / folder, root / folder)
    for name in ("requirements.lock", "models.lock", "pyproject.toml"):
        shutil.copy2(paths.ROOT / name, root / name)
    (root / "figures").mkdir()
    judge = """import sys
from pathlib import Path
from dprepro.base import paths
from dprepro.kit import claims, figures
import pandas as pd
printed = claims.load_reported("retidp", "table1").iloc[:2]
claims.save([claims.judge(row, 1.0, recipe="as_stated") for _, row in printed.iterrows()])
print(Path.cwd(), paths.DATA, sys.executable, Path.home(), file=sys.stderr)
figures.save("toy/one", pd.DataFrame({"group": ["a"], "x": [1.0], "y": [1.0]}), "NO SUCH PLOT")"""
    good = judge.rpartition("\n")[0]
    for name, cell in {"good": good, "failing": judge}.items():
        book = nbformat.v4.new_notebook()
        for source, tag in (("seed = 1", "parameters"), (cell, ""), ("assert True", "gate")):
            book.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": [tag] if tag else []}))
        (root / "notebooks" / "toy").mkdir(parents=True, exist_ok=True)
        nbformat.write(book, root / "notebooks" / "toy" / f"{name}.ipynb")

    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPREPRO")}
    keys = dict.fromkeys(("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"), KEY)
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=root,
        env={**environment, **keys, "PYTHONPATH": str(root / "lib")},
        capture_output=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    produced = {"standard output": ran.stdout, "standard error": ran.stderr}
    for path in (root / "build").rglob("*"):
        if path.is_file():
            produced[str(path.relative_to(root))] = path.read_bytes()
    for name in ("laptop/toy/good.ipynb", "laptop/toy/good.manifest.json", "laptop/toy/failing.failed.ipynb"):
        assert f"build/{name}" in produced
    assert b"NO SUCH PLOT" in produced["build/laptop/toy/failing.failed.ipynb"]
    assert "build/site/index.html" in produced
    here = [root, paths.ROOT, sys.prefix, sys.base_prefix, Path.home(), tempfile.gettempdir()]
    for name, content in produced.items():
        assert KEY.encode() not in content, name
        for place in here:
            assert f"{place}/".encode() not in content, f"{name}: {place}"
        if not name.endswith((".png", ".pdf")):
            assert SOMEWHERE.findall(content) == [], name
