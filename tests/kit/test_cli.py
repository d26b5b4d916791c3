"""The command line: each command reaches its room, errors become one line, Ctrl-C loses nothing."""

from types import SimpleNamespace

import pandas as pd
import pytest

from dprepro.base.paths import build_dir
from dprepro.kit import batch, claims, cli, commands, ledger, refresh, site, suite


@pytest.fixture
def calls(monkeypatch):
    """Record what the commands call instead of doing it."""
    found = []
    summary = SimpleNamespace(failed=[])

    def record(name, result=None):
        def stand_in(*arguments, **options):
            found.append((name, arguments, options))
            return result

        return stand_in

    monkeypatch.setattr(batch, "run", record("run", summary))
    monkeypatch.setattr(ledger, "gather", record("gather"))
    monkeypatch.setattr(refresh, "collect_figures", record("figures"))
    monkeypatch.setattr(refresh, "stored_outputs", record("stored"))
    monkeypatch.setattr(refresh, "readme_headline", record("readme"))
    monkeypatch.setattr(site, "build", record("site", build_dir() / "site" / "index.html"))
    monkeypatch.setattr(suite, "run", record("suite", 0))
    monkeypatch.setattr(commands.subprocess, "call", record("process", 0))
    return SimpleNamespace(found=found, summary=summary, names=lambda: [name for name, *_ in found])


def test_run_passes_its_options_on_and_gathers(calls):
    assert cli.main(["run", "--profile", "smoke", "--only", "snapaudit/*", "--jobs", "1", "--force"]) == 0
    assert calls.found[0][1] == ("smoke", "snapaudit/*", 1, True)
    assert calls.found[0][2] == {"scheduler": None}
    assert calls.found[1] == ("gather", ("smoke",), {})
    assert cli.main(["run", "--scheduler", "tcp://10.0.0.5:8786"]) == 0
    assert calls.found[2][2] == {"scheduler": "tcp://10.0.0.5:8786"}


def test_a_failed_notebook_is_an_exit_status(calls):
    calls.summary.failed.append("snapaudit/table1_classification")
    assert cli.main(["run"]) == 1
    assert cli.main(["reproduce"]) == 1


def test_reproduce_runs_gathers_draws_and_prints(calls, capsys):
    assert cli.main(["reproduce"]) == 0
    assert calls.names() == ["run", "gather", "figures", "site"]
    printed = capsys.readouterr().out
    assert "Printed numbers were taken from published summaries" in printed
    assert "ledger.html" in printed
    assert "site/index.html" in printed


def test_site_says_where_it_is(calls, capsys):
    assert cli.main(["site"]) == 0
    assert calls.names() == ["site"]
    assert capsys.readouterr().out.endswith("site/index.html\n")


def test_notebooks_stores_only_complete_runs(calls):
    calls.summary.failed.append("x")
    assert cli.main(["notebooks"]) == 1
    assert "stored" not in calls.names()
    calls.summary.failed.clear()
    assert cli.main(["notebooks"]) == 0
    assert calls.names()[-2:] == ["stored", "readme"]


def test_figures_go_into_the_repository(calls):
    from dprepro.base.paths import FIGURES

    assert cli.main(["figures"]) == 0
    assert calls.found[-1][1] == (FIGURES,)


@pytest.mark.parametrize(("command", "what"), [("lab", "process"), ("bench", "process"), ("test", "suite")])
def test_commands_that_start_processes(calls, command, what):
    assert cli.main([command]) == 0
    assert calls.names() == [what]


def test_ledger_commands(capsys):
    assert cli.main(["ledger", "--paper", "lesson"]) == 0
    assert "lesson" in capsys.readouterr().out
    assert cli.main(["ledger", "--claims", "--paper", "cape"]) == 0
    assert "cape-01" in capsys.readouterr().out
    assert cli.main(["ledger", "--class", "DASH"]) == 0
    assert cli.main(["table", "snapaudit/table4", "--format", "csv"]) == 0
    assert capsys.readouterr().out.count("\n") >= 12


def test_monitor_ends_with_its_exit_status(tmp_path, capsys):
    counts = tmp_path / "counts.csv"
    counts.write_text("count_x,count_y,n\n375,150,750\n")
    assert cli.main(["monitor", str(counts), "--epsilon", "1"]) == 0
    assert "no alarm; steps counted: 1 (betting, epsilon 1, alpha 0.05)" in capsys.readouterr().out
    counts.write_text("count_x,count_y,n\n" + "500,100,750\n" * 9)
    state = tmp_path / "state.json"
    assert cli.main(["monitor", str(counts), "--epsilon", "1", "--alpha", "0.01", "--state", str(state)]) == 3
    assert "ALARM" in capsys.readouterr().out
    assert state.exists()


def test_monitor_passes_its_options_on(monkeypatch):
    from dprepro.audits import monitor_follow

    found = []
    monkeypatch.setattr(monitor_follow, "follow", lambda **options: found.append(options) or 0)
    assert cli.main(["monitor", "--epsilon", "2"]) == 0
    options = ["--delta", ".1", "--alpha", ".2", "--method", "retidp", "--horizon", "9", "--beta", ".3"]
    assert cli.main(["monitor", "c.csv", "--epsilon", "2", *options, "--state", "s"]) == 0
    usual = {"source": "-", "epsilon": 2.0, "delta": 0.0, "alpha": 0.05, "method": "betting"}
    assert found[0] == {**usual, "horizon": None, "beta": None, "state": None}
    given = {"source": "c.csv", "delta": 0.1, "alpha": 0.2, "method": "retidp"}
    assert found[1] == {**usual, **given, "horizon": 9, "beta": 0.3, "state": "s"}


def test_monitor_help_says_what_a_pipeline_needs(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["monitor", "--help"])
    printed = capsys.readouterr().out
    for word in ("count_x", "exit status: 0 no alarm, 3 alarm, 2 bad input", "every step is new", "line end"):
        assert word in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_audit_card_writes_a_card_and_ends_with_its_verdict(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["audit-card", "--template"]) == 0
    (tmp_path / "claim.toml").write_text(capsys.readouterr().out)
    assert cli.main(["audit-card", "claim.toml"]) == 3
    assert "written: outputs/dp-audit.md" in capsys.readouterr().out
    assert (tmp_path / "outputs" / "dp-audit.md").read_text().startswith("# Audit card: ")
    assert cli.main(["audit-card", "claim.toml", "--output", "mine.md"]) == 3
    assert (tmp_path / "mine.md").read_text() == (tmp_path / "outputs" / "dp-audit.md").read_text()


def test_audit_card_help_says_what_its_exit_status_means(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["audit-card", "--help"])
    printed = capsys.readouterr().out
    assert "exit status: 0 complete" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_list_names_what_there_is(capsys):
    assert cli.main(["list"]) == 0
    printed = capsys.readouterr().out
    for name in ("snapaudit/table1_classification", "snapaudit_rivals", "cape/table1"):
        assert name in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger", "--paper", "snap"], "paper must be one of .* got 'snap'"),
        (["ledger", "--class", "GOOD"], "cls must be one of .* got 'GOOD'"),
        (["table", "snapaudit/table9"], "got 'snapaudit/table9'"),
        (["figure", "nothing"], "figure must be one of .* got 'nothing'"),
        (["rebuild", "nothing"], "no saved result 'nothing'"),
        (["run", "--only", "nothing*"], "no notebook matches 'nothing"),
        (["run", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["monitor", "/no/counts.csv", "--epsilon", "1"], "No such file .*/no/counts.csv"),
        (["monitor", "--epsilon", "1", "--method", "retidp"], "horizon, .* must be given"),
        (["monitor", "--epsilon", "-1"], "epsilon must be in .*, got -1"),
        (["audit-card"], "a claim file or --template"),
        (["audit-card", "claim.toml", "--template"], "a claim file or --template"),
        (["audit-card", "/no/claim.toml"], "/no/claim.toml: there is no such file"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("dprepro: ")
    import re

    assert re.search(message, error), error


def test_the_first_word_rebuilds_what_is_missing_after_what_it_reads(monkeypatch, capsys):
    from dprepro.base import results

    reads = {
        "toy_a": ("results/toy_z.json",),
        "toy_b": (),
        "toy_c": (),
        "toy_z": ("films.csv",),
        "toys_d": (),
    }
    errors = {"toy_a": FileNotFoundError("missing"), "toy_b": ValueError("does not fit any more")}
    rebuilt = []

    def load(name):
        if name in errors and name not in rebuilt:
            raise errors[name]

    monkeypatch.setattr(results, "names", lambda: sorted(reads))
    monkeypatch.setattr(results, "recipe", lambda name: SimpleNamespace(data=reads[name]))
    monkeypatch.setattr(results, "load", load)
    monkeypatch.setattr(results, "rebuild", lambda name, jobs: rebuilt.append(name))
    assert cli.main(["rebuild", "toy"]) == 0
    assert rebuilt == ["toy_b", "toy_a"]
    assert capsys.readouterr().out == "toy_c: nothing to do\ntoy_z: nothing to do\n"
    assert cli.main(["rebuild", "toy"]) == 0  # again: all is there
    assert cli.main(["rebuild", "toy_c"]) == 0  # a whole name: made again in any case
    assert rebuilt == ["toy_b", "toy_a", "toy_c"]


@pytest.mark.parametrize("arguments", [[], ["runn"], ["run", "--profile", "huge"]])
def test_unknown_commands_and_choices(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert "usage: dprepro" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "file" / "build"))
    assert cli.main(["run", "--profile", "smoke"]) == 2
    assert "DPREPRO_BUILD" in capsys.readouterr().err


def test_interrupt(monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(claims, "load_ledger", interrupted)
    assert cli.main(["ledger"]) == 130
    assert "goes on from there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "message"), [([], "nothing is kept"), (["--state", "s.json"], "goes on from there")]
)
def test_an_interrupted_monitor_says_whether_its_counts_are_kept(monkeypatch, capsys, state, message):
    from dprepro.audits import monitor_follow

    def interrupted(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor_follow, "follow", interrupted)
    assert cli.main(["monitor", "--epsilon", "1", *state]) == 130
    assert message in capsys.readouterr().err


def test_clean_deletes_what_was_built_and_nothing_else(monkeypatch, tmp_path):
    for name in ("build/laptop", ".mypy_cache", ".venv", "data"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path / "build"))
    assert cli.main(["clean"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".venv", "data"]


def test_headline_of_an_empty_ledger_counts_every_number(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DPREPRO_BUILD", str(tmp_path))
    assert cli.main(["ledger"]) == 0
    printed = capsys.readouterr()
    assert "515" in printed.out
    assert "No run yet" in printed.err
    assert isinstance(claims.load_ledger(), pd.DataFrame)
