import numpy as np
import pytest

from dprepro.audits import filter_study
from dprepro.audits.filter_study import LABELS, report
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts

PARAMETERS = {
    "question": "{label}: {text}",
    "epsilon": 4.0,
    "private": 8,
    "reference": 12,
    "written": 6,
    "share": 0.5,
    "halves": 3,
    "max_tokens": 4,
    "dp_gen": [0.5, 1, 1e-3],
    "aug_pe": [1, 4, 1],
}


class Lengths:
    """A responder and an embedder that know the length of a text alone."""

    def label_logprobs(self, prompts, labels):
        share = np.array([1 / (1 + len(prompt)) for prompt in prompts])
        return np.log(np.column_stack([share, 1 - share]))

    def encode(self, texts):
        return np.array([[len(text), 1.0] for text in texts]).reshape(len(texts), 2)


@pytest.fixture
def light(monkeypatch):
    """Nothing that has to be loaded: lengths in place of models, a generator that writes prepared texts."""
    made = SyntheticTexts(
        ["a" * (n % 6 + 1) for n in range(11)] + [" " * 6], [label for label in LABELS for _ in range(6)], 1
    )
    fits = []

    class Generator:
        epsilon, delta = 3.9, 0.01

        def sample(self, counts, rng, *rest):
            assert counts == dict.fromkeys(LABELS, 6)
            return made

    class Mechanism:
        def __init__(self, *settings, **more):
            self.settings = settings

        def fit(self, *rest, **more):
            fits.append((self.settings, rest[2:4]))
            return Generator()

    for name in ("_embedder", "_responder"):
        monkeypatch.setattr(filter_study, name, Lengths)
    for name in ("DPGen", "AugPE"):
        monkeypatch.setattr(filter_study, name, Mechanism)
    monkeypatch.setattr(filter_study, "tiny_lm", lambda: (None, None))
    monkeypatch.setattr(filter_study, "Continuations", lambda *rest: None)
    monkeypatch.setattr(filter_study, "mauve", lambda real, vectors: float(vectors[:, 0].sum()))
    filter_study._reference.cache_clear()
    yield fits
    filter_study._reference.cache_clear()


@pytest.mark.parametrize(
    ("generator", "settings"), [("DP-Gen", (4.0, 0.5, 1, 1e-3)), ("AUG-PE", (4.0, 1, 4, 1))]
)
def test_the_kept_half_is_laid_beside_random_halves_of_the_same_size(generator, settings, light):
    found = report(f"{generator}, 0", np.random.default_rng(0), **PARAMETERS)
    # The stand-in for MAUVE adds lengths up: the shortest of each class are kept, 1 + 2 + 3 twice.
    assert (found["mauve"], found["mauve, kept"], found["mauve, dropped"]) == (42, 12, 30)
    assert all(12 <= value <= 30 for value in found["mauve, random"])
    # The blank one, the longest of its class, is never among the three of five others.
    assert all(12 <= value <= 27 for value in found["mauve, random visible"])
    assert len(found["mauve, random"]) == len(found["mauve, random visible"]) == 3
    assert found["blanks"] == 1
    # Real texts are longer than all visible ones, the score falls with length, and only the blank one is below them.
    assert found["recognised"] == round(1 / 12, 2)
    assert found["nearness"] < 0
    assert found["mauve, nearest"] == 30  # the longest of each class: real texts are longer
    assert found["texts"] == 12
    assert found["best"][0] == "a"
    assert found["worst"][:2] == [" " * 6, "a" * 6]
    (asked, (texts, labels)), *more = light
    assert not more
    assert asked == settings
    assert labels == [label for label in LABELS for _ in range(4)]
    assert len(set(texts)) == 8


def test_real_texts_are_of_the_other_side_of_the_split():
    train, _ = filter_study._films("train", 200, np.random.default_rng(0))
    test, labels = filter_study._films("test", 200, np.random.default_rng(0))
    assert not set(train) & set(test)
    assert labels.count("positive") == labels.count("negative") == 100
    table = filter_study.corpus("movies").table.set_index("text")["sentiment"]
    signs = [float(np.atleast_1d(table[text])[0]) > 0 for text in test]
    assert signs == [label == "positive" for label in labels]


def test_an_unknown_kind_is_named(light):
    with pytest.raises(ValueError, match="key must be one of 'DP-Gen', 'AUG-PE', got 'GPT'"):
        report("GPT, 0", np.random.default_rng(0), **PARAMETERS)
