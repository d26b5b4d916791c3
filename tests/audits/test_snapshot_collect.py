"""Collecting snapshots: both sides, resuming, other models, off-label answers, temperature; audits of them."""

import json

import numpy as np
import pytest

from dprepro.audits.snapshot import active_audit, passive_audit
from dprepro.audits.snapshot_collect import collect, load, off_label_share
from dprepro.mechanisms.in_context.demonstrations import RandomDraw, nonsense
from dprepro.mechanisms.in_context.packaged_tasks import sentiment
from dprepro.mechanisms.in_context.pipeline import InContextPipeline
from dprepro.mechanisms.in_context.prompts import PromptStyle
from dprepro.mechanisms.in_context.readings import Votes
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.stats.bounds import clopper_pearson
from dprepro.text.copying_ngram import CopyingNGram

POOL = [item for item in sentiment() if item.answer == "positive"][:40]


def pipeline(responder=None, labels=("positive", "maroon"), mechanism=None):
    canary = nonsense(5, np.random.default_rng(2), "maroon")
    style = PromptStyle("{text} : {answer}\n", "{query} :")
    return InContextPipeline(
        responder or CopyingNGram(),
        RandomDraw(POOL, 6),
        canary,
        style,
        3,
        Votes(labels),
        mechanism or PrivateVoting(4.0),
    )


class Counting:
    """A pipeline of somebody's own: plain arrays, no repeats; interrupted at a given call."""

    epsilon, delta = 4.0, 1e-5
    gaussian = discrete = True

    def __init__(self, stop_at=None, **provenance):
        self.provenance = {"model": "own", **provenance}
        self.calls, self.stop_at = 0, stop_at

    def clean(self, canary, rng):
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        self.calls += 1
        return np.array([float(canary), rng.integers(1000)])

    def release(self, clean, rng):
        return clean + rng.normal(0, 1.0, clean.shape)


def test_both_sides_of_a_real_pipeline(tmp_path):
    snapshot = collect(pipeline(), 30, 7, tmp_path, progress=False)
    np.testing.assert_array_equal(snapshot.with_canary, np.tile([2, 1], (30, 1)))
    np.testing.assert_array_equal(snapshot.without_canary, np.tile([3, 0], (30, 1)))
    found = snapshot.provenance
    assert (found["model"], found["seed"], found["runs"]) == ("copying-3-gram", 7, 30)
    assert found["repeats"] == {"prompts": 4, "times": 5, "differing": 0}
    assert (found["answers"], found["off_label"]) == ([90, 90], [0, 0])


def test_each_run_has_a_stream_of_its_own(tmp_path):
    short = collect(Counting(), 4, 1, tmp_path / "a", progress=False)
    long = collect(Counting(), 6, 1, tmp_path / "b", progress=False)
    np.testing.assert_array_equal(long.with_canary[:4], short.with_canary)
    np.testing.assert_array_equal(
        long.with_canary[:, 1], long.without_canary[:, 1]
    )  # equal states on both sides
    assert len(set(long.with_canary[:, 1])) == 6
    assert set(collect(Counting(), 6, 2, tmp_path / "c", progress=False).with_canary[:, 1]).isdisjoint(
        long.with_canary[:, 1]
    )


def test_an_interrupted_collection_resumes(tmp_path):
    whole = collect(Counting(), 8, 3, tmp_path / "whole", progress=False)
    with pytest.raises(KeyboardInterrupt):
        collect(Counting(stop_at=10 + 7), 8, 3, tmp_path / "cut", progress=False)  # in the fourth run
    again = Counting()
    resumed = collect(again, 8, 3, tmp_path / "cut", progress=False)
    assert resumed.sha256 == whole.sha256
    assert again.calls == 10 + 2 * 5  # five repeats a side, and the five runs that were missing
    longer = Counting()
    assert len(collect(longer, 9, 3, tmp_path / "cut", progress=False).with_canary) == 9
    assert longer.calls == 10 + 2


@pytest.mark.parametrize("damage", ["", "{", '{"with_canary": 1}', "[]"])
def test_a_damaged_run_is_made_again(tmp_path, damage):
    whole = collect(Counting(), 3, 3, tmp_path, progress=False)
    (tmp_path / "run-000001.json").write_text(damage)
    again = Counting()
    assert collect(again, 3, 3, tmp_path, progress=False).sha256 == whole.sha256
    assert again.calls == 12


def test_an_edited_run_is_made_again(tmp_path):
    whole = collect(Counting(), 3, 3, tmp_path, progress=False)
    file = tmp_path / "run-000002.json"
    run = json.loads(file.read_text())
    run["with_canary"]["statistic"][0] = 0.0
    file.write_text(json.dumps(run))
    assert collect(Counting(), 3, 3, tmp_path, progress=False).sha256 == whole.sha256


def test_runs_of_another_model_or_seed_are_refused(tmp_path):
    collect(Counting(), 3, 3, tmp_path, progress=False)
    other = Counting()
    other.provenance["model"] = "another"
    with pytest.raises(ValueError, match=r"got those of another: model \('own', now 'another'\)"):
        collect(other, 3, 3, tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"of another: seed \(3, now 4\)"):
        collect(Counting(), 3, 4, tmp_path, progress=False)


def test_a_snapshot_is_of_the_model_that_is_named(tmp_path):
    file = tmp_path / "own.npz"
    snapshot = collect(Counting(), 3, 3, tmp_path / "runs", progress=False)
    snapshot.save(file)
    assert load(file, "own").sha256 == snapshot.sha256
    with pytest.raises(ValueError, match="model must be the one that made .*own.npz, 'own', got 'gpt-2'"):
        load(file, "gpt-2")
    with pytest.raises(ValueError, match="must name its model, got ''"):
        collect(Counting(model=""), 3, 3, tmp_path / "other", progress=False)


def test_answers_off_the_label_set_are_reported(tmp_path):
    snapshot = collect(pipeline(labels=("maroon", "other")), 10, 7, tmp_path, progress=False)
    assert snapshot.provenance["off_label"] == [20, 30]
    assert off_label_share(snapshot) == (pytest.approx(2 / 3), 1.0)


@pytest.mark.parametrize("with_repeats", [True, False])
def test_a_temperature_above_zero_is_found_and_said(tmp_path, with_repeats):
    warm = pipeline(CopyingNGram(prior=1.0, temperature=1.0, rng=np.random.default_rng(3)))
    if not with_repeats:
        inner = warm

        class Own:
            def __init__(self):
                self.provenance = {"model": "own"}

            def clean(self, canary, rng):
                return inner.clean(canary, rng).statistic

        warm = Own()
    with pytest.raises(
        ValueError, match="must answer at temperature 0, got [1-4] of [24] prompts answered differ"
    ):
        collect(warm, 10, 7, tmp_path, progress=False)
    meant = collect(warm, 10, 7, tmp_path, temperature_zero=False, progress=False)
    assert meant.provenance["repeats"]["differing"] > 0
    assert len(np.unique(meant.without_canary, axis=0)) > 1


class Odd(Counting):
    def clean(self, canary, rng):
        return self.row


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 1.0], "clean output must be finite"),
        (3.0, r"clean output must have shape \(d,\), got \(\)"),
        ([[1.0, 2.0]], r"clean output must have shape \(d,\)"),
    ],
)
def test_bad_clean_outputs(tmp_path, row, message):
    odd = Odd()
    odd.row = row
    with pytest.raises(ValueError, match=message):
        collect(odd, 3, 3, tmp_path, progress=False)


def test_clean_outputs_of_different_lengths(tmp_path):
    odd = Odd()
    odd.row = [1.0]
    collect(odd, 2, 3, tmp_path, progress=False)
    odd.row = [1.0, 2.0]
    with pytest.raises(ValueError, match=r"with_canary must have one length, got \[1, 2\]"):
        collect(odd, 3, 3, tmp_path, progress=False)
    with pytest.raises(ValueError, match="runs must be a whole number of at least 2, got 1"):
        collect(odd, 1, 3, tmp_path, progress=False)


def test_progress_is_shown(tmp_path, capsys):
    collect(pipeline(labels=("maroon", "other")), 3, 7, tmp_path, progress=True)
    said = capsys.readouterr().err
    assert "copying-3-gram: 100%" in said
    assert "3/3" in said
    assert "off_label=15" in said


def test_audits_of_a_pipeline_end_to_end(tmp_path):
    """A right mechanism is not accused; noise for one changed count in place of two is found and proven."""
    snapshot = collect(pipeline(), 200, 7, tmp_path, progress=False)
    right, wrong = PrivateVoting(4.0), PrivateVoting(4.0, adjacency="add-remove")
    for mechanism, guilty in ((right, False), (wrong, True)):
        rng = np.random.default_rng(1)
        active = active_audit(snapshot, mechanism, n_sample=50_000, rng=rng)
        passive = passive_audit(snapshot, mechanism, rng=rng)
        assert active.violation is guilty
        assert active.n_llm == passive.n_sample == 200
        assert passive.epsilon < active.epsilon
    # What 200 equal answers prove, and no more: the modal mass is at least this.
    assert clopper_pearson(200, 200, 0.05)[0] == pytest.approx(0.025 ** (1 / 200))
