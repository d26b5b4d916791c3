"""Extraction of training texts from a language model: prefix in, verbatim continuation out; and exposure.

Carlini et al., "Extracting Training Data from Large Language Models" (2021, arXiv 2012.07805), and Nasr et al.,
"Scalable Extraction of Training Data" (2023, arXiv 2311.17035): a text is extracted if the model, given its first
tokens, goes on with its next ones. Greedy decoding does so exactly if each token is the most probable one after those
before it, which one pass over the text shows. Sampling does so with the probability that the model gives the
continuation (Hayes et al., arXiv 2410.19482). Neither is membership inference: how much of it is memory shows only
beside texts that were not trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, positive_count
from dprepro.mechanisms.dp_finetune import token_rows
from dprepro.stats.bounds import clopper_pearson

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Extraction:
    """What a model makes of the beginnings of n texts.

    Attributes
    ----------
    prefix, suffix : int
        Tokens given, and tokens that have to follow.
    matched : ndarray of int, shape (n,)
        Right tokens before the first wrong one, under greedy decoding; at most suffix.
    log_probability : ndarray, shape (n,)
        Of the whole suffix after the prefix, in nats.
    """

    prefix: int
    suffix: int
    matched: NDArray[np.int64]
    log_probability: FloatArray

    @property
    def verbatim(self) -> NDArray[np.bool_]:
        """Which texts greedy decoding completes word for word, shape (n,)."""
        return self.matched == self.suffix

    def rate(self, alpha: float = 0.05) -> tuple[float, float, float]:
        """Share of texts that greedy decoding completes, with its Clopper-Pearson limits at level alpha."""
        hits, n = int(self.verbatim.sum()), len(self.matched)
        low, high = clopper_pearson(hits, n, alpha)
        return hits / n, float(low), float(high)

    def within(self, tries: ArrayLike) -> FloatArray:
        """Chance that at least one of so many samples at temperature 1 is the suffix, for each text.

        Parameters
        ----------
        tries : array_like of whole numbers, at least 1
            Broadcasts with shape (n,).

        Raises
        ------
        ValueError
            Tries that are no whole numbers of at least 1.
        """
        number = positive_count("tries", tries)
        with np.errstate(divide="ignore"):  # a suffix that is certain
            return np.asarray(-np.expm1(number * np.log1p(-np.exp(self.log_probability))))


def extract(
    model: Any, tokenizer: Any, texts: Sequence[str], prefix: int, suffix: int, batch_size: int = 64
) -> Extraction:
    """Ask a model to go on from the beginning of each text.

    Parameters
    ----------
    model, tokenizer
        Of transformers, causal.
    texts : sequence of str, length n
        Training texts, or others as a control.
    prefix, suffix : int
        Tokens given (behind the mark that begins a text) and tokens wanted.
    batch_size : int

    Returns
    -------
    Extraction

    Raises
    ------
    ValueError
        A prefix and suffix that the model's window cannot hold; a text with fewer tokens than both together (named by
        its index), or one that `token_rows` refuses.
    """
    import torch

    given, wanted = int(positive_count("prefix", prefix)), int(positive_count("suffix", suffix))
    size = int(positive_count("batch_size", batch_size))
    window = int(model.config.max_position_embeddings)
    if given + wanted >= window:
        raise ValueError(
            f"prefix and suffix must have at most {window - 1} tokens together (the window has {window}), "
            f"got {given} and {wanted}"
        )
    rows = token_rows(tokenizer, texts, window)
    for number, row in enumerate(rows):
        if len(row) - 2 < given + wanted:
            raise ValueError(
                f"texts must have at least {given + wanted} tokens (prefix and suffix), got {len(row) - 2} at index "
                f"{number}: {texts[number][:40]!r}"
            )
    tokens = torch.tensor([row[: 1 + given + wanted] for row in rows])
    matched, scores = [], []
    with torch.inference_mode():
        for part in tokens.split(size):
            part = part.to(next(model.parameters()).device)
            logits = model(input_ids=part[:, :-1], use_cache=False).logits[:, given:]
            goal = part[:, 1 + given :]
            right = (logits.argmax(-1) == goal).long().cumprod(1).sum(1)
            log_probability = logits.double().log_softmax(-1).gather(2, goal[..., None]).sum((1, 2))
            matched.append(right.cpu().numpy())
            scores.append(log_probability.cpu().numpy())
    return Extraction(given, wanted, np.concatenate(matched), np.concatenate(scores))


def exposure(losses: ArrayLike, alternatives: ArrayLike) -> FloatArray:
    """Exposure of canaries: how far up each stands among the alternatives that could have been drawn in its place.

    Parameters
    ----------
    losses : array_like, shape (n,)
        Loss of each canary under the trained model.
    alternatives : array_like, shape (m,)
        Losses of texts from the same space that were not inserted.

    Returns
    -------
    ndarray, shape (n,)
        log2(m + 1) - log2(rank), in bits, in [0, log2(m + 1)] (Carlini et al., "The Secret Sharer", 2019, section 4);
        rank is 1 plus the number of alternatives whose loss is at most the canary's. For a canary that left no trace
        the rank is uniform, and the exposure 1/ln 2 = 1.44 bits on average if m is large.

    Raises
    ------
    ValueError
        No alternatives, or a loss that is not finite.
    """
    own, others = finite("losses", losses), np.sort(finite("alternatives", alternatives).ravel())
    if others.size == 0:
        raise ValueError("alternatives must hold at least one loss, got none")
    rank = 1 + np.searchsorted(others, own, side="right")
    return np.log2(others.size + 1) - np.log2(rank)
