"""Oracles: ReTiDP's formula by plain loops and by hand; simulated levels and delays."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor

Q = 2.416  # .95 quantile of the limit on a grid of 100 steps at beta = 1/4
MAKERS = {
    "retidp": lambda **more: ReTiDPMonitor(
        **{"epsilon": 1, "alpha": 0.05, "horizon": 100, "threshold": Q, **more}
    ),
    "betting": lambda **more: BettingMonitor(**{"epsilon": 1, "alpha": 0.05, **more}),
}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def limit(count, runs, side="upper"):
    """One-sided 95 % limit of a rate, Clopper-Pearson."""
    return stats.binomtest(count, runs, alternative="less" if side == "upper" else "greater").proportion_ci()[
        side == "upper"
    ]


def alarms(monitors, rates, rng, steps):
    """Feed the same counts to all; rates(step) gives a, b and n. Return the step of each stream's first alarm."""
    first = None
    for step in range(1, steps + 1):
        a, b, n = np.broadcast_arrays(*rates(step))
        x, y = rng.binomial(n, np.minimum(a, 1)), rng.binomial(n, b)
        results = [monitor.update(x, y, n) for monitor in monitors]
        if first is None:
            first = np.full((len(monitors), *a.shape), np.inf)
        for found, result in zip(first, results, strict=True):
            found[np.isinf(found) & result.alarm] = step
    return first


# ReTiDP's statistic


def naive_statistic(scores, horizon, beta):
    """D(t) = max over l of (l + 1)^-beta T^-(1/2 - beta) times the sum of the last l + 1 scores, and its start."""
    statistics, starts = [], []
    for t in range(1, len(scores) + 1):
        best = -math.inf
        for lag in range(t):
            total = 0.0
            for s in range(t - lag, t + 1):
                total += scores[s - 1]
            value = total / ((lag + 1) ** beta * horizon ** (0.5 - beta))
            if value > best:
                best, start = value, t - lag
        statistics.append(best)
        starts.append(start)
    return statistics, starts


@pytest.mark.parametrize("beta", [0, 0.25, 0.49])
@pytest.mark.parametrize("floor", ["1/n", 1e-3, 0.05])
@pytest.mark.parametrize("delta", [0, 0.05])
def test_retidp_statistic_agrees_with_plain_loops(beta, floor, delta):
    rng = np.random.default_rng(20)
    horizon, epsilon = 25, 0.7
    monitor = ReTiDPMonitor(
        epsilon, 0.05, horizon=horizon, beta=beta, delta=delta, floor=floor, threshold=2.0
    )
    scores, got = [], []
    for step in range(20):
        n = int(rng.choice([1, 20, 500]))
        x, y = (0, 0) if step % 5 == 0 else (int(rng.integers(n + 1)), int(rng.binomial(n, 0.05)))
        got.append(monitor.update(x, y, n))
        a, b = x / n, y / n
        sigma = math.sqrt(a * (1 - a) / n + math.exp(2 * epsilon) * b * (1 - b) / n)
        scores.append((a - math.exp(epsilon) * b - delta) / max(sigma, 1 / n if floor == "1/n" else floor))
    statistics, starts = naive_statistic(scores, horizon, beta)
    np.testing.assert_allclose([r.statistic for r in got], statistics, rtol=1e-12, atol=1e-12)
    assert [r.change_point for r in got] == starts
    reached = np.maximum.accumulate(np.array(statistics)) >= 2.0
    assert [r.alarm for r in got] == reached.tolist()
    assert 0 < reached.sum() < 20


def test_retidp_by_hand():
    # Every standard error is below the floor of 1/2: scores 2 p_hat = 1, -1, 2. Divisor (l + 1)^(1/4) 16^(1/4).
    monitor = ReTiDPMonitor(0, 0.05, horizon=16, floor=0.5, threshold=0.6)
    first, second, third = (monitor.update(x, y, 10) for x, y in ((6, 1), (1, 6), (10, 0)))
    assert (first.statistic, first.change_point, first.alarm) == (pytest.approx(1 / 2), 1, False)
    assert (second.statistic, second.change_point, second.alarm) == (pytest.approx(0), 1, False)
    assert (third.statistic, third.change_point, third.alarm) == (pytest.approx(1), 3, True)
    assert third.threshold == 0.6


def test_a_huge_negative_score_is_forgotten_by_later_windows():
    late = ReTiDPMonitor(50, 0.05, horizon=9, threshold=Q)
    late.update(0, 10**9, 10**9)
    fresh = ReTiDPMonitor(50, 0.05, horizon=9, threshold=Q)
    for x in (3, 5, 4):
        expected, result = fresh.update(x, 0, 10), late.update(x, 0, 10)
        assert result.statistic == expected.statistic
        assert result.change_point == expected.change_point + 1


def test_threshold_of_one_step_is_the_normal_quantile():
    # sup over u < v on the grid {0, 1} is B(1).
    assert ReTiDPMonitor(1, 0.05, horizon=1).threshold == pytest.approx(stats.norm.ppf(0.95), abs=0.02)


def test_named_thresholds(monkeypatch):
    for name in ("quantile", "limit"):
        monkeypatch.setattr(
            f"dprepro.audits.monitor.stored_{name}", lambda *asked, name=name: (2.0 + len(asked), 0.1)
        )
    assert ReTiDPMonitor(1, 0.05, horizon=100).threshold == 5  # of alpha, beta and the grid
    assert ReTiDPMonitor(1, 0.05, horizon=100, threshold="limit").threshold == 4  # of alpha and beta
    assert ReTiDPMonitor(1, 0.05, horizon=100, threshold=3).threshold == 3


# Both monitors


@both
@pytest.mark.parametrize("delta", [0, 0.05])
def test_streams_equal_single_monitors(make, delta):
    rng = np.random.default_rng(21)
    many = make(delta=delta)
    ones = [make(delta=delta) for _ in range(6)]
    n = np.array([[1, 10, 100], [750, 750, 10**9]])
    for step in range(40):
        x, y = rng.binomial(n, 0.3 if step < 20 else 0.8), rng.binomial(n, 0.1)
        results = many.update(x, y, n)
        assert results.statistic.shape == results.alarm.shape == results.change_point.shape == n.shape
        for one, i in zip(ones, np.ndindex(n.shape), strict=True):
            result = one.update(int(x[i]), int(y[i]), int(n[i]))
            assert result.statistic == pytest.approx(results.statistic[i], rel=1e-9, abs=1e-9)
            assert (result.alarm, result.change_point) == (results.alarm[i], results.change_point[i])
            assert isinstance(result.statistic, float)
            assert isinstance(result.alarm, bool)
            assert isinstance(result.change_point, int)
    assert many.steps == ones[0].steps == 40


@both
@pytest.mark.parametrize("epsilon", [0, 1, 50, 300])
@pytest.mark.parametrize("delta", [0, 1e-5, 0.99, 1 - 2**-53])
def test_statistic_stays_finite(make, epsilon, delta):
    rng = np.random.default_rng(22)
    monitor = make(epsilon=epsilon, delta=delta)
    n = np.repeat([1, 2, 750, 10**9], 16)
    kinds = [lambda n: 0 * n, lambda n: n, lambda n: n // 2, lambda n: rng.binomial(n, 1e-3)]
    for _ in range(30):
        x, y = (np.choose(rng.integers(4, size=n.size), [kind(n) for kind in kinds]) for _ in range(2))
        result = monitor.update(x, y, n)
        assert np.isfinite(result.statistic).all()
        assert ((result.change_point >= 1) & (result.change_point <= monitor.steps)).all()
        assert not (result.alarm & (epsilon > 40) & (monitor.threshold == -math.log(0.05))).any()
    json.loads(monitor.to_json())


@both
def test_an_alarm_stays_and_what_is_returned_is_a_copy(make):
    monitor = make()
    result = monitor.update([600, 100], [10, 100], 750)
    assert result.alarm.tolist() == [True, False]
    result.alarm[:], result.statistic[:] = False, 1e9
    for _ in range(20):
        result = monitor.update([10, 100], [600, 100], 750)
        assert result.alarm.tolist() == [True, False]
    assert (result.statistic < result.threshold).all()


@both
def test_planted_change_is_found(make):
    rng = np.random.default_rng(23)
    monitor = make(horizon=60)

    def rates(step):
        return (0.18394, 0.06767, 750) if step <= 40 else (0.4, 0.05, 750)

    for step in range(1, 56):
        a, b, n = rates(step)
        result = monitor.update(rng.binomial(n, a, 40), rng.binomial(n, b, 40), n)
    assert result.alarm.all()
    assert np.median(result.change_point) == 41
    assert (np.abs(result.change_point - 41) <= 2).mean() >= 0.8


# Levels

ORDINARY, RARE = 0.06767, 0.0263 / math.e


@pytest.mark.parametrize("delta", [0, 1e-5, 0.1])
def test_betting_level_over_the_horizon(delta):
    # Both events at n = 50, 200, 2000 on the boundary of the claim.
    rng, runs = np.random.default_rng(24), 150
    b, n = np.array([ORDINARY, RARE])[:, None, None], np.array([50, 200, 2000])[:, None]
    shape = np.broadcast_shapes(b.shape, n.shape, (runs,))
    monitor = BettingMonitor(1, 0.05, delta=delta, horizon=100)
    first = alarms([monitor], lambda _: (math.e * b + delta + np.zeros(shape), b, n), rng, monitor.horizon)
    counts = np.isfinite(first[0]).sum(axis=-1)
    assert all(limit(count, 2 * runs) < 0.05 for count in counts.sum(axis=0))  # of each n
    assert all(limit(count, 3 * runs) < 0.05 for count in counts.sum(axis=1))  # of each event
    assert limit(counts.sum(), 6 * runs) < 0.03


@pytest.mark.parametrize("delta", [0, 0.05])
def test_betting_level_without_an_end(delta):
    # Nulls that stay, and nulls that move along the boundary every 1, 10 and 100 steps.
    rng, runs, n = np.random.default_rng(25), 60, 200
    period = np.array([10**9, 1, 10, 100])
    b = np.full(4, ORDINARY)

    def rates(step):
        moves = step % period == 0
        b[moves] = 10 ** rng.uniform(-3, -0.5, moves.sum())
        return (math.e * b + delta)[:, None] + np.zeros((4, runs)), b[:, None], n

    first = alarms([BettingMonitor(1, 0.05, delta=delta)], rates, rng, 1000)
    counts = np.isfinite(first[0]).sum(axis=-1)
    assert limit(counts.sum(), 4 * runs) < 0.05


@pytest.mark.parametrize(("aim", "delta"), [("mean", 0), ("spread", 0.02)])
def test_betting_level_against_a_mechanism_that_knows_the_bets(aim, delta):
    # At every step the mechanism takes the point of the claim's boundary where the bets pay most on average, or where
    # their outcome is most uncertain. Their mean, the sum of w (1 + L (a - a0))^n (1 - L r (b - b0))^n, is at most 1.
    rng, runs, n = np.random.default_rng(26), 400, 100
    monitor = BettingMonitor(1, 0.05, delta=delta)
    b = np.geomspace(1e-4, (1 - delta) / math.e, 25)[:, None, None]
    a = np.minimum(math.e * b + delta, 1)
    for step in range(100):
        place = np.zeros(runs, dtype=np.int64)
        if step:
            log_weight, stake, anchor = monitor._bets()
            a0 = math.e * anchor + delta
            log_mean = n * (np.log1p(stake * (a - a0)) + np.log1p(-stake * math.e * (b - anchor)))
            means = np.exp(log_weight + log_mean).sum(axis=-1)
            assert means.max() <= 1 + 1e-9
            mean_stake = (np.exp(log_weight) * stake).sum(axis=-1)
            risk = mean_stake**2 * (a * (1 - a) + math.e**2 * b * (1 - b))[..., 0]
            place = (means if aim == "mean" else risk * (means > 0.9)).argmax(axis=0)
        result = monitor.update(rng.binomial(n, a[place, 0, 0]), rng.binomial(n, b[place, 0, 0]), n)
    assert limit(result.alarm.sum(), runs) < 0.05


@pytest.mark.parametrize("delta", [0, 1e-5, 0.1])
def test_retidp_level_is_exact_where_the_limit_theorem_holds(delta):
    rng, runs, n = np.random.default_rng(27), 4000, 10**8
    monitor = ReTiDPMonitor(1, 0.05, horizon=100, delta=delta, threshold=Q)
    a = np.full(runs, math.e * ORDINARY + delta)
    count = np.isfinite(alarms([monitor], lambda _: (a, ORDINARY, n), rng, 100)).sum()
    low, high = stats.binom.ppf([0.001, 0.999], runs, 0.05)
    assert low <= count <= high


def test_retidp_exceeds_its_level_at_a_rare_event_and_betting_does_not():
    # P(A(x) in E) = .0263 = e P(A(x') in E): at n = 200 there are two counts a step on x'.
    rng, runs = np.random.default_rng(28), 300
    monitors = [make(horizon=100) for make in MAKERS.values()]
    a = np.full(runs, math.e * RARE)
    retidp, betting = np.isfinite(alarms(monitors, lambda _: (a, RARE, 200), rng, 100)).sum(axis=1)
    assert limit(retidp, runs, "lower") > 0.6
    assert limit(betting, runs) < 0.05


# Delays: (a, b) before and after step 50, for the event of six known flaws of mechanisms with epsilon = 1
CHANGES = {
    "noise halved": ((0.5, 0.18394), (0.5, 0.06767)),
    "Gaussian noise": ((0.18394, 0.06767), (0.23975, 0.07865)),
    "maximum released": ((0.4, 0.4), (0.16419, 0.03125)),
    "sparse vector 4": ((0.0263, 0.0134), (0.0280, 0.0072)),
    "sparse vector 5": ((0, 0), (0.1969, 0)),
    "sparse vector 6": ((0, 0), (0.0022, 4e-5)),
}


def test_betting_is_about_as_fast_as_retidp():
    rng, runs = np.random.default_rng(29), 250
    pairs = np.array(list(CHANGES.values()))

    def rates(step):
        now = pairs[:, int(step > 50), :, None]
        return now[:, 0] + np.zeros((6, runs)), now[:, 1], 750

    first = alarms([make(horizon=100) for make in MAKERS.values()], rates, rng, 100)
    first[first <= 50] = np.nan  # false alarms
    retidp, betting = np.nanmedian(first, axis=2) - 51
    print(dict(zip(CHANGES, zip(retidp, betting, strict=True), strict=True)))
    assert (betting <= 1.25 * retidp + 1).all()
    assert (np.isfinite(first).mean(axis=2) > 0.9).all()
