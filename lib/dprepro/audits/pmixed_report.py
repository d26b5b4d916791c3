"""PMixED beside DP-SGD: perplexities of saved texts, their differences with limits, and the rule that judges.

For the saved results ``pmixed_perplexity`` and ``pmixed_rival``: negative log-probabilities of the same test texts by
each way to predict. A difference is one of log-perplexities, in nats a token, and texts are its units: tokens of one
text go up and down together.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dprepro.base.check import finite, in_interval, positive_count

FloatArray = NDArray[np.float64]


class Difference(NamedTuple):
    """A difference of log-perplexities in nats a token, and its two-sided limits."""

    value: float
    low: float
    high: float


def perplexity(logs: ArrayLike, tokens: ArrayLike) -> float:
    """Perplexity over texts.

    Parameters
    ----------
    logs : array_like, shape (texts,)
        Negative log-probability of each text, in nats.
    tokens : array_like, shape (texts,)

    Raises
    ------
    ValueError
        Logs that are not finite, or no whole number of tokens for each of them.
    """
    return float(np.exp(np.sum(finite("logs", logs)) / np.sum(_tokens(tokens, np.shape(logs)))))


def difference(logs: ArrayLike, others: ArrayLike, tokens: ArrayLike, alpha: float = 0.05) -> Difference:
    """Log-perplexity of one way to predict less that of another one, over the same texts.

    Parameters
    ----------
    logs, others : array_like, shape (texts,)
        Negative log-probabilities in nats.
    tokens : array_like, shape (texts,)
        At least two texts.
    alpha : float

    Returns
    -------
    Difference
        A ratio of sums over texts; limits by its linearisation (Cochran 1977, section 6.3) and Student's t. Below 0
        the first is better.

    Raises
    ------
    ValueError
        As `perplexity`; fewer than two texts, or `alpha` outside (0, 1).
    """
    gaps = finite("logs", logs) - finite("others", others)
    length, a = _tokens(tokens, gaps.shape), in_interval("alpha", alpha, 0, 1, closed="neither")
    n = len(gaps)
    if n < 2:
        raise ValueError(f"logs must be of two texts or more, got {n}")
    ratio = gaps.sum() / length.sum()
    error = np.std(gaps - ratio * length, ddof=1) / (length.mean() * np.sqrt(n))
    reach = stats.t.ppf(1 - a / 2, n - 1) * error
    return Difference(float(ratio), float(ratio - reach), float(ratio + reach))


def outcome(rival: Difference, public: Difference) -> str:
    """Judge a mixture at one epsilon, by its differences from DP-SGD and from the public model.

    Returns
    -------
    {"holds", "fails", "undecided"}
        "holds": better than both, with both upper limits below 0. "fails": worse than one of them, with a lower
        limit above 0.
    """
    if max(rival.high, public.high) < 0:
        return "holds"
    return "fails" if max(rival.low, public.low) > 0 else "undecided"


def together(outcomes: Sequence[str]) -> str:
    """Return HOLDS or FAILS if all epsilons say so, else UNDECIDED."""
    said = set(outcomes)
    return said.pop().upper() if len(said) == 1 else "UNDECIDED"


def rival_logs(rival: Mapping[Any, Mapping[str, Any]], setting: str) -> FloatArray:
    """Return the negative log-probabilities by DP-SGD at one epsilon (or "plain"), mean over its runs.

    The mean is of a run's log-probabilities: what one run is expected to give.

    Raises
    ------
    ValueError
        No run of that setting.
    """
    runs = [item["law"] for key, item in rival.items() if str(key).rpartition(", ")[0] == setting]
    if not runs:
        raise ValueError(f"setting must be one of the saved runs, got {setting!r}")
    return np.asarray(np.mean(runs, axis=0))


def _tokens(tokens: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    count = positive_count("tokens", tokens)
    if count.shape != shape or count.ndim != 1:
        raise ValueError(f"tokens must be one number a text, of shape {shape}, got shape {count.shape}")
    return count
