"""How the small causal language model is made: GPT-2 in small (Radford et al., 2019), trained on the public text.

A piece of text stands alone in its row, behind the end mark and before it, as `tiny_lm` and those who fine-tune the
model use it. One pass over the text: on this little text a second one would cost as much as it gains. Everything here
goes into the hash by which `pretrained` refuses weights that other code has made.
"""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dprepro.text.public_text import public_hashes, public_pieces

END = "<|endoftext|>"  # before and after each text; entry 0
PAD = "<|pad|>"  # entry 1; not the end mark, so that no collator takes the ends of texts for padding
VOCABULARY = 2048
WINDOW = 128
HELD_OUT = 100  # pieces of each corpus
SETTINGS: dict[str, Any] = {
    "seed": 20240611,
    "width": 128,
    "layers": 4,
    "heads": 4,
    "tokens": 1024,  # in a batch at most, padding included
    "learning_rate": 3e-3,  # of AdamW, after `warmup` steps; falls linearly from there
    "warmup": 100,
    "weight_decay": 0.1,
    "clip": 1.0,
}


def sources() -> dict[str, str]:
    """Return the SHA-256 of all files that training reads."""
    return public_hashes()


def train() -> tuple[dict[str, bytes], dict[str, Any]]:
    """Train the model; minutes on one core.

    Returns
    -------
    files : dict of str to bytes
        config.json, model.safetensors (float16), tokenizer.json.
    facts : dict
        held_out: perplexity per token on `HELD_OUT` pieces of each test split, by corpus and of all tokens, of the
        model before training, of the unigram frequencies of the training text, and of the model as stored.
        first_losses: mean negative log-probability, in nats, of the first five batches.
    """
    import torch
    from safetensors.torch import save

    tokenizer = new_tokenizer(chain.from_iterable(public_pieces("train").values()))
    held_out = held_out_rows(tokenizer)
    before = perplexities(new_model(), held_out)
    model, losses = fit(tokenizer)
    state = {
        name: weight.half().contiguous()
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight"  # the input embeddings once more
    }
    with torch.no_grad():
        for name, weight in state.items():
            model.get_parameter(name).copy_(weight)
    files = {
        "config.json": (json.dumps(model.config.to_diff_dict(), indent=1, sort_keys=True) + "\n").encode(),
        "model.safetensors": save(state, {"format": "pt"}),
        "tokenizer.json": (tokenizer.to_str(pretty=True) + "\n").encode(),
    }
    figures = {
        "before": before,
        "unigram": unigram(tokenizer, held_out),
        "after": perplexities(model, held_out),
    }
    return files, {"held_out": figures, "first_losses": losses[:5], "batches": len(losses)}


def new_tokenizer(texts: Any) -> Any:
    """Return a byte-level BPE tokenizer (of `tokenizers`) with `VOCABULARY` entries, trained on these texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def new_model() -> Any:
    """Return the model before training; the caller's random state stays as it is."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=WINDOW,
        n_embd=SETTINGS["width"],
        n_layer=SETTINGS["layers"],
        n_head=SETTINGS["heads"],
        activation_function="gelu_pytorch_tanh",  # GPT-2's own, computed in one go
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SETTINGS["seed"])
        return GPT2LMHeadModel(config).eval()


def fit(tokenizer: Any, steps: int | None = None) -> tuple[Any, list[float]]:
    """Train a new model on the training splits.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
    steps : int, optional
        Stop after so many batches, with the learning rates that the whole run has there.

    Returns
    -------
    model : GPT2LMHeadModel
    losses : list of float
        Of each batch before its step.
    """
    import torch

    rows = tokens_of(tokenizer, list(chain.from_iterable(public_pieces("train").values())))
    plan = _batches(rows, np.random.default_rng(SETTINGS["seed"]))
    model = new_model().train()
    optimizer = torch.optim.AdamW(
        model.parameters(), SETTINGS["learning_rate"], (0.9, 0.98), weight_decay=SETTINGS["weight_decay"]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / SETTINGS["warmup"], 1 - step / len(plan))
    )
    losses = []
    for batch in tqdm(plan[:steps], desc="tiny-lm", unit="batch", disable=None):
        scores = next_token_scores(model, [rows[i] for i in batch])
        loss = -torch.cat(scores).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["clip"])
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model.eval(), losses


def _batches(rows: Sequence[Sequence[int]], rng: np.random.Generator) -> list[list[int]]:
    """Return each row's number once, in batches of rows of similar length and `tokens` tokens at most."""
    found: list[list[int]] = []
    for part in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // 2048)):
        batch: list[int] = []
        for row in sorted(part.tolist(), key=lambda i: len(rows[i])):
            if (len(batch) + 1) * (len(rows[row]) + 1) > SETTINGS["tokens"]:
                found.append(batch)
                batch = []
            batch.append(row)
        found.append(batch)
    return [found[i] for i in rng.permutation(len(found))]


def tokens_of(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each text, cut where the window ends."""
    return [encoding.ids[: WINDOW - 1] for encoding in tokenizer.encode_batch(texts)]


def held_out_rows(tokenizer: Any) -> dict[str, list[list[int]]]:
    """Return the tokens of `HELD_OUT` pieces of each test split, evenly spaced in it."""
    return {
        name: tokens_of(tokenizer, [texts[i * len(texts) // HELD_OUT] for i in range(HELD_OUT)])
        for name, texts in public_pieces("test").items()
    }


def next_token_scores(model: Any, rows: Sequence[Sequence[int]]) -> list[Any]:
    """Return, for each row of tokens, the log-probability of each of them and then of the end mark (tensors)."""
    import torch

    ends = [torch.tensor([*row, 0]) for row in rows]
    targets = torch.nn.utils.rnn.pad_sequence(ends, batch_first=True, padding_value=0)
    inputs = torch.cat([torch.zeros_like(targets[:, :1]), targets[:, :-1]], dim=1)
    # No mask: padding stands on the right, where a causal model does not look.
    logits = model(inputs.to(model.device), use_cache=False).logits
    scores = logits.log_softmax(dim=-1).gather(2, targets.to(model.device)[..., None])[..., 0]
    return [line[: len(end)] for line, end in zip(scores, ends, strict=True)]


def perplexities(model: Any, held_out: dict[str, list[list[int]]]) -> dict[str, float]:
    """Return exp of the mean negative log-probability of a token, by corpus and of all tokens ("all")."""
    import torch

    scores: dict[str, NDArray[np.float64]] = {}
    with torch.inference_mode():
        for name, rows in held_out.items():
            ordered = sorted(rows, key=len)
            parts = [next_token_scores(model, ordered[i : i + 25]) for i in range(0, len(ordered), 25)]
            scores[name] = torch.cat([*chain.from_iterable(parts)]).double().numpy()
    return _exponentials(scores)


def unigram(tokenizer: Any, held_out: dict[str, list[list[int]]]) -> dict[str, float]:
    """Return the perplexities of token frequencies in the training text, one added to each count."""
    counts = np.ones(VOCABULARY)
    for texts in public_pieces("train").values():
        for row in tokens_of(tokenizer, texts):
            np.add.at(counts, [*row, 0], 1)
    log_shares = np.log(counts / counts.sum())
    return _exponentials(
        {name: log_shares[[token for row in rows for token in (*row, 0)]] for name, rows in held_out.items()}
    )


def _exponentials(scores: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    whole = {**scores, "all": np.concatenate([*scores.values()])}
    return {name: float(np.exp(-values.mean())) for name, values in whole.items()}
