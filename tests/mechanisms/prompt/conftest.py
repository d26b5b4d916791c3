import pytest

from dprepro.mechanisms.prompt.vocabulary import Vocabulary


@pytest.fixture
def rows_asked(monkeypatch):
    """How many rows each call of `Vocabulary.distances` asks for: the size of what is held at once."""
    asked, compute = [], Vocabulary.distances
    monkeypatch.setattr(
        Vocabulary,
        "distances",
        lambda self, rows, double: asked.append(len(rows)) or compute(self, rows, double),
    )
    return asked
