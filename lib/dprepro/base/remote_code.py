"""What a client sends to workers as code, and not by name: they may have another dprepro, or none.

`identity` and `on_worker` import inside, since nothing else of this module goes with them.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any


def identity() -> dict[str, str]:
    """Return what must be the same on the client and on a worker: code and locks of dprepro, installed versions."""
    from importlib import metadata

    try:
        from dprepro.base import paths
        from dprepro.base.environment import package_versions
        from dprepro.base.store import sha256_tree

        code = sha256_tree([paths.ROOT / "lib" / "dprepro"])[:12]
        locks = sha256_tree(paths.ROOT / name for name in ("requirements.lock", "models.lock"))[:12]
        return {
            "dprepro": f"{metadata.version('dprepro')}, code {code}",
            "locks": locks,
            **package_versions(),
        }
    except (ImportError, OSError) as error:
        return {"dprepro": f"none that can be used ({error})"}


def on_worker(found_here: Callable[[], dict[str, str]], request: dict[str, Any]) -> dict[str, Any]:
    """Refuse the request, or carry it out with the worker's own dprepro, which then is the client's."""
    import os

    from distributed import get_worker

    place = os.path.join(get_worker().local_directory, f"dprepro-{request['key']}")
    if not os.path.isdir(place):  # else a task was here, so this worker fits
        wanted, found = request["identity"], found_here()
        differs = [
            f"{name} {found.get(name, 'none')} there, {wanted.get(name, 'none')} here"
            for name in {**wanted, **found}
            if found.get(name) != wanted.get(name) and ("locks" in found or name == "dprepro")
        ]
        if differs:
            return {"refused": "; ".join(differs), "worker": get_worker().address}
    from dprepro.base.remote_worker import carry_out

    return carry_out(place, request)


def as_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy that is pickled as code, not by name: scheduler and workers may have another dprepro, or none."""
    names = {"__builtins__": __builtins__, "__name__": "__main__"}
    copy = FunctionType(function.__code__, names, function.__name__)
    copy.__module__ = "__main__"
    return copy
