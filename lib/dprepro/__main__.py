"""``python -m dprepro``: works on a bare Python 3.11, because it first makes the environment that it needs."""

import sys

from dprepro.kit.environment import run_in_environment

if __name__ == "__main__":
    sys.exit(run_in_environment(sys.argv[1:]))
