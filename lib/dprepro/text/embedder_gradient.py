"""What a word would do to a sentence's embedding, to first order: backward passes rank a whole vocabulary.

HotFlip (Ebrahimi et al., arXiv 1712.06751) ranks replacements of a token by the gradient of a loss at that token: an
input vector e' in the place of e changes the loss by about (e' - e) . gradient. Here the loss is the cosine of the
sentence's embedding and an anchor. The gradient is not taken at the word that stands there: a search stands where its
own words are good already, and the slope there says little of others. It is taken at the mean of all words' input
vectors, and once more at the mean of those words that the first ranking puts in front, where the loss bends; the two
guesses, each over its standard deviation, are added.
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
IN_FRONT = 100  # words of the first ranking at whose mean the second gradient is taken


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
        Embeddings that one call of `slopes` counts for: 6, three for each of two gradients, as a backward pass takes
        about two forward passes.

    Raises
    ------
    ValueError
        No word, one that is not a token of the model, or a text in the place of a list.
    """

    encoder: SentenceEmbedder
    words: Sequence[str]

    cost = 6

    def __post_init__(self) -> None:
        _listed("words", self.words)
        positive_count("number of words", len(self.words))
        known = set(self.encoder.vocabulary)
        for word in self.words:
            if word not in known:
                raise ValueError(f"words must be whole words among the model's tokens, got {word!r}")

    def encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Embed texts, as the encoder does."""
        return self.encoder.encode(texts)

    def slopes(self, sentence: Sequence[str], place: int, anchor: ArrayLike) -> Array:
        """Guess the cosine of the sentence and an anchor with each word in one place, up to unit and constant.

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
            A place outside the sentence, an anchor of another shape or NaN, a text in the place of a list, or words
            that the model cuts up.
        """
        _listed("sentence", sentence)
        place = int(positive_count("place", place, minimum=0))
        if place >= len(sentence):
            raise ValueError(f"place must be in 0 ... {len(sentence) - 1}, got {place}")
        direction = finite("anchor", anchor)
        if direction.shape != (self.encoder.dimension,):
            raise ValueError(f"anchor must have shape ({self.encoder.dimension},), got {direction.shape}")
        table, middle = self._vectors
        guess = self._ranked(sentence, place, direction, middle)
        in_front = table[np.argsort(guess, kind="stable")[:IN_FRONT]]
        return guess + self._ranked(sentence, place, direction, in_front.mean(axis=0))

    def _ranked(self, sentence: Sequence[str], place: int, anchor: Array, at: NDArray[np.float32]) -> Array:
        """First-order cosines from one point, standardised over the words."""
        table, _ = self._vectors
        cosines = (table @ _cosine_gradient(self.encoder, sentence, place, anchor, at)).astype(np.float64)
        return (cosines - cosines.mean()) / (cosines.std() or 1.0)  # equal cosines: a single word

    @cached_property
    def _vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Input vectors of the words, a row each, and their mean."""
        rows = {word: row for row, word in enumerate(self.encoder.vocabulary)}
        table = self.encoder.word_vectors()[[rows[word] for word in self.words]]
        return table, table.mean(axis=0)


def _listed(name: str, words: Sequence[str]) -> None:
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name} must be a list of words, got {words!r:.80}")


def _cosine_gradient(
    encoder: SentenceEmbedder,
    sentence: Sequence[str],
    place: int,
    anchor: Array,
    at: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Gradient of cos(embedding, anchor) in the input vector of a place, with `at` put there; shape (width,)."""
    import torch

    model = encoder.model
    batch = model.tokenizer([" ".join(sentence)], return_tensors="pt", return_special_tokens_mask=True)
    ordinary = np.flatnonzero(batch.pop("special_tokens_mask")[0].numpy() == 0)
    if len(ordinary) != len(sentence):
        raise ValueError(
            f"sentence must be one token a word, got {len(ordinary)} tokens for {sentence!r:.80}"
        )
    inputs: list[Any] = []

    def replaced(module: Any, arguments: Any, output: Any) -> Any:
        vectors = output.detach().clone()
        vectors[0, ordinary[place]] = torch.as_tensor(at).to(vectors)
        inputs.append(vectors.requires_grad_())
        return inputs[-1]

    # A hook on the table of input vectors: the model's own forward pass does all the rest, whatever its pooling is.
    handle = model[0].auto_model.get_input_embeddings().register_forward_hook(replaced)
    try:
        with _torch_threads(encoder.threads), torch.enable_grad():
            found = model({name: part.to(model.device) for name, part in batch.items()})
            vector = found["sentence_embedding"][0]
            cosine = vector @ torch.as_tensor(anchor).to(vector) / vector.norm()
            (gradient,) = torch.autograd.grad(cosine, inputs[-1])
    finally:
        handle.remove()
    return gradient[0, ordinary[place]].cpu().float().numpy()
