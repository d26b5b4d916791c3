"""Snapshots of in-context pipelines on the packaged language model: what SnapAudit (arXiv 2511.13502) takes as given.

The paper's tables rest on clean outputs that hardly vary at temperature 0, and on a canary that moves one partition's
answer. Both are measured here, for a prompt in which the model has to copy the canary's label, for other ways to
write it, and for the direct question whether the canary is there. An item of a saved result is a block of runs:

    "votes, sentiment, copying, 3"        texts of a few tokens, in float32: counts of labels (PV)
    "experts, sentiment, copying, 3"      log-probabilities of the labels, in float64 (PoE)
    "texts, replies, copying, 3"          first lines of generated answers (ESA, KSA)
    "batches, sentiment, copying, 0"      the same prompts in batches of other sizes, and again and again

Log-probabilities are taken in float64 so that six digits are the same on every CPU; what float32 makes of them is
what "batches" counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.in_context.demonstrations import Demonstration, RandomDraw, nonsense
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.packaged_tasks import (
    DOMAINS,
    SENTIMENTS,
    continuations,
    domains,
    replies,
    sentiment,
)
from dprepro.mechanisms.in_context.pipeline import InContextPipeline
from dprepro.mechanisms.in_context.prompts import COPYING, DIRECT, INSTRUCTED, LABELLED
from dprepro.mechanisms.in_context.readings import LabelUtilities, Votes, first_lines
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.text.answers import AnswerStore
from dprepro.text.local_model import LocalModel
from dprepro.text.responders import Responder, StoredResponder
from dprepro.text.unstored import Unstored

Array = NDArray[np.float64]
PARTITIONS, SHOTS = 3, 4  # demonstrations in each partition
UNUSUAL = "maroon"
ONE_REPLY = "no comment today"
STYLES = {"copying": COPYING, "labelled": LABELLED, "instructed": INSTRUCTED, "direct": DIRECT}
TASKS = ("sentiment", "one label", "domains", "replies", "continuations", "one reply")
KINDS = ("votes", "experts", "texts", "batches")
SIDES = ("without_canary", "with_canary")
LABEL_TOKENS, TEXT_TOKENS = 3, 12
BATCH_SIZES = (1, 2, 3)
TOLERANCE = 1e-3  # of a log-probability


def report(key: str, rng: np.random.Generator, runs: int, canary_seed: int) -> dict[str, Any]:
    """Return one block of runs, as named above.

    Parameters
    ----------
    key : str
        Kind, task, style and number of the block, with commas between them.
    rng : numpy.random.Generator
        Draws demonstrations and partitions.
    runs : int
        In the block; "batches" takes the prompts of one run.
    canary_seed : int
        Of the canary's nonsense words: the same canary in all blocks.

    Returns
    -------
    dict
        "with_canary" and "without_canary". Of "votes": counts, runs x labels, flat. Of "experts": log-probabilities
        over the whole vocabulary, runs x partitions x labels, flat. Of both "off_label_..." for either side. Of
        "texts": answers, runs x partitions, a line each. Of "batches": numbers of prompts.

    Raises
    ------
    ValueError
        For a key that is none of these.
    """
    kind, task, style, _ = (part.strip() for part in f"{key},,,".split(",")[:4])
    one_of("kind of the key", kind, KINDS)
    positive_count("runs", runs)
    tokens = TEXT_TOKENS if kind == "texts" else LABEL_TOKENS
    source = LocalModel(
        dtype="float64" if kind == "experts" else "float32", max_tokens=tokens, threads=1, device="cpu"
    )
    if kind == "batches":
        asked = pipeline(task, style, Unstored(source), canary_seed)
        prompts = [prompt for _, canary, stream in _sides(rng, 1) for prompt in asked.prompts(canary, stream)]
        return _batches(list(dict.fromkeys(prompts)), Votes(labels(task, style)), source)
    with TemporaryDirectory() as folder:  # the two sides share prompts; each is asked once
        stored = StoredResponder(source, AnswerStore(folder), progress=False)
        chosen = pipeline(task, style, stored, canary_seed)
        if kind == "experts":
            return _experts(chosen, labels(task, style), rng, runs)
        return (_votes if kind == "votes" else _texts)(chosen, rng, runs)


def labels(task: str, style: str) -> tuple[str, ...]:
    """The labels of a classification, the canary's own last; of the direct question "Yes" and "No"."""
    if style == "direct":
        return ("No", "Yes")
    return (*(DOMAINS.values() if task == "domains" else SENTIMENTS), UNUSUAL)


def pipeline(task: str, style: str, responder: Responder, canary_seed: int) -> InContextPipeline:
    """Return the pipeline of an item, with votes and their mechanism at epsilon 4.

    Parameters
    ----------
    task : {"sentiment", "one label", "domains", "replies", "continuations", "one reply"}
        "one label" has the negative reviews alone, "one reply" all reviews with the same reply to each: nothing but
        the canary has another answer.
    style : {"copying", "labelled", "instructed", "direct"}
    responder : Responder
    canary_seed : int

    Raises
    ------
    ValueError
        Another task or style.
    """
    canary = nonsense(6, np.random.default_rng(canary_seed), UNUSUAL)
    source = RandomDraw(_pool(one_of("task", task, TASKS)), PARTITIONS * SHOTS)
    form = STYLES[one_of("style", style, tuple(STYLES))]
    said = Votes(labels(task, style))
    return InContextPipeline(responder, source, canary, form, PARTITIONS, said, PrivateVoting(4.0))


@cache
def _pool(task: str) -> tuple[Demonstration, ...]:
    if task == "one label":
        return tuple(item for item in sentiment() if item.answer == SENTIMENTS[1])
    if task == "one reply":
        return tuple(Demonstration(item.text, ONE_REPLY) for item in sentiment())
    made = {"sentiment": sentiment, "domains": domains, "replies": replies, "continuations": continuations}
    return tuple(made[task]())


def _sides(rng: np.random.Generator, runs: int) -> Iterator[tuple[str, bool, np.random.Generator]]:
    """For each run both sides, without the canary first: name, whether it is in, a generator in the same state."""
    for stream in rng.spawn(runs):
        state = int(stream.integers(2**63))
        for side in SIDES:
            yield side, side == SIDES[1], np.random.default_rng(state)


def _votes(chosen: InContextPipeline, rng: np.random.Generator, runs: int) -> dict[str, Any]:
    counts: dict[str, list[int]] = {side: [] for side in SIDES}
    off = dict.fromkeys(SIDES, 0)
    for side, canary, stream in _sides(rng, runs):
        run = chosen.clean(canary, stream)
        counts[side] += [int(count) for count in run.statistic]
        off[side] += run.off_label
    return {**counts, **{f"off_label_{side}": number for side, number in off.items()}}


def _experts(
    chosen: InContextPipeline, said: Sequence[str], rng: np.random.Generator, runs: int
) -> dict[str, Any]:
    reading = LabelUtilities([f" {label}" for label in said], ProductOfExperts(4.0, PARTITIONS))
    logs: dict[str, list[float]] = {side: [] for side in SIDES}
    off = dict.fromkeys(SIDES, 0)
    for side, canary, stream in _sides(rng, runs):
        answers = reading.ask(chosen.responder, chosen.prompts(canary, stream))
        logs[side] += [float(f"{value:.7g}") for value in answers.ravel()]
        off[side] += reading.off_label(answers)
    return {**logs, **{f"off_label_{side}": number for side, number in off.items()}}


def _texts(chosen: InContextPipeline, rng: np.random.Generator, runs: int) -> dict[str, Any]:
    lines: dict[str, list[str]] = {side: [] for side in SIDES}
    for side, canary, stream in _sides(rng, runs):
        lines[side] += first_lines(chosen.responder.generate(chosen.prompts(canary, stream)))
    return {side: "\n".join(answers) for side, answers in lines.items()}


def _batches(
    prompts: Sequence[str], said: Votes, source: LocalModel, sizes: Sequence[int] = BATCH_SIZES
) -> dict[str, int]:
    asked = [f" {label}" for label in said.labels]

    def ask(size: int) -> tuple[list[str], Array]:
        # A label is a sequence, so a batch of s sequences holds s // labels prompts when labels are weighed.
        weighed = Unstored(replace(source, batch_size=size * len(asked))).label_logprobs(prompts, asked)
        return Unstored(replace(source, batch_size=size)).generate(prompts), weighed

    (texts, table), (texts_again, table_again) = (ask(len(prompts)) for _ in range(2))
    votes, others = [said.label(text) for text in texts], [ask(size) for size in sizes]
    return {
        "prompts": len(prompts),
        "same_text_again": sum(a == b for a, b in zip(texts, texts_again, strict=True)),
        "same_bits_again": int((table == table_again).all(axis=1).sum()),
        "in_other_batches": len(prompts) * len(others),
        "same_vote": sum(
            said.label(b) == a for other, _ in others for a, b in zip(votes, other, strict=True)
        ),
        "within_tolerance": sum(
            int(np.all(np.abs(other - table) < TOLERANCE, axis=1).sum()) for _, other in others
        ),
    }
