"""The film reviews of the membership attack on synthetic text, as a saved result has them (``synbench_targets``).

Targets come kind by kind: outliers, random members, inserted canaries. Each subset is 200 private snippets and the
targets that it includes; its control is the same without any target.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.ngram_design import MembershipDesign
from dprepro.audits.ngram_scores import target_logprobs
from dprepro.base import results
from dprepro.text.corpora import corpus

FloatArray = NDArray[np.float64]

KINDS = ("outlier", "member", "canary")
LABELS = ("bad", "good")


@dataclass(frozen=True)
class Films:
    """Texts, labels and design of the attack.

    Attributes
    ----------
    texts, text_labels : list of str
        All snippets; labels are "good" and "bad", the sign of the sentiment.
    targets, labels : list of str, length T
        A canary has the label of the snippet that it begins like.
    kinds : ndarray of str, shape (T,)
    design : MembershipDesign
        Over the numbers of `texts`.
    pool : ndarray of int
        The private pool, from which subsets are drawn.
    public : ndarray of int
        Auxiliary snippets that are in no reference.
    """

    texts: list[str]
    text_labels: list[str]
    targets: list[str]
    labels: list[str]
    kinds: NDArray[Any]
    design: MembershipDesign
    pool: NDArray[np.int64]
    public: NDArray[np.int64]

    def subset(self, number: int) -> tuple[list[str], list[str]]:
        """Return texts and labels of a subset: the private snippets, then the targets in it."""
        design = self.design
        return (
            design.subset(number, self.texts, self.targets),
            design.subset(number, self.text_labels, self.labels),
        )

    def control(self, number: int) -> tuple[list[str], list[str]]:
        """Return texts and labels of a subset without any target."""
        places = self.design.private[number].tolist()
        return [self.texts[place] for place in places], [self.text_labels[place] for place in places]

    def references(self, order: int) -> FloatArray:
        """Log-probabilities of the targets after each reference set, shape (M, T)."""
        return np.array(
            [
                target_logprobs(self.design.reference(number, self.texts, self.targets), self.targets, order)
                for number in range(len(self.design.references))
            ]
        )


def films(saved: str = "synbench_targets") -> Films:
    """Return the saved targets and design with their texts.

    Parameters
    ----------
    saved : str
        Name of a saved result of `synbench_targets.choose`.

    Raises
    ------
    FileNotFoundError, ValueError
        As `results.load`.
    """
    (found,) = results.load(saved).values()
    table = corpus("movies").without_copies().table
    texts = list(table["text"])
    text_labels = [LABELS[int(value > 0)] for value in table["sentiment"]]
    real = [*found["outliers"], *found["members"]]
    each = len(found["canaries"])
    targets = [*(texts[place] for place in real), *found["canaries"]]
    labels = [text_labels[place] for place in [*real, *found["canary_sources"]]]

    def rows(name: str, width: int, kind: type) -> NDArray[Any]:
        return np.array(found[name], dtype=kind).reshape(-1, width)

    included = rows("included", len(targets), bool)
    again = rows("references_included", len(targets), bool)
    design = MembershipDesign(
        included,
        np.array(found["subsets"], dtype=np.int64).reshape(len(included), -1),
        again,
        np.array(found["references"], dtype=np.int64).reshape(len(again), -1),
    )
    return Films(
        texts,
        text_labels,
        targets,
        labels,
        np.repeat(KINDS, each),
        design,
        np.array(found["private"], dtype=np.int64),
        np.array(found["public"], dtype=np.int64),
    )
