import numpy as np
import pytest
import torch

from dprepro.audits.extraction import Extraction, exposure, extract
from dprepro.mechanisms.dp_finetune import DPFineTune
from dprepro.stats.bounds import clopper_pearson
from dprepro.text.tiny_lm import TinyLM, tiny_lm

LEARNED = [
    "a secret that nobody else was ever told about in all of these many years",
    "the numbers of the safe are seven nine two four one and then eight again",
]
OTHERS = [
    "the price of bread rose again in the spring and fell a little in the autumn",
    "they went home before the rain began and found the door of the house open",
]


@pytest.fixture(scope="module")
def lm():
    return tiny_lm()


@pytest.fixture(scope="module")
def memorised(lm):
    """A model that was trained on two texts until it knows them."""
    plain = DPFineTune(0, np.inf, 1.0, 25, 5e-3)
    return TinyLM(plain.fit(*lm, LEARNED, np.random.default_rng(0)).model, lm.tokenizer)


def test_what_was_learned_comes_out(memorised):
    found = extract(*memorised, [*LEARNED, *OTHERS], prefix=4, suffix=10)
    assert found.verbatim.tolist() == [True, True, False, False]
    rate, low, high = found.rate()
    assert rate == 0.5
    assert (low, high) == tuple(float(limit) for limit in clopper_pearson(2, 4, 0.05))


def test_one_pass_is_greedy_decoding(memorised):
    """Against the generate of transformers, text by text."""
    texts = [*LEARNED, *OTHERS]
    found = extract(*memorised, texts, prefix=3, suffix=8, batch_size=3)
    for text, matched in zip(texts, found.matched, strict=True):
        tokens = memorised.tokenizer(text)["input_ids"]
        begin = torch.tensor([[0, *tokens[:3]]])
        drawn = memorised.model.generate(
            begin, attention_mask=torch.ones_like(begin), max_new_tokens=8, do_sample=False, pad_token_id=0
        )[0, 4:].tolist()
        agree = [a == b for a, b in zip(drawn, tokens[3:11], strict=False)]
        assert matched == (agree.index(False) if False in agree else len(agree))


def test_probability_is_the_models_own(lm):
    texts = [*LEARNED, *OTHERS]
    found = extract(*lm, texts, prefix=5, suffix=6)
    expected = [scores[5:11].sum() for scores in lm.log_probabilities(texts)]
    np.testing.assert_allclose(found.log_probability, expected, rtol=1e-4)


def test_within_some_tries():
    found = Extraction(1, 2, np.array([2, 0, 1]), np.log([0.5, 0.1, 1.0]))
    np.testing.assert_allclose(found.within(3), [1 - 0.5**3, 1 - 0.9**3, 1], rtol=1e-12)
    np.testing.assert_allclose(found.within([1, 2, 3]), [0.5, 0.19, 1], rtol=1e-12)
    tiny = Extraction(1, 2, np.array([0]), np.array([-100.0]))
    np.testing.assert_allclose(tiny.within(1000), 1000 * np.exp(-100), rtol=1e-9)
    with pytest.raises(ValueError, match="tries"):
        found.within(0)


@pytest.mark.parametrize(
    ("prefix", "suffix", "texts", "message"),
    [
        (0, 5, LEARNED, "prefix"),
        (5, 0, LEARNED, "suffix"),
        (120, 8, LEARNED, "at most 127 tokens together .*128.*got 120 and 8"),
        (100, 5, LEARNED, "at least 105 tokens .* at index 0: 'a secret"),
        (4, 4, [LEARNED[0], "no ."], "at least 8 tokens .* at index 1: 'no .'"),
        (2, 2, [], "at least one text"),
        (2, 2, LEARNED[0], "sequence"),
    ],
)
def test_bad_arguments(lm, prefix, suffix, texts, message):
    with pytest.raises(ValueError, match=message):
        extract(*lm, texts, prefix, suffix)


def test_exposure_by_hand():
    others = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    np.testing.assert_allclose(exposure([0.5, 1.5, 3.5, 9.0], others), [3, 2, 1, 0], atol=1e-12)
    assert exposure([1.0], others)[0] == 2  # a tie counts as a rank lost
    assert exposure([2.0], np.full(7, 2.0))[0] == 0


def test_exposure_without_a_trace_is_144_bits_on_average():
    rng = np.random.default_rng(1)
    values = [exposure(rng.standard_normal(20), rng.standard_normal(1000)) for _ in range(400)]
    # sd of an exponential over ln 2, 20 canaries share their alternatives: take runs as the units
    means = np.mean(values, axis=1)
    assert abs(means.mean() - 1 / np.log(2)) < 5 * means.std() / 400**0.5 + 0.002


@pytest.mark.parametrize(
    ("losses", "alternatives", "message"),
    [([1.0], [], "alternatives"), ([np.nan], [1.0], "losses"), ([1.0], [np.inf], "alternatives")],
)
def test_bad_exposures(losses, alternatives, message):
    with pytest.raises(ValueError, match=message):
        exposure(losses, alternatives)
