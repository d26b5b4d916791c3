"""What the utility and fidelity study says of SynBench's claims (arXiv 2509.14594), generator by generator.

Rules, fixed before the study was run. A series is a measure over the finite budgets .5, 1, 2, 4, for one domain and
one draw of private texts; its order is tested exactly (``stats.trend``), within a series only, all series of a
generator together.

**synbench-05, utility is not monotone in epsilon.** Utility is macro F1 of the classifier on embeddings. FAILS if it
rises with epsilon (p < .05), HOLDS if it falls (p < .05); UNDECIDED otherwise, which is what noise alone gives. The
effect is the mean over the series of F1 at epsilon 4 less that at .5, with a 95 % t interval. The same for each
measure of table 2, in its better direction.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.judged import Judged, Mean, mean_of
from dprepro.base.check import one_of
from dprepro.stats.trend import trend

FINITE = ("0.5", "1", "2", "4")
ALPHA = 0.05
BETTER = {"macro": 1, "micro": 1, "macro_words": 1, "mauve": 1, "entity": -1, "length": -1}

Found = Mapping[Any, Mapping[str, Any]]


def values(found: Found, domain: str, epsilon: str, measure: str = "macro") -> NDArray[np.float64]:
    """Return a measure of a generator at one budget, one value for each draw of private texts.

    Raises
    ------
    ValueError
        No such domain or budget in the result.
    """
    start = f"{domain}, {epsilon}, "
    some = [float(item[measure]) for key, item in found.items() if str(key).startswith(start)]
    if not some:
        raise ValueError(f"found must have an item {start}<number>, got none")
    return np.array(some)


def series(found: Found, measure: str = "macro") -> dict[tuple[str, str], list[float]]:
    """Return a measure over the finite budgets, from strong privacy on, for each (domain, number of the draw)."""
    domains = dict.fromkeys(tuple(str(key).split(", ")[::2]) for key in found)
    return {
        (domain, number): [float(found[f"{domain}, {epsilon}, {number}"][measure]) for epsilon in FINITE]
        for domain, number in domains
    }


def better_with_epsilon(found: Found, measure: str) -> Judged:
    """Ask whether a measure gets better with epsilon among the finite budgets.

    Parameters
    ----------
    found : mapping
        A saved result ``synbench_utility_<generator>``.
    measure : str
        A name in `BETTER`.

    Returns
    -------
    Judged
        HOLDS: it gets better; FAILS: it gets worse; UNDECIDED: neither by more than chance. The effect is the measure
        at epsilon 4 less that at .5.
    """
    sign = BETTER[one_of("measure", measure, tuple(BETTER))]
    lines = list(series(found, measure).values())
    order = trend([[sign * value for value in line] for line in lines])
    steps = np.array([line[-1] - line[0] for line in lines])
    change = mean_of(steps) if len(steps) > 1 else Mean(float(steps[0]), -np.inf, np.inf)
    outcome = "HOLDS" if order.p_rising < ALPHA else "FAILS" if order.p_falling < ALPHA else "UNDECIDED"
    reason = (
        f"{measure} at epsilon 4 less that at .5; order over the finite budgets S = {order.s} of {order.pairs}, "
        f"p better {order.p_rising:.3f}, p worse {order.p_falling:.3f}"
    )
    return Judged(outcome, *change, len(lines), reason)


def opposite(claim: Judged) -> Judged:
    """Turn "gets better with epsilon" into "is not monotone": HOLDS and FAILS change places."""
    outcome = {"HOLDS": "FAILS", "FAILS": "HOLDS", "UNDECIDED": "UNDECIDED"}[claim.outcome]
    return claim._replace(outcome=outcome)


def not_monotone(found: Found) -> Judged:
    """Judge synbench-05 for one generator: the opposite of `better_with_epsilon` on macro F1."""
    return opposite(better_with_epsilon(found, "macro"))
