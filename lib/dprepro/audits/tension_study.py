"""Canaries against extraction on one model, before and after differential privacy: the trainings.

Extraction recovers much of what language models were trained on (Carlini et al. 2021, arXiv 2012.07805; Nasr et al.
2023, arXiv 2311.17035), while membership inference finds little (Duan et al. 2024, arXiv 2402.07841). Panda et al.
(2025, arXiv 2503.06808) hold that both measure different things. Here every training is attacked in all ways at once:
four designs of canaries, each in by its own fair coin, and extraction of texts that are in once, many times, or never
(``tension_texts``). ``tension_report`` says what comes out.

What can be expected: a canary's gradient has norm clipping_norm whenever it is drawn, q T times on average, against
noise of standard deviation sigma sqrt(T) clipping_norm in any direction. A test of the final model that sees a share
s of the gradient, where no other text pulls, has scores that lie s q sqrt(T) / sigma standard deviations apart.
"""

from typing import Any

import numpy as np

from dprepro.audits.extraction import extract
from dprepro.audits.tension_texts import (
    AFTER_WORD,
    DESIGNS,
    PREFIX,
    SNIPPETS,
    SUFFIX,
    Material,
    double,
    material,
    rounded,
)
from dprepro.base import results
from dprepro.base.check import in_interval
from dprepro.mechanisms.accounting import noise_multiplier_for
from dprepro.mechanisms.dp_finetune import DPFineTune
from dprepro.text.tiny_lm import TinyLM

BASE, PLAIN = "base", "plain"


def mechanism(
    setting: str, *, delta: float, clipping_norm: float, sample_rate: float, steps: int, learning_rate: float
) -> DPFineTune:
    """Return the training of a setting: "plain" (no clipping, no noise), or an epsilon, which its account keeps.

    Raises
    ------
    ValueError
        Another setting, or an argument outside its domain.
    """
    if setting == PLAIN:
        return DPFineTune(0.0, np.inf, sample_rate, steps, learning_rate)
    try:
        budget = float(setting)
    except ValueError:
        raise ValueError(f"setting must be {PLAIN!r} or an epsilon, got {setting!r}") from None
    epsilon = float(in_interval("epsilon", budget, 0, np.inf, closed="neither"))
    noise = noise_multiplier_for(epsilon, sample_rate, steps, delta)
    return DPFineTune(noise, clipping_norm, sample_rate, steps, learning_rate)


def training(
    key: str,
    rng: np.random.Generator,
    *,
    data_seed: int,
    records: int,
    copies: list[int],
    each: int,
    new_tokens: list[int],
    controls: int,
    **settings: Any,
) -> dict[str, Any]:
    """Train once and attack; one item of the saved result ``tension_study``.

    Parameters
    ----------
    key : str
        "<setting>, <run>", the setting as in `mechanism`, or "base": the model before training.
    rng : Generator
    data_seed, records, each, new_tokens, controls
        As of `tension_texts.material`, with the candidates of the saved result ``tension_shadow``.
    copies : list of int
        How often each of the repeated texts is in the data, 0 among them; which is which, is drawn in each run.
    **settings
        As of `mechanism`.

    Returns
    -------
    dict
        What `attacked` returns, and, but for the base: noise_multiplier; "<design>, included", the coins of each
        design; "repeated, copies".
    """
    gain = results.load("tension_shadow")["shadow"]["gain"]
    texts = material(
        tuple(gain), data_seed, records, len(copies), each, (new_tokens[0], new_tokens[1]), controls
    )
    if key == BASE:
        return attacked(texts, texts.lm)
    setting = key.rpartition(", ")[0]
    tuning = mechanism(setting, **settings)
    included = {design: rng.random(len(texts.canaries[design])) < 0.5 for design in DESIGNS}
    times = rng.permutation(copies)
    data = texts.records + [text for text, k in zip(texts.repeated, times, strict=True) for _ in range(k)]
    most = len(data) + sum(map(len, texts.canaries.values()))
    for design, coins in included.items():
        data += [text for text, coin in zip(texts.canaries[design], coins, strict=True) if coin]
    start = double(texts.lm) if setting == PLAIN else texts.lm
    # Divided by a number that does not depend on the coins, as the account assumes.
    tuned = tuning.fit(*start, data, rng, records=most)
    return {
        "noise_multiplier": tuning.noise_multiplier,
        "repeated, copies": times.tolist(),
        **{f"{design}, included": coins.astype(int).tolist() for design, coins in included.items()},
        **attacked(texts, TinyLM(tuned.model, texts.lm.tokenizer)),
    }


def attacked(texts: Material, lm: TinyLM) -> dict[str, Any]:
    """Return what the attacks see of a model.

    Returns
    -------
    dict
        perplexity, of the held-out texts; for each design "<design>, loss": of the whole text, or of the canary's
        own tokens where it has some; for records, repeated, controls and both designs of snippets
        "<group>, matched" and "<group>, log-probability" as in `extraction.Extraction`.
    """
    item: dict[str, Any] = {"perplexity": float(f"{lm.perplexity(texts.held_out):.9g}")}
    for design in DESIGNS:
        # The end of a canary is no token of its own.
        counted = slice(None) if design in SNIPPETS else slice(-2 if design == AFTER_WORD else 0, -1)
        scores = lm.log_probabilities(texts.canaries[design])
        item[f"{design}, loss"] = rounded([-line[counted].mean() for line in scores])
    groups = {"records": texts.records, "repeated": texts.repeated, "controls": texts.controls}
    for group, members in {**groups, **{design: texts.canaries[design] for design in SNIPPETS}}.items():
        found = extract(*lm, members, PREFIX, SUFFIX)
        item[f"{group}, matched"] = found.matched.tolist()
        item[f"{group}, log-probability"] = rounded(found.log_probability)
    return item
