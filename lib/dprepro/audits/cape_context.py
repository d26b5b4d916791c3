"""What Cape's per-token account leaves out: a token's context is private as well (arXiv 2505.05922).

Each token's distribution depends on its neighbours, so that a change of one word shows in the outputs of the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dprepro.audits.cape_study import context_named
from dprepro.audits.prompt_snippets import snippets
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.prompt.cape import Bucketing, Cape, by_token
from dprepro.mechanisms.prompt.context import MaskedContext
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import Tokens


def context_leak(
    key: str,
    rng: np.random.Generator,
    *,
    sentences: int,
    parts: int,
    epsilons: Sequence[float],
    word_seed: int,
) -> dict[str, Any]:
    """Return one item: how far the other tokens of a text move when one of its words is another.

    A word of each snippet is replaced by one drawn uniformly. The others stay, but their contexts do not, so their
    outputs tell the two texts apart too.

    Parameters
    ----------
    key : str
        "3, 0": which group of `sentences` test snippets, and which part of the group.
    rng : Generator
        Not used: words have a seed of their own, so that they are the same in any number of parts.
    sentences, parts : int
        Snippets in a group, in so many parts of equal length.
    epsilons : sequence of float
    word_seed : int
        Group g draws which words are replaced, and by which, by SeedSequence(word_seed, spawn_key=(g,)).

    Returns
    -------
    dict
        For each epsilon "<epsilon>, own" and "<epsilon>, others": for each snippet the loss of the output at the
        word's own place, and that of the outputs at all other places together, for this pair of texts; places:
        sensitive tokens of each snippet.

    Raises
    ------
    ValueError
        A key that names no group or no part.
    """
    first, _, second = key.partition(", ")
    group = int(positive_count("group of the key", first, minimum=0))
    part, size = int(one_of("part of the key", second, [str(i) for i in range(parts)])), sentences // parts
    model = context_named("masked")
    keep = "both"
    mechanism = Cape(model.vocabulary, keep, model)
    texts = snippets("test", (group + 1) * sentences).texts[group * sentences :]
    words = np.random.default_rng(np.random.SeedSequence(word_seed, spawn_key=(group,)))
    found: dict[str, Any] = {f"{epsilon:g}, {part}": [] for epsilon in epsilons for part in ("own", "others")}
    found["places"] = []
    for number, text in enumerate(texts[: (part + 1) * size]):
        cut = model.vocabulary.cut(text, keep)
        if len(cut.sensitive) < 2:
            continue
        changed, word = int(words.choice(cut.sensitive)), int(words.integers(len(model.vocabulary)))
        if number < part * size:
            continue
        other = _with(cut, changed, word, model)
        zero = np.zeros(len(cut.sensitive), np.int64)
        sides = [
            mechanism.bucketing(side.rows[side.sensitive], model.logits([side], zero, side.sensitive))
            for side in (cut, other)
        ]
        found["places"].append(len(cut.sensitive))
        own = cut.sensitive == changed
        for epsilon in epsilons:
            # Outputs are independent given the text, so losses of places add up, in one direction or the other.
            gaps = _largest_gaps(mechanism, sides[0], sides[1], epsilon)
            found[f"{epsilon:g}, own"].append(float(gaps[:, own].max()))
            found[f"{epsilon:g}, others"].append(float(gaps[:, ~own].sum(axis=1).max()))
    return found


def _largest_gaps(mechanism: Cape, a: Bucketing, b: Bucketing, epsilon: float) -> Array:
    """Return the loss at each place from a to b, and from b to a: shape (2, places)."""
    tables = [by_token(mechanism.log_token(side, epsilon), side) for side in (a, b)]
    gap = tables[0] - tables[1]
    return np.stack([gap.max(axis=1), -gap.min(axis=1)])


def _with(cut: Tokens, position: int, row: int, model: MaskedContext) -> Tokens:
    tokens, rows = list(cut.tokens), cut.rows.copy()
    tokens[position], rows[position] = model.vocabulary.words[row], row
    return replace(cut, tokens=tuple(tokens), rows=rows)
