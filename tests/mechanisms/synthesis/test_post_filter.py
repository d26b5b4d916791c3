import numpy as np
import pytest

from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.mechanisms.synthesis.post_filter import PostFilter, best, chosen


class Likes:
    """A responder that says yes to a text as often as it has the letter x; keeps what it was asked."""

    def __init__(self):
        self.prompts = []

    def label_logprobs(self, prompts, labels):
        self.prompts += prompts
        share = np.array([min(prompt.count("x") / 10, 1.0) for prompt in prompts])
        table = {" yes": 0.9 * share, " no": 0.9 * (1 - share)}
        with np.errstate(divide="ignore"):
            return np.log(np.array([table[label] for label in labels]).T)


WRITTEN = SyntheticTexts(["xx", "a", "xxx", " ", "x", "xxxx", "b"], list("ggggbbb"), 1)


def test_scores_are_differences_of_probabilities():
    likes = Likes()
    found = PostFilter(likes, "{label}? {text}").scores(WRITTEN.texts, WRITTEN.labels)
    np.testing.assert_allclose(found, [0.9 * (0.2 * n - 1) if n >= 0 else -1 for n in (2, 0, 3, -1, 1, 4, 0)])
    assert likes.prompts == [
        "g? xx",
        "g? a",
        "g? xxx",
        "b? x",
        "b? xxxx",
        "b? b",
    ]  # nothing about the blank one


def test_the_best_of_each_class_stay_in_their_order():
    kept = PostFilter(Likes(), "{text}", share=0.5).keep(WRITTEN)
    assert kept == (["xx", "xxx", "x", "xxxx"], ["g", "g", "b", "b"], 0)
    everything = PostFilter(Likes(), "{text}", share=1.0).keep(WRITTEN)
    assert everything == WRITTEN


def test_best_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, labels = rng.integers(4, size=12) / 4, rng.choice(["a", "b"], size=12).tolist()
        found = best(scores, labels, 0.4).tolist()
        for kind in set(labels):
            own = [i for i in range(12) if labels[i] == kind]
            ranked = sorted(own, key=lambda i: (-scores[i], i))
            assert [i for i in found if i in own] == sorted(ranked[: -(-2 * len(own) // 5)])


def test_a_text_with_places_of_its_own_is_no_template():
    likes = Likes()
    PostFilter(likes, "{label}: {text}").scores(["{label} {0} {text"], ["g"])
    assert likes.prompts == ["g: {label} {0} {text"]


def test_long_texts_are_cut():
    likes = Likes()
    PostFilter(likes, "{text}", characters=5).scores(["x" * 50], ["g"])
    assert likes.prompts == ["xxxxx"]


def test_the_filter_sees_synthetic_texts_alone():
    """Post-processing: equal synthetic texts are filtered alike, and nothing else is asked about."""
    first, second = Likes(), Likes()
    assert PostFilter(first).keep(WRITTEN) == PostFilter(second).keep(WRITTEN)
    assert first.prompts == second.prompts
    asked = "\n".join(first.prompts)
    assert all(text in asked for text in WRITTEN.texts if text.strip())
    assert len(first.prompts) == 6


def test_no_texts_and_blank_texts():
    nothing = SyntheticTexts([], [], 0)
    assert PostFilter(Likes()).keep(nothing) == nothing
    assert PostFilter(Likes()).scores([" ", ""], ["g", "g"]).tolist() == [-1, -1]
    assert chosen(WRITTEN, np.array([3, 4])) == ([" ", "x"], ["g", "b"], 1)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"question": "Is it?"}, r"question must hold \{text\}"),
        ({"share": 0.0}, r"share must be in \(0, 1\], got 0"),
        ({"share": 1.5}, "share must be"),
        ({"yes": ""}, "yes must be an answer with a visible character, got ''"),
        ({"no": " "}, "no must be an answer with a visible character, got ' '"),
        ({"yes": None}, "yes must be an answer with a visible character, got None"),
        ({"no": " yes"}, "no must be another answer than yes"),
        ({"characters": 0}, "characters must be a whole number"),
    ],
)
def test_bad_settings_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        PostFilter(Likes(), **changes)


def test_bad_texts_are_named():
    with pytest.raises(ValueError, match="labels must be one for each of 2 texts, got 1"):
        PostFilter(Likes()).scores(["a", "b"], ["g"])
    with pytest.raises(ValueError, match="texts must be a sequence of texts, got the text 'abc'"):
        PostFilter(Likes()).scores("abc", ["g", "g", "g"])
    with pytest.raises(ValueError, match="labels must be a sequence of texts, got the text 'ggg'"):
        PostFilter(Likes()).scores(["a", "b", "c"], "ggg")
    with pytest.raises(ValueError, match="labels must be a sequence of texts, got the text 'gg'"):
        best([1.0, 2.0], "gg", 0.5)
    with pytest.raises(ValueError, match="scores must be one number for each of 2 labels"):
        best([1.0], ["g", "g"], 0.5)
    with pytest.raises(ValueError, match="1 NaN"):
        best([1.0, np.nan], ["g", "g"], 0.5)
    with pytest.raises(ValueError, match="share must be"):
        best([1.0], ["g"], 0.0)
