"""Who takes part in the labs: the roster, the instructor's secret, and each student's seed.

A student's seed is an HMAC (RFC 2104) of the student's name under the secret: nobody can work out another's, and
numbers copied from another student are wrong.
"""

import csv
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from dprepro.base.store import write_atomic
from dprepro.kit.labs_masters import labs_dir


def read_roster(path: Path) -> list[str]:
    """Return the names in the column `student` of a CSV, which become folder names.

    Raises
    ------
    ValueError
        No such column, no student, a name twice (or twice but for capitals), or one that cannot name a folder
        on every system; the message gives the line.
    """
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if "student" not in (reader.fieldnames or ()):
            raise ValueError(f"{path}: no column 'student'; it has {', '.join(reader.fieldnames or ())}")
        found: dict[str, str] = {}
        for row in reader:
            name = unicodedata.normalize("NFC", (row["student"] or "").strip())
            where = f"{path}, line {reader.line_num}: student {name!r}"
            if not name or len(name) > 64 or name[0] in ".=+-@" or name[-1] == "." or not name.isprintable():
                raise ValueError(f"{where} cannot name a folder (empty, too long, or odd at its ends)")
            if set(name) & set('<>:"/\\|?*'):
                raise ValueError(f'{where} cannot name a folder: it has one of < > : " / \\ | ? *')
            if name.casefold() in found:
                raise ValueError(f"{where} is there twice")
            found[name.casefold()] = name
    if not found:
        raise ValueError(f"{path}: no students in it")
    return [*found.values()]


def known_students() -> list[str]:
    """Return the students of all releases so far."""
    path = labs_dir() / "roster.csv"
    return read_roster(path) if path.exists() else []


def remember(students: Sequence[str]) -> None:
    """Add students to those of the releases so far, in build/labs/roster.csv.

    Raises
    ------
    ValueError
        A name that differs from an earlier one in its capitals only: the two could not both name a folder.
    """
    known = known_students()
    by_folder = {student.casefold(): student for student in known}
    for student in students:
        if (earlier := by_folder.get(student.casefold(), student)) != student:
            raise ValueError(f"student {student!r} must be written as in an earlier release, {earlier!r}")
    quoted = (f'"{student}"' for student in dict.fromkeys([*known, *students]))
    write_atomic(labs_dir() / "roster.csv", "\n".join(["student", *quoted, ""]))


def read_secret(path: Path | None = None, *, create: bool = False) -> bytes:
    """Return the instructor's secret, by default that in build/labs/secret.

    Raises
    ------
    ValueError
        There is none and `create` is off, or it has fewer than 16 bytes.
    """
    chosen = path or labs_dir() / "secret"
    if not chosen.exists():
        if not create:
            raise ValueError(f"{chosen} is missing: grading needs the secret that the release was made with")
        write_atomic(chosen, secrets.token_hex(32))
        chosen.chmod(0o600)
    secret = chosen.read_bytes().strip()
    if len(secret) < 16:
        raise ValueError(f"{chosen}: a secret needs at least 16 bytes, this has {len(secret)}")
    return secret


def student_seed(student: str, secret: bytes) -> int:
    """Return the seed of a student, from 1 to 2^31: the same for the same name and secret."""
    digest = hmac.digest(secret, unicodedata.normalize("NFC", student).encode(), "sha256")
    return int.from_bytes(digest[:4]) % 2**31 + 1


def release_mark(secret: bytes) -> str:
    """Return a short mark by which a notebook tells which secret it was released under."""
    return hashlib.sha256(b"release" + secret).hexdigest()[:8]
