"""The eight scenarios: exact probabilities against closed forms and against the mechanisms that are run."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS, event_counts
from dprepro.mechanisms.events import Interval

LATE, EARLY = [0] * 5 + [1] * 5, [1] * 5 + [0] * 5
SIX_BELOW = [0] * 6 + [1]


def laplace_cdf(z):
    return 0.5 * math.exp(z) if z < 0 else 1 - 0.5 * math.exp(-z)


def pattern_probability(answers, pattern, rho_scale, nu_scale):
    """P(the answers follow the pattern) for one noisy threshold 1 + rho, by quadrature over rho."""

    def given(rho):
        density = math.exp(-abs(rho) / rho_scale) / (2 * rho_scale)
        for answer, above in zip(answers, pattern, strict=False):
            below = laplace_cdf((1 + rho - answer) / nu_scale)
            density *= 1 - below if above else below
        return density

    # Kinks where rho is 0 and where an answer, 0 or 1, equals the threshold.
    return sum(integrate.quad(given, *ends, epsabs=1e-13)[0] for ends in ((-120, -1), (-1, 0), (0, 120)))


def noiseless_pattern(answers, pattern):
    """P(the pattern) for answers without noise: 1 + rho is above the "below" and at most the "above"."""
    least = max(q for q, above in zip(answers, pattern, strict=True) if not above)
    most = min(q for q, above in zip(answers, pattern, strict=True) if above)
    return max(0.0, laplace_cdf((most - 1) / 2) - laplace_cdf((least - 1) / 2))


def svt2():
    return [pattern_probability(q, SIX_BELOW, 2, 4) for q in (LATE, EARLY)]


# (a, b) before and after, without a line of the mechanisms' code.
EXPECTED = {
    "a": lambda: ([laplace_cdf(-m) for m in (0, 1)], [laplace_cdf(-2 * m) for m in (0, 1)]),
    "b": lambda: ([laplace_cdf(-1 - m) for m in (0, 1)], stats.norm.cdf([-1, -2], scale=2**0.5)),
    "c": lambda: ([0.4, 0.4], [laplace_cdf((2 - m) / 2) ** 5 for m in (1, 2)]),
    "d": lambda: (svt2(), [pattern_probability(q, SIX_BELOW, 4, 4 / 3) for q in (LATE, EARLY)]),
    "e": lambda: ([0, 0], [noiseless_pattern(q, LATE) for q in (LATE, EARLY)]),
    "f": lambda: ([0, 0], [pattern_probability(q, EARLY, 2, 2) for q in (EARLY, LATE)]),
    "g": lambda: ([0.2, 0.2], [0.2, 0.2]),
    "h": lambda: (svt2(), svt2()),
}


@pytest.mark.parametrize("key", list(SCENARIOS))
def test_exact_probabilities_by_another_way(key):
    np.testing.assert_allclose(SCENARIOS[key].probabilities(), EXPECTED[key](), rtol=1e-8, atol=1e-12)


def test_published_size_of_each_violation():
    # P(A(x) in E) - e P(A(x') in E) after the change, computed elsewhere to four or five digits.
    found = {key: a - np.exp(EPSILON) * b for key, s in SCENARIOS.items() for a, b in [s.probabilities()[1]]}
    known = {"a": 0.31606, "b": 0.02596, "c": 0.07924, "d": 0.0084, "e": 0.1969, "f": 0.0021, "h": -0.0101}
    for key, value in known.items():
        assert found[key] == pytest.approx(value, abs=3e-4), key


@pytest.mark.parametrize("key", list(SCENARIOS))
def test_a_change_violates_the_claim_where_it_is_called_harmful(key):
    scenario = SCENARIOS[key]
    (a, b), (a_after, b_after) = scenario.probabilities()
    assert a <= np.exp(EPSILON) * b + 1e-12
    assert (a_after > np.exp(EPSILON) * b_after + 1e-6) == scenario.harmful
    assert scenario.before.true_epsilon <= EPSILON
    assert (scenario.after.true_epsilon > EPSILON) == scenario.harmful


@pytest.mark.parametrize("key", "gh")
def test_harmless_changes_leave_the_event_as_it_was(key):
    before, after = SCENARIOS[key].probabilities()
    np.testing.assert_allclose(before, after, rtol=1e-10)


@pytest.mark.parametrize("key", list(SCENARIOS))
def test_counts_agree_with_the_exact_probabilities(key):
    scenario, repetitions, n, horizon, change = SCENARIOS[key], 20, 200, 25, 11
    sides = scenario.counts(repetitions, np.random.default_rng(3), n=n, horizon=horizon, change=change)
    for steps, probabilities in zip(
        (slice(0, change - 1), slice(change - 1, None)), scenario.probabilities(), strict=True
    ):
        for counts, probability in zip(sides, probabilities, strict=True):
            part = counts[:, steps]
            low, high = stats.binom.ppf([5e-7, 1 - 5e-7], part.size * n, probability)  # 32 tests: 3e-5 in all
            assert low <= part.sum() <= high
            variance = n * probability * (1 - probability)
            if (
                variance > 10
            ):  # near enough to normal; the steps differ by no more and no less than binomial spread
                spread = ((part - n * probability) ** 2).sum() / variance
                assert stats.chi2.ppf(1e-7, part.size) < spread < stats.chi2.ppf(1 - 1e-7, part.size)


@pytest.mark.parametrize("change", [1, 2, 6, 7])
def test_the_change_is_the_first_changed_step(change):
    # (e): the event is impossible before, and 20 of 100 outputs on x lie in it afterwards.
    count_x, count_y = SCENARIOS["e"].counts(3, np.random.default_rng(0), n=100, horizon=6, change=change)
    assert count_x.shape == count_y.shape == (3, 6)
    assert not count_y.any()
    assert not count_x[:, : change - 1].any()
    assert count_x[:, change - 1 :].all()


def test_the_same_seed_gives_the_same_counts():
    sizes = {"n": 50, "horizon": 5, "change": 3}
    first, again = (SCENARIOS["b"].counts(4, np.random.default_rng(9), **sizes) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first[0] != SCENARIOS["b"].counts(4, np.random.default_rng(8), **sizes)[0]).any()


@pytest.mark.parametrize(("groups", "n"), [(1, 5), (7, 3), (0, 5), (1000, 600), (2, 300_000)])
def test_event_counts_of_a_known_stream(groups, n):
    # Outputs 0, 1, 2, ... over all calls: group g holds g n ... (g + 1) n - 1, and the event the multiples of 3.
    seen = [0]

    def counter(x, size, rng):
        start, seen[0] = seen[0], seen[0] + size
        return np.where(np.arange(start, start + size) % 3 == 0, 0.0, 9.0)

    found = event_counts(counter, [0.0], Interval(high=1.0), groups, n, np.random.default_rng(0))
    ends = -(-np.arange(groups + 1) * n // 3)
    np.testing.assert_array_equal(found, np.diff(ends))
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"change": 0}, "change must be a whole number of at least 1, got 0"),
        ({"change": 7}, r"change must be at most horizon \+ 1, got 7 of 6"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"n": 0}, "n must be a whole number of at least 1, got 0"),
        ({"repetitions": 1.5}, "repetitions must be a whole number of at least 1, got 1.5"),
    ],
)
def test_bad_sizes(changed, message):
    sizes = {"repetitions": 2, "n": 10, "horizon": 5, "change": 3} | changed
    with pytest.raises(ValueError, match=message):
        SCENARIOS["a"].counts(rng=np.random.default_rng(0), **sizes)
