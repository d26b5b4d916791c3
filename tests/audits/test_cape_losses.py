from itertools import combinations

import numpy as np
import pytest

from dprepro.audits import cape_losses
from dprepro.audits.cape_losses import BLOCKS, inputs_of, joined, losses_among
from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.exact_loss import bucketed_losses
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

EPSILONS = [0.5, 6.0, 20.0]
PARTS = ("exact", "own", "stated", "corrected")


@pytest.fixture(scope="module")
def vocabulary():
    vectors = np.random.default_rng(2).normal(size=(150, 6))
    return Vocabulary(tuple(f"w{i}" for i in range(150)), vectors)


def items(mechanism, context):
    """The items of a place, as `losses` returns them."""
    words = mechanism.vocabulary.words
    for i in range(BLOCKS):
        found = losses_among(mechanism, EPSILONS, context, inputs_of(i, len(words)))
        ends = {part: words[getattr(found, part)] for part in ("output", "likely", "unlikely")}
        yield f"x, 0, {i}", {"word": "w1", "text": "w1", "epsilons": EPSILONS, **found._asdict(), **ends}


def test_every_pair_of_words_is_in_an_item():
    lines = [set(inputs_of(i, 40).tolist()) for i in range(BLOCKS)]
    for pair in combinations(range(40), 2):
        together = sum(set(pair) <= line for line in lines)
        assert together == (4 if (pair[0] - pair[1]) % BLOCKS == 0 else 1)


@pytest.mark.parametrize("changes", [{"buckets": 8}, {"buckets": 3, "logit_weight": 0.0}, {"centred": False}])
def test_items_joined_are_one_pass_over_all_words(vocabulary, changes, monkeypatch):
    monkeypatch.setattr(cape_losses, "BLOCK", 150 * 7)  # seven inputs at a time
    mechanism = Cape(vocabulary, **changes)
    context = None if changes.get("logit_weight") == 0 else np.random.default_rng(3).normal(0, 3, 150)
    (found,) = joined(dict(items(mechanism, context))).values()
    whole = bucketed_losses(mechanism, EPSILONS, context)
    assert found["exact"] == [loss.exact.value for loss in whole]
    for part in PARTS[1:]:
        assert found[part] == pytest.approx([getattr(loss, part) for loss in whole], rel=1e-14)
    last = whole[-1]
    assert (found["fewest"], found["most"]) == (last.fewest, last.most)
    # Where the loss is reached may not be unique: the pair that is named has it.
    output, likely, unlikely = (vocabulary.number[found[part]] for part in ("output", "likely", "unlikely"))
    line = None if context is None else context[None]
    ends = mechanism.log_channel([likely, unlikely], EPSILONS[-1], line)[:, output]
    assert ends[0] - ends[1] == pytest.approx(last.exact.value, rel=1e-14)


def test_a_part_of_the_pairs_is_not_the_whole(vocabulary):
    mechanism = Cape(vocabulary, logit_weight=0.0, buckets=8)
    parts = [item["exact"][-1] for _, item in items(mechanism, None)]
    assert min(parts) < max(parts)


def test_missing_items_are_named(vocabulary):
    found = dict(items(Cape(vocabulary, logit_weight=0.0), None))
    del found["x, 0, 4"]
    with pytest.raises(ValueError, match="items must have 0 to 12 of 'x, 0', got 12"):
        joined(found)
