import numpy as np
import pytest
from scipy import stats

from dprepro.audits.prompt_report import at_exposure, difference, mean, nearest_by_mechanism, ratio


def test_mean_and_difference():
    values = [0.2, 0.4, 0.9, 0.1]
    found = mean(values)
    low, high = stats.norm.interval(0.95, np.mean(values), stats.sem(values))
    assert found == pytest.approx((np.mean(values), low, high))
    assert difference(values, [0.1, 0.3, 0.8, 0.0]) == pytest.approx((0.1, 0.1, 0.1))
    assert difference(values, values[::-1]).value == pytest.approx(0)


def test_ratio_of_equal_sentences_is_a_mean():
    hits = np.array([1.0, 3.0, 2.0, 0.0, 4.0])
    assert ratio(hits, np.full(5, 4)) == pytest.approx(mean(hits / 4))


def test_ratio_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        counts = rng.integers(1, 20, size=60)
        rates = rng.beta(2, 6, size=60)  # sentences differ, tokens of one do not vary alone
        found = ratio(rng.binomial(counts, rates), counts)
        inside += found.low <= 0.25 <= found.high
    assert stats.binomtest(inside, 400, 0.94).pvalue > 1e-3
    assert ratio([0, 0], [3, 4]) == (0, 0, 0)


def test_between_two_runs():
    exposures, values = [10.0, 2.0, 6.0], [[1.0, 0.8], [0.0, 0.2], [0.5, 0.4]]
    assert at_exposure(4.0, exposures, values).tolist() == pytest.approx([0.25, 0.3])
    assert at_exposure(9.0, exposures, values).tolist() == pytest.approx([0.875, 0.7])
    for place, row in zip(exposures, values, strict=True):
        assert at_exposure(place, exposures, values).tolist() == pytest.approx(row)
    assert at_exposure(1.9, exposures, values) is None
    assert at_exposure(10.1, exposures, values) is None
    assert at_exposure(3.0, [3.0], [[0.7]]).tolist() == [0.7]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="values must be"):
        mean([0.3])
    with pytest.raises(ValueError, match="first and second must be of the same sentences"):
        difference([1, 2], [1, 2, 3])
    for call in (lambda x: mean([0.3, x]), lambda x: at_exposure(1.0, [0.5, x], [[1.0], [2.0]])):
        with pytest.raises(ValueError, match="must be finite, got 1 of 2 entries that are not"):
            call(np.inf)
    for bad in (np.inf, np.nan):
        with pytest.raises(ValueError, match="first must be finite, got 1 of 2"):
            difference([1, bad], [1, 2])
        with pytest.raises(ValueError, match="second must be finite, got 1 of 2"):
            difference([1, 2], [bad, 2])
    for bad in (np.inf, np.nan, -1):
        with pytest.raises(ValueError, match=r"hits must be in \[0, inf\), got"):
            ratio([1, bad], [1, 2])
        with pytest.raises(ValueError, match=r"counts must be in \[0, inf\), got"):
            ratio([1, 2], [bad, 2])
    with pytest.raises(ValueError, match="exposure must be in"):
        at_exposure(np.nan, [0.5, 1.0], [[1.0], [2.0]])
    assert at_exposure(np.inf, [0.5, 1.0], [[1.0], [2.0]]) is None
    for counts in ([0, 0], [1, 2, 3]):
        with pytest.raises(ValueError, match="counts must have a positive sum"):
            ratio([0, 0], counts)
    for exposures in ([1.0, 1.0], [1.0]):
        with pytest.raises(ValueError, match="values must have a row for each"):
            at_exposure(1.0, exposures, [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["Cape, 1, 0", "Cape, 1, 2"], r"parts \[0, 1, 2\] of 'Cape, 1' once each, got \[0, 2\]"),
        (["Cape, 1 6, 0", "Cape, 1, 0"], r"parts \[0\] of 'Cape, 1' once each, got \[0, 0\]"),
        (["Cape, 1, 0", "Cape, 1, 1", "Cape, 6, 0"], "of 'Cape, 6' once each"),
    ],
)
def test_outputs_that_are_missing_or_double_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        nearest_by_mechanism({key: {"sensitive": [2], "1, 5": [0.5]} for key in keys})
