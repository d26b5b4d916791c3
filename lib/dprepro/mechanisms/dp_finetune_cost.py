"""What LoRA saves in DP-SGD, and what it costs: bytes of gradients, time and memory of a step, perplexity.

DP-SGD clips the gradient of each text, so an implementation that holds them all needs, beside the model, the number
of trained weights times the number of texts at once, 4 bytes each. LoRA (Hu et al., arXiv 2106.09685) trains adapters
alone, and its gradients have their size (Yu et al., arXiv 2110.06500). Passing through the model costs the same with
and without. Ghost clipping (Li et al., arXiv 2110.05679) avoids the bytes in another way, at a second backward pass.
"""

import copy
import multiprocessing
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.accounting import noise_multiplier_for
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA, text_losses, token_rows
from dprepro.text.corpora import corpus
from dprepro.text.tiny_lm import TinyLM, tiny_lm

BASE, PLAIN = "base", "plain"
ALL, ADAPTERS = "all weights", "LoRA"
TINY, PACKAGED = "tiny", "packaged"
_ADAPTED = {TINY: LoRA(), PACKAGED: LoRA(target_modules=("q_proj", "v_proj"))}
_BYTES = 4  # of a float32


class Held(NamedTuple):
    """Weights of a model, those of them (or of adapters beside them) that are trained, bytes of their gradients."""

    weights: int
    trained: int
    bytes: int


def gradient_bytes(trained: int, texts: int) -> int:
    """Bytes of the gradients of so many weights for so many texts at once, in single precision.

    Raises
    ------
    ValueError
        An argument that is no whole number of at least 1.
    """
    return _BYTES * int(positive_count("trained", trained)) * int(positive_count("texts", texts))


def held_gradients(
    model: Any, tokenizer: Any, texts: Sequence[str], lora: LoRA | None, rng: np.random.Generator
) -> Held:
    """Make the per-example gradients of texts by one pass through Opacus, and count their bytes.

    Parameters
    ----------
    model, tokenizer
        Of transformers, causal; the model stays as it is.
    texts : sequence of str
    lora : LoRA or None
        Adapters, or all weights.
    rng : Generator
        Draws the adapters.

    Raises
    ------
    ValueError
        As `dp_finetune.token_rows` and `LoRA.adapt`.
    """
    from opacus import GradSampleModule

    rows = token_rows(tokenizer, texts, int(model.config.max_position_embeddings))
    weights = sum(weight.numel() for weight in model.parameters())
    tuned = copy.deepcopy(model).train()
    if lora is not None:
        tuned = lora.adapt(tuned, rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook")  # the inputs are token numbers
        text_losses(GradSampleModule(tuned, loss_reduction="sum"), rows).sum().backward()
    trained = [weight for weight in tuned.parameters() if weight.requires_grad]
    size = sum(weight.grad_sample.numel() * weight.grad_sample.element_size() for weight in trained)
    return Held(weights, sum(weight.numel() for weight in trained), size)


def step_seconds(
    tuning: DPFineTune, lm: TinyLM, texts: Sequence[str], rng: np.random.Generator, repeats: int = 3
) -> list[float]:
    """CPU seconds of a private step with all texts in its batch, in one thread, for each of some steps.

    A step before the first one is not counted: it loads what is loaded once. One thread, since idle threads of a busy
    machine wait in loops that count as time.

    Raises
    ------
    ValueError
        As `dp_finetune.token_rows`, or `repeats` below 1.
    """
    import torch

    number = int(positive_count("repeats", repeats))
    rows = sorted(token_rows(lm.tokenizer, texts, int(lm.model.config.max_position_embeddings)), key=len)
    tuned = copy.deepcopy(lm.model).train()
    if tuning.lora is not None:
        tuned = tuning.lora.adapt(tuned, rng)
    step = tuning._private_step(tuned, float(len(rows)), int(rng.integers(2**63)))
    chunks = [rows[i : i + tuning.chunk] for i in range(0, len(rows), tuning.chunk)]
    ends, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(1 + number):
            step(chunks)
            ends.append(time.process_time())
    finally:
        torch.set_num_threads(threads)
    return np.diff(ends).tolist()


def peak_memory(tunings: Sequence[DPFineTune], texts: Sequence[str]) -> list[int] | None:
    """Peak memory of fine-tuning the tiny model, measured in a process of its own.

    Parameters
    ----------
    tunings : sequence of DPFineTune
        In the order of the memory that they need, least first: the peak of a process never falls.
    texts : sequence of str

    Returns
    -------
    list of int, or None
        Bytes above the peak of loading the model and fine-tuning it on a single text, for each; None where the system
        does not say (Windows).
    """
    if sys.platform == "win32":
        return None
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_peaks, list(tunings), list(texts)).result()


def _peaks(tunings: list[DPFineTune], texts: list[str]) -> list[int]:
    lm, rng = tiny_lm(), np.random.default_rng(0)
    peaks = []
    for tuning, data in [(tunings[0], texts[:1]), *((tuning, texts) for tuning in tunings)]:
        replace(tuning, steps=1, sample_rate=1.0, chunk=len(data)).fit(*lm, data, rng)
        peaks.append(_peak())
    return [peak - peaks[0] for peak in peaks[1:]]


def _peak() -> int:
    """Largest resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux: ru_maxrss there begins with what the parent process had
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def short_snippets(side: str, count: int, longest: int, rng: np.random.Generator) -> list[str]:
    """Draw snippets of film reviews, the private domain of the tiny model, of at most so many tokens.

    Raises
    ------
    ValueError
        Fewer snippets than asked for, or an argument outside its domain.
    """
    number, limit = int(positive_count("count", count)), int(positive_count("longest", longest))
    short = [text for text, tokens in _snippets(side) if tokens <= limit]
    if number > len(short):
        raise ValueError(f"count must be at most {len(short)}, the snippets there are, got {number}")
    return [short[i] for i in rng.choice(len(short), number, replace=False)]


@cache
def _snippets(side: str) -> list[tuple[str, int]]:
    texts = corpus("movies").split(side).without_copies().texts
    rows = tiny_lm().tokenizer(texts)["input_ids"]
    return [(text, len(row)) for text, row in zip(texts, rows, strict=True)]


def gradients(key: str, rng: np.random.Generator, *, texts: int, longest: int) -> dict[str, Any]:
    """Count the bytes of per-example gradients; one item of the saved result ``lora_gradients``.

    Parameters
    ----------
    key : str
        "tiny" or "packaged", then ", all weights" or ", LoRA". (All weights of the packaged model are for
        `gradient_bytes`: arithmetic.)
    rng : Generator
    texts : int
        At once.
    longest : int
        Of a text, in tokens of the tiny model.

    Returns
    -------
    dict
        weights, trained, bytes.

    Raises
    ------
    ValueError
        A key that names no model or weights; as `short_snippets` and `held_gradients`.
    """
    from dprepro.text.local_model import LocalModel

    which, _, what = key.partition(", ")
    one_of("model", which, (TINY, PACKAGED))
    one_of("weights", what, (ALL, ADAPTERS))
    source: Any = tiny_lm() if which == TINY else LocalModel(device="cpu")
    data = short_snippets("train", texts, longest, rng)
    lora = _ADAPTED[which] if what == ADAPTERS else None
    return held_gradients(source.model, source.tokenizer, data, lora, rng)._asdict()


def utility(
    key: str,
    rng: np.random.Generator,
    *,
    data_seed: int,
    texts: int,
    held_out: int,
    longest: int,
    delta: float,
    clipping_norm: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
    lora_learning_rate: float,
) -> dict[str, Any]:
    """Fine-tune the tiny model on snippets of film reviews; one item of the saved result ``lora_utility``.

    Parameters
    ----------
    key : str
        "base", or "<what>, <setting>, <run>": "all weights" or "LoRA", "plain" (no clipping, no noise) or an epsilon.
    rng : Generator
    data_seed : int
        Draws the texts and the held-out ones.
    texts, held_out : int
        Numbers of snippets, of at most `longest` tokens each.
    delta, clipping_norm, sample_rate, steps, learning_rate, lora_learning_rate
        As of `DPFineTune`.

    Returns
    -------
    dict
        perplexity, of the held-out texts; but for the base also noise_multiplier and trained, the number of weights.
    """
    drawn = np.random.default_rng(data_seed)
    data = short_snippets("train", texts, longest, drawn)
    control = short_snippets("test", held_out, longest, drawn)
    lm = tiny_lm()
    if key == BASE:
        return {"perplexity": float(f"{lm.perplexity(control):.9g}")}
    what, setting, _ = key.split(", ")
    lora = _ADAPTED[TINY] if one_of("weights", what, (ALL, ADAPTERS)) == ADAPTERS else None
    rate = learning_rate if lora is None else lora_learning_rate
    if setting == PLAIN:
        # In double precision: without noise, single precision would show which processor this ran on.
        lm.model.double()
        tuning = DPFineTune(0.0, np.inf, sample_rate, steps, rate, lora)
    else:
        noise = noise_multiplier_for(float(setting), sample_rate, steps, delta)
        tuning = DPFineTune(noise, clipping_norm, sample_rate, steps, rate, lora)
    tuned = tuning.fit(*lm, data, rng)
    perplexity = TinyLM(tuned.model, lm.tokenizer).perplexity(control)
    return {
        "noise_multiplier": tuning.noise_multiplier,
        "trained": tuned.trained,
        "perplexity": float(f"{perplexity:.9g}"),
    }
