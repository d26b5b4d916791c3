"""The rule of the shadow study on planted tables, and the largest area that epsilon and delta allow."""

import numpy as np
import pytest
from scipy.special import expit

from dprepro.audits import shadow
from dprepro.audits.ngram_design import half_and_half
from dprepro.audits.synbench_shadow_report import (
    ATTACKS,
    OFFLINE,
    Compared,
    attack_scores,
    compare,
    largest_auc,
    overall,
)
from dprepro.stats.clustered_auc import auc_difference, clustered_auc

MARGIN = 0.025


def planted(rng, gap, included, population=30):
    """Confidences whose logits rise by `gap` where a model saw the text."""
    models, targets = included.shape
    logits = rng.normal(0, 1, targets + population) + 0.5 * rng.standard_normal(
        (models, targets + population)
    )
    logits[:, :targets] += gap * included
    return expit(logits)


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(7)
    included = half_and_half(20, 80, rng)
    return included, {gap: attack_scores(planted(rng, gap, included), included) for gap in (0.0, 0.8)}


def test_scores_are_those_of_the_attacks(tables):
    included = half_and_half(6, 5, np.random.default_rng(1))
    p = planted(np.random.default_rng(2), 1.0, included, population=4)
    found = attack_scores(p, included)
    assert tuple(found) == (*ATTACKS, *OFFLINE)
    rest = [0, 1, 2, 4, 5]
    given = p[3, :5], p[rest][:, :5], included[rest]
    assert found["LiRA"][3] == pytest.approx(shadow.lira(*given))
    assert found["LiRA, offline"][3] == pytest.approx(shadow.lira(*given, online=False))
    for online, name in ((True, "RMIA"), (False, "RMIA, offline")):
        again = shadow.rmia(given[0], p[3, 5:], given[1], p[rest][:, 5:], given[2], online=online)
        assert found[name][3].tolist() == again.tolist()
    assert found["Logits"][3] == pytest.approx(np.log(given[0] / (1 - given[0])))


@pytest.mark.parametrize("attack", [*ATTACKS, *OFFLINE])
def test_a_planted_leak_decides_the_rule_either_way(tables, attack):
    included, scores = tables
    blind, leaky = scores[0.0][attack], scores[0.8][attack]
    found = compare(leaky, blind, included, MARGIN)
    assert found.outcome == "HOLDS"
    assert found.synthetic == clustered_auc(leaky, included)
    assert found.private == clustered_auc(blind, included)
    assert found.difference == auc_difference(leaky, blind, included)
    assert compare(blind, leaky, included, MARGIN).outcome == "FAILS"
    # The same classifiers: no difference at all, and its interval has no width.
    assert compare(blind, blind, included, MARGIN).outcome in ("FAILS", "UNDECIDED")


def test_rule_at_its_borders(tables):
    included, scores = tables
    blind = scores[0.0]["Logits"]
    other = blind[:, ::-1]
    difference = auc_difference(blind, other, included)
    assert difference.low < 0 < difference.high
    assert compare(blind, other, included, difference.high + 1e-9).outcome == "FAILS"
    assert compare(blind, other, included, difference.high).outcome == "UNDECIDED"
    with pytest.raises(ValueError, match="margin must be in"):
        compare(blind, other, included, -0.1)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["FAILS", "FAILS", "FAILS"], "FAILS"),
        (["FAILS", "UNDECIDED", "FAILS"], "UNDECIDED"),
        (["HOLDS", "UNDECIDED", "UNDECIDED"], "HOLDS"),
        (["HOLDS", "FAILS", "UNDECIDED"], "UNDECIDED"),
        (["UNDECIDED"], "UNDECIDED"),
    ],
)
def test_attacks_together(outcomes, expected):
    found = {str(number): Compared(None, None, None, outcome) for number, outcome in enumerate(outcomes)}
    assert overall(found) == expected
    with pytest.raises(ValueError, match="at least one attack"):
        overall({})


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (0.5, 0.1), (2, 0.005), (4, 0), (np.inf, 0), (1, 1)])
def test_largest_area_is_that_below_the_border_of_the_privacy_region(epsilon, delta):
    fpr = (np.arange(200_000) + 0.5) / 200_000
    grow = np.minimum(np.exp(min(epsilon, 700)) * fpr + delta, 1)
    border = np.clip(np.minimum(grow, 1 - np.exp(-epsilon) * (1 - delta - fpr)), 0, 1)
    assert largest_auc(epsilon, delta) == pytest.approx(border.mean(), abs=1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, 1.5), (np.nan, 0)])
def test_bad_budgets_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must be in"):
        largest_auc(epsilon, delta)
