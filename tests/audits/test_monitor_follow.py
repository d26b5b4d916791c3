"""dprepro monitor: an alarm is an exit status, errors are placed, the state counts every step exactly once."""

import io
import json
import os
import subprocess
import sys

import pytest

from dprepro.audits import monitor_follow
from dprepro.audits.monitor import BettingMonitor, ReTiDPMonitor
from dprepro.audits.monitor_follow import follow

HEADER = "count_x,count_y,n\n"
QUIET = "375,150,750\n"  # near the boundary at epsilon 1, on the safe side
BROKEN = "500,100,750\n"
PANEL = 'step,event,count_x,count_y,n\n1,"(-inf, 0]",375,150,750\n1,b,100,100,750\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(home, monkeypatch, capsys):
    """Run the command on a text, given as standard input or as a file; return exit status and what it printed."""

    def run(text=None, **options):
        capsys.readouterr()  # what an interrupted call left
        if text is not None:
            monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        status = follow(options.pop("source", "-"), **{"epsilon": 1.0, "alpha": 0.05, **options})
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err

    return run


def test_each_step_is_a_line_with_the_monitors_numbers(call):
    status, lines, error = call(HEADER + QUIET + QUIET)
    monitor = BettingMonitor(1.0, 0.05)
    statistics = [monitor.update(375, 150, 750).statistic for _ in range(2)]
    assert lines == [
        f"step 1: x 375/750, x' 150/750, statistic {statistics[0]:.3f}, threshold 2.996",
        f"step 2: x 375/750, x' 150/750, statistic {statistics[1]:.3f}, threshold 2.996",
        "no alarm; steps counted: 2 (betting, epsilon 1, alpha 0.05)",
    ]
    assert (status, error) == (0, "")


def test_an_alarm_ends_the_reading(call):
    status, lines, _ = call(HEADER + QUIET * 3 + BROKEN * 9)
    assert status == 3
    assert len(lines) < 9
    assert "ALARM" in lines[-1]
    assert not any("ALARM" in line for line in lines[:-1])


def test_retidp_with_its_parameters(call):
    status, lines, _ = call(HEADER + QUIET + BROKEN * 5, method="retidp", horizon=20, beta=0.1, delta=0.01)
    monitor = ReTiDPMonitor(1.0, 0.05, horizon=20, beta=0.1, delta=0.01)
    result = monitor.update(375, 150, 750)
    assert f"statistic {result.statistic:.3f}, threshold {result.threshold:.3f}" in lines[0]
    assert (status, lines[-1].rpartition(": ")[2]) == (
        3,
        "ALARM, the claim is broken; the change is put at this step",
    )


def test_a_panel_names_the_event(call):
    broken = "".join(f'{step},"(-inf, 0]",500,100,750\n{step},b,100,100,750\n' for step in (4, 6, 9))
    status, lines, _ = call(PANEL + broken)
    assert status == 3
    assert lines[0].startswith("step 1: foremost event (-inf, 0], statistic ")
    assert lines[1].startswith("step 4: ")
    assert "ALARM" in lines[-1]


def test_the_horizon_is_an_error_and_what_was_before_is_kept(call, home):
    options = {"method": "retidp", "horizon": 2, "state": "s.json"}
    with pytest.raises(ValueError, match="standard input, line 4: horizon is 2 steps and all are taken"):
        call(HEADER + QUIET * 3, **options)
    assert json.loads((home / "s.json").read_text())["monitor"]["steps"] == 2


def test_a_call_a_build_is_the_same_as_one_call(call, home):
    rows = [QUIET] * 4 + [BROKEN] * 6
    whole = call(HEADER + "".join(rows))
    lines = []
    for row in rows:
        status, printed, _ = call(HEADER + row, state="state/s.json")
        lines.append(printed[0])
        if status:
            break
    assert (status, lines) == whole[:2]
    # The alarm stays, and nothing more is counted.
    kept = (home / "state/s.json").read_text()
    status, printed, _ = call(HEADER + QUIET, state="state/s.json")
    assert (status, len(printed)) == (3, 1)
    assert printed[0].startswith(lines[-1])
    assert (home / "state/s.json").read_text() == kept
    assert not list(home.rglob("*.tmp"))


def test_a_file_may_grow_and_is_counted_once(call, home):
    log = home / "log.csv"
    log.write_text(HEADER + QUIET * 2)
    first = call(source="log.csv", state="s.json")
    assert first[0] == 0
    assert call(source="log.csv", state="s.json")[1] == [first[1][-1]]  # nothing new
    with log.open("a") as stream:
        stream.write(QUIET + BROKEN[:9])
    status, lines, error = call(source="log.csv", state="s.json")
    assert (status, len(lines)) == (0, 2)
    assert error == "log.csv, line 5: '500,100,7' has no line end: not counted\n"
    with log.open("a") as stream:
        stream.write(BROKEN[9:])
    assert call(source="log.csv", state="s.json")[1][0].startswith("step 4: x 500/750")
    assert call(source="log.csv")[1][3] == call(HEADER + QUIET * 3 + BROKEN)[1][3]


def test_a_panel_file_may_end_within_a_step(call, home):
    (home / "log.csv").write_text(PANEL + "2,b,100,100,750\n")
    _, lines, error = call(source="log.csv", state="s.json")
    assert len(lines) == 2
    assert error == "log.csv, line 4: the step has no row yet for event '(-inf, 0]': not counted\n"
    (home / "log.csv").write_text(PANEL + '2,b,100,100,750\n2,"(-inf, 0]",375,150,750\n')
    assert call(source="log.csv", state="s.json")[1][0].startswith("step 2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + QUIET, "log.csv must begin with the 2 steps counted in s.json, got 1"),
        (
            HEADER + QUIET + BROKEN + QUIET,
            "log.csv must begin with the 2 steps counted in s.json, got others",
        ),
        (PANEL, "log.csv, line 1, column event: the counts so far have no event"),
    ],
)
def test_a_file_that_is_not_the_one_counted_is_refused(call, home, text, message):
    (home / "log.csv").write_text(HEADER + QUIET * 2)
    call(source="log.csv", state="s.json")
    kept = (home / "s.json").read_text()
    (home / "log.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        call(source="log.csv", state="s.json")
    assert (home / "s.json").read_text() == kept


def test_a_step_given_again_is_refused(call):
    text = "step,count_x,count_y,n\n41,375,150,750\n"
    call(text, state="s.json")
    with pytest.raises(ValueError, match="standard input, line 2, column step: must be above .* 41, got 41"):
        call(text, state="s.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 2.0}, "s.json: .*epsilon = 2.0, got 1.0"),
        ({"alpha": 0.1}, "s.json: .*alpha = 0.1, got 0.05"),
        ({"delta": 0.1}, "s.json: .*delta = 0.1, got 0.0"),
        ({"method": "retidp", "horizon": 9}, "s.json: .*ReTiDPMonitor, got one of a BettingMonitor"),
    ],
)
def test_the_state_of_other_parameters_is_refused(call, change, message):
    for text in (HEADER + QUIET, PANEL):
        call(text, state="s.json")
        with pytest.raises(ValueError, match=message):
            call(text, state="s.json", **change)
        os.unlink("s.json")


@pytest.mark.parametrize("text", ["", "{}", "[]", "x", '{"events": 1}', '{"monitor": {}}'])
def test_a_file_that_is_no_state_is_refused(call, home, text):
    (home / "s.json").write_text(text)
    with pytest.raises(ValueError, match="s.json must be a state of dprepro monitor, got"):
        call(HEADER + QUIET, state="s.json")
    assert (home / "s.json").read_text() == text


@pytest.mark.parametrize("text", ["", HEADER, HEADER[:5], HEADER + QUIET[:-1]])
def test_no_counts_are_an_error(call, home, text):
    (home / "log.csv").write_text(text)
    for state in (None, "s.json"):
        with pytest.raises(ValueError, match="standard input must hold counts, got no complete line"):
            call(text, state=state)
        with pytest.raises(ValueError, match="log.csv must hold counts, got no complete line"):
            call(source="log.csv", state=state)
    assert not (home / "s.json").exists()


def test_what_stands_before_a_bad_line_is_kept(call, home):
    with pytest.raises(ValueError, match="line 4, column count_x: must be a whole number .* got 'x'"):
        call(HEADER + QUIET * 2 + "x,1,2\n", state="s.json")
    assert json.loads((home / "s.json").read_text())["monitor"]["steps"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "retidp"}, "horizon, the number of steps planned, must be given"),
        ({"beta": 0.2}, "beta is a parameter of the method 'retidp' only, got 0.2"),
        ({"method": "retidp", "horizon": 9, "beta": 0.5}, "beta must be in"),
        ({"method": "guess"}, "method must be one of 'betting', 'retidp', got 'guess'"),
        ({"epsilon": -1.0}, "epsilon must be in .* got -1"),
        ({"alpha": 1.0}, "alpha must be in .* got 1"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
    ],
)
def test_arguments_are_checked_before_anything_is_read(call, options, message):
    with pytest.raises(ValueError, match=message):
        call("no counts", **options)


def test_two_processes_do_not_share_a_state(call, home):
    from filelock import FileLock

    with FileLock(home / "s.json.lock"), pytest.raises(BlockingIOError, match="another process uses s.json"):
        call(HEADER + QUIET, state="s.json")


def test_a_stream_is_kept_before_it_is_printed(call, home, monkeypatch):
    """Each line of a stream finds its predecessors in the state: a kill at that moment loses none."""
    seen = []

    def lines():
        yield HEADER
        for _ in range(3):
            yield QUIET
            seen.append(json.loads((home / "s.json").read_text())["monitor"]["steps"])
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", lines())
    with pytest.raises(KeyboardInterrupt):
        call(state="s.json")
    assert seen == [1, 2, 3]
    assert call(HEADER + QUIET, state="s.json")[1][0].startswith("step 4")


@pytest.mark.parametrize("place", ["update", "_chained", "_line"])
def test_ctrl_c_anywhere_leaves_a_state_that_goes_on(call, home, monkeypatch, place):
    (home / "log.csv").write_text(HEADER + QUIET * 5)
    whole = call(source="log.csv")[1]
    usual, left = getattr(monitor_follow, place), [3]

    def interrupted(*arguments):
        found = usual(*arguments)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(monitor_follow, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(source="log.csv", state="s.json")
    monkeypatch.setattr(monitor_follow, place, usual)
    assert call(source="log.csv", state="s.json")[1] == whole[2:]


# Not -m dprepro, which brings the environment up to date first.
COMMAND = [sys.executable, "-c", "import sys; from dprepro.kit.cli import main; sys.exit(main())"]
COMMAND += ["monitor", "--epsilon", "1"]


def process(*arguments, text):
    return subprocess.run([*COMMAND, *arguments], input=text, capture_output=True, text=True, timeout=120)


def test_exit_statuses_for_a_pipeline(home):
    quiet = process(text=HEADER + QUIET)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert process("-", text=HEADER + BROKEN * 3).returncode == 3
    bad = process(text=HEADER + "1,2,x\n")
    assert bad.returncode == 2
    assert bad.stderr == (
        "dprepro: standard input, line 2, column n: must be a whole number of at least 1, got 'x'\n"
    )


def test_a_stream_is_answered_line_by_line_and_interrupted_without_loss(home):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, "--state", "s.json"], text=True, **pipes) as running:
        running.stdin.write(HEADER + QUIET)
        running.stdin.flush()
        assert running.stdout.readline().startswith("step 1")  # before the second line is there
        running.stdin.write(QUIET)
        running.stdin.flush()
        assert running.stdout.readline().startswith("step 2")
        running.send_signal(2)
        _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "kept" in error
    assert process("--state", "s.json", text=HEADER + QUIET).stdout.startswith("step 3")


def test_a_long_horizon_does_not_simulate_its_own_grid(call, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "dprepro.audits.monitor.stored_limit", lambda alpha, beta: asked.append(beta) or (2.56, 0.01)
    )
    status, lines, _ = call(HEADER + QUIET, method="retidp", horizon=10_000)
    assert (status, set(asked)) == (0, {0.25})
    assert "2.56" in lines[0]
