"""A kernel of this very interpreter, started so that nothing of the user's own set-up changes a result.

Sockets in the file system replace ports where the system has them: they cannot clash between two batches, and
ipykernel has no open port to warn about.
"""

import os
import re
import sys
from pathlib import Path
from typing import IO

import psutil
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from dprepro.base.cluster import ONE_THREAD

KERNELSPEC = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
_SOCKET_PATH_LIMIT = 96  # bytes with "-ipc-5" still to come; the systems allow 103 (macOS) and 107 (Linux)


class _ThisPython(KernelSpecManager):
    """Knows one kernel, the ipykernel of this interpreter, whatever the user's Jupyter path holds."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


def kernel_manager(private: Path) -> AsyncKernelManager:
    """Return a manager whose kernel is this interpreter; its connection file and sockets lie in `private`."""
    connection = private / "k.json"
    fits = len(os.fsencode(connection)) < _SOCKET_PATH_LIMIT
    return AsyncKernelManager(
        kernel_name=KERNELSPEC["name"],
        kernel_spec_manager=_ThisPython(),
        transport="ipc" if os.name == "posix" and fits else "tcp",
        connection_file=str(connection),
    )


def environment(build: Path, results: Path, private: Path) -> dict[str, str]:
    """Return the environment of a kernel.

    Parameters
    ----------
    build, results : Path
        The build folder, and where the notebook's results go.
    private : Path
        A folder of this kernel alone.
    """
    # Dask fixes the hash seed of its workers; a notebook that depends on the order of a set must not look stable.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return {
        **inherited,
        **ONE_THREAD,
        "DPREPRO_BUILD": str(build),
        "DPREPRO_OUT": str(results),
        "IPYTHONDIR": str(private / "ipython"),  # start-up files of the user's own stay out
        "TQDM_DISABLE": "1",
    }


def peak_memory(pid: int | None) -> int:
    """Return the largest resident size so far of a process in bytes; the present size where no peak is kept."""
    try:
        if sys.platform == "linux":
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            return int(found[1]) * 1024 if found else 0
        memory = psutil.Process(pid).memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    except (OSError, psutil.Error):
        return 0


def last_words(streams: IO[bytes]) -> str:
    """Return the last lines that a kernel process wrote, for the message about its death."""
    streams.seek(0)
    lines = streams.read().decode(errors="replace").split("\n")
    kept = [line.strip() for line in lines if line.strip()][-3:]
    return f" (its last output: {' | '.join(kept)})" if kept else ""
