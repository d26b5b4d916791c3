"""Private voting: sensitivity, calibration, the two views, and closed forms against quadrature and simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, kstest, norm

from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.gdp import mu_to_epsilon

V_IN, V_OUT = np.array([1.0, 2.0]), np.array([0.0, 3.0])


def neighbouring_histograms(adjacency, labels=3, votes=4):
    """All pairs of histograms that differ in one demonstration."""
    grid = np.array(np.meshgrid(*[range(votes + 1)] * labels)).reshape(labels, -1).T
    for row in grid[grid.sum(axis=1) == votes]:
        for gained in range(labels):
            if adjacency == "add-remove":
                yield row, row + np.eye(labels)[gained]
            else:
                for lost in np.flatnonzero(row):
                    yield row, row + np.eye(labels)[gained] - np.eye(labels)[lost]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_sensitivity_is_the_largest_distance_between_neighbours(adjacency):
    distances = [np.linalg.norm(a - b) for a, b in neighbouring_histograms(adjacency)]
    assert max(distances) == pytest.approx(PrivateVoting(1.0, adjacency=adjacency).sensitivity, rel=1e-15)


@pytest.mark.parametrize(
    ("epsilon", "unit_sigma"),
    # analytic Gaussian sigma for sensitivity 1, delta 1e-5: mpmath, 60 digits
    [(1, 3.73063163481594), (4, 1.08116184952024), (16, 0.344177428496394)],
)
def test_noise_scale(epsilon, unit_sigma):
    assert PrivateVoting(epsilon).sigma == pytest.approx(2**0.5 * unit_sigma, rel=1e-10)
    assert PrivateVoting(epsilon, adjacency="add-remove").sigma == pytest.approx(unit_sigma, rel=1e-10)


def test_classical_calibration_under_noises_at_large_epsilon():
    # true epsilon of the classical sigma at delta 1e-5 (dp_accounting): 18.89892887 for a nominal 16
    mechanism = PrivateVoting(16.0, calibration="classical")
    assert mu_to_epsilon(mechanism.sensitivity / mechanism.sigma, 1e-5) == pytest.approx(
        18.89892887, abs=1e-7
    )


def test_release_adds_the_declared_noise():
    mechanism = PrivateVoting(4.0)
    released = mechanism.release(np.tile(V_IN, (20_000, 1)), np.random.default_rng(0))
    for label in range(2):
        assert kstest((released[:, label] - V_IN[label]) / mechanism.sigma, norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(released.T)[0, 1]) < 4 / 20_000**0.5


def test_same_seed_same_release():
    mechanism = PrivateVoting(2.0)
    first, second = (mechanism.release([V_IN], np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("view", ["white", "black"])
@pytest.mark.parametrize("votes", [V_IN, V_OUT, np.array([2.0, 1.0])])
def test_success_probability_against_simulation(view, votes):
    mechanism, n = PrivateVoting(4.0), 40_000
    scores = mechanism.score(
        mechanism.release(np.tile(votes, (n, 1)), np.random.default_rng(5)), V_IN, V_OUT, view
    )
    for threshold in (-0.5, 0.5, 1.0, 1.5):
        exact = mechanism.success(votes[None, :], V_IN, V_OUT, view, threshold)[0, 0]
        hits = np.sum(scores >= threshold)
        assert binom.ppf(5e-5, n, exact) <= hits <= binom.ppf(1 - 5e-5, n, exact)


def test_white_box_score_is_the_log_likelihood_ratio():
    mechanism = PrivateVoting(8.0)
    released = np.random.default_rng(1).normal(size=(50, 2)) * 3
    ratio = (
        norm.logpdf(released, V_IN, mechanism.sigma) - norm.logpdf(released, V_OUT, mechanism.sigma)
    ).sum(axis=1)
    np.testing.assert_allclose(mechanism.score(released, V_IN, V_OUT, "white"), ratio, rtol=1e-12)


def test_black_box_of_two_labels_loses_nothing():
    # The winner's rates lie on the trade-off curve of the Gaussian mechanism: the same mu as the white box.
    mechanism = PrivateVoting(4.0)
    tpr = mechanism.win_probability([V_IN], 0)[0]
    fpr = mechanism.win_probability([V_OUT], 0)[0]
    assert norm.ppf(tpr) - norm.ppf(fpr) == pytest.approx(mechanism.sensitivity / mechanism.sigma, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0])
def test_winner_among_many_labels_against_quadrature(epsilon):
    mechanism, votes = PrivateVoting(epsilon), np.array([3.0, 1.0, 2.0, 4.0])
    wins = [mechanism.win_probability([votes], label)[0] for label in range(4)]
    for label in range(4):
        gaps = (votes[label] - np.delete(votes, label)) / mechanism.sigma
        exact, _ = quad(
            lambda x, g=gaps: norm.pdf(x) * np.prod(norm.cdf(g + x)), -12, 12, epsabs=1e-13, limit=200
        )
        assert wins[label] == pytest.approx(exact, abs=1e-9)
    assert sum(wins) == pytest.approx(1, abs=1e-9)


def test_equal_histograms_give_one_score():
    mechanism = PrivateVoting(1.0)
    assert np.all(mechanism.success(V_IN[None, :], V_IN, V_IN, "white", [-1.0, 0.0, 1.0]) == [[1, 1, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\), got 0"),
        ({"epsilon": -1.0}, r"epsilon must be in \(0, inf\), got -1"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta must be in \(0, 1\), got 1"),
        ({"epsilon": 1.0, "adjacency": "swap"}, "adjacency must be one of 'replace-one', 'add-remove'"),
        ({"epsilon": 1.0, "calibration": "exact"}, "calibration must be one of 'analytic', 'classical'"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrivateVoting(**arguments)


@pytest.mark.parametrize("votes", [[[1.0]], [[1.0, -1.0]], [[np.nan, 1.0]], np.zeros((2, 2, 2))])
def test_bad_histograms(votes):
    with pytest.raises(ValueError, match="votes must"):
        PrivateVoting(1.0).release(votes, np.random.default_rng(0))


def test_unknown_view():
    with pytest.raises(ValueError, match="view must be one of 'white', 'black', got 'grey'"):
        PrivateVoting(1.0).score(np.zeros((1, 2)), V_IN, V_OUT, "grey")
