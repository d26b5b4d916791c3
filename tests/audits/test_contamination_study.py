"""The planted study in small: what is planted is found, corpora keep their size, the same seed gives the same."""

import numpy as np
import pytest

from dprepro.audits import contamination_study as study

SMALL = {
    "data_seed": 41,
    "each": 8,
    "tested": 10,
    "longest": 24,
    "written": 8,
    "planted": 0.5,
    "passes": 1,
    "batch": 8,
    "pretraining_rate": 1e-3,
    "epsilon": 2.0,
    "sample_rate": 0.5,
    "steps": 1,
    "learning_rate": 1e-2,
}


@pytest.fixture(scope="module")
def texts():
    return study.material(np.random.default_rng(1), 30, 20, 24)


def test_material_is_drawn_apart_and_by_kind(texts):
    assert texts.labels == ["film"] * 30 + ["talk"] * 30
    assert texts.test_labels == ["film"] * 20 + ["talk"] * 20
    parts = [set(part) for part in (texts.private, texts.others, texts.test, texts.public)]
    assert [len(part) for part in parts] == [60, 60, 40, 60]
    assert len(set.union(*parts)) == 220
    for text in texts.private + texts.public:
        assert len(text.split()) >= study.LEAST
        assert text == " ".join(text.split())
    rows = study._model().tokenizer(texts.private + texts.public, add_special_tokens=False)["input_ids"]
    assert max(map(len, rows)) <= 24
    again = study.material(np.random.default_rng(1), 30, 20, 24)
    other = study.material(np.random.default_rng(2), 30, 20, 24)
    assert again == texts
    assert other.private != texts.private


def test_too_few_texts_of_a_kind_are_named():
    with pytest.raises(ValueError, match="each must be at most .* for film, got 900 and 20"):
        study.material(np.random.default_rng(1), 900, 20, 24)
    with pytest.raises(ValueError, match="tested at most .* for talk, got 30 and 200"):
        study.material(np.random.default_rng(1), 30, 200, 24)


@pytest.mark.parametrize(("amount", "inside"), [("0", 0), ("0.25", 15), ("1", 60), (study.OTHERS, 0)])
def test_the_pretraining_corpus_keeps_its_size(texts, amount, inside):
    corpus, numbers = study._pretraining_corpus(texts, amount, np.random.default_rng(3))
    assert len(corpus) == 60
    assert len(numbers) == inside
    assert {texts.private[i] for i in numbers} == set(corpus) & set(texts.private)
    kinds = set(texts.others) if amount == study.OTHERS else set(texts.public)
    assert set(corpus) - set(texts.private) <= kinds


def test_an_item_of_each_kind():
    """Two short trainings of the small model and their texts: seconds."""
    first = study.effect("planted, 0.5, 0", np.random.default_rng(7), **SMALL)
    assert first["planted"] == first["found"] == 8
    for budget in ("eps", "inf"):
        assert 0 < first[f"mauve, {budget}"] <= 1
        assert 0 <= first[f"macro, {budget}"] <= 1
        assert 0 <= first[f"longest, {budget}"] <= 24
    removed = study.effect("unmarked, eps, 0", np.random.default_rng(7), **SMALL)
    assert removed["left"] == [14, 12, 10]
    assert len(removed["macro"]) == 3
    assert removed["noise"] == sorted(removed["noise"], reverse=True)  # delta is 1/N


@pytest.mark.parametrize(("key", "name"), [("planned, 0.5, 0", "key"), ("marked, 2, 0", "budget")])
def test_unknown_items_are_refused(key, name):
    with pytest.raises(ValueError, match=f"{name} must be one of"):
        study.effect(key, np.random.default_rng(7), **SMALL)
