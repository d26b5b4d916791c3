"""Prompts of in-context learning: how demonstrations and a query are written down.

A black box that is asked whether it has seen the canary (SnapAudit, arXiv 2511.13502, asks for "Yes" or "No") has to
look up a text and answer about it, which small models cannot. Asked to label the canary's own text they only have to
copy what stands behind it: the same question in a form that a model of any size answers.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass

from dprepro.mechanisms.in_context.demonstrations import Demonstration


@dataclass(frozen=True)
class PromptStyle:
    """A form for demonstrations and one for the query.

    Parameters
    ----------
    example : str
        With {text} and {answer}; with {text} alone for passages without an answer.
    query : str
        With {query}; ends where the answer begins.
    opening : str
        What stands before the demonstrations.

    Raises
    ------
    ValueError
        A form lacks its field or has another, or the query ends in a space (which models write with the answer).
    """

    example: str
    query: str
    opening: str = ""

    def __post_init__(self) -> None:
        _check_fields("example", self.example, {"text"}, {"answer"})
        _check_fields("query", self.query, {"query"}, set())
        if self.query.endswith(" "):
            raise ValueError(f"query must not end in a space, got {self.query!r}")

    def build(self, demonstrations: Sequence[Demonstration], query: str) -> str:
        """The prompt of one partition."""
        examples = (self.example.format(text=item.text, answer=item.answer) for item in demonstrations)
        return self.opening + "".join(examples) + self.query.format(query=query)


def _check_fields(name: str, form: str, needed: set[str], allowed: set[str]) -> None:
    found = {field for _, field, _, _ in string.Formatter().parse(form) if field is not None}
    if not needed <= found <= needed | allowed:
        asked = ", ".join(f"{{{field}}}" for field in sorted(needed))
        raise ValueError(f"{name} must have {asked} and no unknown field, got {form!r}")


COPYING = PromptStyle("{text}: {answer}\n", "{query}:")
LABELLED = PromptStyle("Text: {text}\nLabel: {answer}\n\n", "Text: {query}\nLabel:")
INSTRUCTED = PromptStyle(
    "Text: {text}\nLabel: {answer}\n\n",
    "Text: {query}\nLabel:",
    "Label the last text as the texts before it.\n\n",
)
# Whether the canary is there, as a question; labels are " Yes" and " No".
DIRECT = PromptStyle(
    "{text}: {answer}\n", 'Question: Is the text "{query}" among the texts above? Answer Yes or No.\nAnswer:'
)
PASSAGES = PromptStyle("Passage: {text}\n", "Question: {query}\nAnswer:")
