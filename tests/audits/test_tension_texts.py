import numpy as np
import pytest
import torch

from dprepro.audits import tension_texts
from dprepro.audits.tension_texts import DESIGNS, double, material, rounded, shadow, snippets
from dprepro.text.tiny_lm import tiny_lm

SIZES = {"records": 3, "repeated": 2, "each": 2, "new_tokens": (3, 2), "controls": 4}


@pytest.fixture(scope="module", autouse=True)
def searched_once():
    """A second search from one state of a generator finds what the first did, and leaves the same state."""
    known = {}

    def remembered(side, rng):
        key = side, str(rng.bit_generator.state)
        if key not in known:
            known[key] = snippets(side, rng), rng.bit_generator.state
        found, rng.bit_generator.state = known[key]
        return list(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tension_texts, "snippets", remembered)
        yield remembered


@pytest.fixture(scope="module")
def texts():
    return material((0.1, 3.0, -1.0, 2.0), 22, **SIZES)


def test_snippets_hold_prefix_and_suffix():
    found = snippets("train", np.random.default_rng(0))
    lengths = [len(row) for row in tiny_lm().tokenizer(found)["input_ids"]]
    assert 17 == min(lengths) < max(lengths) == 24
    assert len(set(found)) == len(found) > 500
    assert found == snippets("train", np.random.default_rng(0))
    assert not set(found) & set(snippets("test", np.random.default_rng(0)))


def test_what_is_remembered_is_what_a_search_finds(searched_once):
    for _ in range(2):
        assert snippets("train", np.random.default_rng(22)) == searched_once(
            "train", np.random.default_rng(22)
        )


def test_no_text_has_two_parts(texts):
    parts = [
        texts.records,
        texts.repeated,
        texts.controls,
        texts.held_out,
        *(texts.canaries[d] for d in DESIGNS),
    ]
    assert [len(part) for part in parts] == [3, 2, 4, 4, 2, 2, 3, 2]
    together = [text for part in parts for text in part]
    assert len(set(together)) == len(together)


def test_most_extractable_ones_lead_the_pool(texts, searched_once):
    pool = searched_once("train", np.random.default_rng(22))[:4]
    assert texts.canaries["most extractable"] == [pool[1], pool[3]]


def test_new_tokens_stand_behind_a_word_or_alone(texts):
    rows = texts.lm.tokenizer(texts.canaries["word and new token"])["input_ids"]
    assert [row[-1] for row in rows] == [2048, 2049, 2050]
    assert all(max(row[:-1]) < 2048 for row in rows)
    alone = texts.lm.tokenizer(texts.canaries["new token alone"])["input_ids"]
    assert alone == [[2051] * 6, [2052] * 6]
    weights = texts.lm.model.get_input_embeddings().weight[2048:]
    assert torch.equal(weights, weights[:1].expand(5, -1))


def test_shadow_gains_by_training():
    sizes = {"pool": 3, "data_seed": 22, "steps": 3, "learning_rate": 3e-3}
    found = shadow("shadow", np.random.default_rng(1), **sizes)
    assert len(found["gain"]) == 3
    assert min(found["gain"]) > 1
    assert found == shadow("shadow", np.random.default_rng(1), **sizes)


def test_double_is_a_copy(texts):
    twice = double(texts.lm)
    assert {weight.dtype for weight in twice.model.parameters()} == {torch.float64}
    assert {weight.dtype for weight in texts.lm.model.parameters()} == {torch.float32}
    control = texts.controls[:2]
    assert twice.perplexity(control) == pytest.approx(texts.lm.perplexity(control), rel=1e-5)


def test_rounded_keeps_nine_digits():
    assert rounded([1 / 3, 2e5 / 3, -0.0]) == [0.333333333, 66666.6667, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"controls": 10**5}, "there must be at most"),
        ({"each": 5}, "and 4 most extractable ones, got 18 and 5"),
    ],
)
def test_more_texts_than_there_are(changes, message):
    with pytest.raises(ValueError, match=message):
        material((0.1, 3.0, -1.0, 2.0), 22, **{**SIZES, **changes})


def test_no_pool():
    with pytest.raises(ValueError, match="pool"):
        shadow("shadow", np.random.default_rng(0), pool=0, data_seed=1, steps=1, learning_rate=1e-3)
