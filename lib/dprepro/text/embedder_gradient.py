"""What a word would do to a sentence's embedding, to first order: one backward pass ranks a whole vocabulary.

HotFlip (Ebrahimi et al., arXiv 1712.06751) ranks replacements of a token by the gradient of a loss at that token: an
input vector e' in the place of e changes the loss by about (e' - e) . gradient. Here the loss is the cosine of the
sentence's embedding and an anchor. The gradient is not taken at the word that stands there but at the mean of all
words' input vectors: a search stands where its own words are good already, and the slope there says little of others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, positive_count
from dprepro.text.embedders import SentenceEmbedder, _torch_threads

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WordGradient:
    """An embedder that ranks words by its gradient.

    Parameters
    ----------
    encoder : SentenceEmbedder
    words : sequence of str
        What may be written, each a whole word among the model's tokens (`SentenceEmbedder.vocabulary`).

    Attributes
    ----------
    cost : int
        Embeddings that one call of `slopes` counts for: 3, as a backward pass takes about two forward passes.

    Raises
    ------
    ValueError
        No word, or one that is not a token of the model.
    """

    encoder: SentenceEmbedder
    words: Sequence[str]

    cost = 3

    def __post_init__(self) -> None:
        positive_count("number of words", len(self.words))
        known = set(self.encoder.vocabulary)
        for word in self.words:
            if word not in known:
                raise ValueError(f"words must be whole words among the model's tokens, got {word!r}")

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Embed texts, as the encoder does."""
        return self.encoder.encode(texts)

    def slopes(self, sentence: Sequence[str], place: int, anchor: ArrayLike) -> Array:
        """First-order cosine of the sentence and an anchor with each word in one place, up to a constant.

        Parameters
        ----------
        sentence : sequence of str
            Words of the list.
        place : int
            Which of them would be replaced, from 0.
        anchor : array, shape (dimension,)

        Returns
        -------
        array, shape (len(words),)
            The smaller, the further from the anchor the word takes the sentence.

        Raises
        ------
        ValueError
            A place outside the sentence, an anchor of another shape, or words that the model cuts up.
        """
        if not 0 <= place < len(sentence):
            raise ValueError(f"place must be in 0 ... {len(sentence) - 1}, got {place}")
        direction = finite("anchor", anchor)
        if direction.shape != (self.encoder.dimension,):
            raise ValueError(f"anchor must have shape ({self.encoder.dimension},), got {direction.shape}")
        table, neutral = self._vectors
        return table @ _cosine_gradient(self.encoder, sentence, place, direction, neutral)

    @cached_property
    def _vectors(self) -> tuple[Array, NDArray[np.float32]]:
        """Input vectors of the words, a row each, and their mean."""
        rows = {word: row for row, word in enumerate(self.encoder.vocabulary)}
        table = self.encoder.word_vectors()[[rows[word] for word in self.words]]
        return table.astype(np.float64), table.mean(axis=0)


def _cosine_gradient(
    encoder: SentenceEmbedder,
    sentence: Sequence[str],
    place: int,
    anchor: Array,
    neutral: NDArray[np.float32],
) -> Array:
    """Gradient of cos(embedding, anchor) in the input vector at a place, at `neutral` there; shape (width,)."""
    import torch

    model = encoder.model
    batch = model.tokenizer([" ".join(sentence)], return_tensors="pt", return_special_tokens_mask=True)
    ordinary = np.flatnonzero(batch.pop("special_tokens_mask")[0].numpy() == 0)
    if len(ordinary) != len(sentence):
        raise ValueError(
            f"sentence must be one token a word, got {len(ordinary)} tokens for {sentence!r:.80}"
        )
    inputs: list[Any] = []

    def at_neutral(module: Any, arguments: Any, output: Any) -> Any:
        vectors = output.detach().clone()
        vectors[0, ordinary[place]] = torch.as_tensor(neutral).to(vectors)
        inputs.append(vectors.requires_grad_())
        return inputs[-1]

    # A hook on the table of input vectors: the model's own forward pass does all the rest, whatever its pooling is.
    handle = model[0].auto_model.get_input_embeddings().register_forward_hook(at_neutral)
    try:
        with _torch_threads(encoder.threads), torch.enable_grad():
            found = model({name: part.to(model.device) for name, part in batch.items()})
            vector = found["sentence_embedding"][0]
            cosine = vector @ torch.as_tensor(anchor).to(vector) / vector.norm()
            (gradient,) = torch.autograd.grad(cosine, inputs[-1])
    finally:
        handle.remove()
    return gradient[0, ordinary[place]].cpu().double().numpy()
