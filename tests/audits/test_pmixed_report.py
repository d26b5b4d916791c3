"""Differences of log-perplexities: limits that cover, by hand and against a regression; the rule at its corners."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.pmixed_report import Difference, difference, outcome, perplexity, rival_logs, together


def test_perplexity_by_hand():
    assert perplexity([np.log(4), 3 * np.log(16)], [2, 3]) == pytest.approx(
        2 ** (14 / 5)
    )  # 2 + 12 bits in 5 tokens


def test_equal_lengths_are_a_paired_t_test():
    rng = np.random.default_rng(0)
    one, other = rng.normal(30, 3, 12), rng.normal(31, 3, 12)
    found = difference(one, other, np.full(12, 10))
    low, high = stats.ttest_rel(one / 10, other / 10).confidence_interval()
    assert found == pytest.approx((np.mean(one - other) / 10, low, high))
    swapped = difference(other, one, np.full(12, 10))
    assert swapped == pytest.approx((-found.value, -found.high, -found.low))


def test_value_is_the_ratio_of_perplexities():
    rng = np.random.default_rng(1)
    tokens = rng.integers(5, 60, 20)
    one, other = tokens * rng.normal(5, 0.5, 20), tokens * rng.normal(5, 0.5, 20)
    ratio = perplexity(one, tokens) / perplexity(other, tokens)
    assert difference(one, other, tokens).value == pytest.approx(np.log(ratio))


def test_limits_cover():
    """Texts of unequal length, each with its own difference a token: 95 % limits hold in 92 to 97 % of samples."""
    rng = np.random.default_rng(2)
    held, runs = 0, 2000
    for _ in range(runs):
        tokens = rng.integers(5, 80, 40)
        gaps = tokens * rng.normal(0.1, 0.2, 40)
        found = difference(gaps, np.zeros(40), tokens)
        held += found.low <= 0.1 <= found.high
    assert 0.92 * runs < held < 0.97 * runs


@pytest.mark.parametrize(
    ("rival", "public", "expected"),
    [
        ((-0.2, -0.1), (-0.3, -0.2), "holds"),
        ((-0.2, 0.1), (-0.3, -0.2), "undecided"),
        ((0.1, 0.2), (-0.3, -0.2), "fails"),
        ((-0.2, -0.1), (0.1, 0.2), "fails"),
        ((-0.2, -0.1), (-0.1, 0.1), "undecided"),
        ((-0.1, 0.0), (-0.3, -0.2), "undecided"),
    ],
)
def test_rule(rival, public, expected):
    assert outcome(*(Difference(sum(limits) / 2, *limits) for limits in (rival, public))) == expected


def test_together():
    assert together(["holds"] * 5) == "HOLDS"
    assert together(["fails"] * 5) == "FAILS"
    assert together(["undecided"] * 5) == together(["holds", "fails"]) == "UNDECIDED"


def test_runs_are_averaged():
    saved = {"8, 0": {"law": [1.0, 2.0]}, "8, 1": {"law": [3.0, 2.0]}, "10, 0": {"law": [9.0, 9.0]}}
    assert rival_logs(saved, "8").tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="setting must be one of the saved runs, got '4'"):
        rival_logs(saved, "4")


def test_bad_input():
    with pytest.raises(ValueError, match="two texts or more, got 1"):
        difference([1.0], [1.0], [3])
    with pytest.raises(ValueError, match="tokens must be one number a text"):
        difference([1.0, 2.0], [1.0, 2.0], [3])
    with pytest.raises(ValueError, match="tokens must be a whole number of at least 1, got 0"):
        perplexity([1.0, 2.0], [3, 0])
    with pytest.raises(ValueError, match="logs must be finite"):
        perplexity([1.0, np.inf], [3, 3])
    with pytest.raises(ValueError, match="alpha must be in"):
        difference([1.0, 2.0], [1.0, 2.0], [3, 3], alpha=0)
