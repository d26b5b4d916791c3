import numpy as np
import pytest
import torch

from dprepro.mechanisms.synthesis import variations
from dprepro.mechanisms.synthesis.aug_pe import AugPE
from dprepro.mechanisms.synthesis.variations import Continuations, Rewrites
from dprepro.text.tiny_lm import tiny_lm


@pytest.fixture(scope="module")
def writer():
    return Continuations(*tiny_lm(), max_tokens=8)


def tokens(writer, text):
    return writer.tokenizer(text, add_special_tokens=False)["input_ids"]


def test_texts_are_short_and_the_seed_decides(writer):
    state = torch.random.get_rng_state()
    first, second, other = (writer.random_texts(6, "any", np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first == second != other
    assert len(set(first)) == 6
    assert torch.equal(state, torch.random.get_rng_state())


def test_first_tokens_come_with_the_models_probabilities(writer):
    """Beginnings of texts against the softmax of the model after the end mark."""
    one = Continuations(writer.model, writer.tokenizer, 1)
    drawn = one.random_texts(1500, "any", np.random.default_rng(0))
    with torch.no_grad():
        expected = writer.model(torch.tensor([[0]])).logits[0, -1].softmax(0).numpy()
    for token in np.argsort(-expected)[:5]:
        word = writer.tokenizer.decode([int(token)]).removeprefix(" ")
        alike = sum(
            p for t, p in enumerate(expected) if t and writer.tokenizer.decode([t]).removeprefix(" ") == word
        )
        share = drawn.count(word) / 1500
        assert abs(share - alike) < 4 * np.sqrt(alike * (1 - alike) / 1500)


def test_a_variation_begins_like_its_source(writer):
    text = "she was not at all sure of it ."
    row = tokens(writer, text)
    found = writer.variations([text] * 60, "any", np.random.default_rng(1))
    shared = []
    for other in found:
        own = tokens(writer, other)
        shared.append(next((i for i, (a, b) in enumerate(zip(row, own, strict=False)) if a != b), len(own)))
        assert len(own) <= 9  # a last token may come apart when it is read again
    assert 0 in shared
    assert max(shared) >= 5
    assert sum(other == text for other in found) < 10


def test_texts_beside_it_do_not_change_what_a_text_goes_on_with(writer):
    """Beginnings of different lengths share a batch: greedily, each goes on as if it were alone."""
    greedy = Continuations(writer.model, writer.tokenizer, 8)
    long, short = tokens(writer, "she was not at all"), tokens(writer, "he")
    chosen = {}
    original = writer.model.generate

    def argmax(ids, attention_mask, generation_config):
        generation_config.do_sample, generation_config.temperature = False, None
        generation_config.top_k = generation_config.top_p = None
        return original(ids, attention_mask=attention_mask, generation_config=generation_config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer.model, "generate", argmax)
        for name, starts in (("together", [short, long]), ("short", [short]), ("long", [long])):
            chosen[name] = greedy._continued(starts, np.random.default_rng(0))
    assert chosen["together"] == [*chosen["short"], *chosen["long"]]


def test_many_texts_come_in_batches(writer, monkeypatch):
    monkeypatch.setattr(variations, "_BATCH", 4)
    found = writer.variations(
        ["a", "she was not", "no .", "he", "", "it is so"], "any", np.random.default_rng(0)
    )
    assert len(found) == 6
    assert writer.variations([], "any", np.random.default_rng(0)) == []


def test_evolution_with_a_model(writer):
    """The whole way with the small model and an embedder that counts letters: private texts full of e."""

    class Letters:
        def encode(self, texts):
            return np.array([[text.count("e") / max(len(text), 1), 0.0] for text in texts])

    found = AugPE(np.inf, 4, 8, 3).fit(
        writer,
        Letters(),
        ["eee eee"] * 4 + ["oho"] * 4,
        ["much"] * 4 + ["none"] * 4,
        np.random.default_rng(0),
    )
    share = {label: Letters().encode(found.kept[label][:1])[0, 0] for label in found.labels}
    assert share["none"] == 0
    assert share["much"] > 0.18  # of a text as the model writes it, a tenth
    assert len(found.sample({"much": 10}, np.random.default_rng(0)).texts) == 10


@pytest.mark.parametrize(
    ("most", "named"), [(0, "max_tokens must be a whole"), (128, "max_tokens must be at most 127")]
)
def test_bad_lengths_are_named(most, named, writer):
    with pytest.raises(ValueError, match=named):
        Continuations(writer.model, writer.tokenizer, most)


class Echo:
    """A responder that answers with the prompt, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def generate(self, prompts):
        self.asked += prompts
        return [f' "{prompt}"\nThat was it.' for prompt in prompts]


def test_rewrites_ask_for_a_style_of_the_text():
    echo = Echo()
    writer = Rewrites(echo, "Write {style}, {label}.", "Rewrite {style}, {label}: {text}", ("short", "long"))
    rng = np.random.default_rng(0)
    wrote = writer.random_texts(20, "good", rng)
    assert set(wrote) == {"Write short, good.", "Write long, good."}
    found = writer.variations(["one", "two"], "bad", rng)
    assert all(answer.startswith("Rewrite ") and ", bad: " in answer for answer in found)
    assert [answer[-3:] for answer in found] == ["one", "two"]
    assert writer.variations([], "bad", rng) == []


def test_braces_of_ones_own_are_written_twice():
    writer = Rewrites(Echo(), "{{{style}}}", "{{x}} {style}: {text}", ("short",))
    assert writer.random_texts(1, "good", np.random.default_rng(0)) == ["{short}"]
    # Those of a text are no places, whatever stands between them.
    assert writer.variations(["{foo} {"], "good", np.random.default_rng(0)) == ["{x} short: {foo} {"]


def test_rewrites_without_an_answer_are_blank():
    class Silent:
        def generate(self, prompts):
            return ["\n \n" for _ in prompts]

    assert Rewrites(Silent()).random_texts(2, "good", np.random.default_rng(0)) == ["", ""]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"write": "Write."}, "write must hold {style}"),
        ({"rewrite": "Rewrite {style}."}, "rewrite must hold {text}"),
        (
            {"write": "{style} {foo}"},
            r"write may hold {label} and {style} alone, got {foo} in '{style} {foo}'",
        ),
        ({"write": "{style} {text}"}, "write may hold {label} and {style} alone, got {text}"),
        ({"rewrite": "{style} {text} {0}"}, "rewrite may hold {label} and {style}, {text} alone, got {0}"),
        ({"rewrite": "{style} {text} {}"}, "got {} in"),
        ({"write": "{style} {style.upper}"}, "got {style.upper} in"),
        ({"write": "{style} {label!x}"}, "got {label!x} in"),
        ({"write": "{style} {label:9z}"}, "got {label:9z} in"),
        ({"write": "{style} {"}, "write must be a prompt whose braces close"),
        ({"write": "{style} }"}, "write must be a prompt whose braces close"),
        ({"styles": ()}, "styles must be a sequence of at least one"),
        ({"styles": "short"}, "styles must be"),
    ],
)
def test_bad_prompts_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        Rewrites(Echo(), **changes)
