"""The published account of PMixED against what happens, at each sampling rate that the public code tries.

Setting of arXiv 2403.15638: epsilon 8, delta 1e-5, order 3, 80 experts, 1,024 queries. For one sampling rate: what
the account grants a query, what the worst neighbours of a ball of its radius lose, how much delta a rare word needs
over all queries; the same for the account that holds. The saved result ``pmixed_sweep`` has a rate an item.
"""

from typing import Any

import numpy as np

from dprepro.audits.pmixed_worst import rare_word_delta, worst_case
from dprepro.mechanisms.pmixed import PMixED

ACCOUNTS = ("published", "sound")


def report(
    key: str,
    rng: np.random.Generator,
    *,
    epsilon: float,
    order: int,
    n_experts: int,
    n_queries: int,
    delta: float,
) -> dict[str, Any]:
    """Return one item.

    Parameters
    ----------
    key : str
        The sampling rate: "0.03".
    rng : Generator
        Not used: nothing is drawn.
    epsilon, order, n_experts, n_queries, delta
        As `PMixED`.

    Returns
    -------
    dict
        granted: Renyi loss a query may have. For each account, with its name in front ("published, radius"): radius
        (two experts drawn); loss, of the worst neighbours found for that radius (a lower bound of the largest);
        delta, needed at the claimed epsilon by the word that needs most, of those on a grid; word, its public
        probability, and others, that in the other experts.
    """
    granted = PMixED(epsilon, delta, order, float(key), n_experts, n_queries).rdp_per_query
    found: dict[str, Any] = {"granted": granted}
    for account in ACCOUNTS:
        mechanism = PMixED(epsilon, delta, order, float(key), n_experts, n_queries, account)
        radius = mechanism.radius(2)
        worst = worst_case(radius, order, float(key), n_experts, mechanism.reverse_order)
        needed = {
            (word, word * rarer): rare_word_delta(mechanism, word, word * rarer)
            for word in np.logspace(-9, -5, 9)
            for rarer in (1e-2, 1e-5)
        }
        word, others = max(needed, key=lambda pair: needed[pair])
        parts = {
            "radius": radius,
            "loss": worst.rdp,
            "delta": needed[word, others],
            "word": word,
            "others": others,
        }
        found |= {f"{account}, {part}": float(value) for part, value in parts.items()}
    return found
