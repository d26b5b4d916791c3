"""Canaries in a real task: snippets of film reviews, logistic regression by DP-SGD, three designs in one model.

Each training holds the same records and, by a fair coin each, canaries of three designs (``canary_designs``):
arbitrary records with a random label, records that carry a token of their own, and tokens of their own alone. All are
scored on the same trained model, so designs differ in nothing else. Features are hashed words scaled to one norm:
neither a vocabulary nor a weight is learned from the data, which no account of DP-SGD would cover.

The saved result ``canary_detection`` keeps what audits need of every training (`trainings`).
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.audits.canary import canary_scores, detection_rate
from dprepro.audits.canary_designs import arbitrary_canaries, own_token_canaries
from dprepro.audits.canary_one_run import one_run_audit
from dprepro.base.check import one_of
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel, with_canaries
from dprepro.text import corpora

FloatArray = NDArray[np.float64]

DESIGNS = ("arbitrary", "record + own token", "own token")
SCORES = ("loss", "drop")
PLAIN = "plain"  # neither clipped nor noised
FLAWED = "flawed "  # noise for a share 1/n of the sum where 1/(q n) is what it is divided by
_NO_CLIPPING = 1e6
_CLEAR = 1.0  # snippets rated closer to neutral than this are left out


@dataclass(frozen=True)
class Task:
    """Records, canaries of every design in the order of `DESIGNS`, and records for testing.

    Attributes
    ----------
    x, y : ndarray, shapes (records, d) and (records,)
        d is the number of hashed features and one own column for each canary with a token of its own.
    canaries_x, canaries_y : ndarray, shapes (3 each, d) and (3 each,)
    test_x, test_y : ndarray
    """

    x: FloatArray
    y: FloatArray
    canaries_x: FloatArray
    canaries_y: FloatArray
    test_x: FloatArray
    test_y: FloatArray

    @property
    def each(self) -> int:
        """Canaries of each design."""
        return len(self.canaries_y) // len(DESIGNS)


class Run(NamedTuple):
    """One training: which canaries were in, and scores, shape (scores, designs, canaries of each)."""

    included: NDArray[np.bool_]
    scores: FloatArray
    accuracy: float


@lru_cache(maxsize=2)
def movie_task(records: int, each: int, features: int, norm: float, data_seed: int) -> Task:
    """Build the task from the packaged movie snippets.

    Parameters
    ----------
    records : int
        Training records besides the canaries.
    each : int
        Canaries of each design.
    features : int
        Columns that words are hashed to.
    norm : float
        Of every record and canary.
    data_seed : int
        Draws which snippets are records, and the labels of canaries.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    rng = np.random.default_rng(data_seed)
    corpus = corpora.corpus("movies").without_copies()
    hashed = HashingVectorizer(n_features=features, norm="l2", stop_words="english")
    sides = {}
    for side in ("train", "test"):
        table = corpus.split(side).table
        table = table[table["sentiment"].abs() >= _CLEAR]
        x = norm * hashed.transform(table["text"]).toarray()
        sides[side] = np.pad(x, ((0, 0), (0, 2 * each))), (table["sentiment"].to_numpy() > 0).astype(float)
    x, y = sides["train"]
    order = rng.permutation(len(x))
    data, pool = order[:records], order[records:]
    arbitrary, labels = arbitrary_canaries(x[pool], y[pool], each, rng)
    carriers, _ = arbitrary_canaries(x[pool], y[pool], each, rng)
    own = np.arange(features, features + 2 * each).reshape(2, each)
    canaries = [
        arbitrary,
        own_token_canaries(x, own[0], norm, records=carriers),
        own_token_canaries(x, own[1], norm),
    ]
    # Both labels: a hundred canaries that pull the bias one way would cost the model its accuracy.
    coins = rng.integers(0, 2, 2 * each).astype(float)
    return Task(x[data], y[data], np.vstack(canaries), np.append(labels, coins), *sides["test"])


def mechanism(
    level: str, clipping_norm: float, sample_rate: float, steps: int, learning_rate: float
) -> DPSGD:
    """Return the training of a level: "plain", a noise multiplier, or "flawed " and the multiplier it claims.

    Notes
    -----
    The flaw: code that averages first and adds noise of sigma C/n to the average of a batch of about q n records, as
    if the average were over all n. That is DP-SGD with a noise multiplier of q sigma.
    """
    sgd = DPSGD(0.0, clipping_norm, sample_rate, steps, learning_rate)
    if level == PLAIN:
        return replace(sgd, clipping_norm=_NO_CLIPPING)
    if level.startswith(FLAWED):
        return replace(sgd, noise_multiplier=sample_rate * float(level.removeprefix(FLAWED)))
    return replace(sgd, noise_multiplier=float(level))


def run(task: Task, sgd: DPSGD, reference: LogisticModel, rng: np.random.Generator) -> Run:
    """Throw the coins, train once, and score all canaries by their loss and by its drop against a reference."""
    included = rng.random(len(task.canaries_y)) < 0.5
    x, y = with_canaries(task.x, task.y, task.canaries_x, task.canaries_y, included)
    # Divided by a number that does not depend on the coins, as the account assumes.
    model = sgd.fit(x, y, rng, records=len(task.y) + len(included))
    losses = model.loss(task.canaries_x, task.canaries_y)
    before = reference.loss(task.canaries_x, task.canaries_y)
    shape = (len(DESIGNS), task.each)
    scores = np.stack([canary_scores(losses), canary_scores(losses, before)]).reshape(len(SCORES), *shape)
    return Run(included.reshape(shape), scores, model.accuracy(task.test_x, task.test_y))


def trainings(
    key: str,
    rng: np.random.Generator,
    *,
    runs: int,
    guesses: list[int],
    kept: int,
    fpr: float,
    records: int,
    each: int,
    features: int,
    norm: float,
    data_seed: int,
    clipping_norm: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
) -> dict[str, Any]:
    """Train many times at one level; one item of the saved result ``canary_detection``.

    Parameters
    ----------
    key : str
        "<level>, <part>", the level as in `mechanism`.
    rng : Generator
    runs : int
        Trainings of this item.
    guesses : list of int
        Numbers of guesses a run at which audits are made.
    kept : int
        Canaries of each design whose score is kept for every training.
    fpr : float
        Where the detection rate within a training is taken.
    records, each, features, norm, data_seed
        As of `movie_task`.
    clipping_norm, sample_rate, steps, learning_rate
        As of `mechanisms.dp_sgd.DPSGD`.

    Returns
    -------
    dict
        accuracy (runs,); "<design>, <score>, right <guesses>" (runs,), right guesses by `one_run_audit`;
        "<design>, <score>, detection" (runs,), the detection rate within each training; "<design>, included" and
        "<design>, scores" (runs, kept), coins and loss scores of the first canaries.
    """
    task = movie_task(records, each, features, norm, data_seed)
    sgd = mechanism(key.partition(", ")[0], clipping_norm, sample_rate, steps, learning_rate)
    # The auditor's own model: no canary and no noise.
    reference = replace(sgd, noise_multiplier=0.0).fit(task.x, task.y, rng)
    found = [run(task, sgd, reference, rng) for _ in range(runs)]
    item: dict[str, Any] = {"accuracy": _rounded([one.accuracy for one in found])}
    for d, design in enumerate(DESIGNS):
        item[f"{design}, included"] = [one.included[d, :kept].astype(int).tolist() for one in found]
        item[f"{design}, scores"] = [_rounded(one.scores[0, d, :kept]) for one in found]
        for s, score in enumerate(SCORES):
            pairs = [(one.scores[s, d], one.included[d]) for one in found]
            audits = [
                [one_run_audit(*pair, 0.0, guesses=r, rng=rng).correct for r in guesses] for pair in pairs
            ]
            for number, right in zip(guesses, zip(*audits, strict=True), strict=True):
                item[f"{design}, {score}, right {number}"] = list(right)
            detected = [detection_rate(at[coin], at[~coin], fpr).rate for at, coin in pairs]
            item[f"{design}, {score}, detection"] = _rounded(detected)
    return item


def collected(saved: dict[Any, dict[str, Any]], level: str, quantity: str) -> NDArray[Any]:
    """Return one quantity of all trainings at a level, in order, from the saved items.

    Parameters
    ----------
    saved : dict
        As `base.results.load("canary_detection")` returns it.
    level, quantity : str
        Such as "0.5" and "own token, loss, right 50": a key of what `trainings` returns.

    Raises
    ------
    ValueError
        For a level that was not trained or a quantity that was not kept.
    """
    parts = [key.partition(", ")[0] for key in saved]
    one_of("level", level, sorted(set(parts)))
    items = [item for part, item in zip(parts, saved.values(), strict=True) if part == level]
    one_of("quantity", quantity, list(items[0]))
    return np.concatenate([np.asarray(item[quantity]) for item in items])


def _rounded(values: Any) -> list[float]:
    # Six digits: sums differ in their last bits between processors.
    return [float(f"{value:.6g}") for value in values]
