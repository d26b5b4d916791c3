"""The saved result of the eight scenarios: what it keeps, and the signal of a step computed exactly."""

import numpy as np
import pytest
from scipy import optimize, stats

from dprepro.audits import monitor, retidp_report
from dprepro.audits.retidp_report import (
    INFORMED,
    first_steps,
    informed_alarms,
    merged,
    monitors,
    order,
    signal,
)
from dprepro.audits.retidp_scenarios import EPSILON, SCENARIOS
from dprepro.audits.retidp_study import first_alarms
from dprepro.stats import brownian

FEW = {"repetitions": 12, "n": 60, "horizon": 20, "change": 9, "alpha": 0.05, "beta": 0.25}
NAMES = ("ReTiDP", "ReTiDP, limit", "betting", "stepwise", "history mean")


def report(key, seed=4):
    return retidp_report.report(key, np.random.default_rng(seed), **FEW)


@pytest.fixture(scope="module")
def counts():
    sizes = {key: FEW[key] for key in ("repetitions", "n", "horizon", "change")}
    return SCENARIOS["a"].counts(rng=np.random.default_rng(4), **sizes)


@pytest.fixture(scope="module")
def found():
    return report("a, 1")


@pytest.fixture(autouse=True, scope="module")
def limit():
    """Spare the simulation of the continuous limit, a quarter of a minute where it is not stored yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor, "stored_limit", lambda alpha, beta: (2.56, 0.0))
        yield


def test_thresholds_are_those_of_the_monitors():
    found = report("thresholds")
    assert tuple(found) == NAMES
    assert found["ReTiDP"] == brownian.stored_quantile(0.05, 0.25, FEW["horizon"])[0]
    assert found["ReTiDP, limit"] == 2.56
    assert found["betting"] == pytest.approx(np.log(20))


def test_histograms_hold_the_first_alarms(found, counts):
    makers = monitors(FEW["alpha"], FEW["horizon"], FEW["beta"])
    assert tuple(makers) == NAMES
    for name, make in makers.items():
        first = first_alarms(make(), *counts, FEW["n"])
        assert len(found[name]) == FEW["horizon"] + 1
        assert first_steps(np.array(found[name])).tolist() == sorted(first)
    assert len({tuple(found[name]) for name in NAMES}) > 2  # the monitors differ


def test_totals_and_pairs(found, counts):
    start = FEW["change"] - 1
    assert found["outputs before"] == [side[:, :start].sum() for side in counts]
    assert found["outputs after"] == [side[:, start:].sum() for side in counts]
    makers = monitors(FEW["alpha"], FEW["horizon"], FEW["beta"])
    own, other = (first_alarms(makers[name](), *counts, FEW["n"]) for name in ("ReTiDP", "history mean"))
    assert found["before ReTiDP: history mean"] == order(other, own, FEW["change"])
    assert "before ReTiDP: ReTiDP" not in found


def test_the_informed_bet_of_a_report_starts_with_the_change(found, counts):
    start = FEW["change"] - 1
    first = informed_alarms(
        SCENARIOS["a"].probabilities()[1], *(side[:, start:] for side in counts), FEW["n"], FEW["alpha"]
    )
    expected = np.where(first > 0, first + start, 0)
    assert first_steps(np.array(found[INFORMED])).tolist() == sorted(expected)
    assert min(expected) > start  # it finds all of them


def test_unchanged_keeps_the_mechanism_before_the_change():
    found = report("e unchanged, 1")
    assert set(found) == set(NAMES)
    for name in NAMES:  # the event never happens, so no monitor has anything to go by
        assert found[name] == [FEW["repetitions"], *[0] * FEW["horizon"]]
    assert report("e, 1")["betting"][0] == 0  # as against: it is found each time


@pytest.mark.parametrize(
    ("key", "message"), [("j, 1", "scenario of the key must be"), ("a changed, 1", "rest of the key must be")]
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        report(key)


def test_parts_add_up():
    saved = {
        "thresholds": {"x": 1.5},
        "a, 1": {"x": [1, 2], "y": [5]},
        "b unchanged, 1": {"x": [7, 7]},
        "a, 2": {"x": [10, 20], "y": [6]},
    }
    found = merged(saved)
    assert list(found) == ["a", "b unchanged"]
    assert found["a"]["x"].tolist() == [11, 22]
    assert found["a"]["y"].tolist() == [11]
    assert found["b unchanged"]["x"].tolist() == [7, 7]


def test_order_against_a_loop():
    rng = np.random.default_rng(0)
    first, other = rng.integers(0, 9, (2, 400))
    late = 99
    expected = [0, 0, 0]
    for f, g in zip(first, other, strict=True):
        f, g = f or late, g or late
        if f >= 4 and g >= 4:
            expected[0 if f < g else 1 if f == g else 2] += 1
    assert order(first, other, 4) == expected
    assert min(expected) > 20
    assert order(np.array([0, 0, 5]), np.array([0, 5, 0]), 4) == [1, 1, 1]


KNOWN = {"a": 10.2, "b": 0.84, "c": 3.6, "d": 0.82, "e": 13.6, "f": 1.15, "g": -8.1, "h": -0.79}


@pytest.mark.parametrize(("key", "drift"), KNOWN.items())
def test_drift_of_each_change(key, drift):
    found = signal(SCENARIOS[key].probabilities()[1], 750)
    assert found.drift == pytest.approx(drift, rel=0.01)
    assert (found.violation > 0) == SCENARIOS[key].harmful


def divergence_from_the_null(a, b, ratio):
    """Least KL(a, a0) + KL(b, b0) over a0 <= ratio b0, by a search over b0 on the boundary."""

    def kl(p, q):
        return stats.entropy([p, 1 - p], [q, 1 - q])

    found = optimize.minimize_scalar(
        lambda b0: kl(a, ratio * b0) + kl(b, b0),
        bounds=(1e-12, 1 / ratio),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return found.fun


@pytest.mark.parametrize("key", list("abcdf"))
def test_growth_is_n_times_the_divergence_from_the_claim(key):
    rates = SCENARIOS[key].probabilities()[1]
    expected = 750 * divergence_from_the_null(*rates, np.exp(EPSILON))
    assert signal(rates, 750).growth == pytest.approx(expected, rel=1e-4)


def test_growth_without_an_event_on_the_neighbour():
    # b = 0: the nearest pair of rates has a small b0, found by hand from a log-likelihood ratio at b0 fixed.
    rates = SCENARIOS["e"].probabilities()[1]
    expected = 750 * divergence_from_the_null(rates[0], 1e-12, np.exp(EPSILON))
    assert signal(rates, 750).growth == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("rates", [(0.2, 0.2), (0.5, 0.5 / np.e), (0.0, 0.0), (1.0, 1.0)])
def test_a_claim_that_is_kept_gives_no_growth(rates):
    found = signal(rates, 750)
    assert found.growth == pytest.approx(0, abs=1e-6)
    assert found.drift < 1e-9


def test_no_spread_is_counted_as_one_output():
    assert signal((1.0, 0.0), 10).drift == 10  # p = 1 over 1/n


@pytest.mark.parametrize(("rates", "n"), [((1.2, 0), 5), ((0.5, np.nan), 5), ((0.5, 0.1), 0)])
def test_bad_signals(rates, n):
    with pytest.raises(ValueError, match="rates must be in|n must be a whole number"):
        signal(rates, n)


def test_informed_alarms_against_a_loop():
    # The payoff as a likelihood ratio of the rates against the nearest that keep the claim, output by output.
    rng = np.random.default_rng(6)
    rates, n, alpha = (0.24, 0.079), 200, 0.05
    count_x, count_y = rng.binomial(n, rates[0], (40, 60)), rng.binomial(n, rates[1], (40, 60))
    best = signal(rates, n)
    b0 = best.anchor
    a0 = np.e * b0
    a = a0 + best.stake * a0 * (1 - a0)
    b = b0 - best.stake * np.e * b0 * (1 - b0)
    assert (a, b) == pytest.approx(rates, rel=1e-4)
    first = []
    for xs, ys in zip(count_x, count_y, strict=True):
        capital, found = 0.0, 0
        for step, (x, y) in enumerate(zip(xs, ys, strict=True), 1):
            capital += stats.binom.logpmf(x, n, a) - stats.binom.logpmf(x, n, a0)
            capital += stats.binom.logpmf(y, n, b) - stats.binom.logpmf(y, n, b0)
            if capital >= np.log(1 / alpha):
                found = step
                break
        first.append(found)
    assert informed_alarms(rates, count_x, count_y, n, alpha).tolist() == first
    assert len(set(first)) > 5


def test_informed_alarms_keep_the_level_and_need_a_violation():
    # A bet on the wrong rates under the claim: alarms stay below alpha (Ville), here over 40 steps of 500 streams.
    rng = np.random.default_rng(1)
    a, b, streams = 0.24, 0.24 / np.e, 500
    counts = (rng.binomial(100, p, (streams, 40)) for p in (a, b))
    alarms = int((informed_alarms((0.3, 0.07), *counts, 100, 0.1) > 0).sum())
    assert alarms <= stats.binom.ppf(1 - 1e-6, streams, 0.1)
    full = np.full((2, 3), 100)
    assert informed_alarms((0.2, 0.2), full, 0 * full, 100, 0.1).tolist() == [0, 0]
