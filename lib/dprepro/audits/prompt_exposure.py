"""What perturbed film snippets expose: success of attacks, mechanism by mechanism.

On one footing as `prompt_study.utility`: pieces of words, one tokenizer, stop words and punctuation kept. Each
function is that of a saved result; attacks are in `prompt_attacks`, exact losses in `prompt_pairs`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.prompt_attacks import bayes_success, nearest_success, neighbour_reach
from dprepro.audits.prompt_kept import guess_labels, skeleton
from dprepro.audits.prompt_snippets import context_model, pieces_mechanism, snippets, split_key
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import OUTSIDE, FloatArray, IntArray, Vocabulary
from dprepro.text.corpora import corpus

KEEP = "both"


class _Part:
    """Some words of a vocabulary and their distances to all words, which is what `neighbour_reach` asks of one."""

    def __init__(self, vocabulary: Vocabulary, words: IntArray) -> None:
        self.vocabulary, self.words = vocabulary, words

    def __len__(self) -> int:
        return len(self.words)

    def distances(self, rows: IntArray) -> FloatArray:
        return self.vocabulary.distances(self.words[rows])


def nearest(
    key: str, rng: np.random.Generator, *, sentences: int, ks: Sequence[int], parts: int
) -> dict[str, Any]:
    """Return one item: exact success of the nearest-neighbour attack on a mechanism, through some of the outputs.

    A success is a sum over outputs, so those of the parts add up (`prompt_report.nearest_by_mechanism`); what is dear
    is to find which words are near to an output.

    Parameters
    ----------
    key : str
        "Cape, 1 6, 0": one of `prompt_snippets.MECHANISMS`, nominal epsilons, which part of the outputs.
    rng : Generator
        Not used.
    sentences : int
        The sensitive tokens of the first so many test snippets are attacked.
    ks : sequence of int
    parts : int
        The vocabulary is cut into so many.

    Returns
    -------
    dict
        sensitive, kept: number of tokens of each snippet; "<epsilon>, <K>": expected number of sensitive tokens of
        each that are found through an output in this part. A token outside the vocabulary counts with the first.
    """
    name, epsilons, number = key.split(", ")
    mechanism, model = pieces_mechanism(name), context_model()
    vocabulary = mechanism.vocabulary
    cuts = [vocabulary.cut(text, KEEP) for text in snippets("test", sentences).texts]
    rows = np.concatenate([cut.rows[cut.sensitive] for cut in cuts])
    counts = [len(cut.sensitive) for cut in cuts]
    where = np.repeat(np.arange(len(cuts)), counts)
    contexts = None
    if name == "Cape":
        contexts = model.logits(cuts, where, np.concatenate([cut.sensitive for cut in cuts]))
    outputs = np.array_split(np.arange(len(vocabulary)), parts)[int(number)]
    reach = np.full((len(vocabulary), len(ks)), -1, np.float32)  # nothing is near to any other output
    reach[outputs] = neighbour_reach(cast(Vocabulary, _Part(vocabulary, outputs)), ks)
    found: dict[str, Any] = {"sensitive": counts, "kept": [int(cut.kept.sum()) for cut in cuts]}
    for epsilon in epsilons.split():
        success = nearest_success(mechanism, rows, float(epsilon), reach, contexts)
        if outputs[0] > 0:
            success[rows == OUTSIDE] = 0
        for k, column in zip(ks, success.T, strict=True):
            found[f"{epsilon}, {k}"] = np.bincount(where, weights=column, minlength=len(cuts))
    return found


def token_prior(size: int) -> tuple[IntArray, Array]:
    """Return the sensitive pieces most frequent in the train snippets, and their shares, shape (size,) each."""
    vocabulary = context_model().vocabulary
    cuts = (vocabulary.cut(text, KEEP) for text in snippets("train").texts)
    counts = Counter(int(row) for cut in cuts for row in cut.rows[cut.sensitive] if row >= 0)
    common = sorted(counts, key=lambda row: (-counts[row], row))[:size]
    shares = np.array([counts[row] for row in common], float)
    return np.array(common), shares / shares.sum()


def bayes(
    key: str, rng: np.random.Generator, *, prior_size: int, places: int, sentences: int
) -> dict[str, Any]:
    """Return one item: exact success of the Bayes attacker on one sensitive token.

    Parameters
    ----------
    key : str
        "Cape, 14": a mechanism and its nominal epsilon.
    rng : Generator
        Draws the places.
    prior_size : int
        The token is one of so many, with the shares that they have in the train snippets.
    places : int
        For Cape: so many places among the sensitive ones of the test snippets, whose context the attacker knows.
    sentences : int
        Of the first so many test snippets.

    Returns
    -------
    dict
        success: at each place, or once for a mechanism without context; chance: of a guess without the output.
    """
    name, epsilon = split_key(key)
    mechanism, model = pieces_mechanism(name), context_model()
    rows, prior = token_prior(prior_size)
    contexts: Sequence[NDArray | None] = [None]
    if name == "Cape":
        cuts = [mechanism.vocabulary.cut(text, KEEP) for text in snippets("test", sentences).texts]
        pairs = np.array([(i, place) for i, cut in enumerate(cuts) for place in cut.sensitive])
        drawn = pairs[rng.choice(len(pairs), places, replace=False)]
        contexts = list(model.logits(cuts, drawn[:, 0], drawn[:, 1]))
    success = [bayes_success(mechanism, rows, prior, float(epsilon), context) for context in contexts]
    return {"success": success, "chance": float(prior.max())}


def kept_words(key: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return one item: how well a label is guessed from kept tokens alone, or from the whole text.

    Parameters
    ----------
    key : str
        "sentiment, both": "sentiment" of film snippets, or "domain": film review, editorial or product review; then
        what is seen, a keep-list or "text".
    rng : Generator
        Not used.

    Returns
    -------
    dict
        texts, chance; "<what is seen>": number of right guesses on test texts, by a classifier of train texts.
    """
    label, what = split_key(key)
    shown, labels = {}, {}
    for side in ("train", "test"):
        if label == "sentiment":
            texts, labels[side] = snippets(side)
        else:
            domains = [
                corpus(name).split(side).without_copies().texts
                for name in ("movies", "editorials", "products")
            ]
            texts = [text for domain in domains for text in domain]
            labels[side] = list(np.repeat(range(3), list(map(len, domains))))
        shown[side] = texts
        if what != "text":
            shown[side] = [skeleton(context_model().vocabulary, text, what) for text in texts]
    guesses = guess_labels(shown["train"], labels["train"], shown["test"], labels["test"])
    return {"texts": len(guesses.right), "chance": guesses.chance, what: int(guesses.right.sum())}
