"""The confidence-score attack against brute force, simulated draws among ties, and the exact optimum."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dprepro.audits.confidence_defences import hide, quantise, truncate
from dprepro.audits.inversion import (
    Rate,
    Reidentification,
    fill_in,
    guess_membership,
    invert_attribute,
    pooled,
    reidentify,
)
from dprepro.stats.bounds import clopper_pearson


def rows(n, classes=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), size=n)


def different(shown):
    return np.unique(shown, axis=0).shape[0]


@pytest.mark.parametrize("defence", [hide, lambda p: truncate(p, 1), lambda p: quantise(p, 3), lambda p: p])
def test_who_knows_the_candidates_reaches_the_optimum_and_nothing_more(defence):
    # A fixed function of the record: the best of all attacks is right once for each different row.
    shown = defence(rows(60))
    for matching in ("nearest", "assignment"):
        found = reidentify(shown, shown, matching=matching, rng=np.random.default_rng(1))
        assert found.success.sum() == pytest.approx(different(shown))
        assert found.candidates == 60


def drawn(distance, owner, rng, draws):
    """Share of right matches when the nearest candidate is chosen and ties are drawn."""
    jitter = 1e-9 * rng.random((draws, *distance.shape))
    return (np.argmin(distance + jitter, axis=2) == owner).mean(axis=0)


def test_success_and_rank_are_those_of_random_draws_among_ties():
    exposed, predicted = quantise(rows(8, seed=1), 3), quantise(rows(12, seed=2), 3)
    owner = np.array([0, 1, 2, 3, 4, 5, 6, 6])
    distance = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in predicted] for a in exposed])
    found = reidentify(exposed, predicted, owners=owner)
    share = drawn(distance, owner, np.random.default_rng(3), 4000)
    assert (found.success > 0).any()
    assert found.success == pytest.approx(share, abs=4 * np.sqrt(0.25 / 4000))
    for i, j in enumerate(owner):
        closer = (distance[i] < distance[i, j] - 1e-12).sum()
        tied = (abs(distance[i] - distance[i, j]) <= 1e-12).sum()
        assert found.rank[i] == np.mean(np.arange(closer + 1, closer + tied + 1))


def test_equal_scores_tell_nothing():
    # Position must not count: the solver of assignments alone would be right every time.
    same = np.full((50, 2), 0.5)
    for matching in ("nearest", "assignment"):
        found = reidentify(same, same, matching=matching, rng=np.random.default_rng(0))
        assert found.success == pytest.approx(np.full(50, 1 / 50))
        assert found.rank == pytest.approx(np.full(50, 25.5))


def test_equally_good_assignments_are_drawn_from():
    # Both scores lie half-way between both candidates: the solver alone would settle it by position, rightly.
    right = [
        reidentify(
            [0.5, 0.5], [0.25, 0.75], matching="assignment", rng=np.random.default_rng(seed)
        ).success.sum()
        for seed in range(400)
    ]
    assert set(right) == {0, 2}
    assert stats.binomtest(int(np.sum(right)) // 2, 400, 0.5).pvalue > 1e-3
    assert reidentify([0.5, 0.5], [0.25, 0.75]).success.tolist() == [0.5, 0.5]


def test_rounding_of_another_batch_neither_makes_nor_breaks_a_tie():
    p = np.repeat([0.2, 0.7], 5)
    moved = p + 1e-16 * np.arange(10)
    for exposed, predicted in ((moved, p), (p, moved)):
        found = reidentify(exposed, predicted)
        assert found.success == pytest.approx(np.full(10, 0.2))
        assert found.rank == pytest.approx(np.full(10, 3.0))


def test_assignment_against_all_permutations():
    orders = np.array(list(permutations(range(5))))
    otherwise = 0
    for seed in range(30):
        exposed, predicted = rows(5, seed=seed), rows(5, seed=100 + seed)
        cost = ((exposed[:, None] - predicted) ** 2).sum(axis=2)
        best = orders[cost[np.arange(5), orders].sum(axis=1).argmin()]
        found = reidentify(exposed, predicted, matching="assignment", rng=np.random.default_rng(0))
        assert found.success.tolist() == (best == np.arange(5)).tolist()
        plain = orders[np.sqrt(cost)[np.arange(5), orders].sum(axis=1).argmin()]
        otherwise += not np.array_equal(plain == np.arange(5), best == np.arange(5))
    assert otherwise > 0  # where the least sum of plain distances would have given another answer


def test_assignment_with_twins_against_all_permutations():
    # Candidates 0 and 1 have one row: every best assignment counts alike.
    predicted = rows(5, seed=6)
    predicted[1] = predicted[0]
    exposed = np.clip(predicted + 0.05 * np.random.default_rng(7).normal(size=predicted.shape), 0, 1)
    cost = ((exposed[:, None] - predicted) ** 2).sum(axis=2)
    totals = {order: cost[np.arange(5), list(order)].sum() for order in permutations(range(5))}
    best = [order for order, total in totals.items() if total <= min(totals.values()) + 1e-12]
    assert len(best) == 2
    expected = np.mean([np.equal(order, range(5)) for order in best], axis=0)
    found = reidentify(exposed, predicted, matching="assignment", rng=np.random.default_rng(0))
    assert found.success == pytest.approx(expected)


def test_one_to_one_uses_what_the_other_scores_tell():
    # All scores shifted alike: each alone is nearest to a neighbour, together they can only be in order.
    candidates = np.linspace(0.1, 0.8, 8)
    shifted = candidates + 0.08
    alone = reidentify(shifted, candidates)
    together = reidentify(shifted, candidates, matching="assignment", rng=np.random.default_rng(0))
    assert alone.success.sum() <= 1
    assert together.success.sum() == 8


def test_fewer_scores_than_candidates():
    candidates = rows(30)
    owners = [3, 17, 8]
    for matching in ("nearest", "assignment"):
        found = reidentify(
            candidates[owners], candidates, owners=owners, matching=matching, rng=np.random.default_rng(0)
        )
        assert found.success.tolist() == [1, 1, 1]
        assert found.candidates == 30


def test_several_models_side_by_side_tell_more_than_one():
    scores = [quantise(rows(100, 2, seed), 3) for seed in range(4)]
    rates = [reidentify(*[np.hstack(scores[:k])] * 2).success.mean() for k in (1, 2, 4)]
    assert rates == pytest.approx([different(np.hstack(scores[:k])) / 100 for k in (1, 2, 4)])
    assert rates[0] < rates[1] < rates[2]


@pytest.mark.parametrize("training", ["random weights", "fitted without them"])
def test_a_model_that_never_saw_a_record_re_identifies_it(training):
    # The finding of the notebook as a test: no epsilon of the training limits it, not even 0.
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 5))
    if training == "random weights":
        weights = rng.normal(size=5)
    else:
        other = rng.normal(size=(200, 5))
        weights = np.linalg.lstsq(other, np.sign(other[:, 0]), rcond=None)[0]
    p = expit(x @ weights)
    assert reidentify(p, p).success.mean() == 1
    assert reidentify(hide(p), hide(p)).success.mean() == pytest.approx(2 / 200)


def test_limits_are_those_of_clopper_and_pearson_on_the_safe_side():
    assert Rate.of(7, 20, 0.05)[3:] == tuple(map(float, clopper_pearson(7, 20, 0.05)))
    between = Rate.of(7.4, 20, 0.05)
    assert between.rate == pytest.approx(0.37)
    assert between.low == Rate.of(7, 20, 0.05).low
    assert between.high == Rate.of(8, 20, 0.05).high
    assert Rate.of(sum([1 / 49] * 49), 49, 0.05) == Rate.of(1, 49, 0.05)
    assert Rate.of(0, 5, 0.05).low == 0
    assert Rate.of(5, 5, 0.05).high == 1


@pytest.mark.parametrize("cells", [4, 30, 1000])
def test_pooled_limits_hold_the_mean_over_random_logs(cells):
    # N scores over equally likely cells: the exact mean of different rows is cells (1 - (1 - 1/cells)^N).
    n, logs, repeats = 20, 5, 2000
    exact = cells * (1 - (1 - 1 / cells) ** n) / n
    drawn = np.random.default_rng(cells).integers(cells, size=(repeats, logs, n))
    missed = 0
    for batch in drawn:
        results = []
        for log in batch:
            _, place, count = np.unique(log, return_inverse=True, return_counts=True)
            results.append(Reidentification(n, 1 / count[place], np.ones(n)))
        rate = pooled(results)
        missed += not rate.low <= exact <= rate.high
    assert stats.binom.sf(missed - 1, repeats, 0.05) > 1e-3


def test_filling_in_recovers_what_the_known_columns_determine():
    rng = np.random.default_rng(9)
    first = rng.normal(size=(60, 2))
    records = np.column_stack([first, first @ [2.0, -1.0] + 3, rng.normal(size=60)])
    filled = fill_in(records[:20], [0, 1], records[20:])
    assert filled[:, :3] == pytest.approx(records[:20, :3])
    assert np.abs(filled[:, 3] - records[20:, 3].mean()).max() < 1
    assert np.array_equal(fill_in(records, range(4), records), records)
    nothing = fill_in(records[:20], [], records[20:])
    assert nothing == pytest.approx(np.tile(records[20:].mean(axis=0), (20, 1)))


def attribute_case(seed=10, n=400):
    """Binary attribute in column 0 that goes with column 1, and a model that weighs it."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    x = np.column_stack([truth, truth + rng.normal(size=n)]).astype(float)
    weights = np.array([0.7, 1.1])

    def score(value):
        changed = x.copy()
        changed[:, 0] = value
        return expit(changed @ weights - 0.5)

    return truth, expit(x @ weights - 0.5), [score(0), score(1)]


def test_an_exact_score_gives_an_attribute_away_and_a_label_hardly():
    truth, exposed, predicted = attribute_case()
    assert invert_attribute(exposed, predicted, truth, [0.5, 0.5]).rate == 1
    shown = [hide(p) for p in (exposed, *predicted)]
    assert 0.5 < invert_attribute(shown[0], shown[1:], truth, [0.5, 0.5]).rate < 0.8


def test_without_a_score_the_prior_decides():
    truth, _, _ = attribute_case()
    same = np.full(truth.size, 0.5)
    assert invert_attribute(same, [same, same], truth, [0.1, 0.9]).rate == truth.mean()
    assert invert_attribute(same, [same, same], truth, [1, 1]).rate == 0.5
    own = np.eye(2)[truth]  # a prior for each record, here the truth
    assert invert_attribute(same, [same, same], truth, own).rate == 1


def test_the_prior_settles_ties_only():
    predicted = [np.array([0.2, 0.2]), np.array([0.2, 0.4]), np.array([0.9, 0.9])]
    found = invert_attribute([0.2, 0.39], predicted, [1, 1], [0.1, 0.3, 0.6])
    assert found.successes == 2
    assert invert_attribute([0.2, 0.39], predicted, [0, 2], [0.1, 0.3, 0.6]).successes == 0


def test_membership_guesses_by_hand():
    # In the seen half members score higher than all others, so the threshold separates the tested half as well.
    member = np.arange(400) % 2
    clear = guess_membership(member + 0.0, member, np.random.default_rng(0))
    assert (clear.successes, clear.trials, clear.rate) == (200, 200, 1)
    half = np.repeat([0, 1], 200)
    constant = guess_membership(np.zeros(400), half, np.random.default_rng(0))
    assert constant.low < 0.5 < constant.high


def test_membership_of_scores_without_a_signal_is_a_coin():
    rng = np.random.default_rng(11)
    successes = trials = 0
    for _ in range(200):
        found = guess_membership(rng.random(60), rng.integers(2, size=60), rng)
        successes, trials = successes + found.successes, trials + found.trials
    assert stats.binomtest(int(successes), trials, 0.5).pvalue > 1e-3


def test_membership_finds_a_signal_of_known_size():
    rng = np.random.default_rng(12)
    member = rng.integers(2, size=20_000)
    found = guess_membership(rng.normal(size=20_000) + 1.0 * member, member, rng)
    best = stats.norm.cdf(0.5)  # threshold half-way between the means
    assert found.low - 0.005 < best < found.high + 0.005


P = rows(4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: reidentify([[0.5, 1.5]], P), r"exposed must be in \[0, 1\], got 1.5"),
        (lambda: reidentify(P, [[0.5, np.nan, 0.5]]), "predicted must be in"),
        (lambda: reidentify(P, rows(4, 2)), "rows as long as exposed, 3, got 2"),
        (lambda: reidentify(P, rows(5)), "one row for each of the 4 exposed without owners, got 5"),
        (lambda: reidentify(rows(5), P), "one row for each of the 5 exposed without owners, got 4"),
        (lambda: reidentify(P, rows(5), owners=[0, 1, 2, 5]), r"owners must be in \[0, 4\], got 5"),
        (lambda: reidentify(P, rows(5), owners=[0, 1]), r"owners must have shape \(4,\)"),
        (lambda: reidentify(P, P, matching="hungarian"), "matching must be one of"),
        (lambda: reidentify(P, P, matching="assignment"), "rng must be"),
        (
            lambda: reidentify(
                rows(5), P, owners=[0, 1, 2, 3, 3], matching="assignment", rng=np.random.default_rng(0)
            ),
            "5 different candidates for matching='assignment', got 4 of 4",
        ),
        (lambda: reidentify([], P), "exposed must have shape"),
        (lambda: pooled([]), "results must hold at least one log"),
        (lambda: pooled([reidentify(P, P)], alpha=0), "alpha must be in"),
        (lambda: fill_in(P, [3], P), r"known must be in \[0, 2\], got 3"),
        (lambda: fill_in(P, [-1], P), "known must be a whole number"),
        (lambda: fill_in(P, [0], rows(4, 2)), "records and reference must have shapes"),
        (lambda: fill_in([[1.0, np.inf]], [0], [[0.0, 0.0]]), "records must be finite"),
        (lambda: invert_attribute(P, [P], [0] * 4, [1.0]), "at least two values, got 1"),
        (lambda: invert_attribute(P, [P, P[:2]], [0] * 4, [1, 1]), r"predicted\[1\] must have the shape"),
        (lambda: invert_attribute(P, [P, P], [0, 1, 2, 0], [1, 1]), r"truth must be in \[0, 1\], got 2"),
        (
            lambda: invert_attribute(P, [P, P], [0] * 4, [1, 1, 1]),
            r"prior must have shape \(2,\) or \(4, 2\)",
        ),
        (lambda: invert_attribute(P, [P, P], [0] * 4, [-1, 1]), "prior must be in"),
        (
            lambda: guess_membership([0.1, 0.2], [1], np.random.default_rng(0)),
            r"member must have shape \(2,\)",
        ),
        (lambda: guess_membership([0.1], [1], np.random.default_rng(0)), "at least 2"),
        (lambda: guess_membership([0.1, np.nan], [1, 0], np.random.default_rng(0)), "free of NaN"),
        (lambda: guess_membership([0.1, 0.2], [1, 2], np.random.default_rng(0)), "member must be in"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
