"""Means with Student's interval, and the reason of a number that a claim stands in for."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.judged import Judged, mean_of, stand_in
from dprepro.kit.verdicts import check_stand_in


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_interval_is_that_of_a_t_test(alpha):
    values = np.array([0.1, 0.4, 0.3, 0.35])
    expected = stats.ttest_1samp(values, 0).confidence_interval(1 - alpha)
    np.testing.assert_allclose(
        mean_of(values, alpha), (values.mean(), expected.low, expected.high), rtol=1e-12
    )


def test_a_mean_needs_two_values_and_a_level():
    with pytest.raises(ValueError, match="at least 2 values"):
        mean_of([0.5])
    assert mean_of([0.2, 0.2]) == pytest.approx((0.2, 0.2, 0.2))
    with pytest.raises(ValueError, match="alpha must be in"):
        mean_of([0.1, 0.2], 1.0)


def test_a_stand_in_passes_the_check_of_the_ledger():
    reason = stand_in(
        "synbench-05", Judged("UNDECIDED", -0.01, -0.2, 0.18, 3, "F1 over epsilon"), "F1 of AUG-PE"
    )
    check_stand_in(reason, "synbench", {"synbench-05"})
    assert reason.startswith("synbench-05 n=3 effect=-0.010 [-0.200, 0.180] undecided: F1 of AUG-PE; ")
