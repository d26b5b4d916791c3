"""The ledger: every printed number and every claim beside what came out.

`gather` collects the rows that accepted notebook runs left behind, checks that they are about what is printed
now, adds the numbers that no notebook judged, and writes ledger.csv, claims.csv and ledger.html (`ledger_views`).
"""

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
import pandas as pd

from dprepro.base import paths, store
from dprepro.kit import batch, claims, rows
from dprepro.kit.ledger_views import page

STALE = "from a run before its inputs changed; "
RECIPES = ("as_stated", "inferred", "valid")


def gather(profile: str = "laptop") -> pd.DataFrame:
    """Collect the results of all accepted notebook runs of a profile and write the ledger.

    Parameters
    ----------
    profile : str
        smoke (written to build/smoke), laptop or paper (written to build).

    Returns
    -------
    DataFrame
        As `claims.load_ledger`.

    Raises
    ------
    ValueError
        For an unknown profile, and, naming the notebook, for a printed number or claim that is not in
        data/reported, a printed number that differs from it, and a claim, or a number under one recipe, that
        two notebooks judge.
    OSError
        If the build folder cannot be written.
    """
    runs = batch.accepted(profile)
    untouched = claims.untouched()
    ledger = complete(_judged(runs, "rows.csv", rows.LEDGER), untouched, rows.number_key)
    as_printed = ["value_printed", "spread_printed", "spread_is", "source"]
    key = rows.number_key(ledger)
    now = untouched.set_index(rows.number_key(untouched)).loc[key, as_printed]
    differs = (ledger[as_printed].to_numpy() != now.to_numpy()).any(axis=1)
    if differs.any():
        notebook, number = ledger["notebook"][differs].iloc[0], key[differs].iloc[0]
        raise ValueError(
            f"{notebook}: {number} differs from what data/reported holds; run the notebook again"
        )
    judged_claims = _judged(runs, "claims.csv", rows.CLAIM_LEDGER)
    all_claims = complete(judged_claims, claims.untouched_claims(), itemgetter("id"))
    folder = paths.build_dir() / "smoke" if profile == "smoke" else paths.build_dir()
    rows.write_rows(folder / "ledger.csv", ledger, rows.LEDGER)
    rows.write_rows(folder / "claims.csv", all_claims, rows.CLAIM_LEDGER)
    store.write_atomic(folder / "ledger.html", page(ledger, all_claims, profile))
    return ledger


def _judged(runs: Sequence[batch.Accepted], file: str, columns: Sequence[str]) -> list[pd.DataFrame]:
    found = []
    for run in runs:
        if (run.folder / file).exists():
            frame = rows.read_rows(run.folder / file, columns).assign(notebook=run.name)
            found.append(frame if run.current else frame.assign(reason=STALE + frame["reason"]))
    return found


def complete(
    judged: Sequence[pd.DataFrame], untouched: pd.DataFrame, key: Callable[[pd.DataFrame], pd.Series]
) -> pd.DataFrame:
    """Return all rows in the order of data/reported, with those of `untouched` whose key nobody judged.

    Parameters
    ----------
    judged : sequence of DataFrame
        Rows of the notebooks, with the notebook's name in the column `notebook`.
    untouched : DataFrame
        `claims.untouched` or `claims.untouched_claims`.
    key : callable
        Frame to the Series that says what each row is about.

    Raises
    ------
    ValueError
        For a row about nothing in `untouched`, or two that judge the same under one recipe.
    """
    found = pd.concat([*judged, untouched], ignore_index=True)
    name, by_notebook = key(found), found["notebook"] != ""
    place = {known: position for position, known in enumerate(key(untouched))}
    unknown = found.index[~name.isin(place)]
    if len(unknown):
        raise ValueError(f"{found['notebook'][unknown[0]]}: data/reported holds no {name[unknown[0]]}")
    found = found[by_notebook | ~name.isin(name[by_notebook])]
    name = name[found.index]
    recipe = found.get("recipe", pd.Series("", index=found.index))  # a claim has none
    row = (name + ", recipe " + recipe).str.removesuffix(", recipe ")
    again = row[row.duplicated()]
    if len(again):
        both = " and ".join(found["notebook"][row == again.iloc[0]])
        raise ValueError(f"{both} both judge {again.iloc[0]}")
    recipes = [*RECIPES, *sorted(set(recipe) - set(RECIPES))]
    order = np.lexsort([recipe.map(recipes.index), name.map(place)])
    return found.iloc[order].reset_index(drop=True)
