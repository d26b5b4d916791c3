"""The batch on a repository of its own."""

from typing import Any

import pytest

from dprepro.kit import batch


@pytest.fixture
def run(house: Any, workers: Any) -> Any:
    """Run the batch of `house` on the shared workers."""

    def call(*args: Any, **options: Any) -> batch.RunSummary:
        return batch.run(*args, client=workers, **options)

    return call
