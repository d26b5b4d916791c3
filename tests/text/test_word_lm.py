"""The model over a list of words: tokens are words, weights come from the generator, greedy decoding is greedy."""

import numpy as np
import pytest

from dprepro.text.word_lm import token_numbers, word_lm

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dprepro.mechanisms.dp_finetune import DPFineTune  # noqa: E402

WORDS = ["one", "two", "three", "four"]


def make(seed=0, **sizes):
    return word_lm(WORDS, np.random.default_rng(seed), **sizes)


def test_tokens_are_words_and_a_mark_begins_and_ends():
    model, tokenizer = make()
    assert token_numbers(tokenizer, "four one  two") == [5, 2, 3]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 0, 1)
    assert model.config.vocab_size == 6
    assert model.lm_head.weight is model.transformer.wte.weight


def test_weights_come_from_the_generator_alone():
    state = torch.random.get_rng_state()
    first, again, other = (make(seed).model.transformer.wte.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_number_of_weights_is_that_of_the_formula():
    model, _ = make(width=16, layers=3, window=10)
    block = 12 * 16**2 + 13 * 16  # attention 4 w^2 + 4 w, feed-forward 8 w^2 + 5 w, two norms 4 w
    assert sum(weight.numel() for weight in model.parameters()) == 6 * 16 + 10 * 16 + 3 * block + 2 * 16


def test_it_learns_a_cycle_and_goes_on_with_it():
    cycle = [" ".join((WORDS * 3)[start : start + 6]) for start in range(4)]
    lm = make(width=16)
    trained = lm._replace(
        model=DPFineTune(0.0, np.inf, 1.0, 80, 0.02).fit(*lm, cycle, np.random.default_rng(0)).model
    )
    assert trained.go_on("two three", 3) == "four one two"
    # Texts have six words: the end mark follows, and ends it.
    assert trained.go_on("two three four one", 9) == "two three"


def test_greedy_is_what_transformers_generates():
    lm = make(3)
    start = torch.tensor([[0, *token_numbers(lm.tokenizer, "one three")]])
    settings = {"do_sample": False, "max_new_tokens": 8, "pad_token_id": 0}
    made = lm.model.generate(start, attention_mask=torch.ones_like(start), **settings)[0, 3:]
    assert lm.go_on("one three", 8) == lm.tokenizer.decode(made, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": "one"}, "words must be a sequence"),
        ({"words": []}, "words must be a sequence"),
        ({"words": ["one", "one"]}, "different"),
        ({"words": ["one two"]}, "white space"),
        ({"words": ["one", ""]}, "white space"),
        ({"words": ["<end>"]}, "mark's name"),
        ({"width": 30}, "width must be a multiple of heads"),
        ({"layers": 0}, "layers"),
        ({"window": 1}, "window"),
    ],
)
def test_what_is_no_model_is_refused(change, message):
    words = change.pop("words", WORDS)
    with pytest.raises(ValueError, match=message):
        word_lm(words, np.random.default_rng(0), **change)


def test_unknown_words_and_a_full_window_are_refused():
    lm = make(window=8)
    with pytest.raises(ValueError, match="known words, got 'five'"):
        lm.go_on("one five", 1)
    with pytest.raises(ValueError, match="tokens must be at most 5"):
        lm.go_on("one two", 6)
    assert len(lm.go_on("one two", 5).split()) <= 5
