"""Oracles: values of a separate package, and simulation of the failure rate."""

import pickle

import numpy as np
import pytest
from scipy import special, stats

from dprepro.stats.bounds import clopper_pearson, modal_mass_low
from dprepro.stats.gdp import epsilon_to_mu, mu_to_epsilon
from dprepro.stats.lower_bound import LowerBound, best_rates, epsilon_lower_bound, pooled_quantiles
from dprepro.stats.tradeoff import epsilon_gdp


def binary_scores(hits, trials):
    return np.repeat([1.0, 0.0], [hits, trials - hits])


# clopper_pearson and log of a separate package; alpha = .05 over both rates, delta = 1e-5, standard conversion.
@pytest.mark.parametrize(
    ("tp", "fp", "trials", "epsilon"),
    [
        (100, 0, 100, 3.281335973268658),
        (1000, 0, 1000, 5.6005774942916355),
        (900, 100, 1000, 1.9896949462833384),
        (399760, 240, 400000, 7.291434807139416),
    ],
)
def test_oracle_values(tp, fp, trials, epsilon):
    inside, outside = binary_scores(tp, trials), binary_scores(fp, trials)
    for threshold in (0.5, 1.0, "same"):
        bound = epsilon_lower_bound(inside, outside, 1e-5, 0.05, threshold)
        assert bound == pytest.approx(epsilon, rel=1e-12)
    assert (bound.tpr, bound.fpr, bound.trials_in, bound.threshold) == (tp / trials, fp / trials, trials, 1.0)


def test_best_rates_are_the_evidence_of_the_bound():
    rng = np.random.default_rng(8)
    inside, outside = rng.normal(1, 1, 500), rng.normal(0, 1, 600)
    rates = best_rates(inside, outside, 0.05, conversion="gdp")
    bound = epsilon_lower_bound(inside, outside, 1e-5, 0.05, "same", "gdp")
    assert (bound.threshold, bound.tpr, bound.fpr, bound.tpr_low, bound.fpr_up) == rates
    assert rates.tpr == np.mean(inside >= rates.threshold)
    assert rates.tpr_low == clopper_pearson(round(rates.tpr * 500), 500, 0.05)[0]
    assert rates.fpr_up == clopper_pearson(round(rates.fpr * 600), 600, 0.05)[1]
    assert best_rates(np.sort(inside), outside[::-1], 0.05, conversion="gdp") == rates


def test_held_out_tests_the_second_halves_only():
    rng = np.random.default_rng(9)
    inside, outside = rng.normal(2, 1, 501), rng.normal(0, 1, 400)
    bound = epsilon_lower_bound(inside, outside, 1e-5, 0.05)
    assert (bound.trials_in, bound.trials_out) == (251, 200)
    again = epsilon_lower_bound(inside[250:], outside[200:], 1e-5, 0.05, bound.threshold)
    assert again == bound
    # Changing the tested halves moves the bound and not the threshold.
    inside[250:] += 1
    assert epsilon_lower_bound(inside, outside, 1e-5, 0.05).threshold == bound.threshold


def test_bound_is_a_float_that_survives_pickling():
    bound = epsilon_lower_bound(binary_scores(90, 100), binary_scores(5, 100), 1e-5, 0.05, 0.5)
    copy = pickle.loads(pickle.dumps(bound))
    assert isinstance(copy, LowerBound)
    assert copy == bound
    assert vars(copy) == vars(bound)
    assert bound + 1 == float(bound) + 1


@pytest.mark.parametrize("conversion", ["standard", "gdp", "kairouz"])
@pytest.mark.parametrize("threshold", ["held_out", "same", 0.5])
def test_finite_and_never_negative(conversion, threshold):
    perfect = epsilon_lower_bound(np.ones(50), np.zeros(60), 1e-5, 0.05, threshold, conversion)
    assert 0 < perfect < np.inf
    reversed_attack = epsilon_lower_bound(np.zeros(50), np.ones(60), 1e-5, 0.05, threshold, conversion)
    constant = epsilon_lower_bound(np.ones(50), np.ones(60), 1e-5, 0.05, threshold, conversion)
    assert reversed_attack == constant == 0
    infinite = epsilon_lower_bound([np.inf] * 50, [-np.inf] * 60, 1e-5, 0.05, threshold, conversion)
    assert infinite == perfect


def test_masses_count_the_rest_against_the_auditor():
    inside, outside = binary_scores(999, 1000), binary_scores(2, 1000)
    plain = epsilon_lower_bound(inside, outside, 1e-5, 0.05, 0.5, "gdp")
    bound = epsilon_lower_bound(inside, outside, 1e-5, 0.05, 0.5, "gdp", mass_in=0.98, mass_out=0.97)
    assert bound.tpr_low == pytest.approx(plain.tpr_low * 0.98)
    assert bound.fpr_up == pytest.approx(plain.fpr_up * 0.97 + 0.03)
    assert bound == epsilon_gdp(bound.tpr_low, bound.fpr_up, 1e-5) < plain
    assert epsilon_lower_bound(inside, outside, 1e-5, 0.05, "same", "kairouz", mass_in=0, mass_out=0) == 0


def failures(threshold, conversion, draw, epsilon, repeats=1500, n=400):
    rng = np.random.default_rng(10)
    return sum(
        epsilon_lower_bound(*draw(rng, n), 1e-5, 0.05, threshold, conversion) > epsilon
        for _ in range(repeats)
    )


def gaussian(rng, n):
    return rng.normal(1.0, 1, n), rng.normal(0, 1, n)


def laplace(rng, n):
    return rng.laplace(1.0, 1, n), rng.laplace(0, 1, n)


def no_signal(rng, n):
    return rng.normal(0, 1, n), rng.normal(0, 1, n)


@pytest.mark.parametrize(
    ("draw", "conversion", "epsilon"),
    [
        (gaussian, "gdp", mu_to_epsilon(1.0, 1e-5)),
        (laplace, "standard", 1.0),
        (laplace, "kairouz", 1.0),
        (no_signal, "standard", 0.0),
        (no_signal, "gdp", 0.0),
    ],
)
def test_failure_rate_of_the_valid_thresholds(draw, conversion, epsilon):
    limit = stats.binom.ppf(0.999, 1500, 0.05)
    for threshold in ("held_out", 1.0):
        assert failures(threshold, conversion, draw, epsilon) <= limit


def test_same_trials_fail_more_often_than_alpha_says():
    epsilon = mu_to_epsilon(1.0, 1e-5)
    observed = failures("same", "gdp", gaussian, epsilon)
    assert observed > stats.binom.ppf(0.999, 1500, 0.05)


def test_failure_rate_with_a_random_clean_output():
    # The clean output is the mode with probability .95; otherwise the attack errs, the worst case for the bound.
    # alpha is shared: .025 for the rates, .0125 for each mass.
    rng, repeats, n, mu, mass = np.random.default_rng(15), 1000, 400, 1.5, 0.95
    tpr, fpr = mass * special.ndtr(mu / 2), mass * special.ndtr(-mu / 2) + 1 - mass
    true_epsilon = epsilon_gdp(tpr, fpr, 1e-5)
    failed = 0
    for _ in range(repeats):
        masses = [modal_mass_low(rng.random(200) < mass, 0.0125)[1] for _ in range(2)]
        inside, outside = rng.normal(mu / 2, 1, n), rng.normal(-mu / 2, 1, n)
        bound = epsilon_lower_bound(
            inside, outside, 1e-5, 0.025, 0.0, "gdp", mass_in=masses[0], mass_out=masses[1]
        )
        failed += bound > true_epsilon
    assert failed <= stats.binom.ppf(0.999, repeats, 0.05)


@pytest.mark.parametrize(("epsilon", "closed_form", "simulated"), [(8, 7.935, 7.80), (16, 15.82, 15.5)])
def test_constant_clean_outputs_cost_little(epsilon, closed_form, simulated):
    # 2,000 equal outputs; the attack's rates known, then estimated from 400,000 draws a side, .0125 for each mass.
    mu = epsilon_to_mu(epsilon, 1e-5)
    mass = modal_mass_low(np.zeros(2000), 0.025)[1]
    known = epsilon_gdp(mass * special.ndtr(mu / 2), mass * special.ndtr(-mu / 2) + 1 - mass, 1e-5)
    assert closed_form <= known < epsilon
    mass = modal_mass_low(np.zeros(2000), 0.0125)[1]
    bounds = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        inside, outside = rng.standard_normal(400_000) + mu, rng.standard_normal(400_000)
        bounds.append(
            epsilon_lower_bound(inside, outside, 1e-5, 0.025, conversion="gdp", mass_in=mass, mass_out=mass)
        )
    assert simulated <= np.mean(bounds) < epsilon


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores_in": []}, "scores_in must be a one-dimensional array of at least 2 values"),
        (
            {"scores_in": [], "threshold": "same"},
            "scores_in must be a one-dimensional array of at least 1 values",
        ),
        ({"scores_out": [1.0]}, "scores_out must be a one-dimensional array of at least 2 values"),
        ({"scores_out": [1.0, np.nan]}, "scores_out must be free of NaN, got 1 of 2"),
        ({"delta": 1}, r"delta must be in \[0, 1\), got 1"),
        ({"delta": 0, "conversion": "gdp"}, r"delta must be in \(0, 1\), got 0"),
        ({"alpha": 0}, r"alpha must be in \(0, 1\), got 0"),
        ({"alpha": 1.5, "threshold": 0.0}, r"alpha must be in \(0, 1\), got 1.5"),
        ({"threshold": "best"}, "threshold must be one of 'held_out', 'same', got 'best'"),
        ({"threshold": np.nan}, r"threshold must be in \[-inf, inf\], got nan"),
        ({"conversion": "rdp"}, "conversion must be one of 'standard', 'gdp', 'kairouz', got 'rdp'"),
        ({"grid": 0}, "grid must be a whole number of at least 1, got 0"),
        ({"mass_in": 1.1}, r"mass_in must be in \[0, 1\], got 1.1"),
        ({"mass_out": -1, "threshold": 0.0}, r"mass_out must be in \[0, 1\], got -1"),
    ],
)
def test_bad_input(arguments, message):
    good = {"scores_in": [1.0, 2.0], "scores_out": [0.0, 1.0], "delta": 1e-5, "alpha": 0.05}
    with pytest.raises(ValueError, match=message):
        epsilon_lower_bound(**{**good, **arguments})


def test_held_out_refuses_sorted_scores():
    rng = np.random.default_rng(11)
    inside, outside = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    for bad in (np.sort(inside), np.sort(inside)[::-1]):
        with pytest.raises(ValueError, match="scores_in must be in the order of the trials"):
            epsilon_lower_bound(bad, outside, 1e-5, 0.05)
    with pytest.raises(ValueError, match="scores_out must be in the order of the trials"):
        epsilon_lower_bound(inside, np.sort(outside), 1e-5, 0.05)
    assert epsilon_lower_bound(np.sort(inside), np.sort(outside), 1e-5, 0.05, 0.5) >= 0


@pytest.mark.parametrize("levels", [5, None])
@pytest.mark.parametrize(
    ("n", "m", "grid"), [(400, 300, 10), (5, 4000, 7), (4000, 3, 9), (1, 1000, 5), (50, 60, 90)]
)
def test_pooled_quantiles_are_those_of_the_merged_scores(n, m, grid, levels):
    rng = np.random.default_rng([n, m, grid])
    inside, outside = (np.sort(rng.normal(shift, 1, size)) for shift, size in ((1.0, n), (0.0, m)))
    if levels:  # many ties within and between the sides
        inside, outside = np.round(inside * levels / 4), np.round(outside * levels / 4)
    merged = np.sort(np.concatenate([inside, outside]))
    expected = merged[np.linspace(0, n + m - 1, grid).astype(int)]
    assert np.array_equal(pooled_quantiles(inside, outside, grid), expected)
