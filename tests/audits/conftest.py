"""An embedder for tests that need vectors of texts and no model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class LetterCounts:
    """An embedder that counts some letters: nothing to load, and the same on any machine."""

    letters: str

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        rows = (
            np.array([[text.count(letter) for letter in self.letters] for text in texts], dtype=float) + 0.01
        )
        rows = rows.reshape(len(texts), len(self.letters))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def counts_of() -> type[LetterCounts]:
    return LetterCounts
