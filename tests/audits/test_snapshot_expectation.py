"""Expected reports of an audit: exact sums against enumeration and simulation, shared noise, printed values."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from dprepro.audits.snapshot import Snapshot, active_audit, passive_audit
from dprepro.audits.snapshot_expectation import black_box_moments, sorted_uniforms, white_box_runs
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.gdp import epsilon_to_mu, mu_to_epsilon

DELTA = 1e-5
V_IN, V_OUT = np.array([1.0, 2.0]), np.array([0.0, 3.0])


def enumerated(tpr, fpr, n, conversion):
    """Both moments by a plain double loop over all counts."""
    first = second = 0.0
    for a in range(n + 1):
        for b in range(n + 1):
            low, up = clopper_pearson(a, n, 0.05)[0], clopper_pearson(b, n, 0.05)[1]
            if conversion == "gdp":
                mu = max(0.0, float(ndtri(low) - ndtri(up)))
                epsilon = float(mu_to_epsilon(mu, DELTA)) if np.isfinite(mu) else 0.0
            else:
                epsilon = max(0.0, np.log((low - DELTA) / up)) if low > DELTA else 0.0
            weight = binom.pmf(a, n, tpr) * binom.pmf(b, n, fpr)
            first += weight * epsilon
            second += weight * epsilon**2
    return first, np.sqrt(second - first**2)


@pytest.mark.parametrize("conversion", ["gdp", "standard"])
@pytest.mark.parametrize(("tpr", "fpr"), [(0.8, 0.1), (0.3, 0.3), (1.0, 0.0), (0.0, 1.0)])
def test_moments_by_enumeration(tpr, fpr, conversion):
    mean, sd = black_box_moments(tpr, fpr, 20, delta=DELTA, conversion=conversion)
    exact_mean, exact_sd = enumerated(tpr, fpr, 20, conversion)
    assert mean == pytest.approx(exact_mean, abs=1e-6)
    assert sd == pytest.approx(exact_sd, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "trials", "expected"),
    # Means of a separate computation, two to three digits.
    [
        (1, 400_000, 0.97),
        (2, 400_000, 1.96),
        (4, 400_000, 3.95),
        (8, 400_000, 7.89),
        (1, 2_000, 0.552),
        (2, 2_000, 1.487),
        (4, 2_000, 3.328),
        (8, 2_000, 6.559),
        (16, 2_000, 6.295),
    ],
)
def test_black_box_voting(epsilon, trials, expected):
    mechanism = PrivateVoting(float(epsilon))
    tpr, fpr = mechanism.win_probability([V_IN, V_OUT], 0)
    mean, _ = black_box_moments(tpr, fpr, trials, delta=DELTA)
    assert mean == pytest.approx(expected, abs=0.006 if trials > 2000 else 6e-4)


def test_moments_against_simulation_with_rare_events():
    # epsilon 16: the expected number of false positives is 2.6, so the distribution is far from normal.
    n = 400_000
    tpr, fpr = PrivateVoting(16.0).win_probability([V_IN, V_OUT], 0)
    rng = np.random.default_rng(0)
    low = clopper_pearson(rng.binomial(n, tpr, 20_000), n, 0.05)[0]
    up = clopper_pearson(rng.binomial(n, fpr, 20_000), n, 0.05)[1]
    runs = mu_to_epsilon(ndtri(low) - ndtri(up), DELTA)
    mean, sd = black_box_moments(tpr, fpr, n, delta=DELTA)
    assert abs(runs.mean() - mean) < 4 * sd / len(runs) ** 0.5
    assert runs.std() == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize("choice", ["same", "held_out"])
def test_white_box_runs_agree_with_audits_of_the_mechanism(choice):
    # The audit draws from release() and scores it; the runs draw standardised scores. Means must agree.
    mechanism, n, repeats = PrivateVoting(4.0), 500, 400
    snapshot = Snapshot(np.tile(V_IN, (n, 1)), np.tile(V_OUT, (n, 1)))
    recipe = "inferred" if choice == "same" else "valid"
    rng = np.random.default_rng(1)
    audits = np.array(
        [passive_audit(snapshot, mechanism, recipe=recipe, rng=rng).epsilon for _ in range(repeats)]
    )
    mu = mechanism.sensitivity / mechanism.sigma
    grid = 2000 if choice == "same" else None
    runs = white_box_runs(mu, n, repeats, np.random.default_rng(2), delta=DELTA, choice=choice, grid=grid)[
        :, 0
    ]
    error = np.hypot(audits.std(), runs.std()) / repeats**0.5
    assert abs(audits.mean() - runs.mean()) < 4 * error
    assert audits.std() == pytest.approx(runs.std(), rel=0.25)


def test_large_sample_approaches_the_exact_epsilon():
    mu = np.array([epsilon_to_mu(e, DELTA) for e in (1.0, 4.0)])
    runs = white_box_runs(mu, 200_000, 3, np.random.default_rng(0), delta=DELTA, grid=2000)
    assert np.all(np.abs(runs.mean(axis=0) - [1, 4]) < 0.06)


def test_a_repeat_does_not_depend_on_how_many_there_are():
    few = white_box_runs([1.0, 2.0], 100, 3, np.random.default_rng(5), delta=DELTA)
    many = white_box_runs([1.0, 2.0], 100, 8, np.random.default_rng(5), delta=DELTA)
    np.testing.assert_allclose(few, many[:3], rtol=1e-12)


def test_sorted_uniforms_are_order_statistics():
    rng, draws = np.random.default_rng(3), 20_000
    found = ndtri([sorted_uniforms(3, rng) for _ in range(draws)])
    assert (np.diff(found) > 0).all()
    # Of three, the largest has mean 3/(2 sqrt(pi)); the whole has mean 0 and variance 1 each.
    top, square = 1.5 / np.sqrt(np.pi), 1 + np.sqrt(3) / (2 * np.pi)
    # Four standard errors: each factor is the standard deviation of what is averaged, or a little more.
    error = 4 / np.sqrt(draws)
    assert found.mean(axis=0) == pytest.approx([-top, 0, top], abs=error * 0.75)
    assert (found[:, 2] ** 2).mean() == pytest.approx(square, abs=error * 1.61)
    assert (found**2).mean() == pytest.approx(1, abs=error * 0.9)
    assert found.sum(axis=1).var() == pytest.approx(3, abs=error * 3 * 2**0.5)


def test_noise_is_shared_along_a_row():
    runs = white_box_runs([1.0, 1.1], 300, 300, np.random.default_rng(6), delta=DELTA, grid=200)
    assert np.corrcoef(runs.T)[0, 1] > 0.8


def test_inferred_recipe_in_code_mode_is_the_simulated_one():
    snapshot = Snapshot(np.tile(V_IN, (100, 1)), np.tile(V_OUT, (100, 1)))
    mechanism = PrivateVoting(4.0)
    audit = active_audit(
        snapshot, mechanism, recipe="inferred", n_sample=50_000, rng=np.random.default_rng(0)
    )
    mu = mechanism.sensitivity / mechanism.sigma
    runs = white_box_runs(mu, 50_000, 20, np.random.default_rng(1), delta=DELTA, grid=2000)
    assert abs(audit.epsilon - runs.mean()) < 5 * runs.std(ddof=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: black_box_moments(1.2, 0.1, 10, delta=DELTA), r"tpr must be in \[0, 1\], got 1.2"),
        (lambda: black_box_moments(0.2, -0.1, 10, delta=DELTA), r"fpr must be in \[0, 1\], got -0.1"),
        (lambda: black_box_moments(0.2, 0.1, 0, delta=DELTA), "trials must be a whole number of at least 1"),
        (
            lambda: black_box_moments(0.2, 0.1, 10, delta=DELTA, conversion="kairouz"),
            "conversion must be one of 'gdp', 'standard'",
        ),
        (lambda: white_box_runs(-1.0, 10, 1, np.random.default_rng(0), delta=DELTA), "mu must be in"),
        (
            lambda: white_box_runs(1.0, 1, 1, np.random.default_rng(0), delta=DELTA),
            "trials must be a whole number",
        ),
        (lambda: white_box_runs(1.0, 10, 0, np.random.default_rng(0), delta=DELTA), "repeats must be"),
        (
            lambda: white_box_runs(1.0, 10, 1, np.random.default_rng(0), delta=DELTA, choice="best"),
            "choice must be one of 'same', 'held_out'",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
