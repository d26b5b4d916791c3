"""Sparse vector technique: six versions against exact expansions, simulation, printed scenarios; true epsilon."""

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, kstest, laplace

from dprepro.mechanisms.events import Exactly, Interval, OneOf
from dprepro.mechanisms.sparse_vector import SparseVector

INF = np.inf
LOW_HIGH, HIGH_LOW = [0] * 5 + [1] * 5, [1] * 5 + [0] * 5
SEVENTH = Exactly([0] * 6 + [1])
ANSWERS, THRESHOLD = (0.2, 1.5, -1.0, 0.9), 0.5

# Scales of rho and nu in units of sensitivity/epsilon as functions of c: Lyu, Su and Li (2017), figure 1, with
# epsilon_1 = epsilon/2 (epsilon/4 in variant 4), rho ~ Lap(Delta/epsilon_1) and so on.
PUBLISHED = {
    1: lambda c: (2, 4 * c),
    2: lambda c: (2 * c, 4 * c),
    3: lambda c: (2, 2 * c),
    4: lambda c: (4, mpmath.mpf(4) / 3),
    5: lambda c: (2, 0),
    6: lambda c: (2, 2),
}


def possible_patterns(variant, cutoff, queries):
    """All complete lists of answers."""
    for pattern in product((0, 1), repeat=queries):
        if variant in (5, 6):
            yield pattern
            continue
        above = np.flatnonzero(pattern)
        end = above[cutoff - 1] + 1 if above.size >= cutoff else queries
        if not any(pattern[end:]):  # each shorter list once
            yield pattern[:end]


def by_hand(variant, cutoff, answers, pattern, epsilon, exact_probability):
    """Probability of a list of 0 and 1 from the published scales, segment by segment, without quadrature."""
    rho, nu = (mpmath.mpf(scale) / epsilon for scale in PUBLISHED[variant](cutoff))
    comparisons = [
        ("above" if entry else "below", mpmath.mpf(answer) - THRESHOLD)
        for answer, entry in zip(answers, pattern, strict=False)
    ]
    if variant != 2:
        return exact_probability(rho, nu, comparisons)
    total, start = 1.0, 0
    for end in [*(np.flatnonzero(pattern) + 1), len(pattern)]:
        total *= exact_probability(rho, nu, comparisons[start:end])
        start = end
    return total


@pytest.mark.parametrize("cutoff", [1, 2, 3])
@pytest.mark.parametrize("variant", [1, 2, 3, 4, 6])
def test_probabilities_against_exact_expansions(variant, cutoff, exact_probability):
    for epsilon in (0.3, 2.0):
        mechanism = SparseVector(variant, epsilon, THRESHOLD, cutoff)
        for pattern in possible_patterns(variant, cutoff, 4):
            expected = by_hand(variant, cutoff, ANSWERS, pattern, epsilon, exact_probability)
            assert mechanism.probability(ANSWERS, Exactly(pattern)) == pytest.approx(
                expected, rel=1e-12, abs=0
            )


@pytest.mark.parametrize("epsilon", [0.01, 20.0])
@pytest.mark.parametrize("variant", [1, 4, 6])
def test_small_probabilities_keep_their_digits(variant, epsilon, exact_probability):
    answers, pattern = (-7.0, 8.5, 2.25, -3.0), (1, 0, 0, 1) if variant == 6 else (0, 0, 0, 1)
    expected = by_hand(variant, 1, answers, pattern, epsilon, exact_probability)
    mechanism = SparseVector(variant, epsilon, THRESHOLD)
    assert mechanism.probability(answers, Exactly(pattern)) == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize(
    "entries",
    [
        (0, (1.0, 2.0)),
        ((-INF, 0.7), (1.0, INF)),
        ((-3.0, -2.5), 0, (0.0, 0.5)),
        ((2.0, 2.0 + 1e-6), 0, 0, 1),
        ((5.0, 6.0), 1, (-INF, INF)),
    ],
)
def test_released_answers_against_exact_expansions(entries, exact_probability):
    mechanism = SparseVector(3, 0.8, THRESHOLD, cutoff=3 if len(entries) == 3 else 2)
    answers = ANSWERS[: len(entries)]
    comparisons = []
    for answer, entry in zip(answers, entries, strict=True):
        q = mpmath.mpf(answer) - THRESHOLD
        if isinstance(entry, tuple):
            comparisons.append(("within", q, *(mpmath.mpf(end) - THRESHOLD for end in entry)))
        else:
            comparisons.append(("above" if entry else "below", q))
    rho, nu = (mpmath.mpf(scale) / 0.8 for scale in PUBLISHED[3](mechanism.cutoff))
    event = Exactly([Interval(*entry) if isinstance(entry, tuple) else entry for entry in entries])
    assert mechanism.probability(answers, event) == pytest.approx(
        exact_probability(rho, nu, comparisons), rel=1e-9, abs=0
    )


def test_without_noise_on_the_answers():
    # variant 5: rho + T lies between the largest answer below and the smallest above
    mechanism, rho = SparseVector(5, 0.7, THRESHOLD), laplace(THRESHOLD, 2 / 0.7)
    for pattern in product((0, 1), repeat=4):
        above = [answer for answer, entry in zip(ANSWERS, pattern, strict=True) if entry]
        below = [answer for answer, entry in zip(ANSWERS, pattern, strict=True) if not entry]
        expected = max(rho.cdf(min(above, default=INF)) - rho.cdf(max(below, default=-INF)), 0)
        assert mechanism.probability(ANSWERS, Exactly(pattern)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("variant", range(1, 7))
@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_lists_share_the_whole_probability(variant, cutoff):
    mechanism = SparseVector(variant, 0.9, THRESHOLD, cutoff, sensitivity=1.7)
    patterns = list(possible_patterns(variant, cutoff, 4))
    assert sum(mechanism.probability(ANSWERS, Exactly(p)) for p in patterns) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("variant", range(1, 7))
@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_simulation_against_exact(variant, cutoff):
    mechanism, n = SparseVector(variant, 1.3, THRESHOLD, cutoff), 40_000
    outputs = mechanism(ANSWERS, n, np.random.default_rng(10 * variant + cutoff))
    assert outputs.shape == (n, 4)
    assert outputs.dtype == (np.float64 if variant == 3 else np.int8)
    seen = 0
    for pattern in possible_patterns(variant, cutoff, 4):
        event = Exactly(pattern)
        probability, hits = mechanism.probability(ANSWERS, event), event(outputs).sum()
        seen += hits
        # below 1e-7 a side over some 170 counts: about the two sides of 5 standard deviations
        assert binom.ppf(1e-7, n, probability) <= hits <= binom.ppf(1 - 1e-7, n, probability), pattern
    assert seen == n  # every run is one of the lists, so ends are coded as they should


def test_simulation_of_released_answers():
    mechanism, n = SparseVector(3, 1.0, THRESHOLD, cutoff=2), 60_000
    outputs = mechanism(ANSWERS, n, np.random.default_rng(8))
    for pattern in [(0, Interval(1, 3), 1), (Interval(low=4), Interval(high=2)), (0, 0, Interval(-1, 1), 0)]:
        event = Exactly(pattern)
        probability, hits = mechanism.probability(ANSWERS, event), event(outputs).sum()
        assert hits > 100
        assert binom.ppf(1e-6, n, probability) <= hits <= binom.ppf(1 - 1e-6, n, probability)


def test_more_runs_than_one_block():
    n = 70_000  # three blocks, the last one short
    outputs = SparseVector(6, 1.0, 0.0)([0.0], n, np.random.default_rng(0))[:, 0]
    assert outputs.min() == 0
    for part in np.array_split(outputs, 7):
        assert binom.ppf(1e-6, part.size, 0.5) <= part.sum() <= binom.ppf(1 - 1e-6, part.size, 0.5)


def test_noise_of_the_threshold_is_shared_and_redrawn():
    # without noise on the answers all comparisons see one rho
    outputs = SparseVector(5, 1.0, 0.0)([-1.0, 0.0, 1.0], 2_000, np.random.default_rng(1))
    assert (np.diff(outputs, axis=1) >= 0).all()
    # the released answers of variant 3, far above the threshold, are the answers plus noise of scale 2c/epsilon
    released = SparseVector(3, 2.0, -1e6, cutoff=2)([1.0, 5.0, 9.0], 20_000, np.random.default_rng(2))
    assert np.isnan(released[:, 2]).all()
    for column, answer in zip(released.T, (1.0, 5.0), strict=False):
        assert kstest(column, laplace(answer, 2.0).cdf).pvalue > 1e-3
    # variants 1 and 2 differ once a list goes on after "above": only the second draws rho anew
    both, scaled = Exactly([1, 1]), [4.0, 4.0]
    first, second = (SparseVector(v, 1.0, 0.0, 2).probability(scaled, both) for v in (1, 2))
    single = SparseVector(2, 1.0, 0.0, 2).probability(scaled, Exactly([1, 0]))
    assert second == pytest.approx((second + single) ** 2, rel=1e-12)
    assert abs(first - second) > 1e-3


@pytest.mark.parametrize(
    ("variant", "x", "neighbour", "event", "exact", "table"),
    [
        # ReTiDP (d), (e), (f), (h): epsilon = 1, c = 1, threshold 1. `exact` was expanded in 80 digits; `table`
        # is what a simulation of the scenario prints, to four digits.
        (2, LOW_HIGH, HIGH_LOW, SEVENTH, (0.0262030751333392, 0.0133593180345397), (0.0263, 0.0134)),
        (4, LOW_HIGH, HIGH_LOW, SEVENTH, (0.0280521805321382, 0.00720918729897793), (0.0280, 0.0072)),
        (1, LOW_HIGH, HIGH_LOW, SEVENTH, (0.0262030751333392, 0.0133593180345397), (0.0263, 0.0133)),
        (5, LOW_HIGH, HIGH_LOW, Exactly(LOW_HIGH), (-np.expm1(-0.5) / 2, 0), (0.1969, 0)),
        (
            6,
            HIGH_LOW,
            LOW_HIGH,
            Exactly(HIGH_LOW),
            (0.00222733691080332, 3.95569216279166e-5),
            (0.0022, 4e-5),
        ),
        (2, LOW_HIGH, HIGH_LOW, Exactly(LOW_HIGH), (0, 0), (0, 0)),
        (2, HIGH_LOW, LOW_HIGH, Exactly(HIGH_LOW), (0, 0), (0, 0)),
    ],
)
def test_scenarios(variant, x, neighbour, event, exact, table):
    mechanism = SparseVector(variant, epsilon=1.0, threshold=1.0)
    values = [mechanism.probability(answers, event) for answers in (x, neighbour)]
    assert values == pytest.approx(exact, rel=1e-13, abs=0)
    assert values == pytest.approx(table, abs=2e-4)


def test_versions_one_and_two_are_one_mechanism_at_cutoff_one():
    first, second = (
        SparseVector(v, 0.6, THRESHOLD)(ANSWERS, 5_000, np.random.default_rng(3)) for v in (1, 2)
    )
    assert np.array_equal(first, second)


def worst_ratio(mechanism, far):
    """Largest |log(a/b)| over all lists of four and all corners of the neighbourhood of two databases."""
    worst = 0.0
    patterns = [Exactly(p) for p in possible_patterns(mechanism.variant, mechanism.cutoff, 4)]
    for base in ([0, 0, 0, 0], far):
        ours = [mechanism.probability(base, event) for event in patterns]
        for step in product((-1, 1), repeat=4):
            theirs = [mechanism.probability(np.add(base, step), event) for event in patterns]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.abs(np.log(np.divide(ours, theirs)))
            worst = max(worst, np.nanmax(ratios))  # NaN is 0/0: a list that neither database gives
    return worst


@pytest.mark.parametrize(
    ("variant", "cutoff", "far", "low", "high"),
    [
        (1, 1, [10, 10, 10, -10], 0.9, 1.0),
        (1, 2, [10, 10, -10, -10], 0.45, 1.0),
        (2, 1, [10, 10, 10, -10], 0.9, 1.0),
        (2, 2, [10, -10, 10, -10], 0.45, 1.0),
        (4, 1, [10, 10, 10, -10], 1.7, 7 / 4),
        (4, 2, [10, 10, -10, -10], 2.9, 13 / 4),
        (5, 1, [10, 10, 10, -10], INF, INF),
        (6, 1, [10, 10, -10, -10], 1.9, 4 / 2),  # four answers, each with noise worth epsilon/2
    ],
)
def test_worst_ratio_over_all_lists(variant, cutoff, far, low, high):
    mechanism = SparseVector(variant, 1.0, 0.0, cutoff)
    assert low <= worst_ratio(mechanism, far) <= high + 1e-12
    assert mechanism.true_epsilon == (INF if variant in (5, 6) else high)


@pytest.mark.parametrize(
    ("variant", "cutoff", "expected"),
    [(1, 1, 1), (1, 3, 1), (2, 1, 1), (2, 2, 1), (4, 1, 7 / 4), (4, 2, 13 / 4)],
)
def test_true_epsilon_is_approached_by_long_lists(variant, cutoff, expected):
    # Many queries below force rho far out; then each "above" costs its noise twice.
    block = [0] * 150 + [1]
    pattern = np.array(block * cutoff if variant == 2 else [0] * 150 + [1] * cutoff)
    mechanism = SparseVector(variant, 0.5, 1.0, cutoff)
    a, b = (mechanism.probability(answers, Exactly(pattern)) for answers in (pattern, 1 - pattern))
    assert mechanism.true_epsilon == expected * 0.5
    assert np.log(a / b) == pytest.approx(mechanism.true_epsilon, rel=1e-6)


@pytest.mark.parametrize("variant", [3, 6])
def test_ratios_without_bound(variant):
    # Variant 3: the released answer shows that rho lies below it, so queries below cannot hide behind rho.
    mechanism, ratios = SparseVector(variant, 1.0, 0.0), []
    assert mechanism.true_epsilon == INF
    for queries in (5, 10, 20):
        if variant == 3:
            x, event = [0] * queries + [0], Exactly([0] * queries + [Interval(-0.1, 0.0)])
            neighbour = [1] * queries + [0]
        else:
            x, event = [1] * queries + [0] * queries, Exactly([1] * queries + [0] * queries)
            neighbour = x[::-1]
        a, b = (mechanism.probability(answers, event) for answers in (x, neighbour))
        ratios.append(np.log(a / b))
    assert ratios[0] > 1
    assert ratios[2] - ratios[1] > 1.5 * (ratios[1] - ratios[0]) > 0


def test_sensitivity_and_threshold_are_units():
    event, base = Exactly([0, 1, 0, 1]), SparseVector(1, 1.2, 0.5, 2)
    scaled = SparseVector(1, 1.2, 5.0, 2, sensitivity=10.0)
    assert scaled.probability(10 * np.array(ANSWERS), event) == pytest.approx(
        base.probability(ANSWERS, event), rel=1e-12
    )
    moved = SparseVector(1, 1.2, 3.5, 2)
    assert moved.probability(3 + np.array(ANSWERS), event) == pytest.approx(
        base.probability(ANSWERS, event), rel=1e-12
    )


@pytest.mark.parametrize("pattern", [(0, 1, 0, 0), (1, 1), (0, 0), (1, 0)])
def test_lists_that_no_run_gives(pattern):
    mechanism = SparseVector(1, 1.0, THRESHOLD)  # ends at its first "above", else after four
    assert mechanism.probability(ANSWERS, Exactly(pattern)) == 0
    assert not Exactly(pattern)(mechanism(ANSWERS, 5_000, np.random.default_rng(0))).any()
    assert SparseVector(6, 1.0, THRESHOLD).probability(ANSWERS, Exactly([1, 1])) == 0  # never ends early


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": 0}, "variant must be one of 1, 2, 3, 4, 5, 6, got 0"),
        ({"variant": 7}, "variant must be one of 1, 2, 3, 4, 5, 6, got 7"),
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\), got 0"),
        ({"epsilon": -1.0}, r"epsilon must be in \(0, inf\), got -1"),
        ({"threshold": np.nan}, "threshold must be finite"),
        ({"cutoff": 0}, "cutoff must be a whole number of at least 1, got 0"),
        ({"cutoff": 1.5}, "cutoff must be a whole number"),
        ({"sensitivity": 0.0}, r"sensitivity must be in \(0, inf\), got 0"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseVector(**{"variant": 1, "epsilon": 1.0, "threshold": 0.0} | arguments)


@pytest.mark.parametrize(
    ("answers", "n", "message"),
    [
        ([], 1, "answers must be a one-dimensional array of at least 1"),
        ([[1.0]], 1, "answers must be a one-dimensional array"),
        ([0.0, np.nan], 1, "answers must be free of NaN"),
        ([0.0, np.inf], 1, "answers must be finite"),
        ([0.0], 0, "n must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_runs(answers, n, message):
    with pytest.raises(ValueError, match=message):
        SparseVector(1, 1.0, 0.0)(answers, n, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("variant", "event", "message"),
    [
        (1, Interval(), r"event must be Exactly for SparseVector\(variant=1, .*\), got \(-inf, inf\)"),
        (3, OneOf([1]), "event must be Exactly for SparseVector"),
        (1, Exactly([0, Interval(0, 1)]), "pattern must hold 0 and 1 only for SparseVector"),
        (5, Exactly([0] * 5), r"pattern must be no longer than the 4 answers, got \{\(0, 0, 0, 0, 0\)\}"),
    ],
)
def test_events_that_do_not_apply(variant, event, message):
    with pytest.raises(ValueError, match=message):
        SparseVector(variant, 1.0, 0.0).probability(ANSWERS, event)
