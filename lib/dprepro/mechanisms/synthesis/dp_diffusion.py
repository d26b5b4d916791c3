"""Synthetic text from a small diffusion model over token embeddings, trained with DP-SGD (DP-Diffusion).

The third generator of SynBench (arXiv 2509.14594), in small: the network of ``diffusion_net`` learns to find the
tokens of a text of a class in noise, and texts are drawn from noise alone. A step takes each private text with
probability sample_rate, draws a time and a noise for it, clips the gradient of its loss to a norm of clipping_norm,
adds N(0, (noise_multiplier clipping_norm)^2) to the sum, divides by the expected batch size and goes to Adam (as
Dockhorn et al., "Differentially Private Diffusion Models", arXiv 2210.09929, do for images). What is drawn from the
trained network costs nothing more.

Covered is one text with its label. Not covered, since taken as public: the set of labels, how many texts of each are
asked for, and N. A text has 31 tokens at most: `diffusion_tokens.cut_to_window` cuts longer ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.accounting import ACCOUNTANTS, dp_sgd_epsilon, noise_multiplier_for
from dprepro.mechanisms.synthesis.diffusion_net import Weights, new_weights, noised, text_losses
from dprepro.mechanisms.synthesis.diffusion_sampler import denoised
from dprepro.mechanisms.synthesis.diffusion_tokens import text_of, token_rows
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts, classes

_BATCH = 128  # texts drawn at once


@dataclass(frozen=True)
class DPDiffusion:
    """Training of the diffusion model on labelled texts at a given epsilon, for a generator of such texts.

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive; infinity means neither clipping nor noise.
    sample_rate : float
        Probability that a text is in a batch, in (0, 1].
    steps : int
    learning_rate : float
        Of Adam.
    delta : float, optional
        In (0, 1); by default 1/N as for `dp_gen.DPGen`.
    clipping_norm : float
        Positive, finite; not used where epsilon is infinite.
    accountant : {"prv", "pld", "rdp"}
    chunk : int
        Texts whose gradients are held in memory at once (.8 MB each); another number draws other times and noise.
    """

    epsilon: float
    sample_rate: float
    steps: int
    learning_rate: float
    delta: float | None = None
    clipping_norm: float = 1.0
    accountant: str = "prv"
    chunk: int = 64

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0, np.inf, closed="right")
        in_interval("sample_rate", self.sample_rate, 0, 1, closed="right")
        positive_count("steps", self.steps)
        in_interval("learning_rate", self.learning_rate, 0, np.inf, closed="neither")
        in_interval("clipping_norm", self.clipping_norm, 0, np.inf, closed="neither")
        one_of("accountant", self.accountant, ACCOUNTANTS)
        positive_count("chunk", self.chunk)
        if self.delta is not None:
            in_interval("delta", self.delta, 0, 1, closed="neither")

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        rng: np.random.Generator,
        *,
        records: int | None = None,
        start: Weights | None = None,
    ) -> "DiffusionGenerator":
        """Train the model.

        Parameters
        ----------
        texts, labels : sequences of str, length n
            The private texts, and the class of each.
        rng : Generator
            Draws the start, the samples, times and noise.
        records : int, optional
            N, taken as public: gives the default delta and the expected batch size; n unless given. Give the same
            number for both where corpora with and without a text are compared.
        start : dict of str to tensor, optional
            Weights to begin with instead of random ones, such as `diffusion_start.public_start()`. Labels of theirs
            are left out: the new ones begin without an effect.

        Raises
        ------
        ValueError
            No texts, a blank one, one of more than 31 tokens; labels of another length, a single class, or a class
            with one text; a text that is no Unicode (half of a surrogate pair); a start of another shape, or with a
            weight that is not finite.
        """
        import torch

        kinds = classes(texts, labels)
        _encodable(texts)
        tokens = token_rows(texts)
        number = len(texts) if records is None else int(positive_count("records", records))
        delta = float(in_interval("delta", self.delta or 1 / max(number, 2), 0, 1, closed="neither"))
        weights = _begin(new_weights(len(kinds), int(rng.integers(2**63))), start)
        noise = noise_multiplier_for(self.epsilon, self.sample_rate, self.steps, delta, self.accountant)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        marks = torch.tensor([kinds.index(label) for label in labels])
        adam = torch.optim.Adam(weights.values(), self.learning_rate)
        for _ in range(self.steps):
            drawn = torch.as_tensor(np.flatnonzero(rng.random(len(texts)) < self.sample_rate))
            total = self._gradient_sum(weights, tokens[drawn], marks[drawn], generator)
            for name, weight in weights.items():
                fresh = torch.randn(weight.shape, generator=generator) * noise * self.clipping_norm
                weight.grad = (total[name] + fresh) / (self.sample_rate * number)
            adam.step()
        spent = dp_sgd_epsilon(noise, self.sample_rate, self.steps, delta, self.accountant)
        return DiffusionGenerator(weights, kinds, spent, delta, noise)

    def _gradient_sum(self, weights: Weights, tokens: Any, marks: Any, generator: Any) -> Weights:
        """Sum over the texts of a batch of their gradients, each clipped where epsilon is finite."""
        import torch

        total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        for first in range(0, len(tokens), self.chunk):
            part = slice(first, first + self.chunk)
            seen = noised(tokens[part], marks[part], generator)
            found = text_gradients(weights, *seen)
            norms = torch.sqrt(sum(value.flatten(1).square().sum(1) for value in found.values()))
            limit = self.clipping_norm if self.epsilon < np.inf else np.inf
            factors = torch.clamp(limit / norms, max=1.0)  # 1 for a gradient of norm 0
            for name, value in found.items():
                total[name] += torch.tensordot(factors, value, dims=1)
        return total


@dataclass(frozen=True, eq=False)
class DiffusionGenerator:
    """A trained diffusion model that writes texts of a class.

    Attributes
    ----------
    weights : dict of str to tensor
    labels : tuple of str
        The classes, sorted.
    epsilon, delta : float
        Spent by the account of `DPDiffusion`, on all steps together.
    noise_multiplier : float
        Of that account.
    """

    weights: Weights
    labels: tuple[str, ...]
    epsilon: float
    delta: float
    noise_multiplier: float

    def sample(
        self, counts: Mapping[str, int], rng: np.random.Generator, denoising: int = 32
    ) -> SyntheticTexts:
        """Write texts: from noise, each to its first end mark.

        Parameters
        ----------
        counts : mapping of str to int
            How many texts of each class: public numbers, see above.
        rng : Generator
        denoising : int
            Steps from noise to text.

        Raises
        ------
        ValueError
            No class or an unknown one, or a count that is no positive whole number.
        """
        import torch

        if not counts:
            raise ValueError(f"counts must name a class among {', '.join(self.labels)}, got none")
        steps = int(positive_count("denoising", denoising))
        labels: list[str] = []
        for label, count in counts.items():
            labels += [one_of("label", label, self.labels)] * int(positive_count("count", count))
        marks = torch.tensor([self.labels.index(label) for label in labels])
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        rows = [denoised(self.weights, part, steps, generator) for part in marks.split(_BATCH)]
        texts = [text_of(row) for part in rows for row in part.tolist()]
        return SyntheticTexts(texts, labels, sum(not text.strip() for text in texts))


def text_gradients(weights: Weights, tokens: Any, label: Any, time: Any, noise: Any) -> Weights:
    """Gradient of each text's loss by every weight: as `text_losses`, with tensors of shape (n, *weight.shape)."""
    from torch.func import grad, vmap

    def loss(weights: Weights, *text: Any) -> Any:
        return text_losses(weights, *(part[None] for part in text))[0]

    return vmap(grad(loss), in_dims=(None, 0, 0, 0, 0))(weights, tokens, label, time, noise)


def _begin(drawn: Weights, start: Weights | None) -> Weights:
    if start is None:
        return drawn
    missing = [name for name in drawn if name not in start]
    if missing or set(start) - set(drawn):
        names = ", ".join(sorted(set(start) ^ set(drawn)))
        raise ValueError(
            f"start must have the weights of diffusion_net.new_weights, got other names: {names}"
        )
    for name, weight in drawn.items():
        if name != "label" and tuple(start[name].shape) != tuple(weight.shape):
            raise ValueError(
                f"start must have shape {tuple(weight.shape)} for {name!r}, got {tuple(start[name].shape)}"
            )
        if name != "label" and not start[name].isfinite().all():
            raise ValueError(f"start must be finite, got NaN or infinity in {name!r}")
    return {name: drawn[name] if name == "label" else start[name].detach().clone() for name in drawn}


def _encodable(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"texts must be Unicode, got {error.object[error.start]!r} at index {number}"
            ) from None
