"""Scores of the n-gram membership attack: how much likelier is a target after the synthetic texts than after others?

Meeus et al., "The Canary's Echo" (arXiv 2502.14921), and SynBench (arXiv 2509.14594): an n-gram model is
fitted to the synthetic corpus and one to each reference set; the score of a target is its log-probability per
token after the former less the mean after the latter. High means that the target was among the private texts.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, one_of, positive_count
from dprepro.text.ngram_lm import NGramModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

VARIANTS = ("per_token_log", "per_token_geometric", "probability")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def tokens(text: str) -> str:
    """Return the words of a text in lower case, one space between; marks are left out, an inner apostrophe stays."""
    return " ".join(_WORD.findall(text.lower()))


def token_counts(targets: Sequence[str], order: int) -> IntArray:
    """Tokens that an n-gram model scores in each target: its words and, from order 2 on, its end.

    Returns
    -------
    ndarray of int, shape (len(targets),)

    Raises
    ------
    ValueError
        A target without a word (with its number), or an order below 1.
    """
    end = 1 if positive_count("order", order) > 1 else 0
    words = [len(_words("targets", targets, place)) for place in range(len(targets))]
    return np.array(words, dtype=np.int64) + end


def blanks(texts: Sequence[str]) -> int:
    """Count the texts without a word."""
    return sum(not tokens(text) for text in texts)


def target_logprobs(texts: Sequence[str], targets: Sequence[str], order: int = 2) -> FloatArray:
    """Log-probability of each target under an n-gram model of a corpus.

    Parameters
    ----------
    texts : sequence of str
        The corpus: synthetic texts, or a reference set. Blank texts stay in it as texts that end at once; `blanks`
        counts them.
    targets : sequence of str, length T
    order : int
        1 to 4.

    Returns
    -------
    ndarray, shape (T,)
        Natural logarithm of the probability of the whole target, Laplace smoothing; never -inf.

    Raises
    ------
    ValueError
        A corpus that is one text, empty or of blanks alone, a target without a word, an order outside its domain.
    """
    if isinstance(texts, str):  # would be read letter by letter
        raise ValueError(f"texts must be a sequence of texts, got {texts!r:.80}")
    corpus = [tokens(text) for text in texts]
    if not any(corpus):
        raise ValueError(f"texts must hold a word, got {len(corpus)} texts, all of them blank")
    rows = [" ".join(_words("targets", targets, place)) for place in range(len(targets))]
    return NGramModel(order).fit(corpus).logprobs(rows)


def attack_scores(
    synthetic: ArrayLike, references: ArrayLike, counts: ArrayLike, variant: str = "per_token_log"
) -> FloatArray:
    """Scores of all targets after all synthetic corpora.

    Parameters
    ----------
    synthetic : array_like, shape (subsets, T)
        `target_logprobs` of the targets, a row for each synthetic corpus.
    references : array_like, shape (M, T)
        The same, a row for each reference set.
    counts : array_like of int, shape (T,)
        `token_counts`.
    variant : {"per_token_log", "per_token_geometric", "probability"}
        Of a log-probability L of w tokens: L/w, exp(L/w), or exp(L).

    Returns
    -------
    ndarray, shape (subsets, T)
        Value after the synthetic corpus less the mean value after the references.

    Raises
    ------
    ValueError
        Shapes that do not fit, log-probabilities that are not finite, counts below 1.

    Notes
    -----
    The references do not change from subset to subset, so all they do is to move each target by a constant; and
    the variants rise with each other. So *within* a target all variants, with any references, order the subsets
    alike. They differ in how they compare one target with another. exp(L) of two texts differs by powers of ten
    with their lengths, so that a few short targets decide, and it is 0 for a long one. exp(L/w) weighs
    common words, which tell nothing, more than rare ones. L/w has neither fault, and its difference is a
    log-likelihood ratio per token: the default.
    """
    made = np.atleast_2d(finite("synthetic", synthetic))
    known = np.atleast_2d(finite("references", references))
    length = positive_count("counts", counts)
    if not made.shape[1:] == known.shape[1:] == length.shape:
        raise ValueError(
            "synthetic, references and counts must be for the same targets, got shapes "
            f"{made.shape}, {known.shape} and {length.shape}"
        )
    one_of("variant", variant, VARIANTS)
    made, known = (part if variant == "probability" else part / length for part in (made, known))
    if variant != "per_token_log":
        made, known = np.exp(made), np.exp(known)
    return made - known.mean(axis=0)


def _words(name: str, texts: Sequence[str], place: int) -> list[str]:
    found = tokens(texts[place]).split()
    if not found:
        raise ValueError(f"{name} must hold a word each, got {texts[place]!r} at number {place}")
    return found
