"""Audits of four in-context pipelines on the packaged language model, active and passive at equal model calls.

SnapAudit (arXiv 2511.13502) compares audits in tables; here each cell is made on clean outputs that a model gave
(`pipeline_study`, `pipeline_fixed`). A key of the saved result names what varies between runs, and the mechanism:

    "fixed data, PV"           D and D' fixed, dealt to partitions anew in each run (the paper's design)
    "redrawn, PoE"             other demonstrations in each run; the attacker has one pair of clean outputs
    "redrawn informed, PV"     the same runs; the attacker knows each run's pair (`informed`)
    "one deal, KSA"            the run alone in which the canary moves the clean output furthest. That output
                               is known and does not vary, so its releases are independent trials: the
                               passive audit, with as many trials as are wanted
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dprepro.audits.informed import Informed, informed
from dprepro.audits.pipeline_report import clean_outputs, moved
from dprepro.audits.pipeline_study import ONE_REPLY, PARTITIONS, UNUSUAL, labels
from dprepro.audits.snapshot import Audit, Snapshot, active_audit, passive_audit
from dprepro.audits.snapshot_trial import Array
from dprepro.base import results
from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.in_context.embedding import EmbeddingSpaceAggregation
from dprepro.mechanisms.in_context.experts import ProductOfExperts
from dprepro.mechanisms.in_context.keywords_joint import JointKeywords
from dprepro.mechanisms.in_context.readings import KeywordCounts, LabelUtilities, MeanEmbedding
from dprepro.mechanisms.in_context.voting import PrivateVoting
from dprepro.text.embedders import embedder

SOURCES = {
    "fixed data": "snapaudit_fixed_data",
    "redrawn": "snapaudit_open_model",
    "redrawn informed": "snapaudit_open_model",
    "one deal": "snapaudit_open_model",
}
BLOCKS = {
    "PV": "votes, one label, copying",
    "PoE": "experts, one label, copying",
    "ESA": "texts, one reply, copying",
    "KSA": "texts, one reply, copying",
}
VIEWS = ("white", "black")
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
UNIVERSE = (
    UNUSUAL,
    *ONE_REPLY.split()[1:],
    "yes",
    "maybe",
    "never",
    "always",
    "film",
    "story",
)  # no stop word
KEYWORDS = 3
_OTHERS = "texts, replies, copying"  # answers with other demonstrations: candidates of a black box on ESA


def report(
    key: str, rng: np.random.Generator, active: int, passive: int, n_sample: int, trials: int
) -> dict[str, Any]:
    """Return audits of one pipeline, white box and black box, at epsilon 1, 2, 4, 8 and 16.

    Parameters
    ----------
    key : str
        Design and mechanism, as above.
    rng : numpy.random.Generator
    active, passive : int
        Audits of either kind at each epsilon, with fresh noise on the same clean outputs.
    n_sample : int
        Simulated releases a side of an active audit.
    trials : int
        Of "one deal", a side.

    Returns
    -------
    dict
        "runs" a side; after "white, " and "black, " these, epsilons x audits, flat. "active" and "passive": the valid
        recipe with the library's defaults. "active betting": by betting, where the default is the modal bound.
        "printed active" and "printed passive": the recipe that fits the printed tables, which is no bound. Of "one
        deal" the passive audit alone, `active` times.

    Raises
    ------
    ValueError
        For a key that is none of these, or numbers below 1.
    """
    for size, value in (("active", active), ("passive", passive), ("n_sample", n_sample), ("trials", trials)):
        positive_count(size, value)
    design, name = f"{key}, ".split(", ")[:2]
    one_of("design of the key", design, tuple(SOURCES))
    one_of("mechanism of the key", name, tuple(BLOCKS))
    snapshot, candidates = clean(results.load(SOURCES[design]), name)
    if design == "one deal":
        # Chosen by clean outputs, before any noise is drawn: a claim holds for every deal.
        run = int(np.argmax(moved(snapshot).round(9)))
        pair = snapshot.with_canary[run], snapshot.without_canary[run]
        snapshot = Snapshot(np.tile(pair[0], (trials, 1)), np.tile(pair[1], (trials, 1)))
    elif design == "redrawn informed":
        snapshot = informed(snapshot)
    found: dict[str, Any] = {"runs": len(snapshot.with_canary)}
    kinds: dict[str, tuple[int, Callable[..., Audit]]] = {
        "active": (active, partial(active_audit, n_sample=n_sample)),
        "passive": (passive, passive_audit),
        "printed active": (active, partial(active_audit, n_sample=n_sample, recipe="inferred")),
        "printed passive": (passive, partial(passive_audit, recipe="inferred")),
    }
    if name in ("PV", "KSA") and design != "redrawn informed":
        kinds["active betting"] = (active, partial(active_audit, n_sample=n_sample, bound="betting"))
    if design == "one deal":
        kinds = {"passive": (active, passive_audit)}
    for view in VIEWS:
        for kind, (repeats, audit) in kinds.items():
            values: list[float] = []
            for epsilon in EPSILONS:
                judged = mechanism(name, epsilon, candidates if view == "black" else None)
                judged = Informed(judged) if design == "redrawn informed" else judged
                for stream in rng.spawn(repeats):
                    values.append(audit(snapshot, judged, view=view, rng=stream).epsilon)
            found[f"{view}, {kind}"] = [float(f"{value:.7g}") for value in values]
    return found


def clean(found: Mapping[Any, Mapping[str, Any]], name: str) -> tuple[Snapshot, Array | None]:
    """Put the clean outputs of a mechanism together, of embeddings with the candidates of a black box.

    Parameters
    ----------
    found : mapping
        A saved result of `pipeline_study` or `pipeline_fixed`.
    name : {"PV", "PoE", "ESA", "KSA"}

    Returns
    -------
    snapshot : Snapshot
        Means of embeddings in coordinates of the space that they and the candidates span: the noise is alike in
        all directions, so the others say nothing.
    candidates : array, shape (m, d), or None
        Of ESA: the two answers, and the model's answers where other demonstrations had other replies.
    """
    start = BLOCKS[one_of("name", name, tuple(BLOCKS))]
    if name == "PV":
        return clean_outputs(found, start), None
    if name == "PoE":
        said = labels(*start.split(", ")[1:])
        return clean_outputs(found, start, LabelUtilities(said, ProductOfExperts(1.0, PARTITIONS))), None
    if name == "KSA":
        return clean_outputs(found, start, KeywordCounts(UNIVERSE)), None
    model = embedder(threads=1)
    means = clean_outputs(found, start, MeanEmbedding(model))
    others = (
        block["without_canary"].split("\n") for key, block in found.items() if str(key).startswith(_OTHERS)
    )
    texts = dict.fromkeys([UNUSUAL, ONE_REPLY, *(line for lines in others for line in lines if line)])
    candidates = np.asarray(model.encode(list(texts)), dtype=np.float64)
    rows = np.concatenate([np.unique(side, axis=0) for side in (means.with_canary, means.without_canary)])
    basis = np.linalg.qr(np.concatenate([candidates, rows]).T)[0]
    rotated = Snapshot(means.with_canary @ basis, means.without_canary @ basis, means.provenance)
    return rotated, candidates @ basis


def mechanism(name: str, epsilon: float, candidates: Array | None = None) -> Any:
    """Return the mechanism under audit; `candidates` for a black box on ESA."""
    if name == "ESA":
        return EmbeddingSpaceAggregation(epsilon, partitions=PARTITIONS, candidates=candidates)
    made = {
        "PV": lambda: PrivateVoting(epsilon),
        "PoE": lambda: ProductOfExperts(epsilon, PARTITIONS),
        "KSA": lambda: JointKeywords(epsilon, keywords=KEYWORDS),
    }
    return made[one_of("name", name, tuple(BLOCKS))]()
