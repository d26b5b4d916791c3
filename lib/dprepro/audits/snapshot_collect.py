"""Collect a snapshot from a pipeline: clean outputs with the canary and without, a run at a time, kept on disk.

The first step of an active audit in SnapAudit (arXiv 2511.13502). A pipeline is any object with

* ``clean(canary, rng)``: one run up to the noise, with the canary or without: an array of shape (d,), or an object
  with ``statistic``, ``off_label`` and ``answers`` such as `mechanisms.in_context.pipeline.CleanRun`;
* ``release(clean, rng)``: what `snapshot.active_audit` and `passive_audit` draw from, here or on its mechanism;
* ``provenance``: JSON values that say where the outputs come from, "model" among them;
* ``repeats(times, rng)``, optional: how many prompts, asked `times` times past any store, were answered differently.

Both sides of a run get generators in the same state, so a pipeline that draws its demonstrations from it gives
neighbours. Runs are independent of each other and belong to their number alone: a collection that was interrupted
goes on where it stopped and ends in the same snapshot.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from dprepro.audits.snapshot import Snapshot
from dprepro.base.check import finite, positive_count
from dprepro.base.store import locked, sha256_json, write_atomic

SIDES = ("with_canary", "without_canary")
REPEATS = 5  # of each prompt of a run, to find a temperature above 0
_HEADER = "collection.json"


class Pipeline(Protocol):
    """What a collection needs."""

    @property
    def provenance(self) -> Mapping[str, Any]: ...

    def clean(self, canary: bool, rng: np.random.Generator, /) -> Any: ...


def collect(
    pipeline: Pipeline,
    runs: int,
    seed: int,
    folder: str | Path,
    *,
    temperature_zero: bool = True,
    progress: bool | None = None,
) -> Snapshot:
    """Return a snapshot of `runs` runs a side.

    Parameters
    ----------
    pipeline : Pipeline
    runs : int
        At least 2. A larger number than before goes on from the runs in the folder.
    seed : int
        Of the demonstrations and partitions.
    folder : path
        Where runs are kept, one file each; made if missing.
    temperature_zero : bool
        Refuse a model that answers the same prompt differently. With False the repeats are counted, not judged;
        a responder with a store still gives a prompt its first answer (`text.unstored.Unstored` asks anew).
    progress : bool, optional
        Show a progress bar. By default it is shown on a terminal only.

    Returns
    -------
    Snapshot
        Its provenance has the pipeline's, and "seed", "runs", "answers" and "off_label" (how many answers, and how
        many of them said no label, with the canary and without), "repeats" ("prompts", "times", "differing").

    Raises
    ------
    ValueError
        The folder holds the runs of another model, pipeline or seed (the message says what differs); repeats of a
        prompt differ; a clean output that is not finite or has another length than those before; no model is named.
    BlockingIOError
        Another process is collecting into the folder.
    """
    count, where = int(positive_count("runs", runs, minimum=2)), Path(folder)
    header = {**pipeline.provenance, "seed": int(positive_count("seed", seed, minimum=0))}
    if not isinstance(header.get("model"), str) or not header["model"]:
        raise ValueError(f"provenance of the pipeline must name its model, got {header.get('model')!r}")
    streams = _streams(seed, count + 1)
    with locked(where / ".lock", f"another process is collecting into {where}"):
        _same_collection(where / _HEADER, header)
        repeats = _repeats(pipeline, next(streams))
        if temperature_zero and repeats["differing"]:
            raise ValueError(
                f"model {header['model']!r} must answer at temperature 0, got {repeats['differing']} of "
                f"{repeats['prompts']} prompts answered differently in {repeats['times']} repeats: set its "
                "temperature to 0, or pass temperature_zero=False if randomness is meant"
            )
        found, fresh = [], 0
        with tqdm(total=count, desc=header["model"], unit="run", disable=_hidden(progress)) as bar:
            for number, stream in enumerate(streams):
                file = where / f"run-{number:06d}.json"
                run = _kept(file)
                if run is None:
                    run = {side: _asked(pipeline, side == SIDES[0], stream) for side in SIDES}
                    write_atomic(file, json.dumps({**run, "sha256": sha256_json(run)}))
                    fresh += 1
                found.append(run)
                off = [sum(past[side]["off_label"] for past in found) for side in SIDES]
                bar.set_postfix(asked=fresh, off_label=sum(off), refresh=False)
                bar.update()
    answers = [sum(run[side]["answers"] for run in found) for side in SIDES]
    with_canary, without_canary = (_rows(side, [run[side]["statistic"] for run in found]) for side in SIDES)
    counted = {"runs": count, "answers": answers, "off_label": off, "repeats": repeats}
    return Snapshot(with_canary, without_canary, {**header, **counted})


def load(path: str | Path, model: str) -> Snapshot:
    """Read a snapshot that a given model made.

    Parameters
    ----------
    path : path
        As `Snapshot.save` wrote it.
    model : str
        The name of the model under audit.

    Raises
    ------
    ValueError
        Another model made it, or it does not say which; and as `Snapshot.load`.
    """
    snapshot = Snapshot.load(path)
    made_by = snapshot.provenance.get("model")
    if made_by != model:
        raise ValueError(f"model must be the one that made {path}, {made_by!r}, got {model!r}")
    return snapshot


def off_label_share(snapshot: Snapshot) -> tuple[float, float]:
    """Share of the answers that said no label, with the canary and without; as `collect` counted them."""
    shares = [
        off / max(answers, 1)
        for off, answers in zip(snapshot.provenance["off_label"], snapshot.provenance["answers"], strict=True)
    ]
    return shares[0], shares[1]


def _streams(seed: int, number: int) -> Iterator[np.random.SeedSequence]:
    # One after the other: the first is for the repeats, so run i has the same stream however many runs there are.
    root = np.random.SeedSequence(seed)
    return (root.spawn(1)[0] for _ in range(number))


def _asked(pipeline: Pipeline, canary: bool, stream: np.random.SeedSequence) -> dict[str, Any]:
    run = pipeline.clean(canary, np.random.default_rng(stream))
    row = finite("clean output", getattr(run, "statistic", run))
    if row.ndim != 1 or not row.size:
        raise ValueError(f"clean output must have shape (d,), got {row.shape}")
    return {
        "statistic": row.tolist(),
        "off_label": int(getattr(run, "off_label", 0)),
        "answers": int(getattr(run, "answers", 1)),
    }


def _repeats(pipeline: Pipeline, stream: np.random.SeedSequence) -> dict[str, int]:
    repeated = getattr(pipeline, "repeats", None)
    if repeated is not None:
        prompts, times, differing = repeated(REPEATS, np.random.default_rng(stream))
        return {"prompts": int(prompts), "times": int(times), "differing": int(differing)}
    # Of a pipeline that cannot be asked for its prompts, the whole run is repeated, on either side.
    differing = 0
    for canary in (True, False):
        rows = [_asked(pipeline, canary, stream)["statistic"] for _ in range(REPEATS)]
        differing += any(row != rows[0] for row in rows)
    return {"prompts": 2, "times": REPEATS, "differing": differing}


def _same_collection(file: Path, header: Mapping[str, Any]) -> None:
    try:
        known = json.loads(file.read_bytes())
    except FileNotFoundError:
        write_atomic(file, json.dumps(header, indent=1, sort_keys=True, allow_nan=False))
        return
    wanted = json.loads(json.dumps(header))
    differs = sorted(key for key in {*known, *wanted} if known.get(key) != wanted.get(key))
    if differs:
        shown = ", ".join(f"{key} ({known.get(key)!r:.60}, now {wanted.get(key)!r:.60})" for key in differs)
        raise ValueError(f"{file.parent} must hold runs of this pipeline, got those of another: {shown}")


def _kept(file: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError):  # damaged: the run is made again
        run = json.loads(file.read_bytes())
        if isinstance(run, dict) and run.pop("sha256", None) == sha256_json(run):
            return run
    return None


def _rows(side: str, statistics: list[list[float]]) -> np.ndarray:
    lengths = {len(row) for row in statistics}
    if len(lengths) > 1:
        raise ValueError(f"clean outputs {side} must have one length, got {sorted(lengths)}")
    return np.array(statistics, dtype=np.float64)


def _hidden(progress: bool | None) -> bool | None:
    return None if progress is None else not progress
