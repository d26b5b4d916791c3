"""Publishing the mixture of PMixED instead of one token sampled from it: an exact test of an expert's presence.

The guarantee of arXiv 2403.15638 rests on sampling. The mixture itself is a point of the plane that the projected
experts span with the public distribution; who knows all the others sees at once whether it leaves their plane. That
happens exactly when the expert was drawn and its text says anything new, never without it: no finite epsilon holds at
a delta below the chance 1 - (1 - p)^T of one draw in T queries.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.pmixed_ball import distributions

FloatArray = NDArray[np.float64]


def outside_the_plane(mixture: ArrayLike, public: ArrayLike, others: ArrayLike) -> FloatArray:
    """Part of a published mixture that the known experts do not explain, shape (V,).

    Parameters
    ----------
    mixture, public : array_like, shape (V,)
    others : array_like, shape (n, V)
        Distributions of all experts but the one looked for, before projection; V above n, or every mixture is
        inside.

    Returns
    -------
    array, shape (V,)
        Sums to 0, up to rounding. Of an expert that took part it is its own distribution less what is in the
        plane, scaled: the largest entry names the word that sets it apart most.

    Raises
    ------
    ValueError
        What is no distribution, or over another vocabulary.
    """
    p0, seen = distributions("public", public), distributions("mixture", mixture)
    plane = distributions("others", others) - p0
    if plane.ndim != 2 or seen.shape != p0.shape or plane.shape[1:] != p0.shape:
        raise ValueError(f"others must have shape (n, {len(p0)}), got {np.shape(others)}")
    share, *_ = np.linalg.lstsq(plane.T, seen - p0, rcond=None)
    return np.asarray(seen - p0 - share @ plane)


def leaves_the_plane(
    mixture: ArrayLike, public: ArrayLike, others: ArrayLike, tolerance: float = 1e-9
) -> bool:
    """Whether a published mixture shows that an expert beside the known ones took part.

    Parameters
    ----------
    mixture, public, others
        As `outside_the_plane`.
    tolerance : float
        Largest distance (total variation) from the plane that counts as rounding.

    Returns
    -------
    bool
        False for every mixture without the expert. True with it, unless its distribution lies in the plane.

    Raises
    ------
    ValueError
        As `outside_the_plane`, or a tolerance outside [0, 1].
    """
    slack = float(in_interval("tolerance", tolerance, 0, 1))
    return bool(np.abs(outside_the_plane(mixture, public, others)).sum() / 2 > slack)


def chance_of_a_draw(sample_rate: float, n_queries: int) -> float:
    """Chance that an expert is drawn once at least: the power of the test above, at no false alarms.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    p, n = float(in_interval("sample_rate", sample_rate, 0, 1)), int(positive_count("n_queries", n_queries))
    return float(-np.expm1(n * np.log1p(-p))) if p < 1 else 1.0
