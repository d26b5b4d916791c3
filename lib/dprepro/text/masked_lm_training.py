"""How MiniLM gets a head that predicts masked tokens: that of BERT (Devlin et al., arXiv 1810.04805), trained alone.

The packaged sentence embedder comes without one. Its weights stay as they are; what is trained is the transform of
the head (dense, GELU, layer norm) and one number a vocabulary entry, added to the products with the encoder's own
input embeddings. The head reads the third of six layers: the later ones, made for the vector of the whole sentence,
say less about a single token. The masks are BERT's: 15 % of the tokens are to be predicted, of which 80 % read
[MASK], 10 % another token and 10 % themselves. Everything here goes into the hash by which `pretrained` refuses other
weights.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from dprepro.base.store import sha256_file
from dprepro.text.embedders import PACKAGED, embedder
from dprepro.text.packaged import weights
from dprepro.text.public_text import public_hashes, public_pieces

WIDTH, VOCABULARY = 384, 30_522  # of MiniLM
HELD_OUT = 80  # pieces of each corpus
SETTINGS: dict[str, Any] = {
    "seed": 20240612,
    "layers": 3,  # of the encoder; the rest is dropped
    "steps": 600,
    "batch": 32,  # pieces
    "tokens": 64,  # of a piece, with the two marks around it; the rest is cut
    "predicted": 0.15,
    "learning_rate": 5e-3,  # of AdamW, after `warmup` steps; falls linearly from there
    "warmup": 20,
    "weight_decay": 0.01,
    "whitened_on": 20,  # batches
}

IntArray = NDArray[np.int64]


def sources() -> dict[str, str]:
    """Return the SHA-256 of all files that training reads: the public text and the encoder's weights."""
    return {**public_hashes(), PACKAGED: sha256_file(weights(PACKAGED))}


def train() -> tuple[dict[str, bytes], dict[str, Any]]:
    """Train the head; minutes on one core.

    Returns
    -------
    files : dict of str to bytes
        head.safetensors (float16).
    facts : dict
        held_out: what `hits` finds for the head before training, for the unigram frequencies of the training text
        and for the head as stored. first_losses: mean negative log-probability, in nats, of the first five batches.
    """
    import torch
    from safetensors.torch import save

    encoder, tokenizer = packaged_encoder()
    rows = training_rows(tokenizer)
    held_out = held_out_states(encoder, tokenizer)
    untrained, _ = fit(encoder, tokenizer, rows, steps=0)
    head, losses = fit(encoder, tokenizer, rows)
    state = {name: weight.half().contiguous() for name, weight in head.state_dict().items()}
    with torch.no_grad():
        for name, weight in state.items():
            head.get_parameter(name).copy_(weight)
    figures = {
        "before": hits(encoder, untrained, held_out),
        "unigram": unigram(rows, held_out),
        "after": hits(encoder, head, held_out),
    }
    return {"head.safetensors": save(state)}, {"held_out": figures, "first_losses": losses[:5]}


def packaged_encoder() -> tuple[Any, Any]:
    """Return the packaged MiniLM's BertModel up to the layer that the head reads, frozen, and its tokenizer."""
    loaded = embedder().model  # loaded anew: the embedder of others keeps its layers
    encoder = loaded[0].auto_model.requires_grad_(False).eval()
    encoder.encoder.layer = encoder.encoder.layer[: SETTINGS["layers"]]
    encoder.config.num_hidden_layers = SETTINGS["layers"]
    return encoder, loaded.tokenizer


def new_head() -> Any:
    """Return a head with the weights that torch draws, its bias 0; the caller's random state stays as it is."""
    import torch
    from torch.nn import GELU, LayerNorm, Linear, Module, Parameter, Sequential

    head = Module()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SETTINGS["seed"])
        head.transform = Sequential(Linear(WIDTH, WIDTH), GELU(), LayerNorm(WIDTH, eps=1e-12))
    head.bias = Parameter(torch.zeros(VOCABULARY))
    return head


def head_logits(encoder: Any, head: Any, hidden: Any) -> Any:
    """Return logits over the vocabulary for hidden states of the encoder, shapes (..., 384) to (..., vocabulary)."""
    return head.transform(hidden) @ encoder.get_input_embeddings().weight.T + head.bias


def hidden_states(encoder: Any, rows: Sequence[Sequence[int] | IntArray]) -> Any:
    """Return the encoder's last hidden states of rows of tokens, padded on the right: (rows, longest, 384)."""
    import torch

    tensors = [torch.tensor(row) for row in rows]
    inputs = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=0)
    lengths = torch.tensor([[len(row)] for row in rows])
    mask = (torch.arange(inputs.shape[1]) < lengths).long()
    device = encoder.device
    with torch.no_grad():
        return encoder(input_ids=inputs.to(device), attention_mask=mask.to(device)).last_hidden_state


def fit(
    encoder: Any, tokenizer: Any, rows: Sequence[Sequence[int]], steps: int | None = None
) -> tuple[Any, list[float]]:
    """Train a new head.

    Parameters
    ----------
    encoder, tokenizer : as of `packaged_encoder`
    rows : as of `training_rows`
    steps : int, optional
        Stop after so many batches, with the learning rates that the whole run has there.

    Returns
    -------
    head : Module
    losses : list of float
        Of each batch before its step.

    Notes
    -----
    A few directions of the hidden states vary hundreds of times as much as most. AdamW, which scales each weight by
    itself, gets nowhere then, so the head is trained on whitened states and takes the whitening into its own weights
    at the end. From a bias of 0, a few hundred steps would not tell "the" from a rare word; it starts at the
    logarithms of the frequencies.
    """
    import torch

    rng, planned = np.random.default_rng(SETTINGS["seed"]), SETTINGS["steps"]
    order = rng.permutation(len(rows))[: planned * SETTINGS["batch"]].reshape(planned, -1)

    def read(batch: IntArray) -> tuple[Any, Any]:
        seen, places, targets = masked([rows[i] for i in batch], tokenizer, rng)
        return hidden_states(encoder, seen)[places], targets.to(encoder.device)

    sample = torch.cat([read(batch)[0] for batch in order[: SETTINGS["whitened_on"]]])
    mean, whitening = _whitening(sample)
    head = new_head().to(encoder.device)
    with torch.no_grad():
        head.bias.copy_(torch.as_tensor(_log_shares(rows)))
    optimizer = torch.optim.AdamW(
        head.parameters(), SETTINGS["learning_rate"], weight_decay=SETTINGS["weight_decay"]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / SETTINGS["warmup"], 1 - step / planned)
    )
    losses = []
    for batch in tqdm(order[:steps], desc="minilm-mlm-head", unit="batch", disable=None):
        hidden, targets = read(batch)
        logits = head_logits(encoder, head, (hidden - mean) @ whitening)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    with torch.no_grad():
        dense = head.transform[0]
        dense.weight.copy_(dense.weight @ whitening)
        dense.bias.sub_(dense.weight @ mean)
    return head, losses


def _whitening(sample: Any) -> tuple[Any, Any]:
    """Return mean and symmetric matrix that give states unit covariance, but for directions that hardly vary."""
    import torch

    mean = sample.mean(dim=0)
    variances, directions = torch.linalg.eigh(torch.cov(sample.T))
    # A symmetric root does not depend on the signs of the directions, which differ between processors.
    scaled = directions / (variances + 1e-3 * variances.mean()).sqrt()
    return mean, scaled @ directions.T


def masked(
    rows: Sequence[Sequence[int]], tokenizer: Any, rng: np.random.Generator, share: float = 0.8
) -> tuple[list[IntArray], tuple[Any, Any], Any]:
    """Choose 15 % of the tokens of each row, one at least, and hide them.

    Parameters
    ----------
    rows : sequence of token ids, a mark at each end
    tokenizer
    rng : Generator
    share : float
        Of the chosen that read [MASK]. Half of the others read a token drawn from the whole vocabulary.

    Returns
    -------
    read : list of ndarray
        The rows as the encoder reads them.
    places : (rows, positions)
        Index arrays of the chosen.
    targets : tensor of int
        What stood there.
    """
    import torch

    read, places, targets = [], [], []
    for number, row in enumerate(rows):
        tokens = np.array(row)
        count = max(1, round(SETTINGS["predicted"] * (len(row) - 2)))
        chosen = 1 + rng.permutation(len(row) - 2)[:count]
        places += [(number, place) for place in chosen.tolist()]
        targets += tokens[chosen].tolist()
        kind = rng.random(count)
        tokens[chosen[kind < share]] = tokenizer.mask_token_id
        others = chosen[kind >= (1 + share) / 2]
        tokens[others] = rng.integers(len(tokenizer), size=others.size)
        read.append(tokens)
    index = torch.tensor(places)
    return read, (index[:, 0], index[:, 1]), torch.tensor(targets)


def training_rows(tokenizer: Any) -> list[list[int]]:
    """Return the tokens of all pieces of the training splits, a mark at each end."""
    return _rows(tokenizer, list(chain.from_iterable(public_pieces("train").values())))


def held_out_states(encoder: Any, tokenizer: Any) -> dict[str, tuple[Any, Any]]:
    """Return hidden states and targets of `HELD_OUT` pieces of each test split, evenly spaced in it.

    Keys: "" with all predicted tokens behind [MASK], as the head is used; "bert_" with BERT's mixture, of which a
    tenth can simply be read.
    """
    import torch

    texts = [
        texts[i * len(texts) // HELD_OUT] for texts in public_pieces("test").values() for i in range(HELD_OUT)
    ]
    found = {}
    for key, share in (("", 1.0), ("bert_", 0.8)):
        rng, parts = np.random.default_rng(SETTINGS["seed"]), []
        for start in range(0, len(texts), 32):
            read, places, targets = masked(_rows(tokenizer, texts[start : start + 32]), tokenizer, rng, share)
            parts.append((hidden_states(encoder, read)[places], targets))
        hidden, targets = (torch.cat(part) for part in zip(*parts, strict=True))
        found[key] = hidden, targets
    return found


def hits(encoder: Any, head: Any, held_out: dict[str, tuple[Any, Any]]) -> dict[str, float]:
    """Return the shares of predicted tokens that a head puts first (top1) and among its first five (top5).

    The keys bert_top1 and bert_top5 are for BERT's mixture of masks, see `held_out_states`.
    """
    import torch

    found = {}
    with torch.inference_mode():
        for key, (hidden, targets) in held_out.items():
            best = head_logits(encoder, head, hidden).topk(5).indices.cpu()
            found[key] = (best == targets[:, None]).numpy()
    return _shares(found)


def unigram(rows: Sequence[Sequence[int]], held_out: dict[str, tuple[Any, Any]]) -> dict[str, float]:
    """Return the same shares for the most frequent tokens of the training rows, whatever stands around the mask."""
    best = np.argsort(-_log_shares(rows), kind="stable")[:5]
    return _shares({key: targets.numpy()[:, None] == best for key, (_, targets) in held_out.items()})


def _shares(found: dict[str, NDArray[np.bool_]]) -> dict[str, float]:
    return {
        f"{key}top{first}": float(hit[:, :first].any(axis=1).mean())
        for key, hit in found.items()
        for first in (1, 5)
    }


def _log_shares(rows: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    counts = 1 + np.bincount([token for row in rows for token in row[1:-1]], minlength=VOCABULARY)
    return np.log(counts / counts.sum())


def _rows(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, truncation=True, max_length=SETTINGS["tokens"], padding=False)["input_ids"]
