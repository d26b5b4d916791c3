"""The audit card as markdown, fit for an appendix, and its summary for a terminal.

Every number stands beside where it comes from: claimed, recomputed (with which accountant), or audited. What a user
wrote is printed as text: it can neither break a table nor become markup.
"""

from collections import Counter
from collections.abc import Sequence

from dprepro.audits.audit_card_claim import Claim
from dprepro.audits.audit_card_findings import AGREES, MISSING, NOTE, REJECTED, WRONG, Finding, shown
from dprepro.audits.audit_card_keys import KEYS, SECTIONS

COMPLETE, INSUFFICIENT, CONTRADICTED = "COMPLETE", "INSUFFICIENT", "WRONG BY ITS OWN NUMBERS"

_MEANING = {
    COMPLETE: "Everything that such a claim must report is there, and its numbers agree with one another.",
    INSUFFICIENT: "The claim cannot be judged from what it reports.",
    CONTRADICTED: "The claim contradicts numbers that it reports itself.",
}
_COMPUTED = {
    "guarantee.rdp": "epsilon, Renyi account",
    "guarantee.pld": "epsilon, PLD account",
    "guarantee.each_once": "epsilon, each record once an epoch",
    "guarantee.full_participation": "epsilon, every record in every step",
    "membership.bound": "Audited epsilon",
    "extraction.rate": "Share extracted",
    "coverage.nothing": "Coverage",
}
_REMARKS = {
    WRONG: "**Wrong.** ",
    REJECTED: "**Does not support the claim.** ",
    MISSING: "**Missing.** ",
    AGREES: "Agrees. ",
    NOTE: "",
}
_DECISIVE = {WRONG: "Wrong", REJECTED: "Does not support the claim", MISSING: "Missing"}
_COUNTED = {WRONG: "wrong", REJECTED: "not supporting the claim", MISSING: "missing"}

_NO_VERDICT_ON_EPSILON = (
    "**No epsilon is called safe here.** Which loss of privacy is bearable depends on the data, on the people in it "
    "and on who attacks, and none of that is in a claim. Epsilon is an upper bound in the worst case; an attack "
    "gives a lower bound. The truth lies between them, if both are right."
)
_NOT_CHECKED = (
    "whether the code does what the parameters say: clips the gradient of each unit, draws batches as stated, adds "
    "this noise from a sound generator;",
    "whether clipping_norm, sample_rate and dataset_size are per unit of privacy (a guarantee for users needs all "
    "three per user) and whether the canaries are of that unit;",
    "whether canaries, counts and outcomes are as reported: they are taken from the claim;",
    "other releases of the same data, such as earlier models, whose losses add up with this one;",
    "whether this epsilon is bearable for anybody.",
)
_REFERENCES = (
    "Abadi et al., *Deep Learning with Differential Privacy*, 2016, arXiv 1607.00133: DP-SGD and its account.",
    "Ponomareva et al., *How to DP-fy ML*, 2023, arXiv 2303.00654: what a stated guarantee must report.",
    "Chua et al., *How Private are DP-SGD Implementations?*, 2024, arXiv 2403.17673: shuffled batches.",
    "Steinke, Nasr, Jagielski, *Privacy Auditing with One (1) Training Run*, 2023, arXiv 2305.08846.",
    "Panda et al., *Privacy Auditing of Large Language Models*, 2025, arXiv 2503.06808: new-token canaries.",
    "Duan et al., *Do Membership Inference Attacks Work on Large Language Models?*, 2024, arXiv 2402.07841: attacks "
    "on members of the Pile, without inserted canaries.",
    "*Differential privacy for LLMs*, public lesson: github.com/rohitg00/ai-engineering-from-scratch, phase 18, "
    "lesson 22.",
)


def verdict(findings: Sequence[Finding]) -> str:
    """Return COMPLETE, INSUFFICIENT or WRONG BY ITS OWN NUMBERS; none of them calls an epsilon safe."""
    statuses = {finding.status for finding in findings}
    if WRONG in statuses:
        return CONTRADICTED
    return INSUFFICIENT if statuses & {REJECTED, MISSING} else COMPLETE


def card(claim: Claim, findings: Sequence[Finding]) -> str:
    """Return the whole card."""
    outcome = verdict(findings)
    lines = [
        f"# Audit card: {_plain(claim['claim.title'] or 'a system without a name')}",
        "",
        f"**{outcome}.** {_MEANING[outcome]} {_counts(findings)}".rstrip(),
        "",
    ]
    if claim["claim.statement"]:
        published = f" ({_plain(claim['claim.source'])})" if claim["claim.source"] else ""
        lines += [f"> {_plain(claim['claim.statement'])}{published}", ""]
    lines += [*_table(("epsilon", "at delta", "where it comes from"), _epsilons(claim, findings)), ""]
    lines += [_NO_VERDICT_ON_EPSILON, ""]
    decisive = [finding for status in _DECISIVE for finding in findings if finding.status == status]
    if decisive:
        lines += ["## What decides the verdict", ""]
        lines += [
            f"{place}. **{_DECISIVE[one.status]}: {label(one.item)}.** {one.text}"
            for place, one in enumerate(decisive, 1)
        ]
        lines.append("")
    for section, title in SECTIONS.items():
        rows = [_row(finding) for finding in findings if finding.item.startswith(f"{section}.")]
        if section != "claim" and rows:
            lines += [f"## {title}", "", *_table(("item", "value", "source", "remark"), rows), ""]
    lines += ["## What this card did not check", "", *(f"- {text}" for text in _NOT_CHECKED), ""]
    lines += ["## References", "", *(f"- {text}" for text in _REFERENCES), ""]
    lines.append(
        f"Written by `dprepro audit-card` from {_plain(claim.name)}, SHA-256 `{claim.sha256}`. Epsilon is in nats. "
        "Differences below one per cent count as rounding."
    )
    return "\n".join(lines) + "\n"


def summary(claim: Claim, findings: Sequence[Finding]) -> str:
    """Return the verdict, the epsilons and what decides, for a terminal."""
    outcome = verdict(findings)
    lines = [f"{outcome}: {_counts(findings) or _MEANING[outcome]}"]
    lines += [f"  epsilon {value}, {source}" for value, _, source in _epsilons(claim, findings)]
    for status in (WRONG, REJECTED):
        lines += [f"  {status}: {one.item}: {one.text}" for one in findings if one.status == status]
    missing = [finding.item for finding in findings if finding.status == MISSING]
    return "\n".join([*lines, f"  missing: {', '.join(missing)}"] if missing else lines)


def label(item: str) -> str:
    """Return the name of a key or a computed number as cards print it."""
    return KEYS[item].label if item in KEYS else _COMPUTED[item]


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.status for finding in findings)
    parts = [f"{counts[status]} {words}" for status, words in _COUNTED.items() if counts[status]]
    return f"Of {len(findings)} items: {', '.join(parts)}." if parts else ""


def _epsilons(claim: Claim, findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    delta = claim["guarantee.delta"]
    at = "not given" if delta is None else shown(delta)
    rows = []
    for finding in findings:
        if finding.item == "guarantee.epsilon":
            value = finding.value or "not given"
            named = shown(claim["guarantee.accountant"] or "no accountant named")
            rows.append((value, at, f"claimed ({named})"))
        elif finding.item.startswith("guarantee.") and finding.item in _COMPUTED:
            rows.append((finding.value, at, f"{finding.source}: {finding.text}"))
        elif finding.item == "membership.bound":
            rows.append((f"at least {finding.value}", at, finding.source))
    return rows


def _row(finding: Finding) -> tuple[str, str, str, str]:
    remark = _REMARKS.get(finding.status, "") + finding.text
    return label(finding.item), _plain(finding.value), finding.source, remark


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    cells = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(row) + " |" for row in cells]


def _plain(text: str) -> str:
    """Text of a user as markdown that shows it as it is, on one line."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#&$~" else sign for sign in " ".join(text.split()))
