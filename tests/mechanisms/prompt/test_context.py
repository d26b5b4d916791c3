"""The packaged masked model and the tiny causal one run here: about 4 s."""

import numpy as np
import pytest

from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.context import CausalContext, MaskedContext, masked_context
from dprepro.text.masked_lm import masked_lm
from dprepro.text.tiny_lm import tiny_lm

TEXTS = ["a good film about the sea.", "", "unwatchable"]


@pytest.fixture(scope="module")
def masked():
    return masked_context()


@pytest.fixture(scope="module")
def cuts(masked):
    return [masked.vocabulary.cut(text, "both") for text in TEXTS]


def test_vocabulary_is_that_of_the_model_without_marks(masked):
    words = masked.vocabulary.words
    assert len(words) == 29_523
    assert not {"[CLS]", "[MASK]", "[UNK]", "[unused5]"} & set(words)
    assert {"[", "]", "##s", "film"} <= set(words)
    row = masked.vocabulary.number["film"]
    table = masked.model.encoder.get_input_embeddings().weight.detach().numpy()
    number = masked.model.tokenizer.convert_tokens_to_ids("film")
    np.testing.assert_array_equal(masked.vocabulary.vectors[row], table[number].astype(np.float32))


def test_masked_logits_are_those_of_the_text_with_a_mask(masked, cuts):
    found = masked.logits(cuts, np.array([0, 2, 0]), np.array([2, 1, 1]))
    wanted = masked_lm().logits(["a good [MASK] about the sea.", "a [MASK] film about the sea."])[
        :, masked.ids
    ]
    np.testing.assert_allclose(found[[0, 2]], wanted, atol=2e-4)
    tokens = masked.model.tokenizer.convert_tokens_to_ids(list(cuts[2].tokens))
    row = [101, tokens[0], 103, *tokens[2:], 102]
    wanted = masked_lm().logits_at([row], [2])[:, masked.ids]
    np.testing.assert_allclose(found[[1]], wanted, atol=2e-4)


def test_views(masked, cuts):
    place = np.array([0]), np.array([2])
    left = MaskedContext(masked.model, "left").logits(cuts, *place)
    np.testing.assert_allclose(left, masked_lm().logits(["a good [MASK]"])[:, masked.ids], atol=2e-4)
    other = [masked.vocabulary.cut("a good film , not a book", "both")]
    np.testing.assert_allclose(MaskedContext(masked.model, "left").logits(other, *place), left, atol=1e-5)
    whole = MaskedContext(masked.model, "unmasked").logits(cuts, *place)
    row = masked.vocabulary.number["film"]
    ranks = [(line[0] > line[0, row]).sum() for line in (whole, masked.logits(cuts, *place))]
    assert ranks[0] < ranks[1] / 2  # it sees the word itself
    with pytest.raises(ValueError, match="view must be one of"):
        MaskedContext(masked.model, "right")


def test_batches_move_last_bits_only(masked, cuts):
    texts, positions = np.zeros(3, np.int64), np.array([1, 2, 5])
    one = MaskedContext(masked.model, batch_size=1).logits(cuts, texts, positions)
    np.testing.assert_allclose(masked.logits(cuts, texts, positions), one, atol=1e-6)


def test_causal_logits_give_the_probability_of_the_text():
    language_model = tiny_lm()
    context = CausalContext(*language_model)
    (cut,) = [context.vocabulary.cut("A good film.")]
    assert context.vocabulary.join(cut.tokens) == "A good film."
    positions = np.arange(len(cut.tokens))
    logits = context.logits([cut], np.zeros(len(positions), np.int64), positions).astype(float)
    # Without the model's marks the sum over the vocabulary is a little short, so compare logits' differences.
    wanted = language_model.log_probabilities(["A good film."])[0][:-1]
    other = cut.rows.copy()
    other[-1] = context.vocabulary.number["!"]
    swapped = [context.vocabulary.words[row] for row in other]
    moved = language_model.log_probabilities([context.vocabulary.join(swapped)])[0][:-1]
    gap = logits[-1, cut.rows[-1]] - logits[-1, other[-1]]
    assert gap == pytest.approx(wanted[-1] - moved[-1], abs=1e-4)


def test_cape_over_a_text(masked):
    mechanism = Cape(masked.vocabulary, "both", masked)
    found = mechanism.perturb([*TEXTS, "фильм 😀"], 1000.0, np.random.default_rng(0))
    assert found.texts[0] == "a good film about the sea ."
    assert found.texts[1] == ""
    assert found.outside == 1  # the face; Cyrillic letters are pieces
    lowest = mechanism.perturb(TEXTS[:1], 0.01, np.random.default_rng(0))
    assert [lowest.tokens[0][i] for i in (0, 3, 4, 6)] == ["a", "about", "the", "."]
    assert lowest.replaced + lowest.unchanged == 3
