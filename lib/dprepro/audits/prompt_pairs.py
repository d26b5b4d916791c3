"""Exact losses of SANTEXT and InferDPT for one token, of SANTEXT (arXiv 2106.01221) for a part of the pairs of words.

The loss of one token is the largest log-ratio over all pairs of words that may stand there, which takes SANTEXT
twelve seconds. Here an item looks at four of 13 blocks of words, dealt as those of `cape_losses`: any two words
are in some item, so that the largest loss of the items is the loss over all pairs.
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dprepro.audits.cape_losses import BLOCKS, inputs_of
from dprepro.audits.prompt_snippets import pieces_mechanism
from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.exact_loss import worst_case_loss
from dprepro.mechanisms.prompt.perturbation import Array, PromptMechanism
from dprepro.mechanisms.prompt.vocabulary import IntArray

PARTS: Mapping[str, int] = {"SANTEXT": BLOCKS, "InferDPT": 1}


class _Among:
    """A mechanism of which only some inputs come in, which is what `worst_case_loss` asks of one."""

    def __init__(self, mechanism: PromptMechanism, inputs: IntArray) -> None:
        self.mechanism, self.vocabulary, self.inputs = mechanism, mechanism.vocabulary, inputs

    def log_channel(self, rows: IntArray, epsilon: float, contexts: ArrayLike | None) -> Array:
        return self.mechanism.log_channel(self.inputs[rows], epsilon, contexts)


def loss(key: str, rng: np.random.Generator, *, inputs: int) -> dict[str, Any]:
    """Return one item: the exact worst-case loss of SANTEXT or InferDPT for one token, over some pairs.

    Parameters
    ----------
    key : str
        "SANTEXT, 6, 12": mechanism, nominal epsilon and which part of the pairs, 0 to 12 of SANTEXT, 0 of InferDPT.
    rng : Generator
        Not used.
    inputs : int
        For InferDPT, whose distribution is a sum over radii, pairs of the first so many pieces only, so that its loss
        is a lower bound.

    Returns
    -------
    dict
        loss: in nats (null where it is infinite); output, likely, unlikely: the tokens that give it.

    Raises
    ------
    ValueError
        A key that names no mechanism or part.
    """
    name, epsilon, part = [*key.split(", "), "", ""][:3]
    parts = PARTS[one_of("mechanism of the key", name, tuple(PARTS))]
    number = int(one_of("part of the key", part, [str(i) for i in range(parts)]))
    mechanism = pieces_mechanism(name)
    words = mechanism.vocabulary.words
    some = inputs_of(number, len(words)) if name == "SANTEXT" else np.arange(min(inputs, len(words)))
    worst = worst_case_loss(cast(PromptMechanism, _Among(mechanism, some)), float(epsilon), inputs=len(some))
    return {
        "loss": worst.value if np.isfinite(worst.value) else None,
        "output": words[worst.output],
        "likely": words[some[worst.likely]],
        "unlikely": words[some[worst.unlikely]],
    }


def joined(items: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[float, float | None]]:
    """Return the loss over all pairs by mechanism and epsilon, None where it is infinite.

    Parameters
    ----------
    items : mapping
        The saved result, by the keys of `loss`.

    Raises
    ------
    ValueError
        A part that is missing: the loss would look smaller than it is.
    """
    found: dict[str, dict[float, float | None]] = {}
    for key in dict.fromkeys(str(key).rpartition(", ")[0] for key in items):
        name, epsilon = key.split(", ")
        wanted = [f"{key}, {i}" for i in range(PARTS[name])]
        if missing := [part for part in wanted if part not in items]:
            raise ValueError(f"items must have all parts of {key!r}, got none for {missing}")
        losses = [items[part]["loss"] for part in wanted]
        found.setdefault(name, {})[float(epsilon)] = None if None in losses else max(losses)
    return found
