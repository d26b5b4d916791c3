"""Film snippets and the mechanisms that perturb them, as the studies of prompt perturbation use them.

Cape (arXiv 2505.05922) is measured on SST-2, sentences of film reviews. The packaged film snippets are sentences of
the same reviews. Its baselines replace whole words in their papers; on one footing all mechanisms replace pieces of
words, the vocabulary of the packaged masked model, with one tokenizer and one keep-list.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from dprepro.base.check import one_of
from dprepro.mechanisms.prompt.cape import Cape
from dprepro.mechanisms.prompt.context import MaskedContext, masked_context
from dprepro.mechanisms.prompt.metric_dp import Custext, Santext
from dprepro.mechanisms.prompt.perturbation import PromptMechanism
from dprepro.mechanisms.prompt.rantext import Rantext
from dprepro.mechanisms.prompt.reference import RandomisedResponse
from dprepro.mechanisms.prompt.vocabulary import Vocabulary
from dprepro.text.corpora import corpus
from dprepro.text.word_vectors import word_vectors

BASELINES: Mapping[str, type[PromptMechanism]] = {"SANTEXT": Santext, "CUSTEXT": Custext, "InferDPT": Rantext}
RESPONSE = "randomised response"
MECHANISMS = (*BASELINES, "Cape", RESPONSE)


class Snippets(NamedTuple):
    """Film snippets and whether each is favourable."""

    texts: list[str]
    favourable: list[bool]


def snippets(side: str, number: int | None = None) -> Snippets:
    """Return film snippets of one side ("train" or "test"), each once, the first `number` of them."""
    table = corpus("movies").split(side).without_copies().table
    # A snippet that its raters found neutral has no sentiment to guess.
    table = table[table["sentiment"] != 0].head(len(table) if number is None else number)
    return Snippets(list(table["text"]), [bool(value) for value in table["sentiment"] > 0])


def words_mechanism(name: str, keep: str) -> PromptMechanism:
    """Return a baseline over the whole words that have a vector: SANTEXT, CUSTEXT or InferDPT.

    Raises
    ------
    ValueError
        Another name or keep-list.
    """
    vectors = word_vectors()
    make: Any = BASELINES[one_of("name", name, tuple(BASELINES))]
    return make(Vocabulary(vectors.words, vectors.vectors), keep)


def pieces_mechanism(name: str, keep: str = "both") -> PromptMechanism:
    """Return one of `MECHANISMS` over the pieces of words of the packaged model.

    Raises
    ------
    ValueError
        Another name or keep-list.
    """
    one_of("name", name, MECHANISMS)
    model = context_model()
    if name == "Cape":
        return Cape(model.vocabulary, keep, model)
    make: Any = RandomisedResponse if name == RESPONSE else BASELINES[name]
    return make(model.vocabulary, keep)


@cache
def context_model() -> MaskedContext:
    """Return the packaged masked model, loaded once a process."""
    return masked_context()


def split_key(key: str) -> tuple[str, str]:
    """Cut "SANTEXT, both" or "Cape, 14" at its comma."""
    name, _, what = key.partition(", ")
    return name, what
