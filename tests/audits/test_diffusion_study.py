import numpy as np
import pytest

from dprepro.audits import diffusion_study
from dprepro.audits.diffusion_study import Films, broken, corpus_quality, films, known_words, utility
from dprepro.mechanisms.synthesis.diffusion_net import new_weights
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts

SETTINGS = {
    "private": 20,
    "tested": 30,
    "written": 3,
    "sample_rate": 0.2,
    "steps": 1,
    "learning_rate": 1e-3,
    "denoising": 2,
    "shown": 1,
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "blank"),
        (" . 1,2 ! ", "blank"),
        ("a film of rare beauty", None),
        ("the film the", None),  # three words have no room to repeat
        ("the the film the", "repeated"),
        ("The THE film of", "repeated"),  # half of four
        ("zq zq zq zq", "repeated"),  # counted once, as repeated
        ("film zqx wfv", "garbled"),
        ("film beauty zqx wfv", None),  # half is not more than half
    ],
)
def test_broken_texts(text, kind):
    known = frozenset(["a", "film", "of", "rare", "beauty", "the"])
    found = broken([text, "a film"], known)._asdict()
    assert found == {name: int(name == kind) for name in ("blank", "repeated", "garbled")}


def test_films_are_cut_and_apart():
    found = films(50, 20)
    assert found.texts == cut_to_window(found.texts)
    assert (len(found.texts), len(found.labels), len(found.test_texts)) == (50, 50, 20)
    assert not set(found.texts) & set(found.test_texts)
    assert films(60, 20).texts[:50] == found.texts
    assert set(found.labels) == {"bad", "good"}


def test_known_words_are_those_of_public_and_private_text():
    known = known_words(50)
    assert all(word in known for text in films(50, 1).texts for word in diffusion_study._words(text))
    assert "emma" in known
    assert "zqx" not in known


def test_utility():
    texts, labels = ["fine work", "good fun", "dull mess", "bad bore"] * 3, ["good", "good", "bad", "bad"] * 3
    real = Films([], [], ["good work", "a bore", "dull"], ["good", "bad", "bad"])
    assert utility(SyntheticTexts(texts, labels, 0), real) == (1.0, 1.0)
    # Good texts alone have words: everything is called good.
    alone = SyntheticTexts(["fine", ".", "fun"], ["good", "bad", "good"], 0)
    assert utility(alone, real).micro == pytest.approx(1 / 3)
    assert utility(SyntheticTexts(["", "."], ["good", "bad"], 2), real).micro == pytest.approx(2 / 3)


@pytest.mark.parametrize("key", ["scratch, inf, 0", "public, 2, 0", "untrained, inf, 0"])
def test_an_item(key, monkeypatch):
    monkeypatch.setattr(diffusion_study, "public_start", lambda: new_weights(1, 0))
    found = corpus_quality(key, np.random.default_rng(0), **SETTINGS)
    assert found["texts"] == 6
    assert found["blank"] + found["repeated"] + found["garbled"] <= 6
    assert len(found["examples"]) == 2
    assert 0 <= found["micro"] <= 1
    assert found["correct"] == round(30 * found["micro"])
    assert found == corpus_quality(key, np.random.default_rng(0), **SETTINGS)
    assert (found["noise_multiplier"] > 0) == (key == "public, 2, 0")
    if key == "public, 2, 0":
        assert 1.8 < float(found["epsilon"]) <= 2
        assert found["delta"] == 1 / 20


def test_real_texts_are_whole_and_others_in_each_repetition():
    first, second = (
        corpus_quality(f"real, {i}", np.random.default_rng(0), **{**SETTINGS, "written": 30}) for i in (0, 1)
    )
    assert first["blank"] + first["repeated"] + first["garbled"] <= 3
    assert first["examples"] != second["examples"]
    assert not set(first["examples"]) & set(films(20, 1).texts)


def test_another_start_is_named():
    with pytest.raises(ValueError, match="start must be one of 'scratch', 'public', 'untrained', 'real'"):
        corpus_quality("other, 1, 0", np.random.default_rng(0), **SETTINGS)
