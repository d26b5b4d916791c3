"""Rouge-L of film snippets under Cape, a few snippets at a time (arXiv 2505.05922, table 1).

`cape_study.similarity` draws outputs for all places of the snippets that it is given, and its random numbers are for
so many places. Here they are drawn for a whole of several parts, and each part takes those of its own places: the
outputs of a snippet are the same in parts of any size.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from dprepro.audits import cape_study
from dprepro.audits.cape_study import context_named, cut_snippets, places_of
from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import Tokens

# Number of the first stream of random numbers of each context and keep-list.
STREAMS: Mapping[str, int] = {
    "masked, both": 0,
    "causal, both": 8,
    "masked, none": 16,
    "masked, punctuation": 24,
    "masked, stop words": 28,
    "unmasked, both": 32,
    "left, both": 36,
}


class _Drawn:
    """Random numbers that were drawn before, which is what `Cape.draw_from` asks of a generator."""

    def __init__(self, levels: Iterable[Array]) -> None:
        self.levels = iter(levels)

    def random(self, shape: tuple[int, int]) -> Array:
        found = next(self.levels)
        assert found.shape == shape
        return found


def similarity(
    key: str,
    rng: np.random.Generator,
    *,
    sentences: int,
    parts: int,
    wholes: int,
    epsilons: Sequence[float],
    draw_seed: int,
) -> dict[str, Any]:
    """Return one item: Rouge-L of some snippets under Cape.

    Parameters
    ----------
    key : str
        "masked, both, 0": one of `STREAMS`, and which part of the sentences.
    rng : Generator
        Not used: outputs have a seed of their own.
    sentences, parts : int
        The first so many test snippets, in so many parts of equal length.
    wholes : int
        So many of equal length have random numbers together; divides `parts`.
    epsilons : sequence of float
    draw_seed : int
        Whole w has the stream SeedSequence(draw_seed, spawn_key=(s + w,)), s from `STREAMS`.

    Returns
    -------
    dict
        As `cape_study.similarity`.

    Raises
    ------
    ValueError
        A key that names no context and keep-list, or no part.
    """
    view, _, number = key.rpartition(", ")
    first = STREAMS[one_of("view of the key", view, tuple(STREAMS))]
    part = int(one_of("part of the key", number, [str(i) for i in range(parts)]))
    whole, place = divmod(part, parts // wholes)
    context, keep = view.split(", ")
    cuts = cut_snippets(context_named(context), keep, sentences, wholes, whole)
    stream = np.random.default_rng(np.random.SeedSequence(draw_seed, spawn_key=(first + whole,)))
    levels = _levels_of_part(cuts, place, sentences // parts, len(epsilons), stream)
    drawn = cast(np.random.Generator, _Drawn(levels))
    return cape_study.similarity(key, drawn, sentences=sentences, parts=parts, epsilons=epsilons)


def _levels_of_part(
    cuts: Sequence[Tokens], place: int, size: int, draws: int, stream: np.random.Generator
) -> Iterator[Array]:
    """Yield what each draw of a part takes of the numbers drawn for all of `cuts`."""
    blocks: list[list[Array]] = [[] for _ in range(draws)]
    for texts, _ in places_of(cuts):
        for block in blocks:
            block.append(stream.random((2, len(texts))))
    levels = [np.concatenate(block, axis=1) for block in blocks]
    start = sum(len(cut.sensitive) for cut in cuts[: place * size])
    for texts, _ in places_of(cuts[place * size : (place + 1) * size]):
        end = start + len(texts)
        yield from (table[:, start:end] for table in levels)
        start = end
