"""One model a class: odds by hand, the account against one long run, and a real fit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel
from dprepro.mechanisms.one_vs_rest import OneVsRest, OneVsRestModel

PLAIN = DPSGD(noise_multiplier=0.0, clipping_norm=1.0, sample_rate=1.0, steps=40, learning_rate=2.0)


def corners(n=300, seed=0):
    """Three clouds around the corners of a triangle."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    centres = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centres[labels] + 0.7 * rng.normal(size=(n, 2)), labels


def test_confidences_are_the_odds_of_each_model_scaled():
    models = tuple(LogisticModel(np.array(w), b, 0) for w, b in (([1.0, 0.0], 0.5), ([0.0, -2.0], 0.0)))
    x = np.array([[0.3, -0.2], [40.0, 40.0], [-800.0, 0.0]])
    p = expit(np.stack([model.logits(x[:2]) for model in models], axis=1))
    odds = p / (1 - p + 1e-300)
    found = OneVsRestModel(models).confidences(x)
    assert found[0] == pytest.approx(odds[0] / odds[0].sum())
    assert found.sum(axis=1) == pytest.approx(np.ones(3))
    assert np.isfinite(found).all()


def test_each_model_is_the_binary_mechanism_on_one_class_against_the_rest():
    x, labels = corners()
    noisy = replace(PLAIN, noise_multiplier=1.5)
    fitted = OneVsRest(noisy, 3).fit(x, labels, np.random.default_rng(1), records=250)
    rng = np.random.default_rng(1)
    for c, model in enumerate(fitted.models):
        alone = noisy.fit(x, (labels == c).astype(float), rng, records=250)
        assert np.array_equal(model.weights, alone.weights)


def test_it_learns():
    x, labels = corners()
    fitted = OneVsRest(PLAIN, 3).fit(x, labels, np.random.default_rng(0))
    fresh, truth = corners(seed=9)
    assert (fitted.confidences(fresh).argmax(axis=1) == truth).mean() > 0.95


@pytest.mark.parametrize(("rate", "noise"), [(1.0, 20.0), (0.1, 4.0)])
def test_the_account_is_that_of_all_models_steps(rate, noise):
    mechanism = replace(PLAIN, noise_multiplier=noise, sample_rate=rate)
    found = OneVsRest(mechanism, 7).epsilon(1e-5)
    assert found == dp_sgd_epsilon(noise, rate, 7 * mechanism.steps, 1e-5)
    assert found > mechanism.epsilon(1e-5)


def test_no_noise_has_no_finite_account():
    assert OneVsRest(PLAIN, 3).epsilon(1e-5) == np.inf


def test_a_class_without_records_is_fitted_too():
    x, labels = corners()
    fitted = OneVsRest(PLAIN, 4).fit(x, labels, np.random.default_rng(0))
    assert fitted.confidences(x).shape == (300, 4)
    assert (fitted.confidences(x).argmax(axis=1) < 3).all()


@pytest.mark.parametrize("labels", [[0, 1, 3], [0, 1, -1], [0, 1, 0.5], [0, 1, np.nan]])
def test_labels_outside_the_classes_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be"):
        OneVsRest(PLAIN, 3).fit(np.zeros((3, 2)), labels, np.random.default_rng(0))


@pytest.mark.parametrize("classes", [1, 0, 2.5])
def test_too_few_classes_are_refused(classes):
    with pytest.raises(ValueError, match="classes must be a whole number of at least 2"):
        OneVsRest(PLAIN, classes)
