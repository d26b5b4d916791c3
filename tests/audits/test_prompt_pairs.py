"""Parts of the pairs, joined, against all pairs at once, on a vocabulary of sixty words."""

import numpy as np
import pytest

from dprepro.audits import prompt_pairs
from dprepro.audits.prompt_pairs import PARTS, joined, loss
from dprepro.mechanisms.prompt.metric_dp import Santext
from dprepro.mechanisms.prompt.rantext import Rantext
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = tuple(f"w{i}" for i in range(60))
MECHANISMS = {"SANTEXT": Santext, "InferDPT": Rantext}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    vocabulary = Vocabulary(WORDS, np.random.default_rng(0).normal(size=(60, 3)))
    monkeypatch.setattr(prompt_pairs, "pieces_mechanism", lambda name: MECHANISMS[name](vocabulary))


def items(start):
    keys = [f"{start}, {part}" for part in range(PARTS[start.partition(", ")[0]])]
    return {key: loss(key, None, inputs=5) for key in keys}


@pytest.mark.parametrize(("start", "inputs"), [("SANTEXT, 2", 60), ("SANTEXT, 0.5", 60), ("InferDPT, 1", 5)])
def test_parts_joined_are_all_pairs_at_once(start, inputs):
    name, epsilon = start.split(", ")
    table = prompt_pairs.pieces_mechanism(name).log_channel(range(inputs), float(epsilon))
    found = items(start)
    whole = (table.max(axis=0) - table.min(axis=0)).max()
    assert joined(found) == {name: {float(epsilon): pytest.approx(whole, rel=1e-6)}}
    # The pair that is named has the loss of its part, and comes in.
    for item in found.values():
        output, likely, unlikely = (WORDS.index(item[what]) for what in ("output", "likely", "unlikely"))
        assert table[likely, output] - table[unlikely, output] == pytest.approx(item["loss"], rel=1e-5)
    parts = [item["loss"] for item in found.values()]
    assert name == "InferDPT" or min(parts) < max(parts)


def test_an_infinite_part_makes_the_whole_infinite():
    found = items("SANTEXT, 2")
    found["SANTEXT, 2, 7"] = {"loss": None}
    assert joined(found) == {"SANTEXT": {2.0: None}}


def test_a_missing_part_is_named():
    found = items("SANTEXT, 2")
    del found["SANTEXT, 2, 4"]
    with pytest.raises(ValueError, match="items must have all parts of 'SANTEXT, 2', got none for"):
        joined(found)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("CUSTEXT, 1, 0", "mechanism of the key must be one of 'SANTEXT', 'InferDPT', got 'CUSTEXT'"),
        ("SANTEXT, 1, 13", "part of the key must be one of .* got '13'"),
        ("InferDPT, 1", "part of the key must be one of '0', got ''"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        loss(key, None, inputs=5)
