"""The design of the shadow study, its two arms at a small size, and that noise is all that DP-SGD adds."""

import numpy as np
import pytest

from dprepro.audits.synbench_shadow import (
    FEATURES,
    LABELS,
    confidences,
    features,
    private_confidences,
    shadow_design,
    synthetic_confidences,
    training,
)
from dprepro.mechanisms.dp_sgd import LogisticModel

SMALL = {"data_seed": 3, "fewest": 6, "most": 24, "private": 20, "population": 4, "models": 4}
CLASSIFIER = {"sample_rate": 0.5, "steps": 10, "learning_rate": 5.0}


@pytest.fixture(scope="module")
def design():
    return shadow_design(**SMALL)


def test_design_halves_everything(design):
    assert len(design.texts) == len(set(design.texts)) == 24
    for part in (design.labels[:20], design.labels[20:]):
        assert part.count("good") == part.count("bad") == len(part) // 2
    assert design.included.shape == (4, 20)
    assert (design.included.sum(axis=0) == 2).all()
    texts, labels = design.private(1)
    assert texts == [text for text, inside in zip(design.texts, design.included[1], strict=False) if inside]
    assert [LABELS[int(value)] for value in design.good[:20][design.included[1]]] == labels


def test_design_follows_from_its_seed(design):
    shadow_design.cache_clear()
    again, other = shadow_design(**SMALL), shadow_design(**{**SMALL, "data_seed": 4})
    assert again.texts == design.texts
    assert (again.included == design.included).all()
    assert other.texts != design.texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"private": 21}, "must be even and fit the snippets, got \\[21, 4\\]"),
        ({"population": 20_000}, "must be even and fit the snippets"),
        ({"models": 5}, "subsets must be even"),
        ({"private": 0}, "private must be a whole number of at least 1"),
    ],
)
def test_bad_designs_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        shadow_design(**{**SMALL, **change})


def test_words_have_length_one_and_no_vocabulary_of_their_own():
    rows = features("words", ["a fine film", "fine a film", "..."])
    assert rows.shape == (3, 2048)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 0])
    assert (rows[0] != rows[1]).any()  # pairs of words
    assert (features("words", ["a fine film"])[0] == rows[0]).all()  # whatever stands beside it
    with pytest.raises(ValueError, match="kind must be one of 'sentences', 'words', got 'letters'"):
        features("letters", ["a"])


def test_training_without_privacy_never_clips():
    plain = training(np.inf, 0.01, **CLASSIFIER)
    assert plain.noise_multiplier == 0
    # |p - y| sqrt(|x|^2 + 1) with |x| = 1 and |p - y| below 1
    assert plain.clipping_norm == pytest.approx(np.sqrt(2))
    private = training(2.0, 0.01, **CLASSIFIER)
    assert private.clipping_norm == 1
    assert 0 < private.epsilon(0.01) <= 2


def test_confidence_is_that_of_the_true_label():
    model = LogisticModel(np.array([np.log(4)]), 0.0)
    assert confidences(model, np.array([[1.0], [1.0], [0.0]]), np.array([1.0, 0, 1])) == pytest.approx(
        [0.8, 0.2, 0.5]
    )


def test_a_private_model_is_trained_on_its_own_texts_alone(design):
    x = features("words", design.texts)
    whole = training(np.inf, 0.01, 1.0, 400, 20.0)
    found = private_confidences(design, x, whole, np.random.default_rng(1))
    assert found.shape == (4, 24)
    assert found[:, :20][design.included].min() > 0.7
    assert found[:, :20][~design.included].mean() < 0.7
    # Without sampling and noise nothing is random: the second model alone gives its row.
    own = np.flatnonzero(design.included[1])
    model = whole.fit(x[own], design.good[own], np.random.default_rng(9), records=20)
    assert found[1] == pytest.approx(np.exp(-model.loss(x, design.good)))


def test_a_synthetic_model_sees_what_the_generator_wrote():
    """Runs both models, small."""
    settings = {
        **SMALL,
        "sample_rate": 0.5,
        "steps": 2,
        "learning_rate": 1e-3,
        "written": 6,
        "max_tokens": 8,
        **{f"classifier_{name.removeprefix('sample_')}": value for name, value in CLASSIFIER.items()},
    }
    found = synthetic_confidences(1, np.random.default_rng(5), epsilon="inf", **settings)
    assert found["epsilon"] == "inf"
    assert found["delta"] == 1 / 20
    assert found["copied_in"] + found["copied_out"] == 0
    for kind in FEATURES:
        assert len(found[kind]) == 24
        assert 0 < min(found[kind]) < max(found[kind]) < 1
    private = synthetic_confidences(1, np.random.default_rng(5), epsilon=2.0, **settings)
    assert 1.5 < float(private["epsilon"]) <= 2
    assert private["noise_multiplier"] > 0
    assert private["words"] != found["words"]
    with pytest.raises(ValueError, match="epsilon must be in"):
        synthetic_confidences(1, np.random.default_rng(5), epsilon=0, **settings)
