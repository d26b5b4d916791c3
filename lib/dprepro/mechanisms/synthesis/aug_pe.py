"""Synthetic text by private evolution: private texts vote for the synthetic ones nearest to them (AUG-PE).

Xie et al., "Differentially Private Synthetic Data via Foundation Model APIs 2: Text" (arXiv 2403.01749), algorithm 1,
as its public code has it (AI-secure/aug-pe). A model that never sees a private text writes candidates of each class.
In each round every private text votes for the candidate of its class that is nearest to it, by Euclidean distance of
embeddings; each count gets Gaussian noise; the candidates with most votes above a threshold stay, and the model
varies them. What the model is asked holds candidates, and neither private texts nor counts.

Privacy: only the noisy counts come from private texts (``private_votes`` has their account). Delta is 1/(N ln N) by
default. Not covered, taken as public: the set of labels, how many texts of each are asked for, and N. A vote must
hang on its own text alone. Embeddings of a batch differ in their seventh digit with the texts beside them; distances
count to six, which leaves ties at an edge of rounding, so a proof to the letter needs an embedder that takes each
text by itself.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dprepro.base.check import in_interval, one_of, positive_count
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts, classes
from dprepro.mechanisms.synthesis.private_votes import (
    SENSITIVITIES,
    epsilon_of,
    noise_for,
    select,
    vote_counts,
)
from dprepro.mechanisms.synthesis.variations import Writer
from dprepro.text.embedders import TextEmbedder
from dprepro.text.embedding_cache import EmbeddingCache


@dataclass(frozen=True)
class AugPE:
    """Evolution of synthetic texts by private votes at a given epsilon.

    Parameters
    ----------
    epsilon : float
        Budget in nats for all rounds, positive; infinity means votes without noise.
    rounds : int
    kept : int
        Candidates of a class that stay after each round: the texts of a class, in the end.
    variations : int
        New candidates made of each that stays; so (1 + variations) kept of a class stand for election.
    delta : float, optional
        In (0, 1); by default 1/(N ln N).
    threshold : float
        Noisy counts up to it are no votes, in [0, inf). Where a round leaves fewer candidates than `kept`, the rest
        is chosen at random among the others, and where it leaves none at all, a warning says so.
    adjacency : {"add or remove", "replace"}
        What one text does between neighbours. "replace" needs sqrt(2) times the noise.
    """

    epsilon: float
    rounds: int = 5
    kept: int = 50
    variations: int = 3
    delta: float | None = None
    threshold: float = 0.0
    adjacency: str = "add or remove"

    def __post_init__(self) -> None:
        in_interval("epsilon", self.epsilon, 0, np.inf, closed="right")
        for name in ("rounds", "kept", "variations"):
            positive_count(name, getattr(self, name))
        if self.delta is not None:
            in_interval("delta", self.delta, 0, 1, closed="neither")
        in_interval("threshold", self.threshold, 0, np.inf, closed="left")
        one_of("adjacency", self.adjacency, tuple(SENSITIVITIES))

    def fit(
        self,
        writer: Writer,
        embedder: TextEmbedder,
        texts: Sequence[str],
        labels: Sequence[str],
        rng: np.random.Generator,
        *,
        records: int | None = None,
    ) -> "EvolvedTexts":
        """Let private texts vote.

        Parameters
        ----------
        writer : Writer
            Writes and varies texts; must know nothing of the private ones.
        embedder : TextEmbedder
            Public as well. An `EmbeddingCache` saves embedding the same private texts at every budget.
        texts, labels : sequences of str, length n
            The private texts, and the class of each.
        rng : Generator
            Draws noise, ties and what the writer draws.
        records : int, optional
            N, taken as public, for the default delta; n unless given.

        Raises
        ------
        ValueError
            No texts, a blank one; labels of another length, a single class, or a class with one text; a writer that
            returns another number of texts than it was asked for.
        """
        kinds = classes(texts, labels)
        number = max(len(texts) if records is None else int(positive_count("records", records)), 2)
        delta = self.delta or float(1 / (number * np.log(number)))
        noise = float(noise_for(self.epsilon, delta, self.rounds, SENSITIVITIES[self.adjacency]))
        vectors = EmbeddingCache(embedder)
        kept: dict[str, tuple[str, ...]] = {}
        passed: dict[str, tuple[int, ...]] = {}
        unchanged = 0
        for kind in kinds:
            private = vectors.encode(
                [text for text, label in zip(texts, labels, strict=True) if label == kind]
            )
            wanted = self.kept * (1 + self.variations)
            found = _counted(writer.random_texts(wanted, kind, rng), wanted)
            above = []
            for number_of_round in range(self.rounds):
                if number_of_round:
                    sources = found * self.variations
                    fresh = _counted(writer.variations(sources, kind, rng), len(sources))
                    unchanged += sum(a == b for a, b in zip(sources, fresh, strict=True))
                    found = found + fresh
                counts = vote_counts(private, vectors.encode(found))
                chosen, count = select(counts, self.kept, noise, self.threshold, rng)
                found = [found[place] for place in chosen]
                above.append(count)
            kept[kind], passed[kind] = tuple(found), tuple(above)
            if 0 in above:
                warnings.warn(
                    f"no noisy count of {kind!r} is above {self.threshold:g} in {above.count(0)} of {self.rounds} "
                    "rounds: there candidates were kept at random",
                    UserWarning,
                    stacklevel=2,
                )
        spent = float(epsilon_of(noise, delta, self.rounds, SENSITIVITIES[self.adjacency]))
        return EvolvedTexts(writer, kept, passed, unchanged, kinds, spent, delta, noise)


@dataclass(frozen=True)
class EvolvedTexts:
    """The texts that private votes have chosen, and the writer that makes more of them.

    Attributes
    ----------
    writer : Writer
    kept : mapping of str to tuple of str
        Of each class, those with most votes in the last round first.
    passed : mapping of str to tuple of int
        Candidates above the threshold in each round; 0: that round chose at random.
    unchanged : int
        Variations, over all rounds, that were their source again.
    labels : tuple of str
        The classes, sorted.
    epsilon, delta : float
        Spent by all rounds together.
    noise_multiplier : float
        Standard deviation of the noise on a count.
    """

    writer: Writer
    kept: Mapping[str, tuple[str, ...]]
    passed: Mapping[str, tuple[int, ...]]
    unchanged: int
    labels: tuple[str, ...]
    epsilon: float
    delta: float
    noise_multiplier: float

    def sample(self, counts: Mapping[str, int], rng: np.random.Generator) -> SyntheticTexts:
        """Return kept texts in random order; where more are asked for, variations of them, each in turn.

        Parameters
        ----------
        counts : mapping of str to int
            How many texts of each class: public numbers, see above.
        rng : Generator

        Raises
        ------
        ValueError
            No class or an unknown one, or a count that is no positive whole number.
        """
        if not counts:
            raise ValueError(f"counts must name a class among {', '.join(self.labels)}, got none")
        texts: list[str] = []
        labels: list[str] = []
        for label, count in counts.items():
            one_of("label", label, self.labels)
            wanted = int(positive_count("count", count))
            order = rng.permutation(len(self.kept[label]))
            sources = [self.kept[label][place] for place in np.resize(order, wanted)]
            own = len(order)
            texts += sources[:own]
            if wanted > own:
                texts += _counted(self.writer.variations(sources[own:], label, rng), wanted - own)
            labels += [label] * wanted
        return SyntheticTexts(texts, labels, sum(not text.strip() for text in texts))


def _counted(texts: list[str], wanted: int) -> list[str]:
    if len(texts) != wanted:
        raise ValueError(
            f"writer must return one text for each it is asked for, got {len(texts)} of {wanted}"
        )
    return texts
