"""How much of a film snippet, and of its use, is left after a mechanism: the functions of two saved results.

`similarity` gives the rows of Cape's table 1 (arXiv 2505.05922) that belong to the baselines: Rouge-L of a perturbed
sentence against its original, whole words as tokens as in the baselines' papers. `utility` puts all mechanisms on one
footing (`prompt_snippets`) and adds the accuracy of a sentiment classifier and the mask attack.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dprepro.audits.prompt_attacks import mask_inference
from dprepro.audits.prompt_snippets import (
    context_model,
    pieces_mechanism,
    snippets,
    split_key,
    words_mechanism,
)
from dprepro.text.classifiers import tfidf_classifier
from dprepro.text.rouge import rouge_l


def similarity(
    key: str, rng: np.random.Generator, *, sentences: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """Return one item: Rouge-L of each snippet for a baseline and a keep-list, over whole words.

    Parameters
    ----------
    key : str
        "SANTEXT, none": a baseline and one of the keep-lists none, punctuation, stop words, both.
    rng : Generator
    sentences : int
        The first so many test snippets.
    epsilons : sequence of float

    Returns
    -------
    dict
        sensitive, kept, outside: numbers of tokens; for each epsilon "<epsilon>, words" and "<epsilon>, whitespace":
        Rouge-L F1 in [0, 1] of each snippet by those tokens, and "<epsilon>, unchanged": how many sensitive tokens
        came out as they were.
    """
    name, keep = split_key(key)
    mechanism = words_mechanism(name, keep)
    found: dict[str, Any] = {}
    for epsilon in epsilons:
        perturbed = mechanism.perturb(snippets("test", sentences).texts, epsilon, rng)
        pairs = list(zip(perturbed.originals, perturbed.texts, strict=True))
        for tokens in ("words", "whitespace"):
            found[f"{epsilon:g}, {tokens}"] = [round(rouge_l(*pair, tokens), 4) for pair in pairs]
        found[f"{epsilon:g}, unchanged"] = perturbed.unchanged
        found |= {
            "sensitive": perturbed.unchanged + perturbed.replaced,
            "kept": perturbed.kept,
            "outside": perturbed.outside,
        }
    return found


def utility(key: str, rng: np.random.Generator, *, sentences: int, masked: int) -> dict[str, Any]:
    """Return one item: what is left of the test snippets under a mechanism over pieces, with both keep-lists.

    Parameters
    ----------
    key : str
        "Cape, 14": one of `MECHANISMS` and its nominal epsilon; "none, 0" leaves the snippets as they are.
    rng : Generator
    sentences : int
        The first so many test snippets.
    masked : int
        The mask attack is tried on the first so many of these.

    Returns
    -------
    dict
        rouge: Rouge-L F1 (words) of each snippet; right: for each, 1 if a classifier trained on the unperturbed train
        snippets tells its sentiment; sensitive, kept, unchanged: numbers of tokens; guessed, asked and guessed kept,
        asked kept: of the mask attack, over sensitive tokens and over kept ones.
    """
    name, epsilon = split_key(key)
    texts, favourable = snippets("test", sentences)
    learnt = snippets("train")
    classifier = tfidf_classifier().fit(learnt.texts, learnt.favourable)
    if name == "none":
        return {"right": (classifier.predict(texts) == np.array(favourable)).astype(int)}
    mechanism = pieces_mechanism(name)
    perturbed = mechanism.perturb(texts, float(epsilon), rng)
    pairs = zip(perturbed.originals, perturbed.texts, strict=True)
    few = slice(masked)
    first = replace(
        perturbed,
        texts=perturbed.texts[few],
        originals=perturbed.originals[few],
        cuts=perturbed.cuts[few],
        tokens=perturbed.tokens[few],
    )
    hits = mask_inference(first, context_model())
    return {
        "rouge": [round(rouge_l(*pair, "words"), 4) for pair in pairs],
        "right": (classifier.predict(list(perturbed.texts)) == np.array(favourable)).astype(int),
        "sensitive": perturbed.unchanged + perturbed.replaced,
        "kept": perturbed.kept,
        "unchanged": perturbed.unchanged,
        "guessed": int(hits.sensitive.sum()),
        "asked": len(hits.sensitive),
        "guessed kept": int(hits.kept.sum()),
        "asked kept": len(hits.kept),
    }
