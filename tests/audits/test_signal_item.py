"""Items of saved searches: keys that are read or refused, and which entries of a trajectory are kept."""

import numpy as np
import pytest

from dprepro.audits.signal_item import kept, method_and_budget
from dprepro.audits.signal_search import SignalPair

METHODS = ("gradient", "cached words")
FOUND = SignalPair("a b", "c d", 1.5, ((2, 1.0), (10, 1.12345678), (12, 1.2), (19, 1.5)))


def test_a_key_is_read():
    assert method_and_budget("cached words, 2000, run 3", METHODS) == ("cached words", 2000)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "annealing, 500, run 0",
            "method of the key must be one of 'gradient', 'cached words', got 'annealing'",
        ),
        ("", "method of the key must be one of"),
        ("gradient", "budget of the key must be a whole number, got ''"),
        ("gradient, many, run 0", "budget of the key must be a whole number, got 'many'"),
        ("gradient, -5, run 0", "budget of the key must be a whole number, got '-5'"),
        ("gradient, 2e3, run 0", "budget of the key must be a whole number, got '2e3'"),
        ("gradient, \u0662\u00b2, run 0", "budget of the key must be a whole number"),
        (7, "key must be a text like 'gradient, 2000, run 0', got 7"),
    ],
)
def test_keys_that_are_none(key, message):
    with pytest.raises(ValueError, match=message):
        method_and_budget(key, METHODS)


@pytest.mark.parametrize(
    ("checkpoints", "embeddings"),
    [
        ([], [19]),
        ([1], [19]),  # before the first entry
        ([2, 11, 12], [2, 10, 12, 19]),
        ([13, 14, 19, 4000], [12, 19]),  # each entry once
    ],
)
def test_the_last_entry_within_each_checkpoint_is_kept(checkpoints, embeddings):
    item = kept(FOUND, checkpoints)
    assert item["embeddings"].tolist() == embeddings
    distances = {2: 1.0, 10: 1.123457, 12: 1.2, 19: 1.5}
    assert item["distance"].tolist() == [distances[at] for at in embeddings]
    assert (item["first"], item["second"]) == ("a b", "c d")


def test_a_stopped_search_has_the_first_entries_of_a_whole_one():
    stopped = SignalPair("a b", "c", 1.2, FOUND.trajectory[:3], interrupted=True)
    begun, whole = (kept(found, [2, 11, 15, 19]) for found in (stopped, FOUND))
    np.testing.assert_array_equal(begun["embeddings"], whole["embeddings"][:3])
    np.testing.assert_array_equal(begun["distance"], whole["distance"][:3])
