"""Stated targets of the responders: a cached answer, and the packaged model from its conversion."""

import time

import pytest

from dprepro.text.answers import AnswerStore
from dprepro.text.local_model import LocalModel
from dprepro.text.questions import Answered
from dprepro.text.responders import StoredResponder

pytestmark = pytest.mark.benchmark

PROMPTS = [f"Review {n}: {'a film about the sea and the people who live by it. ' * 40}" for n in range(1000)]


class Constant:
    """A source that gives one answer at once."""

    identity, decoding = {"model": "constant", "revision": "1"}, {"max_tokens": 8}

    def answer(self, questions):
        yield [
            Answered(question, [-1.0] * len(question.labels) or "an answer", tokens=1)
            for question in questions
        ]


def test_a_cached_answer_takes_less_than_a_millisecond(tmp_path):
    asked = StoredResponder(Constant(), AnswerStore(tmp_path), progress=False)
    first, again = [], []
    for _ in range(3):
        for times in (first, again):
            start = time.perf_counter()
            asked.generate(PROMPTS)
            asked.label_logprobs(PROMPTS, [" yes", " no"])
            times.append((time.perf_counter() - start) / (2 * len(PROMPTS)))
    assert asked.calls == 2 * len(PROMPTS)
    print(f"\na prompt of 2,100 letters: stored in {1e3 * first[0]:.3f} ms, cached {1e3 * min(again):.3f} ms")
    assert min(again) < 1e-3


def test_the_packaged_model_loads_in_less_than_a_second():
    """CPU time for weights and tokenizer, after the imports and the conversion, which happens once."""
    pytest.importorskip("transformers")
    assert LocalModel(threads=1).model is not None
    times = []
    for _ in range(3):
        start = time.process_time()
        assert LocalModel(threads=1).model is not None
        times.append(time.process_time() - start)
    print(f"\nloaded in {min(times):.2f} s of CPU")
    assert min(times) < 1
