"""Audits of saved clean outputs: which runs each design takes, cells, orderings, the variance of success, tails."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dprepro.audits import open_model
from dprepro.audits.open_model import BLOCKS, EPSILONS, UNIVERSE, clean, mechanism, report
from dprepro.audits.open_model_report import by_betting, cells, ordering, stand_in, success_variance, tails
from dprepro.audits.snapshot import Snapshot
from dprepro.mechanisms.in_context.embedding import EmbeddingSpaceAggregation

REPLY = "no comment today"


class Words:
    """A word is a coordinate by its letters; sums have norm one."""

    def encode(self, texts):
        rows = np.zeros((len(texts), 50))
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[sum(map(ord, word)) % 50] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def blocks(runs, odd=0):
    """A saved result with `runs` equal runs, but for the first `odd`, in which an answer says no label."""
    without = [[0, 2, 0]] * odd + [[0, 3, 0]] * (runs - odd)
    logs = np.log([0.01, 0.98, 0.01])
    canary = np.log([0.01, 0.01, 0.98])
    return {
        "votes, one label, copying, 0": {
            "without_canary": np.ravel(without).tolist(),
            "with_canary": np.add(without, [0, -1, 1]).ravel().tolist(),
        },
        "experts, one label, copying, 0": {
            "without_canary": np.tile(logs, (runs, 3, 1)).ravel().tolist(),
            "with_canary": np.tile([logs, logs, canary], (runs, 1, 1)).ravel().tolist(),
        },
        "texts, one reply, copying, 0": {
            "without_canary": "\n".join([REPLY] * 3 * runs),
            "with_canary": "\n".join([REPLY, "maroon", REPLY] * runs),
        },
        "texts, replies, copying, 0": {"without_canary": "what a day\n\nwell\nwhat a day", "with_canary": ""},
    }


@pytest.fixture
def saved(monkeypatch):
    found = {}
    monkeypatch.setattr(open_model.results, "load", lambda name: found[name])
    monkeypatch.setattr(open_model, "embedder", lambda **_: Words())
    found["snapaudit_fixed_data"], found["snapaudit_open_model"] = blocks(40), blocks(60, odd=20)
    return found


def audits(key, seed=0, **sizes):
    options = {"active": 2, "passive": 3, "n_sample": 1_000, "trials": 2_000, **sizes}
    return report(key, np.random.default_rng(seed), **options)


def rows(item, kind):
    return np.reshape(item[f"white, {kind}"], (len(EPSILONS), -1))


@pytest.mark.parametrize("name", BLOCKS)
def test_what_each_pipeline_put_out(saved, name):
    snapshot, candidates = clean(saved["snapaudit_fixed_data"], name)
    into, out = snapshot.with_canary[3], snapshot.without_canary[3]
    if name == "PV":
        np.testing.assert_array_equal([into, out], [[0, 2, 1], [0, 3, 0]])
    if name == "PoE":
        assert mechanism("PoE", 1.0).separation(into, out) == pytest.approx((2 + 2 + 2 * np.log(0.98)) / 4)
    if name == "KSA":
        assert UNIVERSE[:3] == ("maroon", "comment", "today")
        np.testing.assert_array_equal(into, [1, 2, 2, *[0] * 6])
        np.testing.assert_array_equal(out, [0, 3, 3, *[0] * 6])
    if name == "ESA":
        pair = Words().encode(["maroon", REPLY])
        assert np.linalg.norm(into - out) == pytest.approx(np.linalg.norm(pair[0] - pair[1]) / 3)
        assert len(candidates) == 4  # the two answers, and two others
        np.testing.assert_allclose(candidates[:2] @ candidates[:2].T, pair @ pair.T, atol=1e-12)
        np.testing.assert_allclose(candidates[1], out, atol=1e-12)
    else:
        assert candidates is None


def test_fewer_coordinates_change_no_audit(saved, monkeypatch):
    """The noise is alike in all directions: a white box in the span proves what it proves in all 50 dimensions."""
    short, _ = clean(saved["snapaudit_fixed_data"], "ESA")
    esa = mechanism("ESA", 8.0)
    pair = Words().encode(["maroon", REPLY])
    long = np.array([pair[0] / 3 + pair[1] * 2 / 3, pair[1]])
    for threshold in (-1.0, 0.0, 2.0):
        one = esa.success(
            short.with_canary[:1], short.with_canary[0], short.without_canary[0], "white", threshold
        )
        other = EmbeddingSpaceAggregation(8.0, partitions=3).success(long[:1], *long, "white", threshold)
        np.testing.assert_allclose(one, other)


def test_designs_differ_in_what_varies(saved):
    fixed, redrawn = audits("fixed data, PV"), audits("redrawn, PV")
    assert (fixed["runs"], redrawn["runs"]) == (40, 60)
    assert rows(fixed, "active").shape == (5, 2)
    assert rows(fixed, "passive").shape == (5, 3)
    # The first run names an uncommon pair: the modal bound finds nothing, betting does, knowing the pairs more.
    assert not rows(redrawn, "active").any()
    known = audits("redrawn informed, PV")
    assert 0 < rows(redrawn, "active betting")[3].mean() < rows(known, "active")[3].mean() < 8
    one = audits("one deal, PV", trials=20_000)
    assert set(one) == {"runs", "white, passive", "black, passive"}
    assert one["runs"] == 20_000
    assert rows(fixed, "active")[3].mean() < rows(one, "passive")[3].mean() < 8.3
    assert "black, active betting" in fixed
    assert not any("betting" in kind for kind in known)


@pytest.mark.parametrize("name", ["ESA", "KSA"])
def test_generation(saved, name):
    found = audits(f"redrawn, {name}", n_sample=500, active=1, passive=1)
    printed = rows(found, "printed active").ravel()
    assert printed[0] < 1 < printed[3] < 9
    assert rows(found, "active").ravel()[3] < printed[3]


def test_the_same_seed_gives_the_same_audits(saved):
    sizes = {"n_sample": 300, "active": 1, "passive": 1}
    assert audits("fixed data, PoE", **sizes) == audits("fixed data, PoE", **sizes)
    assert audits("fixed data, PoE", 1, **sizes) != audits("fixed data, PoE", **sizes)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("loose data, PV", "design of the key must be one of 'fixed data', .* got 'loose data'"),
        ("redrawn, RAG", "mechanism of the key must be one of 'PV', .* got 'RAG'"),
    ],
)
def test_bad_keys(key, message):
    with pytest.raises(ValueError, match=message):
        audits(key)


@pytest.mark.parametrize("size", ["active", "passive", "n_sample", "trials"])
@pytest.mark.parametrize("value", [0, 1.5])
def test_bad_sizes(size, value):
    with pytest.raises(ValueError, match=f"{size} must be a whole number of at least 1, got {value}"):
        audits("one deal, PV", **{size: value})


def table(**means):
    """Cells by kind and view: {"active_white": [five numbers]}; errors of .1."""
    lines = [
        ("d", "PV", place.split("_")[1], place.split("_")[0], epsilon, 40, mean, 0.1)
        for place, values in means.items()
        for epsilon, mean in zip(EPSILONS, values, strict=True)
    ]
    names = ["design", "mechanism", "view", "kind", "epsilon", "runs", "mean", "error"]
    return pd.DataFrame(lines, columns=names)


def test_cells():
    item = {"runs": 40, "white, active": [1, 3, 2, 4, 3, 5, 4, 6, 5, 7]}
    found = cells({"fixed data, PV": item})
    assert found.iloc[1].tolist() == ["fixed data", "PV", "white", "active", 2.0, 40, 3.0, 1.0]
    assert len(found) == 5


def test_active_audits_by_betting_where_there_is_a_choice():
    kinds = {"white, active": [1.0] * 10, "white, passive": [2.0] * 10, "white, printed active": [5.0] * 10}
    found = cells(
        {
            "redrawn, PV": {"runs": 9, **kinds, "white, active betting": [3.0] * 10},
            "redrawn, PoE": {"runs": 9, **kinds},
            "one deal, PV": {"runs": 9, "white, passive": [4.0] * 10},
        }
    )
    kept = by_betting(found)
    assert kept.groupby(["mechanism", "kind"])["mean"].agg(["size", "max", "min"]).to_dict("index") == {
        ("PV", "active"): {"size": 5, "max": 3, "min": 3},
        ("PV", "passive"): {"size": 5, "max": 2, "min": 2},
        ("PoE", "active"): {"size": 5, "max": 1, "min": 1},
        ("PoE", "passive"): {"size": 5, "max": 2, "min": 2},
    }


def test_stand_ins_stand_below_the_printed_cells():
    kinds = {"white, active": [1.0] * 10, "white, printed active": [5.0] * 10, "white, passive": [2.0] * 10}
    found = cells(
        {
            "redrawn, PV": {"runs": 9, **kinds, "white, active betting": [3.0] * 10},
            "redrawn informed, PV": {"runs": 9, **kinds},
            "one deal, PV": {"runs": 99, "white, passive": [4.0] * 10},
            "fixed data, PV": {"runs": 4, **kinds},
        }
    )
    column = "White-PV (Active)"
    printed = pd.DataFrame(
        {"column": column, "row": "TREC", "epsilon": [16.0, *EPSILONS[:4]], "value_printed": list("54321")}
    )
    assert stand_in(found, printed) == [
        [column, "printed, TREC", "", *"43215"],
        [column, "stand-in, inferred", "9", *["5.0"] * 5],
        [column, "stand-in, valid", "9", *["3.0"] * 5],
        [column, "stand-in, valid, informed", "9", *["1.0"] * 5],
    ]


@pytest.mark.parametrize(
    ("passive", "outcome", "against"),
    [
        ([0, 1, 2, 3, 4], "HOLDS", 0),
        ([0, 1, 2, 3, 8.3], "UNDECIDED", 0),
        ([0, 1, 2, 3, 8.5], "FAILS", 1),
        ([0, 1, 2, 3, 8], "HOLDS", 0),
    ],
)
def test_orderings(passive, outcome, against):
    found = ordering(table(active_white=[1, 2, 3, 4, 8], passive_white=passive), "kind", "active", "passive")
    assert (found.outcome, found.n, len(found.against)) == (outcome, 5, against)
    assert found.effect == pytest.approx(np.mean(np.subtract([1, 2, 3, 4, 8], passive)))
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.02**0.5 / 5**0.5)
    if against:
        assert found.against.index[0] == ("d", "PV", "white", 16.0)
    views = ordering(table(active_white=[2] * 5, active_black=[1] * 5), "view", "white", "black")
    assert (views.outcome, views.effect) == ("HOLDS", 1)


def test_variance_of_success_by_hand():
    """A third of the runs lacks a vote: at the midpoint of the two likelihoods success is Phi(+-shift)."""
    into, out = np.tile([0.0, 2, 1], (60, 1)), np.tile([0.0, 3, 0], (60, 1))
    assert success_variance(Snapshot(into, out), "PV") < 1e-30
    out[::3, 1] = 2
    found = success_variance(Snapshot(into, out), "PV")
    # Along (0, -1, 1)/sqrt 2 such a run lies in the middle of the two: its success is 1/2 at a threshold of 0.
    sigmas = [mechanism("PV", epsilon).sigma for epsilon in EPSILONS]
    gaps = [0.5 - norm.cdf(-(0.5**0.5) / sigma) for sigma in sigmas]
    assert found == pytest.approx(max(gaps) ** 2 * (1 / 3) * (2 / 3) * 60 / 59, rel=0.02)
    # The first run is the uncommon one, and does not name the output to look for.
    assert success_variance(Snapshot(into[::-1], out[::-1]), "PV") == pytest.approx(found)


def test_tails():
    lines = {
        ("PV", "white"): [1, 2, 4, 8, 16], ("PV", "black"): [1, 2, 4, 8, 12],
        ("ESA", "white"): [1, 2, 4, 8, 16], ("ESA", "black"): [1, 2, 3, 6, 12],
        ("PoE", "white"): [1, 2, 4, 8, 10], ("PoE", "black"): [1, 2, 4, 5, 2],
        ("KSA", "white"): [1, 2, 4, 8, 8], ("KSA", "black"): [1, 2, 4, 5, 4],
    }  # fmt: skip
    found = pd.concat(
        [
            table(passive_white=v).assign(mechanism=name, view=view, error=0.01)
            for (name, view), v in lines.items()
        ]
    )
    judged = tails(found)
    assert {name: round(fall, 6) for name, (fall, _) in judged.falls.items()} == {
        "PoE": 0.8,
        "KSA": 0.5,
        "PV": 0.25,
        "ESA": 0,
    }
    assert (judged.outcome, judged.effect) == ("HOLDS", pytest.approx(0.25))
    error = np.hypot(np.hypot(0.01, 0.01) / 4, np.hypot(0.01, 0.005) / 8)
    assert judged.falls["KSA"][1] == pytest.approx(error)
    assert tails(found.assign(error=2.0)).outcome == "UNDECIDED"
    steady = found.copy()
    steady.loc[(steady["mechanism"] == "KSA") & (steady["view"] == "black"), "mean"] = [1, 2, 4, 8, 8]
    assert tails(steady).outcome == "FAILS"
