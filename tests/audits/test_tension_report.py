import numpy as np
import pytest
from scipy import stats

from dprepro.audits.canary_one_run import one_run_audit
from dprepro.audits.tension_report import (
    area,
    audited,
    bound_of_fewer,
    canaries,
    extraction,
    groups,
    mean_exposure,
    runs,
    settings,
)
from dprepro.audits.tension_texts import DESIGNS, SNIPPETS
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.one_run import epsilon_one_run
from dprepro.stats.tradeoff import auc


def made_up(rng, signal=2.0, each=40, texts=6):
    """A base and three runs of two settings, with a planted signal in the first."""
    base = {f"{d}, loss": rng.normal(5, 1, each).tolist() for d in DESIGNS} | {"perplexity": 170.0}
    names = [*SNIPPETS, "records", "repeated", "controls"]
    size = {name: each if name in SNIPPETS else texts for name in names}
    for name in names:
        base[f"{name}, matched"] = [0] * size[name]
        base[f"{name}, log-probability"] = rng.normal(-50, 5, size[name]).tolist()
    saved = {"base": base}
    for setting, shift in (("plain", signal), ("8", 0.0)):
        for run in range(3):
            item = {"noise_multiplier": 0.0, "perplexity": 150.0}
            item["repeated, copies"] = rng.permutation([0, 0, 0, 0, 4, 16]).tolist()
            for d in DESIGNS:
                coins = rng.integers(0, 2, each)
                item[f"{d}, included"] = coins.tolist()
                drop = rng.normal(0, 1, each) + shift * coins
                item[f"{d}, loss"] = (np.array(base[f"{d}, loss"]) - drop).tolist()
            for name in names:
                item[f"{name}, matched"] = rng.integers(0, 8, size[name]).tolist()
                gain = rng.normal(3, 1, size[name])
                item[f"{name}, log-probability"] = (base[f"{name}, log-probability"] + gain).tolist()
            saved[f"{setting}, {run}"] = item
    return saved


@pytest.fixture
def saved():
    return made_up(np.random.default_rng(0))


def test_names(saved):
    assert settings(saved) == ["plain", "8"]
    assert len(runs(saved, "8")) == 3
    assert groups(saved) == [
        "records",
        *(f"{design}, {side}" for design in SNIPPETS for side in ("in", "out")),
        "repeated, 0",
        "repeated, 4",
        "repeated, 16",
        "controls",
    ]


def test_audit_by_the_drop_below_the_base(saved):
    scores, coins = canaries(saved, "plain", "new token alone")
    assert scores.shape == coins.shape == (3, 40)
    assert scores[coins].mean() - scores[~coins].mean() == pytest.approx(2, abs=0.7)
    rng = np.random.default_rng(1)
    found = audited(saved, "plain", "new token alone", 1e-4, rng, claimed=8.0)
    assert found.runs == 3
    assert found.epsilon_low > 0.5
    assert found.epsilon_low == one_run_audit(scores, coins, 1e-4).epsilon_low
    assert audited(saved, "8", "arbitrary", 1e-4, rng).epsilon_low < 0.5
    assert mean_exposure(saved, "plain", "arbitrary") > 2.5
    assert 0.8 < mean_exposure(saved, "8", "arbitrary") < 2.2


def test_tokens_that_end_alike_are_guessed(saved):
    """Without noise all new tokens left out have one score: each of them is as good a guess of "out"."""
    name = "new token alone"
    saved["base"][f"{name}, loss"] = [9.5] * 40
    for run in range(3):
        item = saved[f"plain, {run}"]
        drop = np.where(np.array(item[f"{name}, included"]) == 1, np.arange(5.0, 45.0), 0.0)
        item[f"{name}, loss"] = (9.5 - drop).tolist()
    found = audited(saved, "plain", name, 1e-4, np.random.default_rng(1))
    assert (found.correct, found.tied) == (found.guesses, 0)


def test_bare_scores_are_losses(saved):
    scores, coins = canaries(saved, "plain", "arbitrary", bare=True)
    np.testing.assert_array_equal(scores, [[-x for x in i["arbitrary, loss"]] for i in runs(saved, "plain")])
    np.testing.assert_array_equal(coins, canaries(saved, "plain", "arbitrary")[1])


def test_fewer_canaries_give_less(saved):
    rng = np.random.default_rng(2)
    scores, coins = canaries(saved, "plain", "arbitrary")
    whole = one_run_audit(scores, coins, 1e-4).epsilon_low
    assert bound_of_fewer(scores, coins, 40, 1e-4, rng, choices=2) == whole
    found = [bound_of_fewer(scores, coins, each, 1e-4, rng, choices=20) for each in (20, 30)]
    assert 0 < found[0] < found[1] < whole
    # Perfect scores stay perfect: the ceiling of 3 runs of 20.
    perfect = bound_of_fewer(coins + scores / 1e3, coins, 20, 1e-4, rng, choices=5)
    assert perfect == pytest.approx(float(epsilon_one_run(60, 15, 15, 1e-4, 0.05)))
    for each in (19, 41):
        with pytest.raises(ValueError, match=r"each must be in \[20, 40\]"):
            bound_of_fewer(scores, coins, each, 1e-4, rng)


def test_area_is_the_mean_over_runs(saved):
    scores, coins = canaries(saved, "plain", "arbitrary")
    found = area(scores, coins)
    assert found.value == np.mean(
        [auc(row[coin], row[~coin]) for row, coin in zip(scores, coins, strict=True)]
    )
    assert found.low < found.value < found.high < 1


def test_area_at_its_ends():
    scores, coins = np.arange(20.0)[None], np.arange(20)[None] >= 10
    found = area(scores, coins)
    assert (found.value, found.high) == (1, 1)
    assert 0.5 < found.low < 0.99
    upside_down = area(-scores, coins)
    assert (upside_down.value, upside_down.low) == (0, 0)
    assert upside_down.high == pytest.approx(1 - found.low)
    # Newcombe's limits solve |found - at| = z error(at), here by a grid.
    at = np.linspace(0.5, 0.9999, 200_001)
    error = np.sqrt(at * (1 - at) * (1 + 9 * ((1 - at) / (2 - at) + at / (1 + at))) / 100)
    assert found.low == pytest.approx(at[np.argmax(1 - at <= stats.norm.isf(0.025) * error)], abs=1e-5)


@pytest.mark.parametrize("signal", [0.0, 0.8, 2.0])
def test_area_covers(signal):
    rng, repeats, true = np.random.default_rng(3), 1500, stats.norm.cdf(signal / 2**0.5)
    held = 0
    for _ in range(repeats):
        coins = rng.random((2, 30)) < 0.5
        found = area(rng.standard_normal(coins.shape) + signal * coins, coins)
        held += found.low <= true <= found.high
    # The error is that of another law of the scores, on the safe side for this one: 95 % or more.
    assert stats.binomtest(held, repeats, 0.95, alternative="less").pvalue > 1e-4


def test_extraction_counts_a_text_once(saved):
    """Three texts, completed in two of three, one of three and three of three runs."""
    for run, row in enumerate(([8, 8, 8, 0, 0, 0], [8, 0, 8, 0, 0, 7], [0, 0, 8, 0, 0, 7])):
        saved[f"plain, {run}"]["records, matched"] = row
    found = extraction(saved, "plain", "records")
    assert found.texts == 6
    assert found.verbatim == (2 / 6, *map(float, clopper_pearson(2, 6, 0.05)))
    assert found.matched == pytest.approx((16 + 8 + 24 + 14) / 18)
    gains = np.mean(
        [np.subtract(saved[f"plain, {r}"]["records, log-probability"], saved["base"]["records, log-probability"])
         for r in range(3)], axis=0,
    )  # fmt: skip
    expected = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    np.testing.assert_allclose(found.gain, (gains.mean(), *expected))


def test_extraction_looks_at_the_runs_that_count(saved):
    for run in range(3):
        item = saved[f"plain, {run}"]
        item["arbitrary, matched"] = [8 * coin for coin in item["arbitrary, included"]]
        item["repeated, matched"] = [8 if k == 16 else 1 for k in item["repeated, copies"]]
    assert extraction(saved, "plain", "arbitrary, in").verbatim.value == 1
    assert extraction(saved, "plain", "arbitrary, out").verbatim.value == 0
    assert extraction(saved, "plain", "repeated, 16").verbatim.value == 1
    assert extraction(saved, "plain", "repeated, 4").matched == 1
    often = {int(np.argmax(saved[f"plain, {r}"]["repeated, copies"])) for r in range(3)}
    assert extraction(saved, "plain", "repeated, 16").texts == len(often)


def test_a_single_text_has_no_interval(saved):
    for run in range(3):
        saved[f"plain, {run}"]["repeated, copies"] = [16, 4, 0, 0, 0, 0]
    found = extraction(saved, "plain", "repeated, 16")
    assert found.texts == 1
    assert np.isnan(found.gain.low)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: runs(s, "4"), "setting must be one of 'plain', '8'"),
        (lambda s: canaries(s, "8", "random"), "design must be one of"),
        (lambda s: extraction(s, "8", "repeated, 5"), "group must be one of"),
        (lambda s: extraction(s, "8", "records", alpha=0), "alpha"),
        (lambda s: area(np.zeros((1, 4)), np.array([[1, 0, 1, 0]]) == 1, alpha=1), "alpha"),
    ],
)
def test_bad_questions(saved, call, message):
    with pytest.raises(ValueError, match=message):
        call(saved)
