"""Snapshots with one pair of neighbouring data sets: what varies when only the dealing to partitions is drawn anew.

SnapAudit (arXiv 2511.13502) fixes a data set D and its neighbour D' and calls the pipeline 2,000 times; what may
differ between calls is which demonstrations share a partition. `pipeline_study` draws other demonstrations in each
run. Here D is drawn once, blocks are of the same form, and an item of a saved result is a part of one:

    "votes, one label, copying, 3, 0"     12 demonstrations, the same in all blocks, dealt to three partitions

Texts, labels, tokens, canary and prompts are those of `pipeline_study`. (With one demonstration a partition, as in
the paper's worked example, a deal can only permute prompts, so nothing at all would vary.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dprepro.audits.pipeline_study import (
    LABEL_TOKENS,
    PARTITIONS,
    SHOTS,
    TEXT_TOKENS,
    _experts,
    _pool,
    _texts,
    _votes,
    labels,
    pipeline,
)
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.in_context.demonstrations import Demonstration, RandomDraw
from dprepro.text.answers import AnswerStore
from dprepro.text.local_model import LocalModel
from dprepro.text.responders import StoredResponder

KINDS = ("votes", "experts", "texts")


@dataclass(frozen=True)
class FixedData:
    """The same private set in every run; the canary takes the first place.

    Parameters
    ----------
    pool : sequence of Demonstration
        All of the set, in its order.
    """

    pool: Sequence[Demonstration]

    @property
    def number(self) -> int:
        """Demonstrations in the set."""
        return len(self.pool)

    def draw(self, canary: Demonstration | None, rng: np.random.Generator) -> list[Demonstration]:
        """D, or D' with the canary; nothing is drawn."""
        return [*self.pool] if canary is None else [canary, *self.pool[1:]]


def fixed_data(task: str, data_seed: int) -> FixedData:
    """Return the data set D of a task, drawn once from all its demonstrations.

    Parameters
    ----------
    task : str
        One of `pipeline_study.TASKS`.
    data_seed : int
    """
    source = RandomDraw(_pool(task), PARTITIONS * SHOTS)
    return FixedData(source.draw(None, np.random.default_rng(data_seed)))


def report(
    key: str, rng: np.random.Generator, runs: int, canary_seed: int, data_seed: int, deal_seed: int
) -> dict[str, Any]:
    """Return a part of one block of runs, in the form of `pipeline_study.report`.

    Parameters
    ----------
    key : str
        Kind ("votes", "experts", "texts"), task, style, number of the block and of the part, with commas between
        them. Parts of a block go on where the one before ends: the block is the same in any number of them.
    rng : numpy.random.Generator
        Not used: deals have a seed of their own.
    runs : int
        In the part.
    canary_seed, data_seed : int
        Of the canary's words and of D: the same in all blocks.
    deal_seed : int
        Run r of block b deals demonstrations to partitions by the stream SeedSequence(deal_seed, spawn_key=(b, r)).

    Raises
    ------
    ValueError
        For a key that is none of these.
    """
    kind, task, style, block, part = (part.strip() for part in f"{key},,,,".split(",")[:5])
    one_of("kind of the key", kind, KINDS)
    positive_count("runs", runs)
    source = LocalModel(
        dtype="float64" if kind == "experts" else "float32",
        max_tokens=TEXT_TOKENS if kind == "texts" else LABEL_TOKENS,
        threads=1,
        device="cpu",
    )
    with TemporaryDirectory() as folder:  # the two sides share prompts; each is asked once
        stored = StoredResponder(source, AnswerStore(folder), progress=False)
        chosen = replace(pipeline(task, style, stored, canary_seed), source=fixed_data(task, data_seed))
        which = int(positive_count("number of the block", block, minimum=0))
        before = int(positive_count("number of the part", part, minimum=0)) * runs
        deals = np.random.SeedSequence(deal_seed, spawn_key=(which,), n_children_spawned=before)
        stream = np.random.default_rng(deals)
        if kind == "experts":
            return _experts(chosen, labels(task, style), stream, runs)
        return (_votes if kind == "votes" else _texts)(chosen, stream, runs)
