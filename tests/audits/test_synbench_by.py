"""One item of the study: what goes to the fit, what to the writing, and what is refused before either."""

from types import SimpleNamespace

import numpy as np
import pytest

from dprepro.audits import synbench_by_aug_pe, synbench_by_diffusion, synbench_by_dp_gen
from dprepro.audits.synbench_by import Study, batch_rate
from dprepro.audits.synbench_tasks import Task
from dprepro.audits.synbench_utility import measured
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts

TASK = Task(
    "own",
    tuple(f"a {word} day {number}" for word in ("good", "bad") for number in range(6)),
    ("good",) * 6 + ("bad",) * 6,
    tuple(f"one {word} day {number}" for word in ("good", "bad") for number in range(4)),
    ("good",) * 4 + ("bad",) * 4,
    tuple(f"one {word} day {number}" for word in ("good", "bad") for number in range(4)),
    0,
)


@pytest.fixture
def embed(counts_of):
    return counts_of("abdgoy")


def test_settings_go_where_they_belong_and_the_rest_is_measured(embed):
    asked = []
    wrote = SyntheticTexts([*TASK.texts], [*TASK.labels], 0)

    def fitted(task, epsilon, rng, embed, *, steps):
        asked.append((task, epsilon, steps))
        return SimpleNamespace(epsilon=1.5, delta=0.01, noise_multiplier=2.0, sample=sample)

    def sample(counts, rng, **how):
        asked.append((counts, how))
        return wrote

    study = Study(fitted, ("width",), lambda made: {"twice": 2 * made.epsilon})
    found = study.scores(TASK, 2.0, np.random.default_rng(0), embed, written=6, steps=7, width=9)
    assert asked == [(TASK, 2.0, 7), ({"bad": 3, "good": 3}, {"width": 9})]
    assert found == {
        "epsilon": "1.5",
        "delta": 0.01,
        "noise_multiplier": 2.0,
        **measured(TASK, wrote, embed),
        "twice": 3.0,
    }
    with pytest.raises(ValueError, match="settings must hold width, got steps"):
        study.scores(TASK, 2.0, np.random.default_rng(0), embed, written=6, steps=7)


def test_a_batch_is_at_most_the_task(embed):
    assert batch_rate(TASK, 3) == 0.25
    assert batch_rate(TASK, 400) == 1.0
    for module in (synbench_by_dp_gen, synbench_by_diffusion):
        with pytest.raises(ValueError, match="batch must be a whole number of at least 1, got 0"):
            module.fitted(TASK, 1.0, np.random.default_rng(0), embed, batch=0, steps=1, learning_rate=1e-3)


def test_a_pool_is_shared_by_the_classes(monkeypatch, embed):
    settings = []

    class Votes:
        def __init__(self, epsilon, rounds, kept, variations):
            settings.append((epsilon, rounds, kept, variations))

        def fit(self, writer, embedder, texts, labels, rng):
            return SimpleNamespace(passed={"good": (0, 3), "bad": (0, 0)}, unchanged=5)

    monkeypatch.setattr(synbench_by_aug_pe, "AugPE", Votes)
    rest = {"rounds": 2, "variations": 1, "max_tokens": 4}
    for pool in (4, 5, 60):
        made = synbench_by_aug_pe.fitted(TASK, 1.0, np.random.default_rng(0), embed, pool=pool, **rest)
    assert settings == [(1.0, 2, 2, 1), (1.0, 2, 2, 1), (1.0, 2, 30, 1)]
    assert synbench_by_aug_pe.said(made) == {"random_rounds": 3, "unchanged": 5}
    for pool in (1, 3):
        with pytest.raises(
            ValueError, match=f"pool must be at least 2 texts for each of 2 classes, got {pool}"
        ):
            synbench_by_aug_pe.fitted(TASK, 1.0, np.random.default_rng(0), embed, pool=pool, **rest)
    with pytest.raises(ValueError, match="pool must be a whole number of at least 1, got 0"):
        synbench_by_aug_pe.fitted(TASK, 1.0, np.random.default_rng(0), embed, pool=0, **rest)
