"""The public text that the small models of this repository are trained on, cut into pieces of sentences.

Novels, editorials and product reviews are public here. The film reviews are left out on purpose: they stand in for
private text later, and a model that had seen them would not be public. That is the setting of Yu et al.,
"Differentially Private Fine-tuning of Language Models" (arXiv 2110.06500): first public text, then private text with
noise.
"""

import re
from collections.abc import Iterator

from dprepro.base import paths
from dprepro.base.store import sha256_file
from dprepro.text.corpora import corpus

PUBLIC = ("novels", "editorials", "products")
WORDS = 60  # a long review; a chapter is cut into such pieces
# Behind the end of a sentence, with its closing quotation mark.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'])\s+")


def public_pieces(side: str) -> dict[str, list[str]]:
    """Return the pieces of each public corpus, copies of a text left out.

    Parameters
    ----------
    side : {"train", "test"}

    Returns
    -------
    dict of str to list of str
        Corpus by corpus, in its order. A piece has 1 to 60 words with single spaces between them.
    """
    return {
        name: [piece for text in corpus(name).split(side).without_copies().texts for piece in pieces(text)]
        for name in PUBLIC
    }


def public_hashes() -> dict[str, str]:
    """Return the SHA-256 of each public corpus, without reading it."""
    return {name: sha256_file(paths.DATA / "corpora" / f"{name}.csv.xz") for name in PUBLIC}


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of whole sentences; a sentence of more than 60 words is cut between words.

    A paragraph (an empty line ends one) begins a new piece.
    """
    for paragraph in text.split("\n\n"):
        run: list[str] = []
        for sentence in _SENTENCE_END.split(paragraph):
            words = sentence.split()
            if run and len(run) + len(words) > WORDS:
                yield " ".join(run)
                run = []
            run += words
            while len(run) > WORDS:
                yield " ".join(run[:WORDS])
                run = run[WORDS:]
        if run:
            yield " ".join(run)
