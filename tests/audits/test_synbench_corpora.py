import numpy as np
import pytest

from dprepro.audits import synbench_corpora
from dprepro.audits.ngram_design import MembershipDesign
from dprepro.audits.ngram_scores import target_logprobs
from dprepro.audits.synbench_corpora import (
    CONTROL,
    GENERATORS,
    HALF_NOISE,
    NO_NOISE,
    PLAIN,
    PRIVATE,
    corpus_scores,
)
from dprepro.audits.synbench_films import LABELS, Films, films
from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.synthesis.dp_gen import DPGen
from dprepro.text.tiny_lm import TinyLM, tiny_lm

TARGETS = ["Oddly moving, and dry as dust.", "A turgid yarn about bees."]


@pytest.fixture
def few(monkeypatch):
    """Two subsets of six private texts; each holds one target."""
    texts = ["a fine film .", "a dull film .", "fine songs .", "no plot .", "a joy .", "a bore ."]
    design = MembershipDesign(
        np.eye(2, dtype=bool),
        np.tile(np.arange(6), (2, 1)),
        np.zeros((4, 2), bool),
        np.zeros((4, 1), np.int64),
    )
    own = Films(
        texts,
        ["good", "bad"] * 3,
        TARGETS,
        ["good", "bad"],
        np.array(["outlier", "member"]),
        design,
        np.arange(6),
        np.arange(0),
    )
    monkeypatch.setattr(synbench_corpora, "films", {"own": own}.__getitem__)
    return own


def scores(key=0, seed=0, **changes):
    settings = {
        "targets": "own",
        "generator": PLAIN,
        "epsilon": 0.5,
        "sample_rate": 1.0,
        "steps": 1,
        "learning_rate": 3e-3,
    }
    settings |= {"written": 6, "max_tokens": 6, **changes}
    return corpus_scores(key, np.random.default_rng(seed), **settings)


@pytest.mark.parametrize("generator", GENERATORS)
def test_an_item_is_flat_and_comes_out_again(generator, few):
    found = scores(generator=generator)
    assert found == scores(generator=generator)
    assert found["texts"] == 12
    assert found["blanks"] <= found["wordless"] <= 12
    for name in ("loss", *(f"log-probability, {order}" for order in (1, 2, 3, 4))):
        assert len(found[name]) == 2
        assert np.isfinite(found[name]).all()


def test_scores_are_those_of_the_corpus_that_was_written(few):
    found = scores(1, generator=NO_NOISE)
    rng = np.random.default_rng(0)
    tuning = DPGen(0.5, 1.0, 1, 3e-3, noise_share=0.0)
    data = [*few.texts, TARGETS[1]], [*few.text_labels, "bad"]
    made = tuning.fit(*tiny_lm(), *data, rng, records=8)
    wrote = made.sample({"bad": 6, "good": 6}, rng, 6)
    assert found["log-probability, 2"] == pytest.approx(target_logprobs(wrote.texts, TARGETS, 2), rel=1e-6)
    assert found["blanks"] == wrote.blanks


def test_the_account_is_that_of_all_records_whichever_targets_are_in(few):
    """Eight records: six texts and both targets. A bug changes what is added, not what is claimed."""
    claimed = [scores(key, generator=g) for key in (0, 1) for g in (PRIVATE, NO_NOISE, HALF_NOISE)]
    for found in claimed:
        assert found["delta"] == 1 / 8
        assert float(found["epsilon"]) == pytest.approx(
            dp_sgd_epsilon(found["noise_multiplier"], 1.0, 1, 1 / 8, "prv"), rel=1e-5
        )
    assert len({found["noise_multiplier"] for found in claimed}) == 1
    assert len({tuple(found["loss"]) for found in claimed}) == len(claimed)
    assert scores()["epsilon"] == "inf"


def test_the_white_box_sees_who_was_in_and_the_control_nothing(few):
    before = np.array(scores(generator=CONTROL)["loss"])
    marked = [f"{label}: {text}" for text, label in zip(TARGETS, few.labels, strict=True)]
    lines = TinyLM(*tiny_lm()).log_probabilities(marked)
    skipped = [len(tiny_lm().tokenizer(f"{label}:")["input_ids"]) for label in few.labels]
    expected = [-line[skip:].mean() for line, skip in zip(lines, skipped, strict=True)]
    np.testing.assert_allclose(before, expected, rtol=1e-5)
    drops = [before - scores(key, steps=8)["loss"] for key in (0, 1)]
    for key in (0, 1):
        assert drops[key][key] > drops[1 - key][key] + 0.5
    assert scores(1, generator=CONTROL) == scores(0, generator=CONTROL)


def test_an_unknown_generator_is_named(few):
    with pytest.raises(ValueError, match="generator must be one of .*'control', got 'diffusion'"):
        scores(generator="diffusion")


def test_the_films_fit_what_the_generators_need():
    found = films()
    for key in (0, 39):
        texts, labels = found.subset(key)
        assert min(labels.count(label) for label in LABELS) >= 50
        assert len(texts) == len(labels)
    assert set(found.labels) == set(LABELS)
