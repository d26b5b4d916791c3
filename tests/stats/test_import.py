import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys, time
import scipy.special, scipy.optimize
start = time.perf_counter()
import dprepro.stats
for module in pkgutil.iter_modules(dprepro.stats.__path__):
    if module.name != "score_law":  # the exact binomial law of scipy.stats, for two notebooks
        importlib.import_module("dprepro.stats." + module.name)
print(time.perf_counter() - start, "torch" in sys.modules, "scipy.stats" in sys.modules)
"""


def test_importing_all_of_stats_is_cheap_and_takes_no_torch():
    # Three tries: the limit is about the code, not about what else the machine is doing.
    for _ in range(3):
        out = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
        ).stdout
        seconds, torch, scipy_stats = out.split()
        assert (torch, scipy_stats) == ("False", "False")
        if float(seconds) < 0.5:
            return
    raise AssertionError(f"importing dprepro.stats takes {seconds} s on top of scipy")
