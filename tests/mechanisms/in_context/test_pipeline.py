"""The pipeline end to end on a small responder: each mechanism, neighbours, off-label answers, repeats, bad input."""

from dataclasses import replace

import numpy as np
import pytest

from dprepro.audits.snapshot_collect import collect
from dprepro.mechanisms.in_context.demonstrations import Demonstration, RandomDraw, Retrieval, nonsense
from dprepro.mechanisms.in_context.embedding import EmbeddingSpaceAggregation
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.keywords_joint import JointKeywords
from dprepro.mechanisms.in_context.packaged_tasks import replies, sentiment
from dprepro.mechanisms.in_context.pipeline import InContextPipeline
from dprepro.mechanisms.in_context.prompts import PromptStyle
from dprepro.mechanisms.in_context.readings import KeywordCounts, LabelUtilities, MeanEmbedding, Votes
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.text.answers import AnswerStore
from dprepro.text.copying_ngram import CopyingNGram
from dprepro.text.questions import Answered
from dprepro.text.replay import Replay
from dprepro.text.responders import StoredResponder

# The label mark is a word of its own, so that a trigram sees the end of the text behind it.
STYLE = PromptStyle("{text} : {answer}\n", "{query} :")
LABELS = ("positive", "negative", "maroon")
POOL = [item for item in sentiment() if item.answer == "positive"][:60]
CANARY = nonsense(6, np.random.default_rng(5), "maroon")


def rng(seed=0):
    return np.random.default_rng(seed)


def voting(responder=None, pool=POOL, number=12, partitions=3, **options):
    return InContextPipeline(
        responder or CopyingNGram(),
        RandomDraw(pool, number),
        CANARY,
        STYLE,
        partitions,
        Votes(LABELS),
        PrivateVoting(4.0),
        **options,
    )


class Words:
    """An embedder for tests: a word is a coordinate by its letters, sums have norm one."""

    def encode(self, texts):
        rows = np.zeros((len(texts), 64))
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[sum(map(ord, word)) % 64] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(10))
def test_sides_share_all_prompts_but_one(seed):
    pipeline = voting()
    without, with_ = (pipeline.prompts(canary, rng(seed)) for canary in (False, True))
    assert sum(a != b for a, b in zip(without, with_, strict=True)) == 1
    assert sum(f"{CANARY.text} : maroon\n" in prompt for prompt in with_) == 1
    assert not any("maroon" in prompt for prompt in without)
    shown = [line for prompt in without for line in prompt.split("\n")[:-1]]
    assert len(shown) == len(set(shown)) == 12  # disjoint partitions
    assert all(prompt.endswith(f"\n{CANARY.text} :") for prompt in with_)


@pytest.mark.parametrize("seed", range(10))
def test_the_copying_query_moves_one_vote(seed):
    pipeline = voting()
    np.testing.assert_array_equal(pipeline.clean(False, rng(seed)).statistic, [3, 0, 0])
    run = pipeline.clean(True, rng(seed))
    np.testing.assert_array_equal(run.statistic, [2, 0, 1])
    assert (run.off_label, run.answers) == (0, 3)


def test_release_is_the_mechanisms():
    pipeline = voting()
    rows = np.array([[3.0, 0, 0], [2, 0, 1]])
    np.testing.assert_array_equal(pipeline.release(rows, rng()), PrivateVoting(4.0).release(rows, rng()))


def test_product_of_experts():
    mechanism = ProductOfExperts(2.0, 3)
    pipeline = replace(voting(), reading=LabelUtilities(LABELS, mechanism), mechanism=mechanism)
    into, out = (pipeline.clean(canary, rng(3)).statistic for canary in (True, False))
    assert mechanism.release(np.stack([into, out]), rng()).shape == (2, 3)
    assert mechanism.separation(into, out) > 0.9
    assert np.abs(into - out).max() <= mechanism.sensitivity  # one expert's answer is another


def test_generation_with_embeddings_and_keywords():
    pool = replies(20)[:80]
    canary = Demonstration(CANARY.text, "lantern quarry")
    shared = (CopyingNGram(), RandomDraw(pool, 8), canary, STYLE, 2)
    esa = EmbeddingSpaceAggregation(4.0, partitions=2)
    pipeline = InContextPipeline(*shared, MeanEmbedding(Words()), esa)
    into, out = (pipeline.clean(canary, rng(1)).statistic for canary in (True, False))
    assert 0.2 < np.linalg.norm(into - out) <= 1
    assert pipeline.release(np.stack([into, out]), rng()).shape == (2, 64)
    universe = [
        "lantern",
        "quarry",
        *dict.fromkeys(w for i in pool for w in i.answer.lower().split() if w.isalpha()),
    ]
    words = replace(pipeline, reading=KeywordCounts(universe), mechanism=JointKeywords(4.0, keywords=3))
    counts = [words.clean(canary, rng(1)).statistic for canary in (True, False)]
    np.testing.assert_array_equal(counts[0][:2], [1, 1])
    np.testing.assert_array_equal(counts[1][:2], [0, 0])
    assert words.release(counts, rng()).shape == (2, 3)


def test_retrieved_passages_go_through_the_same_class():
    """DP-RAG: each partition answers from its passages; the canary passage is retrieved and moves one answer."""
    passages = [
        Demonstration(f"the mill of {town} was built by hand")
        for town in ("arno", "bree", "cask", "dorn", "elba")
    ]
    query = "who owned the mill ? owner"
    canary = Demonstration("the mill owner maroon")
    pipeline = InContextPipeline(
        CopyingNGram(order=2, max_words=1),
        Retrieval(passages, 4, query),
        canary,
        PromptStyle("{text}\n", "{query}"),
        2,
        Votes(["maroon", "was"]),
        PrivateVoting(4.0),
        query,
    )
    without, with_ = (pipeline.prompts(side, rng(2)) for side in (False, True))
    assert sum(a != b for a, b in zip(without, with_, strict=True)) == 1
    np.testing.assert_array_equal(pipeline.clean(True, rng(2)).statistic, [1, 0])
    np.testing.assert_array_equal(pipeline.clean(False, rng(2)).statistic, [0, 0])


def test_answers_off_the_label_set_are_counted():
    pool = [Demonstration(item.text, "whatever") for item in POOL]
    run = voting(pool=pool).clean(True, rng())
    np.testing.assert_array_equal(run.statistic, [0, 0, 1])
    assert (run.off_label, run.answers) == (2, 3)


class Source:
    """A copying n-gram as a source, behind a store."""

    def __init__(self, temperature=0.0):
        self.decoding = {"temperature": 0, "max_tokens": 8}  # what it claims
        self.model = CopyingNGram(prior=1.0, temperature=temperature, rng=rng(1))
        self.identity = {"model": "warm" if temperature else "cold"}
        self.asked = 0

    def answer(self, questions):
        self.asked += len(questions)
        yield [Answered(q, self.model.generate([q.prompt])[0], 1) for q in questions[::-1]]


def test_the_two_sides_cost_one_call_more_than_one(tmp_path):
    stored = StoredResponder(Source(), AnswerStore(tmp_path), progress=False)
    pipeline = voting(stored)
    for canary in (False, True):
        pipeline.clean(canary, rng(1))
    assert stored.source.asked == 4


def test_repeats_find_a_temperature_behind_a_store(tmp_path):
    """The store says the same twice; the model does not."""
    for name, temperature in (("cold", 0.0), ("warm", 1.5)):
        stored = StoredResponder(Source(temperature), AnswerStore(tmp_path / name), progress=False)
        pipeline = voting(stored)
        again = [pipeline.clean(True, rng(1)).statistic for _ in range(3)]
        np.testing.assert_array_equal(again[0], again[1])
        found = pipeline.repeats(5, rng(1))
        assert (found.prompts, found.times) == (4, 5)
        assert (found.differing > 0) == (temperature > 0)


def experts(responder=None, **options):
    mechanism = ProductOfExperts(2.0, 3, **options)
    return replace(voting(responder), reading=LabelUtilities(LABELS, mechanism), mechanism=mechanism)


class Jitter(CopyingNGram):
    def label_logprobs(self, prompts, labels):
        self.calls = getattr(self, "calls", 0) + 1
        return super().label_logprobs(prompts, labels) + self.calls * self.step


@pytest.mark.parametrize(
    ("step", "differing"),
    [(1e-5, 0), (1e-2, 4), (np.array([0, 0, 1e-2]), 4)],
    ids=["bits", "all", "one label"],
)
def test_rounding_of_log_probabilities_is_no_temperature(step, differing):
    model = Jitter()
    model.step = step
    assert experts(model).repeats(3, rng()).differing == differing


def test_provenance_names_the_model_and_depends_on_the_pool():
    one, other = voting().provenance, voting(pool=POOL[1:]).provenance
    assert one["model"] == "copying-3-gram"
    assert {key for key in one if one[key] != other[key]} == {"pool"}
    assert voting(query="other").provenance["query"] == "other"


@pytest.mark.parametrize("options", [{"clip": 1.0}, {"normalisation": "vocabulary"}])
def test_a_collection_does_not_go_on_with_other_clipping(options, tmp_path):
    collect(experts(), 2, 0, tmp_path, progress=False)
    with pytest.raises(ValueError, match=f"another: {next(iter(options))} "):
        collect(experts(**options), 3, 0, tmp_path, progress=False)
    other = replace(experts(), mechanism=ProductOfExperts(8.0, 3))  # noise is no part of a clean statistic
    assert len(collect(other, 3, 0, tmp_path, progress=False).with_canary) == 3


def test_a_collection_does_not_go_on_with_another_embedder(tmp_path):
    named, other = Words(), Words()
    named.name, other.name = "one", "other"
    esa = EmbeddingSpaceAggregation(4.0, partitions=3)
    one, two, nameless = (
        replace(voting(), reading=MeanEmbedding(words), mechanism=esa) for words in (named, other, Words())
    )
    collect(one, 2, 0, tmp_path, progress=False)
    with pytest.raises(
        ValueError, match=r"another: embedder \(\['Words', 'one'\], now \['Words', 'other'\]\)"
    ):
        collect(two, 3, 0, tmp_path, progress=False)
    with pytest.raises(ValueError, match="embedder must have a name"):
        collect(nameless, 3, 0, tmp_path, progress=False)


def test_bad_input():
    with pytest.raises(
        ValueError, match="demonstrations must be at least one a partition, got 2 for 3 partitions"
    ):
        voting(number=2)
    with pytest.raises(
        ValueError, match="canary must not occur among the demonstrations, got .* at place 60"
    ):
        voting(pool=[*POOL, Demonstration(CANARY.text.upper(), "positive")])
    with pytest.raises(ValueError, match="partitions must be the mechanism's 4, got 3"):
        replace(voting(), mechanism=ProductOfExperts(1.0, 4))
    with pytest.raises(ValueError, match="times must be a whole number of at least 2, got 1"):
        voting().repeats(1, rng())


def test_saved_answers_give_the_same_run(tmp_path):
    stored = StoredResponder(Source(), AnswerStore(tmp_path / "answers"), progress=False)
    said = [voting(stored).clean(canary, rng(1)).statistic for canary in (True, False)]
    assert stored.store.export(tmp_path / "said.jsonl") == 4
    again = voting(Replay(tmp_path / "said.jsonl"))
    np.testing.assert_array_equal([again.clean(canary, rng(1)).statistic for canary in (True, False)], said)
    assert again.provenance["model"] == "said.jsonl"
    with pytest.raises(ValueError, match="holds no text for prompt 0"):
        again.clean(True, rng(2))
