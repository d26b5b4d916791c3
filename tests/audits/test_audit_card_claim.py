"""Claim files: what a user types wrong is told by name, with what was expected; what is missing is no error."""

import re
import tomllib

import pytest

from dprepro.audits.audit_card_claim import parse_claim, read_claim, template
from dprepro.audits.audit_card_keys import KEYS, SECTIONS


def test_values_are_read_by_section_and_key():
    claim = parse_claim('[guarantee]\nepsilon = 8\ndelta = 1e-6\nunit = "User"\naccountant = "RDP"')
    assert claim["guarantee.epsilon"] == 8.0
    assert claim["guarantee.delta"] == 1e-6
    assert (claim["guarantee.unit"], claim["guarantee.accountant"]) == ("user", "rdp")
    assert claim["mechanism.steps"] is None
    with pytest.raises(KeyError):
        claim["guarantee.epsilonn"]


def test_names_may_be_written_with_capitals_spaces_and_underscores():
    claim = parse_claim('[membership]\ncanaries = "Most Extractable"\n[mechanism]\nsampling = "full_batch"')
    assert claim["membership.canaries"] == ["most-extractable"]
    assert claim["mechanism.sampling"] == "full-batch"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Types.
        ('[guarantee]\ndelta = "1e-5"',
         "guarantee.delta must be a finite number in [0, 1), got the text '1e-5' (write it without quotes)"),
        ("[guarantee]\nepsilon = true", "guarantee.epsilon must be a finite number in [0, inf), got true"),
        ("[guarantee]\nepsilon = [8]", "guarantee.epsilon must be a finite number in [0, inf), got the list [8]"),
        ("[mechanism]\nsteps = 1.5", "steps must be a whole number from 1 to 1,000,000,000,000, got 1.5"),
        ("[mechanism]\nsteps = false", "steps must be a whole number from 1 to 1,000,000,000,000, got false"),
        ("[mechanism]\nsteps = 2024-01-01", "got the date or time 2024-01-01"),
        ("[claim]\ntitle = 3", "claim.title must be a text, got 3"),
        ('[confidences]\nexposed = "no"',
         "must be true or false, got the text 'no' (write true or false, without quotes)"),
        ("[confidences]\nexposed = 0", "confidences.exposed must be true or false, got 0"),
        ("guarantee = 8", "guarantee must be a table, written [guarantee] on a line of its own, got 8"),
        ("[[guarantee]]\nepsilon = 8", "guarantee must be a table"),
        # Domains.
        ("[guarantee]\nepsilon = inf", "got inf (an infinite value promises nothing)"),
        ("[guarantee]\nepsilon = nan", "guarantee.epsilon must be a finite number in [0, inf), got nan"),
        ("[guarantee]\nepsilon = -1", "guarantee.epsilon must be a finite number in [0, inf), got -1"),
        ("[guarantee]\ndelta = 1", "guarantee.delta must be a finite number in [0, 1), got 1"),
        ("[mechanism]\nclipping_norm = 0", "mechanism.clipping_norm must be a finite number in (0, inf), got 0"),
        ("[mechanism]\nnoise_multiplier = -0.5", "mechanism.noise_multiplier must be a finite number in"),
        ("[mechanism]\nsample_rate = 1.5", "mechanism.sample_rate must be a finite number in [1e-09, 1], got 1.5"),
        ("[mechanism]\ndataset_size = 0", "mechanism.dataset_size must be a whole number from 1 to"),
        (f"[guarantee]\nepsilon = 1{'0' * 400}", "(it is too large)"),
        (f"[mechanism]\nsteps = 1{'0' * 400}", "mechanism.steps must be a whole number"),
        ("[membership]\nconfidence = 95", "membership.confidence must be a finite number in [0.5, 1), got 95"),
        ("[membership]\nguesses = 1000001", "membership.guesses must be a whole number from 0 to 1,000,000, got"),
        # Names.
        ('[mechanism]\nsampling = "poison"', "got the text 'poison' (did you mean 'poisson'?)"),
        ('[membership]\ncanaries = ["none", "arbitrary"]', '("none" stands alone)'),
        ("[membership]\ncanaries = []", '(for none write "none")'),
        ("[membership]\ncanaries = [1]", "membership.canaries must be a list of some of"),
        # Keys.
        ("[guarantee]\nepsilom = 8", "unknown key guarantee.epsilom: did you mean guarantee.epsilon?"),
        ("epsilon = 8", "unknown key epsilon: did you mean guarantee.epsilon?"),
        ("[mechanism]\ndelta = 1e-5", "unknown key mechanism.delta: did you mean guarantee.delta?"),
        ("[guarantee]\nzzz = 8", "unknown key guarantee.zzz (the keys of [guarantee] are epsilon, delta,"),
        ("[garantee]\nepsilon = 8", "unknown table [garantee]: did you mean guarantee?"),
        ("[guarantee.more]\nepsilon = 8", "unknown key guarantee.more"),
        # No TOML.
        ("[guarantee]\nepsilon 8", "must be TOML: Expected '=' after a key in a key/value pair (at line 2"),
        ("[guarantee]\nepsilon = 8\nepsilon = 8\n", "must be TOML: Cannot overwrite a value (at line 3"),
        ("[guarantee]\nepsilon = \n", "must be TOML: Invalid value (at line 2"),
        ("x = " + "[" * 5000, "must be TOML"),
    ],
)  # fmt: skip
def test_what_is_typed_wrong_is_named(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        parse_claim(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml")
    assert len(str(caught.value)) < 400


def test_all_errors_are_told_at_once():
    with pytest.raises(ValueError) as caught:
        parse_claim('[guarantee]\nepsilon = "8"\nunti = "user"\n[mechanism]\nsteps = true')
    assert [line.split()[0] for line in str(caught.value).splitlines()[1:]] == [
        "guarantee.epsilon",
        "unknown",
        "mechanism.steps",
    ]


def test_files(tmp_path):
    path = tmp_path / "claim.toml"
    with pytest.raises(FileNotFoundError, match="there is no such file .*--template"):
        read_claim(path)
    path.write_bytes(b'[claim]\ntitle = "caf\xe9"\n')
    with pytest.raises(ValueError, match="claim.toml, line 2: must be UTF-8, got the byte 0xe9"):
        read_claim(path)
    path.write_bytes(b"\xef\xbb\xbf[guarantee]\r\nepsilon = 8\r\n")  # as some editors write it
    assert read_claim(path)["guarantee.epsilon"] == 8.0
    with pytest.raises(OSError):
        read_claim(tmp_path)
    path.write_bytes(b"")
    assert read_claim(path).values == {}


def test_the_template_has_every_key_and_claims_nothing():
    tables = tomllib.loads(template())
    assert [f"{table}.{key}" for table, keys in tables.items() for key in keys] == list(KEYS)
    assert parse_claim(template()).values == {}
    for key in KEYS.values():
        assert key.name.partition(".")[0] in SECTIONS
        assert key.kind.expected in template()
        assert key.hint in template()


def test_empty_texts_count_as_not_given():
    claim = parse_claim('[guarantee]\nepsilon = ""\nunit = ""\n[confidences]\nexposed = ""')
    assert claim.values == {}
