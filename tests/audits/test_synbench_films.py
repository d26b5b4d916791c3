"""The saved targets and design of the attack on film reviews: roles are disjoint, the design is what it should be."""

import numpy as np
import pytest

from dprepro.audits.synbench_films import films


@pytest.fixture(scope="module")
def saved():
    return films()


def test_every_target_is_in_half_of_the_subsets_and_in_two_references(saved):
    assert saved.design.included.shape == (40, 90)
    assert (saved.design.included.sum(axis=0) == 20).all()
    assert (saved.design.references_included.sum(axis=0) == 2).all()
    assert [(saved.kinds == kind).sum() for kind in ("outlier", "member", "canary")] == [30, 30, 30]


def test_no_snippet_has_two_roles(saved):
    design = saved.design
    assert set(design.private.ravel()) <= set(saved.pool)
    roles = [set(saved.pool), set(design.references.ravel()), set(saved.public)]
    assert sum(map(len, roles)) == len(set.union(*roles))
    in_pools = {saved.texts[place] for role in roles for place in role}
    assert not in_pools & set(saved.targets)
    assert len(set(saved.targets)) == 90


def test_a_subset_is_its_control_and_the_targets_in_it(saved):
    texts, labels = saved.subset(7)
    bare, bare_labels = saved.control(7)
    inside = np.flatnonzero(saved.design.included[7])
    assert texts == bare + [saved.targets[place] for place in inside]
    assert labels == bare_labels + [saved.labels[place] for place in inside]
    assert len(bare) == 200
    assert set(labels) == {"bad", "good"}


def test_a_target_is_likelier_after_the_references_that_hold_it(saved):
    found, held = saved.references(2), saved.design.references_included
    gain = [row[inside].mean() - row[~inside].mean() for row, inside in zip(found.T, held.T, strict=True)]
    assert min(gain) > 0
