import numpy as np
import pytest
from scipy import stats

from dprepro.audits.prompt_kept import guess_labels, skeleton
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(("cat", "dog"), np.eye(2))


def test_a_skeleton_shows_kept_tokens_and_blanks(vocabulary):
    text = "The Cat, I'd say: no!"
    assert skeleton(vocabulary, text, "both") == "the blank mark44 i mark39 d blank mark58 no mark33"
    assert skeleton(vocabulary, text, "stop words") == "the blank blank i blank d blank blank no blank"
    assert skeleton(vocabulary, text, "none") == " ".join(["blank"] * 10)
    assert skeleton(vocabulary, "", "both") == ""


def texts(rng, n, word):
    return [" ".join(rng.permutation([word, "blank", "the"])) for _ in range(n)]


def test_labels_that_the_words_show_are_guessed():
    rng = np.random.default_rng(0)
    train = texts(rng, 40, "mark33") + texts(rng, 60, "mark44")
    found = guess_labels(train, [1] * 40 + [0] * 60, ["the mark33", "blank mark44 the"], [1, 0])
    assert found.right.tolist() == [True, True]
    assert found.chance == 0.5
    assert found.low == pytest.approx(stats.beta.ppf(0.025, 2, 1))


def test_labels_that_no_word_shows_are_guessed_by_chance():
    rng = np.random.default_rng(1)
    train, test = texts(rng, 300, "to"), texts(rng, 400, "to")
    found = guess_labels(train, rng.integers(2, size=300), test, rng.integers(2, size=400))
    assert found.low < 0.5 < found.high


@pytest.mark.parametrize(("labels", "test"), [([1], ["a"]), ([0, 1], [])])
def test_bad_arguments_are_named(labels, test):
    with pytest.raises(ValueError, match="labels must be one for each text"):
        guess_labels(["a", "b"], labels, test, [1] * len(test))
