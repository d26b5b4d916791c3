"""AUC of a table of trials: by hand, DeLong's variance, coverage under effects of rows and columns."""

import numpy as np
import pytest
from scipy import stats

from dprepro.stats.clustered_auc import auc_difference, clustered_auc
from dprepro.stats.tradeoff import auc

RNG = np.random.default_rng


def halves(rows, columns, rng):
    return rng.permuted(np.tile(np.arange(rows)[:, None] % 2 == 0, columns), axis=0)


def test_pooled_and_within_by_hand():
    scores, inside = np.array([[3.0, 10.0], [2.0, 8.0]]), np.array([[True, False], [False, True]])
    # Pooled: 3 and 8 against 2 and 10. Within: 3 over 2, and 8 below 10.
    assert clustered_auc(scores, inside).value == pytest.approx(2 / 4)
    assert clustered_auc(scores, inside, within=True).value == pytest.approx((1 + 0) / 2)


def test_value_is_the_auc_and_within_is_its_mean_over_columns():
    rng = RNG(1)
    inside = halves(10, 7, rng)
    scores = np.round(rng.normal(size=(10, 7)) + inside, 1)  # ties
    assert clustered_auc(scores, inside).value == pytest.approx(auc(scores[inside], scores[~inside]))
    each = [auc(s[i], s[~i]) for s, i in zip(scores.T, inside.T, strict=True)]
    assert clustered_auc(scores, inside, within=True).value == pytest.approx(np.mean(each))


def test_the_error_of_single_trials_is_delong():
    """DeLong's variance by its definition, a double loop over pairs."""
    rng = RNG(2)
    x, y = np.round(rng.normal(0.5, size=13), 1), np.round(rng.normal(size=17), 1)
    wins = np.array([[float(a > b) + 0.5 * float(a == b) for b in y] for a in x])
    variance = wins.mean(axis=1).var() / 13 + wins.mean(axis=0).var() / 17
    found = clustered_auc(np.r_[x, y][None], np.r_[np.ones(13), np.zeros(17)][None])
    assert found.error_trials == pytest.approx(variance**0.5)
    assert found.error_columns == pytest.approx((variance * 30 / 29) ** 0.5)
    assert found.error == found.error_columns, "one row is no cluster"


def test_repeated_targets_widen_the_interval():
    """The same column forty times is one column: its error does not fall with the repeats."""
    rng = RNG(3)
    inside = halves(40, 1, rng)
    scores = rng.normal(size=(40, 1)) + inside
    once = clustered_auc(scores, inside)
    many = clustered_auc(np.tile(scores, 40), np.tile(inside, 40))
    assert many.value == pytest.approx(once.value)
    assert many.error_rows == pytest.approx(once.error_rows)
    assert many.error_trials == pytest.approx(once.error_trials / 40**0.5)
    assert many.error >= many.error_rows


def test_trials_that_are_independent_are_counted_once():
    """Rows and columns both hold the variance of single trials: without taking it off the sum is twice as large."""
    rng, ratios = RNG(11), []
    for _ in range(40):
        inside = halves(40, 60, rng)
        found = clustered_auc(rng.normal(size=inside.shape) + inside, inside)
        ratios.append(found.error**2 / found.error_trials**2)
    assert 0.95 < np.mean(ratios) < 1.4


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    ("effect", "row_sd", "column_sd", "spread"), [(0, 1, 1, 0), (1, 0.5, 1, 0), (1, 0.3, 1, 1)]
)
def test_the_limits_hold_the_truth(effect, row_sd, column_sd, spread, within):
    """Truth: the mean of all runs. 150 intervals of 95 % hold it in at least .87 (binomial, 1 in 10,000)."""
    rng, runs = RNG(4), []
    for _ in range(150):
        inside = halves(30, 20, rng)
        shift = effect * (1 + spread * rng.normal(size=20))
        scores = column_sd * rng.normal(size=20) + row_sd * rng.normal(size=(30, 1)) + inside * shift
        found = clustered_auc(scores + 0.5 * rng.normal(size=(30, 20)), inside, within=within)
        runs.append((found.value, found.low, found.high))
    value, low, high = np.array(runs).T
    held = int(((low <= value.mean()) & (value.mean() <= high)).sum())
    assert held >= stats.binom(150, 0.95).ppf(1e-4)


def test_scores_that_depend_on_the_target_alone_are_exactly_at_chance():
    inside = halves(12, 9, RNG(5))
    found = clustered_auc(np.tile(np.arange(9.0), (12, 1)), inside)
    assert found.value == pytest.approx(0.5)
    assert found.error_columns == pytest.approx(0)


@pytest.mark.parametrize("within", [False, True])
def test_limits_where_no_variance_can_be_seen(within):
    inside = halves(20, 6, RNG(6))
    equal = clustered_auc(np.zeros((20, 6)), inside, within=within)
    assert equal.value == 0.5
    assert equal.low < 0.25 < 0.75 < equal.high, "all scores equal say nothing"
    perfect = clustered_auc(inside.astype(float), inside, within=within)
    assert (perfect.value, perfect.high) == (1, 1)
    assert 0.3 < perfect.low < 0.6, "six columns, not 120 trials"
    assert clustered_auc(-inside.astype(float), inside, within=within).low == 0


def test_columns_of_one_kind_are_left_out_of_the_mean_within():
    inside = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 0]])
    found = clustered_auc(inside + 0.0, inside, within=True)
    assert found.columns == 2
    assert found.value == 1


@pytest.mark.parametrize("within", [False, True])
def test_differences_hold_the_truth_and_use_what_is_shared(within):
    """Two scores of the same trials, and two groups of columns: 150 intervals each, limit as above."""
    rng, found = RNG(7), {"scores": [], "columns": []}
    for _ in range(150):
        inside = halves(30, 20, rng)
        noise = rng.normal(size=20) + rng.normal(size=(30, 20))
        first, second = inside + noise, 0.7 * inside + noise + 0.2 * rng.normal(size=(30, 20))
        found["scores"].append(auc_difference(first, second, inside, within=within))
        parts = first[:, :8], 0.5 * inside[:, 8:] + noise[:, 8:], inside[:, :8], inside[:, 8:]
        found["columns"].append(auc_difference(*parts, within=within))
    for name, runs in found.items():
        value, low, high = np.array([(run.value, run.low, run.high) for run in runs]).T
        truth = value.mean()
        assert ((low <= truth) & (truth <= high)).sum() >= stats.binom(150, 0.95).ppf(1e-4), name
        assert truth > 0.04
    single = clustered_auc(first, inside, within=within)
    paired = found["scores"][-1]
    assert paired.high - paired.low < 0.6 * (single.high - single.low)


def test_a_difference_is_that_of_the_two_values():
    rng = RNG(8)
    inside = halves(20, 9, rng)
    first, second = rng.normal(size=(2, 20, 9)) + inside
    found = auc_difference(first[:, :4], second[:, 4:], inside[:, :4], inside[:, 4:], within=True)
    one = clustered_auc(first[:, :4], inside[:, :4], within=True)
    two = clustered_auc(second[:, 4:], inside[:, 4:], within=True)
    assert found.value == pytest.approx(one.value - two.value)


def test_two_groups_of_columns_have_their_own_degrees_of_freedom():
    """Rows without an effect of their own: the variance is the sum of the two tables', whatever their sizes."""
    rng = RNG(12)
    inside = halves(400, 9, rng)
    scores = rng.normal(size=inside.shape) + inside * (1 + rng.normal(size=9))
    one, two = (scores[:, :3], inside[:, :3]), (scores[:, 3:], inside[:, 3:])
    parts = [clustered_auc(*table, within=True) for table in (one, two)]
    assert all(part.error_columns > 3 * part.error_rows for part in parts)
    found = auc_difference(one[0], two[0], one[1], two[1], within=True)
    reach = stats.t.ppf(0.975, 2) * np.hypot(*(part.error for part in parts))
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.02), "one mean for both: a tenth shorter"


def test_two_perfect_scores_differ_by_an_amount_that_is_not_known_exactly():
    inside = halves(20, 6, RNG(9))
    found = auc_difference(inside + 0.0, 2.0 * inside, inside)
    assert found.value == 0
    assert found.low == pytest.approx(-found.high)
    assert 0.3 < found.high < 0.8


def test_tables_of_a_difference_must_share_their_rows():
    inside = halves(4, 3, RNG(10))
    with pytest.raises(ValueError, match=r"second must have the 4 rows of first, got 2"):
        auc_difference(np.ones((4, 3)), np.ones((2, 2)), inside, [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"included must have the shape of second, \(4, 2\), got \(4, 3\)"):
        auc_difference(np.ones((4, 3)), np.ones((4, 2)), inside)
    with pytest.raises(ValueError, match=r"included_second must hold trials of both kinds, got 8 of 8 in"):
        auc_difference(np.ones((4, 3)), np.ones((4, 2)), inside, np.ones((4, 2)))


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match=r"trials of both kinds, got 4 of 4 in"):
        clustered_auc(np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"both kinds in a column"):
        clustered_auc(np.ones((2, 2)), [[1, 0], [1, 0]], within=True)
    with pytest.raises(ValueError, match=r"scores must be a matrix"):
        clustered_auc([1, 2], [1, 0])
    with pytest.raises(ValueError, match=r"included must have the shape"):
        clustered_auc(np.ones((2, 2)), [1, 0])
    with pytest.raises(ValueError, match=r"included must be true or false for each trial, got .*2"):
        clustered_auc(np.ones((1, 3)), [[1, 0, 2]])
    with pytest.raises(ValueError, match=r"scores must be finite"):
        clustered_auc([[1, np.nan]], [[1, 0]])
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\)"):
        clustered_auc([[1, 2]], [[1, 0]], alpha=0)
