"""The command line: ``dprepro COMMAND`` or ``python -m dprepro COMMAND``.

Commands that a Makefile target calls (reproduce, test, lab, lab-release, lab-grade, notebooks, figures, site,
bench, clean) and the finer ones (run, ledger, diff, monitor, audit-card, list, rebuild, figure, table). What each
does is in commands.py.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dprepro.kit import commands

PROFILES = ("smoke", "laptop", "paper")

MONITOR_HELP = """\
The CSV has the columns count_x and count_y (runs on the database x and on its
neighbour x' that fell into the event) and n (runs on each). It may have step
(whole numbers that increase) and event (a panel: a row for each event and step;
the events share alpha). The claim, at every step, is
P(A(x) in E) <= e^epsilon P(A(x') in E) + delta. A line is printed a step.

betting: P(false alarm) <= alpha at every n, over any number of steps.
retidp: the method of arXiv 2509.20283; holds alpha in the limit of large n.
Beyond 200 steps its threshold is that of continuous time.

--state: a FILE may grow. Steps counted by earlier calls are skipped and must
be unchanged. On standard input every step is new: give only those of this
build. A state of other parameters is refused. An alarm stays; once the
mechanism is mended, begin anew with another state.

A line counts once it ends with a line end. An unfinished last one is named
and left for the next call, and so is a step that lacks an event.

exit status: 0 no alarm, 3 alarm, 2 bad input or arguments, 130 after Ctrl-C
(with --state nothing is lost: what was printed is kept)

examples:
  dprepro monitor counts.csv --epsilon 1
  tail -n +1 -f counts.csv | dprepro monitor --epsilon 1
  printf 'count_x,count_y,n\\n312,110,750\\n' |
    dprepro monitor --epsilon 1 --method retidp --horizon 100 --state build.json"""


AUDIT_CARD_HELP = """\
The claim is a TOML file; --template prints one with every key, to fill in.
The card is a markdown document: what is claimed, epsilon recomputed from the
parameters, the audited bound recomputed from the counts, and what is missing,
each with its source. No epsilon is called safe.

exit status: 0 complete (everything that a claim must report is there and
agrees with its own numbers), 3 insufficient or wrong by its own numbers (the
first line printed says which), 2 bad input

examples:
  dprepro audit-card --template > claim.toml
  dprepro audit-card data/audit_cards/sound.toml
  dprepro audit-card claim.toml --output appendix/dp-audit.md"""

GRADE_HELP = """\
DIR holds a folder for each student, named as on the roster; in it the notebooks
that the student handed in. Each runs without network, sees Python and nothing
else of this machine (bubblewrap or unshare, on Linux), and may take five minutes
and 3 GiB. Hidden checks run on its answers in a second process, with the seed
that the roster gives the student. What has not changed is not run again.

example:
  python -m dprepro lab-release --roster students.csv
  python -m dprepro lab-grade submissions --jobs 4"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0 if all went well, 1 if something failed or ``diff`` finds more than chance at work, 2 for arguments that
        make no sense, 3 for an alarm of ``monitor`` or a claim that ``audit-card`` finds not complete, 130 after
        Ctrl-C, 141 if whoever reads the output has left.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. What is finished is kept; the same command goes on from there.", file=sys.stderr
        )
        return 130
    except BrokenPipeError:  # `dprepro ledger | head`: whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        print(f"dprepro: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dprepro", description=__doc__.partition("\n\n")[2])
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], object]) -> argparse.ArgumentParser:
        text = str(command.__doc__)
        sub = subparsers.add_parser(name, help=text.rstrip("."), description=text)
        sub.set_defaults(command=command)
        return sub

    add("setup", commands.setup)
    reproduce = add("reproduce", commands.reproduce)
    reproduce.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    add("test", commands.test)
    add("lab", commands.lab)
    release = add("lab-release", commands.lab_release)
    release.add_argument("--roster", type=Path, metavar="CSV", help="column student (default: one student)")
    release.add_argument("--lab", metavar="NAME", help="one lab, such as lab1 (default: all)")
    grade = add("lab-grade", commands.lab_grade)
    grade.epilog = GRADE_HELP
    grade.formatter_class = argparse.RawDescriptionHelpFormatter
    grade.add_argument("submissions", type=Path, metavar="DIR", help="a folder for each student")
    grade.add_argument("--trusted", action="store_true", help="run without isolation where there is none")
    grade.add_argument("--jobs", type=int, default=1, help="submissions at a time (default: 1)")
    grade.add_argument("--roster", type=Path, metavar="CSV", help="default: all students of the releases")
    for command in (release, grade):
        command.add_argument("--secret", type=Path, metavar="FILE", help="default: build/labs/secret")
    add("notebooks", commands.notebooks)
    add("figures", commands.figures)
    add("site", commands.site)
    add("bench", commands.bench)
    add("clean", commands.clean)

    run = add("run", commands.run)
    run.add_argument("--profile", choices=PROFILES, default="laptop")
    run.add_argument("--only", default="*", metavar="GLOB", help="such as 'snapaudit/*'")
    run.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    run.add_argument("--force", action="store_true", help="execute what is unchanged too")

    ledger = add("ledger", commands.ledger)
    ledger.add_argument("--paper", help="one paper, row by row")
    ledger.add_argument("--class", dest="cls", help="one class, such as FAIL or EXPLAINED")
    ledger.add_argument("--claims", action="store_true", help="the claims in words instead")

    monitor = add("monitor", commands.monitor)
    monitor.epilog = MONITOR_HELP
    monitor.formatter_class = argparse.RawDescriptionHelpFormatter
    monitor.add_argument(
        "source", nargs="?", default="-", metavar="FILE", help="CSV; - or none: standard input"
    )
    monitor.add_argument("--epsilon", type=float, required=True, help="the claim")
    monitor.add_argument("--delta", type=float, default=0.0, help="the claim (default: 0)")
    monitor.add_argument("--alpha", type=float, default=0.05, help="chance of a false alarm (default: .05)")
    monitor.add_argument(
        "--method", choices=("betting", "retidp"), default="betting", help="default: betting"
    )
    monitor.add_argument("--horizon", type=int, metavar="T", help="steps planned; retidp needs it")
    monitor.add_argument("--beta", type=float, help="retidp: weight of long windows (default: .25)")
    monitor.add_argument("--state", metavar="FILE", help="JSON file that keeps the counts between calls")

    card = add("audit-card", commands.audit_card)
    card.epilog = AUDIT_CARD_HELP
    card.formatter_class = argparse.RawDescriptionHelpFormatter
    card.add_argument("claim", nargs="?", metavar="CLAIM", help="TOML file")
    card.add_argument("--output", default="outputs/dp-audit.md", metavar="FILE", help="default: %(default)s")
    card.add_argument("--template", action="store_true", help="print a claim file to fill in")

    diff = add("diff", commands.diff)
    for name in ("run_a", "run_b"):
        diff.add_argument(name, type=Path, metavar=name.upper(), help="build folder, or its ledger.csv")

    add("list", commands.list_names)
    fetch = add("fetch", commands.fetch)
    fetch.add_argument("names", nargs="*", metavar="NAME", help="default: all there is")
    rebuild = add("rebuild", commands.rebuild)
    rebuild.add_argument(
        "name", help="as `dprepro list` prints it, or the first word of several, such as synbench"
    )
    rebuild.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    for command, what in ((run, "notebooks"), (rebuild, "items")):
        command.add_argument(
            "--scheduler",
            metavar="TCP",
            help=f"send the {what} to a Dask cluster, such as tcp://10.0.0.5:8786; --jobs is how many at a time",
        )
    figure = add("figure", commands.figure)
    figure.add_argument("name")
    figure.add_argument("--format", choices=("pdf", "png", "svg"), default="pdf")
    figure.add_argument("--venue", help="width and font sizes of a venue, such as neurips2024 or icml2024")
    figure.add_argument("--column", choices=("single", "double"), default="single")
    table = add("table", commands.table)
    table.add_argument("name", help="such as snapaudit/table1")
    table.add_argument("--format", choices=("latex", "html", "csv"), default="latex")
    return parser
