"""What measured pipelines say of a snapshot audit: clean outputs from saved blocks, their spread, what they prove.

SnapAudit (arXiv 2511.13502) states that clean outputs at temperature 0 have variance 0 for private voting and product
of experts and at most .001 for embeddings and keywords. Three things go by that name, and are kept apart here:

* the same prompts asked again (`pipeline_study`, kind "batches"): rounding, or a temperature;
* other demonstrations beside the canary in each run: `spread`, in the units of the statistic;
* what n equal outputs say of the next one: `constancy`, a Clopper-Pearson limit, never the variance 0 itself.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.pipeline_study import PARTITIONS, SIDES, labels
from dprepro.audits.snapshot import Snapshot
from dprepro.base.check import finite, in_interval
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.readings import Reading
from dprepro.stats.bounds import clopper_pearson
from dprepro.stats.tradeoff import auc
from dprepro.text.model_files import PACKAGED

Array = NDArray[np.float64]


class Constancy(NamedTuple):
    """How constant clean outputs are.

    Attributes
    ----------
    equal, runs : int
        Runs with the commonest output, and all.
    least : float
        Lower limit of the probability of that output, at confidence 1 - alpha (two-sided Clopper-Pearson).
    """

    equal: int
    runs: int
    least: float


def clean_outputs(
    found: Mapping[Any, Mapping[str, Any]], start: str, reading: Reading | None = None
) -> Snapshot:
    """Put the blocks of a saved result together.

    Parameters
    ----------
    found : mapping
        As `base.results.load` gives it: blocks by key.
    start : str
        Kind, task and style: "votes, sentiment, copying".
    reading : Reading, optional
        What makes a row of the T answers of a run; needed for "experts" (`readings.LabelUtilities`) and "texts"
        (`readings.MeanEmbedding`, `readings.KeywordCounts`).

    Raises
    ------
    ValueError
        No block begins with `start`; a reading is missing.
    """
    kind, task, style = (part.strip() for part in start.split(","))
    blocks = [block for key, block in found.items() if str(key).startswith(f"{start}, ")]
    if not blocks:
        raise ValueError(f"start must begin the key of a block, got {start!r}")
    if reading is None and kind != "votes":
        raise ValueError(f"reading must be given for {kind}, got None")
    read = None if reading is None else reading.statistic
    if read is not None and kind == "texts":
        read = cache(read)  # many runs gave the same answers, and an embedding takes a network
    sides = {}
    for side in SIDES:
        if kind == "texts":
            answers = [line for block in blocks for line in block[side].split("\n")]
            runs = [
                tuple(answers[place : place + PARTITIONS]) for place in range(0, len(answers), PARTITIONS)
            ]
        else:
            shape = (
                (-1, len(labels(task, style)))
                if kind == "votes"
                else (-1, PARTITIONS, len(labels(task, style)))
            )
            runs = list(np.concatenate([block[side] for block in blocks]).reshape(shape))
        sides[side] = np.stack([run if read is None else read(run) for run in runs])
    return Snapshot(**sides, provenance={"model": PACKAGED, "blocks": start})


def spread(rows: Array) -> float:
    """Variance of clean outputs over the runs, summed over the coordinates: the mean squared distance to the mean.

    Parameters
    ----------
    rows : array, shape (n, d)
        n of at least 2.

    Raises
    ------
    ValueError
        Rows that are not finite.
    """
    return float(np.var(finite("rows", rows), axis=0, ddof=1).sum())


def constancy(rows: Array, alpha: float = 0.05) -> Constancy:
    """How many runs gave the commonest output, and what that proves; `rows` of shape (n, d).

    Raises
    ------
    ValueError
        Rows that are not finite, or `alpha` outside (0, 1).
    """
    in_interval("alpha", alpha, 0.0, 1.0, closed="neither")
    _, counts = np.unique(finite("rows", rows), axis=0, return_counts=True)
    equal = int(counts.max())
    return Constancy(equal, len(rows), float(clopper_pearson(equal, len(rows), alpha)[0]))


def separations(snapshot: Snapshot, mechanism: ProductOfExperts) -> Array:
    """r of each run of product of experts, shape (n,): the share of epsilon that its two sides let an attack use."""
    pairs = zip(snapshot.with_canary, snapshot.without_canary, strict=True)
    return np.array([mechanism.separation(into, out) for into, out in pairs])


def moved(snapshot: Snapshot) -> Array:
    """How far the canary moves the clean output in each run, shape (n,): Euclidean."""
    return np.linalg.norm(snapshot.with_canary - snapshot.without_canary, axis=1)


def detection(snapshot: Snapshot, column: int) -> float:
    """AUC of one coordinate of the clean output, without any noise: .5 where it says nothing of the canary."""
    return float(auc(snapshot.with_canary[:, column], snapshot.without_canary[:, column]))
