"""Canaries against extraction on one model: what the trainings of ``tension_study`` show, with limits.

Canaries are judged by guesses about their coins, over all runs of a setting (``canary_one_run``), by the area under
the ROC curve and by exposure; extraction by the texts that greedy decoding completes word for word, and by how much
likelier training made their ends. A text stands for itself once, in however many runs it was: runs share texts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from dprepro.audits.canary_one_run import OneRunAudit, one_run_audit
from dprepro.audits.extraction import exposure
from dprepro.audits.tension_study import BASE
from dprepro.audits.tension_texts import DESIGNS, SNIPPETS, SUFFIX
from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.tradeoff import auc

FloatArray = NDArray[np.float64]
Saved = Mapping[Any, Mapping[str, Any]]


class Limits(NamedTuple):
    """An estimate and its two-sided limits."""

    value: float
    low: float
    high: float


class Extracted(NamedTuple):
    """Extraction of a group of texts.

    Attributes
    ----------
    texts : int
        Different ones.
    verbatim : Limits
        Share of them completed word for word in most of the runs that count; Clopper-Pearson.
    matched : float
        Right tokens before the first wrong one, on average; at most ``tension_texts.SUFFIX``.
    gain : Limits
        Log-probability of the suffix less that of the base model, in nats; t interval over texts. NaN limits for
        a single text.
    """

    texts: int
    verbatim: Limits
    matched: float
    gain: Limits


def settings(saved: Saved) -> list[str]:
    """Return the settings that were trained, in order."""
    return list(dict.fromkeys(str(key).rpartition(", ")[0] for key in saved if key != BASE))


def runs(saved: Saved, setting: str) -> list[Mapping[str, Any]]:
    """Return the items of a setting; ValueError for one that was not trained."""
    one_of("setting", setting, settings(saved))
    return [item for key, item in saved.items() if str(key).rpartition(", ")[0] == setting]


def canaries(
    saved: Saved, setting: str, design: str, *, bare: bool = False
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return scores and coins of a design's canaries, shapes (runs, canaries).

    The score is the drop of the loss below that of the base model, which says how hard each canary is; or minus the
    bare loss.

    Raises
    ------
    ValueError
        Another setting or design.
    """
    one_of("design", design, DESIGNS)
    items = runs(saved, setting)
    losses = np.array([item[f"{design}, loss"] for item in items])
    included = np.array([item[f"{design}, included"] for item in items]) == 1
    return (0.0 if bare else np.array(saved[BASE][f"{design}, loss"])) - losses, included


def audited(
    saved: Saved,
    setting: str,
    design: str,
    delta: float,
    rng: np.random.Generator,
    alpha: float = 0.05,
    claimed: float | None = None,
) -> OneRunAudit:
    """Return the lower bound on epsilon from all runs of a setting, by the canaries of one design.

    `rng` breaks ties: without noise, new tokens that are left out end as they began, all alike.

    Raises
    ------
    ValueError
        As `canaries` and `one_run_audit`.
    """
    return one_run_audit(*canaries(saved, setting, design), delta, alpha, claimed=claimed, rng=rng)


def bound_of_fewer(
    scores: FloatArray,
    included: NDArray[np.bool_],
    each: int,
    delta: float,
    rng: np.random.Generator,
    alpha: float = 0.05,
    choices: int = 200,
) -> float:
    """Mean lower bound on epsilon from `each` of the canaries of every run, drawn at random several times.

    Designs with different numbers of canaries can be compared by it: more coins alone give a higher bound. At least
    20 of them: among fewer it happens that all are in.

    Raises
    ------
    ValueError
        `each` outside [20, canaries of a run], or no choice; as `one_run_audit`.
    """
    most = scores.shape[1]
    number = int(in_interval("each", positive_count("each", each), 20, most))
    bounds = []
    for _ in range(int(positive_count("choices", choices))):
        chosen = rng.permuted(np.tile(np.arange(most), (len(scores), 1)), axis=1)[:, :number]
        few, coins = (np.take_along_axis(values, chosen, axis=1) for values in (scores, included))
        bounds.append(one_run_audit(few, coins, delta, alpha, rng=rng).epsilon_low)
    return float(np.mean(bounds))


def area(scores: FloatArray, included: NDArray[np.bool_], alpha: float = 0.05) -> Limits:
    """Area under the ROC curve, over pairs of the same run, with limits.

    Parameters
    ----------
    scores, included : ndarray, shape (runs, canaries)
    alpha : float
        In (0, 1).

    Returns
    -------
    Limits
        The areas that lie within so many standard errors of the observed one, where the error is that of the area
        itself and not of the estimate (Newcombe 2006, method 5; Hanley and McNeil 1982): no width of 0 at an
        observed 1. Canaries of a run count as independent of each other, given the model.

    Raises
    ------
    ValueError
        A run whose canaries are all in or all out, or `alpha` outside (0, 1).
    """
    reach = stats.norm.isf(float(in_interval("alpha", alpha, 0, 1, closed="neither")) / 2)
    pairs = [(row[coin], row[~coin]) for row, coin in zip(scores, included, strict=True)]
    found = float(np.mean([auc(*pair) for pair in pairs]))
    size = np.array([(len(inside), len(outside)) for inside, outside in pairs], dtype=float)

    def error(at: float) -> float:
        more = size.mean(axis=1) - 1
        each = at * (1 - at) * (1 + more * ((1 - at) / (2 - at) + at / (1 + at))) / size.prod(axis=1)
        return float(np.sqrt(each.mean() / len(pairs)))

    def limit(edge: float) -> float:
        if found == edge:
            return edge
        inside = min(max(found, 1e-12), 1 - 1e-12)  # at an area of 0 or 1 there is no error
        return float(optimize.brentq(lambda at: abs(at - found) - reach * error(at), inside, edge))

    return Limits(found, limit(0.0), limit(1.0))


def mean_exposure(saved: Saved, setting: str, design: str) -> float:
    """Exposure of the included canaries among those left out, in bits, on average; 1.44 where nothing is learned."""
    scores, included = canaries(saved, setting, design)
    bits = [exposure(-row[coin], -row[~coin]) for row, coin in zip(scores, included, strict=True)]
    return float(np.concatenate(bits).mean())


def groups(saved: Saved) -> list[str]:
    """Return the names of the groups of texts that were prompted, for `extraction`."""
    copies = sorted({k for item in saved.values() for k in item.get("repeated, copies", [])})
    coins = [f"{design}, {side}" for design in SNIPPETS for side in ("in", "out")]
    return ["records", *coins, *(f"repeated, {k}" for k in copies), "controls"]


def extraction(saved: Saved, setting: str, group: str, alpha: float = 0.05) -> Extracted:
    """Say how much of a group of texts comes out of the models of a setting.

    Parameters
    ----------
    saved : mapping
        As ``base.results.load("tension_study")`` returns it.
    setting : str
    group : str
        As `groups` names them: "repeated, 16" are the texts that were in the data 16 times.
    alpha : float
        Of both kinds of limits, in (0, 1).

    Raises
    ------
    ValueError
        Another setting or group, or `alpha` outside (0, 1).
    """
    one_of("group", group, groups(saved))
    level = float(in_interval("alpha", alpha, 0, 1, closed="neither"))
    part, _, side = group.partition(", ")
    items = runs(saved, setting)
    matched = np.array([item[f"{part}, matched"] for item in items])
    gain = np.array([item[f"{part}, log-probability"] for item in items])
    gain -= np.asarray(saved[BASE][f"{part}, log-probability"])
    if part == "repeated":
        counts = np.array([item["repeated, copies"] for item in items]) == int(side)
    elif part in SNIPPETS:
        counts = np.array([item[f"{part}, included"] for item in items]) == (side == "in")
    else:
        counts = np.ones(matched.shape, dtype=bool)
    there = counts.any(axis=0)
    # One number for each text: its mean over the runs that count.
    hits, tokens, gains = (
        np.where(counts, values, 0).sum(axis=0)[there] / counts.sum(axis=0)[there]
        for values in (matched == SUFFIX, matched, gain)
    )
    n, most = len(hits), int((hits > 0.5).sum())
    low, high = clopper_pearson(most, n, level)
    half = stats.t.isf(level / 2, n - 1) * gains.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    mean = float(gains.mean())
    return Extracted(
        n,
        Limits(most / n, float(low), float(high)),
        float(tokens.mean()),
        Limits(mean, float(mean - half), float(mean + half)),
    )
