from functools import cache

import numpy as np
import pytest

from dprepro.audits import cape_context, cape_losses, cape_study
from dprepro.audits.prompt_snippets import snippets
from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.exact_loss import worst_case_loss
from dprepro.mechanisms.prompt.vocabulary import Vocabulary, WordTokenizer

SIZES = {"sentences": 12, "parts": 3, "epsilons": [1.0, 5000.0]}


class Words:
    """A model over the words of the snippets, with logits that are fixed for a place and a text."""

    def __init__(self):
        words = WordTokenizer()
        found = dict.fromkeys(token for text in snippets("test", 120).texts for token in words.tokenize(text))
        vectors = np.random.default_rng(0).normal(size=(len(found), 40)).astype(np.float32)
        self.vocabulary = Vocabulary(tuple(found), vectors)

    def logits(self, cuts, texts, positions):
        def of(text, position):
            around = [*cuts[text].rows[:position], -5, *cuts[text].rows[position + 1 :]]
            seed = [int(row) + 10 for row in around]
            return np.random.default_rng(seed).normal(0, 0.5, len(self.vocabulary))

        return np.array([of(t, p) for t, p in zip(texts, positions, strict=True)])


words = cache(Words)  # nothing changes it


@pytest.fixture(autouse=True)
def model(monkeypatch):
    found = words()
    for module in (cape_study, cape_losses, cape_context):
        monkeypatch.setattr(module, "context_named", lambda name: found)
    return found


def test_similarity_by_part(model):
    found = cape_study.similarity("masked, both, 2", np.random.default_rng(0), **SIZES)
    cuts = [model.vocabulary.cut(text, "both") for text in snippets("test", 12).texts[8:]]
    assert found["sensitive"] == sum(len(cut.sensitive) for cut in cuts)
    assert found["kept"] == sum(cut.kept.sum() for cut in cuts)
    assert found["outside"] == 0
    assert found["5000, words"] == found["5000, whitespace"] == [1.0] * 4
    assert found["5000, unchanged"] == found["sensitive"]
    assert 0 < np.mean(found["1, words"]) < 0.8
    bare = cape_study.similarity("causal, none, 2", np.random.default_rng(0), **SIZES)
    assert np.mean(bare["1, words"]) < np.mean(found["1, words"])
    with pytest.raises(ValueError, match="context must be one of"):
        cape_study.similarity("right, both, 0", np.random.default_rng(0), **SIZES)


def test_blocks_of_places_are_texts_in_order(model):
    cuts = cape_study.cut_snippets(model, "both", 12, 1, 0)
    blocks = list(cape_study.places_of(cuts, 7))
    pairs = [pair for block in blocks for pair in zip(*block, strict=True)]
    assert pairs == [(t, p) for t, cut in enumerate(cuts) for p in cut.sensitive]
    assert {len(block[0]) for block in blocks[:-1]} == {7}


def test_ablation_has_every_variant(model):
    found = cape_study.ablation("parts, 0", np.random.default_rng(1), **SIZES)
    for name in (*cape_study.ABLATION, *cape_study.OTHERS):
        assert len(found[f"{name}, 5000"]) == 4
        assert 0 <= found[f"{name}, 1, unchanged"] <= found["sensitive"]
    # What stays of the token itself: all of it, or nothing but chance where the output does not depend on it.
    assert found["distance only, 5000, unchanged"] == found["sensitive"]
    assert found["randomised response, 5000, unchanged"] == found["sensitive"]
    assert found["N_b = 1, 5000, unchanged"] < 0.2 * found["sensitive"]
    assert found["logit only, 5000, unchanged"] < 0.3 * found["sensitive"]
    constants = cape_study.ablation("constants, 0", np.random.default_rng(1), **SIZES)
    assert all(len(constants[f"{name}, 1"]) == 4 for name in cape_study.CONSTANTS)
    with pytest.raises(ValueError, match="which must be one of"):
        cape_study.ablation("all, 0", np.random.default_rng(1), **SIZES)


def test_losses_of_a_place(model):
    given = {"sentences": 12, "place_seed": 3, "epsilons": [1.0, 6.0]}
    keys = [f"N_b = 10, 1, {i}" for i in range(cape_losses.BLOCKS)]
    items = {key: cape_losses.losses(key, np.random.default_rng(0), **given) for key in keys}
    found = cape_losses.joined(items)["N_b = 10, 1"]
    (text,) = [
        t
        for t in snippets("test", 12).texts
        if model.vocabulary.cut(t).tokens == tuple(found["text"].split())
    ]
    cut = model.vocabulary.cut(text, "both")
    places = [p for p in cut.sensitive if cut.tokens[p] == found["word"]]
    wanted = []
    for place in places:
        context = model.logits([cut], [0], [place])[0]
        mechanism = Cape(model.vocabulary, "both", buckets=10)
        wanted.append([worst_case_loss(mechanism, epsilon, context).value for epsilon in (1.0, 6.0)])
    assert any(np.allclose(found["exact"], losses) for losses in wanted)
    assert (np.array(found["exact"]) <= found["corrected"]).all()
    assert found["fewest"] <= found["most"] <= 10
    alone = cape_losses.losses("logit only, 1, 0", np.random.default_rng(0), **given)
    np.testing.assert_allclose(
        alone["exact"], 0, atol=1e-12
    )  # without distance the token has no part in its output


def test_context_leak_by_hand(model):
    given = {"sentences": 3, "epsilons": [6.0], "word_seed": 5}
    found = cape_context.context_leak("1, 0", None, parts=1, **given)
    items = [cape_context.context_leak(f"1, {part}", None, parts=3, **given) for part in range(3)]
    assert {name: [value for item in items for value in item[name]] for name in found} == found
    rng = np.random.default_rng(np.random.SeedSequence(5).spawn(2)[1])
    texts = snippets("test", 6).texts[3:]
    mechanism = Cape(model.vocabulary, "both", model)
    for i, text in enumerate(texts):
        cut = model.vocabulary.cut(text, "both")
        place = int(rng.choice(cut.sensitive))
        tokens = list(cut.tokens)
        tokens[place] = model.vocabulary.words[int(rng.integers(len(model.vocabulary)))]
        after = model.vocabulary.cut(" ".join(tokens))  # cut alike; kept as before
        own, forth, back = 0.0, 0.0, 0.0
        for position in cut.sensitive:
            a, b = (
                mechanism.log_channel(c.rows[[position]], 6.0, model.logits([c], [0], [position]))[0]
                for c in (cut, after)
            )
            if position == place:
                own = np.abs(a - b).max()
            else:
                forth, back = forth + (a - b).max(), back + (b - a).max()
        assert found["6, own"][i] == pytest.approx(own)
        assert found["6, others"][i] == pytest.approx(max(forth, back))
        assert found["places"][i] == len(cut.sensitive)


@pytest.mark.parametrize("key", ["1, 3", "1, -1", "a, 0", "1"])
def test_a_context_leak_of_no_part(key):
    with pytest.raises(ValueError, match="key"):
        cape_context.context_leak(key, None, sentences=3, parts=3, epsilons=[6.0], word_seed=5)
