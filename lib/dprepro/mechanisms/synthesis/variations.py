"""Language models as writers for private evolution: texts from nothing, and variations of texts.

The two calls that AUG-PE (Xie et al., arXiv 2403.01749) makes of a model, RANDOM_API and VARIATION_API. A writer sees
synthetic texts alone; what it writes costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Protocol

import numpy as np

from dprepro.base.check import positive_count
from dprepro.text.responders import Responder

_BATCH = 256  # texts written at once


class Writer(Protocol):
    """What private evolution asks of a model."""

    def random_texts(self, count: int, label: str, rng: np.random.Generator) -> list[str]:
        """Return `count` texts of a class."""

    def variations(self, texts: Sequence[str], label: str, rng: np.random.Generator) -> list[str]:
        """Return one variation of each text, of the class of all of them."""


@dataclass(frozen=True)
class Continuations:
    """A causal model that writes texts, and varies one by writing it anew from a random place on.

    It does not know what a label means: classes differ by the votes of their private texts alone.

    Parameters
    ----------
    model, tokenizer
        Causal, of transformers, any size; ``*tiny_lm()`` for the one at hand, which is fast.
    max_tokens : int
        Of a text; less than the model's window.

    Raises
    ------
    ValueError
        `max_tokens` is no positive whole number or leaves no room in the window.
    """

    model: Any
    tokenizer: Any
    max_tokens: int = 24

    def __post_init__(self) -> None:
        most = int(self.model.config.max_position_embeddings) - 1
        if int(positive_count("max_tokens", self.max_tokens)) > most:
            raise ValueError(f"max_tokens must be at most {most}, got {self.max_tokens}")

    def random_texts(self, count: int, label: str, rng: np.random.Generator) -> list[str]:
        """Return texts as the model writes them from the beginning, at temperature 1."""
        return self._continued([[] for _ in range(int(positive_count("count", count)))], rng)

    def variations(self, texts: Sequence[str], label: str, rng: np.random.Generator) -> list[str]:
        """Keep of each text a number of first tokens, drawn from 0 to all but the last, and write on from there."""
        rows = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"] if len(texts) else []
        cuts = rng.integers([max(min(len(row), self.max_tokens), 1) for row in rows])
        return self._continued([row[:cut] for row, cut in zip(rows, cuts, strict=True)], rng)

    def _continued(self, starts: list[list[int]], rng: np.random.Generator) -> list[str]:
        import torch
        from transformers import GenerationConfig

        end = self.tokenizer.eos_token_id
        texts = [""] * len(starts)
        # Short beginnings together: they have the longest way to go.
        order = sorted(range(len(starts)), key=lambda i: len(starts[i]))
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            width = max(len(starts[i]) for i in batch) + 1  # each begins with the end mark of the text before
            ids = torch.full((len(batch), width), end)
            mask = torch.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, width - len(starts[i]) :] = torch.tensor(starts[i], dtype=torch.long)
                mask[row, width - len(starts[i]) - 1 :] = 1
            settings = GenerationConfig(
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=self.max_tokens - len(starts[batch[0]]),
                eos_token_id=end,
                pad_token_id=end,
            )
            with torch.random.fork_rng(), torch.inference_mode():
                torch.manual_seed(int(rng.integers(2**63)))
                drawn = self.model.generate(
                    ids.to(self.model.device),
                    attention_mask=mask.to(self.model.device),
                    generation_config=settings,
                )[:, width:].tolist()
            for i, new in zip(batch, drawn, strict=True):
                tokens = (starts[i] + new)[: self.max_tokens]
                texts[i] = self.tokenizer.decode(
                    tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
                ).removeprefix(" ")
        return texts


@dataclass(frozen=True)
class Rewrites:
    """A model that follows instructions, through any responder: it is told to write a text, and to rewrite one.

    Responders answer greedily, so that a style drawn for each prompt makes the difference between two answers.

    Parameters
    ----------
    responder : Responder
        ``text.responders.responder(chat=True, max_tokens=48)``, for one.
    write, rewrite : str
        Prompts, in which {label} and {style} stand for the class and a style, and in `rewrite` {text} for the text.
    styles : sequence of str
        At least one.

    Raises
    ------
    ValueError
        A prompt without its places, with others, or with a single brace; no style.
    """

    responder: Responder
    write: str = "Write one {style} sentence that is {label}."
    rewrite: str = "Rewrite this {label} sentence so that it is {style}. Answer with one sentence.\n{text}"
    styles: Sequence[str] = (
        "casual",
        "formal",
        "short",
        "lively",
        "plain",
        "poetic",
        "witty",
        "detailed",
    )

    def __post_init__(self) -> None:
        for name, needed in (("write", {"style"}), ("rewrite", {"style", "text"})):
            prompt = getattr(self, name)
            found = _places(name, prompt)
            if missing := [f"{{{place}}}" for place in sorted(needed - found)]:
                raise ValueError(f"{name} must hold {', '.join(missing)}, got {prompt!r}")
            if unknown := [f"{{{place}}}" for place in sorted(found - needed - {"label"})]:
                raise ValueError(
                    f"{name} may hold {{label}} and {', '.join(f'{{{place}}}' for place in sorted(needed))} alone, "
                    f"got {', '.join(unknown)} in {prompt!r} (a brace that is none of them is written twice)"
                )
        if isinstance(self.styles, str) or not self.styles:
            raise ValueError(f"styles must be a sequence of at least one style, got {self.styles!r}")

    def random_texts(self, count: int, label: str, rng: np.random.Generator) -> list[str]:
        """Return answers to `write`; greedy ones differ by style alone, so there are as many texts as styles."""
        styles = self._drawn(int(positive_count("count", count)), rng)
        return self._answers([self.write.format(label=label, style=style) for style in styles])

    def variations(self, texts: Sequence[str], label: str, rng: np.random.Generator) -> list[str]:
        """Return answers to `rewrite`, each in a style of its own."""
        styles = self._drawn(len(texts), rng)
        return self._answers(
            [
                self.rewrite.format(label=label, style=style, text=text)
                for style, text in zip(styles, texts, strict=True)
            ]
        )

    def _drawn(self, count: int, rng: np.random.Generator) -> list[str]:
        return [self.styles[place] for place in rng.integers(len(self.styles), size=count)]

    def _answers(self, prompts: list[str]) -> list[str]:
        # The first line: models go on with remarks about what they wrote.
        answers = self.responder.generate(prompts) if prompts else []
        return [(answer.strip().splitlines() or [""])[0].strip().strip('"') for answer in answers]


def _places(name: str, prompt: str) -> set[str]:
    """Names between the braces of a prompt, with what hangs on them."""
    try:
        parts = list(Formatter().parse(prompt))
    except ValueError as error:
        raise ValueError(f"{name} must be a prompt whose braces close, got {prompt!r} ({error})") from None
    return {
        field + (f"!{conversion}" if conversion else "") + (f":{how}" if how else "")
        for _, field, how, conversion in parts
        if field is not None
    }
