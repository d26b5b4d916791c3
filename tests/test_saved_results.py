"""Every saved result fits the code that made it, and an item drawn at random comes out again at full size."""

import os
import random
from collections import defaultdict

import numpy as np
import pytest

from dprepro.audits import signal_gradient_study
from dprepro.audits.signal_item import kept
from dprepro.base import paths, results
from dprepro.text.embedders import SentenceEmbedder, embedder

SHIPPED = [name for name in results.names() if not name.startswith("paper_")]
LONG = "snapaudit_signal_gradient"  # two minutes of CPU an item: see its own test below
WHOLE = os.environ.get("DPREPRO_WHOLE_ITEMS") == "1"


@pytest.mark.parametrize("name", [name for name in SHIPPED if WHOLE or name != LONG])
def test_a_random_item_comes_out_again(name):
    saved = results.load(name)
    key = random.choice(list(saved))
    again = results.recompute(name, key)
    assert again.keys() == saved[key].keys()
    for part, value in again.items():
        if np.asarray(value).dtype.kind == "U":  # a text, or a list of texts
            assert value == saved[key][part], f"{name}, {key}, {part}"
        else:
            # Torch's sums differ in their last bits between processors; six digits are stored.
            np.testing.assert_allclose(value, saved[key][part], rtol=2e-6, err_msg=f"{name}, {key}, {part}")


def test_a_random_long_search_begins_and_ends_as_saved(monkeypatch):
    """A search's first 1,000 embeddings of up to 32,000 come out again, and its last pair is as far apart as saved.

    A whole item is computed by the test above with DPREPRO_WHOLE_ITEMS=1 in the environment.
    """
    saved, wanted = results.load(LONG), results.recipe(LONG)
    key = random.choice(list(saved))
    item, encoder = saved[key], embedder(threads=1)
    first, second = encoder.encode([item["first"], item["second"]])
    assert np.linalg.norm(first - second) == pytest.approx(item["distance"][-1], rel=2e-6), key

    encode, left = SentenceEmbedder.encode, 1_000 + ("cached" in key) * item["words"]

    def stopped(self, texts):
        nonlocal left
        left -= len(texts)
        if left < 0:
            raise KeyboardInterrupt  # from which a search returns what it has
        return encode(self, texts)

    monkeypatch.setattr(SentenceEmbedder, "encode", stopped)
    stream = np.random.SeedSequence(wanted.seed).spawn(len(saved))[wanted.items.index(key)]
    parameters = dict(wanted.parameters)
    checkpoints = parameters.pop("checkpoints")
    found = signal_gradient_study.search(key, np.random.default_rng(stream), encoder, **parameters)
    again = kept(found, checkpoints)
    assert found.interrupted
    rows = np.searchsorted(item["embeddings"], 1_000, "right")
    assert rows >= 2, key  # entries to compare
    assert again["embeddings"][:rows].tolist() == item["embeddings"][:rows], key
    np.testing.assert_allclose(again["distance"][:rows], item["distance"][:rows], rtol=2e-6, err_msg=key)


def test_there_is_a_saved_result():
    assert SHIPPED


def parts_of(name):
    """Numbers of the parts by what they are parts of, from keys such as "Cape, 1 6, 2"."""
    found = defaultdict(list)
    for key in results.recipe(name).items:
        whole, _, number = key.rpartition(", ")
        if name == "snapaudit_rivals" and "black box" in key:  # summed exactly, in one part
            continue
        if name == "prompt_nearest":  # a key may have several epsilons
            mechanism, epsilons = whole.split(", ")
            for epsilon in epsilons.split():
                found[f"{mechanism}, {epsilon}"].append(int(number))
        else:
            found[whole].append(int(number))
    return found


@pytest.mark.parametrize(
    ("name", "wholes", "parts"),
    [
        ("snapaudit_rivals", 16, {"": 5}),
        ("snapaudit_coverage", 12, {"": 4}),
        ("snapaudit_separation", 10, {", active": 3, ", passive": 4}),
        ("pmixed_perplexity", 16, {"": 4}),
        ("pmixed_more_experts", 6, {"": 4}),
        ("cape_losses", 4, {"": 13}),
        ("cape_ablation", 2, {"parts": 20, "constants": 10}),
        ("cape_context", 5, {"": 5}),
        (
            "cape_similarity",
            7,
            {
                **dict.fromkeys(("masked, both", "causal, both", "masked, none"), 40),
                **dict.fromkeys(
                    ("unmasked, both", "left, both", "masked, punctuation", "masked, stop words"), 20
                ),
            },
        ),
        ("snapaudit_fixed_data", 9, {"": 5}),
        ("prompt_loss", 9, {"SANTEXT": 13, "InferDPT": 1}),
        ("prompt_nearest", 16, {"": 3}),
    ],
)
def test_no_part_is_missing_or_double(name, wholes, parts):
    """Readers add parts up, so that a missing one would go unnoticed. `parts`: how many, by key or a word of it."""
    found = parts_of(name)
    assert len(found) == wholes
    for whole, numbers in found.items():
        (number,) = {parts[whole]} if whole in parts else (parts[word] for word in parts if word in whole)
        assert sorted(numbers) == list(range(number)), whole
    # Where the code is told how many parts there are, it cuts into so many.
    assert results.recipe(name).parameters.get("parts", max(parts.values())) == max(parts.values())


def test_those_of_the_profile_paper_are_larger_and_say_how_to_make_them():
    """Each is a shipped recipe with more subsets, reads the targets that belong to it, and nothing else differs."""
    larger = [name for name in results.names() if name not in SHIPPED]
    assert larger
    for name in larger:
        big, small = (results.recipe(part) for part in (name, name.removeprefix("paper_")))
        assert (big.function, big.seed) == (small.function, small.seed)
        differ = {part for part, value in big.parameters.items() if value != small.parameters[part]}
        if "subsets" in differ:
            assert differ == {"subsets"}
            assert big.parameters["subsets"] > small.parameters["subsets"]
            continue
        targets = results.recipe(big.parameters["targets"])
        assert differ == {"targets"}
        assert len(big.items) == targets.parameters["subsets"] > len(small.items)
        assert f"results/{targets.name}.json" in big.data
        if not (paths.DATA / "results" / f"{name}.json").exists():
            with pytest.raises(FileNotFoundError, match=f"dprepro rebuild {name}"):
                results.load(name)
