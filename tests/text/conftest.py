"""The packaged language model, loaded once, and a server process that serves it."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dprepro.text.local_model import LocalModel

SCRIPT = Path(__file__).with_name("model_server.py")


@pytest.fixture(scope="session")
def packaged() -> LocalModel:
    """The packaged model on one thread, converted into the build folder at the first run."""
    pytest.importorskip("transformers")
    local = LocalModel(max_tokens=4, threads=1)
    assert local.model is not None
    return local


@pytest.fixture(scope="session")
def variant(packaged: LocalModel) -> Any:
    """Return the packaged model with other settings, without loading it again."""

    def make(**changes: Any) -> LocalModel:
        changed = replace(packaged, **changes)
        changed.__dict__["_loaded"] = packaged._loaded
        return changed

    return make


class ServerProcess:
    """A process of model_server.py, told over HTTP what to do wrong."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port.isdigit(), "the server did not start"
        self.url = f"http://127.0.0.1:{port}/v1"

    def control(self, **settings: Any) -> dict[str, Any]:
        """Set what it does next; return what it saw since the last time, which is forgotten then."""
        request = urllib.request.Request(self.url + "/control", json.dumps(settings).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            return json.loads(response.read())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def server_process(packaged: LocalModel) -> Iterator[ServerProcess]:
    """A server with the packaged model, for the session."""
    process = ServerProcess()  # `packaged` has converted the weights by now
    yield process
    process.stop()


@pytest.fixture
def server(server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> ServerProcess:
    """That server, doing nothing wrong, and no key in the environment."""
    server_process.control(faults=[], key="")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return server_process


@pytest.fixture
def mortal_server() -> Iterator[ServerProcess]:
    """A server of its own, without a model, that dies at its fourth completion."""
    process = ServerProcess("--die-at", "4")
    yield process
    process.stop()
