import numpy as np
import pytest
from scipy.stats import chisquare

from dprepro.text.word_lm import word_lm
from dprepro.text.word_samples import sample_words

torch = pytest.importorskip("torch")

WORDS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def lm():
    model, tokenizer = word_lm(WORDS, np.random.default_rng(0), width=8, layers=1, window=6)
    with torch.no_grad():  # far from uniform, so that a wrong law shows
        model.transformer.wte.weight.mul_(15)
    return model, tokenizer


def law(model, rows):
    with torch.inference_mode():
        return torch.softmax(model(input_ids=torch.tensor(rows)).logits[:, -1].double(), dim=-1).numpy()


def test_first_and_second_word_follow_the_models_law(lm):
    model, tokenizer = lm
    n = 4000
    texts = sample_words(model, tokenizer, "a", n, np.random.default_rng(1), 2)
    numbers = {"": 0, **{word: i + 2 for i, word in enumerate(WORDS)}}  # "" stands for either mark
    first = law(model, [[0, 2]])[0]
    # Law of the whole text, by the chain rule: what is a mark is not shown.
    chance = {}
    for one in range(5):
        second = law(model, [[0, 2, one]])[0]
        for two in range(5):
            shown = [] if one == 0 else [w for i in (one, two) for w, k in numbers.items() if k == i and w]
            text = " ".join(["a", *shown])
            chance[text] = chance.get(text, 0) + first[one] * second[two]
    often = [text for text in chance if n * chance[text] >= 5]
    assert len(often) > 3
    counts = [texts.count(text) for text in often]
    expected = np.array([n * chance[text] for text in often])
    rest = n - sum(counts), n - expected.sum()
    assert set(texts) <= set(chance)
    assert chisquare([*counts, rest[0]], [*expected, rest[1]]).pvalue > 1e-4


def test_texts_come_from_the_generator_and_leave_torch_alone(lm):
    before = torch.random.get_rng_state()
    one, again, other = (sample_words(*lm, "b", 30, np.random.default_rng(s), 4) for s in (1, 1, 2))
    assert one == again
    assert one != other
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(text.split()[0] == "b" and len(text.split()) <= 5 for text in one)
    assert len(sample_words(*lm, "", 3, np.random.default_rng(0), 5)) == 3


@pytest.mark.parametrize(
    ("n", "tokens", "message"), [(0, 2, "n must"), (1, 0, "tokens"), (1, 5, "at most 4")]
)
def test_bad_input_is_named(lm, n, tokens, message):
    with pytest.raises(ValueError, match=message):
        sample_words(*lm, "a", n, np.random.default_rng(0), tokens)
