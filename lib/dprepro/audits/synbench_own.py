"""The utility and fidelity study (SynBench, arXiv 2509.14594) in tables: saved results, and a corpus of one's own.

A corpus that must not be shipped is read with `text.corpora.read_corpus(folder, columns)` and goes through the same
generators with the settings of the saved results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dprepro.audits import synbench_by_aug_pe, synbench_by_diffusion, synbench_by_dp_gen
from dprepro.audits.synbench_printed import BUDGETS
from dprepro.audits.synbench_tasks import task
from dprepro.audits.synbench_utility import vectors, yardsticks
from dprepro.base import results
from dprepro.base.check import positive_count
from dprepro.text.corpora import Corpus

RESULTS = {
    "DP-Gen": "synbench_utility_dp_gen",
    "AUG-PE": "synbench_utility_aug_pe",
    "DP-Diffusion": "synbench_utility_diffusion",
}
_SCORES: dict[str, Callable[..., dict[str, Any]]] = {
    "DP-Gen": synbench_by_dp_gen.scores,
    "AUG-PE": synbench_by_aug_pe.scores,
    "DP-Diffusion": synbench_by_diffusion.scores,
}


def table(found: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> pd.DataFrame:
    """Return saved results as one table.

    Parameters
    ----------
    found : mapping
        Generator: its saved result, items "<domain>, <epsilon>, <number>".

    Returns
    -------
    DataFrame
        Columns generator, domain, epsilon (the budget asked for), number, spent (epsilon by the account), and a
        column for each value.
    """
    rows = []
    for generator, items in found.items():
        for key, item in items.items():
            domain, epsilon, number = key.split(", ")
            place = {
                "generator": generator,
                "domain": domain,
                "epsilon": float(epsilon),
                "number": int(number),
            }
            rows.append({**item, **place, "spent": float(item["epsilon"])})
    return pd.DataFrame(rows)


def own_study(
    source: Corpus,
    rng: np.random.Generator,
    *,
    private: int = 400,
    tested: int = 400,
    kept: Sequence[str] = (),
    budgets: Sequence[float] = BUDGETS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    draws: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run all generators on a corpus of one's own.

    Parameters
    ----------
    source : Corpus
    rng : Generator
    private, tested, kept
        As of `synbench_tasks.task`.
    budgets : sequence of float
    settings : mapping, optional
        Generator: its settings; those of the saved results unless given, and only generators that it names are run.
    draws : int
        Draws of private texts.

    Returns
    -------
    scores : DataFrame
        As `table`.
    baselines : DataFrame
        As `synbench_utility.yardsticks`, one row for each draw.

    Raises
    ------
    ValueError
        As `synbench_tasks.task` and the generators; a generator that is not known.
    """
    chosen = settings or {name: results.recipe(saved).parameters for name, saved in RESULTS.items()}
    unknown = sorted({*chosen} - {*_SCORES})
    if unknown:
        raise ValueError(
            f"settings must name generators among {', '.join(_SCORES)}, got {', '.join(unknown)}"
        )
    found: dict[str, dict[str, Any]] = {name: {} for name in chosen}
    yards = []
    for number in range(int(positive_count("draws", draws))):
        drawn = task(source, number, private=private, tested=tested, kept=kept)
        yards.append({"number": number, **yardsticks(drawn, vectors())})
        for name, given in chosen.items():
            for epsilon in budgets:
                (stream,) = rng.spawn(1)
                found[name][f"{source.name}, {epsilon:g}, {number}"] = _SCORES[name](
                    drawn, epsilon, stream, vectors(), **given
                )
    return table(found), pd.DataFrame(yards)
