"""The card as a whole: three shipped claims, the verdict, the document, the exit status."""

import re
from dataclasses import replace

import mistune
import pytest

from dprepro.audits import audit_card, audit_card_text
from dprepro.audits.audit_card import check, read_claim, verdict
from dprepro.audits.audit_card_claim import parse_claim
from dprepro.audits.audit_card_findings import Finding
from dprepro.audits.audit_card_keys import KEYS
from dprepro.audits.audit_card_text import card as write
from dprepro.base.paths import DATA

EXAMPLES = {"sound": "COMPLETE", "insufficient": "INSUFFICIENT", "wrong": "WRONG BY ITS OWN NUMBERS"}


@pytest.fixture(scope="module")
def examples():
    """Claim, findings and card of each shipped claim."""
    found = {}
    for name in EXAMPLES:
        claim = read_claim(DATA / "audit_cards" / f"{name}.toml")
        findings = check(claim)
        found[name] = claim, findings, write(claim, findings)
    return found


def statuses(findings, status):
    return {one.item for one in findings if one.status == status}


class TestExamples:
    @pytest.mark.parametrize(("name", "outcome"), EXAMPLES.items())
    def test_verdicts(self, examples, name, outcome):
        _, findings, card = examples[name]
        assert verdict(findings) == outcome
        assert f"**{outcome}.**" in card

    def test_the_sound_one_lacks_nothing(self, examples):
        _, findings, _ = examples["sound"]
        assert (
            not statuses(findings, "missing") | statuses(findings, "rejected") | statuses(findings, "wrong")
        )
        assert statuses(findings, "agrees") == {"guarantee.epsilon", "membership.epsilon_low"}

    def test_the_insufficient_one_shows_what_the_lesson_rejects(self, examples):
        _, findings, _ = examples["insufficient"]
        assert {"guarantee.delta", "guarantee.accountant"} <= statuses(findings, "missing")
        assert statuses(findings, "rejected") == {
            "mechanism.sampling", "membership.canaries", "confidences.examined"
        }  # fmt: skip
        assert not statuses(findings, "wrong")

    def test_the_wrong_one_is_wrong_twice(self, examples):
        _, findings, _ = examples["wrong"]
        assert statuses(findings, "wrong") == {"guarantee.epsilon", "membership.bound"}
        assert not statuses(findings, "missing")

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_they_say_that_they_are_invented(self, examples, name):
        claim, _, card = examples[name]
        assert "invented example" in claim["claim.title"]
        assert "invented example" in card.splitlines()[0]


class TestDocument:
    @pytest.mark.parametrize("name", EXAMPLES)
    def test_every_key_given_and_every_finding_stands_in_it(self, examples, name):
        claim, findings, card = examples[name]
        for key in claim.values:
            if not key.startswith("claim."):
                assert f"| {KEYS[key].label} |" in card
        for one in findings:
            assert one.text in card
            if one.value and not one.item.startswith("claim."):
                assert one.source

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_every_value_has_a_source(self, examples, name):
        _, _, card = examples[name]
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in card.splitlines() if line.startswith("| ")]
        table = [row for row in rows if len(row) == 4 and row[0] not in (" item ", " --- ")]
        assert len(table) > 20
        for _, value, source, _ in table:
            assert bool(value.strip()) == bool(source.strip())
            assert re.fullmatch(r"(claimed|recomputed \(.+\)|audited \(.+\)|)", source.strip())

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_no_epsilon_is_called_safe(self, examples, name):
        _, _, card = examples[name]
        assert "**No epsilon is called safe here.**" in card
        assert len(re.findall(r"\b(safe|secure|harmless|private enough)\b", card, re.IGNORECASE)) == 1
        assert "What this card did not check" in card

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_it_renders(self, examples, name):
        _, _, card = examples[name]
        html = mistune.create_markdown(plugins=["table"])(card)
        assert html.count("<table>") == 7
        assert "| ---" not in html
        assert html.count("<h1>") == 1

    def test_the_papers_are_cited_as_what_they_are(self, examples):
        card = examples["sound"][2]
        for number in ("1607.00133", "2303.00654", "2403.17673", "2305.08846", "2503.06808", "2402.07841"):
            assert number in card
        assert "attacks on members of the Pile, without inserted canaries" in card

    def test_what_a_user_wrote_is_neither_markup_nor_a_table(self):
        hostile = "a | b **c** <script>x</script> [l](http://x) `d` # e ~ $f$ \\\\ line\\n| g |"
        claim = parse_claim(f'[claim]\ntitle = "{hostile}"\nstatement = "{hostile}"\n'
                            f'[extraction]\ntested = true\nmethod = "{hostile}"')  # fmt: skip
        html = mistune.create_markdown(escape=False, plugins=["table"])(write(claim, check(claim)))
        for tag in ("<script", "<a ", "<code>d</code>"):
            assert tag not in html
        assert html.count("a | b **c**") == 3
        assert "<strong>c" not in html

    def test_the_same_claim_gives_the_same_card(self, examples):
        claim, _, card = examples["insufficient"]
        assert write(claim, check(claim)) == card
        assert claim.sha256 in card


class TestVerdict:
    @pytest.mark.parametrize(
        ("found", "outcome"),
        [
            (("stated", "agrees", "note", "computed"), "COMPLETE"),
            (("stated", "missing"), "INSUFFICIENT"),
            (("rejected",), "INSUFFICIENT"),
            (("missing", "rejected", "wrong"), "WRONG BY ITS OWN NUMBERS"),
            ((), "COMPLETE"),
        ],
    )
    def test_the_gravest_finding_decides(self, found, outcome):
        assert verdict([Finding("guarantee.epsilon", status, "") for status in found]) == outcome

    def test_every_key_of_the_sound_claim_that_is_asked_for_is_missed(self, examples, monkeypatch):
        # Leave out one key after the other; the accounts are not needed for that.
        monkeypatch.setattr(audit_card, "epsilon_findings", lambda claim: [])
        claim = examples["sound"][0]
        optional = {key.name for key in KEYS.values() if not key.why}
        replaced = {"mechanism.sample_rate", "mechanism.batch_size"}  # one of them is enough
        for left_out in set(claim.values) - optional - replaced:
            values = {key: value for key, value in claim.values.items() if key != left_out}
            findings = check(type(claim)(values, claim.name, claim.sha256))
            assert left_out in statuses(findings, "missing"), left_out
            assert verdict(findings) == "INSUFFICIENT"


class TestCoverage:
    def coverage(self, **stages):
        lines = "\n".join(f'{stage} = "{value}"' for stage, value in stages.items())
        findings = check(parse_claim(f"[coverage]\n{lines}"))
        return {one.item: one.status for one in findings if one.item.startswith("coverage.")}

    def test_what_is_outside_is_said(self):
        found = self.coverage(fine_tuning="covered", prompts="not-covered", retrieval="not-used")
        assert found["coverage.prompts"] == "note"
        assert found["coverage.retrieval"] == "stated"
        assert found["coverage.pre_training"] == "missing"
        assert found["coverage.adapters_only"] == "missing"

    def test_a_guarantee_for_no_data(self):
        stages = ("pre_training", "fine_tuning", "prompts", "retrieval", "hyperparameters")
        found = self.coverage(**dict.fromkeys(stages, "not-covered"))
        assert found["coverage.nothing"] == "rejected"
        assert "coverage.nothing" not in self.coverage(**dict.fromkeys(stages, "covered"))


class TestCountsAgainstParameters:
    """The audited bound of the sound claim is .821: more noise than stated would not have allowed it."""

    @staticmethod
    def findings(noise_multiplier, **mechanism):
        claim = read_claim(DATA / "audit_cards" / "sound.toml")
        values = {**claim.values, "mechanism.noise_multiplier": noise_multiplier}
        values.update({f"mechanism.{name}": value for name, value in mechanism.items()})
        return check(replace(claim, values=values))

    @pytest.mark.parametrize("noise_multiplier", [3.0, 6.0, 1e6])
    def test_a_bound_above_the_account(self, noise_multiplier):
        found = self.findings(noise_multiplier)
        assert verdict(found) == "WRONG BY ITS OWN NUMBERS"
        assert statuses(found, "wrong") == {"membership.bound"}
        (bound,) = [one for one in found if one.item == "membership.bound"]
        assert "the most that the stated parameters allow" in bound.text

    def test_a_bound_below_it(self):
        assert verdict(self.findings(2.0)) == "COMPLETE"

    def test_shuffled_batches_are_held_to_the_account_that_covers_them(self):
        # Poisson sampling would give .66; each record in one batch an epoch gives more than .82.
        found = self.findings(3.0, sampling="shuffled", epochs=10)
        assert "membership.bound" not in statuses(found, "wrong")


class TestCommand:
    @pytest.fixture(autouse=True)
    def _no_accounts(self, monkeypatch):
        monkeypatch.setattr(audit_card, "epsilon_findings", lambda claim: [])

    def test_writes_and_says_where(self, tmp_path, capsys):
        output = tmp_path / "new" / "folder" / "card.md"
        assert audit_card.audit_card(DATA / "audit_cards" / "sound.toml", output) == 0
        printed = capsys.readouterr().out
        assert printed.startswith("COMPLETE")
        assert f"written: {output}" in printed
        assert output.read_text(encoding="utf-8").startswith("# Audit card: Ticket assistant")
        assert [path.name for path in output.parent.iterdir()] == ["card.md"]

    @pytest.mark.parametrize("name", ["insufficient", "wrong"])
    def test_not_complete(self, tmp_path, capsys, name):
        assert audit_card.audit_card(DATA / "audit_cards" / f"{name}.toml", tmp_path / "card.md") == 3
        assert capsys.readouterr().out.startswith(EXAMPLES[name])

    def test_the_summary_lists_what_decides(self, tmp_path, capsys):
        audit_card.audit_card(DATA / "audit_cards" / "insufficient.toml", tmp_path / "card.md")
        printed = capsys.readouterr().out
        assert "missing: guarantee.delta, guarantee.neighbours, guarantee.accountant" in printed
        assert "rejected: membership.canaries" in printed

    def test_the_claim_is_not_overwritten(self, tmp_path):
        path = tmp_path / "claim.toml"
        path.write_text("[guarantee]\nepsilon = 8")
        (tmp_path / "link.md").symlink_to(path)
        for output in (path, tmp_path / "link.md"):
            with pytest.raises(ValueError, match="another file than the claim"):
                audit_card.audit_card(path, output)
        assert path.read_text() == "[guarantee]\nepsilon = 8"

    def test_a_folder_or_a_place_that_cannot_be_written(self, tmp_path):
        claim = DATA / "audit_cards" / "wrong.toml"
        with pytest.raises(ValueError, match="output must be a file, got the folder"):
            audit_card.audit_card(claim, tmp_path)
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="cannot write .*choose another file with --output"):
            audit_card.audit_card(claim, tmp_path / "file" / "card.md")

    def test_a_bad_claim_leaves_the_old_card(self, tmp_path):
        path, output = tmp_path / "claim.toml", tmp_path / "card.md"
        path.write_text("[guarantee]\nepsilon = true")
        output.write_text("old")
        with pytest.raises(ValueError, match="epsilon"):
            audit_card.audit_card(path, output)
        assert output.read_text() == "old"


def test_every_computed_number_has_a_label():
    for item in ("guarantee.rdp", "guarantee.full_participation", "membership.bound", "extraction.rate"):
        assert audit_card_text.label(item)
