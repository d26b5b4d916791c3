"""Answers past the store, and which model it is."""

import json

import numpy as np
import pytest

from dprepro.text.answers import AnswerStore
from dprepro.text.copying_ngram import CopyingNGram
from dprepro.text.questions import Answered
from dprepro.text.replay import Replay
from dprepro.text.responders import StoredResponder
from dprepro.text.unstored import Unstored, model_of, past_the_store


class Counter:
    """A source that numbers its answers, the last prompt first."""

    def __init__(self):
        self.identity = {"model": "counter", "revision": "1"}
        self.decoding = {"temperature": 0, "max_tokens": 4}
        self.number = 0

    def answer(self, questions):
        for question in questions[::-1]:
            self.number += 1
            yield [Answered(question, [-float(self.number)] * len(question.labels) or f"a{self.number}", 1)]


def test_every_question_is_asked_anew(tmp_path):
    stored = StoredResponder(Counter(), AnswerStore(tmp_path), progress=False)
    assert stored.generate(["p", "q"]) == stored.generate(["p", "q"]) == ["a2", "a1"]
    fresh = past_the_store(stored)
    assert isinstance(fresh, Unstored)
    assert fresh.generate(["p", "q"]) == ["a4", "a3"]
    np.testing.assert_array_equal(fresh.label_logprobs(["p", "q"], ["x", "y"]), [[-6, -6], [-5, -5]])
    assert fresh.label_logprobs([], ["x", "y"]).shape == (0, 2)
    assert stored.generate(["p"]) == ["a2"]
    model = CopyingNGram()
    assert past_the_store(model) is model


def test_which_model_it_is(tmp_path):
    stored = StoredResponder(Counter(), AnswerStore(tmp_path / "answers"), progress=False)
    assert model_of(stored) == {"model": "counter", "revision": "1", "temperature": 0, "max_tokens": 4}
    assert model_of(Unstored(Counter())) == model_of(stored)
    assert model_of(CopyingNGram(order=2))["model"] == "copying-2-gram"
    file = tmp_path / "said.json"
    file.write_text(json.dumps({"p": "q"}))
    first = model_of(Replay(file))
    assert first["model"] == "said.json"
    file.write_text(json.dumps({"p": "r"}))
    assert model_of(Replay(file))["sha256"] != first["sha256"]


def test_a_responder_without_a_name():
    class Nameless:
        def generate(self, prompts):
            return list(prompts)

    with pytest.raises(ValueError, match="responder must name its model in its identity, got {}"):
        model_of(Nameless())
    with pytest.raises(ValueError, match="prompts must be texts"):
        Unstored(Counter()).generate([""])
