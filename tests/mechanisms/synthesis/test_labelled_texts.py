"""The checks that all generators of synthetic text share."""

import pytest

from dprepro.mechanisms.synthesis.labelled_texts import checked, classes


def test_classes_are_those_that_occur_sorted():
    assert classes(["a", "b", "c", "d"], ["good", "bad", "good", "bad"]) == ("bad", "good")


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ([], [], "texts must be a sequence of at least one text, got \\[\\]"),
        ("a fine film", ["good"], "texts must be a sequence of at least one text, got 'a fine film'"),
        (["a", None], ["x", "y"], "texts must be a sequence of at least one text"),
        (["a", " "], ["x", "y"], "texts must not be blank, got ' ' at index 1"),
        (["a", "b"], ["x", ""], "labels must not be blank, got '' at index 1"),
        (["a", "b"], ["x"], "labels must have one label for each of the 2 texts, got 1"),
    ],
)
def test_what_is_no_labelled_text_is_named(texts, labels, message):
    for function in (checked, classes):
        with pytest.raises(ValueError, match=message):
            function(texts, labels)


def test_a_class_needs_company():
    with pytest.raises(ValueError, match="two classes at least, got 'good' alone"):
        classes(["a", "b"], ["good", "good"])
    with pytest.raises(ValueError, match="2 texts at least, got 1 for 'bad'"):
        classes(["a", "b", "c"], ["good", "bad", "good"])
