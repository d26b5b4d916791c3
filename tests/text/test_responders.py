"""Responders: what is asked of a source and what of the store, order, progress, and which kind a name stands for."""

import subprocess
import sys

import numpy as np
import pytest

from dprepro.text.answers import AnswerStore
from dprepro.text.questions import Answered, Question
from dprepro.text.replay import Replay
from dprepro.text.responders import StoredResponder, over_label_set, responder


class Parrot:
    """A source that repeats prompts in capitals, weighs labels by their length, and notes what it was asked."""

    def __init__(self, stop_at=None, batch=2, **identity):
        self.identity = {"model": "parrot", "revision": "1", **identity}
        self.decoding = {"temperature": 0, "max_tokens": 8}
        self.asked, self.batch, self.stop_at = [], batch, stop_at

    def answer(self, questions):
        last_first = questions[::-1]
        for start in range(0, len(questions), self.batch):
            batch = last_first[start : start + self.batch]
            for question in batch:
                if question.prompt == self.stop_at:
                    raise KeyboardInterrupt
                self.asked.append(question.prompt)
            yield [
                Answered(
                    question, [-float(len(x)) for x in question.labels] or question.prompt.upper(), tokens=3
                )
                for question in batch
            ]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


def parrot(folder, **options):
    return StoredResponder(Parrot(**options), AnswerStore(folder), progress=False)


def test_answers_stand_in_the_callers_order(folder):
    asked = parrot(folder)
    assert asked.generate(["b", "a", "c"]) == ["B", "A", "C"]
    assert asked.generate(["d", "c", "a"]) == ["D", "C", "A"]
    assert asked.source.asked == ["c", "a", "b", "d"]
    assert (asked.calls, asked.cached) == (4, 2)


def test_the_second_run_makes_no_call(folder):
    first = parrot(folder)
    texts, table = first.generate(["a", "b"]), first.label_logprobs(["a", "b"], ["yes", "no"])
    second = parrot(folder, stop_at="a")
    assert second.generate(["a", "b"]) == texts
    np.testing.assert_array_equal(second.label_logprobs(["a", "b"], ["yes", "no"]), table)
    assert (second.source.asked, second.calls, second.cached) == ([], 0, 4)


def test_a_prompt_that_stands_twice_is_asked_once(folder):
    asked = parrot(folder)
    assert asked.generate(["a", "b", "a", "a"]) == ["A", "B", "A", "A"]
    assert sorted(asked.source.asked) == ["a", "b"]
    assert asked.generate(["a", "a"]) == ["A", "A"]
    assert (asked.calls, asked.cached) == (2, 1)


def test_labels_in_any_order_are_one_answer(folder):
    asked = parrot(folder)
    np.testing.assert_array_equal(
        asked.label_logprobs(["p", "q"], ["three", "a"]), [[-5.0, -1.0], [-5.0, -1.0]]
    )
    np.testing.assert_array_equal(asked.label_logprobs(["q"], ["a", "three"]), [[-1.0, -5.0]])
    assert asked.calls == 2
    asked.label_logprobs(["q"], ["a", "four"])
    assert asked.calls == 3


def test_texts_and_labels_are_kept_apart(folder):
    asked = parrot(folder)
    assert asked.generate(["a"]) == ["A"]
    assert asked.label_logprobs(["a"], ["x"]) == [[-1.0]]


@pytest.mark.parametrize("change", [{"model": "p"}, {"revision": "2"}, {"dtype": "x"}])
def test_another_model_is_asked_anew(folder, change):
    parrot(folder).generate(["a"])
    other = parrot(folder, **change)
    other.generate(["a"])
    assert other.calls == 1


def test_other_decoding_is_asked_anew_for_texts_only(folder):
    first = parrot(folder)
    first.generate(["a"])
    first.label_logprobs(["a"], ["x"])
    other = parrot(folder)
    other.source.decoding = {"temperature": 0, "max_tokens": 9}
    other.generate(["a"])
    other.label_logprobs(["a"], ["x"])
    assert (other.calls, other.cached) == (1, 1)


def test_an_interrupt_loses_the_batch_in_hand_and_no_more(folder):
    prompts = list("abcdefg")
    stopped = parrot(folder, stop_at="c")
    with pytest.raises(KeyboardInterrupt):
        stopped.generate(prompts)
    assert stopped.source.asked == ["g", "f", "e", "d"]
    again = parrot(folder)
    assert again.generate(prompts) == list("ABCDEFG")
    assert again.source.asked == ["c", "b", "a"]


def test_a_damaged_answer_is_asked_again(folder):
    parrot(folder).generate(["a", "b"])
    asked = parrot(folder)
    (key, *_) = asked.store._cache
    asked.store._cache.set(key, "not a record")
    with pytest.warns(UserWarning, match="asked for again"):
        assert asked.generate(["a", "b"]) == ["A", "B"]
    assert (asked.calls, asked.cached) == (1, 1)


def test_a_log_probability_that_is_none_is_not_kept(folder, monkeypatch):
    asked = parrot(folder)
    broken = [Answered(Question(0, "p", ("x",)), [float("nan")], tokens=1)]
    monkeypatch.setattr(asked.source, "answer", lambda questions: [broken])
    with pytest.raises(ValueError, match=r"log-probabilities after prompt 0 \('p'\) must be finite"):
        asked.label_logprobs(["p"], ["x"])
    assert not list(asked.store.records())


def test_no_prompts(folder):
    asked = parrot(folder)
    assert asked.generate([]) == []
    assert asked.label_logprobs([], ["x", "y"]).shape == (0, 2)
    assert asked.source.asked == []


@pytest.mark.parametrize("prompts", ["a", ["a", 1], [""]])
def test_prompts_that_are_none_are_never_asked(folder, prompts):
    asked = parrot(folder)
    with pytest.raises(ValueError, match="^prompts must be"):
        asked.generate(prompts)
    with pytest.raises(ValueError, match="^prompts must be"):
        asked.label_logprobs(prompts, ["x"])
    with pytest.raises(ValueError, match="^labels must be"):
        asked.label_logprobs(["a"], ["x", ""])
    assert asked.source.asked == []


def test_progress(folder, capsys):
    parrot(folder).generate(["a", "b"])
    StoredResponder(Parrot(), AnswerStore(folder), progress=True).generate(["a", "b", "c", "d", "e"])
    shown = capsys.readouterr().err
    assert "5/5" in shown
    assert "cached=2, calls=3, remaining=0, tokens_per_s=" in shown
    StoredResponder(Parrot(), AnswerStore(folder)).generate(["f"])
    assert capsys.readouterr().err == "", "no bar where nobody looks"


def test_normalised_over_the_label_set():
    table = np.log([[0.2, 0.1, 0.1], [1e-30, 3e-30, 0.0 + 1e-300]])
    normalised = over_label_set(table)
    np.testing.assert_allclose(np.exp(normalised), [[0.5, 0.25, 0.25], [0.25, 0.75, 0]], atol=1e-15)
    np.testing.assert_allclose(over_label_set([[-5000.0, -5000.0]]), [[np.log(0.5)] * 2], rtol=1e-12)
    np.testing.assert_allclose(over_label_set(normalised), normalised, atol=1e-15)


def test_which_kind_a_name_stands_for(tmp_path, folder):
    from dprepro.text.local_model import LocalModel
    from dprepro.text.server import Server

    served = responder("http://127.0.0.1:1/v1", model="m", store=folder)
    assert isinstance(served.source, Server)
    assert isinstance(responder(store=folder, max_tokens=5).source, LocalModel)
    parrot(folder).generate(["a"])
    assert isinstance(responder(str(folder)), Replay)
    AnswerStore(folder).export(tmp_path / "saved.jsonl")
    assert responder(str(tmp_path / "saved.jsonl"), model="parrot").generate(["a"]) == ["A"]
    with pytest.raises(FileNotFoundError, match="no model 'smollm'"):
        responder("smollm", store=folder)


def test_imports_stay_light():
    """The core runs without torch, and a replay needs no HTTP client."""
    code = (
        "import sys, dprepro.text.responders, dprepro.text.replay, dprepro.text.local_model\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'httpx'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
