"""Texts of the planted study: drawn apart, of the lengths asked for, and pretraining corpora that keep their size."""

import numpy as np
import pytest

from dprepro.audits import contamination_texts


@pytest.fixture(scope="module")
def texts():
    return contamination_texts.material(np.random.default_rng(1), 30, 20, 24)


def test_material_is_drawn_apart_and_by_kind(texts):
    assert texts.labels == ["film"] * 30 + ["talk"] * 30
    assert texts.test_labels == ["film"] * 20 + ["talk"] * 20
    parts = [set(part) for part in (texts.private, texts.others, texts.test, texts.public)]
    assert [len(part) for part in parts] == [60, 60, 40, 60]
    assert len(set.union(*parts)) == 220
    for text in texts.private + texts.public:
        assert len(text.split()) >= contamination_texts.LEAST
        assert text == " ".join(text.split())
    rows = contamination_texts.public_model().tokenizer(
        texts.private + texts.public, add_special_tokens=False
    )["input_ids"]
    assert max(map(len, rows)) <= 24
    again = contamination_texts.material(np.random.default_rng(1), 30, 20, 24)
    other = contamination_texts.material(np.random.default_rng(2), 30, 20, 24)
    assert again == texts
    assert other.private != texts.private


def test_too_few_texts_of_a_kind_are_named():
    with pytest.raises(ValueError, match="each must be at most .* for film, got 900 and 20"):
        contamination_texts.material(np.random.default_rng(1), 900, 20, 24)
    with pytest.raises(ValueError, match="tested at most .* for talk, got 30 and 200"):
        contamination_texts.material(np.random.default_rng(1), 30, 200, 24)


@pytest.mark.parametrize(
    ("amount", "inside"), [("0", 0), ("0.25", 15), ("1", 60), (contamination_texts.OTHERS, 0)]
)
def test_the_pretraining_corpus_keeps_its_size(texts, amount, inside):
    corpus, numbers = contamination_texts.pretraining_corpus(texts, amount, np.random.default_rng(3))
    assert len(corpus) == 60
    assert len(numbers) == inside
    assert {texts.private[i] for i in numbers} == set(corpus) & set(texts.private)
    kinds = set(texts.others) if amount == contamination_texts.OTHERS else set(texts.public)
    assert set(corpus) - set(texts.private) <= kinds
