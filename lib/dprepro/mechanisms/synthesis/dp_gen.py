"""Synthetic text from a causal language model that was fine-tuned with DP-SGD, class by class (DP-Gen).

Yue et al., "Synthetic Text Generation with Differential Privacy: A Simple and Practical Recipe" (arXiv 2210.14348):
put the label before each private text, fine-tune with DP-SGD (``dp_finetune``), then let the model go on after each
label. Texts that the model writes cost nothing more (post-processing), however many there are. Defaults are those of
dp-transformers: clipping norm 1, delta 1/N, the PRV account.

Covered is one text with its label. Not covered: the set of labels, how many texts of each are asked for, and N, all
of them taken as public here. Counts of labels in private data need noise of their own before they are used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.accounting import ACCOUNTANTS, noise_multiplier_for
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA, text_losses, token_rows
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts, checked, classes

FloatArray = NDArray[np.float64]

_BATCH = 256  # texts written or scored at once


@dataclass(frozen=True)
class DPGen:
    """Fine-tuning of a causal model on labelled texts at a given epsilon, for a generator of such texts.

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
        In (0, 1); by default 1/N as in dp-transformers, which is large: a mechanism that publishes one of N texts in
        full, drawn at random, satisfies it.
    clipping_norm : float
        Positive, finite; not used where epsilon is infinite.
    lora : LoRA, optional
        Train adapters alone.
    accountant : {"prv", "pld", "rdp"}
    noise_share : float
        In [0, 1]. Share of the accounted noise that is really added: 1 is the mechanism, less is a planted bug for
        audits to find (0 skips the noise), which the account does not see.
    """

    epsilon: float
    sample_rate: float
    steps: int
    learning_rate: float
    delta: float | None = None
    clipping_norm: float = 1.0
    lora: LoRA | None = None
    accountant: str = "prv"
    noise_share: float = 1.0

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0, np.inf, closed="right")
        in_interval("clipping_norm", self.clipping_norm, 0, np.inf, closed="neither")
        in_interval("noise_share", self.noise_share, 0, 1)
        one_of("accountant", self.accountant, ACCOUNTANTS)
        if self.delta is not None:
            in_interval("delta", self.delta, 0, 1, closed="neither")
        DPFineTune(
            0.0, self.clipping_norm, self.sample_rate, self.steps, self.learning_rate
        )  # checks the rest

    def fit(
        self,
        model: Any,
        tokenizer: Any,
        texts: Sequence[str],
        labels: Sequence[str],
        rng: np.random.Generator,
        *,
        records: int | None = None,
    ) -> "TextGenerator":
        """Fine-tune a copy of a model.

        Parameters
        ----------
        model, tokenizer
            Causal, of transformers, any size; ``*tiny_lm()`` for the one at hand.
        texts, labels : sequences of str, length n
            The private texts, and the class of each.
        rng : Generator
            Draws the samples, the adapters' start and the noise.
        records : int, optional
            N, taken as public: gives the default delta and the expected batch size; n unless given. Give the same
            number for both where corpora with and without a text are compared.

        Raises
        ------
        ValueError
            No texts, a blank one, one that with its label is too long for the model's window; labels of another
            length, a single class, or a class with one text.
        """
        kinds = classes(texts, labels)
        number = len(texts) if records is None else int(positive_count("records", records))
        delta = float(in_interval("delta", self.delta or 1 / max(number, 2), 0, 1, closed="neither"))
        noise = noise_multiplier_for(self.epsilon, self.sample_rate, self.steps, delta, self.accountant)

        def tuning(multiplier: float) -> DPFineTune:
            norm = np.inf if self.epsilon == np.inf else self.clipping_norm
            return DPFineTune(multiplier, norm, self.sample_rate, self.steps, self.learning_rate, self.lora)

        tuned = tuning(self.noise_share * noise).fit(
            model, tokenizer, _prompted(texts, labels), rng, records=number
        )
        spent = tuning(noise).epsilon(delta, self.accountant)
        return TextGenerator(tuned.model, tokenizer, kinds, spent, delta, noise)


@dataclass(frozen=True)
class TextGenerator:
    """A fine-tuned model that writes texts of a class.

    Attributes
    ----------
    model, tokenizer
        Of transformers.
    labels : tuple of str
        The classes, sorted.
    epsilon, delta : float
        Spent by the account of `DPGen`, on all steps together; it assumes the whole noise.
    noise_multiplier : float
        Of that account.
    """

    model: Any
    tokenizer: Any
    labels: tuple[str, ...]
    epsilon: float
    delta: float
    noise_multiplier: float

    def sample(
        self, counts: Mapping[str, int], rng: np.random.Generator, max_tokens: int = 32
    ) -> SyntheticTexts:
        """Write texts: temperature 1, the whole vocabulary, until the end mark or `max_tokens`.

        Parameters
        ----------
        counts : mapping of str to int
            How many texts of each class: public numbers, see above.
        rng : Generator
            Gives the seed of each batch; the random state of torch stays as it is.
        max_tokens : int
            After the prompt, at most.

        Raises
        ------
        ValueError
            No class or an unknown one, a count that is no positive whole number, or a prompt that leaves no room in
            the window for `max_tokens`.
        """
        if not counts:
            raise ValueError(f"counts must name a class among {', '.join(self.labels)}, got none")
        texts: list[str] = []
        labels: list[str] = []
        for label, count in counts.items():
            one_of("label", label, self.labels)
            left = int(positive_count("count", count))
            labels += [label] * left
            while left:
                texts += self._written(
                    label, min(left, _BATCH), rng, int(positive_count("max_tokens", max_tokens))
                )
                left = len(labels) - len(texts)
        return SyntheticTexts(texts, labels, sum(not text.strip() for text in texts))

    def losses(self, texts: Sequence[str], labels: Sequence[str]) -> FloatArray:
        """Mean loss over the tokens of each text and its end mark, given its label: what a white box sees.

        Parameters
        ----------
        texts, labels : sequences of str, length n

        Returns
        -------
        ndarray, shape (n,)
            In nats a token.

        Raises
        ------
        ValueError
            As `DPGen.fit` for texts, or a label that is not among the generator's.
        """
        import torch

        checked(texts, labels)
        for label in labels:
            one_of("label", label, self.labels)
        rows = self._rows(_prompted(texts, labels))
        prompts = {label: self._prompt(label) for label in self.labels}
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found = np.empty(len(rows))
        with torch.inference_mode():
            # The loss of the prompt is taken off: it is the same for all texts of a class and says nothing of one.
            start = {
                label: float(text_losses(self.model, [row])) * (len(row) - 1)
                for label, row in prompts.items()
            }
            for first in range(0, len(order), _BATCH):
                batch = order[first : first + _BATCH]
                means = text_losses(self.model, [rows[i] for i in batch]).double().cpu().numpy()
                for i, mean in zip(batch, means, strict=True):
                    row, label = rows[i], labels[i]
                    own = len(row) - len(prompts[label])
                    found[i] = (mean * (len(row) - 1) - start[label]) / own
        return found

    def _written(self, label: str, count: int, rng: np.random.Generator, more: int) -> list[str]:
        import torch
        from transformers import GenerationConfig

        prompt = self._prompt(label)
        window = int(self.model.config.max_position_embeddings)
        if len(prompt) + more > window:
            raise ValueError(f"max_tokens must be at most {window - len(prompt)} after {label!r}, got {more}")
        end = self.tokenizer.eos_token_id
        settings = GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=more,
            eos_token_id=end,
            pad_token_id=end,
        )
        begin = torch.tensor([prompt] * count, device=self.model.device)
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(int(rng.integers(2**63)))
            drawn = self.model.generate(
                begin, attention_mask=torch.ones_like(begin), generation_config=settings
            )
        written = self.tokenizer.batch_decode(
            drawn[:, len(prompt) :], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return [text.removeprefix(" ") for text in written]

    def _prompt(self, label: str) -> list[int]:
        return self._rows([_mark(label)])[0][:-1]  # without the end mark

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        return token_rows(self.tokenizer, texts, int(self.model.config.max_position_embeddings))


def _mark(label: str) -> str:
    return f"{label}:"


def _prompted(texts: Sequence[str], labels: Sequence[str]) -> list[str]:
    return [f"{_mark(label)} {text}" for text, label in zip(texts, labels, strict=True)]
