"""Do larger generators help? DP-Gen on public models of three sizes (SynBench, arXiv 2509.14594).

The smaller models are the packaged one with its upper layers taken off, trained on for a while on public text; the
largest, with all layers, is trained on as long. Each is then fine-tuned on the same private texts and measured as in
``synbench_utility``. Perplexity on public text that none has read says that larger ones are better models.

**The claim** (synbench-07: larger generators do not help) is tested on macro F1 over the sizes. A series is one draw
of private texts at one budget. FAILS if F1 rises with size (``stats.trend``, p < .05 over all series); HOLDS if it
does not and the largest gains less than .05 over the smallest, by the upper end of the 95 % t interval over series;
UNDECIDED otherwise.
"""

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from dprepro.audits.judged import Judged, mean_of
from dprepro.audits.synbench_tasks import packaged
from dprepro.audits.synbench_utility import account, measured, vectors
from dprepro.base.check import positive_count
from dprepro.mechanisms.dp_finetune import DPFineTune
from dprepro.mechanisms.synthesis.diffusion_tokens import cut_to_window
from dprepro.mechanisms.synthesis.dp_gen import DPGen
from dprepro.stats.trend import trend
from dprepro.text.public_text import public_pieces
from dprepro.text.tiny_lm import TinyLM, tiny_lm

LEAST_GAIN = 0.05
ALPHA = 0.05
_BATCH = 32  # public texts in a batch
_RATE = 1e-3  # of Adam, on public text
_HELD_OUT = 200  # public pieces of the test side


@cache
def public_model(layers: int, steps: int, seed: int) -> tuple[TinyLM, float]:
    """Return the packaged model with its first layers alone, trained on public text, and its perplexity.

    Parameters
    ----------
    layers : int
        1 to 4.
    steps : int
        Batches of public text.
    seed : int
        Of the texts that it sees, the same for every size.

    Raises
    ------
    ValueError
        More layers than there are, or arguments outside their domains.
    """
    lm = tiny_lm()
    whole = len(lm.model.transformer.h)
    if int(positive_count("layers", layers)) > whole:
        raise ValueError(f"layers must be at most {whole}, got {layers}")
    lm.model.transformer.h = lm.model.transformer.h[:layers]
    lm.model.config.n_layer = layers
    rng = np.random.default_rng(seed)
    pieces = list(chain.from_iterable(public_pieces("train").values()))
    drawn = rng.choice(len(pieces), int(positive_count("steps", steps)) * _BATCH, replace=False)
    read = cut_to_window([pieces[i] for i in drawn])
    tuned = DPFineTune(0.0, np.inf, _BATCH / len(read), steps, _RATE).fit(*lm, read, rng)
    made = TinyLM(tuned.model, lm.tokenizer)
    unread = list(chain.from_iterable(public_pieces("test").values()))
    held_out = cut_to_window([unread[i * len(unread) // _HELD_OUT] for i in range(_HELD_OUT)])
    return made, made.perplexity(held_out)


def item(
    key: str,
    rng: np.random.Generator,
    *,
    domain: str,
    public_steps: int,
    public_seed: int,
    batch: int,
    steps: int,
    learning_rate: float,
    written: int,
    max_tokens: int,
) -> dict[str, Any]:
    """Return one item of the saved result ``synbench_sizes``, "<layers>, <epsilon>, <number of the draw>".

    Parameters
    ----------
    key : str
    rng : Generator
    domain : str
        A packaged task.
    public_steps, public_seed
        As of `public_model`.
    batch, steps, learning_rate, written, max_tokens
        As of ``synbench_by_dp_gen.scores``.

    Returns
    -------
    dict
        As ``synbench_by_dp_gen.scores`` with weights (how many the model has) and perplexity (on unread public text,
        before the private texts).
    """
    layers, epsilon, number = key.split(", ")
    task = packaged(domain, int(number))
    lm, perplexity = public_model(int(layers), public_steps, public_seed)
    tuning = DPGen(float(epsilon), min(1.0, batch / len(task.texts)), steps, learning_rate)
    made = tuning.fit(*lm, task.texts, task.labels, rng)
    return {
        "weights": sum(weight.numel() for weight in lm.model.parameters()),
        "perplexity": perplexity,
        **account(made),
        **measured(task, made.sample(task.counts(written), rng, max_tokens), vectors()),
    }


def by_size(
    found: Mapping[Any, Mapping[str, Any]], measure: str = "macro"
) -> dict[tuple[str, str], list[float]]:
    """Return a measure from the smallest to the largest model for each (epsilon, number of the draw)."""
    series: dict[tuple[str, str], list[float]] = {}
    for key in sorted(found, key=lambda key: int(key.split(", ")[0])):
        _, epsilon, number = key.split(", ")
        series.setdefault((epsilon, number), []).append(float(found[key][measure]))
    return series


def claim(found: Mapping[Any, Mapping[str, Any]]) -> Judged:
    """Judge synbench-07 by the rule above; the effect is the gain of the largest model over the smallest in F1.

    Raises
    ------
    ValueError
        Fewer than two series.
    """
    series = list(by_size(found).values())
    if len(series) < 2:
        raise ValueError(f"found must have two series at least, got {len(series)}")
    gain = mean_of([values[-1] - values[0] for values in series])
    order = trend(series)
    rises = order.p_rising < ALPHA
    outcome = "FAILS" if rises else "HOLDS" if gain.high < LEAST_GAIN else "UNDECIDED"
    sizes = sorted({int(values["weights"]) for values in found.values()})
    reason = (
        f"gain in macro F1 of DP-Gen with {sizes[-1]:,} weights over {sizes[0]:,}; trend over {len(sizes)} sizes "
        f"S = {order.s} of {order.pairs}, p rising {order.p_rising:.3f}"
    )
    return Judged(outcome, *gain, len(series), reason)
