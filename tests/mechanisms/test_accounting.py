"""Accounts of DP-SGD: values of other packages' releases, degenerate answers, and a search that keeps its budget."""

import math
import subprocess
import sys
import time
import warnings

import mpmath
import numpy as np
import pytest

from dprepro.mechanisms.accounting import ACCOUNTANTS, dp_sgd_epsilon, noise_multiplier_for

# (noise_multiplier, sample_rate, steps) -> epsilon at delta 1e-5, by dp_accounting 0.6.0: RDP, PLD
KNOWN = [
    ((1.0, 0.01, 1000), 2.101366525, 1.828243646),
    ((2.0, 0.01, 1000), 0.6861853363, 0.6220485251),
    ((1.1, 256 / 60000, 14062), 2.596555870, 2.381686002),
    ((1.0, 1.0, 1), 4.728507067, 4.377178100),
    ((0.5, 0.02, 250), 15.429799, 13.249944),
    ((1.0, 0.02, 250), 2.401848, 2.032361),
    ((2.0, 0.02, 250), 0.713108, 0.642554),
]


@pytest.mark.parametrize(("run", "rdp", "pld"), KNOWN)
def test_known_accounts(run, rdp, pld):
    assert dp_sgd_epsilon(*run, 1e-5, "rdp") == pytest.approx(rdp, rel=1e-6)
    assert dp_sgd_epsilon(*run, 1e-5) == pytest.approx(pld, rel=1e-6)


@pytest.mark.parametrize(("run", "rdp", "pld"), KNOWN)
def test_known_accounts_with_prv(run, rdp, pld):
    pytest.importorskip("opacus")
    # Opacus adds 0.01 to its estimate, and rounds its own way.
    assert dp_sgd_epsilon(*run, 1e-5, "prv") == pytest.approx(pld + 0.01, abs=0.002)


def gaussian_delta(mu, epsilon):
    """Of the Gaussian mechanism: Balle and Wang (2018), Theorem 8, in many digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(
            mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
        )


@pytest.mark.parametrize(("sigma", "steps"), [(0.5, 5000), (4, 5000), (1.0, 1), (0.5 / 2**0.5, 10), (30, 7)])
def test_full_participation_is_one_gaussian_mechanism(sigma, steps):
    epsilon = dp_sgd_epsilon(sigma, 1, steps, 1e-5)
    assert gaussian_delta(math.sqrt(steps) / sigma, epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert dp_sgd_epsilon(sigma, 1, steps, 1e-5, "rdp") >= epsilon


def test_the_course_lesson_in_both_readings():
    full = [dp_sgd_epsilon(sigma, 1, 5000, 1e-5) for sigma in (0.5, 1, 2, 4)]
    epoch = [dp_sgd_epsilon(sigma / 2**0.5, 1, 10, 1e-5) for sigma in (0.5, 1, 2, 4)]
    assert [round(value) for value in full] == [10602, 2801, 775, 231]
    assert [round(value, 1) for value in epoch] == [77.3, 28.4, 11.5, 5.0]


@pytest.mark.parametrize(("sigma", "rate"), [(1.5, 0.9), (2.0, 0.5), (5.0, 0.1)])
def test_one_sampled_step_has_a_closed_form(sigma, rate):
    # The mixture (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), in both directions.
    epsilon = dp_sgd_epsilon(sigma, rate, 1, 1e-5)
    assert epsilon > 0
    remove = rate * gaussian_delta(1 / sigma, math.log1p(math.expm1(epsilon) / rate))
    grid = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    base, moved = (np.exp(-((grid - shift) ** 2) / (2 * sigma**2)) for shift in (0, 1))
    add = np.maximum(base - math.exp(epsilon) * ((1 - rate) * base + rate * moved), 0).sum()
    add *= (grid[1] - grid[0]) / (sigma * math.sqrt(2 * math.pi))
    assert max(remove, add) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_degenerate_runs(accountant):
    assert dp_sgd_epsilon(1, 0, 1000, 1e-5, accountant) == 0
    assert dp_sgd_epsilon(1, 0.01, 0, 1e-5, accountant) == 0
    assert dp_sgd_epsilon(0, 0, 1000, 1e-5, accountant) == 0
    assert dp_sgd_epsilon(np.inf, 1, 1000, 1e-5, accountant) == 0
    assert dp_sgd_epsilon(0, 0.01, 1000, 1e-5, accountant) == np.inf
    assert dp_sgd_epsilon(1e-300, 0.01, 1000, 1e-5, accountant) == np.inf
    assert noise_multiplier_for(np.inf, 0.01, 1000, 1e-5, accountant) == 0
    assert noise_multiplier_for(1, 0, 1000, 1e-5, accountant) == 0
    assert noise_multiplier_for(1, 0.01, 0, 1e-5, accountant) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": -1}, r"noise_multiplier must be in \[0, inf\], got -1"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be in"),
        ({"noise_multiplier": "one"}, "noise_multiplier must be a number"),
        ({"sample_rate": 1.5}, r"sample_rate must be in \[0, 1\], got 1.5"),
        ({"sample_rate": -0.1}, r"sample_rate must be in \[0, 1\], got -0.1"),
        ({"steps": 2.5}, "steps must be a whole number of at least 0, got 2.5"),
        ({"steps": -1}, "steps must be a whole number"),
        ({"delta": 0}, r"delta must be in \(0, 1\), got 0"),
        ({"delta": 1}, r"delta must be in \(0, 1\), got 1"),
        ({"accountant": "moments"}, "accountant must be one of 'rdp', 'pld', 'prv', got 'moments'"),
        ({"accountant": "gdp"}, "comes out too small"),
        ({"records": 0}, "records must be a whole number"),
    ],
)
def test_bad_arguments(change, message):
    run = {"noise_multiplier": 1, "sample_rate": 0.01, "steps": 10, "delta": 1e-5} | change
    with pytest.raises(ValueError, match=message):
        dp_sgd_epsilon(**run)
    if "noise_multiplier" not in change:
        run.pop("noise_multiplier")
        with pytest.raises(ValueError, match=message):
            noise_multiplier_for(1.0, **run)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan])
def test_a_budget_is_positive(epsilon):
    with pytest.raises(ValueError, match="epsilon must be in \\(0, inf\\]"):
        noise_multiplier_for(epsilon, 0.01, 100, 1e-5)


def test_the_central_limit_account_would_be_too_small():
    # Bu et al. (2020): mu = q sqrt(T (exp(1/sigma^2) - 1)). It claims more privacy than the exact account has.
    mu = 0.02 * math.sqrt(250 * math.expm1(1 / 0.5**2))
    assert gaussian_delta(mu, 13.249944) < 1e-5  # the last but two of KNOWN


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 3, 1000])
@pytest.mark.parametrize(("rate", "steps"), [(0.02, 5000), (1, 1), (1, 1000)])
def test_the_search_keeps_its_budget_and_is_close(accountant, epsilon, rate, steps):
    sigma = noise_multiplier_for(epsilon, rate, steps, 1e-5, accountant)
    assert dp_sgd_epsilon(sigma, rate, steps, 1e-5, accountant) <= epsilon
    if epsilon >= 0.01:
        assert dp_sgd_epsilon(0.97 * sigma, rate, steps, 1e-5, accountant) > epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.parametrize(("rate", "steps"), [(0.02, 250), (1, 10)])
def test_the_search_keeps_its_budget_with_prv(epsilon, rate, steps):
    pytest.importorskip("opacus")
    sigma = noise_multiplier_for(epsilon, rate, steps, 1e-5, "prv")
    assert dp_sgd_epsilon(sigma, rate, steps, 1e-5, "prv") <= epsilon
    assert dp_sgd_epsilon(0.97 * sigma, rate, steps, 1e-5, "prv") > epsilon


def test_prv_says_what_it_cannot_do():
    pytest.importorskip("opacus")
    with pytest.raises(ValueError, match="epsilon must be above 0.02 for accountant 'prv'"):
        noise_multiplier_for(1e-6, 0.02, 250, 1e-5, "prv")
    with pytest.raises(ValueError, match="accountant 'prv' needs .* cells"):
        dp_sgd_epsilon(0.05, 0.02, 250, 1e-5, "prv")


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("epsilon", [1000, 1e-6])
def test_extreme_budgets_end_soon(accountant, epsilon):
    if accountant == "prv":
        pytest.importorskip("opacus")
    dp_sgd_epsilon(9, 0.02, 10, 1e-5, accountant)  # imports
    start = time.process_time()
    if accountant == "prv":
        with pytest.raises(ValueError, match="'pld'"):
            noise_multiplier_for(epsilon, 0.02, 250, 1e-5, accountant)
    else:
        sigma = noise_multiplier_for(epsilon, 0.02, 250, 1e-5, accountant)
    assert time.process_time() - start < 2.5  # half a second where nothing else runs
    assert accountant == "prv" or dp_sgd_epsilon(sigma, 0.02, 250, 1e-5, accountant) <= epsilon


def test_little_noise_takes_little_memory():
    # In a process of its own, so that its peak is its own; the package's default grid would take 5 GB.
    code = (
        "import resource; from dprepro.mechanisms.accounting import dp_sgd_epsilon as f; f(9, .5, 1, 1e-5);"
        "a = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; f(.05, .02, 250, 1e-5);"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - a) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 600


def test_more_noise_fewer_steps_less_sampling_cost_less():
    base = dp_sgd_epsilon(3, 0.1, 100, 1e-5)
    assert dp_sgd_epsilon(3.1, 0.1, 100, 1e-5) < base
    assert dp_sgd_epsilon(3, 0.09, 100, 1e-5) < base
    assert dp_sgd_epsilon(3, 0.1, 90, 1e-5) < base
    assert dp_sgd_epsilon(3, 0.1, 100, 1e-4) < base
    assert base < dp_sgd_epsilon(3, 1, 100, 1e-5)


def test_a_delta_that_promises_nothing_is_warned_of():
    with pytest.warns(UserWarning, match="delta = 0.01 is at least 1/100"):
        dp_sgd_epsilon(1, 1, 1, 0.01, records=100)
    with pytest.warns(UserWarning, match="at least 1/100"):
        noise_multiplier_for(1, 1, 1, 0.01, records=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp_sgd_epsilon(1, 1, 1, 0.0099, records=100)
        dp_sgd_epsilon(1, 1, 1, 0.9)  # the size is not known
        dp_sgd_epsilon(0.5, 0.02, 250, 1e-5, "rdp")  # the packages' own reports are kept off


def test_it_imports_and_accounts_without_torch():
    code = (
        "import sys; from dprepro.mechanisms.accounting import *;"
        "dp_sgd_epsilon(3, .5, 2, 1e-5, 'rdp'), noise_multiplier_for(.1, .5, 2, 1e-5);"
        "print(sorted({'torch', 'opacus'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
