"""Questions: how messages name a prompt, and what is refused before a model is asked."""

import pytest

from dprepro.text.questions import Question, checked_labels, checked_prompts, named


def test_how_a_prompt_is_named():
    assert named(3, "Short") == "prompt 3 ('Short')"
    long = "Review: a film that goes on and on until nobody is left in the room"
    assert str(Question(7, long)) == "prompt 7 ('Review: a film that goes on and on ...')"
    assert "\n" not in named(0, "two\nlines")


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("one text", "prompts must be a sequence of texts, got the single text 'one text'"),
        (b"bytes", "single text b'bytes'"),
        (["a", 1], "got 1 at index 1"),
        (["a", None], "got None at index 1"),
        (["a", ""], "not empty, got '' at index 1"),
    ],
)
def test_prompts_that_are_none(prompts, message):
    with pytest.raises(ValueError, match=message):
        checked_prompts(prompts)


def test_prompts_from_any_sequence():
    assert checked_prompts(("a", "b")) == checked_prompts(iter("ab")) == ["a", "b"]
    assert checked_prompts([]) == []


@pytest.mark.parametrize("labels", [[], ["a", "a"], ["a", ""], "yes", [1]])
def test_labels_that_are_none(labels):
    with pytest.raises(ValueError, match="^labels must be"):
        checked_labels(labels)
