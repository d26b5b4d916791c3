"""The audit card of a privacy claim about a language-model deployment: read it, check it, write it down.

The form is that of the artifact which the public lesson "Differential privacy for LLMs" asks for
(rohitg00/ai-engineering-from-scratch, phase 18, lesson 22). A card says what is claimed, what the claim's own
numbers give, what its evidence supports and what is missing. It never says that an epsilon is safe: which loss is
bearable depends on the data, the people in it and who attacks, and none of that is in a claim.
"""

import math
import os
from dataclasses import replace
from pathlib import Path

from dprepro.audits.audit_card_attacks import attack_findings
from dprepro.audits.audit_card_claim import Claim, read_claim
from dprepro.audits.audit_card_epsilon import epsilon_findings
from dprepro.audits.audit_card_findings import (
    COMPUTED,
    MISSING,
    NOTE,
    REJECTED,
    ROUNDING,
    STATED,
    WRONG,
    Finding,
    brief,
    claimed,
)
from dprepro.audits.audit_card_keys import KEYS
from dprepro.audits.audit_card_text import COMPLETE, card, summary, verdict
from dprepro.base.store import write_atomic

NOT_COMPLETE = 3  # exit status

_OUTSIDE = {
    "coverage.pre_training": "What the model memorised in pre-training is outside this epsilon.",
    "coverage.fine_tuning": "The data of the fine-tuning are outside this epsilon.",
    "coverage.prompts": "Texts in prompts are outside this epsilon and can come out in answers.",
    "coverage.retrieval": "Documents that are looked up are outside this epsilon and can come out in answers.",
    "coverage.hyperparameters": "Runs that chose the settings touched private data and are outside this epsilon.",
}


def check(claim: Claim) -> list[Finding]:
    """Return everything that a card says about a claim, key by key.

    Parameters
    ----------
    claim : Claim
        From `read_claim`. What it lacks becomes a finding.

    Returns
    -------
    list of Finding
        In the order of the keys; numbers computed here stand after the keys of their section.
    """
    accounts = epsilon_findings(claim)
    found = [*accounts, *_against(accounts, attack_findings(claim)), *_coverage(claim)]
    for key in KEYS.values():
        if claim[key.name] is None:
            if key.why and key.needed(claim.values):
                found.append(Finding(key.name, MISSING, key.why))
        elif not any(finding.item == key.name for finding in found):
            found.append(claimed(claim, key.name, STATED, ""))
    places = {name: place for place, name in enumerate(KEYS)}
    ends = {name.partition(".")[0]: place + 0.5 for name, place in places.items()}
    return sorted(found, key=lambda one: places.get(one.item, ends[one.item.partition(".")[0]]))


def _against(accounts: list[Finding], attacks: list[Finding]) -> list[Finding]:
    """Hold the audited lower bound against the epsilon of the stated parameters, whatever is claimed."""
    computed = {one.item.partition(".")[2]: _number(one) for one in accounts if one.status == COMPUTED}
    # Where batches were not drawn by Poisson sampling, only the first two cover what was done.
    covering = [computed[name] for name in ("each_once", "full_participation") if name in computed]
    limit = min(covering or [computed[name] for name in ("rdp", "pld") if name in computed], default=math.inf)
    found = []
    for one in attacks:
        if one.item == "membership.bound" and _number(one) > (1 + ROUNDING) * limit:
            text = (
                f"{one.text} It lies above {brief(limit)}, the most that the stated parameters allow: either the "
                "code does not do what is stated, or the counts are not what they are said to be."
            )
            found.append(replace(one, status=WRONG, text=text))
        else:
            found.append(one)
    return found


def _number(finding: Finding) -> float:
    return float(finding.value.replace(",", "").replace("infinite", "inf"))


def audit_card(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> int:
    """Write the card of a claim file and print a summary: the command ``dprepro audit-card``.

    Parameters
    ----------
    source : path
        The claim, TOML.
    output : path
        The card, markdown; its folder is made if missing.

    Returns
    -------
    int
        0 if the claim is complete, 3 if it is insufficient or wrong by its own numbers.

    Raises
    ------
    ValueError
        As `read_claim`, or `output` is the claim itself or a folder.
    OSError
        A file cannot be read or written.
    """
    claim = read_claim(source)
    if Path(output).is_dir():
        raise ValueError(f"output must be a file, got the folder {output}")
    if Path(output).exists() and os.path.samefile(source, output):
        raise ValueError(f"output must be another file than the claim, got {output} for both")
    findings = check(claim)
    try:
        write_atomic(output, card(claim, findings))
    except OSError as error:
        reason = error.__cause__ or error
        raise OSError(f"cannot write {output}, choose another file with --output ({reason})") from error
    print(summary(claim, findings))
    print(f"written: {output}")
    return 0 if verdict(findings) == COMPLETE else NOT_COMPLETE


def _coverage(claim: Claim) -> list[Finding]:
    stages = {name: claim[name] for name in _OUTSIDE}
    outside = [name for name, stage in stages.items() if stage == "not-covered"]
    found = [claimed(claim, name, NOTE, _OUTSIDE[name]) for name in outside]
    if not {"covered", None} & set(stages.values()):
        found.append(Finding("coverage.nothing", REJECTED, "No data at all are under the claimed guarantee."))
    if claim["coverage.adapters_only"]:
        text = "The guarantee is for the data that trained the adapters; the fixed base model is outside it."
        found.append(claimed(claim, "coverage.adapters_only", NOTE, text))
    return found
