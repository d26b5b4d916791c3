"""One line of an audit card: what was found about an item of a claim, and how a value is printed."""

import math
from dataclasses import dataclass
from typing import Any

from dprepro.audits.audit_card_claim import Claim

# How a finding stands to the claim, the gravest first.
WRONG = "wrong"  # contradicts the claim's own numbers
REJECTED = "rejected"  # is there, and does not support the claim
MISSING = "missing"
NOTE = "note"  # must be known to read the claim; decides nothing
AGREES = "agrees"  # compared with what is computed here, and in agreement
COMPUTED = "computed"  # a number that was computed here
STATED = "stated"  # given, nothing to compare

ROUNDING = 0.01  # relative: printed numbers are rounded, and accountants differ by about as much

_PRINTED = {
    "dp-sgd": "DP-SGD",
    "pld": "PLD",
    "prv": "PRV",
    "rdp": "RDP",
    "zcdp": "zCDP",
    "gdp-clt": "GDP, central limit",
    "moments": "moments accountant",
    "not-covered": "not covered",
    "not-used": "not used",
    "public-data": "public data",
}


@dataclass(frozen=True)
class Finding:
    """One line of a card.

    Attributes
    ----------
    item : str
        The key that it is about ("guarantee.delta"), or "section.name" of a number that was computed here.
    status : str
        WRONG, REJECTED, MISSING, NOTE, AGREES, COMPUTED or STATED.
    text : str
        What was found and why it matters; empty where the value says all.
    value : str
        The number or name, as printed.
    source : str
        Where the value comes from: claimed, recomputed (with which accountant) or audited.
    """

    item: str
    status: str
    text: str
    value: str = ""
    source: str = ""


def shown(value: Any) -> str:
    """Return a value as a card prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return "infinite" if math.isinf(value) else f"{value:.6g}".replace("e-0", "e-")
    return f"{value:,}" if isinstance(value, int) else _PRINTED.get(value, value)


def claimed(claim: Claim, item: str, status: str, text: str) -> Finding:
    """Return a finding about the value of a key of the claim."""
    return Finding(item, status, text, shown(claim[item]), "claimed")


def brief(epsilon: float) -> str:
    """Return an epsilon to four digits, or "infinite"."""
    return shown(float(f"{epsilon:.4g}"))
