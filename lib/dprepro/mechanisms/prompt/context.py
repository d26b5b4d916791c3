"""The language models that Cape (arXiv 2505.05922) takes its contextual logits from, each with its own vocabulary.

The packaged MiniLM with its masked head stands in for BERT, the packaged SmolLM2 for GPT-2; both are smaller than
those. BERT itself, where a user has it, is ``MaskedContext(bert_masked_lm("google-bert/bert-base-uncased"))``
(`text.bert_masked_lm`). What of the text a logit may see is the model's `view`:

* "masked": the text on both sides, the token itself behind [MASK];
* "unmasked": the whole text, the token itself included, which the published formula does not rule out;
* "left": what stands before the token, behind it only [MASK]. The causal model has no other view.

The models compute in double precision here. In single precision the last bits differ from CPU to CPU, and with them
which token is just inside a bucket of Cape.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.prompt.vocabulary import (
    BytePairTokenizer,
    FloatArray,
    IntArray,
    PieceTokenizer,
    Tokens,
    Vocabulary,
)
from dprepro.text.masked_lm import MaskedLM, masked_lm

VIEWS = ("masked", "unmasked", "left")


class _Place(NamedTuple):
    tokens: list[int]
    position: int
    number: int


@dataclass(frozen=True, eq=False)
class MaskedContext:
    """Logits of a masked language model.

    Parameters
    ----------
    model : MaskedLM
    view : {"masked", "unmasked", "left"}
    batch_size : int
    """

    model: MaskedLM
    view: str = "masked"
    batch_size: int = 64

    def __post_init__(self) -> None:
        one_of("view", self.view, VIEWS)
        positive_count("batch_size", self.batch_size)

    @cached_property
    def ids(self) -> IntArray:
        """Number in the model's vocabulary of each word here: all but the marks and the unused entries in [ ]."""
        words = self.model.tokenizer.convert_ids_to_tokens(list(range(len(self.model.tokenizer))))
        return np.array([i for i, word in enumerate(words) if not _is_mark(word)])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The model's pieces of words with its input embeddings."""
        table = self.model.encoder.get_input_embeddings().weight.detach().cpu().float().numpy()
        words = self.model.tokenizer.convert_ids_to_tokens(self.ids.tolist())
        return Vocabulary(tuple(words), table[self.ids], PieceTokenizer(self.model.tokenizer))

    def logits(self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> FloatArray:
        """Logits of the vocabulary for places in texts.

        Parameters
        ----------
        cuts : sequence of Tokens
            By `vocabulary`.
        texts, positions : int array, shape (n,)
            Which text, and which of its tokens.

        Returns
        -------
        float32 array, shape (n, V)
        """
        import torch

        from dprepro.text.masked_lm_training import head_logits, hidden_states

        found = np.empty((len(texts), len(self.ids)), np.float32)
        columns = torch.from_numpy(self.ids)
        for batch in self._batches(cuts, texts, positions):
            with torch.inference_mode():
                hidden = hidden_states(self.model.encoder, [place.tokens for place in batch])
                here = hidden[torch.arange(len(batch)), torch.tensor([place.position for place in batch])]
                logits = head_logits(self.model.encoder, self.model.head, here)[:, columns]
            found[[place.number for place in batch]] = logits.numpy()
        return found

    def _batches(
        self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray
    ) -> Iterator[list[_Place]]:
        tokenizer = self.model.tokenizer
        numbers = [tokenizer.convert_tokens_to_ids(list(cut.tokens)) for cut in cuts]
        places = []
        for number, (text, position) in enumerate(zip(texts, positions, strict=True)):
            row = list(numbers[text][: position + 1] if self.view == "left" else numbers[text])
            if self.view != "unmasked":
                row[position] = tokenizer.mask_token_id
            whole = [tokenizer.cls_token_id, *row, tokenizer.sep_token_id]
            places.append(_Place(whole, int(position) + 1, number))
        places.sort(key=lambda place: len(place.tokens))
        for start in range(0, len(places), self.batch_size):
            yield places[start : start + self.batch_size]


@dataclass(frozen=True, eq=False)
class CausalContext:
    """Logits of a causal language model, which see what stands before a token.

    Parameters
    ----------
    model, tokenizer : of transformers
        Its tokens are byte-level BPE. The first token of a text stands behind the end-of-text mark.
    """

    model: Any
    tokenizer: Any

    @cached_property
    def ids(self) -> IntArray:
        """Number in the model's vocabulary of each word here: all but its marks."""
        marks = set(self.tokenizer.all_special_ids)
        return np.array([i for i in range(len(self.tokenizer)) if i not in marks])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens with its input embeddings."""
        table = self.model.get_input_embeddings().weight.detach().cpu().float().numpy()
        words = self.tokenizer.convert_ids_to_tokens(self.ids.tolist())
        return Vocabulary(tuple(words), table[self.ids], BytePairTokenizer(self.tokenizer))

    def logits(self, cuts: Sequence[Tokens], texts: IntArray, positions: IntArray) -> FloatArray:
        """Logits of the vocabulary for places in texts; arguments as those of `MaskedContext.logits`."""
        import torch

        found = np.empty((len(texts), len(self.ids)), np.float32)
        columns = torch.from_numpy(self.ids)
        for text in np.unique(texts):
            numbers = np.flatnonzero(texts == text)
            row = [
                self.tokenizer.eos_token_id,
                *self.tokenizer.convert_tokens_to_ids(list(cuts[text].tokens)),
            ]
            with torch.inference_mode():
                # Row i, of the mark and i tokens, is what the model says of token i.
                logits = self.model(input_ids=torch.tensor([row[:-1]])).logits[0]
                found[numbers] = logits[torch.from_numpy(positions[numbers])][:, columns].float().numpy()
        return found


def masked_context(view: str = "masked") -> MaskedContext:
    """Return the packaged masked model; errors as those of `masked_lm.masked_lm`."""
    loaded = masked_lm()
    return MaskedContext(MaskedLM(loaded.encoder.double(), loaded.head.double(), loaded.tokenizer), view)


def causal_context(model: str = "smollm2-135m-instruct") -> CausalContext:
    """Return a causal model.

    Parameters
    ----------
    model : str
        The packaged one, a folder, or a hub id such as "openai-community/gpt2" that is in the hub's cache.

    Raises
    ------
    ImportError, FileNotFoundError
        As `local_model.LocalModel`.
    """
    from dprepro.text.local_model import LocalModel

    loaded = LocalModel(model, device="cpu", dtype="float64")
    return CausalContext(loaded.model, loaded.tokenizer)


def _is_mark(word: str) -> bool:
    return len(word) > 2 and word.startswith("[") and word.endswith("]")
