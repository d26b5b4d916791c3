"""What contamination of the pretraining does to DP-Gen: planted at known shares, and taken out in stages.

SynBench (arXiv 2509.14594) reads its table 3 as: utility comes from private texts that the base model had met before.
Here that is made so. The public model (``tiny_lm``) goes on training on a small corpus of public pieces in which a
share of the private texts stands, without their labels; the corpus has the same size at every share. Then DP-Gen is
fine-tuned on the private texts, and its texts are measured: F1 of a classifier trained on them and tested on real
texts, MAUVE against the private texts, and the longest part of each that stands in a private text.

Two controls. "others": in place of all private texts, as many texts of the same kinds that are not private
(``contamination_texts``). And where marked texts are removed, as many unmarked ones are removed instead: what that
costs is the price of less data.
"""

import tempfile
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dprepro.audits.contamination import contaminated, match, removal_order, removed_at
from dprepro.audits.contamination_index import build_index
from dprepro.audits.contamination_texts import KINDS, Material, material, pretraining_corpus, public_model
from dprepro.base.check import one_of
from dprepro.mechanisms.dp_finetune import DPFineTune, LoRA
from dprepro.mechanisms.synthesis.dp_gen import DPGen, TextGenerator
from dprepro.text.classifiers import tfidf_classifier
from dprepro.text.embedders import SentenceEmbedder, embedder
from dprepro.text.fidelity import mauve
from dprepro.text.tiny_lm import TinyLM

LEVELS = {"marked": (0.0, 0.25, 0.5, 0.75), "unmarked": (0.25, 0.5, 0.75)}

_ADAPTED = LoRA(rank=8, alpha=16, target_modules=("c_attn", "c_proj", "c_fc"))


def effect(
    key: str,
    rng: np.random.Generator,
    *,
    data_seed: int,
    each: int,
    tested: int,
    longest: int,
    written: int,
    planted: float,
    passes: int,
    batch: int,
    pretraining_rate: float,
    epsilon: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
) -> dict[str, Any]:
    """Contaminate, fine-tune, write and measure; one item of the saved result ``synbench_contamination``.

    Parameters
    ----------
    key : str
        "planted, <share>, <run>": all private texts, with and without privacy; the share may be "others".
        "marked, <budget>, <run>", "unmarked, <budget>, <run>": a share `planted` stands in the pretraining corpus,
        and a part of the texts found there, or as many of those not found there, is removed from the private ones
        (LEVELS); the budget is "eps" or "inf".
    rng : Generator
        Draws what differs between items of a run: fine-tuning and what is written.
    data_seed : int
        With the number of the run gives its texts, what is planted, and the pretraining.
    each, tested, longest
        As of `material`.
    written : int
        Texts of a label.
    passes, batch, pretraining_rate
        Of the pretraining: how often it sees each text, and how many at once, on average; learning rate of Adam.
    epsilon, sample_rate, steps, learning_rate
        As of `DPGen`, on adapters alone; delta is 1/N.

    Returns
    -------
    dict
        For "planted": planted, found (texts of the private ones that stand in the pretraining corpus); then for "inf"
        and "eps", micro, macro (F1), mauve, longest (mean tokens of the longest part of a text that stands in a
        private one) and copies (texts that are such a part as a whole), each as "<measure>, inf". For the others:
        planted, found, noise (multiplier) and left (private texts), micro, macro: a value for each level.

    Raises
    ------
    ValueError
        Another key.
    """
    what, part, run = key.split(", ")
    one_of("key", what, ("planted", *LEVELS))
    budgets = {"inf": np.inf, "eps": epsilon}
    if what != "planted":
        one_of("budget", part, tuple(budgets))
    amount = part if what == "planted" else str(planted)
    base = _base(data_seed, int(run), amount, each, tested, longest, passes, batch, pretraining_rate)
    texts, lm = base.texts, base.model
    item: dict[str, Any] = {"planted": base.planted, "found": len(contaminated(base.matches))}

    def generator(budget: float, kept: NDArray[np.int64]) -> TextGenerator:
        mechanism = DPGen(budget, sample_rate, steps, learning_rate, lora=_ADAPTED)
        return mechanism.fit(*lm, [texts.private[i] for i in kept], [texts.labels[i] for i in kept], rng)

    everything = np.arange(len(texts.private))
    if what == "planted":
        for name, budget in budgets.items():
            made = generator(budget, everything)
            measured = _measured(made, texts, written, longest, rng)
            item |= {f"{measure}, {name}": value for measure, value in measured.items()}
        return item
    order = np.random.default_rng([data_seed, int(run), 1])
    marked = removal_order(base.matches, "random", order)
    unmarked = order.permutation(np.setdiff1d(everything, marked))
    rows = []
    for level in LEVELS[what]:
        number = len(removed_at(marked, level))
        kept = np.setdiff1d(everything, (marked if what == "marked" else unmarked)[:number])
        made = generator(budgets[part], kept)
        scores = _utility(*_written(made, written, longest, rng), texts)
        rows.append({"noise": made.noise_multiplier, "left": len(kept), **scores})
    return item | {name: [row[name] for row in rows] for name in rows[0]}


class _Base(NamedTuple):
    texts: Material
    model: TinyLM
    planted: int
    matches: pd.DataFrame  # of the private texts, in the pretraining corpus


@lru_cache(maxsize=1)  # items of a run that follow each other begin with the same model
def _base(
    data_seed: int,
    run: int,
    amount: str,
    each: int,
    tested: int,
    longest: int,
    passes: int,
    batch: int,
    pretraining_rate: float,
) -> _Base:
    drawn = np.random.default_rng([data_seed, run])
    texts = material(drawn, each, tested, longest)
    known, numbers = pretraining_corpus(texts, amount, drawn)
    rate = min(1.0, batch / len(known))
    tuning = DPFineTune(0.0, np.inf, rate, round(passes / rate), pretraining_rate)
    lm = TinyLM(tuning.fit(*public_model(), known, drawn).model, public_model().tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        matches = match(texts.private, build_index(folder, known, "the pretraining corpus"))
    return _Base(texts, lm, len(numbers), matches)


def _written(
    made: TextGenerator, number: int, longest: int, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    wrote = made.sample(dict.fromkeys(KINDS, number), rng, longest)
    pairs = [(text, label) for text, label in zip(wrote.texts, wrote.labels, strict=True) if text.strip()]
    return [text for text, _ in pairs], [label for _, label in pairs]


def _utility(wrote: list[str], labels: list[str], texts: Material) -> dict[str, float]:
    from sklearn.metrics import f1_score

    predicted = tfidf_classifier().fit(wrote, labels).predict(texts.test)
    return {
        average: float(f1_score(texts.test_labels, predicted, average=average))
        for average in ("micro", "macro")
    }


def _measured(
    made: TextGenerator, texts: Material, number: int, longest: int, rng: np.random.Generator
) -> dict[str, float]:
    wrote, labels = _written(made, number, longest, rng)
    with tempfile.TemporaryDirectory() as folder:
        copied = match(wrote, build_index(folder, texts.private, "the private texts"))
    return {
        **_utility(wrote, labels, texts),
        # Six digits: clusters are sums whose last bits differ between processors.
        "mauve": float(f"{mauve(_private_vectors(tuple(texts.private)), _embedder().encode(wrote)):.6g}"),
        "longest": float(copied["longest"].mean()),
        "copies": len(contaminated(copied)),
    }


@cache
def _embedder() -> SentenceEmbedder:
    return embedder(threads=1)


@lru_cache(maxsize=1)
def _private_vectors(texts: tuple[str, ...]) -> NDArray[np.float64]:
    return _embedder().encode(texts)
