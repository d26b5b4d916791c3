"""Has the diffusion model collapsed, and is it the noise? What ``synbench_diffusion`` says of SynBench's claim.

SynBench (arXiv 2509.14594): the diffusion model collapses at epsilon 1 and below. A corpus has *collapsed* if at
least half of its texts are broken: blank, one word over and over, or garbled (``diffusion_study.broken``). The claim
has two parts, and both are tested for each start of the model over repetitions of the whole run:

* collapsed: the share of broken texts at epsilon 1 and .5 is at least one half;
* by the noise: that share is larger than the one of the same model without clipping and noise.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dprepro.audits.diffusion_study import PUBLIC, SCRATCH, STARTS, Broken
from dprepro.audits.judged import Judged, mean_of
from dprepro.base.check import one_of

FloatArray = NDArray[np.float64]
Found = Mapping[Any, Mapping[str, Any]]

EPSILONS = ("inf", "4", "2", "1", "0.5")
STRONG = ("1", "0.5")  # epsilon 1 and below
COLLAPSED = 0.5
ALPHA = 0.05


def measured(found: Found, start: str, epsilon: str, measure: str = "broken") -> FloatArray:
    """One value a repetition.

    Parameters
    ----------
    found : mapping
        The saved result ``synbench_diffusion``.
    start : {"scratch", "public"}
    epsilon : str
        One of `EPSILONS`.
    measure : str
        "broken", "blank", "repeated" or "garbled" for a share of the texts; or any number of the result.

    Raises
    ------
    ValueError
        Another start, or an epsilon without a run.
    """
    one_of("start", start, STARTS)
    runs = [item for key, item in found.items() if str(key).startswith(f"{start}, {epsilon}, ")]
    if not runs:
        raise ValueError(f"epsilon must be one of {', '.join(EPSILONS)}, got {epsilon!r}")
    if measure == "broken":
        return np.array([sum(run[kind] for kind in Broken._fields) / run["texts"] for run in runs])
    whole = measure not in Broken._fields
    return np.array([float(run[measure]) / (1 if whole else run["texts"]) for run in runs])


def beating(found: Found, name: str, tested: int, guesser: float) -> int:
    """Count corpora whose classifier is right more often than a guesser: one-sided binomial test at .05.

    Parameters
    ----------
    found : mapping
    name : str
        How the keys of the corpora begin: "public, 1".
    tested : int
        Real texts that each classifier was tested on.
    guesser : float
        Share that the guesser gets right.
    """
    right = [run["correct"] for key, run in found.items() if str(key).startswith(f"{name}, ")]
    tests = (stats.binomtest(count, tested, guesser, alternative="greater") for count in right)
    return sum(test.pvalue < ALPHA for test in tests)


def by_start(found: Found, start: str) -> Judged:
    """Judge the claim for one start.

    HOLDS if the intervals show both parts: a share of broken texts at epsilon 1 and .5 of at least one half, and more
    than without privacy. FAILS if the interval of that share lies below one half, or that of the difference at or
    below 0, as where the model is as broken without noise. UNDECIDED otherwise. A repetition is one value: the mean
    over the two budgets.
    """
    strong = np.mean([measured(found, start, epsilon) for epsilon in STRONG], axis=0)
    plain = measured(found, start, "inf")
    share, gap = mean_of(strong), mean_of(strong - plain)
    if share.low >= COLLAPSED and gap.low > 0:
        outcome = "HOLDS"
    elif share.high < COLLAPSED or gap.high <= 0:
        outcome = "FAILS"
    else:
        outcome = "UNDECIDED"
    collapsed = sum(int((measured(found, start, e) >= COLLAPSED).sum()) for e in STRONG)
    number = len(STRONG) * len(strong)
    reason = (
        f"{start}: {share.value:.2f} [{share.low:.2f}, {min(1.0, share.high):.2f}] of the texts are broken at "
        f"epsilon 1 and .5, {plain.mean():.2f} without privacy; {collapsed} of {number} corpora have collapsed"
    )
    return Judged(outcome, *gap, number, reason)


def claim(found: Found) -> Judged:
    """Judge synbench-06: the outcome that both starts share, UNDECIDED where they differ.

    The effect is that of the model from scratch, which no public text helps.
    """
    judged = {start: by_start(found, start) for start in STARTS}
    outcomes = {each.outcome for each in judged.values()}
    reason = "; ".join(f"{judged[start].outcome} {judged[start].reason}" for start in (SCRATCH, PUBLIC))
    first = judged[SCRATCH]
    return first._replace(outcome=outcomes.pop() if len(outcomes) == 1 else "UNDECIDED", reason=reason)
