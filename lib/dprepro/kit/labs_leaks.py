"""What students must not see of a lab's master, and whether a released notebook shows any of it.

Read from the master's cells directly, not through otter, so that a slip of either is found by the other. Text that
the master also gives to students openly (an import, a line of set-up) is no secret.
"""

import re
from collections.abc import Iterator
from typing import Any

# Shorter fragments (`else:`, `x = 2`) occur by chance.
SHORTEST = 8
_BOUNDARY = re.compile(r"#\s+(begin|end)\s+(question|prompt|solution|tests)\b", re.IGNORECASE)
_MARK = re.compile(r"\s*#\s*SOLUTION( NO PROMPT)?\s*$")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE)


def split_master(master: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the lines that students get and those they must not: of solutions and hidden checks."""
    given: list[str] = []
    secret: list[str] = []
    blocks: list[str] = []
    for cell in master["cells"]:
        lines = "".join(cell["source"]).splitlines()
        first = lines[0] if lines else ""
        if cell["cell_type"] == "raw":
            if match := _BOUNDARY.match(first):
                if match[1].lower() == "begin":
                    blocks.append(match[2].lower())
                else:
                    blocks.remove(match[2].lower())
        elif re.match(r"#+\s*ignore\b", first, re.IGNORECASE):
            continue
        elif "tests" in blocks:
            hidden = "hidden" in first.lower() and first.lstrip().startswith("#")
            (secret if hidden else given).extend(lines)
        elif "solution" in blocks and cell["cell_type"] == "code":
            for line, hide in _solution_lines(lines):
                (secret if hide else given).append(line)
        else:
            (secret if "solution" in blocks else given).extend(lines)
    return given, secret


def _solution_lines(lines: list[str]) -> Iterator[tuple[str, bool]]:
    inside = False
    for line in lines:
        if re.match(r"\s*# (BEGIN|END) SOLUTION", line):
            inside = "BEGIN" in line
        else:
            yield _MARK.sub("", line), inside or bool(_MARK.search(line))


def leaks(master: dict[str, Any], released: Any) -> list[str]:
    """Return what a released notebook shows of its master's solutions and hidden checks.

    Parameters
    ----------
    master, released : dict
        Notebooks as JSON objects. All text of `released` is searched: cells, outputs, metadata.

    Returns
    -------
    list of str
        Lines, right-hand sides of assignments, and numbers of four digits or more; empty if nothing leaks.
    """
    given, secret = split_master(master)
    lines = [line for string in _strings(released) for line in string.splitlines()]
    shown, openly = "\n".join(map(_plain, lines)), "\n".join(map(_plain, given))
    told = {number for line in lines for number in _NUMBER.findall(line)}
    told -= {number for line in given for number in _NUMBER.findall(line)}
    found = []
    for line in secret:
        plain = _plain(line)
        if re.match(r"import|from|#HIDDEN", plain, re.IGNORECASE):
            continue
        right = plain.partition("=")[2]
        pieces = [piece for piece in (plain, right) if len(piece) >= SHORTEST]
        numbers = [n for n in _NUMBER.findall(line) if len(n.replace(".", "").lstrip("0")) >= 4]
        if any(piece in shown and piece not in openly for piece in pieces):
            found.append(line.strip())
        else:
            found += [number for number in numbers if number in told]
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            # A cell's source may be stored as a list of lines, which belong together.
            yield from _strings("".join(inner) if key == "source" and isinstance(inner, list) else inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _plain(line: str) -> str:
    """Return a line without what otter rewrites: doctest prompts, blanks, kind of quotes."""
    return re.sub(r"\s", "", re.sub(r"^\s*(>>>|\.\.\.) ", "", line)).replace("'", '"')
