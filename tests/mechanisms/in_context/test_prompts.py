"""Prompts: what stands where, and forms that cannot work."""

import pytest

from dprepro.mechanisms.in_context.demonstrations import Demonstration
from dprepro.mechanisms.in_context.prompts import COPYING, DIRECT, INSTRUCTED, LABELLED, PASSAGES, PromptStyle

TWO = [Demonstration("one fine day", "good"), Demonstration("rain {again}", "bad")]


def test_copying():
    assert COPYING.build(TWO, "snow {x}") == "one fine day: good\nrain {again}: bad\nsnow {x}:"


def test_the_others():
    assert LABELLED.build(TWO[:1], "snow") == "Text: one fine day\nLabel: good\n\nText: snow\nLabel:"
    assert INSTRUCTED.build(TWO, "snow").endswith("\n\n" + LABELLED.build(TWO, "snow"))
    assert DIRECT.build(TWO[:1], "snow") == (
        'one fine day: good\nQuestion: Is the text "snow" among the texts above? Answer Yes or No.\nAnswer:'
    )
    passages = [Demonstration("The mill burned in 1911.")]
    expected = "Passage: The mill burned in 1911.\nQuestion: When did it burn?\nAnswer:"
    assert PASSAGES.build(passages, "When did it burn?") == expected


@pytest.mark.parametrize(
    ("example", "query", "message"),
    [
        ("{answer}\n", "{query}:", r"example must have \{text\}"),
        ("{text}: {label}\n", "{query}:", "example must have .* no unknown field"),
        ("{text}\n", "Label:", r"query must have \{query\}"),
        ("{text}\n", "{query}: ", "query must not end in a space"),
    ],
)
def test_bad_forms(example, query, message):
    with pytest.raises(ValueError, match=message):
        PromptStyle(example, query)
