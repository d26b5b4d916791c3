"""Does the zero-shot filter raise MAUVE? What the corpora of ``filter_study`` say, generator by generator.

The gain of a corpus is the MAUVE of the half that the filter keeps less the mean over random halves. A generator's
gain is the mean over its corpora, which are independent of each other, with a t interval.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.filter_study import GENERATORS
from dprepro.audits.judged import Judged, mean_of
from dprepro.base.check import one_of

FloatArray = NDArray[np.float64]
Saved = Mapping[Any, Mapping[str, Any]]


def corpora(saved: Saved, generator: str) -> list[Mapping[str, Any]]:
    """Return the items of a generator; ValueError for an unknown one."""
    one_of("generator", generator, GENERATORS)
    return [item for key, item in saved.items() if str(key).partition(", ")[0] == generator]


def gains(saved: Saved, generator: str, control: str = "random") -> FloatArray:
    """Return the gain of each corpus: MAUVE of what the filter keeps less that of random choices of the same size.

    `control` "random visible" leaves blank texts out of these choices, which needs no model.
    """
    one_of("control", control, ("random", "random visible"))
    items = corpora(saved, generator)
    return np.array([item["mauve, kept"] - np.mean(item[f"mauve, {control}"]) for item in items])


def gain(saved: Saved, generator: str, alpha: float = 0.05) -> Judged:
    """Judge the filter on the texts of one generator.

    Parameters
    ----------
    saved : mapping
        As ``base.results.load("synbench_post_filter")`` returns it.
    generator : {"DP-Gen", "AUG-PE"}
    alpha : float
        One minus the level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        An unknown generator, fewer than two corpora of it, or `alpha` outside its domain.
    """
    found = gains(saved, generator)
    if len(found) < 2:
        raise ValueError(f"saved must hold two corpora of {generator} at least, got {len(found)}")
    mean, low, high = mean_of(found, alpha)
    outcome = "HOLDS" if low > 0 else "FAILS" if high < 0 else "UNDECIDED"
    epsilon = corpora(saved, generator)[0]["epsilon"]
    texts = corpora(saved, generator)[0]["texts"]
    reason = (
        f"gain in MAUVE of the half that the filter keeps over random halves, {generator} at epsilon {epsilon:.3g} "
        f"(1.07M weights) on film reviews, n corpora of {texts} texts; post-processing, so at no privacy cost"
    )
    return Judged(outcome, mean, low, high, len(found), reason)


def claim(saved: Saved) -> Judged:
    """Judge synbench-09: the filter raises MAUVE.

    Returns
    -------
    Judged
        HOLDS if it holds for every generator, FAILS if it fails for one, each at level 1 - .05 / (number of
        generators); UNDECIDED otherwise. Effect and interval are those of the generator with the smallest gain, the
        interval at that level.
    """
    found = {generator: gain(saved, generator, 0.05 / len(GENERATORS)) for generator in GENERATORS}
    outcomes = {one.outcome for one in found.values()}
    outcome = "FAILS" if "FAILS" in outcomes else "HOLDS" if outcomes == {"HOLDS"} else "UNDECIDED"
    least = min(found, key=lambda generator: found[generator].effect)
    each = "; ".join(
        f"{name} {one.effect:.4f} [{one.low:.4f}, {one.high:.4f}] {one.outcome.lower()}"
        for name, one in found.items()
    )
    return found[least]._replace(outcome=outcome, reason=f"{found[least].reason}; by generator: {each}")
