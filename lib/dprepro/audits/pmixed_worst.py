"""What a query of PMixED can really lose: exact laws of its token, and the worst experts that a ball allows.

Subsets are not seen, so the law of the token is a mean over them. Each expert has the same share of it whatever is
drawn, with or without replacement: for a radius r(s) at s draws,

    law = P(0) p0 + sum over s of P(s) * (mean of all experts, projected at r(s)),    P = Binomial(N, p).

With one radius the worst neighbours are a linear programme: the others alike (the moment is convex in them), each
word x described by its ratios others(x)/p0(x) and expert(x)/p0(x), unknown how much mass p0 has at each pair of
ratios. Its solution on a grid is attained by real distributions: a loss that happens, a lower bound of the largest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.stats import binom

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.pmixed import PMixED
from dprepro.mechanisms.pmixed_ball import distributions, project

FloatArray = NDArray[np.float64]


class WorstCase(NamedTuple):
    """A Renyi loss for one token, and neighbours that attain it.

    Attributes
    ----------
    rdp : float
    public, others, expert : arrays, shape (words,)
        Distributions in the ball: the public one, that of the N - 1 others, that of the expert that comes or goes.
    """

    rdp: float
    public: FloatArray
    others: FloatArray
    expert: FloatArray


def token_law(mechanism: PMixED, experts: ArrayLike, public: ArrayLike) -> FloatArray:
    """Exact law of one token, shape (V,).

    Parameters
    ----------
    mechanism : PMixED
        Its radii are used as they are, so a neighbour is had with one row less.
    experts : array_like, shape (n, V)
        At most n_experts.
    public : array_like, shape (V,)

    Raises
    ------
    ValueError
        What is no distribution, or more experts than the mechanism has.
    """
    p0, rows = distributions("public", public), np.atleast_2d(np.asarray(experts, dtype=np.float64))
    if len(rows) > mechanism.n_experts:
        raise ValueError(f"experts must have at most {mechanism.n_experts} rows, got {len(rows)}")
    chance = binom.pmf(np.arange(len(rows) + 1), len(rows), mechanism.sample_rate)
    by_radius: dict[float, float] = {}
    for size in np.flatnonzero(chance[1:] > 1e-20) + 1:
        radius = mechanism.radius(int(size))
        by_radius[radius] = by_radius.get(radius, 0.0) + chance[size]
    reverse = mechanism.reverse_order
    parts = [
        mass * project(rows, p0, radius, mechanism.order, reverse).mixture.mean(axis=0)
        for radius, mass in by_radius.items()
    ]
    return np.asarray(chance[0] * p0 + np.sum(parts, axis=0)) if parts else p0


def delta_of_counts(p: float, q: float, queries: int, epsilon: float) -> float:
    """Delta at `epsilon` of a word's count in many queries, exact: its chance in each is p, q for the neighbour.

    A lower bound of what all the tokens together need: other words may tell more.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    one, other = (float(in_interval(name, x, 0, 1)) for name, x in (("p", p), ("q", q)))
    n, e = int(positive_count("queries", queries)), float(in_interval("epsilon", epsilon, 0, np.inf))
    with np.errstate(divide="ignore"):
        counts = np.arange(n + 1)
        logs = binom.logpmf(counts, n, one), binom.logpmf(counts, n, other)
        return float(np.maximum(np.exp(logs[0]) - np.exp(e + logs[1]), 0).sum())


def rare_word_delta(
    mechanism: PMixED, public: float, others: float, expert: float = 0.5, epsilon: float | None = None
) -> float:
    """Delta that one rare word needs over all queries of a mechanism, at its epsilon or another one.

    Parameters
    ----------
    mechanism : PMixED
    public, others, expert : float
        Probability of the word in the public model, in all other experts, and in the expert that comes and goes;
        before projection. The rest of each distribution is one other word.

    Raises
    ------
    ValueError
        A probability outside [0, 1].
    """
    p0, alike, target = ([x, 1 - x] for x in (public, others, expert))
    rows = [target, *[alike] * (mechanism.n_experts - 1)]
    with_it, without = (token_law(mechanism, chosen, p0)[0] for chosen in (rows, rows[1:]))
    claimed = mechanism.epsilon if epsilon is None else epsilon
    return delta_of_counts(with_it, without, mechanism.n_queries, claimed)


def worst_case(
    radius: float,
    order: int,
    sample_rate: float,
    n_experts: int,
    reverse_order: float | None = None,
    points: int = 80,
) -> WorstCase:
    """Find neighbours with a large loss when an expert is added, by a linear programme.

    Parameters
    ----------
    radius, order, reverse_order
        Of the ball, as for `pmixed_ball.project`, the radius the same for all draws. reverse_order is `order` by
        default, or infinity.
    sample_rate : float
    n_experts : int
        With the one that is added, at least 2.
    points : int
        Ratios a side of the grid, from 1e-5 (or exp(-radius)) to 1e5.

    Raises
    ------
    ValueError
        An argument outside its domain.
    RuntimeError
        The solver found no optimum.
    """
    r, a = float(in_interval("radius", radius, 0, 100)), int(positive_count("order", order, minimum=2))
    p, n = (
        float(in_interval("sample_rate", sample_rate, 0, 1)),
        int(positive_count("n_experts", n_experts, 2)),
    )
    floor = reverse_order == np.inf
    if not floor and reverse_order not in (None, a):
        raise ValueError(f"reverse_order must be order or infinity, got {reverse_order}")
    low = np.exp(-r) if floor else 1e-5
    line = np.append(np.geomspace(low, 1e5, int(positive_count("points", points, 3))), 1.0)
    others, expert = (side.ravel() for side in np.meshgrid(line, line))
    with_it = _law(others, expert, p, n)
    without = (1 - p) ** (n - 1) + (1 - (1 - p) ** (n - 1)) * others
    gain = with_it**a * without ** (1 - a)
    balls = [others**a, expert**a] + ([] if floor else [others ** (1 - a), expert ** (1 - a)])
    means = [np.ones_like(others), others, expert]
    scale = 1 / np.max([*balls, *means], axis=0)  # columns of size 1: ratios span ten powers of ten
    found = linprog(
        -(gain - with_it) * scale,
        A_ub=np.array(balls) * scale,
        b_ub=np.full(len(balls), np.exp((a - 1) * r)),
        A_eq=np.array(means) * scale,
        b_eq=np.ones(3),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme has no optimum: {found.message}")
    mass = found.x * scale
    used = mass > 0
    laws = [mass[used] * ratio[used] for ratio in means]
    gained = float(np.log1p(mass @ (gain - with_it)))
    return WorstCase(gained / (a - 1), *(law / law.sum() for law in laws))


def _law(others: FloatArray, expert: FloatArray, p: float, n: int) -> FloatArray:
    """Law of the token with n experts, as a ratio to p0."""
    empty = (1 - p) ** n
    return empty + (1 - empty) / n * ((n - 1) * others + expert)
