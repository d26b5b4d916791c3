"""A responder of n-grams of the prompt itself: the smallest model that learns in context, at any temperature.

The next word is predicted from what followed the same words earlier in the prompt, which is how attention heads copy
(Olsson et al., "In-context Learning and Induction Heads", arXiv 2209.11895). Orders are mixed by Dirichlet priors
(MacKay and Peto 1995): with counts c after the last k words h, P_k(w) = (c(h, w) + a P_(k-1)(w)) / (c(h) + a), and
P_(-1) uniform. Its probabilities are exact and cost microseconds, and its randomness is controlled: what a model of
100 million weights does by the rounding of its logits, this one does by the temperature that it was given.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.text.questions import checked_labels, checked_prompts

FloatArray = NDArray[np.float64]
LINE = "\n"  # a word of its own: ends an answer


class CopyingNGram:
    """A responder.

    Parameters
    ----------
    order : int
        Words looked at: order - 1 before the next one.
    prior : float
        a above, positive: how many occurrences the shorter context is worth.
    max_words : int
        Words that an answer has at most.
    temperature : float
        0: the most probable word (the first in the alphabet of equals). Above: drawn in proportion to
        P^(1/temperature).
    rng : numpy.random.Generator, optional
        Needed above 0.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    def __init__(
        self,
        order: int = 3,
        prior: float = 0.05,
        max_words: int = 8,
        temperature: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.order = int(positive_count("order", order))
        self.prior = float(in_interval("prior", prior, 0, np.inf, closed="neither"))
        self.max_words = int(positive_count("max_words", max_words))
        self.temperature = float(in_interval("temperature", temperature, 0, np.inf, closed="left"))
        if self.temperature > 0 and not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng must be a numpy.random.Generator above temperature 0, got {rng!r}")
        self._rng = rng

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on beside the prompt. The temperature is what a careless caller does not say."""
        return {"model": f"copying-{self.order}-gram", "prior": self.prior, "max_words": self.max_words}

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return the words after each prompt, up to the end of the line."""
        return [self._continued(prompt) for prompt in checked_prompts(prompts)]

    def label_logprobs(self, prompts: Sequence[str], labels: Sequence[str]) -> FloatArray:
        """Return log P(label | prompt), natural, shape (len(prompts), len(labels)); at temperature 1.

        All words that the prompt lacks share the probability of one.
        """
        asked = [_words(label) for label in checked_labels(labels)]
        rows = [
            [self._logprob(_words(prompt), label) for label in asked] for prompt in checked_prompts(prompts)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(asked))

    def next_words(self, words: Sequence[str]) -> tuple[list[str], FloatArray]:
        """The words that may follow, sorted, and their probabilities; the empty word stands for all others."""
        names = sorted({"", *words})
        number = {name: place for place, name in enumerate(names)}
        found = [number[word] for word in words]
        probability = np.full(len(names), 1 / len(names))
        ends = list(range(len(found)))  # of the places that the last `length` words were seen before
        for length in range(self.order):
            if length > 0:
                ends = [end for end in ends if end >= length and found[end - length] == found[-length]]
            counts = np.bincount(np.array([found[end] for end in ends], dtype=np.intp), minlength=len(names))
            probability = (counts + self.prior * probability) / (len(ends) + self.prior)
        return names, probability

    def _continued(self, prompt: str) -> str:
        words = _words(prompt)
        start = len(words)
        while len(words) < start + self.max_words:
            names, probability = self.next_words(words)
            chosen = names[self._pick(probability)]
            if chosen in (LINE, ""):
                break
            words.append(chosen)
        return " " + " ".join(words[start:])

    def _pick(self, probability: FloatArray) -> int:
        if self._rng is None or self.temperature == 0:
            return int(np.argmax(probability))
        logs = np.log(probability) / self.temperature
        return int(np.argmax(logs + self._rng.gumbel(size=len(logs))))

    def _logprob(self, words: list[str], label: list[str]) -> float:
        total = 0.0
        for word in label:
            names, probability = self.next_words(words)
            total += float(np.log(probability[names.index(word) if word in names else names.index("")]))
            words = [*words, word]
        return total


def _words(text: str) -> list[str]:
    return re.findall(r"\n|\S+", text)
