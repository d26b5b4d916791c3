"""Sentence embedders: texts to vectors of length one.

Embedding-space aggregation (Wu et al., arXiv 2305.01639) and the signal search of SnapAudit (arXiv 2511.13502) need a
map from texts to the unit sphere. The one at hand is all-MiniLM-L6-v2 (384 dimensions), read from an installed wheel;
any other sentence-transformers model can be named, and nothing is fetched unless a hub id is.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import finite, positive_count
from dprepro.text.packaged import weights

PACKAGED = "all-minilm-l6-v2"
# How tokenizers mark a token that opens a word; WordPiece marks the others instead, with ##.
_WORD_START = ("▁", "Ġ")


class TextEmbedder(Protocol):
    """What a search or a mechanism asks of an embedder."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Return an array (len(texts), dimension) of rows of Euclidean length one."""


@dataclass(frozen=True)
class SentenceEmbedder:
    """A loaded sentence-transformers model; `embedder` makes one.

    Attributes
    ----------
    name : str
        As it was asked for: the packaged model, a hub id or a folder.
    threads : int or None
        Torch threads of `encode`; None leaves torch as it is (in the batch: one, by OMP_NUM_THREADS).
    """

    name: str
    model: Any
    threads: int | None = None

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        return int(self.model.get_embedding_dimension())

    def encode(self, texts: Sequence[str], batch_size: int = 64) -> NDArray[np.float64]:
        """Embed texts, in batches of similar length.

        Parameters
        ----------
        texts : sequence of str, length n
        batch_size : int

        Returns
        -------
        ndarray, shape (n, dimension)
            Rows of Euclidean length one. The last bits of a row depend on the CPU and on the texts beside it in a
            batch (about 1e-7), not on the number of threads.

        Raises
        ------
        ValueError
            `texts` is a single text or holds something else than texts; the model gives NaN or the zero vector.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"texts must be a sequence of texts, got {texts!r:.80}")
        size = int(positive_count("batch_size", batch_size))
        if len(texts) == 0:
            return np.empty((0, self.dimension))
        with _torch_threads(self.threads):
            # sentence-transformers sorts by length before it cuts batches, and restores the order.
            raw = self.model.encode(list(texts), batch_size=size, show_progress_bar=False)
        vectors = finite(f"embeddings of {self.name}", raw)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise ValueError(
                f"embeddings of {self.name} must not be zero, got 0 for {texts[lengths.argmin()]!r}"
            )
        return vectors / lengths

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Whole words among the model's tokens: of letters only, two or more, in the order of the tokens."""
        return tuple(self._whole_words)

    def word_vectors(self) -> NDArray[np.float32]:
        """Return the model's input embeddings of its whole words: word vectors without context.

        Returns
        -------
        ndarray, shape (len(vocabulary), d)
            Row i belongs to ``vocabulary[i]``. Not of length one; d is the width of the model's input.
        """
        table = self.model[0].auto_model.get_input_embeddings().weight.detach().cpu().float().numpy()
        return table[list(self._whole_words.values())]

    @cached_property
    def _whole_words(self) -> dict[str, int]:
        tokens: dict[str, int] = self.model.tokenizer.get_vocab()
        mark = next((mark for mark in _WORD_START if any(token.startswith(mark) for token in tokens)), "")
        return {
            token[len(mark) :]: row
            for token, row in sorted(tokens.items(), key=lambda item: item[1])
            if token.startswith(mark) and token[len(mark) :].isalpha() and len(token) > len(mark) + 1
        }


def embedder(model: str = PACKAGED, *, threads: int | None = None, device: str = "cpu") -> SentenceEmbedder:
    """Load a sentence embedder.

    Parameters
    ----------
    model : str
        ``"all-minilm-l6-v2"``: the packaged one (models.lock), never fetched. A folder: a model saved by
        sentence-transformers, never fetched either. A hub id (owner/name): read from the hub's cache, or fetched.
    threads : int, optional
        Torch threads while embedding.
    device : str
        Torch device.

    Raises
    ------
    ValueError
        `threads` is no whole number of at least 1.
    ImportError
        Torch or sentence-transformers is not installed; the message has the command.
    FileNotFoundError
        The packaged wheel is not installed, a folder holds no model, `model` is none of the three, or a hub id can be
        had neither from the cache nor from the hub.
    """
    if threads is not None:
        positive_count("threads", threads)
    is_hub_id = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model) is not None
    folder = weights(PACKAGED).parent if model == PACKAGED else Path(model).expanduser()
    if not (is_hub_id or folder.is_dir()):
        raise FileNotFoundError(
            f"no embedder {model!r}: it is neither {PACKAGED!r}, nor a folder, nor a hub id (owner/name)"
        )
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError(
            f"embedder {model!r} needs torch and sentence-transformers ({error}): "
            "run `pip install -e .[models]` or `python -m dprepro setup`"
        ) from error
    # Which error a missing file or hub ends in depends on the release of three libraries: any is taken for that.
    try:
        if folder.is_dir():
            with _no_bar():
                loaded = SentenceTransformer(str(folder), device=device, local_files_only=True)
        else:
            loaded = SentenceTransformer(_hub_folder(model), device=device)
    except Exception as error:
        place = folder if folder.is_dir() else "the hub or its cache"
        raise FileNotFoundError(f"embedder {model!r}: no weights to be read from {place}: {error}") from error
    return SentenceEmbedder(model, loaded.eval(), threads)


def _hub_folder(model: str) -> str:
    """Return where the hub's cache holds a model, or its id if it has to be fetched and the hub has it."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return snapshot_download(model, local_files_only=True)
    except LocalEntryNotFoundError:
        # Asked first: this fails at once where the loader would try again for a minute.
        HfApi().model_info(model, timeout=10)
        return model


@contextmanager
def _no_bar() -> Iterator[None]:
    """Keep the bar of a load that takes half a second out of notebooks."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _torch_threads(threads: int | None) -> Iterator[None]:
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
