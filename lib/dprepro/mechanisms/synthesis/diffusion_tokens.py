"""Texts as the diffusion model sees them: rows of tokens, and a fixed vector for each token.

Tokens are those of the small public language model. Their vectors are 32 principal directions of its embeddings, all
at the same norm: public, and never trained. A text fills 32 places; behind its end every place holds the end mark, so
that blanks and lengths are learnt like words.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from dprepro.text.tiny_lm import tiny_lm

WINDOW = 32  # places: 31 tokens and an end mark
DIMENSION = 32  # of a token's vector


@cache
def token_vectors() -> Any:
    """Return the vectors of all tokens: a tensor, shape (vocabulary, DIMENSION), rows of norm sqrt(DIMENSION)."""
    import torch

    embeddings = tiny_lm().model.transformer.wte.weight.detach().double()
    left, _, _ = torch.linalg.svd(embeddings - embeddings.mean(0), full_matrices=False)
    directions = left[:, :DIMENSION]
    # Singular vectors have no sign of their own: the largest entry is made positive, on any machine.
    signs = directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
    unit = torch.nn.functional.normalize(directions * signs, dim=1)
    return (unit * math.sqrt(DIMENSION)).float()


def cut_to_window(texts: Sequence[str]) -> list[str]:
    """Return texts cut to the words that fit 31 tokens; those that fit stay as they are."""
    spans = _tokenizer()(list(texts), add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [_cut(text, row) for text, row in zip(texts, spans, strict=True)]


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    if len(spans) < WINDOW:
        return text
    start, end = spans[WINDOW - 2]
    # Between words: within one, the tokens of its beginning need not be those that it begins with.
    words = text[: end + 1].rpartition(" ")[0].rstrip()
    return words or text[:start]  # the last token may be a part of a character


def token_rows(texts: Sequence[str]) -> Any:
    """Return the tokens of each text, filled up with end marks: a tensor of int, shape (n, WINDOW).

    Raises
    ------
    ValueError
        A text of more than 31 tokens, named by its index.
    """
    import torch

    tokenizer = _tokenizer()
    rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    found = torch.full((len(rows), WINDOW), tokenizer.eos_token_id)
    for number, row in enumerate(rows):
        if len(row) >= WINDOW:
            raise ValueError(
                f"texts must have at most {WINDOW - 1} tokens (see cut_to_window), got {len(row)} at index {number}: "
                f"{texts[number][:40]!r}"
            )
        found[number, : len(row)] = torch.tensor(row)
    return found


def text_of(row: Sequence[int]) -> str:
    """Return the text of a row of tokens, up to its first end mark."""
    tokenizer = _tokenizer()
    end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else len(row)
    return str(
        tokenizer.decode(row[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    ).strip()


@cache
def _tokenizer() -> Any:
    return tiny_lm().tokenizer
