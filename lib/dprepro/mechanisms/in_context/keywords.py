"""Keyword space aggregation (KSA): votes for words, and keywords released by propose-test-release.

Wu et al. (arXiv 2305.01639), with the adaptive top-k of Zhu and Wang, "Adaptive Private-K-Selection with Adaptive K
and Application to Multi-label PATE" (2022), as audited by SnapAudit (arXiv 2511.13502). Each of T partitions answers
in free text and has one vote for each word of its answer. The other release, the joint exponential mechanism, is
`keywords_joint`.

With counts c(1) >= c(2) >= ... the gap d_k = c(k) - c(k+1) says how stable the k most voted words are.

1. Propose: k* is the k with the largest d_k + Gumbel noise of scale 2/epsilon.
2. Test: z = max(2, d_k*) + N(0, (2s)^2) - q, where N(0, (2s)^2) exceeds q with probability delta_0.
3. Release the k* most voted words if z > 2, nothing otherwise.

Two neighbouring inputs differ in one partition's answer. A gap moves by at most Delta = 1 if the partition is added
or removed, which moves all counts in one direction, and by at most 2 if its answer is replaced. Then step 1 is
(Delta epsilon)-DP, z is a Gaussian mechanism with mu = Delta/(2s), and where a neighbour's k* words are others,
d_k* is at most 2 for both, so that the test passes with probability delta_0. In all the release is
(Delta epsilon + epsilon', delta' + delta_0)-DP with delta' = delta(epsilon', mu). The published scale 2/epsilon
makes step 1 epsilon-DP under add/remove only.

What is seen. A black box sees the words or nothing. k* and z are covered by the claim, so a white box sees them too.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, ndtr, ndtri

from dprepro.base.check import finite, in_interval, one_of, positive_count
from dprepro.stats.gdp import mu_to_epsilon

Array = NDArray[np.float64]
DELTA_GAP = {"replace-one": 2.0, "add-remove": 1.0}
PASS = 2.0  # a gap above 2 outlives any one replaced answer
SURE = 100.0  # a log-likelihood ratio that stands for certainty
_STOP_WORDS = """
    a an and are as at be been but by can could did do does for from had has have he her his i if in into is it its
    me my no nor not of on or our out over she should so such than that the their them then there these they this
    to too up us was we were what when where which while who whom why will with would you your
"""
STOP_WORDS = frozenset(
    _STOP_WORDS.split()
)  # with "no", as usual lists: an answer of that word alone has no vote
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def keyword_votes(
    answers: Sequence[str],
    universe: Sequence[str],
    *,
    stop_words: Collection[str] = STOP_WORDS,
    drop_punctuation: bool = True,
) -> Array:
    """Votes of the partitions' answers for each word.

    Parameters
    ----------
    answers : sequence of str
        One for each of T >= 1 partitions. Words are compared in lower case.
    universe : sequence of str
        The words that may get votes, distinct. It has to be public (the words of the query, a dictionary): made
        from the answers it would say by itself which words were used.
    stop_words : collection of str
        Words that get no vote though they be in the universe.
    drop_punctuation : bool
        Give no votes to tokens without a letter or digit; otherwise each mark is a word of its own.

    Returns
    -------
    array, shape (V,)
        Between 0 and T.

    Raises
    ------
    ValueError
        If there are no answers, one is no text, or a word of the universe is there twice.
    """
    if isinstance(answers, str) or len(answers) < 1:
        raise ValueError(f"answers must be at least 1 text, one a partition, got {answers!r}")
    column = {word.lower(): index for index, word in enumerate(universe)}
    if len(column) < len(universe):
        raise ValueError(f"universe must hold distinct words, got {len(universe)} of which {len(column)} are")
    votes = np.zeros(len(universe))
    for answer in answers:
        if not isinstance(answer, str):
            raise ValueError(f"answers must be texts, got {answer!r}")
        for word in set(_TOKEN.findall(answer.lower())) - set(stop_words):
            if word in column and (word[0].isalnum() or not drop_punctuation):
                votes[column[word]] += 1
    return votes


@dataclass(frozen=True)
class StableKeywords:
    """The most voted words, as many as have a large gap below them, if that gap passes a test.

    Parameters
    ----------
    choice_epsilon : float
        epsilon of step 1, in (0, inf): Gumbel noise of scale 2/epsilon.
    sigma : float
        s, in (0, inf), in votes: the test's noise has standard deviation 2s.
    failure : float
        delta_0, in (0, delta).
    delta : float
        Of the whole claim, in (0, 1).
    largest : int
        Largest k that may be proposed, at least 1.
    adjacency : {"replace-one", "add-remove"}
        What neighbouring inputs are; it does not change the noise, but what the noise is worth.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    """

    choice_epsilon: float
    sigma: float
    failure: float = 5e-6
    delta: float = 1e-5
    largest: int = 30
    adjacency: str = "replace-one"

    gaussian = False
    discrete = True

    def __post_init__(self) -> None:
        in_interval("choice_epsilon", self.choice_epsilon, 0.0, np.inf, closed="neither")
        in_interval("sigma", self.sigma, 0.0, np.inf, closed="neither")
        in_interval("delta", self.delta, 0.0, 1.0, closed="neither")
        in_interval("failure", self.failure, 0.0, self.delta, closed="neither")
        positive_count("largest", self.largest)
        one_of("adjacency", self.adjacency, tuple(DELTA_GAP))

    @cached_property
    def epsilon(self) -> float:
        """The claim: Delta choice_epsilon + epsilon', with delta' = delta - failure left for the test's noise."""
        moves = DELTA_GAP[self.adjacency]
        test = mu_to_epsilon(moves / (2 * self.sigma), self.delta - self.failure)
        return float(moves * self.choice_epsilon + test)

    @property
    def margin(self) -> float:
        """q, in votes: what the noise of the test exceeds with probability `failure`."""
        return -2 * self.sigma * float(ndtri(self.failure))

    def gaps(self, counts: ArrayLike) -> Array:
        """d_1 to d_largest for counts of shape (n, V), V > largest; shape (n, largest)."""
        top = -np.sort(-check_counts(counts, self.largest + 1), axis=1)[:, : self.largest + 1]
        return top[:, :-1] - top[:, 1:]

    def release(self, counts: ArrayLike, rng: np.random.Generator) -> Array:
        """Proposed number of words, test statistic and words.

        Parameters
        ----------
        counts : array, shape (n, V)
            Votes for each word of a public universe of V > largest words, a row a release.
        rng : numpy.random.Generator

        Returns
        -------
        array, shape (n, 2 + largest)
            k*, z, then the released columns of `counts` in rising order, and -1 in what is left. A black box sees
            the words alone, a white box the row.
        """
        clean = check_counts(counts, self.largest + 1)
        gaps = self.gaps(clean)
        rows = np.arange(len(clean))
        k = np.argmax(gaps + rng.gumbel(scale=2 / self.choice_epsilon, size=gaps.shape), axis=1)
        test = self._centre(gaps[rows, k]) + 2 * self.sigma * rng.standard_normal(len(clean))
        values, which = distinct_rows(clean)
        words = np.array([_tops(row, self.largest) for row in values])[which, k]
        return np.column_stack([k + 1, test, np.where(test[:, None] > PASS, words, -1)])

    def score(self, released: Array, counts_in: Array, counts_out: Array, view: str) -> Array:
        """How much each release speaks for the canary.

        Parameters
        ----------
        released : array, shape (n, 2 + largest)
        counts_in, counts_out : array, shape (V,)
            The counts to tell apart, with and without the canary.
        view : {"white", "black"}
            White box: log-likelihood ratio of k*, z and the words, cut at +-100, which is what stands for
            certainty where only one of the two inputs can release these words; 0 where neither can. Black box: 1
            where a word with more votes with the canary than without is released, else 0.

        Returns
        -------
        array, shape (n,)
        """
        words = released[:, 2:].astype(np.intp)
        if one_of("view", view, ("white", "black")) == "black":
            held = (counts_in > counts_out)[words] & (words >= 0)
            return np.asarray(held.any(axis=1), dtype=np.float64)
        level, slope, tops_in, tops_out = self._ratio(counts_in, counts_out)
        k = released[:, 0].astype(np.intp) - 1
        passed = released[:, 1] > PASS
        fits_in, fits_out = ((words == tops[k]).all(axis=1) | ~passed for tops in (tops_in, tops_out))
        score = np.clip(level[k] + slope[k] * released[:, 1], -SURE, SURE)
        return np.select([fits_in & fits_out, fits_in, fits_out], [score, SURE, -SURE], 0.0)

    def success(
        self, counts: ArrayLike, counts_in: Array, counts_out: Array, view: str, threshold: float | Array
    ) -> Array:
        """P(score >= threshold) for given counts, in closed form under the declared noise.

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
        values, which = distinct_rows(check_counts(counts, self.largest + 1))
        level, slope, tops_in, tops_out = self._ratio(counts_in, counts_out)
        gained = np.append(counts_in > counts_out, False)  # column -1: no word
        black = one_of("view", view, ("white", "black")) == "black"
        rates = np.empty((len(values), len(thresholds)))
        for index, row in enumerate(values):
            gaps = self.gaps(row[None, :])[0]
            centre, chosen = self._centre(gaps), np.exp(self._log_choice(gaps))
            passes = ndtr((centre - PASS) / (2 * self.sigma))
            tops = _tops(row, self.largest)
            if black:
                hit = chosen @ (passes * gained[tops].any(axis=1))
                rates[index] = np.where(thresholds <= 0, 1.0, np.where(thresholds <= 1, hit, 0.0))
                continue
            fits_in, fits_out = ((tops == other).all(axis=1) for other in (tops_in, tops_out))
            edge = np.full(len(gaps), PASS)
            failed = self._between(centre, level, slope, thresholds, -np.inf, edge)
            linear = self._between(centre, level, slope, thresholds, edge, np.inf)
            sure = np.where(fits_in, passes, 0.0)
            neither = passes * (thresholds[:, None] <= 0)
            after = np.where(fits_in & fits_out, linear, np.where(fits_in | fits_out, sure, neither))
            within = np.where(thresholds > SURE, 0.0, (failed + after) @ chosen)
            rates[index] = np.where(thresholds <= -SURE, 1.0, within)
        return rates[which]

    def _centre(self, gaps: Array) -> Array:
        return np.maximum(PASS, gaps) - self.margin

    def _log_choice(self, gaps: Array) -> Array:
        return np.asarray(log_softmax(self.choice_epsilon / 2 * gaps))

    def _ratio(
        self, counts_in: Array, counts_out: Array
    ) -> tuple[Array, Array, NDArray[np.intp], NDArray[np.intp]]:
        """Log-likelihood ratio of (k, z) as level[k] + slope[k] z, and the words that either input would release."""
        gaps_in, gaps_out = self.gaps([counts_in, counts_out])
        m_in, m_out = self._centre(gaps_in), self._centre(gaps_out)
        variance = (2 * self.sigma) ** 2
        level = self._log_choice(gaps_in) - self._log_choice(gaps_out) + (m_out**2 - m_in**2) / (2 * variance)
        tops_in, tops_out = (_tops(np.asarray(side), self.largest) for side in (counts_in, counts_out))
        return level, (m_in - m_out) / variance, tops_in, tops_out

    def _between(
        self,
        centre: Array,
        level: Array,
        slope: Array,
        thresholds: Array,
        low: float | Array,
        high: float | Array,
    ) -> Array:
        """P(low < z <= high and level + slope z >= threshold) for each threshold and k, shape (t, largest)."""
        safe = np.where(slope == 0, 1.0, slope)
        cut = (thresholds[:, None] - level) / safe
        always = (slope == 0) & (level >= thresholds[:, None])
        from_, to = np.where(slope > 0, cut, low), np.where(slope < 0, cut, high)
        from_, to = np.maximum(from_, low), np.minimum(to, high)
        inside = ndtr((to - centre) / (2 * self.sigma)) - ndtr((from_ - centre) / (2 * self.sigma))
        return np.where((slope != 0) | always, np.maximum(inside, 0.0), 0.0)


def check_counts(counts: ArrayLike, minimum: int) -> Array:
    """Return counts as whole numbers of at least 0, shape (n, V), V >= minimum; ValueError for anything else."""
    array = np.atleast_2d(finite("counts", counts))
    if array.ndim != 2 or array.shape[1] < minimum:
        raise ValueError(f"counts must have shape (n, V) with V >= {minimum} words, got {array.shape}")
    wrong = (array < 0) | (array != np.floor(array))
    if wrong.any():
        raise ValueError(f"counts must be whole numbers of at least 0, got {array[wrong].flat[0]:g}")
    return array


def distinct_rows(rows: Array) -> tuple[Array, NDArray[np.intp]]:
    """The distinct rows and, for each row, which one it is."""
    if (rows == rows[:1]).all():  # the usual case, and sorting is slow
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    values, which = np.unique(rows, axis=0, return_inverse=True)
    return values, which


def _tops(counts: Array, largest: int) -> NDArray[np.intp]:
    """The k most voted words for k = 1 to largest, a row each: in rising order, filled up with -1."""
    order = np.argsort(-counts, kind="stable")
    tops = np.full((largest, largest), -1)
    for k in range(1, largest + 1):
        tops[k - 1, :k] = np.sort(order[:k])
    return tops
