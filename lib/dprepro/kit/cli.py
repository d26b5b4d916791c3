"""The command line: ``dprepro COMMAND`` or ``python -m dprepro COMMAND``.

Commands that a Makefile target calls (reproduce, test, lab, notebooks, figures, bench, clean) and the finer ones
(run, ledger, monitor, list, rebuild, figure, table). Each does one call into the room that knows how.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from dprepro.base.paths import NOTEBOOKS, ROOT, build_dir

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0 if all went well, 1 if something failed, 2 for arguments that make no sense, 3 for an alarm of ``monitor``,
        130 after Ctrl-C, 141 if whoever reads the output has left.
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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], object], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    add("setup", _setup, "install what the locks name (python -m dprepro setup)")
    reproduce = add("reproduce", _reproduce, "execute every table notebook; write ledger and figures")
    reproduce.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    add("test", _test, "linters, type checker, test suite, and the notebooks against their stored outputs")
    add("lab", _lab, "JupyterLab on notebooks/index.ipynb")
    add("notebooks", _notebooks, "refresh the stored outputs of the notebooks and README's headline")
    add("figures", _figures, "draw the figures of the laptop profile into figures/")
    add("bench", _bench, "measure the stated targets (ratios, in one run)")
    add("clean", _clean, "delete what was built (build/ and caches; .venv stays)")

    run = add("run", _run, "execute notebooks")
    run.add_argument("--profile", choices=PROFILES, default="laptop")
    run.add_argument("--only", default="*", metavar="GLOB", help="such as 'snapaudit/*'")
    run.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    run.add_argument("--force", action="store_true", help="execute what is unchanged too")

    ledger = add("ledger", _ledger, "print the verdicts of the last laptop or paper run")
    ledger.add_argument("--paper", help="one paper, row by row")
    ledger.add_argument("--class", dest="cls", help="one class, such as FAIL or EXPLAINED")
    ledger.add_argument("--claims", action="store_true", help="the claims in words instead")

    monitor = add(
        "monitor", _monitor, "watch a privacy claim over time, from counts in a CSV file or a stream"
    )
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

    add("list", _list, "notebooks, saved results, figures and tables by name")
    fetch = add("fetch", _fetch, "get material that is not shipped (tweets, GloVe vectors)")
    fetch.add_argument("names", nargs="*", metavar="NAME", help="default: all there is")
    rebuild = add("rebuild", _rebuild, "compute a saved result again")
    rebuild.add_argument("name")
    rebuild.add_argument("--jobs", type=int, help="worker processes (default: one a core)")
    figure = add("figure", _figure, "draw one figure again from its saved numbers")
    figure.add_argument("name")
    figure.add_argument("--format", choices=("pdf", "png", "svg"), default="pdf")
    figure.add_argument("--venue", help="width and font sizes of a venue, such as neurips2024 or icml2024")
    figure.add_argument("--column", choices=("single", "double"), default="single")
    table = add("table", _table, "print one table of the ledger")
    table.add_argument("name", help="such as snapaudit/table1")
    table.add_argument("--format", choices=("latex", "html", "csv"), default="latex")
    return parser


def _setup(options: argparse.Namespace) -> int:
    from dprepro.base.environment import run_in_environment

    return run_in_environment(["setup"], main)


def _run(options: argparse.Namespace) -> int:
    from dprepro.kit import batch, ledger

    summary = batch.run(options.profile, options.only, options.jobs, options.force)
    ledger.gather(options.profile)
    return 1 if summary.failed else 0


def _reproduce(options: argparse.Namespace) -> int:
    from dprepro.kit import ledger, refresh

    status = _run(argparse.Namespace(profile="laptop", only="*", jobs=options.jobs, force=False))
    refresh.collect_figures(build_dir() / "figures")
    print()
    print(ledger.ledger_text())
    print(f"Ledger: {_shown('ledger.csv')}, to read in a browser: {_shown('ledger.html')}")
    print(f"Figures: {_shown('figures')}; executed notebooks: {_shown('laptop')}")
    return status


def _shown(name: str) -> str:
    return os.path.relpath(build_dir() / name)


def _ledger(options: argparse.Namespace) -> None:
    from dprepro.kit import ledger

    print(ledger.ledger_text(paper=options.paper, cls=options.cls, claims=options.claims))
    _warn_before_first_run()


def _monitor(options: argparse.Namespace) -> int:
    from dprepro.audits.monitor_follow import follow

    try:
        return follow(**{name: value for name, value in vars(options).items() if name != "command"})
    except KeyboardInterrupt:
        if options.state is not None:
            raise
        print("\nInterrupted. Without --state nothing is kept: the next call begins anew.", file=sys.stderr)
        return 130


def _warn_before_first_run() -> None:
    if not (build_dir() / "ledger.csv").exists():
        print(
            f"No run yet ({_shown('ledger.csv')} is missing): `make reproduce` fills the ledger.",
            file=sys.stderr,
        )


def _list(options: argparse.Namespace) -> None:
    from dprepro.base import results
    from dprepro.base.paths import FIGURES
    from dprepro.kit import batch, claims
    from dprepro.text import pretrained

    print("Notebooks (dprepro run --only NAME)")
    for notebook in batch.discover():
        print("  ", notebook.name)
    print("Saved results and small models (dprepro rebuild NAME)")
    for name in [*results.names(), *pretrained.names()]:
        print("  ", name)
    print("Figures (dprepro figure NAME)")
    for path in sorted(FIGURES.rglob("*.json")):
        print("  ", path.relative_to(FIGURES).with_suffix("").as_posix())
    print("Tables (dprepro table NAME)")
    for name in claims.table_names():
        print("  ", name)


def _rebuild(options: argparse.Namespace) -> None:
    from dprepro.base import results
    from dprepro.text import pretrained

    if options.name in pretrained.names():
        pretrained.rebuild(options.name)
    else:
        results.rebuild(options.name, jobs=options.jobs)


def _fetch(options: argparse.Namespace) -> None:
    from dprepro.text import fetch

    for name, outcome in fetch.fetch(options.names):
        print(f"{name}: {outcome}")


def _figure(options: argparse.Namespace) -> None:
    from dprepro.kit import figures

    path = figures.redraw(options.name, form=options.format, venue=options.venue, column=options.column)
    print(os.path.relpath(path))


def _table(options: argparse.Namespace) -> None:
    from dprepro.kit import claims, tables

    print(tables.table(options.name, options.format, claims.load_ledger()))
    _warn_before_first_run()


def _notebooks(options: argparse.Namespace) -> int:
    from dprepro.kit import ledger, refresh

    status = _run(argparse.Namespace(profile="laptop", only="*", jobs=None, force=False))
    if status == 0:
        refresh.stored_outputs()
        refresh.readme_headline(ledger.ledger_text())
    return status


def _figures(options: argparse.Namespace) -> int:
    from dprepro.base.paths import FIGURES
    from dprepro.kit import refresh

    status = _run(argparse.Namespace(profile="laptop", only="*", jobs=None, force=False))
    refresh.collect_figures(FIGURES)
    return status


def _lab(options: argparse.Namespace) -> int:
    return subprocess.call([sys.executable, "-m", "jupyter", "lab", str(NOTEBOOKS / "index.ipynb")], cwd=ROOT)


def _bench(options: argparse.Namespace) -> int:
    return _python(
        "-m", "pytest", "tests/benchmarks", "-m", "benchmark", "-q", "-s", "-p", "no:cacheprovider"
    )


def _test(options: argparse.Namespace) -> int:
    # One thread a process, as in the batch: the processes share the cores. Coverage is measured on the library's
    # own tests only: nbval stalls under it.
    from dprepro.base.cluster import ONE_THREAD

    steps = {
        "ruff check": ("-m", "ruff", "check", "."),
        "ruff format": ("-m", "ruff", "format", "--check", "."),
        "mypy": ("-m", "mypy"),
        "tests": ("-m", "pytest", "tests", "-n", "2", "--dist", "loadscope", "--cov", "--cov-fail-under=90"),
        "notebooks": ("-m", "pytest", "notebooks", *NBVAL, "-n", "2", "--dist", "loadscope"),
        "their rows": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/notebooks/after_nbval.py"),
    }
    shutil.rmtree(build_dir() / "nbval", ignore_errors=True)
    failed = []
    for name, command in steps.items():
        print(f"\n== {name}", flush=True)
        start = time.perf_counter()
        if _python(*command, **ONE_THREAD) != 0:
            failed.append(name)
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    if failed:
        print(f"\nFAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


NBVAL = ("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600", "-p", "no:cacheprovider")


def _python(*arguments: str, **environment: str) -> int:
    return subprocess.call([sys.executable, *arguments], cwd=ROOT, env={**os.environ, **environment})


def _clean(options: argparse.Namespace) -> None:
    for name in (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    if build_dir().exists():
        shutil.rmtree(build_dir())
