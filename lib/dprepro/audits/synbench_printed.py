"""SynBench's printed tables held against themselves (arXiv 2509.14594).

Nearly all of them rest on texts that are not open and on models of 1 to 8 billion parameters, so none can be
recomputed here. What can be asked is whether the printed numbers bear what is said about them: utility against the
scores of a guesser, order in epsilon, a decline against its own intervals. Every function takes rows as
``data/reported/synbench.csv`` has them.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dprepro.base.check import in_interval, one_of, positive_count

BUDGETS = (0.5, 1.0, 2.0, 4.0, math.inf)
GENERATORS = ("DP-Gen", "AUG-PE", "DP-Diffusion")
BASELINES = ("random", "majority")

_TEXTS = {
    "MIMIC": "the MIMIC notes (PhysioNet credentials)",
    "DMSAFN post-filter": "the DMSAFN texts (in no open package)",
    "PsyTAR worked example": "the PsyTAR texts (in no open package)",
}
_MODELS = {
    "DP-Gen": "a Llama model of 1-8B parameters fine-tuned under DP (GPU)",
    "AUG-PE": "the instruction-following model behind AUG-PE (GPU)",
    "DP-Diffusion": "a text diffusion model trained under DP (GPU)",
}
_COMMANDS = {
    "table1": "dprepro.text.classifiers.FineTunedClassifier().fit(texts, labels).predict(real test texts), then F1",
    "mauve": "dprepro.text.fidelity.text_mauve(real, synthetic, embedder)",
    "entity": "a divergence (not said which) of dprepro.text.fidelity.entity_types(texts), real and synthetic",
    "length": "a divergence (not said which) of the numbers of words of real and of synthetic texts",
    "attack": "dprepro.audits.ngram_scores.attack_scores on 100 generated corpora, then dprepro.stats.tradeoff.roc",
}


def missing(row: Mapping[str, Any], check: str = "") -> str:
    """Return why a printed number is not recomputed: what is missing, and what would then run.

    Parameters
    ----------
    row : mapping or Series
        A printed number: table, row, column.
    check : str
        What the printed numbers say about it themselves, if anything.

    Raises
    ------
    ValueError
        A table whose numbers are all judged, or that SynBench does not print.
    """
    table, column = one_of("table", row["table"], ("table1", "table2", "text")), row["column"]
    texts = _TEXTS.get(row["row"], f"the {row['row']} texts (in no open package)")
    generator = "DP-Gen" if table != "table2" else column.partition(":")[0]
    generator = column if table == "table1" else generator
    needed = [texts]
    if table == "table1" and generator not in _MODELS:
        needed.append("the classifier of the paper (GPU)")
    elif not (table == "table2" and generator == "original"):
        needed.append(_MODELS[generator])
    if table == "table2" or "MAUVE" in column:
        command = _COMMANDS["mauve" if "MAUVE" in column else column.partition(":")[2]]
    else:
        command = _COMMANDS["attack" if table == "text" else table]
    return "; ".join(
        [f"missing: {' and '.join(needed)}", f"with them: {command}", *([check] if check else [])]
    )


def series(rows: pd.DataFrame, measure: str = "") -> pd.DataFrame:
    """Return one line for each dataset and generator, a column for each budget.

    Parameters
    ----------
    rows : DataFrame
        Rows of table 1, or of table 2.
    measure : str
        "mauve", "entity" or "length" for table 2.

    Returns
    -------
    DataFrame
        Index (dataset, generator), columns BUDGETS; NaN where a dash was printed.
    """
    names = {f"{generator}:{measure}" if measure else generator: generator for generator in GENERATORS}
    kept = rows[rows["column"].isin(names)]
    kept = kept.assign(column=kept["column"].map(names))
    names_of = ["dataset", "generator"]
    order = pd.MultiIndex.from_product([kept["row"].unique(), GENERATORS], names=names_of)
    wide = kept.pivot(index=["row", "column"], columns="epsilon", values="value")
    return wide.rename_axis(index=names_of, columns=None).reindex(index=order, columns=list(BUDGETS))


def against_baselines(table1: pd.DataFrame) -> pd.DataFrame:
    """Return the printed scores of classifiers trained on synthetic texts beside those of a guesser.

    Returns
    -------
    DataFrame
        Columns dataset, generator, epsilon, value, random, majority, below_random, below_majority; one row for each
        printed value.
    """
    fixed = table1[table1["column"].isin((*BASELINES, "real"))].pivot(
        index="row", columns="column", values="value"
    )
    cells = series(table1).reset_index().melt(["dataset", "generator"], var_name="epsilon").dropna()
    cells = cells.join(fixed, on="dataset")
    return cells.assign(**{f"below_{name}": cells["value"] < cells[name] for name in BASELINES})


def kept_utility(table1: pd.DataFrame, epsilon: float, least: float = 0.0) -> pd.DataFrame:
    """Return what a budget leaves of the utility above that of a guesser.

    Parameters
    ----------
    table1 : DataFrame
    epsilon : float
        One of the finite BUDGETS.
    least : float
        Utility above the guesser that there must be without privacy, at least 0: a share of next to nothing is noise.

    Returns
    -------
    DataFrame
        Columns dataset, generator, guess (the better of random and majority), free (without privacy), private, kept:
        (private - guess)/(free - guess), at least 0. Only series with a printed value at `epsilon` and with
        something to lose, free - guess > `least`.

    Raises
    ------
    ValueError
        Another budget, or a negative `least`.
    """
    if epsilon not in BUDGETS[:-1]:
        raise ValueError(f"epsilon must be one of {BUDGETS[:-1]}, got {epsilon!r}")
    cells = against_baselines(table1)
    cells = cells.assign(guess=cells[list(BASELINES)].max(axis=1))
    wide = cells.pivot(index=["dataset", "generator", "guess"], columns="epsilon", values="value")
    found = pd.DataFrame({"free": wide[math.inf], "private": wide[epsilon]}).dropna().reset_index()
    found = found[found["free"] - found["guess"] > float(in_interval("least", least, 0, math.inf))]
    found = found.reset_index(drop=True)
    above = (found["private"] - found["guess"]).clip(lower=0)
    return found.assign(kept=above / (found["free"] - found["guess"]))


class Decline(NamedTuple):
    """How far one printed mean lies above another, in printed units, and how sure that is."""

    difference: float
    half_width: float
    z: float
    p_normal: float
    t: float
    degrees: float
    p_welch: float


def decline(first: Mapping[str, Any], second: Mapping[str, Any], runs: int = 10) -> Decline:
    """Hold the decline from one printed mean to another against their printed 95 % half-widths.

    Parameters
    ----------
    first, second : mapping or Series
        value, spread (half-width of a 95 % interval of the mean) of the higher and the lower mean.
    runs : int
        Behind each mean, at least 2.

    Returns
    -------
    Decline
        `half_width` is the root of the sum of squares. `z`, `p_normal` take a half-width for 1.96 standard errors;
        `t`, `degrees`, `p_welch` for as many as Student's t with `runs` - 1 degrees of freedom has. p-values are
        one-sided.

    Raises
    ------
    ValueError
        Fewer than two runs.
    """
    positive_count("runs", runs, minimum=2)
    difference = float(first["value"] - second["value"])
    widths = np.array([first["spread"], second["spread"]], dtype=float)
    half_width = float(np.hypot(*widths))
    z = difference / half_width * stats.norm.ppf(0.975)
    variances = (widths / stats.t.ppf(0.975, runs - 1)) ** 2
    t = difference / math.sqrt(variances.sum())
    degrees = float(variances.sum() ** 2 * (runs - 1) / (variances**2).sum())
    return Decline(
        difference, half_width, z, float(stats.norm.sf(z)), t, degrees, float(stats.t.sf(t, degrees))
    )


def run_deviation(table3: pd.DataFrame, runs: int = 10) -> float:
    """Return the standard deviation of one run behind the printed half-widths, pooled; ValueError for runs < 2."""
    positive_count("runs", runs, minimum=2)
    errors = table3["spread"].to_numpy(float) / stats.t.ppf(0.975, runs - 1)
    return float(np.sqrt(np.mean(errors**2) * runs))
