"""What Cape's per-token account leaves out: a token's context is private as well (arXiv 2505.05922).

Each token's distribution depends on its neighbours, so that a change of one word shows in the outputs of the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dprepro.audits.cape_study import context_named
from dprepro.audits.prompt_snippets import snippets
from dprepro.mechanisms.prompt.cape import Bucketing, Cape, by_token
from dprepro.mechanisms.prompt.context import MaskedContext
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import Tokens


def context_leak(
    key: int, rng: np.random.Generator, *, sentences: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: how far the other tokens of a text move when one of its words is another.

    A word of each snippet is replaced by one drawn uniformly. The others stay, but their contexts do not, so their
    outputs tell the two texts apart too.

    Parameters
    ----------
    key : int
        Which group of `sentences` test snippets.
    rng : Generator
    sentences : int
    epsilons : sequence of float

    Returns
    -------
    dict
        For each epsilon "<epsilon>, own" and "<epsilon>, others": for each snippet the loss of the output at the
        word's own place, and that of the outputs at all other places together, for this pair of texts; places:
        sensitive tokens of each snippet.
    """
    model = context_named("masked")
    keep = "both"
    mechanism = Cape(model.vocabulary, keep, model)
    texts = snippets("test", (key + 1) * sentences).texts[key * sentences :]
    found: dict[str, Any] = {f"{epsilon:g}, {part}": [] for epsilon in epsilons for part in ("own", "others")}
    found["places"] = []
    for text in texts:
        cut = model.vocabulary.cut(text, keep)
        if len(cut.sensitive) < 2:
            continue
        changed = int(rng.choice(cut.sensitive))
        other = _with(cut, changed, int(rng.integers(len(model.vocabulary))), model)
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
