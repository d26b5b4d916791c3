"""``python -m dprepro``: works on a bare Python 3.11, because it first makes the environment that it needs."""

import sys

from dprepro.base.environment import run_in_environment


def _command_line(arguments: list[str]) -> int:
    # Imported only once there is an environment to import it in.
    from dprepro.kit.cli import main

    return main(arguments)


if __name__ == "__main__":
    sys.exit(run_in_environment(sys.argv[1:], _command_line))
