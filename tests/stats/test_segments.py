"""Oracles: the recursion of Adams and MacKay by plain loops with scipy's beta-binomial, and planted changes."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from dprepro.stats.segments import FIRST_RATES, FIRST_WEIGHT, KEPT, STRENGTH, Segments


def taken_over(a, b, most):
    """What a new segment assumes: rates a and b, worth STRENGTH of the rarer outcome and at most `most` outputs."""
    size_x, size_y = min(STRENGTH / min(a, 1 - a), most), min(STRENGTH / min(b, 1 - b), most)
    return [size_x * a, size_x * (1 - a), size_y * b, size_y * (1 - b)]


def naive_posterior(counts, ratio, delta, hazard):
    """(weight, start, beta) of every segment, none forgotten."""
    weights, starts, betas = [1 - FIRST_WEIGHT], [1], [[0.5] * 4]
    for rate in FIRST_RATES:
        b = rate * (1 - delta) / ratio
        weights.append(FIRST_WEIGHT / len(FIRST_RATES))
        starts.append(1)
        betas.append(taken_over(ratio * b + delta, b, math.inf))
    for step, (x, y, n) in enumerate(counts, start=1):
        for i, beta in enumerate(betas):
            weights[i] *= stats.betabinom.pmf(x, n, *beta[:2]) * stats.betabinom.pmf(y, n, *beta[2:])
            betas[i] = [beta[0] + x, beta[1] + n - x, beta[2] + y, beta[3] + n - y]
        weights = [w / sum(weights) for w in weights]
        a = sum(w * beta[0] / (beta[0] + beta[1]) for w, beta in zip(weights, betas, strict=True))
        b = sum(w * beta[2] / (beta[2] + beta[3]) for w, beta in zip(weights, betas, strict=True))
        weights = [w * (1 - hazard) for w in weights] + [hazard]
        starts.append(step + 1)
        betas.append(taken_over(a, b, n))
    return np.array(weights), np.array(starts), np.array(betas).T


def learnt(counts, ratio=math.e, delta=0.0, hazard=0.01):
    """Segments after counts of shape (steps, streams, 3)."""
    segments = Segments.first(counts.shape[1], ratio, delta)
    for step, now in enumerate(counts, start=1):
        segments.learn(step, *now.T, hazard)
    return segments


def drawn(rng, rates, n):
    """Counts of the steps, shape (steps, 1, 3), one pair of rates a step."""
    return np.array([[(rng.binomial(n, a), rng.binomial(n, b), n)] for a, b in rates])


@pytest.mark.parametrize(
    ("ratio", "delta", "n"), [(math.e, 0, 20), (1, 0.1, 1), (math.e, 1e-5, 300), (50, 0.5, 20)]
)
def test_posterior_agrees_with_plain_loops(ratio, delta, n):
    rng = np.random.default_rng(4)
    counts = np.concatenate([drawn(rng, [(0.4, 0.1)] * 6 + [(0.7, 0.02)] * 6, n) for _ in range(3)], axis=1)
    segments = learnt(counts, ratio, delta, hazard=0.03)
    for stream in range(3):
        weights, starts, beta = naive_posterior(counts[:, stream], ratio, delta, hazard=0.03)
        np.testing.assert_allclose(
            np.exp(segments.log_weight[stream]), np.maximum(weights, 1e-300), rtol=1e-7
        )
        np.testing.assert_array_equal(segments.start[stream], starts)
        np.testing.assert_allclose(segments.beta[:, stream], beta, rtol=1e-9)


def test_only_the_least_likely_are_forgotten():
    rng = np.random.default_rng(5)
    counts = drawn(rng, [(0.3, 0.1)] * 60, 50)
    segments = learnt(counts)
    assert segments.log_weight.shape == segments.start.shape == (1, KEPT)
    assert segments.fresh == KEPT - 1
    assert segments.start[0, -1] == 61
    weights, starts, _ = naive_posterior(counts[:, 0], math.e, 0, 0.01)
    kept = np.isin(starts, segments.start[0])
    assert weights[~kept].sum() < 0.05
    assert starts[weights[:-1].argmax()] == segments.likeliest_start()[0]
    assert np.exp(segments.log_weight).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("n", [1, 10, 10**9])
@pytest.mark.parametrize("rates", [(0, 0), (1, 1), (1, 0), (0, 1), (0.5, 0.5), (1e-7, 1e-9)])
def test_weights_sum_to_1_and_rates_stay_inside(rates, n):
    rng = np.random.default_rng(6)
    segments = learnt(drawn(rng, [rates] * 15 + [rates[::-1]] * 15, n), hazard=1e-3)
    assert np.exp(segments.log_weight).sum() == pytest.approx(1, abs=1e-12)
    assert (segments.beta > 0).all()
    for deviations in (-1e3, -0.3, 0, 3, 1e3):
        for rate in segments.rates(slice(None), deviations):
            assert ((rate >= 1e-12) & (rate <= 1 - 1e-12)).all()


def test_rates_by_hand():
    beta = np.array([2.0, 3.0, 1.0, 4.0]).reshape(4, 1, 1)
    segments = Segments(np.zeros((1, 1)), np.ones((1, 1), dtype=np.int64), beta, fresh=1)
    a, b = segments.rates(slice(None), 0)
    assert (a[0, 0], b[0, 0]) == pytest.approx((2 / 5, 1 / 5))
    # Log odds spread by 1/2 + 1/3 and 1/1 + 1/4: one deviation apart is sqrt(25/12), in the shares 2/5 and 3/5.
    a, b = segments.rates(slice(None), 1)
    spread = math.sqrt(25 / 12)
    assert math.log(a[0, 0] / (1 - a[0, 0])) == pytest.approx(math.log(2 / 3) + 0.4 * spread)
    assert math.log(b[0, 0] / (1 - b[0, 0])) == pytest.approx(math.log(1 / 4) - 0.6 * spread)


def test_a_planted_change_is_found():
    rng = np.random.default_rng(7)
    before, after = (0.18394, 0.06767), (0.35, 0.05)
    counts = np.concatenate([drawn(rng, [before] * 40 + [after] * 10, 750) for _ in range(40)], axis=1)
    found = learnt(counts).likeliest_start()
    assert (np.abs(found - 41) <= 1).mean() > 0.9
    assert (learnt(counts[:40]).likeliest_start() == 1).mean() > 0.8


def test_streams_do_not_touch():
    rng = np.random.default_rng(8)
    counts = np.concatenate([drawn(rng, [(0.2, 0.1)] * 15 + [(0.6, 0.1)] * 25, 30) for _ in range(5)], axis=1)
    together = learnt(counts)
    for stream in range(5):
        alone = learnt(counts[:, [stream]])
        np.testing.assert_allclose(together.log_weight[stream], alone.log_weight[0], rtol=1e-12)
        np.testing.assert_array_equal(together.start[stream], alone.start[0])


def test_lists_are_exact_and_pass_through_json():
    segments = learnt(drawn(np.random.default_rng(9), [(0.2, 0.1)] * 30, 30))
    back = Segments.from_lists(json.loads(json.dumps(segments.to_lists(), allow_nan=False)))
    assert back.to_lists() == segments.to_lists()
    for side in (segments, back):
        side.learn(31, *np.array([[9], [2], [30]]), hazard=0.01)
    assert back.to_lists() == segments.to_lists()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("log_weight", [[0.0, 0.0]]),
        ("log_weight", [[math.nan] * 10]),
        ("log_weight", [0.0] * 10),
        ("start", [[0] * 10]),
        ("start", [[1] * 9]),
        ("beta", [[[-1.0] * 10]] * 4),
        ("beta", [[[1.0] * 10]] * 3),
        ("beta", [[[math.inf] * 10]] * 4),
        ("fresh", 10),
        ("fresh", 0),
        ("fresh", "no"),
    ],
)
def test_lists_that_are_no_posterior(part, value):
    saved = learnt(drawn(np.random.default_rng(10), [(0.2, 0.1)], 30)).to_lists()
    Segments.from_lists(saved)
    with pytest.raises(ValueError, match=part):
        Segments.from_lists({**saved, part: value})
