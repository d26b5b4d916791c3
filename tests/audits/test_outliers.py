"""Outliers by distance and by density: by hand, against brute force, and with copies."""

import numpy as np
import pytest

from dprepro.audits.outliers import find_outliers

RNG = np.random.default_rng


def factors_by_definition(points, k):
    """Breunig et al. (2000), definitions 3 to 7, for points whose distances all differ."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    order = distance.argsort(axis=1)[:, 1 : k + 1]
    k_distance = np.take_along_axis(distance, order[:, -1:], axis=1)[:, 0]
    density = np.array(
        [1 / np.mean([max(k_distance[o], distance[p, o]) for o in order[p]]) for p in range(len(points))]
    )
    return np.array([density[order[p]].mean() / density[p] for p in range(len(points))])


def test_factors_are_those_of_the_definition():
    points = RNG(1).normal(size=(60, 3))
    assert find_outliers(points, neighbours=7).factor == pytest.approx(
        factors_by_definition(points, 7), rel=1e-6
    )


def test_far_and_local_outliers_are_different_things():
    rng = RNG(2)
    wide, tight = 6 * rng.random((100, 2)) - 3, 0.01 * rng.normal(size=(100, 2)) + [20.0, 0.0]
    points = np.vstack([wide, tight, [[-15.0, 15.0]], [[20.3, 0.0]]])
    found = find_outliers(points, share=0.01)
    assert found.far.tolist()[0] == 200
    assert set(found.local) == {200, 201}, "beside a tight cluster, far from nothing"
    assert found.worst.tolist()[0] == 200
    assert sorted(found.worst) == sorted({*found.far, *found.local})


def test_the_worst_take_both_rankings_in_turn():
    points = RNG(3).normal(size=(300, 4))
    found = find_outliers(points, share=0.05)
    assert len(found.far) == len(found.local) == 15
    ranked = [number for pair in zip(found.far, found.local, strict=True) for number in pair]
    assert found.worst.tolist() == list(dict.fromkeys(ranked))


def test_copies_change_no_outlier_and_are_counted():
    """One text fifty times gives factors of millions where copies stay in."""
    points = RNG(4).normal(size=(200, 8))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    plain = find_outliers(points)
    # Copies as an embedder gives them: in any place, the last bits different.
    copies = np.repeat(points[[17]], 50, axis=0) + 1e-8 * RNG(5).normal(size=(50, 8))
    crowded = find_outliers(np.vstack([points, copies]))
    assert crowded.copies == 50
    assert crowded.worst.tolist() == plain.worst.tolist()
    assert crowded.distance[:200] == pytest.approx(plain.distance)
    assert crowded.factor[:200] == pytest.approx(plain.factor)
    assert crowded.factor[200:] == pytest.approx(np.full(50, plain.factor[17]))
    assert "50 copies were left out" in str(crowded)
    assert "200 different texts" in str(crowded)


def test_a_point_beside_copies_is_an_inlier():
    points = np.concatenate([np.full(10, 0.1), np.linspace(0.1, 0.2, 30), [0.1069]])[:, None] * 100
    found = find_outliers(points, neighbours=5)
    assert found.copies == 10
    assert found.factor[-1] < 1.2


def test_bad_vectors_are_refused():
    with pytest.raises(ValueError, match=r"more than neighbours=20 different ones, got 20 among 25"):
        find_outliers(np.vstack([np.eye(20), np.eye(20)[:5]]))
    with pytest.raises(ValueError, match=r"more than neighbours=20 different ones, got 0 among 0"):
        find_outliers(np.empty((0, 3)))
    with pytest.raises(ValueError, match=r"vectors must be a matrix"):
        find_outliers(np.arange(30.0))
    with pytest.raises(ValueError, match=r"vectors must be finite"):
        find_outliers(np.full((30, 2), np.nan))
    for share in (0, 1.5, -0.1):
        with pytest.raises(ValueError, match=r"share must be in \(0, 1\]"):
            find_outliers(np.eye(30), share=share)
    with pytest.raises(ValueError, match=r"neighbours must be a whole number of at least 1"):
        find_outliers(np.eye(30), neighbours=0)
