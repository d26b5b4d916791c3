"""Keyword space aggregation (KSA) by the joint exponential mechanism: K keywords are drawn at once, as a set.

Wu et al. (arXiv 2305.01639) with the mechanism of Gillenwater et al., "A Joint Exponential Mechanism for
Differentially Private Top-k" (2022), as audited by SnapAudit (arXiv 2511.13502). Votes are counted by
`keywords.keyword_votes`. With counts c and the K largest of them c(1) >= ... >= c(K), the utility of a set S whose
own counts are s(1) >= ... >= s(K) is

    u(S) = - max_i (c(i) - s(i)),

0 for the K most voted words, and S is released with probability proportional to exp(epsilon u / (2 Delta)).

A partition has one vote for a word, so two neighbouring inputs differ by at most 1 in each count. Dropping a
partition only lowers counts: each difference c(i) - s(i) moves by at most 1, so Delta = 1 under add/remove. An
exchanged answer may lower c(i) and raise s(i): Delta = 2 under replace-one. Delta = 1 read under replace-one is
short by a factor of two.

What is seen. The set is all there is: sets are counted, not given noise one by one, so a white box sees what a
black box sees. They differ in how they use it: a black box looks for words that the canary brought, a white box
computes the likelihood ratio of the set. An implementation that adds Gumbel noise to the utilities would show a
white box more, the difference of two sets' noisy utilities: the logistic form of `experts.logistic_rates` with the
r of `separation`.

Sets are never enumerated. Words with equal counts are alike, so those with u >= -g are counted by how many words
are taken from each level of counts, in whole numbers of any size, hence exactly.
"""

from dataclasses import dataclass
from math import comb, log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.in_context.keywords import check_counts, distinct_rows
from dprepro.mechanisms.in_context.keywords_mixes import mix_utility, word_mixes

Array = NDArray[np.float64]
DELTA_UTILITY = {"replace-one": 2.0, "add-remove": 1.0}


@dataclass(frozen=True)
class JointKeywords:
    """Exponential mechanism over all sets of K words.

    Parameters
    ----------
    epsilon : float
        The privacy claim, in (0, inf).
    keywords : int
        K, at least 1.
    adjacency : {"replace-one", "add-remove"}
        What neighbouring inputs are; it sets the sensitivity of the utility.
    assumed_sensitivity : float, optional
        Sensitivity that the exponent is made for, where it is not the one of the adjacency.
    delta : float
        In [0, 1); 0 by default, the claim is pure.
    quorum : int
        How many of the words that the canary brought a black box asks for. One is often there by chance.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    epsilon: float
    keywords: int = 10
    adjacency: str = "replace-one"
    assumed_sensitivity: float | None = None
    delta: float = 0.0
    quorum: int = 1

    gaussian = False
    discrete = True

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0.0, np.inf, closed="neither")
        positive_count("keywords", self.keywords)
        one_of("adjacency", self.adjacency, tuple(DELTA_UTILITY))
        if self.assumed_sensitivity is not None:
            in_interval("assumed_sensitivity", self.assumed_sensitivity, 0.0, np.inf, closed="neither")
        in_interval("delta", self.delta, 0.0, 1.0, closed="left")
        positive_count("quorum", self.quorum)

    @property
    def sensitivity(self) -> float:
        """Largest change of a utility between neighbours under the adjacency, in votes."""
        return DELTA_UTILITY[self.adjacency]

    @property
    def inverse_scale(self) -> float:
        """What utilities are multiplied by: epsilon / (2 Delta), for the assumed Delta if there is one."""
        assumed = self.sensitivity if self.assumed_sensitivity is None else self.assumed_sensitivity
        return self.epsilon / (2 * assumed)

    def utility(self, counts: ArrayLike, sets: ArrayLike) -> Array:
        """Utilities of sets of K words, shape (n,), at most 0.

        Parameters
        ----------
        counts : array, shape (V,)
        sets : array of int, shape (n, K)
            Columns of `counts`, distinct in a row.
        """
        clean = check_counts(counts, self.keywords)[0]
        chosen = np.sort(clean[np.asarray(sets, dtype=np.intp)], axis=1)[:, ::-1]
        return np.min(chosen - np.sort(clean)[::-1][: self.keywords], axis=1)

    def log_normaliser(self, counts: ArrayLike) -> float:
        """Log of the sum of exp(epsilon u / (2 Delta)) over all sets, for counts of shape (V,)."""
        return float(
            logsumexp(_Levels(check_counts(counts, self.keywords)[0], self.keywords).log_layers(self))
        )

    def release(self, counts: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Sets of K words.

        A utility of -g is e^(-cg) = the sum of e^(-cg') - e^(-cg'') over all larger gaps g' and their successors
        g'', so a set is drawn exactly by drawing a gap g' and then a uniform set with u >= -g'.

        Parameters
        ----------
        counts : array, shape (n, V)
            Votes for each word of a public universe of V >= K words, a row a release.
        rng : numpy.random.Generator

        Returns
        -------
        array of int, shape (n, K)
            Columns of `counts`, rising in each row.
        """
        clean = check_counts(counts, self.keywords)
        released = np.empty((len(clean), self.keywords), dtype=np.int64)
        values, which = distinct_rows(clean)
        for index, row in enumerate(values):
            rows = np.flatnonzero(which == index)
            released[rows] = _Levels(row, self.keywords).draw(self, len(rows), rng)
        return np.sort(released, axis=1)

    def score(self, released: ArrayLike, counts_in: Array, counts_out: Array, view: str) -> Array:
        """How much each release speaks for the canary.

        Parameters
        ----------
        released : array of int, shape (n, K)
        counts_in, counts_out : array, shape (V,)
            The counts to tell apart, with and without the canary.
        view : {"white", "black"}
            White box: log-likelihood ratio of the set. Black box: 1 where it holds `quorum` words with more
            votes with the canary than without, else 0.

        Returns
        -------
        array, shape (n,)

        Raises
        ------
        ValueError
            Another view; as `keywords.check_counts`.
        """
        sets = np.asarray(released, dtype=np.intp)
        if one_of("view", view, ("white", "black")) == "black":
            return np.asarray((counts_in > counts_out)[sets].sum(axis=1) >= self.quorum, dtype=np.float64)
        moved = self.utility(counts_in, sets) - self.utility(counts_out, sets)
        return self.inverse_scale * moved - self.log_normaliser(counts_in) + self.log_normaliser(counts_out)

    def success(
        self, counts: ArrayLike, counts_in: Array, counts_out: Array, view: str, threshold: float | Array
    ) -> Array:
        """P(score >= threshold) for given counts, exactly.

        Parameters
        ----------
        counts : array, shape (n, V)
        counts_in, counts_out, view
            As for `score`.
        threshold : float or array, shape (t,)

        Returns
        -------
        array, shape (n, t)
        """
        thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
        values, which = distinct_rows(check_counts(counts, self.keywords))
        rates = np.empty((len(values), len(thresholds)))
        for index, row in enumerate(values):
            mixes, classes, log_number = word_mixes(np.array([row, counts_in, counts_out]), self.keywords)
            logs = self.inverse_scale * np.array([mix_utility(mixes, side) for side in classes])
            logs += log_number
            logs -= logsumexp(logs, axis=1, keepdims=True)
            if one_of("view", view, ("white", "black")) == "black":
                brought = mixes[:, classes[1] > classes[2]].sum(axis=1)
                scores = (brought >= self.quorum).astype(np.float64)
            else:
                scores = logs[1] - logs[2]
            order = np.argsort(scores)
            above = np.append(np.cumsum(np.exp(logs[0][order])[::-1])[::-1], 0.0)
            rates[index] = np.minimum(above[np.searchsorted(scores[order], thresholds)], 1.0)
        return rates[which]

    def log_ratios(self, counts_in: ArrayLike, counts_out: ArrayLike) -> tuple[float, float]:
        """Smallest and largest log-likelihood ratio of any set: between -epsilon and epsilon if the claim holds."""
        moved = self._moved(counts_in, counts_out) * self.inverse_scale
        shift = self.log_normaliser(counts_out) - self.log_normaliser(counts_in)
        return float(moved.min() + shift), float(moved.max() + shift)

    def separation(self, counts_in: ArrayLike, counts_out: ArrayLike) -> float:
        """Shift r, as a share of epsilon, of the difference of two sets' noisy utilities, for the best two sets."""
        moved = self._moved(counts_in, counts_out)
        return float(np.ptp(moved)) * self.inverse_scale / self.epsilon

    def _moved(self, counts_in: ArrayLike, counts_out: ArrayLike) -> Array:
        both = np.concatenate([check_counts(side, self.keywords) for side in (counts_in, counts_out)])
        mixes, classes, _ = word_mixes(both, self.keywords)
        return mix_utility(mixes, classes[0]) - mix_utility(mixes, classes[1])


class _Levels:
    """Words grouped by their count, the most voted first, and the number of sets by utility."""

    def __init__(self, counts: Array, keywords: int):
        self.keywords = keywords
        values, size = np.unique(counts, return_counts=True)
        self.values, self.size = values[::-1], [int(m) for m in size[::-1]]
        self.words = [np.flatnonzero(counts == value) for value in self.values]
        self.top = np.sort(counts)[::-1][:keywords]
        self.gaps = np.unique(self.top[:, None] - self.values)
        self.gaps = self.gaps[self.gaps >= 0]

    def ways(self, gap: float) -> list[list[int]]:
        """ways[l][j]: number of choices of j words from the first l levels that sets with u >= -gap allow."""
        table = [[1] + [0] * self.keywords]
        for level, size in enumerate(self.size):
            below = self.values[level + 1] if level + 1 < len(self.size) else -np.inf
            # The i-th word of the set needs a count of c(i) - gap, so those that the next level cannot serve are due.
            due = int(np.count_nonzero(self.top - gap > below))
            picks = [comb(size, k) for k in range(self.keywords + 1)]
            before = table[-1]
            table.append(
                [
                    sum(before[j - k] * picks[k] for k in range(j + 1)) if j >= due else 0
                    for j in range(self.keywords + 1)
                ]
            )
        return table

    def log_layers(self, mechanism: JointKeywords) -> Array:
        """Log-weight of each gap: the log of the number of sets with u >= -gap, times the step of exp there."""
        c = mechanism.inverse_scale
        steps = np.append(-np.diff(self.gaps), -np.inf)
        logs = [log(self.ways(gap)[-1][self.keywords]) for gap in self.gaps]
        return np.array(logs) - c * self.gaps + np.log(-np.expm1(c * steps))

    def draw(self, mechanism: JointKeywords, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        logs = self.log_layers(mechanism)
        weights = np.exp(logs - logsumexp(logs))
        taken = np.zeros((n, len(self.size)), dtype=np.int64)
        first = 0
        for gap, trials in zip(self.gaps, rng.multinomial(n, weights / weights.sum()), strict=True):
            if trials:
                taken[first : first + trials] = self._take(self.ways(gap), trials, rng)
                first += trials
        sets = np.empty((n, self.keywords), dtype=np.int64)
        filled = np.zeros(n, dtype=np.int64)
        for level, words in enumerate(self.words):
            for k in np.unique(taken[:, level]):
                rows = np.flatnonzero(taken[:, level] == k)
                if k:
                    sets[rows[:, None], filled[rows, None] + np.arange(k)] = words[
                        _subsets(len(words), int(k), len(rows), rng)
                    ]
            filled += taken[:, level]
        return sets[rng.permutation(n)]  # trials came sorted by gap

    def _take(self, ways: list[list[int]], trials: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """How many words each trial takes from each level, from the last level to the first."""
        taken = np.zeros((trials, len(self.size)), dtype=np.int64)
        left = np.full(trials, self.keywords)
        for level in range(len(self.size) - 1, -1, -1):
            chance = np.zeros((self.keywords + 1, self.keywords + 1))
            for j in np.unique(left):
                for k in range(j + 1):
                    part = ways[level][j - k] * comb(self.size[level], k)
                    chance[j, k] = part / ways[level + 1][j]
            cumulative = np.cumsum(chance, axis=1)
            cumulative /= cumulative[:, [-1]] + (cumulative[:, [-1]] == 0)
            taken[:, level] = (rng.random(trials)[:, None] >= cumulative[left, :-1]).sum(axis=1)
            left -= taken[:, level]
        return taken


def _subsets(size: int, k: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """n uniform subsets of k out of `size`, as rows of distinct numbers."""
    if size <= 8 * k:
        keys = rng.random((n, size))
        return np.argpartition(keys, k - 1, axis=1)[:, :k] if k < size else np.tile(np.arange(size), (n, 1))
    drawn = rng.integers(size, size=(n, k))
    again = np.arange(n)
    while len(again := again[(np.diff(np.sort(drawn[again], axis=1), axis=1) == 0).any(axis=1)]):
        drawn[again] = rng.integers(size, size=(len(again), k))
    return drawn
