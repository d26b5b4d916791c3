"""Cape on film snippets: what is left of a sentence (arXiv 2505.05922, table 1 and the ablation).

`similarity` gives the rows of table 1 that are Cape's, for each view of the context and each keep-list; `ablation`
leaves out its parts one at a time and moves the constants that the sources leave open.

Logits of a whole vocabulary for each place are too large to be saved, so they are computed with each item; an item is
a part of the sentences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from dprepro.audits.prompt_snippets import snippets
from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.cape import Cape, HybridMechanism
from dprepro.mechanisms.prompt.context import (
    VIEWS,
    CausalContext,
    MaskedContext,
    causal_context,
    masked_context,
)
from dprepro.mechanisms.prompt.reference import EqualSizeBuckets, ExponentialMechanism, RandomisedResponse
from dprepro.mechanisms.prompt.vocabulary import FloatArray, IntArray, Tokens
from dprepro.text.rouge import TOKENS, rouge_l

CONTEXTS = (*VIEWS, "causal")
DEFAULT = "Cape"
# What differs from Cape as it is in the other tables: parts left out, then constants that the sources leave open.
ABLATION: Mapping[str, Mapping[str, Any]] = {
    DEFAULT: {},
    "distance only": {"logit_weight": 0.0},
    "logit only": {"distance_weight": 0.0},
    "N_b = 1": {"buckets": 1},
    "N_b = 10": {"buckets": 10},
    "N_b = 100": {"buckets": 100},
    "N_b = 500": {"buckets": 500},
}
OTHERS = ("one token a bucket", "equal sizes", "randomised response")
CONSTANTS: Mapping[str, Mapping[str, Any]] = {
    "B = 1": {"bound": 1.0},
    "B = 2": {"bound": 2.0},
    "B = 10": {"bound": 10.0},
    "B = 20": {"bound": 20.0},
    "B = 5, raw": {"centred": False},
    "B = 10, raw": {"bound": 10.0, "centred": False},
    "B = 20, raw": {"bound": 20.0, "centred": False},
    "lambda_L = 1": {"logit_weight": 1.0},
    "lambda_D = 0.5": {"distance_weight": 0.5},
    "lambda_D = 2": {"distance_weight": 2.0},
}
_ROWS = 200  # places whose buckets are held at once


def similarity(
    key: str, rng: np.random.Generator, *, sentences: int, parts: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: Rouge-L of some snippets under Cape.

    Parameters
    ----------
    key : str
        "masked, both, 0": one of `CONTEXTS`, a keep-list, which part of the sentences.
    rng : Generator
    sentences, parts : int
        The first so many test snippets, in so many parts of equal length.
    epsilons : sequence of float

    Returns
    -------
    dict
        sensitive, kept, outside: numbers of tokens; for each epsilon "<epsilon>, words" and "<epsilon>, whitespace":
        Rouge-L F1 in [0, 1] of each snippet by those tokens, and "<epsilon>, unchanged": how many sensitive tokens
        came out as they were.

    Raises
    ------
    ValueError
        A key that names no context, keep-list or part.
    """
    context, keep, part = key.split(", ")
    model = context_named(one_of("context", context, CONTEXTS))
    cuts = cut_snippets(model, keep, sentences, parts, int(part))
    found: dict[str, Any] = _counts(cuts)
    mechanism = Cape(model.vocabulary, keep, model)
    drawn: dict[float, list[IntArray]] = {epsilon: [] for epsilon in epsilons}
    for places in places_of(cuts):
        buckets = mechanism.bucketing(_rows(cuts, *places), model.logits(cuts, *places))
        for epsilon in epsilons:
            drawn[epsilon].append(mechanism.draw_from(buckets, epsilon, rng))
    for epsilon in epsilons:
        rows = np.concatenate(drawn[epsilon])
        for tokens in TOKENS:
            found[f"{epsilon:g}, {tokens}"] = _rouge(model, cuts, rows, tokens)
        found[f"{epsilon:g}, unchanged"] = int(
            (rows == np.concatenate([c.rows[c.sensitive] for c in cuts])).sum()
        )
    return found


def ablation(
    key: str, rng: np.random.Generator, *, sentences: int, parts: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: Rouge-L of some snippets under Cape with a part left out, or with other constants.

    Parameters
    ----------
    key : str
        "parts, 0" or "constants, 0": which set of variants, which part of the sentences. Masked context, stop words
        and punctuation kept.
    rng, sentences, parts, epsilons
        As `similarity`.

    Returns
    -------
    dict
        For each variant and epsilon "<variant>, <epsilon>": Rouge-L F1 (words) of each snippet, and
        "<variant>, <epsilon>, unchanged": how many sensitive tokens came out as they were; sensitive: of how many.
    """
    which, part = key.split(", ")
    model = context_named("masked")
    cuts = cut_snippets(model, "both", sentences, parts, int(part))
    original = np.concatenate([cut.rows[cut.sensitive] for cut in cuts])
    samplers = _variants(one_of("which", which, ("parts", "constants")), model, rng)
    drawn: dict[str, list[IntArray]] = {}
    for places in places_of(cuts):
        logits = model.logits(cuts, *places)
        for name, sampler in samplers.items():
            for epsilon, rows in zip(epsilons, sampler(_rows(cuts, *places), logits, epsilons), strict=True):
                drawn.setdefault(f"{name}, {epsilon:g}", []).append(rows)
    found: dict[str, Any] = {"sensitive": len(original)}
    for name, blocks in drawn.items():
        rows = np.concatenate(blocks)
        found[name] = _rouge(model, cuts, rows, "words")
        found[f"{name}, unchanged"] = int((rows == original).sum())
    return found


Sampler = Callable[[IntArray, FloatArray, Sequence[float]], list[IntArray]]


def _variants(which: str, model: MaskedContext, rng: np.random.Generator) -> dict[str, Sampler]:
    vocabulary = model.vocabulary

    def bucketed(mechanism: Cape) -> Sampler:
        def sample(rows: IntArray, logits: FloatArray, epsilons: Sequence[float]) -> list[IntArray]:
            found = mechanism.bucketing(rows, logits)
            return [mechanism.draw_from(found, epsilon, rng) for epsilon in epsilons]

        return sample

    def plain(mechanism: HybridMechanism | RandomisedResponse) -> Sampler:
        return lambda rows, logits, epsilons: [mechanism.draw(rows, e, rng, logits) for e in epsilons]

    if which == "constants":
        return {name: bucketed(Cape(vocabulary, **changes)) for name, changes in CONSTANTS.items()}
    return {
        **{name: bucketed(Cape(vocabulary, **changes)) for name, changes in ABLATION.items()},
        OTHERS[0]: plain(ExponentialMechanism(vocabulary)),
        OTHERS[1]: bucketed(EqualSizeBuckets(vocabulary)),
        OTHERS[2]: plain(RandomisedResponse(vocabulary)),
    }


@cache
def context_named(context: str) -> Any:
    """Return a model of `CONTEXTS`, loaded once a process."""
    return causal_context() if context == "causal" else masked_context(context)


def cut_snippets(
    model: MaskedContext | CausalContext, keep: str, sentences: int, parts: int, part: int
) -> list[Tokens]:
    """Return one part of the first `sentences` test snippets, cut."""
    texts, size = snippets("test", sentences).texts, sentences // parts
    return [model.vocabulary.cut(text, keep) for text in texts[part * size : (part + 1) * size]]


def _counts(cuts: Sequence[Tokens]) -> dict[str, int]:
    return {
        "sensitive": sum(len(cut.sensitive) for cut in cuts),
        "kept": sum(int(cut.kept.sum()) for cut in cuts),
        "outside": sum(int((cut.rows[cut.sensitive] < 0).sum()) for cut in cuts),
    }


def places_of(cuts: Sequence[Tokens], size: int = _ROWS) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield texts and positions of all sensitive tokens, whole texts in blocks of about `size`."""
    texts = np.repeat(np.arange(len(cuts)), [len(cut.sensitive) for cut in cuts])
    positions = np.concatenate([cut.sensitive for cut in cuts])
    for start in range(0, len(texts), size):
        yield texts[start : start + size], positions[start : start + size]


def _rows(cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> IntArray:
    return np.array([cuts[text].rows[position] for text, position in zip(texts, positions, strict=True)])


def _rouge(
    model: MaskedContext | CausalContext, cuts: Sequence[Tokens], rows: IntArray, tokens: str
) -> list[float]:
    found, start = [], 0
    for cut in cuts:
        after = list(cut.tokens)
        for position in cut.sensitive:
            after[position] = model.vocabulary.words[rows[start]]
            start += 1
        before = model.vocabulary.join(cut.tokens)
        found.append(round(rouge_l(before, model.vocabulary.join(after), tokens), 4))
    return found
