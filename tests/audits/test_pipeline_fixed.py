"""Blocks of runs on one data set, with an n-gram in place of the language model: what is fixed and what is not."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from dprepro.audits import pipeline_fixed
from dprepro.audits.pipeline_fixed import fixed_data, report
from dprepro.audits.pipeline_report import clean_outputs
from dprepro.mechanisms.in_context.demonstrations import Demonstration, nonsense
from dprepro.text.copying_ngram import CopyingNGram
from dprepro.text.questions import Answered


@dataclass(frozen=True)
class Source:
    """Stands for `LocalModel`; keeps the prompts that it was asked."""

    dtype: str = "float32"
    max_tokens: int = 3
    threads: int = 1
    device: str = "cpu"

    decoding = property(lambda self: {"max_tokens": self.max_tokens})
    identity = property(lambda self: {"model": "trigram"})

    def answer(self, questions):
        model = CopyingNGram(max_words=self.max_tokens)
        for question in questions:
            ASKED.append(question.prompt)
            if question.labels:
                logs = model.label_logprobs([question.prompt], question.labels)[0]
                yield [Answered(question, logs.tolist(), 1)]
            else:
                yield [Answered(question, model.generate([question.prompt])[0], 1)]


ASKED = []


@pytest.fixture(autouse=True)
def trigram(monkeypatch):
    monkeypatch.setattr(pipeline_fixed, "LocalModel", Source)
    ASKED.clear()


def block(key, runs=4, seed=3, data_seed=7):
    return report(key, None, runs, 7, data_seed, seed)


def shown():
    """Demonstrations in the prompts that were asked, and how often."""
    return Counter(line for prompt in ASKED for line in prompt.split("\n")[:-1])


def test_the_data_set_is_the_same_whatever_is_drawn():
    data = fixed_data("sentiment", 1)
    canary = Demonstration("zo ru", "maroon")
    without, with_ = (data.draw(side, np.random.default_rng(seed)) for side, seed in ((None, 1), (canary, 2)))
    assert without == list(data.pool) == list(fixed_data("sentiment", 1).pool)
    assert with_ == [canary, *without[1:]]
    assert data.number == len(without) == 12
    assert set(without) != set(fixed_data("sentiment", 2).pool)


def test_runs_deal_one_data_set_anew():
    first = block("votes, one label, copying, 0, 0", runs=5)
    canary = nonsense(6, np.random.default_rng(7), "maroon").text
    lines = {line for line in shown() if not line.startswith(canary)}
    assert lines == {f"{item.text}: negative" for item in fixed_data("one label", 7).pool}
    assert len(set(ASKED)) > 10
    with_, without = (np.reshape(first[side], (5, 3)) for side in ("with_canary", "without_canary"))
    np.testing.assert_array_equal(with_ - without, np.tile([0, 0, 1], (5, 1)))


def test_another_seed_gives_another_data_set():
    block("texts, replies, copying, 0, 0", data_seed=1)
    one = set(shown())
    ASKED.clear()
    block("texts, replies, copying, 0, 0", data_seed=2)
    assert len(one & set(shown())) < 3


@pytest.mark.parametrize("start", ["votes, sentiment, copying", "experts, sentiment, copying"])
def test_parts_joined_are_the_block_computed_at_once(start):
    """Prompts too: the deals, and not only what an n-gram says of them, are those of the whole."""
    whole = block(f"{start}, 1, 0", runs=6)
    asked = set(ASKED)
    ASKED.clear()
    parts = [block(f"{start}, 1, {part}", runs=2) for part in range(3)]
    assert set(ASKED) == asked
    for side in ("with_canary", "without_canary"):
        assert [value for part in parts for value in part[side]] == whole[side]
        assert sum(part[f"off_label_{side}"] for part in parts) == whole[f"off_label_{side}"]
    ASKED.clear()
    block(f"{start}, 2, 0", runs=6)
    assert len(set(ASKED) & asked) < len(asked) / 2  # another block has deals of its own


def test_blocks_are_read_as_those_of_the_study():
    found = {
        f"experts, sentiment, copying, 0, {n}": block(f"experts, sentiment, copying, 0, {n}", 2)
        for n in (0, 1)
    }
    found["texts, replies, copying, 1, 0"] = block("texts, replies, copying, 1, 0", 3)

    class First:
        def statistic(self, answers):
            return np.array([len(answers), float(np.shape(answers)[-1])])

    rows = clean_outputs(found, "experts, sentiment, copying", First()).with_canary
    np.testing.assert_array_equal(rows, np.tile([3, 3], (4, 1)))
    assert len(clean_outputs(found, "texts, replies, copying", First()).with_canary) == 3


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("batches, sentiment, copying, 0, 0", "kind of the key must be one of 'votes', .* got 'batches'"),
        ("votes, sentiment", "style must be one of 'copying', .* got ''"),
        ("votes, weather, copying, 0, 0", "task must be one of 'sentiment', .* got 'weather'"),
        ("votes, sentiment, copying, 0", "number of the part"),
        ("votes, sentiment, copying, x, 0", "number of the block"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        block(key)


def test_bad_numbers():
    with pytest.raises(ValueError, match="runs must be a whole number of at least 1, got 0"):
        block("votes, sentiment, copying, 0, 0", runs=0)
