import numpy as np
import pytest
from scipy import stats

from dprepro.audits import filter_report
from dprepro.audits.filter_report import claim, gain, gains


def item(kept, random):
    return {
        "epsilon": 4.0,
        "mauve, kept": kept,
        "mauve, random": list(random),
        "mauve, random visible": [0.25],
        "texts": 12,
    }


def saved(dp_gen, aug_pe):
    found = {f"DP-Gen, {n}": item(kept, (0.1, 0.3)) for n, kept in enumerate(dp_gen)}
    return {
        **found,
        **{f"AUG-PE, {n}": item(kept, (0.2,)) for n, kept in enumerate(aug_pe)},
    }


def test_gain_is_against_random_halves_of_the_same_corpus():
    np.testing.assert_allclose(gains(saved([0.2, 0.5], [0.2]), "DP-Gen"), [0.0, 0.3])
    np.testing.assert_allclose(gains(saved([0.2, 0.5], [0.2]), "DP-Gen", "random visible"), [-0.05, 0.25])


def test_interval_is_that_of_scipy():
    found = gain(saved([0.31, 0.35, 0.3, 0.4], [0.2, 0.2]), "DP-Gen", 0.1)
    values = np.array([0.11, 0.15, 0.1, 0.2])
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.effect == pytest.approx(values.mean())
    assert (found.n, found.outcome) == (4, "HOLDS")
    assert "DP-Gen at epsilon 4" in found.reason


def test_outcomes():
    up, down, mixed = [0.3, 0.31, 0.32], [0.1, 0.09, 0.11], [0.1, 0.3, 0.25]
    for values, outcome in ((up, "HOLDS"), (down, "FAILS"), (mixed, "UNDECIDED")):
        assert gain(saved(up, values), "AUG-PE").outcome == outcome
    assert claim(saved(up, up)).outcome == "HOLDS"
    assert claim(saved(up, mixed)).outcome == "UNDECIDED"
    assert claim(saved(down, mixed)).outcome == "FAILS"


def test_a_claim_shows_the_generator_with_the_smallest_gain_at_the_level_of_two():
    both = saved([0.3, 0.31, 0.33], [0.21, 0.24, 0.22])
    found = claim(both)
    assert found[1:5] == gain(both, "AUG-PE", 0.025)[1:5]
    assert "DP-Gen 0.1133 [" in found.reason
    assert found.low <= found.effect <= found.high
    assert found.low < gain(both, "AUG-PE").low


def test_a_filter_without_a_gain_is_rarely_said_to_have_one():
    """Gains of pure noise: HOLDS comes out in a fortieth of studies, one side of the interval."""
    rng = np.random.default_rng(0)
    runs = 1500
    holds = sum(
        gain(saved(0.2 + 0.05 * rng.normal(size=4), [0.2]), "DP-Gen").outcome == "HOLDS" for _ in range(runs)
    )
    low, high = stats.binom.interval(0.999, runs, 0.025)
    assert low <= holds <= high


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="generator must be one of 'DP-Gen', 'AUG-PE', got 'GPT'"):
        gain(saved([0.2, 0.2], [0.2, 0.2]), "GPT")
    with pytest.raises(ValueError, match="two corpora of AUG-PE at least, got 1"):
        gain(saved([0.2, 0.2], [0.2]), "AUG-PE")
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\)"):
        gain(saved([0.2, 0.2], [0.2, 0.2]), "DP-Gen", 1.0)
    with pytest.raises(ValueError, match="control must be one of"):
        gains(saved([0.2, 0.2], [0.2, 0.2]), "DP-Gen", "best")
    assert filter_report.corpora(saved([0.2], []), "AUG-PE") == []
