"""Texts sampled from a small causal language model, token by token, with the randomness of one NumPy generator.

The `generate` of transformers draws with the global state of torch, and rounds in float32; here a token is where a
uniform number falls among the cumulated probabilities, so machines that agree on these agree on the texts. No cache
of earlier tokens is kept: for windows of a few dozen tokens it costs more than it saves.
"""

from typing import Any

import numpy as np

from dprepro.base.check import positive_count


def sample_words(
    model: Any, tokenizer: Any, prompt: str, n: int, rng: np.random.Generator, tokens: int
) -> list[str]:
    """Draw texts that begin with a prompt, at temperature 1.

    Parameters
    ----------
    model, tokenizer
        Of transformers, causal; begin and end of a text are marked by the tokenizer's own tokens.
    prompt : str
        May be empty.
    n : int
        Number of texts.
    rng : Generator
    tokens : int
        Drawn after the prompt at most; a text that ends before is shorter.

    Returns
    -------
    list of str, length n
        Prompt and continuation, without marks.

    Raises
    ------
    ValueError
        A number below 1, or a prompt that leaves no room in the model's window for so many tokens.
    """
    import torch

    count, more = int(positive_count("n", n)), int(positive_count("tokens", tokens))
    start = [tokenizer.bos_token_id, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
    window = int(model.config.max_position_embeddings)
    if len(start) + more > window:
        raise ValueError(f"tokens must be at most {window - len(start)} after this prompt, got {more}")
    rows = np.tile(np.array(start, dtype=np.int64), (count, 1))
    for _ in range(more):
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(rows), use_cache=False).logits[:, -1]
            law = torch.softmax(logits.double(), dim=-1).numpy()
        below = np.cumsum(law, axis=1)
        drawn = (below < rng.random((count, 1)) * below[:, -1:]).sum(axis=1)
        rows = np.column_stack([rows, drawn])
    texts = []
    for row in rows:
        ends = np.flatnonzero(row[len(start) :] == tokenizer.eos_token_id)
        whole = row[1 : len(start) + ends[0]] if len(ends) else row[1:]
        texts.append(str(tokenizer.decode(whole.tolist(), skip_special_tokens=True)))
    return texts
