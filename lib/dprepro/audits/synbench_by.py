"""One generator in the utility and fidelity study (``synbench_utility``): fit it on a task, let it write, measure.

A module ``synbench_by_...`` says how its generator is fitted, and with what it writes; the rest is the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprepro.audits.synbench_tasks import Task
from dprepro.audits.synbench_utility import account, measured, parsed, vectors
from dprepro.base.check import positive_count
from dprepro.text.embedders import TextEmbedder


@dataclass(frozen=True)
class Study:
    """What a generator does with a task.

    Parameters
    ----------
    fitted : callable
        fitted(task, epsilon, rng, embed, **settings) -> a fitted generator of ``mechanisms.synthesis``. It may use
        `embed`, the embedder of the measures; an infinite epsilon is no privacy.
    sampling : tuple of str
        Settings that go to the generator's `sample`.
    also : callable, optional
        also(generator) -> further values of an item.
    """

    fitted: Callable[..., Any]
    sampling: tuple[str, ...] = ()
    also: Callable[[Any], dict[str, Any]] = lambda _: {}

    def item(self, key: str, rng: np.random.Generator, **settings: Any) -> dict[str, Any]:
        """Return one item, "<domain>, <epsilon>, <number of the draw>"; `settings` as of `scores`."""
        task, epsilon = parsed(key)
        return self.scores(task, epsilon, rng, vectors(), **settings)

    def scores(
        self,
        task: Task,
        epsilon: float,
        rng: np.random.Generator,
        embed: TextEmbedder,
        *,
        written: int,
        **settings: Any,
    ) -> dict[str, Any]:
        """Fit the generator and measure what it writes.

        Parameters
        ----------
        task : Task
        epsilon : float
            Infinity for no privacy.
        rng : Generator
        embed : TextEmbedder
        written : int
            Synthetic texts, about; by classes as the private texts.
        **settings
            Of `fitted`, and those named in `sampling`.

        Returns
        -------
        dict
            As `synbench_utility.account` and `synbench_utility.measured`, with what `also` adds.

        Raises
        ------
        ValueError
            A setting of `sampling` is missing; what the generator raises.
        """
        if missing := [name for name in self.sampling if name not in settings]:
            raise ValueError(f"settings must hold {', '.join(missing)}, got {', '.join(settings) or 'none'}")
        how = {name: settings.pop(name) for name in self.sampling}
        made = self.fitted(task, epsilon, rng, embed, **settings)
        wrote = made.sample(task.counts(written), rng, **how)
        return {**account(made), **measured(task, wrote, embed), **self.also(made)}


def batch_rate(task: Task, batch: int) -> float:
    """Return the rate at which a text is in a batch of so many, as expected; 1 where the task has no more."""
    return min(1.0, float(positive_count("batch", batch)) / len(task.texts))
