"""Drawing the experts of a PMixED query with and without replacement: every draw of a small ensemble, exactly.

The account of arXiv 2403.15638 is for Poisson sampling: each expert at most once. Its public code draws a number from
Binomial(N, p) and then so many experts *with* replacement. Who samples one token sees the mean over all draws,
and there each expert has the same share either way (`pmixed_worst`). Who sees the mixtures themselves does not: an
expert that is drawn twice weighs more. The perplexity of drawn mixtures, which that code measures, is such a view.
"""

from collections import Counter
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from dprepro.mechanisms.pmixed import PMixED
from dprepro.mechanisms.pmixed_ball import distributions, project

FloatArray = NDArray[np.float64]

_MOST = 8  # experts: 2^8 subsets, 12,870 multisets


class Draws(NamedTuple):
    """All that one query may come to.

    Attributes
    ----------
    chance : array, shape (draws,)
        Sums to 1.
    mixture : array, shape (draws, V)
        What the token would be sampled from.
    """

    chance: FloatArray
    mixture: FloatArray

    @property
    def law(self) -> FloatArray:
        """Law of the token, shape (V,)."""
        return self.chance @ self.mixture

    def cost(self, token: int) -> float:
        """Mean of -log(mixture[token]) over the draws, less -log(law[token]): at least 0, in nats."""
        seen = self.mixture[:, token]
        return float(np.log(self.chance @ seen) - self.chance @ np.log(seen))


def all_draws(mechanism: PMixED, experts: ArrayLike, public: ArrayLike, *, replacement: bool) -> Draws:
    """Return every draw of a query, with its chance and its mixture.

    Parameters
    ----------
    mechanism : PMixED
        With at most 8 experts.
    experts : array_like, shape (n_experts, V)
    public : array_like, shape (V,)
    replacement : bool
        Poisson sampling if not.

    Raises
    ------
    ValueError
        Another number of experts, or more than 8; as `pmixed_ball.project`.
    """
    p0, rows = distributions("public", public), distributions("experts", experts)
    n = mechanism.n_experts
    if n > _MOST or rows.ndim != 2 or len(rows) != n:
        raise ValueError(f"experts must be n_experts rows, at most {_MOST}, got shape {rows.shape} for {n}")
    chances, mixtures = [binom.pmf(0, n, mechanism.sample_rate)], [p0]
    choose = combinations_with_replacement if replacement else combinations
    for size in range(1, n + 1):
        radius = mechanism.radius(size)
        inside = project(rows, p0, radius, mechanism.order, mechanism.reverse_order).mixture
        share = binom.pmf(size, n, mechanism.sample_rate) / (n**size if replacement else comb(n, size))
        for drawn in choose(range(n), size):
            orders = factorial(size) // prod(map(factorial, Counter(drawn).values())) if replacement else 1
            chances.append(share * orders)
            mixtures.append(inside[list(drawn)].mean(axis=0))
    return Draws(np.array(chances), np.array(mixtures))
