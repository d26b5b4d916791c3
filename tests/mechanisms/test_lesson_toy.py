"""The lesson's toy: its ten printed numbers, a plain twin of the loop, and what its account leaves out."""

import math
import random

import numpy as np
import pytest

from dprepro.kit import claims
from dprepro.mechanisms.lesson_toy import (
    EPOCHS,
    SEPARATE_CLIPPING,
    SIGMAS,
    TRAINING,
    accuracy,
    exact_epsilon,
    lesson_data,
    lesson_draws,
    lesson_epsilon,
    lesson_table,
    record_by_record,
)


def test_the_ten_printed_numbers():
    printed = claims.load_reported("lesson", "table1")
    table = {row.noise_multiplier: row for row in lesson_table()}
    assert len(printed) == 2 * len(table) == 10
    for _, number in printed.iterrows():
        row = table[float(number["row"].removeprefix("sigma="))]
        if number["column"] == "accuracy":
            assert f"{row.accuracy:.3f}" == number["value_printed"]
        else:
            assert f"{row.epsilon:.2f}" == number["value_printed"]


def test_another_seed_is_another_table():
    assert [row.accuracy for row in lesson_table(60)] != [row.accuracy for row in lesson_table()]


def plain_loop(x, y, visits, normals, sigma, clip, rate):
    """The same training with Python floats, one operation at a time."""
    w0 = w1 = b = 0.0
    for i, (z0, z1, z2) in zip(visits, normals, strict=True):
        error = 1 / (1 + math.exp(-(b + w0 * x[i][0] + w1 * x[i][1]))) - y[i]
        g0, g1, gb = error * x[i][0], error * x[i][1], error
        shrink = min(1.0, clip / math.hypot(g0, g1)) if g0 or g1 else 1.0
        gb = max(-clip, min(clip, gb))
        w0 -= rate * (shrink * g0 + sigma * clip * z0)
        w1 -= rate * (shrink * g1 + sigma * clip * z1)
        b -= rate * (gb + sigma * clip * z2)
    return [w0, w1, b]


@pytest.mark.parametrize(("sigma", "clip"), [(0.0, 1.0), (1.0, 1.0), (0.7, 0.2)])
def test_the_loop_against_a_plain_twin(sigma, clip):
    source = random.Random(1)
    x, y = lesson_data(40, source)
    visits, normals = lesson_draws(list(range(40)), 3, source)
    theta = record_by_record(x, y, visits, normals, sigma, clip, 0.3)
    assert theta == pytest.approx(plain_loop(x, y, visits, normals, sigma, clip, 0.3), rel=1e-9, abs=1e-12)


def test_each_epoch_uses_each_record_once():
    visits, normals = lesson_draws(list(range(20)), 4, random.Random(0))
    assert normals.shape == (80, 3)
    for epoch in visits.reshape(4, 20):
        assert sorted(epoch) == list(range(20))
    assert len({tuple(epoch) for epoch in visits.reshape(4, 20)}) == 4


def test_many_runs_at_once_are_the_runs_one_by_one():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 1, 15, 2)), rng.integers(0, 2, size=(3, 1, 15))
    visits, normals = rng.integers(0, 15, size=(3, 1, 30)), rng.normal(size=(3, 1, 30, 3))
    sigmas, clips = np.array([0.0, 1.0]), np.array([0.5, 2.0])
    theta = record_by_record(x, y, visits, normals, sigmas, clips)
    assert theta.shape == (3, 2, 3)
    for run in range(3):
        for setting in range(2):
            data = (array[run, 0] for array in (x, y, visits, normals))
            alone = record_by_record(*data, sigmas[setting], clips[setting])
            np.testing.assert_allclose(theta[run, setting], alone, rtol=1e-12)
    shares = accuracy(theta, x, y)
    logits = x[1, 0] @ theta[1, 1, :2] + theta[1, 1, 2]
    assert shares[1, 1] == np.mean((logits > 0) == y[1, 0])


def test_separate_clipping_moves_a_step_by_almost_sqrt_two():
    # A record on the wrong side: both parts reach C. Clipped as one vector they could not pass C together.
    start = np.array([[30.0, 0.0]])
    visits, none = np.array([0]), np.zeros((1, 3))
    first = record_by_record(start, [1.0], visits, none, 0, 1, 1)  # p = 1/2: (1, 1/2)
    assert np.linalg.norm(first) == pytest.approx(math.sqrt(1.25))
    pair = np.array([[8.0, 0.0], [-8.0, 0.0]])
    both = np.array([0, 0, 0, 0, 1])  # four steps to label 1, then the mirror image asks for label 1 as well
    before, after = (record_by_record(pair, [1.0, 1.0], both[:k], np.zeros((k, 3)), 0, 1, 1) for k in (4, 5))
    move = np.linalg.norm(after - before)
    assert 1.4 < move < SEPARATE_CLIPPING


def test_the_formula():
    # sqrt(2 ln(1.25/delta) steps)/sigma: 4.8448 sqrt(5000) = 342.579
    assert lesson_epsilon(1.0) == pytest.approx(342.57946547, rel=1e-9)
    assert lesson_epsilon(2.0) == lesson_epsilon(1.0) / 2
    assert lesson_epsilon(0.0) == lesson_epsilon(0.01) == lesson_epsilon(0.005)
    assert lesson_epsilon(1.0, steps=0) == 0
    for bad in (
        {"noise_multiplier": -1},
        {"noise_multiplier": 1, "delta": 1},
        {"noise_multiplier": 1, "steps": 0.5},
    ):
        with pytest.raises(ValueError, match=" must be "):
            lesson_epsilon(**bad)


def test_the_formula_is_wrong_both_ways():
    steps = EPOCHS * TRAINING
    for sigma in SIGMAS[1:]:
        assert lesson_epsilon(sigma) < exact_epsilon(sigma, steps, sensitivity=1)
        assert lesson_epsilon(sigma) > exact_epsilon(sigma, EPOCHS, sensitivity=SEPARATE_CLIPPING)
    # Even in the reading in which it is too large, little noise turns it: the exact loss grows as 1/sigma^2.
    assert lesson_epsilon(0.02) < exact_epsilon(0.02, EPOCHS, sensitivity=SEPARATE_CLIPPING)
    assert exact_epsilon(0, EPOCHS, sensitivity=1) == np.inf


def test_bad_arguments():
    x, y = np.zeros((2, 2)), np.zeros(2)
    run = (x, y, np.array([0]), np.zeros((1, 3)))
    for bad in ({"noise_multiplier": -1}, {"noise_multiplier": 0, "clipping_norm": 0}):
        with pytest.raises(ValueError, match=" must be in "):
            record_by_record(*run, **bad)
    with pytest.raises(ValueError, match="learning_rate must be in"):
        record_by_record(*run, 0, 1, 0)
    with pytest.raises(ValueError, match="sensitivity must be in"):
        exact_epsilon(1, 10, sensitivity=0)
    with pytest.raises(ValueError, match="noise_multiplier must be in .* got -1$"):
        exact_epsilon(-1, 10, sensitivity=2)
