"""Canaries that end in a token of their own, for language models.

Panda, Tang, Nasr, Choquette-Choo, Mittal, "Privacy Auditing of Large Language Models" (2025, arXiv 2503.06808): a
canary is an ordinary beginning followed by a token that occurs nowhere else, and its score is the loss on that token
alone. Nothing else in the training data pulls on the token's weights, so what training left there is the canary's; no
shadow model is needed, since canaries left out are scored by the same model.
"""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]


class Extended(NamedTuple):
    """A model and tokenizer that know new tokens; the ones given stay as they were."""

    model: Any
    tokenizer: Any
    tokens: tuple[str, ...]


def with_new_tokens(
    model: Any, tokenizer: Any, count: int, rng: np.random.Generator, spread: float = 1.0
) -> Extended:
    """Add tokens to a causal language model that no text contains.

    Parameters
    ----------
    model, tokenizer
        Of transformers.
    count : int
        How many; they are called <canary 0>, <canary 1>, ... A space before one belongs to it.
    rng : Generator
        Their embeddings are drawn around the mean of all others.
    spread : float
        Standard deviation of the draw over that of each coordinate, at least 0. At 0 all tokens start alike: what
        tells one from another after training is then its own, and its gradient has the larger share in it.

    Returns
    -------
    Extended

    Raises
    ------
    ValueError
        A tokenizer that has such tokens already, or an argument outside its domain.
    """
    import torch
    from tokenizers import AddedToken

    number = int(positive_count("count", count))
    width = float(in_interval("spread", spread, 0, np.inf, closed="left"))
    tokens = tuple(f"<canary {i}>" for i in range(number))
    larger, words = copy.deepcopy(model), copy.deepcopy(tokenizer)
    # With the space before it, or that would be a token between the prefix and the canary.
    added = [AddedToken(token, lstrip=True, special=True) for token in tokens]
    if words.add_tokens(added, special_tokens=True) != number:
        raise ValueError("tokenizer must not have tokens such as '<canary 0>' already")
    old = larger.get_input_embeddings().weight.detach()
    drawn = torch.tensor(rng.standard_normal((number, old.shape[1])), dtype=old.dtype, device=old.device)
    rows = old.mean(0) + width * old.std(0) * drawn
    with torch.random.fork_rng(devices=[]):  # resizing draws rows of its own, which are replaced
        larger.resize_token_embeddings(len(words), mean_resizing=False)
    numbers = words.convert_tokens_to_ids(list(tokens))
    with torch.no_grad():
        for table in {larger.get_input_embeddings(), larger.get_output_embeddings()}:
            table.weight[numbers] = rows  # once more where both are one table
    return Extended(larger.eval(), words, tokens)


def new_token_canaries(prefixes: Sequence[str], tokens: Sequence[str], tokenizer: Any) -> list[str]:
    """Return a canary for each token: an ordinary beginning, then the token.

    Parameters
    ----------
    prefixes : sequence of str, length k
        Such as the beginnings of texts from the same domain, not in the training data; "" for the token alone.
    tokens : sequence of str, length k
        All different, each a single token of the tokenizer.

    Raises
    ------
    ValueError
        Other numbers of the two, a token twice, or one that the tokenizer splits (named, with its pieces).
    """
    if len(prefixes) != len(tokens) or len(set(tokens)) < len(tokens):
        raise ValueError(
            f"tokens must be {len(prefixes)} different ones, one for each prefix, got {list(tokens)!r:.80}"
        )
    for token in tokens:
        pieces = tokenizer.tokenize(token)
        if len(pieces) != 1:
            raise ValueError(
                f"tokens must each be one token of the tokenizer, got {token!r}, which it splits into {pieces}: "
                "add it first (with_new_tokens)"
            )
    return [f"{prefix} {token}".strip() for prefix, token in zip(prefixes, tokens, strict=True)]


def last_token_losses(model: Any, tokenizer: Any, texts: Sequence[str], batch_size: int = 64) -> FloatArray:
    """Loss on the last token of each text, its own end mark aside, given all before it: shape (len(texts),), in nats.

    Raises
    ------
    ValueError
        As `token_rows`.
    """
    import torch

    from dprepro.mechanisms.dp_finetune import token_rows

    rows = token_rows(tokenizer, texts, int(model.config.max_position_embeddings))
    size, device = int(positive_count("batch_size", batch_size)), next(model.parameters()).device
    losses = np.empty(len(rows))
    with torch.inference_mode():
        for start in range(0, len(rows), size):
            part = [torch.tensor(row[:-1]) for row in rows[start : start + size]]
            last = torch.tensor(
                [len(row) - 2 for row in part], device=device
            )  # the place that predicts the last token
            goal = torch.tensor([int(row[-1]) for row in part], device=device)
            inputs = torch.nn.utils.rnn.pad_sequence(part, batch_first=True).to(device)
            logits = model(input_ids=inputs, use_cache=False).logits[
                torch.arange(len(part), device=device), last
            ]
            scores = logits.double().log_softmax(-1).gather(1, goal[:, None])[:, 0]
            losses[start : start + size] = -scores.cpu().numpy()
    return losses
