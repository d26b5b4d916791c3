"""Slopes of a word in a sentence: against finite differences of the real model, and the best word by brute force."""

import numpy as np
import pytest

from dprepro.text import embedder_gradient
from dprepro.text.embedder_gradient import WordGradient
from dprepro.text.embedders import embedder

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

WORDS = ("river", "treaty", "guitar", "seven", "angry", "protein", "window", "senate")
SENTENCE = ("river", "angry", "seven")


@pytest.fixture(scope="module")
def ranker():
    return WordGradient(embedder(threads=1), WORDS)


@pytest.fixture(scope="module")
def anchor(ranker):
    return ranker.encode(["the senate signed a treaty"])[0]


def cosine_with(ranker, anchor, place, vector):
    """Cosine with an input vector put in a place by hand: a forward pass that shares nothing with the module's."""
    model, tokenizer = ranker.encoder.model[0].auto_model, ranker.encoder.model.tokenizer
    asked = tokenizer(" ".join(SENTENCE), return_tensors="pt")
    inputs = model.get_input_embeddings()(asked["input_ids"]).detach().double()
    inputs[0, place + 1] = torch.as_tensor(vector)
    with torch.inference_mode():
        states = model(inputs_embeds=inputs.float(), attention_mask=asked["attention_mask"]).last_hidden_state
    mean = states[0].mean(dim=0).double().numpy()
    return mean @ anchor / np.linalg.norm(mean)


@pytest.mark.parametrize("place", [0, 2])
def test_slopes_are_finite_differences_at_two_points(ranker, anchor, place, monkeypatch):
    monkeypatch.setattr(embedder_gradient, "IN_FRONT", 3)
    rows = [ranker.encoder.vocabulary.index(word) for word in WORDS]
    table = ranker.encoder.word_vectors()[rows].astype(float)
    middle, step = table.mean(axis=0), 0.01

    def differences(at):
        found = []
        for word in table:
            ends = [
                cosine_with(ranker, anchor, place, at + sign * step * (word - middle)) for sign in (1, -1)
            ]
            found.append((ends[0] - ends[1]) / (2 * step))
        # They add up to 0 at either point, as the words less their mean do.
        return np.array(found) / np.std(found)

    first = differences(middle)
    expected = first + differences(table[np.argsort(first)[:3]].mean(axis=0))
    # The error of the differences falls with the square of the step: .01 at .04, .0026 at .02, .0007 at .01.
    np.testing.assert_allclose(ranker.slopes(SENTENCE, place, anchor), expected, rtol=0, atol=0.002)


def test_ranking_finds_good_words_among_many(ranker, anchor):
    words = ranker.encoder.vocabulary[5_000:5_400]
    many = WordGradient(ranker.encoder, words)
    ranked = np.argsort(many.slopes(SENTENCE, 1, anchor))
    cosines = many.encode([f"river {word} seven" for word in words]) @ anchor
    # Ten of 400 drawn at random hold one of the best four with probability .1.
    assert cosines[ranked[:10]].min() <= np.sort(cosines)[3]
    assert np.corrcoef(np.argsort(ranked), cosines.argsort().argsort())[0, 1] > 0.3


def test_one_word_has_nothing_before_it(ranker, anchor):
    assert WordGradient(ranker.encoder, ("river",)).slopes(SENTENCE, 1, anchor) == 0


def test_the_model_is_left_as_it_was(ranker, anchor):
    before = ranker.encode(["river angry seven"])
    ranker.slopes(SENTENCE, 0, anchor)
    assert np.array_equal(ranker.encode(["river angry seven"]), before)
    table = ranker.encoder.model[0].auto_model.get_input_embeddings()
    assert not table._forward_hooks
    assert table.weight.grad is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SENTENCE, 3, np.ones(384)), r"place must be in 0 \.\.\. 2, got 3"),
        ((SENTENCE, -1, np.ones(384)), "place must be a whole number of at least 0, got -1"),
        ((SENTENCE, 0.5, np.ones(384)), "place must be a whole number of at least 0, got 0.5"),
        ((SENTENCE, np.nan, np.ones(384)), "place must be a whole number of at least 0, got nan"),
        (("river angry", 0, np.ones(384)), "sentence must be a list of words, got 'river angry'"),
        ((("river", 3), 0, np.ones(384)), r"sentence must be a list of words, got \('river', 3\)"),
        ((SENTENCE, 0, np.ones(3)), r"anchor must have shape \(384,\), got \(3,\)"),
        ((SENTENCE, 0, np.full(384, np.nan)), "anchor must be finite"),
        (
            (("river", "unforeseeably"), 0, np.ones(384)),
            "sentence must be one token a word, got [3-9] tokens",
        ),
    ],
)
def test_bad_arguments(ranker, arguments, message):
    with pytest.raises(ValueError, match=message):
        ranker.slopes(*arguments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("river", "words must be a list of words, got 'river'"),
        (("river", None), r"words must be a list of words, got \('river', None\)"),
        ((), "number of words must be a whole number of at least 1, got 0"),
        (
            ("river", "unforeseeably"),
            "words must be whole words among the model's tokens, got 'unforeseeably'",
        ),
    ],
)
def test_words_that_are_none(ranker, words, message):
    with pytest.raises(ValueError, match=message):
        WordGradient(ranker.encoder, words)
