"""Nearest candidates by conditional simulation: against counted winners, closed forms and known reports."""

import numpy as np
import pytest
from scipy.special import ndtr

from dprepro.audits.snapshot_candidates import (
    black_box_report,
    candidate_rates,
    expected_report,
    nearest_rates,
)
from dprepro.audits.snapshot_expectation import black_box_moments
from dprepro.mechanisms.in_context.embedding import (
    EmbeddingSpaceAggregation,
    candidate_embeddings,
    signal_pair,
)


@pytest.mark.parametrize(("kind", "number"), [("paraphrases", 20), ("unrelated", 12)])
@pytest.mark.parametrize("epsilon", [2.0, 16.0])
def test_rates_against_counted_winners(kind, number, epsilon):
    rng, signals, n = np.random.default_rng(0), signal_pair(1.3, 30), 100_000
    candidates = candidate_embeddings(signals, kind, rng, number=number)
    mechanism = EmbeddingSpaceAggregation(epsilon, candidates=candidates)
    side = mechanism.on_canary_side(*signals)
    found = nearest_rates(mechanism, *signals, 20_000, rng)
    for clean, rates in zip(signals, found, strict=True):
        counted = mechanism.winner_probabilities(clean, n, rng)[0][side].sum()
        error = np.hypot(rates.std() / 20_000**0.5, np.sqrt(counted * (1 - counted) / n))
        assert abs(rates.mean() - counted) < 4 * error + 1e-5


def test_means_of_several_partitions():
    # Two partitions answer otherwise: the two means are not placed evenly around the origin.
    rng, n = np.random.default_rng(1), 100_000
    signals = signal_pair(1.4, 10)
    candidates = candidate_embeddings(signals, "paraphrases", rng, number=16)
    mechanism = EmbeddingSpaceAggregation(6.0, partitions=3, candidates=candidates)
    means = (signals[0] + 2 * signals[1]) / 3, signals[1]
    side = mechanism.on_canary_side(*means)
    for clean, rates in zip(means, nearest_rates(mechanism, *means, 20_000, rng), strict=True):
        counted = mechanism.winner_probabilities(clean, n, rng)[0][side].sum()
        error = np.hypot(rates.std() / 20_000**0.5, np.sqrt(counted * (1 - counted) / n))
        assert abs(rates.mean() - counted) < 4 * error


def test_two_candidates_are_a_half_space():
    signals = signal_pair(1.419)
    mechanism = EmbeddingSpaceAggregation(8.0, candidates=signals)
    found = nearest_rates(mechanism, *signals, 5, np.random.default_rng(2))
    exact = ndtr(np.array([1, -1]) * 1.419 / (2 * mechanism.sigma))
    np.testing.assert_allclose(found, np.tile(exact, (5, 1)).T, rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "epsilon", "expected", "share"),
    # Counted before on other draws of the candidates; unrelated ones differ by a tenth from draw to draw.
    [
        ("paraphrases", 1.0, 0.61, 0.05),
        ("paraphrases", 4.0, 2.40, 0.03),
        ("paraphrases", 16.0, 9.15, 0.03),
        ("unrelated", 4.0, 1.55, 0.15),
        ("unrelated", 16.0, 6.41, 0.12),
    ],
)
def test_known_reports(kind, epsilon, expected, share):
    rates = candidate_rates(1.419, epsilon, np.random.default_rng(3), sets=4, draws=2_000, kind=kind)
    mean, error = black_box_report(rates, 400_000)
    assert mean == pytest.approx(expected, rel=share)
    assert 0 < error < (0.02 if kind == "paraphrases" else 0.15) * expected


@pytest.mark.parametrize(("tpr", "fpr"), [(0.53, 0.47), (0.9, 0.004), (0.97, 0.0004), (0.5, 2e-6)])
def test_expected_report_against_the_exact_sum(tpr, fpr):
    exact, _ = black_box_moments(tpr, fpr, 400_000, delta=1e-5)
    assert expected_report(tpr, fpr, 400_000) == pytest.approx(exact, abs=1e-3)
    assert expected_report(tpr, fpr, 2_000) == black_box_moments(tpr, fpr, 2_000, delta=1e-5)[0]


def test_error_is_that_between_independent_repetitions():
    found = np.array(
        [
            black_box_report(candidate_rates(1.3, 4.0, np.random.default_rng(seed), sets=4, draws=100), 2_000)
            for seed in range(30)
        ]
    )
    # The sample sd of 30 has a relative error of 13 %, the mean square of 30 errors of 3 degrees 15 %.
    ratio = found[:, 0].std(ddof=1) / np.sqrt(np.mean(found[:, 1] ** 2))
    assert 0.55 < ratio < 1.7


def test_more_trials_report_more():
    rates = candidate_rates(1.3, 4.0, np.random.default_rng(4), sets=2, draws=500)
    few, many = (black_box_report(rates, n)[0] for n in (2_000, 400_000))
    assert few < many < EmbeddingSpaceAggregation(4.0).exact_epsilon(1.3)


def test_bad_input():
    signals, rng = signal_pair(1.0, 3), np.random.default_rng(0)
    with pytest.raises(ValueError, match="candidates must be given for a black box, got None"):
        nearest_rates(EmbeddingSpaceAggregation(1.0), *signals, 5, rng)
    mechanism = EmbeddingSpaceAggregation(1.0, candidates=signals)
    with pytest.raises(ValueError, match="clean_in and clean_out must differ"):
        nearest_rates(mechanism, signals[0], signals[0], 5, rng)
    with pytest.raises(ValueError, match="candidates must include some that do not speak for the canary"):
        nearest_rates(EmbeddingSpaceAggregation(1.0, candidates=signals[:1]), *signals, 5, rng)
    away = np.array([[0.0, -1.0, 0.0], [0.6, -0.8, 0.0]])
    with pytest.raises(ValueError, match="include some that speak for the canary, got none of 2"):
        nearest_rates(EmbeddingSpaceAggregation(1.0, candidates=away), *signals, 5, rng)
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1, got 0"):
        nearest_rates(mechanism, *signals, 0, rng)
    with pytest.raises(ValueError, match="sets must be a whole number of at least 2, got 1"):
        candidate_rates(1.0, 1.0, rng, sets=1, draws=5)
    with pytest.raises(ValueError, match=r"rates must be in \[0, 1\], got 1.5"):
        black_box_report([[0.5, 1.5], [0.1, 0.1]], 10)
