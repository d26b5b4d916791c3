"""Sparse vector technique (SVT): which queries of a list lie above a threshold, in the six published versions.

Lyu, Su and Li, "Understanding the Sparse Vector Technique for Differential Privacy" (VLDB 2017), figure 1. Each
version draws rho for the threshold T, then for each query q with answer q(x) a nu, and answers "above" where
q(x) + nu >= T + rho, else "below". Noise is Laplace, its scales here in units of sensitivity/epsilon; c is the
cutoff, the number of "above" after which the list ends:

    variant  rho  nu    ends  epsilon            proposed by, and what is wrong with it
    1        2    4c    yes   epsilon            Lyu, Su and Li
    2        2c   4c    yes   epsilon            Dwork and Roth (2014); draws rho anew after each "above"
    3        2    2c    yes   infinite           Roth (2011): releases q(x) + nu where "above", a bound on rho
    4        4    4/3   yes   (1 + 6c)/4 epsilon Lee and Clifton (2014): nu does not grow with c
    5        2    none  no    infinite           Stoddard et al. (2014): no noise on the answers, no cutoff
    6        2    2     no    infinite           Chen et al. (2015): no cutoff, nu too small

The epsilon is for answers that each move by at most the sensitivity, in either direction, and for lists of every
length: variants 1, 2 and 4 come as close to it as one likes as the list grows. With c = 1 variants 1 and 2 are
the same mechanism: the scales agree and there is no "above" to go on after.

Scenarios (d), (e), (f) and (h) of ReTiDP (arXiv 2509.20283) go from variant 2 to 4, 5, 6 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import finite, in_interval, positive_count, sample
from dprepro.mechanisms.events import Event, Exactly, Interval
from dprepro.stats.laplace import laplace_expectation, laplace_mass, laplace_noise

FloatArray = NDArray[np.float64]

_BLOCK = 32_768  # runs at a time, so that their noise stays in the cache


class _Recipe(NamedTuple):
    """A row of the table above; scales in units of sensitivity/epsilon, per c where they grow with it."""

    rho: float
    nu: float
    rho_grows: bool = False  # also: rho is drawn anew after each "above"
    nu_grows: bool = False
    ends: bool = True
    releases_answers: bool = False


_RECIPES = {
    1: _Recipe(2, 4, nu_grows=True),
    2: _Recipe(2, 4, rho_grows=True, nu_grows=True),
    3: _Recipe(2, 2, nu_grows=True, releases_answers=True),
    4: _Recipe(4, 4 / 3),
    5: _Recipe(2, 0, ends=False),
    6: _Recipe(2, 2, ends=False),
}


@dataclass(frozen=True)
class SparseVector:
    """One of the six versions of the sparse vector technique.

    Parameters
    ----------
    variant : int
        1 to 6, as in the table of this module.
    epsilon : float
        The claim, positive.
    threshold : float
        T, one for all queries; a threshold for each query is the same as other answers.
    cutoff : int
        c, at least 1: after so many "above" the list ends. Variants 5 and 6 have no cutoff and ignore it.
    sensitivity : float
        How far each answer may lie from that of a neighbouring database; positive.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    variant: int
    epsilon: float
    threshold: float
    cutoff: int = 1
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        if self.variant not in _RECIPES:
            raise ValueError(f"variant must be one of 1, 2, 3, 4, 5, 6, got {self.variant!r}")
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        finite("threshold", self.threshold)
        positive_count("cutoff", self.cutoff)
        in_interval("sensitivity", self.sensitivity, 0.0, np.inf, closed="neither")

    @property
    def threshold_scale(self) -> float:
        """Scale of rho."""
        recipe = _RECIPES[self.variant]
        return recipe.rho * (self.cutoff if recipe.rho_grows else 1) * self.sensitivity / self.epsilon

    @property
    def answer_scale(self) -> float:
        """Scale of nu; 0 where the answers get no noise."""
        recipe = _RECIPES[self.variant]
        return recipe.nu * (self.cutoff if recipe.nu_grows else 1) * self.sensitivity / self.epsilon

    @property
    def true_epsilon(self) -> float:
        """The smallest epsilon that holds for lists of every length; infinity if none does."""
        factors = {1: 1.0, 2: 1.0, 4: (1 + 6 * self.cutoff) / 4}
        return self.epsilon * factors.get(self.variant, np.inf)

    def __call__(self, answers: ArrayLike, n: int, rng: np.random.Generator) -> NDArray[np.int8] | FloatArray:
        """Run the mechanism n times on the answers of one database.

        Parameters
        ----------
        answers : array_like, shape (m,)
            Clean answers q(x), finite.
        n : int
            Independent runs, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n, m)
            A row a run, int8: 1 above, 0 below, -1 after the end of the list. Variant 3, float64: the noisy
            answer where above, -inf below, NaN after the end. Stored by columns, which `Exactly` reads.

        Raises
        ------
        ValueError
            If `answers` is empty, not one-dimensional or not finite, or `n` is below 1.
        """
        clean, n = _answers(answers), int(positive_count("n", n))
        if _RECIPES[self.variant].releases_answers:
            out: NDArray = np.full((clean.size, n), np.nan)
        else:
            out = np.full((clean.size, n), -1, dtype=np.int8)
        for start in range(0, n, _BLOCK):
            self._run(clean, out[:, start : start + _BLOCK], rng)
        return out.T

    def _run(self, clean: FloatArray, out: NDArray, rng: np.random.Generator) -> None:
        """Fill out, shape (m, runs), query by query; runs whose list has ended drop out and draw no more."""
        recipe = _RECIPES[self.variant]
        going = np.arange(out.shape[1])
        bar = self._noisy_threshold(going.size, rng)
        left = np.full(going.size, self.cutoff)  # how many "above" each run may still give
        for answer, column in zip(clean, out, strict=True):
            noisy = np.full(1, answer)
            if self.answer_scale > 0:
                noisy = laplace_noise(going.size, rng)
                noisy *= self.answer_scale
                noisy += answer
            above = noisy >= bar
            # While all runs go on, a slice is written several times as fast as a list of indices.
            target = going if going.size < column.size else slice(None)
            column[target] = np.where(above, noisy, -np.inf) if recipe.releases_answers else above
            if not recipe.ends:
                continue
            if self.cutoff == 1:  # spares the bookkeeping, a fifth of the time
                stays = np.flatnonzero(~above)
                going, bar = going[stays], bar[stays]
                continue
            left -= above
            stays = np.flatnonzero(left)
            going, bar, left, above = going[stays], bar[stays], left[stays], above[stays]
            if recipe.rho_grows:
                bar[above] = self._noisy_threshold(int(np.count_nonzero(above)), rng)

    def _noisy_threshold(self, runs: int, rng: np.random.Generator) -> FloatArray:
        rho = laplace_noise(runs, rng)
        rho *= self.threshold_scale
        rho += self.threshold
        return rho

    def probability(self, answers: ArrayLike, event: Event) -> float:
        """Exact probability of one list of answers.

        Parameters
        ----------
        answers : array_like, shape (m,)
        event : Exactly
            Intervals in its pattern are for variant 3 only. A pattern that no run can give, as it goes on after
            the end of the list or stops before, has probability 0.

        Returns
        -------
        float
            With a relative error near 1e-13: given rho the answers are independent, so it is one integral over
            rho; where rho is drawn anew, a product of one integral for each rho.

        Raises
        ------
        ValueError
            If `answers` is as above, the event is of another kind, its pattern is longer than `answers`, or it
            has intervals that do not apply.
        """
        clean, recipe = _answers(answers), _RECIPES[self.variant]
        if not isinstance(event, Exactly):
            raise ValueError(f"event must be Exactly for {self}, got {event}")
        pattern = event.pattern
        if len(pattern) > clean.size:
            raise ValueError(f"pattern must be no longer than the {clean.size} answers, got {event}")
        if not recipe.releases_answers and any(isinstance(entry, Interval) for entry in pattern):
            raise ValueError(f"pattern must hold 0 and 1 only for {self}, got {event}")
        above = [index for index, entry in enumerate(pattern) if entry != 0]
        ended = recipe.ends and len(above) >= self.cutoff
        if len(pattern) != (above[self.cutoff - 1] + 1 if ended else clean.size):
            return 0.0
        cuts = [index + 1 for index in above] if recipe.rho_grows else []
        probability, start = 1.0, 0
        for end in [*cuts, len(pattern)]:
            if end > start:
                probability *= self._segment(clean[start:end], pattern[start:end])
            start = end
        return probability

    def _segment(self, clean: FloatArray, pattern: Sequence[int | Interval]) -> float:
        """Probability of answers that share one rho."""
        is_above = np.array([entry != 0 for entry in pattern])
        low = np.array([entry.low if isinstance(entry, Interval) else -np.inf for entry in pattern])
        high = np.array([entry.high if isinstance(entry, Interval) else np.inf for entry in pattern])
        rho_scale, nu_scale = self.threshold_scale, self.answer_scale
        if nu_scale == 0:  # rho lies above clean - T for each "below", at or below it for each "above"
            least = clean[~is_above].max(initial=-np.inf) - self.threshold
            most = clean[is_above].min(initial=np.inf) - self.threshold
            return float(laplace_mass(least / rho_scale, most / rho_scale)) if least < most else 0.0

        def given(x: FloatArray) -> FloatArray:
            bar = self.threshold + rho_scale * x[..., None]
            start = np.where(is_above, np.maximum(low, bar), -np.inf)
            end = np.where(is_above, np.maximum(high, start), bar)
            return laplace_mass((start - clean) / nu_scale, (end - clean) / nu_scale).prod(axis=-1)

        ends = np.concatenate([clean, low[np.isfinite(low)], high[np.isfinite(high)]])
        return laplace_expectation(given, np.unique((ends - self.threshold) / rho_scale))


def _answers(answers: ArrayLike) -> FloatArray:
    return finite("answers", sample("answers", answers))
