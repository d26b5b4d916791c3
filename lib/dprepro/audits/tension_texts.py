"""What the study of canaries against extraction trains on: film snippets, four designs of canaries, repeated texts.

The tiny model knows public text only (``text.public_text``); snippets of film reviews are the private domain. Beside
ordinary private texts stand, each in or out by its own fair coin, canaries of four designs:

- arbitrary: snippets like the others (the inserted canaries of the membership literature);
- most extractable: those of a pool that a shadow training without noise memorised most (`shadow`);
- word and new token: one ordinary word, then a token of its own (Panda et al. 2025, arXiv 2503.06808);
- new token alone: that token, six times.

Texts that are in the data many times are there because real corpora have them, and extraction lives on them (Lee et
al., "Deduplicating Training Data Makes Language Models Better", arXiv 2107.06499; Carlini et al., "Quantifying
Memorization", arXiv 2202.07646).
"""

import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.audits.canary_new_tokens import new_token_canaries, with_new_tokens
from dprepro.audits.extraction import extract
from dprepro.base.check import finite, positive_count
from dprepro.mechanisms.dp_finetune import DPFineTune
from dprepro.text.corpora import corpus
from dprepro.text.tiny_lm import TinyLM, tiny_lm

FloatArray = NDArray[np.float64]

PREFIX, SUFFIX = 8, 8  # tokens given, and tokens wanted
LONGEST = 24  # tokens of a snippet, for the sake of time; it needs prefix and suffix, and a token more
REPEATS = 6  # of a new token that stands alone
ARBITRARY, EXTRACTABLE, AFTER_WORD, ALONE = (
    "arbitrary",
    "most extractable",
    "word and new token",
    "new token alone",
)
DESIGNS = (ARBITRARY, EXTRACTABLE, AFTER_WORD, ALONE)
SNIPPETS = (ARBITRARY, EXTRACTABLE)


@dataclass(frozen=True)
class Material:
    """A base model and texts for it.

    Attributes
    ----------
    lm : TinyLM
        Knows the new tokens, all of which start alike.
    records : list of str
        Private texts, in every training once.
    repeated : list of str
        Private texts that are in the data several times.
    canaries : dict of str to list of str
        By design.
    controls : list of str
        Texts of the same domain that are in no training.
    held_out : list of str
        For perplexity.
    """

    lm: TinyLM
    records: list[str]
    repeated: list[str]
    canaries: dict[str, list[str]]
    controls: list[str]
    held_out: list[str]


def snippets(side: str, rng: np.random.Generator) -> list[str]:
    """Return all snippets of the private domain that are as long as the study needs them, in random order."""
    texts = corpus("movies").split(side).without_copies().texts
    rows = tiny_lm().tokenizer(texts)["input_ids"]
    short = [text for text, row in zip(texts, rows, strict=True) if PREFIX + SUFFIX < len(row) <= LONGEST]
    return [short[i] for i in rng.permutation(len(short))]


def shadow(
    key: str, rng: np.random.Generator, *, pool: int, data_seed: int, steps: int, learning_rate: float
) -> dict[str, Any]:
    """Train once without noise on a pool of candidates; the item of the saved result ``tension_shadow``.

    Parameters
    ----------
    key : str
        Of the item; it changes nothing.
    rng : Generator
    pool : int
        Candidates: the first snippets in the order of `data_seed`.
    data_seed : int
    steps : int
        With all candidates in each.
    learning_rate : float

    Returns
    -------
    dict
        gain (pool,): log-probability of each candidate's suffix, given its prefix, less that of the base model.

    Raises
    ------
    ValueError
        No candidate.
    """
    texts = snippets("train", np.random.default_rng(data_seed))[: int(positive_count("pool", pool))]
    base = double(tiny_lm())
    trained = DPFineTune(0.0, np.inf, 1.0, steps, learning_rate).fit(*base, texts, rng).model
    after, before = (
        extract(model, base.tokenizer, texts, PREFIX, SUFFIX).log_probability
        for model in (trained, base.model)
    )
    return {"gain": rounded(after - before)}


@lru_cache(maxsize=2)
def material(
    gain: tuple[float, ...],
    data_seed: int,
    records: int,
    repeated: int,
    each: int,
    new_tokens: tuple[int, int],
    controls: int,
) -> Material:
    """Divide the snippets, and make the canaries; nothing here depends on a coin.

    Parameters
    ----------
    gain : tuple of float
        Of the candidates in `shadow`, with the same `data_seed`.
    data_seed : int
    records, repeated, controls : int
        Numbers of texts; there are as many held-out ones as controls.
    each : int
        Arbitrary canaries, and most extractable ones.
    new_tokens : tuple of two int
        Canaries of the other two designs.

    Raises
    ------
    ValueError
        More texts than there are snippets, or more most extractable ones than candidates.
    """
    rng = np.random.default_rng(data_seed)
    train = snippets("train", rng)
    sizes = [len(finite("gain", gain)), each, records, repeated, controls]
    if sum(sizes) > len(train) or each > len(gain):
        raise ValueError(
            f"there must be at most {len(train)} texts, and {len(gain)} most extractable ones, "
            f"got {sum(sizes)} and {each}"
        )
    pool, arbitrary, own, often, left_out = (
        list(part) for part in np.split(np.array(train, dtype=object)[: sum(sizes)], np.cumsum(sizes)[:-1])
    )
    best = np.argsort(-np.asarray(gain), kind="stable")[:each]
    # All new tokens start alike, so that nothing but training tells one from another.
    model, tokenizer, tokens = with_new_tokens(*tiny_lm(), sum(new_tokens), rng, spread=0.0)
    after_word, alone = tokens[: new_tokens[0]], tokens[new_tokens[0] :]
    words = [text.split()[0] for text in rng.permutation(train)[: len(after_word)]]
    canaries = {
        ARBITRARY: arbitrary,
        EXTRACTABLE: [pool[i] for i in best],
        AFTER_WORD: new_token_canaries(words, after_word, tokenizer),
        ALONE: new_token_canaries([token * (REPEATS - 1) for token in alone], alone, tokenizer),
    }
    held_out = snippets("test", rng)[:controls]
    return Material(TinyLM(model, tokenizer), own, often, canaries, left_out, held_out)


def double(lm: TinyLM) -> TinyLM:
    """Return a copy in double precision.

    Training without noise divides by gradients of any size (Adam), so single precision would show which processor
    it ran on; with noise it does not.
    """
    return TinyLM(copy.deepcopy(lm.model).double(), lm.tokenizer)


def rounded(values: ArrayLike) -> list[float]:
    """Return values with nine digits, for a saved result."""
    return [float(f"{value:.9g}") for value in np.asarray(values, dtype=float)]
