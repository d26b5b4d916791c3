"""A privacy claim as a TOML file: read, checked for form, and its template.

Errors are what no card can be written from: a file that is no TOML, an unknown key (mostly a misspelt one, whose
value would silently be ignored), a value of another type or outside its domain. All of a file are told at once.
What is missing is no error: that is what the card is for.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprepro.audits.audit_card_keys import KEYS, SECTIONS
from dprepro.audits.audit_card_kinds import described
from dprepro.base.store import sha256_bytes


@dataclass(frozen=True)
class Claim:
    """A claim whose form is right.

    Attributes
    ----------
    values : dict
        "section.key" -> value, only of keys that were given.
    name : str
        Name of the file, without its folder.
    sha256 : str
        Of the file's bytes.
    """

    values: dict[str, Any]
    name: str
    sha256: str

    def __getitem__(self, key: str) -> Any:
        """Return the value of "section.key", None if it is missing; KeyError for an unknown key."""
        return self.values.get(KEYS[key].name)


def read_claim(path: str | os.PathLike[str]) -> Claim:
    """Read a claim from a TOML file.

    Parameters
    ----------
    path : path
        UTF-8, with or without a byte-order mark.

    Raises
    ------
    ValueError
        The file is not UTF-8 or no TOML (with the line), has unknown keys (with the nearest known one), or values of
        another type or outside their domain.
    OSError
        The file cannot be read.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(
            f"{file}: there is no such file (dprepro audit-card --template prints one to fill in)"
        )
    return parse_claim(file.read_bytes(), file.name)


def parse_claim(data: bytes | str, name: str = "claim.toml") -> Claim:
    """Read a claim from the content of a TOML file; parameters, result and errors as `read_claim`."""
    content = data.encode() if isinstance(data, str) else data
    try:
        tables = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{name}, line {line}: must be UTF-8, got the byte {content[error.start]:#04x}"
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{name} must be TOML: {error}") from None
    values: dict[str, Any] = {}
    errors = []
    for key, value in _flat(tables):
        try:
            if key not in KEYS:
                raise ValueError(_unknown(key, value))
            if value != "":
                values[key] = KEYS[key].kind.read(key, value)
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise ValueError("\n  ".join([f"{name}:", *errors]) if len(errors) > 1 else f"{name}: {errors[0]}")
    return Claim(values, name, sha256_bytes(content))


def template() -> str:
    """Return a claim file with every key, to be filled in: it parses, and all its values are empty."""
    lines = [
        "# A privacy claim about the deployment of a language model, for `dprepro audit-card`.",
        '# Fill in what is known. What stays "" counts as missing, and the card says why that matters.',
    ]
    section = ""
    for key in KEYS.values():
        table, _, name = key.name.partition(".")
        if table != section:
            section = table
            lines += ["", f"# {SECTIONS[section]}", f"[{section}]"]
        lines += [f"# {key.label}: {key.kind.expected}", f"#   {key.hint}", f'{name} = ""']
    return "\n".join(lines) + "\n"


def _flat(tables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, table in tables.items():
        if section in SECTIONS and isinstance(table, dict):
            for key, value in table.items():
                yield f"{section}.{key}", value
        else:
            yield section, table


def _unknown(key: str, value: Any) -> str:
    if key in SECTIONS:
        return f"{key} must be a table, written [{key}] on a line of its own, got {described(value)}"
    section, _, name = key.rpartition(".")
    if not section and isinstance(value, dict):
        return f"unknown table [{key}]{_nearest(key, list(SECTIONS))}; the tables are {', '.join(SECTIONS)}"
    siblings = [known.partition(".")[2] for known in KEYS if known.startswith(f"{section}.")]
    hint = _nearest(name, siblings, f"{section}.")
    if not hint:
        # The right key in the wrong table, or above the first one.
        places = {known.partition(".")[2]: known for known in KEYS}
        close = difflib.get_close_matches(name.lower(), places, n=1)
        hint = f": did you mean {places[close[0]]}?" if close else ""
    known = f" (the keys of [{section}] are {', '.join(siblings)})" if section and not hint else ""
    return f"unknown key {key}{hint}{known}"


def _nearest(name: str, known: list[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f": did you mean {prefix}{close[0]}?" if close else ""
