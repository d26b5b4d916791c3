"""Counts as CSV: what is complete is read, what is not is named, what is wrong is placed."""

import pytest

from dprepro.audits.monitor_csv import CountReader, Step, StepLog

PANEL = 'step,event,count_x,count_y,n\n1,"(-inf, 0]",5,2,10\n1,b,4,3,10\n2,b,1,1,10\n2,"(-inf, 0]",6,2,10\n'


def read(text, events=None, after=None):
    reader = CountReader(text.splitlines(keepends=True), "counts.csv", events, after)
    return list(reader), reader


def test_columns_may_stand_in_any_order_and_lines_be_blank():
    steps, reader = read("\ufeffn, count_y,count_x\r\n750,110,312\n\n 10, 0 ,1e1\n")
    assert steps == [Step(None, {"": (312, 110)}, 750), Step(None, {"": (10, 0)}, 10)]
    assert (reader.events, reader.unfinished) == ((), "")


def test_a_panel_learns_its_events_from_the_first_step():
    steps, reader = read(PANEL)
    assert reader.events == ("(-inf, 0]", "b")
    assert steps[1] == Step(2, {"b": (1, 1), "(-inf, 0]": (6, 2)}, 10)
    without_numbers = "\n".join(line.partition(",")[2] for line in PANEL.splitlines()) + "\n"
    assert [step.counts for step in read(without_numbers)[0]] == [step.counts for step in steps]


def test_a_step_comes_out_with_its_last_row():
    lines = iter(PANEL.splitlines(keepends=True))
    steps = iter(CountReader(lines, "counts.csv", ("(-inf, 0]", "b")))
    assert next(steps).label == 1
    assert next(lines).startswith("2,b")  # nothing beyond the step was taken from the stream


def test_a_panel_of_one_step_ends_with_the_stream():
    steps, reader = read("event,count_x,count_y,n\na,1,1,2\nb,2,1,2\n")
    assert [step.counts for step in steps] == [{"a": (1, 1), "b": (2, 1)}]
    assert reader.events == ("a", "b")


@pytest.mark.parametrize("cut", range(len(PANEL)))
def test_of_a_file_cut_anywhere_the_whole_steps_are_read(cut):
    whole = read(PANEL)[0]
    steps, reader = read(PANEL[:cut], ("(-inf, 0]", "b"))
    assert steps == whole[: len(steps)]
    ends = [PANEL.index("\n", PANEL.index("1,b")) + 1, len(PANEL)]
    assert len(steps) == sum(cut >= end for end in ends)
    between = cut in (0, PANEL.index("\n") + 1, ends[0])
    assert bool(reader.unfinished) != between


def test_what_is_unfinished_is_named():
    assert read("count_x,count_y,n\n1,1,2\n12,31")[1].unfinished == "line 3: '12,31' has no line end"
    lacking = read("event,count_x,count_y,n\na,1,1,2\nb,2,1,2\na,1,1,2\n")[1].unfinished
    assert lacking == "line 4: the step has no row yet for event 'b'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count_x,n\n", "line 1: column count_y is missing"),
        ("count_x,count_y,n,evnt\n", "line 1: a column is unknown or stands twice.*'count_x,count_y,n,evnt'"),
        ("count_x,count_x,count_y,n\n", "stands twice"),
        ("312,110,750\n", "line 1: column count_x is missing"),
        ("count_x,count_y,n\n1,2\n", r"line 2: needs 3 fields \(count_x,count_y,n\), got 2"),
        ("count_x,count_y,n\n1,2,3,4\n", "line 2: needs 3 fields .* got 4"),
        (
            "count_x,count_y,n\n1,1,2\n\nfive,2,9\n",
            "line 4, column count_x: must be a whole number .* got 'five'",
        ),
        ("count_x,count_y,n\n1,,9\n", "line 2, column count_y: must be a whole number .* got ''"),
        ("count_x,count_y,n\n1.5,1,9\n", "column count_x: must be a whole number of at least 0, got '1.5'"),
        ("count_x,count_y,n\nnan,1,9\n", "column count_x: must be a whole number of at least 0, got 'nan'"),
        ("count_x,count_y,n\n1,-1,9\n", "column count_y: must be a whole number of at least 0, got '-1'"),
        ("count_x,count_y,n\n1,1,0\n", "column n: must be a whole number of at least 1, got '0'"),
        ("count_x,count_y,n\n800,1,750\n", "line 2, column count_x: must be at most n, here 750, got 800"),
        ('count_x,count_y,n\n"1,1,2\n', "line 2: "),
        ("step,count_x,count_y,n\n2,1,1,2\n2,1,1,2\n", "line 3, column step: must be above .* 2, got 2"),
        ("step,count_x,count_y,n\nx,1,1,2\n", "column step: must be a whole number of at least 0, got 'x'"),
        ("event,count_x,count_y,n\n ,1,1,2\n", "column event: must be a name, got ''"),
        (PANEL + "3,c,1,1,10\n", "line 6, column event: must be one of .*'b'.* got 'c'"),
        (PANEL + "3,b,1,1,10\n3,b,1,1,10\n", r"line 7, column event: .*\('\(-inf, 0\]'\), got 'b'"),
        (PANEL + '3,b,1,1,10\n4,"(-inf, 0]",1,1,10\n', "line 7, column step: must be 3 until .* got 4"),
        (PANEL + '3,b,1,1,10\n3,"(-inf, 0]",1,1,9\n', "line 7, column n: must be the same .* 10, got 9"),
    ],
)
def test_errors_say_where(text, message):
    with pytest.raises(ValueError, match=r"^counts.csv, (line \d+.*)?" + message):
        read(text)


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_bytes(b"count_x\xff,count_y,n\n")
    with (
        path.open(encoding="utf-8") as stream,
        pytest.raises(ValueError, match="^counts.csv, after line 0: must be UTF-8, got .* 0xff"),
    ):
        list(CountReader(stream, "counts.csv"))


@pytest.mark.parametrize(("text", "events"), [(PANEL, ()), ("count_x,count_y,n\n", ("a", "b"))])
def test_a_stream_with_events_is_not_taken_for_one_without(text, events):
    with pytest.raises(ValueError, match="line 1, column event: the counts so far have"):
        read(text, events)


def test_steps_go_on_from_the_last_one_counted():
    with pytest.raises(
        ValueError, match="line 2, column step: must be above the step counted last, 7, got 7"
    ):
        read("step,count_x,count_y,n\n7,1,1,2\n", after=7)
    assert read("step,count_x,count_y,n\n9,1,1,2\n", after=7)[0][0].label == 9


def test_steps_before_an_error_are_yielded():
    steps = iter(CountReader(["count_x,count_y,n\n", "1,1,2\n", "x\n"], "counts.csv"))
    assert next(steps).n == 2
    with pytest.raises(ValueError, match="line 3"):
        next(steps)


def test_a_log_reads_what_it_wrote(tmp_path):
    path = tmp_path / "runs" / "counts.csv"
    written = [
        Step(1, {"(-inf, 0]": (5, 2), "b": (4, 3)}, 10),
        Step(2, {"(-inf, 0]": (6, 2), "b": (1, 1)}, 10),
    ]
    log = StepLog(path, ("(-inf, 0]", "b"))
    for step in written:
        log.append(step)
    assert StepLog(path, ("(-inf, 0]", "b")).steps == written
    assert list(CountReader(path.read_text().splitlines(keepends=True), "")) == written


@pytest.mark.parametrize("cut", range(len("step,count_x,count_y,n\n1,5,2,10\n2,6,2,10\n")))
def test_a_log_goes_on_after_a_kill_at_any_byte(tmp_path, cut):
    path, text = tmp_path / "counts.csv", "step,count_x,count_y,n\n1,5,2,10\n2,6,2,10\n"
    path.write_text(text[:cut])
    log = StepLog(path, ())
    for step in [Step(1, {"": (5, 2)}, 10), Step(2, {"": (6, 2)}, 10)][len(log.steps) :]:
        log.append(step)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a letter", "must be a file of counts"),
        ("count_x,count_y,n\n1,1,2\n", "column step: must be there and count 1, 2"),
        ("step,count_x,count_y,n\n2,1,1,2\n", "column step: must be there and count 1, 2"),
        (PANEL, "column event: the counts so far have no event"),
    ],
)
def test_a_log_leaves_other_files_alone(tmp_path, text, message):
    path = tmp_path / "other.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        StepLog(path, ())
    assert path.read_text() == text
