"""A process that calls functions for a Dask worker (`remote_worker`) until the worker is gone.

Pickled pairs (dotted name, arguments) come on standard input, pickled replies go to standard output; what the
functions print goes to standard error. The end of the input means that the worker has ended, however it did.
"""

import importlib
import os
import pickle
import signal
import threading
import traceback
from queue import SimpleQueue
from typing import Any, BinaryIO


def main() -> None:
    """Answer calls, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the worker answers it
    orders, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Neither a function nor a process that it starts may read or write between the messages.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    calls: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders, calls), daemon=True).start()
    while True:
        pickle.dump(_reply(*calls.get()), replies)
        replies.flush()


def _listen(orders: BinaryIO, calls: "SimpleQueue[tuple[str, dict[str, Any]]]") -> None:
    while True:
        try:
            calls.put(pickle.load(orders))
        except (EOFError, OSError):
            os._exit(0)  # in the middle of a call too


def _reply(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    module, _, name = function.rpartition(".")
    try:
        return {"value": getattr(importlib.import_module(module), name)(**arguments)}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main()
