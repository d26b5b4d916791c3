"""What the utility and fidelity study says of SynBench's claims (arXiv 2509.14594), generator by generator.

Rules, fixed before the study was run. A series is a measure over the finite budgets .5, 1, 2, 4, for one domain and
one draw of private texts; its order is tested exactly (``stats.trend``), within a series only, all series of a
generator together.

**synbench-05, utility is not monotone in epsilon.** Utility is macro F1 of the classifier on embeddings. FAILS if it
rises with epsilon (p < .05), HOLDS if it falls (p < .05); UNDECIDED otherwise, which is what noise alone gives. The
effect is the mean over the series of F1 at epsilon 4 less that at .5, with a 95 % t interval. The same for each
measure of table 2, in its better direction.

**Which draws decide.** The study was first run with one draw of private texts from each domain (two for DP-Gen), then
enlarged by one fresh draw, the number fixed before it was computed. The verdict is that of the fresh draw alone, by
the rule above. What had been seen before stands beside it, and so do all draws together, both without a verdict: a
test of all draws, made because the first ones left the matter open, would have a second chance to err.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dprepro.audits.judged import Judged, Mean, mean_of
from dprepro.base.check import one_of
from dprepro.stats.trend import trend

FINITE = ("0.5", "1", "2", "4")
ALPHA = 0.05
BETTER = {"macro": 1, "micro": 1, "macro_words": 1, "mauve": 1, "entity": -1, "length": -1}
FRESH = 2  # number of the draw that decides; those with smaller numbers had been seen

Found = Mapping[Any, Mapping[str, Any]]


def series(found: Found, measure: str = "macro") -> dict[tuple[str, str], list[float]]:
    """Return a measure over the finite budgets, from strong privacy on, for each (domain, number of the draw)."""
    domains = dict.fromkeys(tuple(str(key).split(", ")[::2]) for key in found)
    return {
        (domain, number): [float(found[f"{domain}, {epsilon}, {number}"][measure]) for epsilon in FINITE]
        for domain, number in domains
    }


def not_monotone(found: Found, measure: str = "macro") -> Judged:
    """Test the order of a measure over all draws given, for "it is not monotone in epsilon".

    Parameters
    ----------
    found : mapping
        Items "<domain>, <epsilon>, <number of the draw>" of a saved result ``synbench_utility_<generator>``.
    measure : str
        A name in `BETTER`.

    Returns
    -------
    Judged
        FAILS: the measure gets better with epsilon; HOLDS: it gets worse; UNDECIDED: neither by more than chance. The
        effect is the measure at epsilon 4 less that at .5.

    Raises
    ------
    ValueError
        Another measure.
    """
    sign = BETTER[one_of("measure", measure, tuple(BETTER))]
    lines = list(series(found, measure).values())
    order = trend([[sign * value for value in line] for line in lines])
    steps = np.array([line[-1] - line[0] for line in lines])
    change = mean_of(steps) if len(steps) > 1 else Mean(float(steps[0]), -np.inf, np.inf)
    outcome = "FAILS" if order.p_rising < ALPHA else "HOLDS" if order.p_falling < ALPHA else "UNDECIDED"
    reason = f"S = {order.s} of {order.pairs}, p better {order.p_rising:.4f}, p worse {order.p_falling:.4f}"
    return Judged(outcome, *change, len(lines), reason)


def looks(found: Found, measure: str = "macro") -> dict[str, Judged]:
    """Test the draws apart and together, each as `not_monotone`; the first of these decides.

    Returns
    -------
    dict
        "fresh draw", "seen before", "together"; "first look" alone where no fresh draw was made.

    Raises
    ------
    ValueError
        A result without a draw seen before; another measure.
    """
    parts: dict[bool, dict[Any, Mapping[str, Any]]] = {True: {}, False: {}}
    for key, item in found.items():
        parts[int(str(key).rpartition(", ")[2]) == FRESH][key] = item
    if not parts[False]:
        raise ValueError(f"found must have items of a draw before {FRESH}, got {len(found)} items without")
    if not parts[True]:
        return {"first look": not_monotone(found, measure)}
    apart = {"fresh draw": parts[True], "seen before": parts[False], "together": found}
    return {name: not_monotone(part, measure) for name, part in apart.items()}


def judged(found: Found, measure: str = "macro") -> Judged:
    """Return the verdict: that of the fresh draw alone, with the draws seen before in its reason."""
    (draws, verdict), *others = looks(found, measure).items()
    reason = (
        f"{measure} at epsilon 4 less that at .5, {draws}; order over the finite budgets {verdict.reason}"
    )
    for name, claim in others[:1]:
        reason += f"; {name}, n={claim.n}: {claim.effect:.3f}, {claim.reason}"
    return verdict._replace(reason=reason)
