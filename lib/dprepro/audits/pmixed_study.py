"""PMixED on text: perplexity of film reviews against epsilon, beside the public model and what has no privacy.

The setting of arXiv 2403.15638 in small. Public model: `text.tiny_lm`, which never saw a film review. Private text:
the film reviews, dealt to disjoint shards in random order; an expert is the public model adapted to one shard
(`text.adapted_bigrams`). Test texts are read token by token with their true past, a query a token, and the perplexity
is that of the law from which PMixED would sample the next token.

The saved result ``pmixed_perplexity`` holds the negative log-probability of each test text by each way to predict, in
parts of the texts; `joined` puts them together.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.pmixed_worst import token_law
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.pmixed import PMixED
from dprepro.mechanisms.pmixed_account import published_order
from dprepro.text.adapted_bigrams import AdaptedBigrams
from dprepro.text.corpora import corpus
from dprepro.text.tiny_lm import TinyLM, tiny_lm
from dprepro.text.tiny_lm_training import VOCABULARY, WINDOW

FloatArray = NDArray[np.float64]
Row = list[int]

_KINDS = {"expert": ("sound", "expert"), "record": ("sound", "record"), "published": ("published", "expert")}


class Task(NamedTuple):
    """Private texts and test texts as rows of tokens, the begin mark in front and the end mark behind."""

    lm: TinyLM
    private: list[Row]
    test: list[Row]


def report(
    key: str,
    rng: np.random.Generator,
    *,
    n_experts: int,
    sample_rate: float,
    n_queries: int,
    delta: float,
    texts: int,
) -> dict[str, Any]:
    """Return one item of the saved result.

    Parameters
    ----------
    key : str
        What predicts, and the number of the part: "without privacy, 0", or the unit of privacy and epsilon before it,
        "expert, 8, 0", "record, 8, 0" (both by the account that holds), "published, 8, 0" (the public code's account
        and radii).
    rng : Generator
        Draws the experts of each query; who has which text is fixed by the number of experts alone.
    n_experts, sample_rate, n_queries, delta
        As `PMixED`. The order is `published_order`'s.
    texts : int
        Test texts in a part: part 0 has the first ones.

    Returns
    -------
    dict
        tokens, and negative log-probabilities in nats, one value for each text. "without privacy": public,
        ensemble (the mean of all experts as they are), whole (one expert that has all texts). Otherwise drawn (of
        the mixture that was drawn for each query, as the public code measures), law (of the token, exact; not
        for "published"), order, and radius where two experts are drawn.

    Raises
    ------
    ValueError
        Another key, or an argument outside its domain.
    """
    setting, _, part = key.rpartition(", ")
    task = review_task(texts, int(part))
    experts = _experts(n_experts)
    tokens = [len(row) - 1 for row in task.test]
    if setting == "without privacy":
        whole = _experts(1)
        ways: dict[str, list[float]] = {"public": [], "ensemble": [], "whole": []}
        for before, token, public in _queries(task):
            ways["public"].append(public[token])
            ways["ensemble"].append(experts.distributions(before, public)[:, token].mean())
            ways["whole"].append(whole.distributions(before, public)[0, token])
        return {"tokens": tokens} | {way: _by_text(values, tokens) for way, values in ways.items()}
    kind, _, epsilon = setting.partition(", ")
    account, unit = _KINDS[one_of("key", kind, list(_KINDS))]
    order = published_order(float(epsilon), delta)
    mechanism = PMixED(float(epsilon), delta, order, sample_rate, n_experts, n_queries, account, unit)
    law, drawn = [], []
    for before, token, public in _queries(task):
        rows = experts.distributions(before, public)
        if account == "sound":
            law.append(token_law(mechanism, rows, public)[token])
        drawn.append(mechanism.mix(rows[mechanism.draw(rng)], public)[token])
    found: dict[str, Any] = {"tokens": tokens, "drawn": _by_text(drawn, tokens)}
    if law:
        found["law"] = _by_text(law, tokens)
    return found | {"order": order, "radius": mechanism.radius(2)}


def joined(saved: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Put the parts of each setting together.

    Parameters
    ----------
    saved : mapping
        Items of `report` by their keys, the parts of a setting in the order of the texts.

    Returns
    -------
    dict
        By setting ("without privacy", "record, 8"), what `report` returns, over the texts of all parts.

    Raises
    ------
    ValueError
        A part that is missing or out of order.
    """
    whole: dict[str, dict[str, Any]] = {}
    parts: dict[str, int] = {}
    for key, item in saved.items():
        setting, _, part = str(key).rpartition(", ")
        expected = parts.setdefault(setting, 0)
        if int(part) != expected:
            raise ValueError(
                f"saved must have the parts in order, got part {part} of {setting!r} for {expected}"
            )
        parts[setting] += 1
        before = whole.setdefault(setting, {})
        whole[setting] = {
            name: before.get(name, []) + value if isinstance(value, list) else value
            for name, value in item.items()
        }
    return whole


def _by_text(probabilities: list[float], tokens: list[int]) -> list[float]:
    ends = np.cumsum(tokens)[:-1]
    return [float(-np.log(part).sum()) for part in np.split(np.array(probabilities), ends)]


def _queries(task: Task) -> Iterator[tuple[int, int, FloatArray]]:
    """The token before, the true next one, and the public distribution, for all tokens of the test texts."""
    import torch

    for row in task.test:
        with torch.inference_mode():
            logits = task.lm.model(torch.tensor([row[:-1]])).logits[0].double()
            laws = logits.softmax(-1).numpy()
        yield from zip(row[:-1], row[1:], laws, strict=True)


def review_task(texts: int, part: int = 0) -> Task:
    """Return the model, all private reviews in the order in which they are dealt, and a part of the test reviews.

    Parameters
    ----------
    texts : int
        Test reviews in a part.
    part : int
        0 for the first ones.

    Raises
    ------
    ValueError
        More test texts than there are, or no whole part of at least 0.
    """
    everything, number = _reviews(), int(positive_count("part", part, 0))
    test = everything.test[number * texts : (number + 1) * texts]
    if len(test) < texts:
        most = len(everything.test) // (number + 1)
        raise ValueError(f"texts must be at most {most} for part {number}, got {texts}")
    return everything._replace(test=test)


@lru_cache(maxsize=1)
def _reviews() -> Task:
    lm = tiny_lm()
    films = corpus("movies").without_copies()
    private, test = (_rows(lm, films.split(side).texts) for side in ("train", "test"))
    order = np.random.default_rng(len(private)).permutation(len(private))
    return Task(lm, [private[i] for i in order], test)


@lru_cache(maxsize=2)
def _experts(n: int) -> AdaptedBigrams:
    private = _reviews().private
    return AdaptedBigrams([private[i::n] for i in range(n)], VOCABULARY)


def _rows(lm: TinyLM, texts: list[str]) -> list[Row]:
    end = lm.tokenizer.eos_token_id
    rows = lm.tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [[end, *row, end] for row in rows if len(row) < WINDOW]
