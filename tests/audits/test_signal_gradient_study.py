"""Items of the saved searches: what is kept of a trajectory, and one short real run that beats the plain search."""

import numpy as np
import pytest

from dprepro.audits import signal_gradient_study
from dprepro.audits.signal_gradient_study import reached, report
from dprepro.text.embedders import embedder
from dprepro.text.wordlist import searchable


def test_reached_is_the_last_entry_within_the_budget():
    item = {"embeddings": [2, 500, 1990], "distance": [1.1, 1.5, 1.7]}
    np.testing.assert_array_equal(reached(item, [1, 2, 499, 500, 5000]), [np.nan, 1.1, 1.1, 1.5, 1.7])


@pytest.mark.parametrize("key", ["annealing, 500, run 0", "gradient", "gradient, many, run 0"])
def test_report_of_an_unknown_key(key):
    with pytest.raises(ValueError, match="of the key must be"):
        report(key, np.random.default_rng(0), length=8, checkpoints=[500])


def test_an_interrupted_search_is_no_item(monkeypatch):
    class Stopped:
        vocabulary = ("river", "treaty", "guitar")
        calls = 0

        def encode(self, texts):
            self.calls += 1
            if self.calls > 2:
                raise KeyboardInterrupt
            return np.eye(3)[np.arange(len(texts)) % 3]

    monkeypatch.setattr(signal_gradient_study, "embedder", lambda **_: Stopped())
    with pytest.raises(KeyboardInterrupt):
        report("cached words, 500, run 0", np.random.default_rng(0), length=2, checkpoints=[500])


def test_real_search_beats_the_plain_one():
    """At 150 embeddings one plain sweep reaches 1.556 to 1.604 (seeds 0 to 4)."""
    pytest.importorskip("sentence_transformers")
    found = report("gradient, 150, run 0", np.random.default_rng(1), length=8, checkpoints=[2, 100])
    assert found["embeddings"][0] == 2
    assert 144 <= found["embeddings"][-1] <= 150
    assert found["distance"][-1] > 1.61
    model = embedder(threads=1)
    first, second = model.encode([found["first"], found["second"]])
    assert np.linalg.norm(first - second) == pytest.approx(found["distance"][-1], abs=1e-5)
    words = searchable(model.vocabulary)
    assert found["words"] == len(words)
    assert set((found["first"] + " " + found["second"]).split()) <= set(words)
