"""What a privacy claim about a language-model deployment must report: each key of a claim file and why it is there.

The list follows Ponomareva et al., "How to DP-fy ML" (2023, arXiv 2303.00654), on what a stated guarantee must
report; Abadi et al. (2016, arXiv 1607.00133) for the parameters of DP-SGD; Steinke, Nasr, Jagielski (2023, arXiv
2305.08846) and Panda et al. (2025, arXiv 2503.06808) for membership tests; and the public lesson "Differential
privacy for LLMs" (rohitg00/ai-engineering-from-scratch, phase 18, lesson 22), which asks for epsilon and delta with
their accountant, for the membership test and for the exposure of confidence scores.

A key is missing if it is needed and not given, or given as "" as the template has it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dprepro.audits.audit_card_kinds import FLAG, TEXT, Kind, choice, choices, count, number

Values = Mapping[str, Any]  # "section.key" -> value, only of keys that were given

SECTIONS = {
    "claim": "The claim",
    "guarantee": "Guarantee",
    "mechanism": "Mechanism and account",
    "membership": "Membership inference",
    "extraction": "Extraction of training text",
    "confidences": "Confidence scores",
    "coverage": "What is covered",
}

STRONG_CANARIES = ("most-extractable", "new-token")


@dataclass(frozen=True)
class Key:
    """One key of a claim file.

    Attributes
    ----------
    name : str
        "section.key".
    label : str
        As the card prints it.
    kind : Kind
        What its value must be.
    hint : str
        For the template: what to write, with an example.
    why : str
        Why its absence matters; empty for a key that may be left out.
    needed : callable
        Whether the other values of the claim ask for it.
    """

    name: str
    label: str
    kind: Kind
    hint: str
    why: str = ""
    needed: Callable[[Values], bool] = lambda values: True


def _dp_sgd(values: Values) -> bool:
    return values.get("mechanism.kind", "dp-sgd") == "dp-sgd"


def _tested(values: Values) -> bool:
    return values.get("membership.canaries") != ["none"]


def _design(name: str) -> Callable[[Values], bool]:
    return lambda values: _tested(values) and values.get("membership.design") == name


def _true(name: str) -> Callable[[Values], bool]:
    return lambda values: values.get(name) is True


_STAGE = choice("covered", "not-covered", "not-used", "public-data")

_KEYS = (
    Key("claim.title", "System", TEXT, 'the system, such as "Ticket assistant, release 3"',
        "Nobody can tell which system the claim is about."),
    Key("claim.statement", "Claim in words", TEXT, "the sentence that users are told",
        "The numbers below cannot be held against what users are told."),
    Key("claim.source", "Published in", TEXT, "where the claim stands (may be left out)"),
    Key("guarantee.epsilon", "epsilon", number(0, float("inf"), "left"), "such as 8.0",
        "Without epsilon there is no claim."),
    Key("guarantee.delta", "delta", number(0, 1, "left"), "such as 1e-6, without quotes",
        "An epsilon without its delta says nothing: the same mechanism has another epsilon at every delta."),
    Key("guarantee.unit", "Unit of privacy",
        choice("token", "sequence", "example", "document", "user", "organisation"),
        "whose change is hidden; for text, a person often has many examples",
        "Hiding one example does not hide a person who wrote a hundred of them."),
    Key("guarantee.neighbours", "Neighbouring relation", choice("add-or-remove", "replace-one", "zero-out"),
        "which two data sets count as neighbours",
        "Replacing a record moves the sum of clipped gradients up to twice as far as removing one; the same "
        "training has a larger epsilon then."),
    Key("guarantee.accountant", "Accountant",
        choice("pld", "prv", "rdp", "moments", "zcdp", "gdp-clt", "advanced-composition", "basic-composition",
               "other"),
        "how epsilon was added up over the steps",
        "Epsilon is the result of an account; without its name the number cannot be checked, and some accounts "
        "are no bounds."),
    Key("mechanism.kind", "Mechanism", choice("dp-sgd", "other"), "only dp-sgd is recomputed",
        "What the noise was added to is unknown."),
    Key("mechanism.sampling", "Batches drawn by", choice("poisson", "shuffled", "fixed-size", "full-batch"),
        "as the training did it; shuffled: every record once an epoch",
        "The account of DP-SGD holds for one way of drawing batches: Poisson sampling has another epsilon than "
        "shuffled epochs with the same noise.", _dp_sgd),
    Key("mechanism.accounted_as", "Batches accounted as", choice("poisson", "shuffled", "fixed-size", "full-batch"),
        "as the account assumed it",
        "Whether the account is for the sampling that was done cannot be seen.", _dp_sgd),
    Key("mechanism.noise_multiplier", "noise_multiplier", number(0, 1e6, "both"),
        "standard deviation of the noise over clipping_norm, such as 1.0",
        "Epsilon cannot be recomputed.", _dp_sgd),
    Key("mechanism.clipping_norm", "clipping_norm", number(0, float("inf"), "neither"),
        "Euclidean norm to which the gradient of one unit is clipped, such as 1.0",
        "Without clipping the gradient of one unit is unbounded, and no noise is enough.", _dp_sgd),
    Key("mechanism.clipping_groups", "Groups clipped apart", count(1),
        "1 if the whole gradient is clipped at once; k if k groups of parameters are clipped to clipping_norm each "
        "(may be left out: 1)"),
    Key("mechanism.dataset_size", "dataset_size N", count(1), "number of units of privacy, such as 50000",
        "Whether delta is below 1/N cannot be seen."),
    Key("mechanism.sample_rate", "sample_rate", number(1e-9, 1, "both"), "such as 0.02; or give batch_size",
        "Epsilon cannot be recomputed (batch_size with dataset_size would do as well).",
        lambda v: _dp_sgd(v) and "mechanism.batch_size" not in v and v.get("mechanism.sampling") != "full-batch"),
    Key("mechanism.batch_size", "batch_size", count(1), "expected number of units in a batch, such as 1024"),
    Key("mechanism.steps", "steps", count(1), "noisy updates in all, such as 500; or give epochs",
        "Epsilon grows with every step and cannot be recomputed (epochs would do as well).",
        lambda v: _dp_sgd(v) and "mechanism.epochs" not in v),
    Key("mechanism.epochs", "epochs", number(1e-6, 1e6, "both"), "such as 10"),
    Key("membership.canaries", "Canaries", choices("new-token", "most-extractable", "arbitrary", "members", "none"),
        'a list; members: records of the training data itself; ["none"]: no test was done',
        "An epsilon is an upper bound on paper. Only a membership test can show that the code breaks it."),
    Key("membership.design", "Design", choice("one-run", "many-trainings"),
        "one-run: many canaries, each in by its own fair coin; many-trainings: one canary, in or out",
        "Counts can be turned into a bound only if it is known what was repeated.", _tested),
    Key("membership.number_of_canaries", "Canaries, number", count(1), "such as 1000",
        "How much the test could have shown at most is unknown.", _tested),
    Key("membership.trainings", "Trainings, number", count(1), "such as 1",
        "Whether the trials are independent is unknown: canaries of one training are not.", _tested),
    Key("membership.confidence", "Confidence", number(0.5, 1, "left"), "such as 0.95",
        "A rate or a bound without its confidence is an anecdote.", _tested),
    Key("membership.guesses", "Guesses", count(0, 10**6), "one-run: canaries about which a guess was made",
        "Without counts no bound can be computed.", _design("one-run")),
    Key("membership.correct_guesses", "Right guesses", count(0, 10**6), "one-run: how many of them were right",
        "Guesses say nothing without the number of right ones.", _design("one-run")),
    Key("membership.threshold", "Threshold chosen", choice("beforehand", "held-out", "same-scores"),
        "many-trainings: on which scores the attack's threshold was chosen",
        "A threshold chosen on the scores that it is tested on gives a number, not a bound.",
        _design("many-trainings")),
    Key("membership.trials_in", "Trainings with the canary", count(1), "many-trainings",
        "Without counts no bound can be computed.", _design("many-trainings")),
    Key("membership.true_positives", "True positives", count(0), "many-trainings: 'in' said of those",
        "Without counts no bound can be computed.", _design("many-trainings")),
    Key("membership.trials_out", "Trainings without it", count(1), "many-trainings",
        "Without counts no bound can be computed.", _design("many-trainings")),
    Key("membership.false_positives", "False positives", count(0), "many-trainings: 'in' said of those",
        "Without counts no bound can be computed.", _design("many-trainings")),
    Key("membership.tpr", "TPR reported", number(0, 1, "both"), "true-positive rate (may be left out)"),
    Key("membership.fpr", "at FPR", number(0, 1, "both"), "at this false-positive rate (may be left out)"),
    Key("membership.epsilon_low", "Audited epsilon reported", number(0, float("inf"), "left"),
        "lower bound on epsilon that the test is said to show (may be left out)"),
    Key("extraction.tested", "Tested", FLAG, "true or false",
        "A membership test asks whether a text was there; extraction asks which texts come out. One does not "
        "stand for the other."),
    Key("extraction.method", "Method", TEXT, 'such as "prefixes of 50 tokens, greedy decoding"',
        "A rate of extraction belongs to a way of asking.", _true("extraction.tested")),
    Key("extraction.attempts", "Attempts", count(1), "such as 10000",
        "No extraction in ten attempts is not the same as none in a million.", _true("extraction.tested")),
    Key("extraction.extracted", "Texts extracted", count(0), "such as 0",
        "The outcome of the test is unknown.", _true("extraction.tested")),
    Key("confidences.exposed", "Probabilities exposed", FLAG,
        "true if users see probabilities, logits or scores of any kind",
        "Scores tell more than texts do: records can be found again through them."),
    Key("confidences.examined", "Inversion examined", FLAG, "true if an attack through the scores was tried",
        "Whether records can be found again through the exposed scores is unknown.", _true("confidences.exposed")),
    Key("confidences.result", "Outcome", TEXT, "what the attack achieved, with numbers",
        "An examination without an outcome supports nothing.", _true("confidences.examined")),
    Key("confidences.defences", "Defences",
        choices("none", "hide", "truncate", "quantise", "top-k", "noise", "other"),
        'a list, such as ["top-k", "quantise"]',
        "What stands between the scores and a user is unknown.", _true("confidences.exposed")),
    Key("coverage.pre_training", "Pre-training", _STAGE, "does the guarantee hold for this data?",
        "Language models memorise what they are pre-trained on."),
    Key("coverage.fine_tuning", "Fine-tuning", _STAGE, "does the guarantee hold for this data?",
        "It is unknown which data the guarantee is for."),
    Key("coverage.adapters_only", "Adapters only", FLAG, "true if only adapters (LoRA) were trained, the base fixed",
        "With adapters the guarantee is about their training data alone.",
        lambda v: v.get("coverage.fine_tuning") == "covered"),
    Key("coverage.prompts", "Prompts", _STAGE, "examples in prompts, system prompts, what users type",
        "A text in the prompt can come out in the answer, whatever the training did."),
    Key("coverage.retrieval", "Retrieved documents", _STAGE, "documents looked up at answer time",
        "A document that is looked up is copied into the prompt."),
    Key("coverage.hyperparameters", "Choice of hyperparameters", _STAGE,
        "runs on the private data that chose learning rate, steps, clipping_norm",
        "Each run on the private data that chose a setting is a release of its own."),
)  # fmt: skip

KEYS = {key.name: key for key in _KEYS}
