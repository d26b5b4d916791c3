"""Oracles: double loops, closed laws on one and two steps, the CUSUM integral equation at beta = 0, Lévy's law."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, optimize, special, stats

from dprepro.stats import brownian, brownian_suprema
from dprepro.stats.brownian import (
    absolute_supremum_quantile,
    increment_supremum_limit,
    increment_supremum_quantile,
    stored_limit,
    stored_quantile,
)
from dprepro.stats.brownian_suprema import increment_suprema, over_brownian_paths

LIMIT = 1e-4  # chance that a correct program fails one of the statistical checks


def by_double_loop(values, beta, allowance=0.0):
    """max over u < v, one pair after the other."""
    m = len(values) - 1
    return max(
        (values[v] - values[u] + allowance) / ((v - u) / m) ** beta
        for u in range(m + 1)
        for v in range(u + 1, m + 1)
    )


def exceeds_on_a_grid_at_beta_0(q, grid):
    """P(D > q) for beta = 0: a CUSUM max(W, 0) + N(0, 1) stays below q sqrt(grid), on Gauss-Legendre nodes."""
    b = q * grid**0.5
    nodes, weights = np.polynomial.legendre.leggauss(int(4 * b) + 60)
    nodes, weights = (nodes + 1) * b / 2, weights * b / 2
    density = stats.norm.pdf(nodes - nodes[:, None]) * weights
    from_zero = stats.norm.pdf(nodes) * weights
    kept, kept_at_zero = np.ones(len(nodes)), 1.0
    for _ in range(grid):
        kept, kept_at_zero = (
            special.ndtr(-nodes) * kept_at_zero + density @ kept,
            0.5 * kept_at_zero + from_zero @ kept,
        )
    return 1 - kept_at_zero


def exceeds_on_two_steps(q, beta):
    """P(D > q), D the larger of two steps of variance 1/2 and of their sum, weighted."""
    step, total = q * 2 ** (0.5 - beta), q * 2**0.5
    inside, _ = integrate.quad(
        lambda x: stats.norm.pdf(x) * special.ndtr(min(step, total - x)),
        -12,
        step,
        points=[total - step],
        limit=200,
    )
    return 1 - inside


def assert_is_quantile(exceedance, alpha, n):
    """The chance to exceed an order statistic of n values has a beta law."""
    above = math.floor(alpha * (n + 1))
    low, high = stats.beta(above, n + 1 - above).ppf([LIMIT / 2, 1 - LIMIT / 2])
    assert low <= exceedance <= high


@given(
    path=arrays(
        np.float64, st.tuples(st.integers(2, 40), st.just(2)), elements=st.integers(-20, 20).map(float)
    ),
    beta=st.sampled_from([0.0, 0.1, 0.25, 0.49]),
    allowance=st.sampled_from([0.0, 0.3]),
    dense=st.booleans(),
)
def test_maximum_over_all_pairs_by_a_double_loop(path, beta, allowance, dense):
    with pytest.MonkeyPatch.context() as patch:
        if not dense:
            patch.setattr(brownian_suprema, "_DENSE", 1)  # chunks of two or three points
            patch.setattr(brownian_suprema, "_LEAF", 8)
        found = increment_suprema(path, beta, allowance)
    for value, column in zip(found, path.T, strict=True):
        assert value == pytest.approx(by_double_loop(column, beta, allowance), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("points", [200, 201, 350, 1001])
@pytest.mark.parametrize("beta", [0.0, 0.25, 0.49])
@pytest.mark.parametrize("drift", [0.0, -6.0, 6.0])
def test_long_paths_lag_by_lag(points, beta, drift):
    rng = np.random.default_rng(points)
    path = np.zeros((points, 40))
    path[1:] = rng.normal(drift / points, points**-0.5, (points - 1, 40)).cumsum(axis=0)
    path[:, 0] = -(np.linspace(0, 1, points) ** 2)  # it falls all the way
    expected = np.max(
        [(path[lag:] - path[:-lag]).max(axis=0) * (lag / (points - 1)) ** -beta for lag in range(1, points)],
        axis=0,
    )
    np.testing.assert_allclose(increment_suprema(path, beta), expected, rtol=1e-12)
    assert expected[0] < 0


def test_beta_0_is_the_largest_rise_above_the_running_minimum():
    rng = np.random.default_rng(3)
    path = rng.standard_normal((3000, 50)).cumsum(axis=0)
    expected = (path - np.minimum.accumulate(path)).max(axis=0)
    np.testing.assert_allclose(increment_suprema(path, 0.0), expected, rtol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.25, 0.45])
def test_coarser_points_of_the_same_path_never_give_more(beta):
    def on_coarser(path):
        return np.stack([increment_suprema(path[::k], beta) for k in (1, 2, 4, 8, 64)])

    by_grid = over_brownian_paths(512, 500, np.random.default_rng(4), on_coarser)
    assert (np.diff(by_grid, axis=0) <= 1e-12).all()
    assert (np.diff(by_grid, axis=0).mean(axis=1) < -0.01).all()


def test_paths_are_standard_brownian_motion():
    n = 20_000
    ends = over_brownian_paths(50, n, np.random.default_rng(5), lambda path: path[[0, 10, 50]])
    assert (ends[0] == 0).all()
    for increment, variance in ((ends[1], 0.2), (ends[2] - ends[1], 0.8)):
        assert stats.kstest(increment / variance**0.5, "norm").pvalue > LIMIT
    assert abs(np.corrcoef(ends[1], ends[2] - ends[1])[0, 1]) < stats.norm.isf(LIMIT / 2) / n**0.5


def test_any_number_of_threads_gives_the_same_values(monkeypatch):
    def draw(threads, seed=6):
        monkeypatch.setattr(os, "cpu_count", lambda: threads)
        rng = np.random.default_rng(seed)
        return increment_supremum_quantile([0.5, 0.1], 0.25, 20, 3 * 2048 + 5, rng)

    one = draw(1)
    for threads in (2, 5, None):
        np.testing.assert_array_equal(draw(threads), one)
    assert (draw(1, seed=7)[0] != one[0]).all()


def test_a_generator_moves_on_and_blocks_differ():
    rng = np.random.default_rng(8)
    first, second = (over_brownian_paths(5, 5000, rng, lambda path: path[-1]) for _ in range(2))
    assert len(np.unique([first, second])) == 10_000


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.0125])
@pytest.mark.parametrize("beta", [0.0, 0.25, 0.49])
def test_one_and_two_steps_have_closed_laws(alpha, beta):
    n = 20_000
    one, _ = increment_supremum_quantile(alpha, beta, 1, n, np.random.default_rng(9))
    two, _ = increment_supremum_quantile(alpha, beta, 2, n, np.random.default_rng(10))
    assert_is_quantile(special.ndtr(-one), alpha, n)
    assert_is_quantile(exceeds_on_two_steps(two, beta), alpha, n)


@pytest.mark.parametrize("grid", [10, 100, 300])
def test_beta_0_on_a_grid_solves_the_cusum_equation(grid):
    n, alphas = 20_000, [0.1, 0.05, 0.01]
    quantiles, _ = increment_supremum_quantile(alphas, 0.0, grid, n, np.random.default_rng(grid))
    for alpha, quantile in zip(alphas, quantiles, strict=True):
        assert_is_quantile(exceeds_on_a_grid_at_beta_0(quantile, grid), alpha, n)


def test_a_quarter_on_100_steps_by_plain_simulation():
    quantiles, _ = increment_supremum_quantile([0.05, 0.0125], 0.25, 100, 50_000, np.random.default_rng(11))
    path = np.zeros((101, 20_000))
    path[1:] = np.random.default_rng(12).standard_normal((100, 20_000)).cumsum(axis=0)
    largest = (
        np.max([(path[lag:] - path[:-lag]).max(axis=0) / lag**0.25 for lag in range(1, 101)], axis=0)
        / 100**0.25
    )
    for alpha, quantile in zip((0.05, 0.0125), quantiles, strict=True):
        above = int((largest > quantile).sum())
        # Conditional on the quantile the count is binomial, and the quantile's own exceedance has a beta law.
        law = stats.betabinom(20_000, math.floor(alpha * 50_001), 50_001 - math.floor(alpha * 50_001))
        assert law.ppf(LIMIT / 2) <= above <= law.ppf(1 - LIMIT / 2)


def test_exact_law_at_beta_0():
    printed = {0.10: 1.959964, 0.05: 2.241403, 0.01: 2.807034}
    np.testing.assert_allclose(absolute_supremum_quantile(list(printed)), list(printed.values()), atol=5e-7)
    for alpha in (1e-12, 1e-3, 0.3, 0.6, 0.9, 0.9999):
        x = float(absolute_supremum_quantile(alpha))
        k = np.arange(2000)
        # The eigenvalue series alone, with many terms.
        inside = 4 / np.pi * ((-1.0) ** k / (2 * k + 1) * np.exp(-(((2 * k + 1) * np.pi / x) ** 2) / 8)).sum()
        assert 1 - inside == pytest.approx(alpha, rel=1e-9, abs=1e-14)
    np.testing.assert_allclose(
        absolute_supremum_quantile([[0.05], [0.1]])[:, 0], [2.241403, 1.959964], atol=5e-7
    )


def test_grid_error_at_beta_0_is_the_allowance_up_to_one_over_grid():
    errors = []
    for grid in (16, 64, 256):
        on_grid = optimize.brentq(
            lambda q, m=grid: exceeds_on_a_grid_at_beta_0(q, m) - 0.05, 1, 3, xtol=1e-10
        )
        assert absolute_supremum_quantile(0.05) - on_grid > grid**-0.5
        errors.append(on_grid + brownian._allowance(grid) - absolute_supremum_quantile(0.05))
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 4, rtol=0.03)
    assert abs(errors[-1]) < 0.6 / 256


def test_overshoot_constant():
    mpmath = pytest.importorskip("mpmath")
    assert float(-mpmath.zeta(0.5) / mpmath.sqrt(2 * mpmath.pi)) == pytest.approx(
        brownian._OVERSHOOT, rel=1e-15
    )


def test_limit_at_beta_0_is_the_exact_law():
    alphas = np.array([0.2, 0.05, 0.0125])
    quantile, error, residual = increment_supremum_limit(alphas, 0.0, 30_000, np.random.default_rng(13))
    exact = absolute_supremum_quantile(alphas)
    # The bias at 1,024 steps is about .6/1024 (the test above); without the extrapolation it would be .036.
    assert (np.abs(quantile - exact) < 4 * error + 0.001).all()
    assert (np.abs(residual) < 0.02).all()
    assert (error[:2] < 0.013).all()


@pytest.mark.parametrize("beta", [0.1, 0.25, 0.4])
def test_extrapolation_law_on_two_grids_of_the_same_paths(beta):
    def on_two_grids(path):
        grids = (path, path[::4])
        return np.stack(
            [increment_suprema(g, beta, a * brownian._allowance(len(g) - 1)) for a in (1, 0) for g in grids]
        )

    fine, coarse, plain_fine, plain_coarse = over_brownian_paths(
        1024, 8_000, np.random.default_rng(14), on_two_grids
    )

    def p_value(one, other):
        """Sign test: if both have the same 95 % quantile, as many paths cross it one way as the other."""
        level = np.quantile(one, 0.95)
        up, down = ((one > level) & (other <= level)).sum(), ((one <= level) & (other > level)).sum()
        return stats.binomtest(up, up + down).pvalue

    assert p_value(fine, coarse) > LIMIT
    assert p_value(plain_fine, plain_coarse) < 1e-12


def test_standard_error_by_repetition():
    runs, n, alpha = 300, 2000, 0.05
    rng = np.random.default_rng(15)
    low, high = stats.chi2(runs - 1).ppf([LIMIT / 2, 1 - LIMIT / 2]) / (runs - 1)
    for grid, beta in ((1, 0.25), (20, 0.25), (20, 0.45)):
        found = np.array([increment_supremum_quantile(alpha, beta, grid, n, rng) for _ in range(runs)])
        ratio = found[:, 0].var(ddof=1) / (found[:, 1] ** 2).mean()
        assert low < ratio < high
        # One run's error is itself uncertain by about 1/sqrt(4 s), s = sqrt(n alpha (1 - alpha)): a spacing of ranks.
        spread = found[:, 1].std() / found[:, 1].mean()
        assert spread < 2 * (4 * math.sqrt(n * alpha * (1 - alpha))) ** -0.5
    first = increment_supremum_quantile(alpha, 0.25, 1, 100_000, rng)[1]
    density = stats.norm.pdf(stats.norm.isf(alpha))
    assert first == pytest.approx(math.sqrt(alpha * (1 - alpha) / 100_000) / density, rel=0.25)


def test_intervals_of_two_standard_errors_cover():
    runs = 400
    rng = np.random.default_rng(16)
    found = np.array([increment_supremum_quantile(0.1, 0.25, 1, 1000, rng) for _ in range(runs)])
    missed = int((np.abs(found[:, 0] - stats.norm.isf(0.1)) > 1.96 * found[:, 1]).sum())
    assert stats.binom(runs, 0.05).ppf(LIMIT / 2) <= missed <= stats.binom(runs, 0.06).ppf(1 - LIMIT / 2)


def test_shapes():
    rng = np.random.default_rng(17)
    scalar = increment_supremum_quantile(0.1, 0.25, 5, 1000, rng)
    assert all(isinstance(part, float) for part in scalar)
    assert all(
        part.shape == (2, 2)
        for part in increment_supremum_quantile([[0.1, 0.2], [0.3, 0.9]], 0, 5, 1000, rng)
    )
    assert all(isinstance(part, float) for part in increment_supremum_limit(0.1, 0.25, 1000, rng, grid=8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0}, "alpha must be in (0, 1), got 0"),
        ({"alpha": [0.5, 1]}, "alpha must be in (0, 1), got 1"),
        ({"alpha": math.nan}, "alpha must be in (0, 1), got nan"),
        ({"beta": 0.5}, "beta must be in [0, 0.5), got 0.5"),
        ({"beta": -0.1}, "beta must be in [0, 0.5), got -0.1"),
        ({"grid": 0}, "grid must be a whole number of at least 1, got 0"),
        ({"grid": 2.5}, "grid must be a whole number of at least 1, got 2.5"),
        ({"n_paths": 0}, "n_paths must be a whole number of at least 1, got 0"),
        ({"n_paths": 319}, "n_paths must be at least 320 for alpha 0.05, got 319"),
        (
            {"alpha": [0.5, 0.999], "n_paths": 15_000},
            "n_paths must be at least 16000 for alpha 0.999, got 15000",
        ),
    ],
)
def test_arguments_outside_their_domain(change, message):
    arguments = {"alpha": 0.05, "beta": 0.25, "grid": 10, "n_paths": 1000} | change
    rng = np.random.default_rng(18)
    for call in (
        lambda: increment_supremum_quantile(**arguments, rng=rng),
        lambda: stored_quantile(**arguments),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == message


def test_other_arguments_outside_their_domain():
    rng = np.random.default_rng(19)
    with pytest.raises(ValueError, match="grid must be a multiple of 4, got 10"):
        increment_supremum_limit(0.05, 0.25, 1000, rng, grid=10)
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -1"):
        stored_quantile(0.05, 0.25, 10, 1000, seed=-1)
    with pytest.raises(ValueError, match="alpha must be in"):
        absolute_supremum_quantile(1.5)
    assert increment_supremum_quantile(0.05, 0.25, 10, 320, rng)[1] > 0  # the smallest sample allowed


ARGUMENTS = {"alpha": 0.05, "beta": 0.25, "grid": 7, "n_paths": 1000, "seed": 1}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where samples are stored, with nothing remembered in memory before or after."""
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "build"))
    brownian._stored_suprema.cache_clear()
    yield tmp_path / "build" / "brownian"
    brownian._stored_suprema.cache_clear()


@pytest.fixture
def no_simulation(monkeypatch):
    def forbid():
        brownian._stored_suprema.cache_clear()

        def fail(*_):
            raise AssertionError("simulated again")

        monkeypatch.setattr(brownian, "over_brownian_paths", fail)

    return forbid


def asked_again(**change):
    brownian._stored_suprema.cache_clear()
    return stored_quantile(**ARGUMENTS | change)


def test_stored_is_the_simulation_of_its_seed_once_for_every_alpha(folder, no_simulation):
    alphas = [0.5, 0.05, 0.02, 0.9]
    expected = increment_supremum_quantile(alphas, 0.25, 7, 1000, np.random.default_rng(1))
    assert stored_quantile(**ARGUMENTS) == (expected[0][1], expected[1][1])
    no_simulation()
    np.testing.assert_array_equal(asked_again(alpha=alphas), expected)
    assert len(list(folder.iterdir())) == 1


def test_stored_limit(folder, no_simulation, monkeypatch):
    monkeypatch.setattr(brownian, "_LIMIT_GRID", 64)
    expected = increment_supremum_limit([0.1, 0.05], 0.25, 1000, np.random.default_rng(2), grid=64)
    np.testing.assert_array_equal(stored_limit([0.1, 0.05], 0.25, 1000, seed=2), expected[:2])
    no_simulation()
    np.testing.assert_array_equal(stored_limit([0.1, 0.05], 0.25, 1000, seed=2), expected[:2])


@pytest.mark.parametrize("change", [{"seed": 2}, {"beta": 0.2}, {"grid": 8}, {"n_paths": 1001}])
def test_other_arguments_are_another_sample(folder, change):
    before = asked_again()
    (file,) = folder.iterdir()
    other = asked_again(**change)
    assert other != before
    assert len(list(folder.iterdir())) == 2
    # A file under the name of another one is not taken for it.
    (second,) = set(folder.iterdir()) - {file}
    second.write_bytes(file.read_bytes())
    assert asked_again(**change) == other
    assert second.read_bytes() != file.read_bytes()


@pytest.mark.parametrize("what", ["_CODE", "numpy"])
def test_other_code_draws_again(folder, monkeypatch, what):
    before = asked_again()
    if what == "_CODE":
        monkeypatch.setattr(brownian, "_CODE", "0" * 64)
    else:
        monkeypatch.setattr(np, "__version__", "1.0")
    assert asked_again() == before
    assert len(list(folder.iterdir())) == 2


def flipped(data):
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def consistent_but_short(data):
    """A truncated sample with the header that fits it."""
    head, _, content = data.partition(b"\n")
    fields = json.loads(head) | {"sha256": brownian.sha256_bytes(content[:-8])}
    return json.dumps(fields, sort_keys=True).encode() + b"\n" + content[:-8]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:40],
        lambda data: data + b"\0" * 8,
        lambda data: data.replace(b'"seed": 1', b'"seed": 3'),
        lambda data: b"[" * 100_000,
        lambda data: b"\xff\xfe" + data,
        flipped,
        consistent_but_short,
    ],
)
def test_damaged_files_are_drawn_again(folder, damage):
    expected = asked_again()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert file.read_bytes() != whole
    assert asked_again() == expected
    assert file.read_bytes() == whole


def test_a_place_that_cannot_be_written_or_read_costs_the_file_only(folder):
    expected = asked_again()
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()  # neither read nor replaced
    assert asked_again() == expected
    file.rmdir()
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.write_text("a file where the build folder should be")
    assert asked_again() == expected
    assert folder.parent.is_file()


def test_two_processes_at_once(folder):
    script = (
        "from dprepro.stats.brownian import stored_quantile\n"
        "print(*map(float.hex, stored_quantile(0.05, 0.25, 7, 1000, 1)))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = [process.communicate(timeout=60)[0].split() for process in both]
    assert answers == [list(map(float.hex, asked_again()))] * 2
    assert [file.suffix for file in folder.iterdir()] == [".sample"]


def test_default_size(folder):
    quantile, error = stored_quantile(0.05, 0.25, 10)
    assert error < 0.003
    assert stored_quantile(0.05, 0.25, 10) == (quantile, error)
