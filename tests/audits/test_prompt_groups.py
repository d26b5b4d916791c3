import numpy as np
import pytest

from dprepro.audits import prompt_groups
from dprepro.audits.prompt_attacks import nearest_success, neighbour_reach
from dprepro.audits.prompt_groups import nearest_in_groups
from dprepro.mechanisms.prompt.metric_dp import Custext
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


@pytest.mark.parametrize("block", [1, 2**20])
def test_the_same_as_over_all_pairs(block, monkeypatch):
    monkeypatch.setattr(prompt_groups, "BLOCK", block)
    vocabulary = Vocabulary(tuple(f"w{i}" for i in range(47)), np.random.default_rng(2).normal(size=(47, 3)))
    mechanism, rows = Custext(vocabulary, k=6), np.array([5, -1, 46, 5, 12, 13])
    ks = (1, 4, 47)
    expected = nearest_success(mechanism, rows, 2.0, neighbour_reach(vocabulary, ks))
    np.testing.assert_allclose(nearest_in_groups(mechanism, rows, 2.0, ks), expected)
    assert nearest_in_groups(mechanism, rows[:0], 2.0, ks).shape == (0, 3)


def test_bad_arguments_are_named():
    mechanism = Custext(Vocabulary(("a", "b"), np.eye(2)), k=1)
    with pytest.raises(ValueError, match="ks must be"):
        nearest_in_groups(mechanism, [0], 1.0, [0])
