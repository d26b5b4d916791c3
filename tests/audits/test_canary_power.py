"""Planning against simulated audits, and the exact epsilon of the final model against known mechanisms."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.canary import canary_audit, trainings_ceiling
from dprepro.audits.canary_one_run import one_run_audit
from dprepro.audits.canary_power import (
    canaries_needed,
    final_model_epsilon,
    one_run_ceiling,
    typical_one_run,
    typical_trainings,
)
from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.stats.gdp import mu_to_epsilon


def test_ceilings_grow_as_the_logarithm():
    # All r guesses right bound q by alpha^(1/r), so epsilon = log(q/(1 - q)).
    for m in (10, 100, 1000):
        q = 0.05 ** (1 / m)
        assert one_run_ceiling(m, 0, 0.05) == pytest.approx(np.log(q / (1 - q)))
    assert one_run_ceiling(1000, 0, 0.05) - one_run_ceiling(100, 0, 0.05) == pytest.approx(
        np.log(10), abs=0.02
    )
    assert trainings_ceiling(1000, 1000, 1e-5, 0.05) == pytest.approx(5.6005774942916355)


@pytest.mark.parametrize(("signal", "canaries"), [(0.5, 1000), (1, 250), (2, 1000)])
def test_typical_one_run_against_simulated_audits(signal, canaries):
    rng = np.random.default_rng(1)
    bounds = []
    for _ in range(60):
        coins = rng.random(canaries) < 0.5
        bounds.append(one_run_audit(rng.normal(size=canaries) + signal * coins, coins, 1e-5).epsilon_low)
    # Between the mean and the median of a skewed law: within half a standard deviation, and rounding by one guess.
    typical = typical_one_run(signal, canaries, 1e-5, 0.05)
    assert abs(typical - np.median(bounds)) < 0.5 * np.std(bounds) + 4 * np.std(bounds) / 60**0.5


def test_typical_trainings_against_simulated_audits():
    rng = np.random.default_rng(2)
    bounds = [
        canary_audit(rng.normal(size=500) + 2, rng.normal(size=500), 1e-5).epsilon_low for _ in range(40)
    ]
    typical = typical_trainings(2, 1000, 1e-5, 0.05)
    # The best threshold is not known to the audit: it does no better, and not much worse.
    assert np.mean(bounds) - 4 * np.std(bounds) / 40**0.5 <= typical <= np.mean(bounds) + 2 * np.std(bounds)


def test_canaries_needed_is_enough_and_little_less_is_not():
    plan = canaries_needed(2.0, 2.0, 1e-5, 0.05)
    assert plan is not None
    assert typical_one_run(2.0, plan.canaries, 1e-5, 0.05, plan.guesses) > 2
    fewer = round(plan.canaries / 1.25)
    assert max(typical_one_run(2.0, fewer, 1e-5, 0.05, max(2, fewer // k)) for k in (2, 4, 8, 16, 32)) <= 2
    assert canaries_needed(30.0, 2.0, 1e-5, 0.05) is None
    assert canaries_needed(1.0, 0.0, 1e-5, 0.05) is None


def test_final_model_of_full_participation_is_the_gaussian_mechanism():
    for sigma, steps in ((2.0, 4), (1.0, 1), (5.0, 10)):
        exact = float(mu_to_epsilon(steps**0.5 / sigma, 1e-5))
        assert final_model_epsilon(sigma, 1.0, steps, 1e-5) == pytest.approx(exact, rel=1e-7)
    half = float(mu_to_epsilon(0.5, 1e-5))
    assert final_model_epsilon(1.0, 1.0, 1, 1e-5, share=0.5) == pytest.approx(half, rel=1e-7)


def test_final_model_under_much_noise_and_little():
    # exp(epsilon) is no float at the first two, and the cut lies far out at the third.
    for sigma, steps, delta in ((0.01, 1, 1e-5), (1e-4, 10, 1e-5), (1000.0, 1, 1e-5)):
        exact = float(mu_to_epsilon(steps**0.5 / sigma, delta))
        assert final_model_epsilon(sigma, 1.0, steps, delta) == pytest.approx(exact, rel=1e-7)
    # Drawn once at least with certainty less 2^-10, the canary is seen: each draw moves the weight by 1,000 sigma.
    drawn = final_model_epsilon(1e-3, 0.5, 10, 0.01)
    assert drawn > float(mu_to_epsilon(1 / (1e-3 * 10**0.5), 0.01))
    # No more than the chance that the canary is drawn at all.
    assert final_model_epsilon(0.5, 1e-3, 1, 0.002) == 0
    # So much noise that rounding hides the canary.
    assert final_model_epsilon(1e9, 0.5, 10, 1e-5) == final_model_epsilon(1e15, 0.1, 1, 1e-5) == 0


def test_final_model_counts_draws_that_are_rarer_than_rounding_but_not_than_delta():
    """Drawn twice with chance 1e-40: one event beyond 145 sigma shows more than all that one draw can show."""
    sigma, steps, rate, delta = 0.01, 2, 1e-20, 1e-45
    twice = stats.norm.sf(145 - 2 / (sigma * steps**0.5)) * rate**2
    assert final_model_epsilon(sigma, rate, steps, delta) >= np.log(twice - delta) - stats.norm.logsf(145)


@pytest.mark.parametrize("epsilon_over_edge", [-1e-6, 0.0, 1e-6])
def test_final_model_where_the_canary_is_hardly_drawn(epsilon_over_edge):
    # At these deltas epsilon is close to the log of the chance that it is never drawn.
    rate, steps = 0.1, 5
    edge = -steps * np.log1p(-rate)
    delta = 1 - np.exp(epsilon_over_edge + edge) * (1 - rate) ** steps
    found = final_model_epsilon(0.05, rate, steps, max(float(delta), 1e-12))
    assert np.isfinite(found)
    assert found <= dp_sgd_epsilon(0.05, rate, steps, max(float(delta), 1e-12)) * (1 + 1e-6)


def test_one_sampled_step_is_the_account_and_many_show_less():
    for sigma, rate in ((1.0, 0.01), (0.8, 0.2)):
        one = dp_sgd_epsilon(sigma, rate, 1, 1e-5)
        assert final_model_epsilon(sigma, rate, 1, 1e-5) == pytest.approx(one, abs=2e-4)
    found, account = final_model_epsilon(1.0, 0.1, 100, 1e-5), dp_sgd_epsilon(1.0, 0.1, 100, 1e-5)
    assert 0.5 * account < found < account


def test_final_model_against_samples():
    # P(W > w) - exp(epsilon) P(out > w) at its best cut equals delta, by a large sample of both weights.
    sigma, rate, steps, delta, n = 1.0, 0.2, 20, 0.01, 400_000
    epsilon = final_model_epsilon(sigma, rate, steps, delta)
    rng = np.random.default_rng(3)
    noise = rng.normal(0, sigma * steps**0.5, (2, n))
    inside, outside = np.sort(noise[0] + rng.binomial(steps, rate, n)), np.sort(noise[1])
    cuts = np.linspace(0, 25, 400)
    gains = [
        (n - np.searchsorted(inside, cuts)) / n - np.exp(epsilon) * (n - np.searchsorted(outside, cuts)) / n,
        np.searchsorted(outside, -cuts) / n - np.exp(epsilon) * np.searchsorted(inside, -cuts) / n,
    ]
    assert np.max(gains) == pytest.approx(delta, abs=6e-4 * np.exp(epsilon))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: final_model_epsilon(0, 0.1, 10, 1e-5), "noise_multiplier must be in"),
        (lambda: final_model_epsilon(1, 1.5, 10, 1e-5), "sample_rate must be in"),
        (lambda: final_model_epsilon(1, 0.1, 0, 1e-5), "steps must be a whole number"),
        (lambda: final_model_epsilon(1, 0.1, 10, 0), "delta must be in"),
        (lambda: typical_one_run(-1, 100, 0, 0.05), "signal must be in"),
        (lambda: typical_one_run(1, 1, 0, 0.05), "canaries must be a whole number of at least 2"),
        (lambda: typical_one_run(1, 100, 0, 0.05, 101), "guesses must be at most canaries, got 101 of 100"),
        (lambda: typical_trainings(1, 3, 0, 0.05), "trainings must be a whole number of at least 4"),
        (lambda: canaries_needed(np.nan, 1, 0, 0.05), "epsilon must be in"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
