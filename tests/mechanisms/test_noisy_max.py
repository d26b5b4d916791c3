"""Report noisy max: probabilities against mpmath, permute-and-flip and simulation; the true epsilon."""

from itertools import permutations, product

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dprepro.mechanisms.events import Exactly, Interval, OneOf
from dprepro.mechanisms.noisy_max import ReportNoisyMax

LISTS = [(1.0,) * 5, (1.0, 3.0, 0.0, 2.0), (0.0, 12.5, 12.0), (-40.0, 0.0, 30.0), (7.0,)]


def laplace_cdf(z):
    return mpmath.exp(z) / 2 if z < 0 else 1 - mpmath.exp(-z) / 2


def permute_and_flip(answers, winner, epsilon):
    """Try the queries in random order, accept each with probability exp(epsilon (its answer - best) / 2)."""
    accept = np.exp(epsilon * (np.array(answers) - max(answers)) / 2)
    orders = list(permutations(range(len(answers))))
    total = 0.0
    for order in orders:
        earlier = order[: order.index(winner)]
        total += accept[winner] * np.prod(1 - accept[list(earlier)])
    return total / len(orders)


@pytest.mark.parametrize("answers", LISTS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_index_against_other_derivations(answers, epsilon, exact_probability):
    scale = mpmath.mpf(2) / epsilon
    for winner, answer in enumerate(answers):
        event = OneOf([winner + 1])
        # the winner's own noise is shared by the comparisons with its rivals
        rivals = [("below", rival - answer) for rival in answers[:winner] + answers[winner + 1 :]]
        assert ReportNoisyMax(epsilon).probability(answers, event) == pytest.approx(
            exact_probability(scale, scale, rivals), rel=1e-12, abs=0
        )
        assert ReportNoisyMax(epsilon, "exponential").probability(answers, event) == pytest.approx(
            permute_and_flip(answers, winner, epsilon), rel=1e-12, abs=0
        )


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("answers", LISTS)
def test_indices_share_the_whole_probability(noise, answers):
    mechanism = ReportNoisyMax(0.7, noise)
    assert mechanism.probability(answers, Interval()) == pytest.approx(1, abs=1e-13)
    assert mechanism.probability(answers, OneOf([0, len(answers) + 1, 1.5])) == 0


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize(
    ("low", "high"), [(-np.inf, 2.0), (3.0, 3.5), (-4.0, np.inf), (60.0, 61.0), (80.0, np.inf), (-60.0, -2.0)]
)
def test_maximum_against_many_digits(noise, low, high):
    answers, scale = LISTS[1], mpmath.mpf(2) / 1.5
    with mpmath.workdps(60):

        def cdf(value):
            if mpmath.isinf(value):
                return mpmath.mpf(value > 0)
            z = [(value - answer) / scale for answer in answers]
            if noise == "laplace":
                return mpmath.fprod(map(laplace_cdf, z))
            return mpmath.fprod(max(1 - mpmath.exp(-step), 0) if step > 0 else 0 for step in z)

        exact = float(cdf(mpmath.mpf(high)) - cdf(mpmath.mpf(low)))
    mechanism = ReportNoisyMax(1.5, noise, "maximum")
    assert mechanism.probability(answers, Interval(low, high)) == pytest.approx(exact, rel=1e-13, abs=0)


@pytest.mark.parametrize(("noise", "output"), list(product(["laplace", "exponential"], ["index", "maximum"])))
def test_simulation_against_exact(noise, output):
    mechanism, answers, n = ReportNoisyMax(1.2, noise, output), LISTS[1], 70_000
    outputs = mechanism(answers, n, np.random.default_rng(4))
    assert outputs.shape == (n,)
    assert outputs.dtype == (np.int64 if output == "index" else np.float64)
    events = (
        [OneOf([index]) for index in range(1, 5)]
        if output == "index"
        else [Interval(high=4.0), Interval(4.0, 6.0), Interval(low=10.0)]
    )
    for event in events:
        probability, hits = mechanism.probability(answers, event), event(outputs).sum()
        assert binom.ppf(1e-6, n, probability) <= hits <= binom.ppf(1 - 1e-6, n, probability)


def test_scenario_c():
    # ReTiDP (c) after the change: the maximum after Laplace noise of scale 2/epsilon. By hand:
    # P(max <= 2) = F(1/2)^5 and F(0)^5.
    mechanism, event = ReportNoisyMax(1.0, output="maximum"), Interval(high=2)
    a, b = (mechanism.probability([value] * 5, event) for value in (1, 2))
    assert a == pytest.approx((1 - np.exp(-0.5) / 2) ** 5, rel=1e-14)
    assert b == pytest.approx(2**-5, rel=1e-14)
    assert (round(a, 5), round(b, 5)) == (0.16419, 0.03125)
    # After exponential noise the second probability is 0: the release never lies below an answer.
    assert ReportNoisyMax(1.0, "exponential", "maximum").probability([2] * 5, event) == 0


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("value", [1, 2])
def test_scenario_g(noise, value):
    assert ReportNoisyMax(1.0, noise).probability([value] * 5, OneOf([3])) == pytest.approx(0.2, rel=1e-13)


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_index_keeps_the_claim_and_reaches_it(noise):
    mechanism, base = ReportNoisyMax(0.8, noise), np.array([0.0, 1.5, 0.3])
    worst = 0.0
    for step in product((-1, 0, 1), repeat=3):
        for index in (1, 2, 3):
            a, b = (mechanism.probability(q, OneOf([index])) for q in (base, base + step))
            worst = max(worst, abs(np.log(a / b)))
    assert 0.5 < worst <= mechanism.true_epsilon + 1e-12
    far, near = (mechanism.probability([low, high, high], OneOf([1])) for low, high in ((0, 40), (-1, 41)))
    assert np.log(far / near) == pytest.approx(mechanism.true_epsilon, rel=1e-6)


def test_maximum_has_no_epsilon_for_lists_of_every_length():
    assert ReportNoisyMax(1.0, "laplace", "maximum").true_epsilon == np.inf
    assert ReportNoisyMax(1.0, "exponential", "maximum").true_epsilon == np.inf
    for queries in (1, 5, 12):  # k queries need k/2 times the claim
        mechanism, event = ReportNoisyMax(1.0, "laplace", "maximum"), Interval(high=0)
        a, b = (mechanism.probability([value] * queries, event) for value in (1, 2))
        assert np.log(a / b) == pytest.approx(queries / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\), got 0"),
        ({"epsilon": np.nan}, r"epsilon must be in \(0, inf\), got nan"),
        ({"epsilon": 1.0, "noise": "gauss"}, "noise must be one of 'laplace', 'exponential', got 'gauss'"),
        ({"epsilon": 1.0, "output": "value"}, "output must be one of 'index', 'maximum', got 'value'"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        ReportNoisyMax(**arguments)


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
        ReportNoisyMax(1.0)(answers, n, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("output", "event", "message"),
    [
        ("index", Exactly([1]), "event must be OneOf or an Interval for ReportNoisyMax"),
        ("maximum", Exactly([1]), "event must be an Interval for ReportNoisyMax"),
        ("maximum", OneOf([1]), r"event must be an Interval for ReportNoisyMax\(.*\), got \{1\}"),
    ],
)
def test_events_that_do_not_apply(output, event, message):
    with pytest.raises(ValueError, match=message):
        ReportNoisyMax(1.0, output=output).probability([1.0, 2.0], event)
