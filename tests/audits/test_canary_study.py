"""The task, its three designs in one model, what is saved, and that audits keep the account."""

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.canary_designs import own_share
from dprepro.audits.canary_one_run import one_run_audit
from dprepro.audits.canary_study import DESIGNS, collected, mechanism, movie_task, run, trainings
from dprepro.mechanisms.accounting import dp_sgd_epsilon

TASK = {"records": 300, "each": 60, "features": 64, "norm": 4.0, "data_seed": 1}
SGD = {"clipping_norm": 1.0, "sample_rate": 0.1, "steps": 60, "learning_rate": 1.0}


def test_task():
    task = movie_task(**TASK)
    assert task.each == 60
    assert task.x.shape == (300, 64 + 120)
    assert set(task.y) == set(task.canaries_y) == {0.0, 1.0}
    norms = np.linalg.norm(task.canaries_x, axis=1)
    assert np.all((np.abs(norms - 4) < 1e-9) | (norms == 0))  # a snippet of stop words alone is 0
    assert not task.x[:, 64:].any()
    arbitrary, marked, own = np.split(task.canaries_x, 3)
    shares = [own_share(part[:5], task.x) for part in (arbitrary, marked, own)]
    assert shares[0].max() < 1e-7 < 0.6 < shares[1].min() < 0.75 < shares[2].min()
    shared = {tuple(row) for row in arbitrary} & {tuple(row) for row in task.x}
    assert len(shared) <= 2  # of 7,300 short snippets a few are alike in 64 columns


def test_levels():
    assert mechanism("0.5", **SGD).noise_multiplier == 0.5
    assert mechanism("plain", **SGD).noise_multiplier == 0
    assert mechanism("plain", **SGD).clipping_norm > 1e5
    assert mechanism("flawed 2", **SGD).noise_multiplier == pytest.approx(0.2)
    with pytest.raises(ValueError, match="could not convert"):
        mechanism("none", **SGD)


def test_designs_on_the_same_model():
    task, rng = movie_task(**TASK), np.random.default_rng(2)
    sgd = mechanism("0", **SGD)
    reference = sgd.fit(task.x, task.y, rng)
    found = run(task, sgd, reference, rng)
    audits = [one_run_audit(found.scores[1, d], found.included[d], 0.0, rng=rng) for d in range(3)]
    assert audits[2].correct == audits[2].guesses
    assert audits[0].epsilon_low < audits[2].epsilon_low
    assert found.scores.shape == (2, len(DESIGNS), 60)
    # The drop is the reference's loss less the model's.
    losses = reference.loss(task.canaries_x, task.canaries_y).reshape(3, 60)
    np.testing.assert_allclose(found.scores[1] - found.scores[0], losses)


def test_bound_exceeds_the_account_in_at_most_five_per_cent():
    task, rng, runs = movie_task(**TASK), np.random.default_rng(3), 60
    sgd = mechanism("4", **SGD)
    claimed = dp_sgd_epsilon(4, 0.1, 60, 1e-5)
    reference = mechanism("0", **SGD).fit(task.x, task.y, rng)
    above = 0
    for _ in range(runs):
        found = run(task, sgd, reference, rng)
        for d in range(3):
            above += one_run_audit(found.scores[1, d], found.included[d], 1e-5, claimed=claimed).violation
    assert stats.binomtest(above, 3 * runs, 0.05, alternative="greater").pvalue > 1e-4


def test_planted_noise_for_the_wrong_average_is_convicted():
    task, rng = movie_task(**TASK), np.random.default_rng(4)
    reference = mechanism("0", **SGD).fit(task.x, task.y, rng)
    claimed = dp_sgd_epsilon(4, 0.1, 60, 1e-5)
    verdicts = {}
    for level in ("4", "flawed 4"):
        found = run(task, mechanism(level, **SGD), reference, rng)
        verdicts[level] = one_run_audit(found.scores[1, 2], found.included[2], 1e-5, claimed=claimed)
    assert verdicts["flawed 4"].violation
    assert not verdicts["4"].violation


def test_what_is_saved():
    sizes = {**TASK, **SGD, "steps": 5, "guesses": [15, 3], "kept": 2, "fpr": 0.05}
    items = {f"1, {k}": trainings(f"1, {k}", np.random.default_rng(k), runs=3, **sizes) for k in range(2)}
    right = collected(items, "1", "own token, drop, right 15")
    assert right.shape == (6,)
    assert right.tolist() == [value for item in items.values() for value in item["own token, drop, right 15"]]
    assert collected(items, "1", "arbitrary, scores").shape == (6, 2)
    assert set(collected(items, "1", "arbitrary, included").ravel()) <= {0, 1}
    with pytest.raises(ValueError, match="level must be one of '1'"):
        collected(items, "2", "accuracy")
    with pytest.raises(ValueError, match="quantity must be one of 'accuracy'"):
        collected(items, "1", "own token, drop, right 14")
    again = trainings("1, 0", np.random.default_rng(0), runs=3, **sizes)
    assert again == items["1, 0"]
