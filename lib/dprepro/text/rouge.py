"""Rouge-L (Lin 2004): how long a sequence of tokens two texts share, in order, gaps allowed.

By the package of Google Research, under two of the ways to cut a text, as papers seldom say which was used. What
prompt perturbation leaves of a sentence is measured with it (Cape, arXiv 2505.05922, table 1).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from dprepro.base.check import one_of

TOKENS = ("words", "whitespace")


class _Whitespace(NamedTuple):
    """Lower case, cut at white space, so that a mark beside a space is a token of its own."""

    tokenize: Callable[[str], list[str]] = lambda text: text.lower().split()


def rouge_l(reference: str, candidate: str, tokens: str = "words") -> float:
    """Rouge-L F1 of two texts, in [0, 1].

    Parameters
    ----------
    reference, candidate : str
        With no token in one of them it is 0.
    tokens : {"words", "whitespace"}
        The package's own: letters a-z and digits, punctuation dropped, no stemming. Or what stands between spaces.

    Raises
    ------
    ValueError
        Another way to cut.
    ImportError
        The package is not installed.
    """
    one_of("tokens", tokens, TOKENS)
    return float(_scorer(tokens).score(reference, candidate)["rougeL"].fmeasure)


@cache
def _scorer(tokens: str) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ImportError(
            f"Rouge-L needs the package rouge-score ({error}): "
            "run `pip install -e .[models]` or `python -m dprepro setup`"
        ) from error
    return RougeScorer(["rougeL"], tokenizer=None if tokens == "words" else _Whitespace())
