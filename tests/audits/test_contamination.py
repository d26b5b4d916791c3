"""Matching against a search by hand, planted counts that come back, removal in stages."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprepro.audits import contamination
from dprepro.audits.contamination import contaminated, match, plant, removal_order, removed_at
from dprepro.audits.contamination_index import build_index, tokens
from dprepro.text.corpora import corpus

LETTERS = st.lists(st.sampled_from(["a", "b", "c", "ü"]), max_size=8).map(" ".join)


def runs(row, texts):
    """Places of a run of tokens in texts, by the definition."""
    found = []
    for number, text in enumerate(texts):
        other = tokens(text)
        found += [
            (number, i) for i in range(len(other) - len(row) + 1) if row and other[i : i + len(row)] == row
        ]
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(private=LETTERS, public=st.lists(LETTERS, max_size=4))
def test_longest_match_is_that_of_all_parts_tried_one_by_one(private, public, tmp_path):
    found = match([private], build_index(tmp_path / "index", public, "drawn")).iloc[0]
    row = tokens(private)
    parts = [(begin, end) for begin in range(len(row)) for end in range(begin + 1, len(row) + 1)]
    held = [part for part in parts if runs(row[slice(*part)], public)]
    begin, end = max(held, key=lambda part: (part[1] - part[0], -part[0]), default=(0, 0))
    places = runs(row[begin:end], public)
    assert found["tokens"] == len(row)
    assert found["count"] == len(runs(row, public))
    assert (found["longest"], found["begin"], found["places"]) == (end - begin, begin, len(places))
    assert (found["text"], found["token"]) == (min(places) if places else (-1, -1))


def test_a_case_by_hand(tmp_path):
    public = ["a dull film , a dull plot", "no plot at all"]
    found = match(
        [
            "a dull plot",
            "a dull day",
            "never",
            "",
            "plot at all and then a dull film , a dull plot of this kind",
        ],
        build_index(tmp_path, public, "two"),
    )
    assert found.to_numpy().tolist() == [
        [3, 1, 3, 0, 1, 0, 4],
        [3, 0, 2, 0, 2, 0, 0],
        [1, 0, 0, 0, 0, -1, -1],
        [0, 0, 0, 0, 0, -1, -1],
        [15, 0, 7, 5, 1, 0, 0],  # longer than each public text
    ]
    assert contaminated(found).tolist() == [0]


def test_no_texts_and_one_text_in_place_of_several(tmp_path):
    index = build_index(tmp_path, ["a"], "one")
    assert match([], index).shape == (0, 7)
    assert contaminated(match([], index)).tolist() == []
    for texts in ("a", ["a", 3], None):
        with pytest.raises(ValueError, match="texts must be a sequence of texts"):
            match(texts, index)
    with pytest.raises(
        ValueError, match="index must be one that build_index or open_index gave, got 'a folder'"
    ):
        match(["a"], "a folder")


@pytest.mark.parametrize("share", [0, 0.25, 0.5, 1])
def test_planted_counts_come_back_exactly(share, tmp_path):
    """Reviews of products among editorials: what was planted, and nothing else, stands there as a whole."""
    public = corpus("editorials").without_copies().texts[:400]
    private = [text for text in corpus("products").without_copies().texts if len(tokens(text)) > 8][:100]
    planted = plant(public, private, share, np.random.default_rng(1), copies=3)
    assert len(planted.texts) == 400 + 3 * round(share * 100)
    found = match(private, build_index(tmp_path, planted.texts, "planted"))
    assert contaminated(found).tolist() == planted.numbers.tolist()
    assert found["count"].to_numpy()[planted.numbers].tolist() == [3] * len(planted.numbers)
    whole = found.iloc[planted.numbers]
    assert [planted.texts[i] for i in whole["text"]] == [private[i] for i in planted.numbers]
    assert (whole["token"] == 0).all()
    assert sorted(planted.texts) == sorted([*public, *[private[i] for i in planted.numbers] * 3])


def test_planted_texts_and_places_are_drawn():
    public, private = [f"p{i}" for i in range(20)], [f"s{i}" for i in range(20)]
    first, again, other = (plant(public, private, 0.5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.texts == again.texts
    assert first.texts != other.texts
    assert first.numbers.tolist() != other.numbers.tolist()
    counts = np.bincount(
        np.concatenate([plant(public, private, 0.3, np.random.default_rng(s)).numbers for s in range(400)]),
        minlength=20,
    )
    assert abs(counts - 120).max() < 5 * np.sqrt(400 * 0.3 * 0.7)  # each text alike
    with pytest.raises(ValueError, match="share must be in"):
        plant(public, private, 1.5, np.random.default_rng(1))
    with pytest.raises(ValueError, match="copies"):
        plant(public, private, 0.5, np.random.default_rng(1), copies=0)


def test_one_text_in_place_of_several_is_not_planted_letter_by_letter():
    for public, private, name in (
        ("abc", ["d"], "public"),
        (["a"], "def", "private"),
        (["a"], [1], "private"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a sequence of texts"):
            plant(public, private, 0.5, np.random.default_rng(1))


def matches(counts, lengths):
    return pd.DataFrame({"tokens": lengths, "count": counts})


def test_worst_first_is_by_count_then_length_then_number():
    found = matches([0, 2, 5, 2, 1, 2], [9, 4, 3, 7, 8, 4])
    assert removal_order(found, "worst first").tolist() == [2, 3, 1, 5, 4]


def test_random_order_is_seeded_and_holds_the_contaminated_alone():
    found = matches([0, 2, 5, 2, 1, 2, 0], [1] * 7)
    orders = [tuple(removal_order(found, "random", np.random.default_rng(seed))) for seed in range(50)]
    assert orders[3] == tuple(removal_order(found, "random", np.random.default_rng(3)))
    assert {tuple(sorted(order)) for order in orders} == {(1, 2, 3, 4, 5)}
    assert len(set(orders)) > 30
    with pytest.raises(ValueError, match="rng must be"):
        removal_order(found, "random")
    with pytest.raises(ValueError, match="order must be one of"):
        removal_order(found, "best first")


def test_stages_contain_each_other():
    order = np.random.default_rng(1).permutation(416)
    stages = [removed_at(order, share) for share in (0, *contamination.STAGES, 1)]
    assert [len(stage) for stage in stages] == [0, 104, 208, 312, 416]
    for small, large in itertools.pairwise(stages):
        assert set(small) < set(large)
    assert removed_at([], 0.5).tolist() == []
    with pytest.raises(ValueError, match="share must be in"):
        removed_at(order, -0.1)
