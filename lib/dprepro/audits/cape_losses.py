"""Exact privacy losses of Cape on film snippets, and what its per-token account leaves out (arXiv 2505.05922).

`losses` is the largest log-ratio over all pairs of the vocabulary for one place of a text. `context_leak` looks at a
whole text: each token's distribution depends on its neighbours, which are private as well, so that a change of one
word shows in the outputs of the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dprepro.audits.cape_study import ABLATION, context_named, cut_snippets, places_of
from dprepro.audits.prompt_snippets import snippets
from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.cape import Bucketing, Cape, by_token
from dprepro.mechanisms.prompt.context import MaskedContext
from dprepro.mechanisms.prompt.exact_loss import bucketed_losses
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import Tokens


def losses(
    key: str, rng: np.random.Generator, *, sentences: int, place_seed: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: exact losses of Cape at one place of a snippet, over all pairs of the vocabulary.

    Parameters
    ----------
    key : str
        "Cape, 0": a variant of `ABLATION` and the number of the place, a sensitive token drawn by `place_seed`.
    rng : Generator
        Not used: nothing is sampled.
    sentences : int
        The places are in the first so many test snippets.
    place_seed : int
    epsilons : sequence of float

    Returns
    -------
    dict
        word, the token at the place, and text; lists over epsilons: exact, own, stated, corrected (see
        `exact_loss.BucketedLoss`); output, likely, unlikely: where the last exact loss is reached; fewest, most.

    Raises
    ------
    ValueError
        A key that names no variant.
    """
    name, number = key.split(", ")
    model = context_named("masked")
    cuts = cut_snippets(model, "both", sentences, 1, 0)
    texts, positions = next(places_of(cuts, len(cuts) * 100))
    order = np.random.default_rng([place_seed, int(number)]).permutation(len(texts))[:1]
    cut, position = cuts[texts[order[0]]], int(positions[order[0]])
    mechanism = Cape(model.vocabulary, "both", model, **ABLATION[one_of("variant", name, tuple(ABLATION))])
    context = model.logits(cuts, texts[order], positions[order])[0]
    found = bucketed_losses(mechanism, epsilons, context)
    last, words = found[-1], model.vocabulary.words
    ends = {part: words[getattr(last.exact, part)] for part in ("output", "likely", "unlikely")}
    return {
        "word": cut.tokens[position],
        "text": model.vocabulary.join(cut.tokens),
        "exact": [loss.exact.value for loss in found],
        **{part: [getattr(loss, part) for loss in found] for part in ("own", "stated", "corrected")},
        **ends,
        "fewest": last.fewest,
        "most": last.most,
    }


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
