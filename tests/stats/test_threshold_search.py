"""Oracle: every threshold by brute force, with one exact pair of limits for each."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprepro.stats import threshold_search
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.lower_bound import epsilon_lower_bound
from dprepro.stats.tradeoff import CONVERSIONS


def brute_force(inside, outside, alpha, conversion, delta, mass_in=1.0, mass_out=1.0, cuts=None):
    """The largest bound over all thresholds, with one exact pair of limits for each of them."""
    cuts = np.unique(np.concatenate([inside, outside])) if cuts is None else cuts
    tp, fp = (side.size - np.searchsorted(np.sort(side), cuts) for side in (inside, outside))
    low = clopper_pearson(tp, inside.size, alpha)[0] * mass_in
    up = clopper_pearson(fp, outside.size, alpha)[1] * mass_out + (1 - mass_out)
    # Rounding only: the conversion of an array and of a scalar may differ in the last digit.
    return pytest.approx(CONVERSIONS[conversion](low, up, delta).max(), rel=1e-14, abs=1e-15)


@pytest.fixture
def short_tables():
    """Interpolate from 16 trials on and search in short blocks, so that small arrays take the long way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threshold_search, "_ALL_COUNTS_UP_TO", 16)
        patch.setattr(threshold_search, "_STRIDES", (9, 4, 1))
        for cached in (threshold_search._ceiling, threshold_search._knot_limits):
            cached.cache_clear()
        yield
    for cached in (threshold_search._ceiling, threshold_search._knot_limits):
        cached.cache_clear()


@pytest.mark.parametrize("conversion", ["standard", "gdp", "kairouz"])
@pytest.mark.parametrize(("mass_in", "mass_out", "delta"), [(1, 1, 1e-5), (0.99, 0.97, 1e-5), (1, 1, 0.03)])
def test_best_threshold_equals_brute_force(conversion, mass_in, mass_out, delta):
    # Above 4,096 trials the limits are interpolated and the thresholds searched in blocks.
    rng = np.random.default_rng(6)
    for n, m, shift in [(300, 500, 1.0), (9000, 6000, 0.0), (9000, 6000, 1.6), (5000, 20_000, 5.0)]:
        inside, outside = rng.normal(shift, 1, n), rng.normal(0, 1, m)
        bound = epsilon_lower_bound(
            inside, outside, delta, 0.05, "same", conversion, mass_in=mass_in, mass_out=mass_out
        )
        assert bound == brute_force(inside, outside, 0.05, conversion, delta, mass_in, mass_out)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    conversion=st.sampled_from(list(CONVERSIONS)),
    delta=st.sampled_from([1e-9, 1e-5, 0.05, 0.5]),
)
def test_search_in_blocks_equals_brute_force_with_ties(short_tables, data, conversion, delta):
    scores = st.lists(st.integers(0, data.draw(st.sampled_from([5, 40, 10**6]))), min_size=1, max_size=200)
    sides = [np.array(data.draw(scores), dtype=float) for _ in range(2)]
    alpha = data.draw(st.floats(1e-4, 0.9))
    bound = epsilon_lower_bound(*sides, delta, alpha, "same", conversion)
    assert bound == brute_force(*sides, alpha, conversion, delta)
    for side, rate in zip(sides, (bound.tpr, bound.fpr), strict=True):
        assert rate == np.mean(side >= bound.threshold)  # a block of ties counts whole


@pytest.mark.parametrize("line", ["ratio", "probit", "complement"])
@pytest.mark.parametrize(("mass", "delta", "alpha"), [(1, 1e-5, 0.05), (0.98, 0.01, 1e-6), (1, 0.3, 0.5)])
def test_interpolated_terms_lie_above_the_exact_ones_at_every_count(line, mass, delta, alpha):
    for trials in (4097, 8000, 30_000, 400_000):
        counts = np.r_[0:4098, 4098 : trials + 1 : max(1, trials // 12_345)]
        for side in (
            threshold_search.Side(True, trials, alpha / 2, mass),
            threshold_search.Side(False, trials, alpha / 2, mass),
        ):
            term = threshold_search.Term(side, line, delta)
            slack = threshold_search._ceiling(term).above(counts) - term.at(side.limit(counts))
            assert slack.min() >= 0
            # The margin decides how many thresholds are computed exactly.
            assert np.median(slack) < 1e-3


def test_grid_takes_pooled_quantiles():
    rng = np.random.default_rng(7)
    inside, outside = rng.normal(1, 1, 700), rng.normal(0, 1, 400)
    pool = np.sort(np.concatenate([inside, outside]))
    for grid in (2, 9, 2000):
        cuts = pool[np.linspace(0, 1099, grid).astype(int)]
        bound = epsilon_lower_bound(inside, outside, 1e-5, 0.05, "same", "gdp", grid=grid)
        assert bound == brute_force(inside, outside, 0.05, "gdp", 1e-5, cuts=cuts)
        assert bound.threshold in cuts
