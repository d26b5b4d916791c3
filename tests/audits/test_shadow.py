"""Shadow attacks: loops over single records, a toy with a known best AUC, models that saw all or nothing."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dprepro.audits.ngram_design import half_and_half
from dprepro.audits.shadow import each_in_turn, lira, rmia, scaled_logits
from dprepro.stats.clustered_auc import clustered_auc
from dprepro.stats.tradeoff import auc


def table(rng, models=10, targets=6, population=7):
    """Confidences of one target model and of `models` shadow models, of targets and of a population."""
    p = expit(rng.normal(1, 1, (models + 1, targets + population)))
    return (
        p[0, :targets],
        p[0, targets:],
        p[1:, :targets],
        p[1:, targets:],
        half_and_half(models, targets, rng),
    )


def slow_lira(p, shadows, included, online, shared):
    logit = [math.log(v / (1 - v)) for v in p]
    sides = {True: [], False: []}
    for t in range(len(p)):
        for side in sides:
            values = [
                math.log(shadows[k, t] / (1 - shadows[k, t]))
                for k in range(len(shadows))
                if bool(included[k, t]) is side
            ]
            sides[side].append((np.mean(values), np.var(values, ddof=1)))
    found = []
    for t in range(len(p)):
        (mean_in, var_in), (mean_out, var_out) = sides[True][t], sides[False][t]
        if shared:
            var_in, var_out = (np.mean([v for _, v in sides[side]]) for side in (True, False))
        if online:
            one = stats.norm.logpdf(logit[t], mean_in, math.sqrt(var_in))
            found.append(one - stats.norm.logpdf(logit[t], mean_out, math.sqrt(var_out)))
        else:
            found.append(stats.norm.cdf(logit[t], mean_out, math.sqrt(var_out)))  # 1 - Pr[N > logit]
    return found


def slow_rmia(p, z, shadows, shadows_z, included, online, a, gamma):
    found = []
    for t in range(len(p)):
        out = np.mean([shadows[k, t] for k in range(len(shadows)) if not included[k, t]])
        if online:
            usual = (out + np.mean([shadows[k, t] for k in range(len(shadows)) if included[k, t]])) / 2
        else:
            usual = (out + a * out + 1 - a) / 2
        beaten = 0
        for j in range(len(z)):
            usual_z = np.mean(shadows_z[:, j])
            if not online:
                usual_z = (usual_z + a * usual_z + 1 - a) / 2
            beaten += (p[t] / usual) / (z[j] / usual_z) >= gamma
        found.append(beaten / len(z))
    return found


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_lira_is_the_loop_over_records(online, shared):
    p, _, shadows, _, included = table(np.random.default_rng(1))
    found = lira(p, shadows, included, online=online, shared_variance=shared)
    found = found if online else stats.norm.cdf(found)
    np.testing.assert_allclose(found, slow_lira(p, shadows, included, online, shared), rtol=1e-10)


@pytest.mark.parametrize(("online", "gamma"), [(True, 1.0), (True, 1.3), (False, 1.0)])
def test_rmia_is_the_loop_over_pairs(online, gamma):
    p, z, shadows, shadows_z, included = table(np.random.default_rng(2), population=31)
    found = rmia(p, z, shadows, shadows_z, included, online=online, a=0.4, gamma=gamma)
    assert found.tolist() == slow_rmia(p, z, shadows, shadows_z, included, online, 0.4, gamma)
    assert len(set(found)) > 1  # the case tells records apart


def test_a_hand_worked_rmia():
    """p(x) = .5, so x gains 1.6; z gains .5, 1.6 and 2: it beats one, and ties with one, which counts."""
    shadows = np.array([[0.6], [0.4]])
    found = rmia([0.8], [0.25, 0.8, 0.9], shadows, [[0.5, 0.5, 0.45]] * 2, [[1], [0]])
    assert found == pytest.approx([2 / 3])
    # With a = 1, offline, the in models count for out models: p(x) = .4 and x gains 2.
    found = rmia([0.8], [0.25, 0.8, 0.9], shadows, [[0.5, 0.5, 0.45]] * 2, [[1], [0]], online=False, a=1)
    assert found == pytest.approx([1])
    # With a = 0 all in models are sure: p(x) = .7, p(z) = .75 .75 .725; gains 1.14 against .33 1.07 1.24.
    found = rmia([0.8], [0.25, 0.8, 0.9], shadows, [[0.5, 0.5, 0.45]] * 2, [[1], [0]], online=False, a=0)
    assert found == pytest.approx([2 / 3])


def gaussian_models(rng, models, targets, gap):
    """Logits N(m_t, 1) out and N(m_t + gap, 1) in, the hardness m_t of a record varying much: confidences, coins."""
    included = half_and_half(models, targets, rng)
    logits = rng.normal(0, 3, targets) + gap * included + rng.standard_normal((models, targets))
    return expit(logits), included


def test_lira_reaches_the_best_auc_of_a_gaussian_toy():
    """No test of N(m, 1) against N(m + 1, 1) with m known has more than Phi(1/sqrt 2) = .7602."""
    p, included = gaussian_models(np.random.default_rng(3), 64, 300, 1.0)
    found = {
        online: clustered_auc(
            each_in_turn(lambda *given, o=online: lira(*given, online=o), p, included), included
        )
        for online in (True, False)
    }
    best = stats.norm.cdf(math.sqrt(0.5))
    for value in found.values():
        # With estimated means a little less: N(0, 1 + 1/32) and so on cost .006.
        assert best - 0.02 < value.value < best + 3 * value.error
    bare = auc(scaled_logits(p)[included], scaled_logits(p)[~included])
    assert bare == pytest.approx(
        stats.norm.cdf(1 / math.sqrt(2 * (9 + 1))), abs=0.02
    )  # N(0, 10) and N(1, 10)


def split_rmia(targets):
    return lambda own, others, inside: rmia(
        own[:targets], own[targets:], others[:, :targets], others[:, targets:], inside
    )


def attacks(targets):
    return {
        "lira": lambda own, others, inside: lira(own[:targets], others[:, :targets], inside),
        "lira, offline": lambda own, others, inside: lira(
            own[:targets], others[:, :targets], inside, online=False
        ),
        "rmia": split_rmia(targets),
    }


@pytest.mark.parametrize("name", ["lira", "lira, offline", "rmia"])
def test_a_memoriser_is_convicted_and_a_model_that_saw_nothing_is_not(name):
    rng = np.random.default_rng(4)
    models, targets, population = 16, 120, 40
    included = half_and_half(models, targets, rng)
    p = expit(
        rng.normal(0, 1, targets + population) + 0.3 * rng.standard_normal((models, targets + population))
    )
    memoriser = p.copy()
    memoriser[:, :targets][included] = 0.999
    attack = attacks(targets)[name]
    blind = clustered_auc(each_in_turn(attack, p, included), included, alpha=0.001)
    assert blind.low < 0.5 < blind.high
    assert blind.high - blind.low < 0.2
    sure = clustered_auc(each_in_turn(attack, memoriser, included), included)
    assert sure.value > 0.99
    assert sure.low > 0.7


def test_a_no_signal_table_stays_at_one_half_over_many_draws():
    """Taking a model out of its own shadows leaves 15 on one side and 16 on the other: no bias may come of it."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(25):
        p, included = gaussian_models(rng, 32, 60, 0.0)
        scores = each_in_turn(lira, p, included)
        found.append(auc(scores[included], scores[~included]))
    assert abs(np.mean(found) - 0.5) < 4 * np.std(found) / math.sqrt(len(found)) + 0.002
    assert np.std(found) < 0.03


def test_a_confidence_of_one_has_a_finite_logit():
    assert scaled_logits([0.5, 1.0]) == pytest.approx([0, 36.7368], abs=1e-3)
    found = lira([1.0], [[1.0], [1.0], [0.5], [0.5]], [[1], [1], [0], [0]])
    assert np.isfinite(found).all()
    assert found[0] > 0
    # All shadow models agree and so does the target: nothing to be told.
    assert lira([0.5], [[0.5]] * 4, [[1], [1], [0], [0]]).tolist() == [0.0]


P, COINS = [0.6, 0.7], [[1, 0], [1, 0], [0, 1], [0, 1]]
SHADOWS = [[0.5, 0.5]] * 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scaled_logits([0.0]), r"confidences must be in \(0, 1\], got 0"),
        (lambda: scaled_logits([1.5]), r"confidences must be in \(0, 1\], got 1.5"),
        (lambda: lira([math.nan, 0.5], SHADOWS, COINS), r"confidences must be in \(0, 1\], got nan"),
        (lambda: lira(P, [[0.5, 0.0]] * 4, COINS), r"shadows must be in \(0, 1\], got 0"),
        (
            lambda: lira(P, [[0.5] * 3] * 4, COINS),
            r"must have shapes \(T,\) and \(K, T\).*got \(2,\) and \(4, 3\)",
        ),
        (lambda: lira([], np.empty((4, 0)), np.empty((4, 0))), "T at least 1"),
        (lambda: lira(P, SHADOWS, COINS[:3]), r"included must be true or false.*got shape \(3, 2\)"),
        (lambda: lira(P, SHADOWS, [[2, 0]] * 4), "included must be true or false"),
        (lambda: lira(P, 0.5, COINS), r"must have shapes \(T,\) and \(K, T\).*got \(2,\) and \(\)"),
        (lambda: lira(P, SHADOWS, [[1], [0, 1]]), "included must be a number or an array of numbers"),
        (lambda: each_in_turn(lira, "ab", COINS), "confidences must be a number or an array of numbers"),
        (lambda: lira(P, SHADOWS[:3], COINS[:3]), r"at least 2 .* record in, got 1 of 3 for record 1"),
        (lambda: lira(P, SHADOWS, [[1, 0]] * 4), "record in, got 0 of 4 for record 1"),
        (lambda: lira(P, SHADOWS, [[1, 1]] * 4, online=False), "record out, got 0 of 4 for record 0"),
        (lambda: rmia(P, [0.5], SHADOWS, [[0.5]] * 4, [[1, 1]] * 4), "at least 1 .* record out, got 0"),
        (lambda: rmia(P, [0.5], SHADOWS, [[0.5]] * 3, COINS), r"population .*got \(1,\) and \(3, 1\)"),
        (lambda: rmia(P, [], SHADOWS, np.empty((4, 0)), COINS), "Z at least 1"),
        (lambda: rmia(P, [0.0], SHADOWS, [[0.5]] * 4, COINS), r"population must be in \(0, 1\], got 0"),
        (lambda: rmia(P, [0.5], SHADOWS, [[0.5]] * 4, COINS, a=1.1), r"a must be in \[0, 1\], got 1.1"),
        (lambda: rmia(P, [0.5], SHADOWS, [[0.5]] * 4, COINS, gamma=0), "gamma must be in"),
        (lambda: each_in_turn(lira, [[0.5]], [[1]]), "two models or more"),
        (lambda: each_in_turn(lira, SHADOWS, COINS[:2]), r"got shapes \(4, 2\) and \(2, 2\)"),
        (lambda: each_in_turn(lira, SHADOWS, COINS), "got 1 of 3"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_offline_needs_no_in_model():
    out_only = [[0, 0]] * 4
    assert lira(P, [[0.4, 0.5], [0.5, 0.6]] * 2, out_only, online=False).shape == (2,)
    assert rmia(P, [0.5], SHADOWS, [[0.5]] * 4, out_only, online=False).tolist() == [1.0, 1.0]
