from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.exact_loss import (
    breaking_sizes,
    bucketed_losses,
    counterexample_on_a_line,
    partitions,
    worst_case_loss,
)
from dprepro.mechanisms.prompt.perturbation import PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import Vocabulary


def words(n, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return Vocabulary(tuple(f"w{i}" for i in range(n)), vectors)


@dataclass(frozen=True, eq=False)
class Table(PromptMechanism):
    """A channel that is written down."""

    vocabulary: Vocabulary
    table: np.ndarray

    def log_channel(self, rows, epsilon, contexts=None):
        with np.errstate(divide="ignore"):
            return np.log(self.table[np.asarray(rows)])

    def stated_loss(self, epsilon):
        return epsilon


def brute_force(log_table):
    pairs = permutations(range(len(log_table)), 2)
    return max((log_table[a] - log_table[b]).max() for a, b in pairs)


def test_all_pairs_in_blocks(monkeypatch):
    table = np.random.default_rng(0).dirichlet(np.ones(40), size=40)
    mechanism = Table(words(40), table)
    for block in (40, 130, 10_000):
        monkeypatch.setattr("dprepro.mechanisms.prompt.exact_loss.BLOCK", block)
        found = worst_case_loss(mechanism, 1.0)
        assert found.value == pytest.approx(brute_force(np.log(table)))
        ends = table[[found.likely, found.unlikely], found.output]
        assert np.log(ends[0] / ends[1]) == pytest.approx(found.value)
    few = worst_case_loss(mechanism, 1.0, inputs=7)
    assert few.value == pytest.approx(brute_force(np.log(table[:7])))


def test_an_output_of_one_input_only_and_one_of_none():
    found = worst_case_loss(Table(words(3), np.array([[0.5, 0.5, 0.0], [1, 0, 0], [1, 0, 0]])), 1.0)
    assert (found.value, found.output) == (np.inf, 1)
    assert (found.likely, found.unlikely) == (0, 1)
    same = worst_case_loss(Table(words(3), np.tile([0.5, 0.5, 0], (3, 1))), 1.0)
    assert same.value == 0


@pytest.mark.parametrize("buckets", [1, 3, 9])
def test_bucketed_losses_are_those_of_the_channel(buckets, monkeypatch):
    monkeypatch.setattr("dprepro.mechanisms.prompt.exact_loss.BLOCK", 200)
    mechanism = Cape(words(40), buckets=buckets)
    context = np.random.default_rng(1).normal(0, 4, 40)
    for found in bucketed_losses(mechanism, [0.5, 6.0, 20.0], context):
        channel = mechanism.log_channel(np.arange(40), found.epsilon, context[None])
        assert found.exact.value == pytest.approx(brute_force(channel))
        assert worst_case_loss(mechanism, found.epsilon, context).value == pytest.approx(found.exact.value)
        sizes = mechanism.bucketing(np.arange(40), context[None]).sizes
        filled = sizes[sizes > 0]
        assert found.stated == pytest.approx(found.epsilon + np.log(filled.max() / filled.min()))
        assert (found.fewest, found.most) == ((sizes > 0).sum(axis=1).min(), (sizes > 0).sum(axis=1).max())


def test_corrected_bound_holds_where_the_stated_does_not():
    """Random small vocabularies and contexts: the stated bound breaks in some, the corrected in none."""
    rng, broken, narrower = np.random.default_rng(2), 0, 0
    for trial in range(300):
        size, buckets = int(rng.integers(3, 9)), 3
        mechanism = Cape(words(size, trial), buckets=buckets, bound=2.0)
        context = rng.normal(0, 2, size)
        every = mechanism.bucketing(np.arange(size), context[None]).sizes
        ratios = [max(sizes[sizes > 0]) / min(sizes[sizes > 0]) for sizes in every]
        for found in bucketed_losses(mechanism, [0.05, 2.0], context):
            assert found.exact.value <= found.corrected + 1e-12
            assert found.own == pytest.approx(found.epsilon + np.log(max(ratios)))
            assert found.own <= found.stated + 1e-12
            narrower += found.own < found.stated - 0.1
            if found.exact.value > found.stated + 1e-9:
                broken += 1
                assert size >= 5
    assert broken > 0
    assert narrower > 0, "sizes of two inputs together are further apart than those of either"


def test_partitions():
    assert list(partitions(5, 2)) == [(5,), (4, 1), (3, 2)]
    assert len(list(partitions(12, 12))) == 77  # p(12)


def test_five_words_and_three_buckets_are_the_fewest():
    assert not any(breaking_sizes(n, n) for n in range(2, 5))
    assert not any(breaking_sizes(n, 2) for n in range(2, 12))
    assert breaking_sizes(5, 3) == [((4, 1), (3, 1, 1))]


def test_the_counterexample_by_hand():
    assert counterexample_on_a_line(4, 3, 0.1, longest=9) is None
    positions, found = counterexample_on_a_line(5, 3, 0.1)
    assert positions.tolist() == [0, 1, 2, 4, 9]
    assert (found.exact.likely, found.exact.unlikely, found.exact.output) == (4, 3, 4)
    # From 9: itself, and four words at 5/9 or more of the largest distance. From 4: itself, 2 at 2/5, three beyond.
    top = [1.0, np.exp(-np.array([9, 8, 7, 5]) / 9).mean()]
    four = [1.0, np.exp(-2 / 5), np.exp(-np.array([3, 4, 5]) / 5).mean()]
    p = np.exp(0.05 * np.array(top)) / np.exp(0.05 * np.array(top)).sum() / [1, 4]
    q = np.exp(0.05 * np.array(four)) / np.exp(0.05 * np.array(four)).sum() / [1, 1, 3]
    assert found.exact.value == pytest.approx(np.log(p[0] / q[2]), rel=1e-6)
    assert found.stated == found.own == pytest.approx(0.1 + np.log(4))
    assert np.log(p[0] / q[2]) > 0.1 + np.log(4) > np.log(p[0] / q[2]) - 0.05
    assert found.corrected == pytest.approx(0.1 + np.log(4) + np.log(3 / 2))


def test_bad_calls():
    with pytest.raises(ValueError, match="inputs must be"):
        worst_case_loss(Table(words(3), np.eye(3)), 1.0, inputs=1)
    with pytest.raises(ValueError, match="epsilon must be in"):
        bucketed_losses(Cape(words(5), logit_weight=0, buckets=2), [0.0])
