"""Slopes of a word in a sentence: against finite differences of the real model, and the best word by brute force."""

import numpy as np
import pytest

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
def test_slopes_are_finite_differences_at_the_mean_word(ranker, anchor, place):
    rows = [ranker.encoder.vocabulary.index(word) for word in WORDS]
    table = ranker.encoder.word_vectors()[rows].astype(float)
    neutral, step = table.mean(axis=0), 0.02
    slopes = ranker.slopes(SENTENCE, place, anchor)
    expected = []
    for word in table:
        ends = [
            cosine_with(ranker, anchor, place, neutral + sign * step * (word - neutral)) for sign in (1, -1)
        ]
        expected.append((ends[0] - ends[1]) / (2 * step))
    # slopes are known up to a constant, finite differences at the mean add to 0
    np.testing.assert_allclose(slopes - slopes.mean(), expected, rtol=0.02, atol=2e-4)


def test_ranking_finds_good_words_among_many(ranker, anchor):
    words = ranker.encoder.vocabulary[5_000:5_400]
    many = WordGradient(ranker.encoder, words)
    ranked = np.argsort(many.slopes(SENTENCE, 1, anchor))
    cosines = many.encode([f"river {word} seven" for word in words]) @ anchor
    # Ten of 400 drawn at random hold one of the best eight with probability .18.
    assert cosines[ranked[:10]].min() <= np.sort(cosines)[7]
    assert np.corrcoef(np.argsort(ranked), cosines.argsort().argsort())[0, 1] > 0.3


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
        ((SENTENCE, -1, np.ones(384)), r"place must be in 0 \.\.\. 2, got -1"),
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
