"""In-context learning with privacy, end to end: demonstrations, partitions, prompts, answers, release.

The pipelines that SnapAudit (arXiv 2511.13502) audits: private voting, product of experts, embedding space and
keyword space aggregation on a language model. They differ in how answers are read (`readings`) and in the noise
(`voting`, `experts`, `embedding`, `keywords`); all else is this class. An audit takes the clean statistics with the
canary and without, and the release:

    pipeline = InContextPipeline(responder, RandomDraw(sentiment(), 12), canary, COPYING, 3, Votes(labels), mechanism)
    pipeline.clean(True, rng)               # one run: T calls, a row
    pipeline.release(rows, rng)             # n rows to n releases

With equal generators the two sides of a run share every demonstration and partition but the canary's place, so they
are neighbours under replace-one, and T - 1 of their prompts are the same: a responder with a store is asked T + 1
times for the two. Each side's runs are independent of each other, which is what bounds on its rate need; bounds on
the two rates are joined by a union bound, so that the two sides are not independent does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import positive_count
from dprepro.base.store import sha256_json
from dprepro.mechanisms.in_context.demonstrations import Demonstration, Draw, check_canary, partitioned
from dprepro.mechanisms.in_context.prompts import PromptStyle
from dprepro.mechanisms.in_context.readings import Reading
from dprepro.text.responders import Responder
from dprepro.text.unstored import model_of, past_the_store

Array = NDArray[np.float64]
SAME = 1e-3  # nats: log-probabilities of one prompt that differ by less are the same answer, rounded


class Release(Protocol):
    """The part of a mechanism that a pipeline needs."""

    def release(self, clean: ArrayLike, rng: np.random.Generator, /) -> Array: ...


class CleanRun(NamedTuple):
    """One run up to the noise.

    Attributes
    ----------
    statistic : array, shape (d,)
        What `release` takes a row of.
    off_label : int
        Answers that said no label (`Reading.off_label`).
    answers : int
        Answers in all, one a partition.
    """

    statistic: Array
    off_label: int
    answers: int


class Repeats(NamedTuple):
    """What asking the same again, past any store, has shown.

    Attributes
    ----------
    prompts : int
        Different prompts that were asked.
    times : int
        How often each.
    differing : int
        Prompts of which not all answers were the same.
    """

    prompts: int
    times: int
    differing: int


@dataclass(frozen=True)
class InContextPipeline:
    """A pipeline with a canary.

    Parameters
    ----------
    responder : Responder
        The language model.
    source : Draw
        Where the private set of a run comes from: `demonstrations.RandomDraw` or `demonstrations.Retrieval`.
    canary : Demonstration
    style : PromptStyle
        How prompts are written.
    partitions : int
        T, at most the number of demonstrations.
    reading : Reading
        What is asked and the clean statistic, to go with the mechanism.
    mechanism
        With ``release(clean, rng)``, such as `voting.PrivateVoting`; audits read its claim.
    query : str, optional
        What every partition is asked; by default the canary's own text (the copying query).

    Raises
    ------
    ValueError
        Fewer demonstrations than partitions; a canary that occurs among the demonstrations; a mechanism made for
        another number of partitions.
    """

    responder: Responder
    source: Draw
    canary: Demonstration
    style: PromptStyle
    partitions: int
    reading: Reading
    mechanism: Release
    query: str | None = None

    def __post_init__(self) -> None:
        count = int(positive_count("partitions", self.partitions))
        if self.source.number < count:
            raise ValueError(
                f"demonstrations must be at least one a partition, got {self.source.number} for {count} partitions"
            )
        check_canary(self.canary, self.source.pool)
        made_for = getattr(self.mechanism, "partitions", count)
        if made_for != count:
            raise ValueError(f"partitions must be the mechanism's {made_for}, got {count}")

    def prompts(self, canary: bool, rng: np.random.Generator) -> list[str]:
        """The T prompts of a run, with the canary or without.

        Parameters
        ----------
        canary : bool
        rng : numpy.random.Generator
            Draws the demonstrations and deals them; in equal states it gives neighbouring sides.
        """
        private = self.source.draw(self.canary if canary else None, rng)
        query = self.canary.text if self.query is None else self.query
        return [self.style.build(part, query) for part in partitioned(private, self.partitions, rng)]

    def clean(self, canary: bool, rng: np.random.Generator) -> CleanRun:
        """One run up to the noise; `canary` and `rng` as for `prompts`."""
        answers = self.reading.ask(self.responder, self.prompts(canary, rng))
        return CleanRun(self.reading.statistic(answers), self.reading.off_label(answers), len(answers))

    def release(self, clean: ArrayLike, rng: np.random.Generator) -> Array:
        """The mechanism's releases of n clean statistics, shape (n, d)."""
        return self.mechanism.release(clean, rng)

    def repeats(self, times: int, rng: np.random.Generator) -> Repeats:
        """Ask the prompts of both sides of a run again and again, past the responder's store.

        At temperature 0, and in one batch, answers repeat to the last bit. Log-probabilities within 1e-3 count as
        equal, since a server may change its batches.

        Parameters
        ----------
        times : int
            2 or more.
        rng : numpy.random.Generator
            As for `prompts`; both sides see the same state.
        """
        asked = int(positive_count("times", times, minimum=2))
        seed = int(rng.integers(2**63))
        sides = [self.prompts(canary, np.random.default_rng(seed)) for canary in (False, True)]
        distinct = list(dict.fromkeys([*sides[0], *sides[1]]))
        fresh = past_the_store(self.responder)
        first = self.reading.ask(fresh, distinct)
        differs = np.zeros(len(distinct), dtype=bool)
        for _ in range(asked - 1):
            differs |= _differing(first, self.reading.ask(fresh, distinct))
        return Repeats(len(distinct), asked, int(differs.sum()))

    @property
    def provenance(self) -> dict[str, Any]:
        """What clean statistics depend on, in JSON values; "model" names the model.

        Raises
        ------
        ValueError
            The responder, or the reading's embedder, does not say which it is.
        """
        model = model_of(self.responder)
        return {
            "model": model["model"],
            "identity": model,
            "reading": type(self.reading).__name__,
            **self.reading.settings,
            "style": [self.style.opening, self.style.example, self.style.query],
            "canary": [self.canary.text, self.canary.answer],
            "query": self.canary.text if self.query is None else self.query,
            "draw": type(self.source).__name__,
            "demonstrations": self.source.number,
            "partitions": self.partitions,
            "pool": sha256_json([[item.text, item.answer] for item in self.source.pool]),
        }


def _differing(first: Sequence[Any] | Array, other: Sequence[Any] | Array) -> NDArray[np.bool_]:
    if isinstance(first, np.ndarray):
        return np.any(np.abs(first - np.asarray(other)) > SAME, axis=1)
    return np.array([a != b for a, b in zip(first, other, strict=True)])
