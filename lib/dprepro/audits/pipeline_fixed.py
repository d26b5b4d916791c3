"""Snapshots with one pair of neighbouring data sets: what varies when only the dealing to partitions is drawn anew.

SnapAudit (arXiv 2511.13502) fixes a data set D and its neighbour D' and calls the pipeline 2,000 times; what may
differ between calls is which demonstrations share a partition. `pipeline_study` draws other demonstrations in each
run. Here D is drawn once, blocks are of the same form, and an item of a saved result is named alike:

    "votes, one label, copying, 3"        12 demonstrations, the same in all blocks, dealt to three partitions
    "votes, one label, single, 3"         three demonstrations, one a partition, as in the paper's worked example:
                                          dealing can only permute prompts, so other demonstrations are drawn here

Texts, labels, tokens and canary are those of `pipeline_study`.
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
DESIGNS = ("copying", "single")


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


def fixed_data(task: str, data_seed: int, number: int = PARTITIONS * SHOTS) -> FixedData:
    """Return the data set D of a task, drawn once from all its demonstrations.

    Parameters
    ----------
    task : str
        One of `pipeline_study.TASKS`.
    data_seed : int
    number : int
        Demonstrations in D.
    """
    return FixedData(RandomDraw(_pool(task), number).draw(None, np.random.default_rng(data_seed)))


def report(key: str, rng: np.random.Generator, runs: int, canary_seed: int, data_seed: int) -> dict[str, Any]:
    """Return one block of runs, in the form of `pipeline_study.report`.

    Parameters
    ----------
    key : str
        Kind ("votes", "experts", "texts"), task, design ("copying", "single") and number, with commas between them.
    rng : numpy.random.Generator
        Deals demonstrations to partitions; of the single design draws them.
    runs : int
        In the block.
    canary_seed, data_seed : int
        Of the canary's words and of D: the same in all blocks.

    Raises
    ------
    ValueError
        For a key that is none of these.
    """
    kind, task, design, _ = (part.strip() for part in f"{key},,,".split(",")[:4])
    one_of("kind of the key", kind, KINDS)
    one_of("design of the key", design, DESIGNS)
    positive_count("runs", runs)
    source = LocalModel(
        dtype="float64" if kind == "experts" else "float32",
        max_tokens=TEXT_TOKENS if kind == "texts" else LABEL_TOKENS,
        threads=1,
        device="cpu",
    )
    with TemporaryDirectory() as folder:  # the two sides share prompts; each is asked once
        asked = pipeline(
            task, "copying", StoredResponder(source, AnswerStore(folder), progress=False), canary_seed
        )
        data = (
            fixed_data(task, data_seed) if design == "copying" else RandomDraw(asked.source.pool, PARTITIONS)
        )
        chosen = replace(asked, source=data)
        if kind == "experts":
            return _experts(chosen, labels(task, "copying"), rng, runs)
        return (_votes if kind == "votes" else _texts)(chosen, rng, runs)
