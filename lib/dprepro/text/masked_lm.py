"""A masked language model: the packaged MiniLM with the head that `masked_lm_training` has given it.

What prompt perturbation asks of BERT (Cape, arXiv 2505.05922): how well each token of the vocabulary fits a place,
given the text around it. The head is stored in data/models/minilm-mlm-head; the encoder is the first half of the
sentence embedder.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import positive_count
from dprepro.text.masked_lm_training import head_logits, hidden_states, new_head, packaged_encoder
from dprepro.text.pretrained import load

NAME = "minilm-mlm-head"
WINDOW = 256  # tokens with both marks: what the embedder was made for

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class MaskedLM(NamedTuple):
    """An encoder, its head and its tokenizer; `masked_lm` loads the packaged one, which the numbers below belong to.

    `bert_masked_lm` loads others: their vocabulary has len(tokenizer) entries, their layers are all kept.

    Attributes
    ----------
    encoder : transformers.BertModel
        Frozen; the first three layers of MiniLM.
    head : torch.nn.Module
        transform and bias, float32.
    tokenizer : transformers.BertTokenizer
        WordPiece in lower case, 30,522 entries; ``mask_token`` is "[MASK]". Word i of the vocabulary, in all results,
        is ``tokenizer.convert_ids_to_tokens(i)``; marks such as [CLS] and the unused entries are among them.
    """

    encoder: Any
    head: Any
    tokenizer: Any

    def logits(self, texts: Sequence[str], batch_size: int = 32) -> FloatArray:
        """Logits of each vocabulary entry for the [MASK] in each text.

        Parameters
        ----------
        texts : sequence of str, length n
            Each with one [MASK].
        batch_size : int

        Returns
        -------
        ndarray of float32, shape (n, vocabulary), here (n, 30522)
            Softmax of a row gives the probabilities. A row takes 122 kB.

        Raises
        ------
        ValueError
            A text without [MASK], with more than one, or of more than 254 tokens.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"texts must be a sequence of texts, got {texts!r:.80}")
        rows = self.tokens(texts)
        places = []
        for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
            if (count := row.count(self.tokenizer.mask_token_id)) != 1:
                raise ValueError(
                    f"texts must have one [MASK] each, got {count} at index {number}: {text[:60]!r}"
                )
            places.append(row.index(self.tokenizer.mask_token_id))
        return self.logits_at(rows, places, batch_size)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, [CLS] before and [SEP] after; nothing is cut or padded."""
        if len(texts) == 0:
            return []
        return self.tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]

    def logits_at(
        self, tokens: Sequence[Sequence[int]], positions: ArrayLike, batch_size: int = 32
    ) -> FloatArray:
        """Logits of each vocabulary entry for one masked position in each row of tokens.

        Parameters
        ----------
        tokens : sequence of sequences of int, length n
            As `tokens` gives them, with the mask's id where something is to be predicted. Other masks may stand in
            the same row.
        positions : array_like of int, shape (n,)
            Of the mask that is meant, counted from the [CLS] (0).
        batch_size : int

        Returns
        -------
        ndarray of float32, shape (n, vocabulary)

        Raises
        ------
        ValueError
            A position outside its row or one that is not masked; a row without [CLS] and [SEP], or of more than 256.
        """
        found = np.empty((len(tokens), len(self.tokenizer)), np.float32)
        for batch, logits in self._batches(tokens, positions, batch_size):
            found[batch] = logits.cpu().numpy()
        return found

    def candidates(
        self, tokens: Sequence[Sequence[int]], positions: ArrayLike, k: int, batch_size: int = 32
    ) -> tuple[IntArray, FloatArray]:
        """Return the k most probable entries for one masked position in each row of tokens.

        Parameters
        ----------
        tokens, positions, batch_size
            As `logits_at`.
        k : int
            From 1 to the size of the vocabulary; with all of it the rows are the whole distribution, ordered.

        Returns
        -------
        ids : ndarray of int, shape (n, k)
            The most probable first.
        log_probabilities : ndarray of float32, shape (n, k)
            In nats, over the whole vocabulary.

        Raises
        ------
        ValueError
            As `logits_at`; `k` outside its domain.
        """
        width = int(positive_count("k", k))
        if width > len(self.tokenizer):
            raise ValueError(f"k must be at most {len(self.tokenizer)}, the size of the vocabulary, got {k}")
        ids = np.empty((len(tokens), width), np.int64)
        scores = np.empty((len(tokens), width), np.float32)
        for batch, logits in self._batches(tokens, positions, batch_size):
            best = logits.log_softmax(dim=-1).topk(width)
            ids[batch], scores[batch] = best.indices.cpu().numpy(), best.values.cpu().numpy()
        return ids, scores

    def _batches(
        self, tokens: Sequence[Sequence[int]], positions: ArrayLike, batch_size: int
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield numbers of rows of similar length, and their logits."""
        import torch

        size = int(positive_count("batch_size", batch_size))
        places = self._checked(tokens, positions)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            with torch.inference_mode():
                hidden = hidden_states(self.encoder, [tokens[i] for i in batch])
                at_mask = hidden[torch.arange(len(batch)), torch.from_numpy(places[batch])]
                yield batch, head_logits(self.encoder, self.head, at_mask)

    def _checked(self, tokens: Sequence[Sequence[int]], positions: ArrayLike) -> IntArray:
        places = positive_count("positions", positions, minimum=0)
        if places.shape != (len(tokens),):
            raise ValueError(
                f"positions must be one for each of {len(tokens)} rows, got shape {places.shape}"
            )
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        for number, (row, place) in enumerate(zip(tokens, places.tolist(), strict=True)):
            where = f"at index {number}"
            if len(row) < 3 or row[0] != first or row[-1] != last:
                raise ValueError(
                    f"tokens must begin with [CLS] and end with [SEP], got {list(row)!s:.60} {where}"
                )
            if len(row) > WINDOW:
                raise ValueError(f"tokens must be at most {WINDOW} a row, got {len(row)} {where}")
            if place >= len(row) or row[place] != self.tokenizer.mask_token_id:
                what = (
                    repr(self.tokenizer.convert_ids_to_tokens(int(row[place])))
                    if place < len(row)
                    else "none"
                )
                raise ValueError(
                    f"positions must be those of a [MASK], got {place} {where}, where {what} stands"
                )
        return places


def masked_lm() -> MaskedLM:
    """Load encoder and head.

    Raises
    ------
    ImportError
        Torch or sentence-transformers is not installed; the message has the command.
    FileNotFoundError, ValueError
        As `pretrained.load`.
    """
    files = load(NAME)
    encoder, tokenizer = packaged_encoder()
    from safetensors.torch import load as tensors

    head = new_head().eval()
    head.load_state_dict(
        {name: tensor.float() for name, tensor in tensors(files["head.safetensors"]).items()}
    )
    return MaskedLM(encoder, head.requires_grad_(False), tokenizer)
