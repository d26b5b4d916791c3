"""Embedding space aggregation: sensitivity, the flaw, ceilings, and the nearest candidate by independent draws."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, kstest, norm

from dprepro.mechanisms.in_context.embedding import (
    EmbeddingSpaceAggregation,
    candidate_embeddings,
    signal_pair,
)
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.gdp import gdp_delta
from dprepro.stats.tradeoff import epsilon_gdp

BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0)


def unit(rng, *shape):
    vectors = rng.standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("partitions", [1, 3, 10])
@pytest.mark.parametrize(("adjacency", "largest"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_sensitivity_is_reached_and_not_passed(partitions, adjacency, largest):
    rng, mechanism = (
        np.random.default_rng(0),
        EmbeddingSpaceAggregation(1.0, partitions=partitions, adjacency=adjacency),
    )
    assert mechanism.sensitivity == largest / partitions
    rest = unit(rng, partitions - 1, 5).sum(axis=0)
    x = unit(rng, 200, 5)
    others = -x if adjacency == "replace-one" else np.zeros_like(x)
    moves = np.linalg.norm((rest + x) / partitions - (rest + others) / partitions, axis=1)
    np.testing.assert_allclose(moves, mechanism.sensitivity, rtol=1e-12)  # the opposite answer reaches it
    if adjacency == "replace-one":
        moves = np.linalg.norm(x - unit(rng, 200, 5), axis=1) / partitions
        assert moves.max() <= mechanism.sensitivity


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (1.419, [0.687, 1.366, 2.705, 5.319, 10.378]),
        (1.254, [0.600, 1.192, 2.353, 4.604, 8.916]),
        (1.214, [0.579, 1.150, 2.269, 4.434, 8.571]),
    ],
)
@pytest.mark.parametrize("partitions", [1, 3])
def test_ceilings_at_the_printed_distances(distance, expected, partitions):
    # Known values; the number of partitions cancels.
    found = [EmbeddingSpaceAggregation(e, partitions=partitions).exact_epsilon(distance) for e in BUDGETS]
    np.testing.assert_allclose(found, expected, atol=5.1e-4)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("partitions", [1, 7])
def test_declared_noise_gives_exactly_the_claim(adjacency, partitions):
    mechanism = EmbeddingSpaceAggregation(3.0, 1e-5, partitions, adjacency)
    assert mechanism.exact_epsilon() == pytest.approx(3.0, rel=1e-9)
    assert gdp_delta(3.0, mechanism.sensitivity / mechanism.sigma) == pytest.approx(1e-5, rel=1e-8)


def test_sensitivity_forgotten_by_half():
    flawed = EmbeddingSpaceAggregation(16.0, assumed_sensitivity=1.0)
    assert flawed.exact_epsilon(1.419) == pytest.approx(25.40, abs=0.005)  # known value
    mu = 2 / 0.344177428496394  # twice the mu of epsilon 16; sigma by mpmath, 60 digits
    exact = flawed.exact_epsilon()
    assert norm.cdf(mu / 2 - exact / mu) - np.exp(exact) * norm.cdf(-mu / 2 - exact / mu) == pytest.approx(
        1e-5, rel=1e-6
    )
    # The same noise is what add/remove asks for: an adjacency mismatch.
    assert flawed.sigma == EmbeddingSpaceAggregation(16.0, adjacency="add-remove").sigma


def test_classical_calibration():
    mechanism = EmbeddingSpaceAggregation(16.0, calibration="classical", partitions=4)
    assert mechanism.sigma == pytest.approx(0.5 * np.sqrt(2 * np.log(1.25e5)) / 16, rel=1e-12)


def test_release_adds_the_declared_noise_to_the_mean():
    rng = np.random.default_rng(1)
    mechanism, answers = EmbeddingSpaceAggregation(8.0, partitions=3), unit(rng, 1, 3, 6)
    released = mechanism.release(np.tile(answers, (20_000, 1, 1)), rng)
    noise = (released - answers[0].mean(axis=0)) / mechanism.sigma
    for coordinate in range(6):
        assert kstest(noise[:, coordinate], norm.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(noise.T) - np.eye(6)).max() < 4.5 / 20_000**0.5


def test_means_and_embeddings_are_the_same_input():
    answers = unit(np.random.default_rng(2), 5, 3, 6)
    mechanism = EmbeddingSpaceAggregation(2.0, partitions=3)
    first = mechanism.release(answers, np.random.default_rng(3))
    second = mechanism.release(answers.mean(axis=1), np.random.default_rng(3))
    np.testing.assert_allclose(first, second, rtol=1e-14)


def test_white_box_score_is_the_log_likelihood_ratio():
    rng = np.random.default_rng(4)
    mechanism, (y_in, y_out) = EmbeddingSpaceAggregation(8.0), signal_pair(1.419, 5)
    released = rng.standard_normal((50, 5))
    ratio = (
        norm.logpdf(released, y_in, mechanism.sigma) - norm.logpdf(released, y_out, mechanism.sigma)
    ).sum(1)
    np.testing.assert_allclose(mechanism.score(released, y_in, y_out, "white"), ratio, rtol=1e-9, atol=1e-12)


def test_white_box_success_against_simulation_and_ceiling():
    mechanism, n = EmbeddingSpaceAggregation(8.0, partitions=3), 40_000
    y_in, y_out = signal_pair(1.419, 4)
    m_in, m_out = (y_in + 2 * y_out) / 3, y_out
    rates = []
    for mean in (m_in, m_out):
        released = mechanism.release(np.tile(mean, (n, 1)), np.random.default_rng(5))
        score = mechanism.score(released, m_in, m_out, "white")
        for threshold in (-0.5, 0.0, 1.0):
            exact = mechanism.success(mean[None, :], m_in, m_out, "white", threshold)[0, 0]
            hits = np.sum(score >= threshold)
            assert binom.ppf(5e-5, n, exact) <= hits <= binom.ppf(1 - 5e-5, n, exact)
        rates.append(exact)
    # Every threshold lies on the trade-off curve of the ceiling.
    assert epsilon_gdp(*rates, 1e-5) == pytest.approx(mechanism.exact_epsilon(1.419), rel=1e-9)


def test_two_candidates_lose_nothing_against_closed_form():
    # Nearest of the two signals themselves: a half-space, so the rates are Phi(+-d/(2 sigma)).
    signals = signal_pair(1.419)
    mechanism = EmbeddingSpaceAggregation(8.0, candidates=signals)
    for row, sign in ((0, 1), (1, -1)):
        share, error = mechanism.winner_probabilities(signals[row], 200_000, np.random.default_rng(6))
        exact = norm.cdf(sign * 1.419 / (2 * mechanism.sigma))
        assert abs(share[0] - exact) < 4 * error[0]
        np.testing.assert_allclose(error, np.sqrt(share * (1 - share) / 200_000), rtol=1e-12)


def test_three_orthogonal_candidates_against_quadrature():
    mechanism = EmbeddingSpaceAggregation(4.0, candidates=np.eye(4)[:3])
    share, error = mechanism.winner_probabilities(np.eye(4)[0], 200_000, np.random.default_rng(7))
    gap = 1 / mechanism.sigma
    exact, _ = quad(lambda x: norm.pdf(x) * norm.cdf(x + gap) ** 2, -10, 10, epsabs=1e-12)
    assert abs(share[0] - exact) < 4 * error[0]
    assert abs(share[1] - (1 - exact) / 2) < 4 * error[1]


@pytest.mark.parametrize("kind", ["paraphrases", "unrelated"])
def test_winners_of_the_release_itself_have_these_probabilities(kind):
    rng, signals, n = np.random.default_rng(8), signal_pair(1.419, 24), 60_000
    candidates = candidate_embeddings(signals, kind, rng, number=12)
    mechanism = EmbeddingSpaceAggregation(8.0, candidates=candidates)
    share, _ = mechanism.winner_probabilities(signals[0], 400_000, rng)
    released = mechanism.release(np.tile(signals[0], (n, 1)), rng)
    cosine = (released / np.linalg.norm(released, axis=1, keepdims=True)) @ candidates.T
    counts = np.bincount(np.argmax(cosine, axis=1), minlength=12)
    assert np.all(np.abs(counts - n * share) < 4.5 * np.sqrt(n * share * (1 - share) * (1 + n / 400_000)))
    side = mechanism.on_canary_side(*signals)
    score = mechanism.score(released, *signals, "black")
    assert score.sum() == counts[side].sum()


def test_candidates_of_the_canary_side():
    signals = signal_pair(1.419)
    for kind, count in (("paraphrases", 50), ("unrelated", 1)):
        candidates = candidate_embeddings(signals, kind, np.random.default_rng(9))
        side = EmbeddingSpaceAggregation(1.0, candidates=candidates).on_canary_side(*signals)
        assert side[0]
        assert not side[1]
        assert side.sum() == count
        np.testing.assert_allclose(np.linalg.norm(candidates, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "epsilon", "expected", "share"),
    [
        # Active black-box audits with 400,000 trials a side, Clopper-Pearson and GDP conversion, computed before
        # on other draws of the candidates: those that are unrelated differ by a tenth from draw to draw.
        ("paraphrases", 1.0, 0.61, 0.05),
        ("paraphrases", 4.0, 2.40, 0.05),
        ("paraphrases", 16.0, 9.15, 0.05),
        ("unrelated", 4.0, 1.55, 0.25),
        ("unrelated", 16.0, 6.41, 0.12),
    ],
)
def test_how_candidates_are_made_decides_what_a_black_box_finds(kind, epsilon, expected, share):
    rng, signals, n = np.random.default_rng(10), signal_pair(1.419), 400_000
    mechanism = EmbeddingSpaceAggregation(epsilon, candidates=candidate_embeddings(signals, kind, rng))
    side = mechanism.on_canary_side(*signals)
    tpr, fpr = (mechanism.winner_probabilities(y, 60_000, rng)[0][side].sum() for y in signals)
    low = clopper_pearson(round(tpr * n), n, 0.05)[0]
    up = clopper_pearson(round(fpr * n), n, 0.05)[1]
    assert float(epsilon_gdp(low, up, 1e-5)) == pytest.approx(expected, rel=share)


def test_ten_partitions_that_agree_hide_the_canary_from_a_black_box():
    rng, signals = np.random.default_rng(11), signal_pair(1.419)
    candidates = candidate_embeddings(signals, "paraphrases", rng)
    for epsilon, flips in ((4.0, True), (8.0, False), (16.0, False)):
        mechanism = EmbeddingSpaceAggregation(epsilon, partitions=10, candidates=candidates)
        mean = (signals[0] + 9 * signals[1]) / 10
        share, _ = mechanism.winner_probabilities(mean, 30_000, rng)
        assert (share[mechanism.on_canary_side(mean, signals[1])].sum() > 1e-3) == flips


@pytest.mark.parametrize("distance", [1e-3, 1.419, 2.0])
def test_signal_pair(distance):
    pair = signal_pair(distance, 7)
    np.testing.assert_allclose(np.linalg.norm(pair, axis=1), 1, rtol=1e-12)
    assert np.linalg.norm(pair[0] - pair[1]) == pytest.approx(distance, rel=1e-12)


def test_equal_means_give_one_score():
    mechanism, y = EmbeddingSpaceAggregation(1.0), signal_pair(1.0, 3)[0]
    assert np.all(mechanism.success(y[None, :], y, y, "white", [-1.0, 0.0, 1.0]) == [[1, 1, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\), got 0"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0"),
        ({"partitions": 0}, "partitions must be a whole number of at least 1, got 0"),
        ({"adjacency": "swap"}, "adjacency must be one of 'replace-one', 'add-remove'"),
        ({"calibration": "exact"}, "calibration must be one of 'analytic', 'classical'"),
        ({"assumed_sensitivity": 0.0}, r"assumed_sensitivity must be in \(0, inf\), got 0"),
        ({"candidates": np.ones((3, 2))}, "candidates must have unit norm, got norm 1.41421"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingSpaceAggregation(**({"epsilon": 1.0} | arguments))


@pytest.mark.parametrize(
    ("partitions", "clean", "message"),
    [
        (1, [[0.6, 0.6]], "embeddings must have unit norm, got norm 0.848528"),
        (2, [[[1.0, 0.0], [0.0, 0.5]]], "embeddings must have unit norm, got norm 0.5"),
        (2, [[1.0, 1.0]], r"norms of mean embeddings must be in \[0, 1.0001\], got 1.41421"),
        (2, np.zeros((1, 3, 2)), r"embeddings must have shape \(n, d\) or \(n, T, d\) with T = 2"),
        (2, np.zeros((1, 0, 2)), r"embeddings must have shape \(n, d\) or \(n, T, d\) with T = 2"),
        (1, [1.0, 0.0], r"embeddings must have shape \(n, d\)"),
        (1, [[np.nan, 1.0]], "embeddings must be finite, got 1 of 2"),
    ],
)
def test_bad_clean_outputs(partitions, clean, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingSpaceAggregation(1.0, partitions=partitions).release(clean, np.random.default_rng(0))


def test_bad_calls():
    mechanism, y = EmbeddingSpaceAggregation(1.0), signal_pair(1.0, 3)
    with pytest.raises(ValueError, match="candidates must be given for a black box, got None"):
        mechanism.score(y, y[0], y[1], "black")
    with pytest.raises(ValueError, match="view must be one of 'white', 'black', got 'grey'"):
        mechanism.score(y, y[0], y[1], "grey")
    with pytest.raises(ValueError, match="view of the closed form must be one of 'white', got 'black'"):
        mechanism.success(y, y[0], y[1], "black", 0.5)
    with pytest.raises(ValueError, match=r"distance must be in \(0, 2\], got 2.5"):
        signal_pair(2.5)
    with pytest.raises(ValueError, match="kind must be one of 'paraphrases', 'unrelated', got 'real'"):
        candidate_embeddings(y, "real", np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"signals must have shape \(2, d\), got \(3, 3\)"):
        candidate_embeddings(np.eye(3), "unrelated", np.random.default_rng(0))
