"""Classifiers on real snippets: what they reach, and that a seed says everything."""

import numpy as np
import pytest

from dprepro.text.classifiers import FineTunedClassifier, tfidf_classifier
from dprepro.text.corpora import corpus

DOMAINS = ("movies", "editorials", "products")


@pytest.fixture(scope="module")
def domains():
    parts = {
        side: [(t, name) for name in DOMAINS for t in corpus(name).split(side).texts[:size]]
        for side, size in (("train", 1500), ("test", 400))
    }
    return {side: tuple(zip(*rows, strict=True)) for side, rows in parts.items()}


def test_tfidf_tells_domains_apart(domains):
    pytest.importorskip("sklearn")
    model = tfidf_classifier().fit(*domains["train"])
    accuracy = (model.predict(domains["test"][0]) == np.array(domains["test"][1])).mean()
    assert 0.8 < accuracy < 0.98  # a third by chance


def test_tfidf_keeps_one_letter_words():
    pytest.importorskip("sklearn")
    model = tfidf_classifier().fit(["I", "a", "I I", "a a"], ["x", "y", "x", "y"])
    assert list(model.predict(["I", "a"])) == ["x", "y"]


def test_fine_tuning_learns_and_is_repeatable(domains):
    pytest.importorskip("torch")
    (texts, labels), (new, truth) = domains["train"], domains["test"]
    chosen = np.random.default_rng(0).permutation(len(texts))[:96]
    small = [texts[i] for i in chosen], [labels[i] for i in chosen]
    test = np.random.default_rng(1).permutation(len(new))[:120]
    settings = {"epochs": 1, "learning_rate": 5e-4, "batch_size": 8, "max_tokens": 32, "seed": 3}
    one, two = (FineTunedClassifier(**settings).fit(*small) for _ in range(2))
    unseen, few = [new[i] for i in test], slice(3 * 8)  # whole batches
    p = one.predict_proba(unseen)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(p[few], two.predict_proba(unseen[few]))
    best = one.classes_[p.argmax(axis=1)]
    np.testing.assert_array_equal(one.predict(unseen[few]), best[few])
    accuracy = (best == np.array([truth[i] for i in test])).mean()
    assert accuracy > 0.6  # a third by chance; 120 texts: five standard errors above .4
    assert one.predict_proba([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FineTunedClassifier(epochs=0), "epochs must be a whole number"),
        (lambda: FineTunedClassifier(learning_rate=0), "learning_rate must be in"),
        (lambda: FineTunedClassifier().fit(["a", "b"], ["x"]), "got 1 for 2 texts"),
        (lambda: FineTunedClassifier().fit(["a", "b"], ["x", "x"]), "1 kinds"),
        (lambda: FineTunedClassifier().predict(["a"]), "must be fitted"),
    ],
)
def test_bad_input(call, message):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=message):
        call()
