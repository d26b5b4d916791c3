"""Defences against decimal arithmetic and brute force; what they cost against scikit-learn and hand-made cases."""

from decimal import ROUND_DOWN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from dprepro.audits.confidence_defences import hide, quantise, top_k, truncate, utility

DEFENCES = (hide, lambda p: truncate(p, 2), lambda p: quantise(p, 3), lambda p: top_k(p, 2))


def simplex(n, classes, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), size=n)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_truncation_keeps_the_digits_of_a_printed_number(whole, digits):
    p = float(Decimal(whole).scaleb(-6))
    cut = Decimal(whole).scaleb(-6).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN)
    assert truncate([[p, 1 - p]], digits)[0, 0] == float(cut)


def test_truncation_where_a_product_of_floats_falls_short():
    assert 0.29 * 100 < 29
    assert truncate([[0.29, 0.71]], 2).tolist() == [[0.29, 0.71]]
    assert truncate([[0.999, 0.001]], 2).tolist() == [[0.99, 0.0]]
    assert truncate([[1.0, 0.0]], 15).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_the_float_below_a_printed_number_loses_its_last_digit(digits):
    whole = np.arange(1, 10**digits)
    below = np.nextafter(whole / 10**digits, 0)
    assert np.array_equal(truncate(below, digits)[:, 1], (whole - 1) / 10**digits)


@given(st.floats(0, 1), st.integers(2, 200))
def test_a_level_is_the_middle_of_the_cell_that_holds_the_entry(p, levels):
    middle = quantise(np.array([[p, 1 - p]]), levels)[0, 0]
    cell = round(middle * levels - 0.5)
    assert middle == (cell + 0.5) / levels
    assert cell / levels <= p
    assert p < (cell + 1) / levels or cell == levels - 1


def test_there_are_as_many_levels_as_asked_for():
    p = np.linspace(0, 1, 1001)
    for levels in (2, 3, 7, 10):
        assert np.unique(quantise(p, levels)[:, 1]).size == levels


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_second_application_changes_nothing(classes):
    rows = simplex(500, classes)
    for digits in (1, 2, 5):
        shown = truncate(rows, digits)
        assert np.array_equal(truncate(shown, digits), shown)
    for levels in (2, 3, 10):
        shown = quantise(rows, levels)
        # Quantised rows no longer sum to 1, so each entry is tried in a row of its own.
        assert np.array_equal(quantise(shown.ravel(), levels)[:, 1], shown.ravel())
    assert np.array_equal(hide(hide(rows)), hide(rows))


def test_top_k_against_sorting_each_row():
    rows = simplex(200, 6)
    for k in (1, 2, 6):
        for row, shown in zip(rows, top_k(rows, k), strict=True):
            kept = sorted(row)[-k:]
            assert sorted(shown[shown > 0]) == kept
            assert all(entry in (0, full) for entry, full in zip(shown, row, strict=True))


def test_defences_follow_one_another():
    rows = simplex(50, 5)
    assert np.array_equal(truncate(top_k(rows, 1), 2), top_k(truncate(top_k(rows, 1), 2), 1))
    assert np.array_equal(hide(top_k(rows, 3)), hide(rows))
    assert quantise(top_k(rows, 1), 4).shape == rows.shape


def test_equal_entries_keep_the_first():
    assert top_k([[0.25, 0.25, 0.25, 0.25]], 2).tolist() == [[0.25, 0.25, 0, 0]]
    assert hide([[0.2, 0.4, 0.4]]).tolist() == [[0, 1, 0]]


def test_binary_probabilities_are_two_columns():
    p = np.array([0.0, 0.25, 0.9])
    both = np.stack([1 - p, p], axis=1)
    for defence in DEFENCES:
        assert np.array_equal(defence(p), defence(both))


@pytest.mark.parametrize("defence", DEFENCES)
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0.5, 0.6]], "sum to at most 1, got 1.1 in row 0"),
        ([[1.2, -0.2]], r"\[0, 1\]"),
        ([[np.nan, 1.0]], r"\[0, 1\]"),
        ([[1.0], [1.0]], "c >= 2"),
        ([], "n >= 1"),
        (np.full((2, 2, 2), 0.5), "shape"),
        ([["a", "b"]], "number"),
        ([[90.0, 10.0]], r"\[0, 1\]"),  # per cents
        ([[-1.3, 2.0]], r"\[0, 1\]"),  # logits
    ],
)
def test_what_is_no_probability_is_refused(defence, rows, says):
    with pytest.raises(ValueError, match=says):
        defence(rows)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda p: truncate(p, 0), r"digits must be in \[1, 15\], got 0|whole number of at least 1, got 0"),
        (lambda p: truncate(p, 16), r"digits must be in \[1, 15\], got 16"),
        (lambda p: truncate(p, 1.5), "digits must be a whole number"),
        (lambda p: quantise(p, 1), "levels must be a whole number of at least 2, got 1"),
        (lambda p: quantise(p, 2.5), "levels must be a whole number"),
        (lambda p: top_k(p, 0), "k must be a whole number of at least 1, got 0"),
        (lambda p: top_k(p, 4), r"k must be in \[1, 3\], got 4"),
    ],
)
def test_settings_outside_their_domain_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call(simplex(4, 3))


def outcomes(classes, seed=1, n=4000):
    """Rows and labels drawn from them: confidences that are calibrated."""
    rows = simplex(n, classes, seed)
    uniform = np.random.default_rng(seed).random(n)
    return rows, (rows.cumsum(axis=1) < uniform[:, None]).sum(axis=1).clip(max=classes - 1)


@pytest.mark.parametrize("classes", [2, 5])
def test_brier_score_equals_scikit_learns(classes):
    rows, labels = outcomes(classes)
    expected = brier_score_loss(labels, rows, labels=range(classes), scale_by_half=False)
    assert utility(rows, labels).brier == pytest.approx(expected, rel=1e-12)


def test_calibration_error_equals_that_of_scikit_learns_curve():
    rows, labels = outcomes(2)
    squeezed = np.clip(rows[:, 1] ** 2, 0, 1)  # no longer calibrated
    confidence, right = np.maximum(squeezed, 1 - squeezed), (squeezed > 0.5) == labels
    observed, stated = calibration_curve(right, confidence, n_bins=10, strategy="uniform")
    share = np.histogram(confidence, bins=10, range=(0, 1))[0] / confidence.size
    expected = np.sum(share[share > 0] * np.abs(observed - stated))
    assert expected > 0.05
    assert utility(squeezed, labels).calibration_error == pytest.approx(expected, rel=1e-9)


def test_calibrated_confidences_have_no_calibration_error_but_that_of_sampling():
    rows, labels = outcomes(3, n=20_000)
    found = utility(rows, labels)
    # Ten bins, each off by about sqrt(.25/2000) at most: the mean of absolute values stays below that.
    assert found.calibration_error < np.sqrt(0.25 * 10 / 20_000)
    assert found.accuracy == pytest.approx(rows.max(axis=1).mean(), abs=4 * np.sqrt(0.25 / 20_000))


def test_selective_accuracy_by_hand():
    rows = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.55, 0.45]])
    labels = [0, 1, 1, 1]
    assert utility(rows, labels, coverage=0.25).selective_accuracy == 1
    assert utility(rows, labels, coverage=0.5).selective_accuracy == 0.5
    assert utility(rows, labels, coverage=0.75).selective_accuracy == pytest.approx(2 / 3)
    assert utility(rows, labels, coverage=1).selective_accuracy == utility(rows, labels).accuracy == 0.5


def test_labels_alone_tell_no_sure_answer_from_an_unsure_one():
    rows, labels = outcomes(4)
    shown, full = utility(hide(rows), labels), utility(rows, labels)
    assert shown.selective_accuracy == pytest.approx(shown.accuracy, abs=1e-12)
    assert shown.accuracy == full.accuracy
    assert full.selective_accuracy > full.accuracy + 0.05
    assert shown.calibration_error == pytest.approx(1 - shown.accuracy)  # read as certainty
    assert shown.brier == pytest.approx(2 * (1 - shown.accuracy))


def test_ties_count_by_expectation():
    # Two classes tie in the first row and three in the second; ties in confidence share the last place.
    rows = [[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]
    assert utility(rows, [1, 2]).accuracy == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert utility([[0.7, 0.3], [0.7, 0.3]], [0, 1], coverage=0.5).selective_accuracy == 0.5


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ([0.5, 0, 0], [0.5, 0.25, 0.25]),
        ([0.5, 0.25, 0], [0.5, 0.25, 0.25]),
        ([0.5, 0.25, 0.125], [13 / 24, 7 / 24, 4 / 24]),
        ([0, 0, 0], [1 / 3, 1 / 3, 1 / 3]),
        ([0.75, 0.5, 0.25], [3 / 6, 2 / 6, 1 / 6]),
    ],
)
def test_what_a_row_lacks_is_spread_and_what_it_has_too_much_scaled(shown, read):
    for truth in range(3):
        found, expected = utility([shown], [truth]), utility([read], [truth])
        assert vars(found) == pytest.approx(vars(expected), abs=1e-12)


def test_the_largest_entry_alone_still_tells_which_answers_to_trust():
    rows, labels = outcomes(5)
    full, top = utility(rows, labels), utility(top_k(rows, 1), labels)
    assert top.selective_accuracy == full.selective_accuracy
    assert top.calibration_error == pytest.approx(full.calibration_error)
    assert top.brier > full.brier


def test_the_last_bits_of_a_sum_move_nothing():
    # A confidence on the edge of two bins, right as often as it says; two classes that tie for the first place.
    rows = np.concatenate([np.tile([0.7, 0.2, 0.1], (100, 1)), np.tile([0.4, 0.4, 0.2], (100, 1))])
    labels = np.concatenate([np.repeat([0, 1], [70, 30]), np.arange(100) % 2])
    moved = rows * (1 + 1e-15 * np.random.default_rng(0).choice([-1, 1], size=rows.shape))
    assert utility(rows, labels).calibration_error == pytest.approx(0.05)  # .4 is right every second time
    for name in ("accuracy", "selective_accuracy", "calibration_error", "brier"):
        before, after = getattr(utility(rows, labels), name), getattr(utility(moved, labels), name)
        assert after == pytest.approx(before, abs=1e-13)
    assert utility([[0.4, 0.4 * (1 + 1e-15), 0.2]], [0]).accuracy == 0.5


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        ([0, 1], {}, r"labels must have shape \(3,\)"),
        ([0, 1, 2], {}, r"labels must be in \[0, 1\], got 2"),
        ([0, 1, -1], {}, "labels must be a whole number"),
        ([0, 1, 0.5], {}, "labels must be a whole number"),
        ([0, 1, 1], {"coverage": 0}, r"coverage must be in \(0, 1\]"),
        ([0, 1, 1], {"coverage": 1.5}, r"coverage must be in \(0, 1\]"),
        ([0, 1, 1], {"bins": 0}, "bins must be a whole number"),
    ],
)
def test_utility_refuses_what_it_cannot_measure(labels, options, says):
    with pytest.raises(ValueError, match=says):
        utility([0.1, 0.5, 0.9], labels, **options)
