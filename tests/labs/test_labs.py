"""Every lab is held to the same rules. A new lab needs its master and its tests/labs/wrong_answers/<lab>.toml."""

import ast
import json
import re
import shutil
import tomllib
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from dprepro.base.paths import ROOT
from dprepro.kit import labs_run
from dprepro.kit.labs_answers import read_answers, save_code
from dprepro.kit.labs_checks import run_question
from dprepro.kit.labs_leaks import leaks, split_master
from dprepro.kit.labs_masters import load_labs
from dprepro.kit.labs_release import ROOMS
from dprepro.kit.labs_students import read_secret, student_seed

from .conftest import MASTERS

HERE = Path(__file__).parent
IMPORTS = {"numpy", "scipy", "matplotlib", "ipywidgets", "dprepro", "math"}
WITH_MODELS = {"lab3", "lab4"}
NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, *_):
        if name in ("torch", "opacus", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
"""
SECONDS = {"cell_seconds": 120.0, "seconds": 300.0}


class Trial:
    """One lab, released to one student: answers of the solution, wrong ones, those of the untouched notebook."""

    def __init__(self, master, new_course):
        self.name = master.stem
        self.master = json.loads(master.read_bytes())
        self.course = new_course([master], ["ada"])
        self.folder = self.course.build / "labs" / "release" / "ada"
        self.checks = load_labs()[self.name].checks
        self.seed = student_seed("ada", read_secret())
        self.wrong = tomllib.loads((HERE / "wrong_answers" / f"{self.name}.toml").read_text(encoding="utf-8"))

    def run_solved_then_wrong(self):
        book = self.course.solved("ada", self.name)
        cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        # All at once, so that one wrong answer does not reach the expression of the next.
        pairs = {name: text for table in self.wrong.values() for name, text in table.items()}
        if pairs:
            cells.append(f"{', '.join(pairs)}, = {', '.join(f'({text})' for text in pairs.values())},")
        findings = []
        labs_run.run({"cells": cells, **SECONDS}, findings.append)
        answers = [json.loads(found["answers"]) for found in findings if "answers" in found]
        assert findings[-1]["problems"] == []
        assert answers[-1]["refused"] == {}
        return answers[-2]["answers"], answers[-1]["answers"]

    def run_untouched(self, folder, out):
        """In a copy of the student's folder: with otter itself, and with the library that students get.

        Where the lab does not ask for torch, torch is not there.
        """
        shutil.copytree(self.folder, folder)
        book = nbformat.read(folder / f"{self.name}.ipynb", as_version=4)
        if self.name not in WITH_MODELS:
            book.cells.insert(0, nbformat.v4.new_code_cell(NO_TORCH))
        where = "import dprepro, pathlib; print(pathlib.Path(dprepro.__file__).parent)"
        book.cells += [nbformat.v4.new_code_cell(where), nbformat.v4.new_code_cell(save_code(str(out)))]
        client = NotebookClient(
            book, timeout=120, shutdown_kernel="immediate", resources={"metadata": {"path": str(folder)}}
        )
        # Its output widgets write to the shell channel while it waits there: a reply that comes just then is seen
        # only once the timeout has passed, one run in four.
        client.comm_open_handlers.clear()
        client.execute()
        assert book.cells[-2].outputs[0].text.strip() == str(folder / "dprepro")
        return json.loads(out.read_text())["answers"]

    def marks(self, answers, seed=None):
        # In this process, which tests/labs/test_grade.py does not do: importing otter takes seconds each time.
        namespace = {**read_answers(json.dumps(answers)), "student_seed": seed or self.seed}
        return {name: run_question(name, test, namespace) for name, test in self.checks.items()}

    def visible_points(self, question):
        test = self.checks[question]
        cases = zip(test["points"], test["suites"][0]["cases"], strict=True)
        return sum(points for points, case in cases if not case["hidden"])


@pytest.fixture(scope="module", params=MASTERS, ids=lambda path: path.stem)
def trial(request, new_course_of_module):
    return Trial(request.param, new_course_of_module)


@pytest.fixture(scope="module")
def answers(trial, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        return trial.run_solved_then_wrong()


def test_solution_gets_full_marks(trial, answers):
    marks = trial.marks(answers[0])
    assert marks, "no questions"
    assert [mark for mark in marks.values() if mark.score != mark.possible] == []


def test_a_plausible_wrong_answer_passes_what_is_visible_and_loses_the_hidden_points(trial, answers):
    assert trial.wrong.keys() == trial.checks.keys(), "a table for each question"
    marks = trial.marks(answers[1])
    for question, mark in marks.items():
        cases = trial.checks[question]["suites"][0]["cases"]
        visible = sum(
            p for p, c in zip(trial.checks[question]["points"], cases, strict=True) if not c["hidden"]
        )
        assert mark.visible_failed == 0, mark
        assert mark.score < mark.possible, mark
        assert mark.score - visible <= 0.5 * (mark.possible - visible), f"{mark}: keeps most hidden points"


def test_another_students_answers_lose_points(trial, answers):
    theirs = trial.marks(answers[0], trial.seed + 1)
    assert any(mark.hidden_failed for mark in theirs.values()), "no question depends on the seed"


def test_untouched_runs_to_its_end_and_gets_nothing(trial, tmp_path):
    marks = trial.marks(trial.run_untouched(tmp_path / "mine", tmp_path / "answers.json"))
    assert [mark for mark in marks.values() if mark.score] == []


# Never right, but `np.allclose([], 3)` holds, and so does `not (nan > 3)`.
@pytest.mark.parametrize(
    "anything", [{"float": "nan"}, [], {"array": ["f", [0], []]}], ids=("nan", "list", "array")
)
def test_nothing_and_nan_earn_no_hidden_points(trial, answers, anything):
    for question, mark in trial.marks(dict.fromkeys(answers[0], anything)).items():
        assert mark.score <= trial.visible_points(question), f"{question}: {anything} passes a hidden check"


def test_checks_see_answers_seed_and_their_own_imports_only(trial):
    for question, test in trial.checks.items():
        for case in test["suites"][0]["cases"]:
            tree = ast.parse(re.sub(r"^(>>>|\.\.\.) ?", "", case["code"], flags=re.MULTILINE))
            expressions = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Expr)]
            assert expressions == [], (
                f"{question}: a bare expression in a check prints its value, which fails"
            )


def test_every_question_has_a_visible_and_a_hidden_check(trial):
    for question, test in trial.checks.items():
        assert re.fullmatch(r"q\d+", question)
        assert {case["hidden"] for case in test["suites"][0]["cases"]} == {True, False}, question


def test_imports_are_those_of_the_requirements(trial):
    for cell in trial.master["cells"]:
        if cell["cell_type"] == "code":
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert {name.split(".")[0] for name in names} <= IMPORTS


def test_master_is_stored_without_outputs(trial):
    code = [cell for cell in trial.master["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code), "clear the outputs"


def test_nothing_secret_is_in_any_file_of_a_student(trial):
    """Without the release's own search: line by line, in the text of every file that is handed out."""
    given, secret = split_master(trial.master)
    assert secret
    assert leaks(trial.master, trial.course.released("ada", trial.name)) == []

    def plain(line):
        return re.sub(r"\s|#SOLUTION", "", line).replace("'", '"')

    openly = "".join(map(plain, given))
    secrets = {plain(line) for line in secret if not line.startswith(("import", "from", "# HIDDEN"))}
    long = {line for line in secrets if len(line) >= 12 and line not in openly}
    assert long
    files = [
        path
        for path in trial.folder.rglob("*")
        if path.is_file() and "dprepro" not in path.parts[len(trial.folder.parts) :]
    ]
    needed = {"requirements.txt"} | ({"requirements-models.txt"} if trial.name in WITH_MODELS else set())
    assert {path.name for path in files} == {f"{trial.name}.ipynb", *needed}
    for path in files:
        text = path.read_text(encoding="utf-8")
        book = json.loads(text) if path.suffix == ".ipynb" else text
        shown = plain(json.dumps(book, ensure_ascii=False).replace("\\n", "").replace('\\"', '"'))
        assert [line for line in long if line in shown] == []
    assert not (trial.folder / "dprepro" / "kit").exists()
    key = read_secret().decode()
    assert not any(
        key in path.read_text(encoding="utf-8", errors="replace") for path in trial.folder.rglob("*.*")
    )


def test_library_of_students_is_the_repositorys(trial):
    library, own = trial.folder / "dprepro", ROOT / "lib" / "dprepro"
    wanted = [own / "__init__.py", *(path for room in ROOMS for path in (own / room).rglob("*.py"))]
    given = {path.relative_to(library): path.read_bytes() for path in library.rglob("*.py")}
    assert given == {path.relative_to(own): path.read_bytes() for path in wanted}
