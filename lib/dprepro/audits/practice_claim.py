"""A privacy claim to practise on: a claim file about a language model that does not exist, drawn from a seed.

For the lab on audit cards. The numbers fit together as those of a real report do (an account of DP-SGD, a membership
test in one run), but for some faults that reports are known for:

- epsilon is that of one epoch, or of the central-limit account, which is no bound (``mechanisms.accounting``);
- delta is above 1/N;
- the batches were shuffled and accounted as Poisson samples: Chua et al., "How Private are DP-SGD Implementations?"
  (2024, arXiv 2403.17673), Annamalai et al., "To Shuffle or not to Shuffle" (2024, arXiv 2411.10614);
- the canaries of the membership test are arbitrary ones (Panda et al. 2025, arXiv 2503.06808);
- confidence scores are exposed and no attack through them was tried;
- some of what has to be reported is not there.

Each seed has its own numbers and its own two to four of the first five faults; two facts are always missing.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from dprepro.base.check import one_of, positive_count
from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.stats.gdp import mu_to_epsilon
from dprepro.stats.one_run import epsilon_one_run

Tables = dict[str, dict[str, Any]]

_FAULTS = ("epsilon", "delta", "sampling", "canaries", "confidences")
# What a report most often forgets; the lab's arithmetic needs none of it.
_FORGOTTEN = (
    "guarantee.unit",
    "guarantee.neighbours",
    "mechanism.clipping_norm",
    "coverage.prompts",
    "coverage.pre_training",
    "coverage.hyperparameters",
)
_CANARIES = 1000
_ALPHA = 0.05
_SHOWABLE = 3.5  # so much a test shows even with the fewest guesses that are drawn


@lru_cache(maxsize=8)
def practice_claim(seed: int) -> str:
    """Draw a claim.

    Parameters
    ----------
    seed : int
        At least 0. The same seed gives the same claim.

    Returns
    -------
    str
        A claim file in TOML, as ``audits.audit_card_claim.parse_claim`` reads it.

    Raises
    ------
    ValueError
        If the seed is not a whole number of at least 0.
    """
    rng = np.random.default_rng([int(positive_count("seed", seed, minimum=0)), 22])
    faults = {str(name) for name in rng.choice(_FAULTS, size=rng.integers(2, 5), replace=False)}
    tables = _training(rng, faults)
    account = str(rng.choice(("one-epoch", "gdp-clt") if "epsilon" in faults else ("rdp", "pld")))
    epsilon = math.ceil(100 * _claimed_by(account, tables)) / 100
    named = "pld" if account == "one-epoch" else account
    tables["guarantee"] |= {"epsilon": epsilon, "accountant": named}
    tables["membership"] = _membership(rng, faults, tables)
    tables |= _rest(rng, faults)
    for name in rng.choice(_FORGOTTEN, size=2, replace=False):
        section, _, key = str(name).partition(".")
        del tables[section][key]
    statement = f"Your data is safe with us: trained with differential privacy (epsilon = {epsilon:.2f})."
    return _toml({"claim": {"title": "Assistant of a mail service", "statement": statement}, **tables})


@lru_cache(maxsize=64)
def account_of(account: str, noise_multiplier: float, batches: int, epochs: int, delta: float) -> float:
    """Epsilon of a training by one of the accounts that claims use, rightly or wrongly.

    Parameters
    ----------
    account : {"rdp", "pld", "one-epoch", "gdp-clt"}
        The first two hold for all steps under Poisson sampling. "one-epoch" is the PLD account of the first epoch
        alone. "gdp-clt" is the central limit of Bu et al., "Deep Learning with Gaussian Differential Privacy" (2020):
        mu = q sqrt(T (exp(1/sigma^2) - 1)); it bounds nothing.
    noise_multiplier : float
    batches, epochs : int
        Batches in an epoch, so that the sample rate is 1/batches, and the number of epochs.
    delta : float

    Raises
    ------
    ValueError
        For another account, or an argument outside its domain.
    """
    one_of("account", account, ("rdp", "pld", "one-epoch", "gdp-clt"))
    steps = batches if account == "one-epoch" else batches * epochs
    if account == "gdp-clt":
        return float(mu_to_epsilon(math.sqrt(steps * math.expm1(noise_multiplier**-2)) / batches, delta))
    return dp_sgd_epsilon(
        noise_multiplier, 1 / batches, steps, delta, "pld" if account == "one-epoch" else account
    )


def _claimed_by(account: str, tables: Tables) -> float:
    mechanism = tables["mechanism"]
    batches = mechanism["dataset_size"] // mechanism["batch_size"]
    delta = tables["guarantee"]["delta"]
    return account_of(account, mechanism["noise_multiplier"], batches, mechanism["epochs"], delta)


def _training(rng: np.random.Generator, faults: set[str]) -> Tables:
    batch = int(rng.choice((256, 512, 1024)))
    # dataset_size is a multiple of batch_size, so that nobody has to guess how a last, smaller batch was counted.
    per_epoch = int(rng.integers(60, 200))
    guarantee = {
        "epsilon": 0.0,
        "delta": 1e-4 if "delta" in faults else 1e-6,
        "unit": str(rng.choice(("example", "user", "document"))),
        "neighbours": str(rng.choice(("zero-out", "add-or-remove"))),
    }
    mechanism = {
        "kind": "dp-sgd",
        "sampling": "shuffled" if "sampling" in faults else "poisson",
        "accounted_as": "poisson",
        "noise_multiplier": round(float(rng.uniform(0.65, 1.05)), 2),
        "clipping_norm": float(rng.choice((0.1, 0.5, 1.0))),
        "dataset_size": batch * per_epoch,
        "batch_size": batch,
        "epochs": int(rng.integers(3, 9)),
    }
    return {"guarantee": guarantee, "mechanism": mechanism}


def _membership(rng: np.random.Generator, faults: set[str], tables: Tables) -> dict[str, Any]:
    """A test in one run: its guesses are as good as the canaries, and at times too good for the claim."""
    guesses, delta = int(rng.integers(15, 31)) * 10, tables["guarantee"]["delta"]
    claimed, share, coin = tables["guarantee"]["epsilon"], rng.uniform(0.3, 0.7), rng.random() < 0.5
    if "canaries" in faults:
        correct = math.ceil(guesses * (0.5 + 0.15 * share))
    else:
        # A test can only exceed a claim that understates what the training leaks.
        room = _SHOWABLE if coin else claimed
        if coin and "sampling" not in faults:
            room = min(room, _claimed_by("pld", tables))
        target = claimed + share * (room - claimed) if room > claimed + 0.3 else share * claimed
        correct = _correct_guesses(target, guesses, delta)
    return {
        "canaries": ["arbitrary"]
        if "canaries" in faults
        else [str(rng.choice(("new-token", "most-extractable")))],
        "design": "one-run",
        "number_of_canaries": _CANARIES,
        "trainings": 1,
        "confidence": 1 - _ALPHA,
        "guesses": guesses,
        "correct_guesses": correct,
    }


def _correct_guesses(target: float, guesses: int, delta: float) -> int:
    """Least number of right guesses that shows `target`, or all of them: the bound grows with it."""
    low, high = guesses // 2, guesses
    while low < high:
        middle = (low + high) // 2
        shows = epsilon_one_run(_CANARIES, guesses, middle, delta, _ALPHA) >= target
        low, high = (low, middle) if shows else (middle + 1, high)
    return low


def _rest(rng: np.random.Generator, faults: set[str]) -> Tables:
    confidences: dict[str, Any] = {"exposed": "confidences" in faults or bool(rng.random() < 0.5)}
    if "confidences" in faults:
        confidences |= {"examined": False, "defences": ["none"]}
    elif confidences["exposed"]:
        result = "100 records matched by their scores: 3 right, 95 % interval 0.6 to 8.5 %, chance 1 %"
        confidences |= {"examined": True, "result": result, "defences": ["quantise"]}
    return {
        "extraction": {"tested": False},
        "confidences": confidences,
        "coverage": {
            "pre_training": "public-data",
            "fine_tuning": "covered",
            "adapters_only": bool(rng.random() < 0.5),
            "prompts": "not-covered",
            "retrieval": "not-used",
            "hyperparameters": "not-covered",
        },
    }


def _toml(tables: Tables) -> str:
    lines = []
    for section, table in tables.items():
        lines += [f"[{section}]", *(f"{key} = {_value(value)}" for key, value in table.items()), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
