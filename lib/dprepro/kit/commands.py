"""What each command of the command line does: one call into the room that knows how.

The rooms are imported inside the functions, so that ``dprepro --help`` does not wait for them.
"""

import argparse
import os
import shutil
import subprocess
import sys

from dprepro.base.paths import NOTEBOOKS, ROOT, build_dir


def setup(options: argparse.Namespace) -> int:
    """Install what the locks name (python -m dprepro setup)."""
    from dprepro.base.environment import run_in_environment
    from dprepro.kit.cli import main

    return run_in_environment(["setup"], main)


def run(options: argparse.Namespace) -> int:
    """Execute notebooks."""
    from dprepro.kit import batch, ledger

    summary = batch.run(
        options.profile, options.only, options.jobs, options.force, scheduler=options.scheduler
    )
    ledger.gather(options.profile)
    return 1 if summary.failed else 0


def _run_laptop(jobs: int | None = None) -> int:
    return run(argparse.Namespace(profile="laptop", only="*", jobs=jobs, force=False, scheduler=None))


def reproduce(options: argparse.Namespace) -> int:
    """Execute every table notebook; write ledger, figures and site."""
    from dprepro.kit import ledger_views, refresh
    from dprepro.kit import site as pages

    status = _run_laptop(options.jobs)
    refresh.collect_figures(build_dir() / "figures")
    print()
    print(ledger_views.ledger_text())
    print(f"Ledger: {_shown('ledger.csv')}, on one page: {_shown('ledger.html')}")
    print(f"With its notebooks and figures, to read in a browser: {os.path.relpath(pages.build())}")
    print(f"Figures: {_shown('figures')}; executed notebooks: {_shown('laptop')}")
    return status


def _shown(name: str) -> str:
    return os.path.relpath(build_dir() / name)


def ledger(options: argparse.Namespace) -> None:
    """Print the verdicts of the last laptop or paper run."""
    from dprepro.kit import ledger_views

    print(ledger_views.ledger_text(paper=options.paper, cls=options.cls, claims=options.claims))
    _warn_before_first_run()


def diff(options: argparse.Namespace) -> int:
    """Which numbers moved between two runs; exit status 1 if more than chance moved one."""
    from dprepro.kit import moved

    found = moved.moves(moved.read_run(options.run_a), moved.read_run(options.run_b))
    print(moved.moves_text(found))
    return 1 if found.matters else 0


def monitor(options: argparse.Namespace) -> int:
    """Watch a privacy claim over time, from counts in a CSV file or a stream."""
    from dprepro.audits.monitor_follow import follow

    try:
        return follow(**{name: value for name, value in vars(options).items() if name != "command"})
    except KeyboardInterrupt:
        if options.state is not None:
            raise
        print("\nInterrupted. Without --state nothing is kept: the next call begins anew.", file=sys.stderr)
        return 130


def audit_card(options: argparse.Namespace) -> int:
    """Check a privacy claim about a language model, write a card."""
    from dprepro.audits import audit_card, audit_card_claim

    if options.template == (options.claim is not None):
        raise ValueError("audit-card needs a claim file or --template, one of the two")
    if options.template:
        print(audit_card_claim.template(), end="")
        return 0
    return audit_card.audit_card(options.claim, options.output)


def _warn_before_first_run() -> None:
    if not (build_dir() / "ledger.csv").exists():
        print(
            f"No run yet ({_shown('ledger.csv')} is missing): `make reproduce` fills the ledger.",
            file=sys.stderr,
        )


def list_names(options: argparse.Namespace) -> None:
    """Notebooks, saved results, figures and tables by name."""
    from dprepro.base import results
    from dprepro.base.paths import FIGURES
    from dprepro.kit import batch, claims
    from dprepro.mechanisms.synthesis import diffusion_start
    from dprepro.text import pretrained

    print("Notebooks (dprepro run --only NAME)")
    for notebook in batch.discover():
        print("  ", notebook.name)
    print("Saved results and small models (dprepro rebuild NAME)")
    for name in [*results.names(), *pretrained.names(), diffusion_start.NAME]:
        print("  ", name)
    print("Figures (dprepro figure NAME)")
    for path in sorted(FIGURES.rglob("*.json")):
        print("  ", path.relative_to(FIGURES).with_suffix("").as_posix())
    print("Tables (dprepro table NAME)")
    for name in claims.table_names():
        print("  ", name)


def rebuild(options: argparse.Namespace) -> None:
    """Compute a saved result again, or by the first word of their names those that are missing or out of date."""
    from dprepro.base import results
    from dprepro.mechanisms.synthesis import diffusion_start
    from dprepro.text import pretrained

    def compute(name: str) -> None:
        if options.scheduler is None:
            results.rebuild(name, jobs=options.jobs)
        else:
            from dprepro.kit import remote_rebuild

            remote_rebuild.rebuild(name, options.scheduler, options.jobs)

    names = results.names()
    group = [name for name in names if name.startswith(f"{options.name}_")]
    if options.name in (*pretrained.names(), diffusion_start.NAME):
        if options.scheduler is not None:
            raise ValueError(f"{options.name} is trained on this machine: leave out --scheduler")
        if options.name == diffusion_start.NAME:
            diffusion_start.rebuild()
        else:
            pretrained.rebuild(options.name)
    elif options.name in names or not group:
        compute(options.name)
    else:
        # Those that read other saved results come last.
        for name in sorted(
            group, key=lambda name: any("results/" in read for read in results.recipe(name).data)
        ):
            try:
                results.load(name)
                print(f"{name}: nothing to do")
            except (ValueError, OSError):
                compute(name)


def fetch(options: argparse.Namespace) -> None:
    """Get material that is not shipped (tweets, GloVe vectors)."""
    from dprepro.text import fetch

    for name, outcome in fetch.fetch(options.names):
        print(f"{name}: {outcome}")


def figure(options: argparse.Namespace) -> None:
    """Draw one figure again from its saved numbers."""
    from dprepro.kit import figures

    path = figures.redraw(options.name, form=options.format, venue=options.venue, column=options.column)
    print(os.path.relpath(path))


def table(options: argparse.Namespace) -> None:
    """Print one table of the ledger."""
    from dprepro.kit import claims, tables

    print(tables.table(options.name, options.format, claims.load_ledger()))
    _warn_before_first_run()


def notebooks(options: argparse.Namespace) -> int:
    """Refresh the stored outputs of the notebooks and README's headline."""
    from dprepro.kit import ledger_views, refresh

    status = _run_laptop()
    if status == 0:
        refresh.stored_outputs()
        refresh.readme_headline(ledger_views.ledger_text())
    return status


def figures(options: argparse.Namespace) -> int:
    """Draw the figures of the laptop profile into figures/."""
    from dprepro.base.paths import FIGURES
    from dprepro.kit import refresh

    status = _run_laptop()
    refresh.collect_figures(FIGURES)
    return status


def lab(options: argparse.Namespace) -> int:
    """JupyterLab on notebooks/index.ipynb."""
    return subprocess.call([sys.executable, "-m", "jupyter", "lab", str(NOTEBOOKS / "index.ipynb")], cwd=ROOT)


def lab_release(options: argparse.Namespace) -> None:
    """Make the students' versions of the labs."""
    from dprepro.kit import labs_release

    folders = labs_release.release(options.roster, options.lab, options.secret)
    print(f"Released to {len(folders)}: {os.path.relpath(folders[0].parent)}")
    print(f"Keep {_shown('labs/secret')} and show it to nobody: the seeds of the students come from it.")


def lab_grade(options: argparse.Namespace) -> None:
    """Grade a folder of submissions into a CSV."""
    from dprepro.kit import labs_grade

    labs_grade.grade(
        options.submissions,
        trusted=options.trusted,
        jobs=options.jobs,
        roster=options.roster,
        secret=options.secret,
    )
    print(f"Grades: {_shown('labs/grades.csv')}, a text for each student: {_shown('labs/feedback')}")


def site(options: argparse.Namespace) -> None:
    """Write the ledger, its notebooks and figures as static pages into build/site."""
    from dprepro.kit import site

    print(f"To read in a browser: {os.path.relpath(site.build())}")


def bench(options: argparse.Namespace) -> int:
    """Measure the stated targets (ratios, in one run)."""
    command = ("-m", "pytest", "tests/benchmarks", "-m", "benchmark", "-q", "-s", "-p", "no:cacheprovider")
    return subprocess.call([sys.executable, *command], cwd=ROOT)


def test(options: argparse.Namespace) -> int:
    """Linters, type checker, test suite, and the notebooks against their stored outputs."""
    from dprepro.kit import suite

    return suite.run()


def clean(options: argparse.Namespace) -> None:
    """Delete what was built (build/ and caches; .venv stays)."""
    for name in (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for path in [*build_dir().glob("*")]:
        if path.name == "labs":  # a secret and grades, which nothing can make again
            print(f"{_shown('labs')} stays: it holds the labs' secret and grades. Delete it yourself.")
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if build_dir().exists() and not any(build_dir().iterdir()):
        build_dir().rmdir()
