"""What grading leaves to read: grades.csv, a text of feedback for each student, a line on the screen for each lab.

Feedback says which visible checks failed and why, and that a value is wrong; never what a hidden check compares with.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dprepro.base.store import write_atomic
from dprepro.kit.labs_checks import Mark
from dprepro.kit.labs_masters import Lab, labs_dir


@dataclass(frozen=True)
class Grade:
    """One row of grades.csv, and what the feedback says of it; `kept` from an earlier call."""

    student: str
    lab: str
    marks: tuple[Mark, ...]
    remark: str
    seconds: float = 0.0
    kept: bool = False

    @property
    def total(self) -> float:
        """Points earned."""
        return round(sum(mark.score for mark in self.marks), 3)

    @property
    def maximum(self) -> float:
        """Points possible."""
        return round(sum(mark.possible for mark in self.marks), 3)


def write(grades: Sequence[Grade], labs: Mapping[str, Lab]) -> None:
    """Write build/labs/grades.csv and build/labs/feedback/<student>.txt."""
    questions = list(dict.fromkeys(question for lab in labs.values() for question in lab.checks))
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["student", "lab", *questions, "total", "maximum", "remark", "seconds"])
    for grade in grades:
        scores = {mark.question: f"{mark.score:g}" for mark in grade.marks}
        points = [scores.get(question, "") for question in questions]
        row = [grade.student, grade.lab, *points, f"{grade.total:g}", f"{grade.maximum:g}"]
        # A spreadsheet takes a text that begins so for a formula.
        table.writerow(
            [f"'{text}" if text[:1] in ("=", "+", "-", "@") else text for text in [*row, grade.remark]]
            + [f"{grade.seconds:g}"]
        )
    write_atomic(labs_dir() / "grades.csv", stream.getvalue())
    for student in dict.fromkeys(grade.student for grade in grades if grade.marks):
        texts = [_feedback(grade) for grade in grades if grade.student == student]
        write_atomic(labs_dir() / "feedback" / f"{student}.txt", "\n".join(texts))


def _feedback(grade: Grade) -> str:
    lines = [f"{grade.lab}: {grade.total:g} of {grade.maximum:g} points"]
    if grade.remark:
        lines.append(f"  note: {grade.remark}")
    for mark in grade.marks:
        lines.append(f"  {mark.question}: {mark.score:g} of {mark.possible:g}")
        lines += [f"    {message}" for message in mark.messages]
        if mark.hidden_failed:
            lines.append(
                "    its form is right, its value is not" if not mark.visible_failed else "    not right yet"
            )
    return "\n".join([*lines, ""])


def line(grade: Grade) -> str:
    """Return the line that the screen shows when a submission is done."""
    score = f"{grade.total:g}/{grade.maximum:g}" if grade.marks else "-"
    took = "unchanged" if grade.kept else f"{grade.seconds:.1f} s" if grade.seconds else ""
    return f"{grade.student} {grade.lab} {score:>9} {took:>9}  {grade.remark}"
