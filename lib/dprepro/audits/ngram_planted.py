"""Generators whose leak is known, to see whether the membership attack finds what is there and nothing else.

Each writes real texts. One that writes a share f of its private texts, drawn without replacement, shows a target
that is in with probability f and none that is out: an attack that recognises every text has an AUC of f + (1 - f)/2.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.ngram_design import MembershipDesign
from dprepro.audits.ngram_scores import target_logprobs
from dprepro.base.check import one_of, positive_count

FloatArray = NDArray[np.float64]

SHARES = {
    "copies its texts": 1.0,
    "half of its texts": 0.5,
    "a tenth of its texts": 0.1,
    "independent": 0.0,
}


def expected_auc(generator: str) -> float:
    """AUC of an attack that recognises every text it knows, for one of the generators of `SHARES`.

    Raises
    ------
    ValueError
        Another generator.
    """
    return 0.5 + SHARES[one_of("generator", generator, tuple(SHARES))] / 2


def planted_texts(
    generator: str, private: Sequence[str], public: Sequence[str], number: int, rng: np.random.Generator
) -> list[str]:
    """Write a corpus.

    Parameters
    ----------
    generator : str
        One of `SHARES`: the share of the private texts that are written, or "independent".
    private, public : sequence of str
    number : int
        Of the public texts that "independent" writes. It must not depend on the private texts: a corpus as large as
        they are tells how many targets are among them (pooled AUC .491, standard error .001, over 60 designs of 40
        subsets: below 1/2, since words not seen are less likely after a larger corpus).
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        An unknown generator, no private text, or fewer public texts than `number` for "independent".
    """
    share = SHARES[one_of("generator", generator, tuple(SHARES))]
    if len(private) == 0:
        raise ValueError("private must hold a text, got none")
    if share:
        source, drawn = private, max(1, round(share * len(private)))
    else:
        source, drawn = public, int(positive_count("number", number))
        if drawn > len(public):
            raise ValueError(f"public must hold number={drawn} texts, got {len(public)}")
    return [source[place] for place in rng.choice(len(source), drawn, replace=False).tolist()]


def planted_logprobs(
    generator: str,
    design: MembershipDesign,
    texts: Sequence[str],
    targets: Sequence[str],
    public: Sequence[str],
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Run a generator on every subset, and find how likely the targets are after each corpus and each reference.

    Parameters
    ----------
    generator : str
    design : MembershipDesign
        Over the numbers of `texts`, for `targets`.
    texts, targets, public : sequence of str
        The corpus, the targets, and texts that are in no subset and no reference.
    rng : numpy.random.Generator

    Returns
    -------
    synthetic, references : ndarray, shapes (subsets, targets) and (M, targets)
        For `ngram_scores.attack_scores`, by models of bigrams. "independent" writes as many texts as a subset has
        on average.
    """
    average = design.private.shape[1] + len(targets) // 2
    corpora = (
        planted_texts(generator, design.subset(number, texts, targets), public, average, rng)
        for number in range(len(design.included))
    )
    references = (design.reference(number, texts, targets) for number in range(len(design.references)))
    synthetic, known = (
        np.array([target_logprobs(corpus, targets) for corpus in part]) for part in (corpora, references)
    )
    return synthetic, known
