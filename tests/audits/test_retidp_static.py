"""One test of one event: exact power against loops over all counts, its level, and the sizes found."""

from math import exp

import pytest
from scipy.stats import binom, norm

from dprepro.audits import retidp_static as static
from dprepro.audits.retidp_scenarios import SCENARIOS
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.score_law import score_law


def looped_power(rates, n, epsilon, alpha):
    power = 0.0
    for x in range(n + 1):
        low = clopper_pearson(x, n, alpha)[0]
        for y in range(n + 1):
            if low > exp(epsilon) * clopper_pearson(y, n, alpha)[1]:
                power += binom.pmf(x, n, rates[0]) * binom.pmf(y, n, rates[1])
    return power


@pytest.mark.parametrize("rates", [(0.6, 0.05), (0.9, 0.1), (1.0, 0.0), (0.3, 0.0), (0.2, 0.3)])
def test_power_equals_that_of_a_double_loop(rates):
    assert static.one_shot_power(rates, 30, 1.0, 0.05) == pytest.approx(
        looped_power(rates, 30, 1.0, 0.05), abs=1e-9
    )


@pytest.mark.parametrize("b", [0.001, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("n", [50, 750, 20_000])
def test_level_at_the_boundary(b, n):
    assert static.one_shot_power((exp(1) * b, b), n, 1.0, 0.05) <= 0.05


@pytest.mark.parametrize("scenario", ["a", "c", "e"])
def test_the_size_has_the_power_and_one_output_less_has_not(scenario):
    rates = SCENARIOS[scenario].probabilities()[1]
    n = static.one_shot_size(rates, 1.0, 0.05, 0.95)
    assert static.one_shot_power(rates, n, 1.0, 0.05) >= 0.95 > static.one_shot_power(rates, n - 1, 1.0, 0.05)


def test_the_normal_formula_gives_the_power_of_the_z_test():
    rates = SCENARIOS["b"].probabilities()[1]
    n = round(static.normal_size(rates, 1.0, 0.05, 0.9))
    score, chance = score_law(rates, n, 1.0)
    assert chance[score >= norm.isf(0.05)].sum() == pytest.approx(0.9, abs=0.006)


@pytest.mark.parametrize("size", [static.one_shot_size, static.normal_size])
def test_rates_that_keep_the_claim_have_no_size(size):
    with pytest.raises(ValueError, match="rates must break the claim"):
        size((exp(1) * 0.1, 0.1), 1.0, 0.05, 0.95)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1.2, 0.1), 10, 1.0, 0.05), "rates must be in"),
        (((0.2, 0.1), 0, 1.0, 0.05), "n must be a whole number"),
        (((0.2, 0.1), 10, -1.0, 0.05), "epsilon must be in"),
        (((0.2, 0.1), 10, 1.0, 0.0), "alpha must be in"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        static.one_shot_power(*arguments)


@pytest.mark.parametrize("size", [static.one_shot_size, static.normal_size])
def test_a_power_outside_its_domain_is_named(size):
    with pytest.raises(ValueError, match="power must be in"):
        size((0.6, 0.1), 1.0, 0.05, 1.0)
