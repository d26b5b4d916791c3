"""The whole suite as `dprepro test` runs it: linters, types, tests with their coverage, notebooks, saved results."""

import os
import shutil
import subprocess
import sys
import time

from dprepro.base.cluster import ONE_THREAD
from dprepro.base.paths import ROOT, build_dir

NBVAL = ("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600", "-p", "no:cacheprovider")
# Masters of labs have no stored outputs; tests/labs runs every cell of each, solved and untouched.
TABLES = ("notebooks", "--ignore=notebooks/labs")
# At full size: they fill the gaps that notebooks leave. Each also has tests of its code.
SAVED = "tests/test_saved_results.py"
# Benchmarks are `dprepro bench`: a ratio measured beside other work is another one.
LIBRARY = ("tests", "--ignore=tests/benchmarks", f"--ignore={SAVED}")
# More than the two cores that are counted on: a test that waits for a child leaves its core idle. Notebooks and saved
# results wait little, and a fourth process would cost the others a tenth of their speed.
SPREAD = ("--dist", "loadscope", "-n")
# Coverage by probes in the bytecode, since tracing doubles the time of Python code before 3.12. The warning is that
# the tests' own files cannot be measured with this pytest; they are not meant to be.
MEASURED = (
    "-W",
    "ignore:Unable to activate pytest branch:RuntimeWarning",
    "-m",
    "slipcover",
    "--json",
    "--out",
)
SUMMARY = ("-m", "slipcover", "--fail-under", "90", "--skip-covered", "--merge")
# glibc hands freed memory back at once, and asking for it again takes up to a quarter of an item's time.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31)}


def run() -> int:
    """Run every step, also after one that failed; return 1 if any did.

    One thread a process, as in the batch: the processes share the cores.
    """
    coverage = build_dir() / "coverage.json"
    steps = {
        "ruff check": ("-m", "ruff", "check", "."),
        "ruff format": ("-m", "ruff", "format", "--check", "."),
        "tests": (*MEASURED, str(coverage), "-m", "pytest", *LIBRARY, *SPREAD, "4"),
        "their coverage": (*SUMMARY, str(coverage), "--out", str(coverage)),
        "notebooks and saved results": ("-m", "pytest", *TABLES, SAVED, *NBVAL, *SPREAD, "3"),
        "their rows": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/notebooks/after_nbval.py"),
    }
    shutil.rmtree(build_dir() / "nbval", ignore_errors=True)
    coverage.unlink(missing_ok=True)
    coverage.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    # mypy runs beside the others, since it is one process and takes most of a minute where it has no cache.
    mypy = [sys.executable, "-m", "mypy"]
    with subprocess.Popen(
        mypy, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as types:
        for name, command in steps.items():
            print(f"\n== {name}", flush=True)
            start = time.perf_counter()
            environment = {**os.environ, **ONE_THREAD, **KEEP_MEMORY}
            if subprocess.call([sys.executable, *command], cwd=ROOT, env=environment) != 0:
                failed.append(name)
            print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
        print(f"\n== mypy\n{types.communicate()[0]}", flush=True)
    if types.returncode != 0:
        failed.append("mypy")
    if failed:
        print(f"\nFAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
