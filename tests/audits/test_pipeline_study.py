"""Blocks of runs with an n-gram in place of the language model: what is stored of each kind."""

from dataclasses import dataclass

import numpy as np
import pytest

from dprepro.audits import pipeline_study
from dprepro.audits.pipeline_study import PARTITIONS, labels, pipeline, report
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.text.copying_ngram import CopyingNGram
from dprepro.text.questions import Answered


@dataclass(frozen=True)
class Source:
    """Stands for `LocalModel`: a trigram, whose numbers move with the size of the batch by `wobble`."""

    dtype: str = "float32"
    max_tokens: int = 3
    threads: int = 1
    device: str = "cpu"
    batch_size: int = 16
    wobble: float = 0.0

    decoding = property(lambda self: {"max_tokens": self.max_tokens})
    identity = property(lambda self: {"model": "trigram"})

    def answer(self, questions):
        model = CopyingNGram(max_words=self.max_tokens)
        for question in questions:
            if question.labels:
                logs = (
                    model.label_logprobs([question.prompt], question.labels)[0]
                    - self.wobble * self.batch_size
                )
                yield [Answered(question, logs.tolist(), 1)]
            else:
                yield [Answered(question, model.generate([question.prompt])[0], 1)]


@pytest.fixture(autouse=True)
def trigram(monkeypatch):
    monkeypatch.setattr(pipeline_study, "LocalModel", Source)


def block(key, runs=4, seed=3):
    return report(key, np.random.default_rng(seed), runs, 7)


def test_votes():
    found = block("votes, one label, copying, 0")
    with_, without = (np.reshape(found[side], (4, 3)) for side in ("with_canary", "without_canary"))
    np.testing.assert_array_equal(with_ - without, np.tile([0, 0, 1], (4, 1)))
    assert found["off_label_with_canary"] == 4 * PARTITIONS - with_.sum()
    # The mark clings to the last word: of an unseen text the trigram finds nothing to copy, and says no label.
    assert found["off_label_without_canary"] == 4 * PARTITIONS


def test_log_probabilities_are_those_of_the_pipelines_prompts():
    found = block("experts, sentiment, copying, 5", runs=2)
    assert (
        block("experts, sentiment, copying, 5", runs=2)
        == found
        != block("experts, sentiment, copying, 5", 2, 4)
    )
    stream = np.random.default_rng(3).spawn(2)[1]  # the second run
    state = int(stream.integers(2**63))
    chosen = pipeline("sentiment", "copying", CopyingNGram(), 7)
    for side in (True, False):
        prompts = chosen.prompts(side, np.random.default_rng(state))
        expected = CopyingNGram().label_logprobs(prompts, [" positive", " negative", " maroon"])
        stored = found["with_canary" if side else "without_canary"]
        np.testing.assert_allclose(np.reshape(stored, (2, PARTITIONS, 3))[1], expected, rtol=1e-6)
    mechanism = ProductOfExperts(1.0, PARTITIONS)
    sides = [mechanism.utilities(np.reshape(found[s], (2, PARTITIONS, 3))) for s in pipeline_study.SIDES]
    assert mechanism.separation(sides[1][1], sides[0][1]) > 0.9


def test_texts():
    found = block("texts, replies, copying, 0", runs=3)
    with_, without = (found[side].split("\n") for side in ("with_canary", "without_canary"))
    assert len(with_) == len(without) == 3 * PARTITIONS
    assert with_.count("maroon") == 3
    assert "maroon" not in without
    assert sum(a != b for a, b in zip(with_, without, strict=True)) == 3


def test_nothing_but_the_canary_has_another_reply():
    prompts = pipeline("one reply", "copying", CopyingNGram(), 7).prompts(True, np.random.default_rng(1))
    answers = [line.rpartition(": ")[2] for prompt in prompts for line in prompt.split("\n")[:-1]]
    assert sorted(answers) == ["maroon"] + ["no comment today"] * 11


def test_the_direct_question_has_its_own_labels():
    assert labels("sentiment", "direct") == ("No", "Yes")
    assert labels("domains", "labelled") == ("film", "news", "product", "maroon")
    found = block("experts, sentiment, direct, 0", runs=2)
    assert len(found["with_canary"]) == 2 * PARTITIONS * 2
    assert found["off_label_with_canary"] == 2 * PARTITIONS


@pytest.mark.parametrize(("wobble", "within"), [(0.0, 1), (1e-5, 1), (1e-3, 0)])
def test_batches(monkeypatch, wobble, within):
    monkeypatch.setattr(pipeline_study, "LocalModel", lambda **options: Source(**options, wobble=wobble))
    found = block("batches, sentiment, copying, 0", runs=2)
    prompts = PARTITIONS + 1
    assert found == {
        "prompts": prompts,
        "same_text_again": prompts,
        "same_bits_again": prompts,
        "in_other_batches": 3 * prompts,
        "same_vote": 3 * prompts,
        "within_tolerance": within * 3 * prompts,
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("vote, sentiment, copying, 0", "kind of the key must be one of 'votes', .* got 'vote'"),
        ("votes, weather, copying, 0", "task must be one of 'sentiment', .* got 'weather'"),
        ("votes, sentiment", "style must be one of 'copying', .* got ''"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        block(key)


def test_bad_number_of_runs():
    with pytest.raises(ValueError, match="runs must be a whole number of at least 1, got 0"):
        block("votes, sentiment, copying, 0", runs=0)


def test_the_packaged_model_copies_the_canary(monkeypatch):
    """The one test that runs the model: a run of product of experts, four prompts."""
    from dprepro.text.local_model import LocalModel

    monkeypatch.setattr(pipeline_study, "LocalModel", LocalModel)
    found = block("experts, one label, copying, 0", runs=1)
    mechanism = ProductOfExperts(1.0, PARTITIONS)
    without, with_ = (
        mechanism.utilities(np.reshape(found[side], (1, PARTITIONS, 3)))[0] for side in pipeline_study.SIDES
    )
    assert mechanism.separation(with_, without) > 0.9
    assert (np.argmax(with_ - without), np.argmin(with_ - without)) == (2, 1)  # from "negative" to "maroon"
