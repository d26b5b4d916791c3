"""PMixED: private prediction of the next token by a mixture of experts drawn towards a public model.

Flemings, Razaviyayn and Annavaram (arXiv 2403.15638): no noise is added and no training is private. Private text
is cut into disjoint shards, one expert each. For a query each expert is drawn with probability `sample_rate`,
projected onto a ball around the public distribution (`pmixed_ball`), and one token is sampled from the mean; from the
public distribution where none was drawn. The guarantee is for that token: the mixture itself must never leave.

Neighbours differ by one expert, present or absent, as in the public code. A record that comes or goes leaves its
expert in place, as another one: that is no such step, it is one expert away and another added, and costs more.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.pmixed_account import (
    epsilon_to_rdp,
    published_beta,
    rdp_to_epsilon,
)
from dprepro.mechanisms.pmixed_ball import distributions, project
from dprepro.mechanisms.pmixed_bound import UNITS, sound_radius

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ACCOUNTS = ("sound", "published")

_sound_radius, _published_beta = cache(sound_radius), cache(published_beta)  # asked anew for each query


class Prediction(NamedTuple):
    """One query: the token that may be published, and for audits only the mixture and the experts drawn."""

    token: int
    mixture: FloatArray
    drawn: IntArray


@dataclass(frozen=True)
class PMixED:
    """The mechanism for a target epsilon over a number of queries.

    Parameters
    ----------
    epsilon : float
        For all queries together; never exceeded by the account.
    delta : float
    order : int
        Renyi order of the account and of the ball, at least 2. Small epsilons need larger orders.
    sample_rate : float
        In [0, 1]. It buys computing, not privacy: with one radius the law of the token depends on it through
        the chance of an empty draw alone.
    n_experts : int
    n_queries : int
    account : {"sound", "published"}
        "sound": `pmixed_bound`, one radius for all draws, each word kept above exp(-radius) of its public
        probability. "published": the public code's, a radius for each drawn size; what it states may be exceeded.
    unit : {"expert", "record"}
        What neighbours differ by; the published account knows experts only.

    Raises
    ------
    ValueError
        An argument outside its domain, or an epsilon below what the order alone costs.
    """

    epsilon: float
    delta: float = 1e-5
    order: int = 3
    sample_rate: float = 0.03
    n_experts: int = 80
    n_queries: int = 1024
    account: str = "sound"
    unit: str = "expert"

    def __post_init__(self) -> None:
        in_interval("sample_rate", self.sample_rate, 0, 1)
        positive_count("n_experts", self.n_experts)
        positive_count("n_queries", self.n_queries)
        one_of("account", self.account, ACCOUNTS)
        one_of("unit", self.unit, UNITS if self.account == "sound" else ("expert",))
        epsilon_to_rdp(self.epsilon, self.order, self.delta)  # checks the three

    @property
    def rdp_per_query(self) -> float:
        """Renyi loss that each query may spend."""
        return epsilon_to_rdp(self.epsilon, self.order, self.delta) / self.n_queries

    @property
    def reverse_order(self) -> float:
        """Order of the divergence of the public model from the mixture: infinity, or `order` as published."""
        return np.inf if self.account == "sound" else self.order

    def radius(self, size: int) -> float:
        """Radius of the ball where `size` experts were drawn, in nats: the largest that this account grants.

        Infinity where nothing is ever drawn (sample_rate 0).

        Raises
        ------
        ValueError
            No whole number of at least 1.
        """
        s = int(positive_count("size", size))
        if self.account == "sound":
            return _sound_radius(self.rdp_per_query, self.order, self.sample_rate, self.n_experts, self.unit)
        return self.order * _published_beta(self.rdp_per_query, s, self.order, self.sample_rate)

    def spent(self, queries: int) -> float:
        """Epsilon that the account grants this many queries, at most n_queries of them; 0 for none.

        Raises
        ------
        ValueError
            A number of queries outside 0, ..., n_queries.
        """
        n = int(positive_count("queries", queries, 0))
        if n > self.n_queries:
            raise ValueError(f"queries must be at most n_queries, got {n} of {self.n_queries}")
        return min(float(self.epsilon), rdp_to_epsilon(n * self.rdp_per_query, self.order, self.delta))

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Draw the experts of one query, each on its own (Poisson sampling): their numbers."""
        return np.flatnonzero(rng.random(self.n_experts) < self.sample_rate)

    def mix(self, drawn: ArrayLike, public: ArrayLike) -> FloatArray:
        """Project the distributions of the drawn experts and average them.

        Parameters
        ----------
        drawn : array_like, shape (size, V)
            Size 0 gives `public`.
        public : array_like, shape (V,)

        Returns
        -------
        array, shape (V,)
            Not private: for audits, and to sample from.

        Raises
        ------
        ValueError
            More than n_experts, no distributions, or two vocabularies.
        """
        p0, rows = distributions("public", public), np.asarray(drawn, dtype=np.float64)
        if p0.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(p0) or len(rows) > self.n_experts:
            raise ValueError(
                f"drawn must have at most {self.n_experts} rows over public's vocabulary, "
                f"got shape {rows.shape} and public of shape {p0.shape}"
            )
        if len(rows) == 0:
            return p0
        radius = self.radius(len(rows))
        return project(rows, p0, radius, self.order, self.reverse_order).mixture.mean(axis=0)

    def predict(
        self, expert_distributions: ArrayLike, public: ArrayLike, rng: np.random.Generator
    ) -> Prediction:
        """Answer one query with one token.

        Parameters
        ----------
        expert_distributions : array_like, shape (n_experts, V)
        public : array_like, shape (V,)
        rng : numpy.random.Generator

        Raises
        ------
        ValueError
            As `mix`, and for another number of experts.
        """
        rows = distributions("expert_distributions", expert_distributions)  # all of them, drawn or not
        if rows.ndim != 2 or len(rows) != self.n_experts:
            raise ValueError(
                f"expert_distributions must have {self.n_experts} rows, one an expert, got shape {rows.shape}"
            )
        chosen = self.draw(rng)
        mixture = self.mix(rows[chosen], public)
        return Prediction(int(rng.choice(len(mixture), p=mixture / mixture.sum())), mixture, chosen)


class Predictor:
    """PMixED behind a counter: answers n_queries queries with a token each, and then none.

    Parameters
    ----------
    mechanism : PMixED
    rng : numpy.random.Generator

    Attributes
    ----------
    answered : int
    """

    def __init__(self, mechanism: PMixED, rng: np.random.Generator) -> None:
        self.mechanism, self._rng, self.answered = mechanism, rng, 0

    @property
    def epsilon(self) -> float:
        """What has been spent."""
        return self.mechanism.spent(self.answered)

    def answer(self, expert_distributions: ArrayLike, public: ArrayLike) -> int:
        """Return one token; the mixture stays inside.

        Raises
        ------
        RuntimeError
            All queries are answered; says what was spent.
        ValueError
            As `PMixED.predict`; such a query is not counted.
        """
        most = self.mechanism.n_queries
        if self.answered >= most:
            raise RuntimeError(
                f"all {most} queries are answered: epsilon {self.epsilon:.4g} of {self.mechanism.epsilon:g} "
                f"at delta {self.mechanism.delta:g} is spent"
            )
        token = self.mechanism.predict(expert_distributions, public, self._rng).token
        self.answered += 1
        return token
