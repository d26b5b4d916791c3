"""Many canaries in one training, each included by its own fair coin: an audit at the cost of one training.

Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run" (2023, arXiv 2305.08846). The auditor throws
the coins, trains once, and guesses "in" for the canaries with the highest scores and "out" for those with the lowest;
of the others nothing is said. The number of right guesses bounds epsilon (``stats.one_run``). Canaries may disturb
one another: the bound holds all the same.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dprepro.audits.canary_words import checked_claim, sign_line, verdict_lines
from dprepro.base.check import at_most, finite, positive_count
from dprepro.stats.one_run import epsilon_one_run
from dprepro.stats.tradeoff import auc

FloatArray = NDArray[np.float64]

_UNFAIR = 1e-6  # a share of included canaries that fair coins show less often than this is refused


@dataclass(frozen=True)
class OneRunAudit:
    """What the guesses about many canaries show.

    Attributes
    ----------
    delta, alpha, claimed
        As asked for.
    runs, canaries, included : int
        Trainings; coins over all of them; how many fell "in".
    guesses : int
        Planned over all runs. Guesses that ties made impossible count as wrong.
    right_in, right_out : int
        Right guesses of "in" and of "out".
    tied : int
        Guesses lost to ties.
    epsilon_low : float
        Lower bound on epsilon at confidence 1 - alpha.
    auc : float
        Chance that an included canary scores higher than one left out, over pairs of the same run.
    """

    delta: float
    alpha: float
    claimed: float | None
    runs: int
    canaries: int
    included: int
    guesses: int
    right_in: int
    right_out: int
    tied: int
    epsilon_low: float
    auc: float

    @property
    def correct(self) -> int:
        """Right guesses."""
        return self.right_in + self.right_out

    @property
    def ceiling(self) -> float:
        """Bound that the same number of guesses, all right, would give."""
        return float(epsilon_one_run(self.canaries, self.guesses, self.guesses, self.delta, self.alpha))

    @property
    def violation(self) -> bool:
        """Whether the bound exceeds the claim; False without a claim."""
        return self.claimed is not None and self.epsilon_low > self.claimed

    def __str__(self) -> str:
        out = self.canaries - self.included
        lost = "were lost to equal scores and count as wrong: give rng to break ties at random"
        tied = f" ({self.tied} guesses {lost})" if self.tied else ""
        runs = "one training" if self.runs == 1 else f"{self.runs} trainings"
        return "\n".join(
            [
                f"Loss test on {self.canaries} canaries in {runs}, {self.included} included and {out} left out.",
                f'{self.correct} of {self.guesses} guesses right, {self.right_in} of "in" and {self.right_out} of '
                f'"out"{tied}; AUC {self.auc:.3f}.',
                *verdict_lines(self.epsilon_low, self.ceiling, self.delta, self.alpha, self.claimed),
                *sign_line(self.auc, self.included, out),
                "Checked: the number of right guesses against what epsilon allows, adding or removing one canary; "
                "that the share of included canaries is one that fair coins give.",
                "Not checked: that each canary had its own coin, thrown before the training and unknown to whatever "
                "made the scores; that these canaries are the worst ones. A low bound is no evidence of privacy.",
            ]
        )


def one_run_audit(
    scores: ArrayLike,
    included: ArrayLike,
    delta: float,
    alpha: float = 0.05,
    *,
    guesses: int | None = None,
    claimed: float | None = None,
    rng: np.random.Generator | None = None,
) -> OneRunAudit:
    """Audit a training by the scores of many canaries in one run of it.

    Parameters
    ----------
    scores : array_like, shape (m,) or (runs, m)
        Finite scores of all canaries, included or not, under the trained model; high means "in". A row for each
        training, if there were several: each with coins of its own.
    included : array_like of bool or 0/1, shape of `scores`
        The coins: whether the canary was in the training data.
    delta : float
        In [0, 1].
    alpha : float
        Chance that the bound exceeds epsilon, in (0, 1).
    guesses : int, optional
        Guesses a run, at most m: half for the highest scores, half for the lowest. It must be fixed before scores
        are seen. By default m/4, a good choice for signals of one to three standard deviations.
    claimed : float, optional
        Epsilon that the training claims at `delta`; infinity allowed.
    rng : Generator, optional
        Breaks ties at random. Without it tied scores at the edge are not guessed.

    Returns
    -------
    OneRunAudit
        ``str`` of it says in words what was checked and what not.

    Raises
    ------
    ValueError
        Names the argument: all canaries of a run included, or none; a share of them that fair coins give less than
        once in a million times; scores that are not finite, or of fewer than two canaries; shapes that differ;
        numbers outside their domain.

    Notes
    -----
    *What it assumes* (Theorem 5.2 of the paper). Each canary is in or out by its own fair coin, independent of the
    others and of all else: not "half of them", and not by a rule. Neighbours differ by adding or removing one
    canary; a canary that is inserted k times needs epsilon for groups of k. The guesses see the trained model only.
    *Not* assumed: that canaries do not disturb each other, or that their scores are independent.

    *Several runs.* A coin enters one run only, so all runs together are (epsilon, delta)-DP in each coin, and the
    theorem holds for them with runs * m coins.

    *Ties.* Which of several equal scores is guessed must not depend on the coins, and the order of a list often does
    (included ones first). So chance decides, if given, or else none of a block that crosses the edge is guessed. Ties
    are common where nothing is random but the coins: without noise all canaries left out have one and the same score.
    """
    rows = np.atleast_2d(finite("scores", scores))
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise ValueError(
            f"scores must be an array (m,) or (runs, m) of at least 2 canaries, got shape {np.shape(scores)}"
        )
    coins = _coins(included, rows)
    canaries = rows.shape[1]
    number = max(2, canaries // 4) if guesses is None else int(positive_count("guesses", guesses))
    at_most("guesses", np.asarray(number), "the number of canaries in a run", np.asarray(canaries))
    claim = checked_claim(claimed)
    high, low = (number + 1) // 2, number // 2
    places: NDArray[Any] = rows
    if rng is not None:
        places = np.lexsort((rng.random(rows.shape), rows), axis=1).argsort(axis=1)
    ordered = np.sort(places, axis=1)
    # The score that is next beyond the edge is not guessed, nor is what equals it.
    said_in = places > ordered[:, [canaries - high - 1]]
    said_out = places < ordered[:, [low]]
    right_in, right_out = int((said_in & coins).sum()), int((said_out & ~coins).sum())
    total = number * len(rows)
    return OneRunAudit(
        float(delta),
        float(alpha),
        claim,
        len(rows),
        rows.size,
        int(coins.sum()),
        total,
        right_in,
        right_out,
        total - int(said_in.sum() + said_out.sum()),
        float(epsilon_one_run(rows.size, total, right_in + right_out, delta, alpha)),
        float(np.mean([auc(row[coin], row[~coin]) for row, coin in zip(rows, coins, strict=True)])),
    )


def _coins(included: ArrayLike, rows: FloatArray) -> NDArray[np.bool_]:
    values = np.atleast_2d(finite("included", included))
    if values.shape != rows.shape:
        raise ValueError(f"included must have the shape of scores, {rows.shape}, got {values.shape}")
    coins = values == 1
    if not (coins | (values == 0)).all():
        raise ValueError(
            f"included must be true or false for each canary, got {values[~coins & (values != 0)][0]:g}"
        )
    each, size = coins.sum(axis=1), coins.shape[1]
    for count in each[(each == 0) | (each == size)][:1]:
        raise ValueError(
            f"included must hold canaries of both kinds, got {count} of {size}: "
            "each is included by its own fair coin, and without the others there is nothing to compare with"
        )
    fewer = min(each.sum(), coins.size - each.sum())
    if (chance := 2 * special.bdtr(fewer, coins.size, 0.5)) < _UNFAIR:
        raise ValueError(
            f"included must come from fair coins, got {each.sum()} of {coins.size} (chance {chance:.1g}): "
            "the bound holds for inclusion with probability 1/2"
        )
    return coins
