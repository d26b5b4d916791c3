"""What perturbed film snippets expose: exact losses and success of attacks, mechanism by mechanism.

On one footing as `prompt_study.utility`: pieces of words, one tokenizer, stop words and punctuation kept. Each
function is that of a saved result; attacks are in `prompt_attacks`, losses in `exact_loss`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.prompt_attacks import bayes_success, nearest_success, neighbour_reach
from dprepro.audits.prompt_kept import guess_labels, skeleton
from dprepro.audits.prompt_snippets import context_model, pieces_mechanism, snippets, split_key
from dprepro.mechanisms.prompt.exact_loss import worst_case_loss
from dprepro.mechanisms.prompt.perturbation import Array
from dprepro.mechanisms.prompt.vocabulary import IntArray
from dprepro.text.corpora import corpus

KEEP = "both"


def nearest(
    key: str,
    rng: np.random.Generator,
    *,
    sentences: int,
    ks: Sequence[int],
    epsilons: Sequence[float],
) -> dict[str, Any]:
    """Return one item: exact success of the nearest-neighbour attack on a mechanism.

    Parameters
    ----------
    key : str
        One of `prompt_snippets.MECHANISMS`.
    rng : Generator
        Not used.
    sentences : int
        The sensitive tokens of the first so many test snippets are attacked.
    ks : sequence of int
    epsilons : sequence of float

    Returns
    -------
    dict
        sensitive, kept: number of tokens of each snippet; "<epsilon>, <K>": expected number of sensitive tokens
        found in each.
    """
    mechanism, model = pieces_mechanism(key), context_model()
    cuts = [mechanism.vocabulary.cut(text, KEEP) for text in snippets("test", sentences).texts]
    rows = np.concatenate([cut.rows[cut.sensitive] for cut in cuts])
    counts = [len(cut.sensitive) for cut in cuts]
    where = np.repeat(np.arange(len(cuts)), counts)
    contexts = None
    if key == "Cape":
        contexts = model.logits(cuts, where, np.concatenate([cut.sensitive for cut in cuts]))
    reach = neighbour_reach(mechanism.vocabulary, ks)
    found: dict[str, Any] = {"sensitive": counts, "kept": [int(cut.kept.sum()) for cut in cuts]}
    for epsilon in epsilons:
        success = nearest_success(mechanism, rows, float(epsilon), reach, contexts)
        for k, column in zip(ks, success.T, strict=True):
            expected = np.bincount(where, weights=column, minlength=len(cuts))
            found[f"{epsilon:g}, {k}"] = expected.round(6)
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


def loss(key: str, rng: np.random.Generator, *, inputs: int) -> dict[str, Any]:
    """Return one item: the exact worst-case loss of SANTEXT or InferDPT for one token.

    Parameters
    ----------
    key : str
        "SANTEXT, 6".
    rng : Generator
        Not used.
    inputs : int
        For InferDPT, whose distribution is a sum over radii, pairs of the first so many pieces only, so that its loss
        is a lower bound; SANTEXT: all pairs.

    Returns
    -------
    dict
        loss: in nats (null where it is infinite); output, likely, unlikely: the tokens that give it.
    """
    name, epsilon = split_key(key)
    mechanism = pieces_mechanism(name)
    worst = worst_case_loss(mechanism, float(epsilon), inputs=inputs if name == "InferDPT" else None)
    words = mechanism.vocabulary.words
    return {
        "loss": worst.value if np.isfinite(worst.value) else None,
        "output": words[worst.output],
        "likely": words[worst.likely],
        "unlikely": words[worst.unlikely],
    }


def kept_words(key: str, rng: np.random.Generator, *, seen: Sequence[str]) -> dict[str, Any]:
    """Return one item: how well a label is guessed from kept tokens alone.

    Parameters
    ----------
    key : str
        "sentiment" of film snippets, or "domain": film review, editorial or product review.
    rng : Generator
        Not used.
    seen : sequence of str
        Keep-lists; the whole text is tried besides, under "text".

    Returns
    -------
    dict
        texts, chance; "<what is seen>": number of right guesses on test texts, by a classifier of train texts.
    """
    vocabulary = context_model().vocabulary
    sides = {}
    for side in ("train", "test"):
        if key == "sentiment":
            sides[side] = (snippets(side).texts, np.array(snippets(side).favourable))
        else:
            parts = [
                corpus(name).split(side).without_copies().texts
                for name in ("movies", "editorials", "products")
            ]
            sides[side] = (
                [text for part in parts for text in part],
                np.repeat(range(3), list(map(len, parts))),
            )
    found: dict[str, Any] = {}
    for what in ("text", *seen):
        shown = {
            side: texts if what == "text" else [skeleton(vocabulary, text, what) for text in texts]
            for side, (texts, _) in sides.items()
        }
        guesses = guess_labels(shown["train"], sides["train"][1], shown["test"], sides["test"][1])
        found |= {"texts": len(guesses.right), "chance": guesses.chance, what: int(guesses.right.sum())}
    return found
