"""The planted study in small: what is planted is found, and removal leaves what it says."""

import numpy as np
import pytest

from dprepro.audits import contamination_study as study

SMALL = {
    "data_seed": 41,
    "each": 8,
    "tested": 10,
    "longest": 24,
    "written": 8,
    "planted": 0.5,
    "passes": 1,
    "batch": 8,
    "pretraining_rate": 1e-3,
    "epsilon": 2.0,
    "sample_rate": 1.0,  # the account without sampling is a formula; with it, it takes seconds
    "steps": 1,
    "learning_rate": 1e-2,
}


def test_an_item_of_each_kind():
    """Two short trainings of the small model and their texts: seconds."""
    first = study.effect("planted, 0.5, 0", np.random.default_rng(7), **SMALL)
    assert first["planted"] == first["found"] == 8
    for budget in ("eps", "inf"):
        assert 0 < first[f"mauve, {budget}"] <= 1
        assert 0 <= first[f"macro, {budget}"] <= 1
        assert 0 <= first[f"longest, {budget}"] <= 24
    removed = study.effect("unmarked, eps, 0", np.random.default_rng(7), **SMALL)
    assert removed["left"] == [14, 12, 10]
    assert len(removed["macro"]) == 3
    assert removed["noise"] == sorted(removed["noise"], reverse=True)  # delta is 1/N


@pytest.mark.parametrize(("key", "name"), [("planned, 0.5, 0", "key"), ("marked, 2, 0", "budget")])
def test_unknown_items_are_refused(key, name):
    with pytest.raises(ValueError, match=f"{name} must be one of"):
        study.effect(key, np.random.default_rng(7), **SMALL)
