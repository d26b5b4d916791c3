import warnings

import numpy as np
import pytest

from dprepro.mechanisms.synthesis.aug_pe import AugPE, EvolvedTexts
from dprepro.mechanisms.synthesis.private_votes import epsilon_of

# Numbers for texts, so that a text lies where its number says: a plane of candidates that can be counted by hand.
LABELS = ["good"] * 6 + ["bad"] * 6
TEXTS = [f"{x} 0" for x in (50, 51, 52, 53, 54, 55)] + [f"{x} 0" for x in (-50, -51, -52, -53, -54, -55)]


class Plane:
    """Embeds "x y" as that point."""

    def encode(self, texts):
        return np.array([[float(part) for part in text.split()] for text in texts]).reshape(len(texts), 2)


class Walker:
    """Writes points near the origin and varies one by a step; says all that it was asked."""

    def __init__(self, step=10.0):
        self.step = step
        self.seen = []

    def random_texts(self, count, label, rng):
        return [f"{x:.6f} {y:.6f}" for x, y in rng.normal(size=(count, 2))]

    def variations(self, texts, label, rng):
        self.seen += texts
        points = Plane().encode(texts) + self.step * rng.normal(size=(len(texts), 2))
        return [f"{x:.6f} {y:.6f}" for x, y in points]


def fitted(seed=0, texts=TEXTS, labels=LABELS, writer=None, records=None, **changes):
    settings = {"epsilon": np.inf, "rounds": 8, "kept": 4, "variations": 3, **changes}
    return AugPE(**settings).fit(
        writer or Walker(), Plane(), texts, labels, np.random.default_rng(seed), records=records
    )


def test_replacing_a_text_needs_more_noise_for_the_same_epsilon():
    one, two = fitted(epsilon=2.0), fitted(epsilon=2.0, adjacency="replace")
    assert two.noise_multiplier == pytest.approx(np.sqrt(2) * one.noise_multiplier)
    assert one.epsilon == pytest.approx(2.0)
    assert two.epsilon == pytest.approx(2.0)


def test_texts_move_to_the_private_ones_class_by_class():
    found = fitted()
    places = {label: Plane().encode(found.kept[label])[:, 0].mean() for label in found.labels}
    assert found.labels == ("bad", "good")
    assert places["good"] > 30
    assert places["bad"] < -30
    # With noise that drowns 6 votes they stay where they were.
    noisy = fitted(epsilon=0.01, delta=1e-5)
    assert abs(Plane().encode(noisy.kept["good"])[:, 0].mean()) < 30
    assert noisy.noise_multiplier > 100
    assert noisy.epsilon == pytest.approx(0.01)


def test_the_writer_sees_synthetic_texts_alone():
    writer = Walker()
    fitted(writer=writer)
    assert writer.seen
    assert not set(writer.seen) & set(TEXTS)
    assert all(len(text.split()) == 2 for text in writer.seen)  # a text and nothing beside it


def test_private_texts_enter_by_their_counts_alone():
    """Other private texts with the same nearest candidates: the same outcome, to the last text."""
    moved = [f"{float(text.split()[0]) * 1.00001} 0" for text in TEXTS]
    assert fitted(epsilon=3.0).kept == fitted(epsilon=3.0, texts=moved).kept


def test_the_same_seed_gives_the_same_texts():
    assert fitted(5, epsilon=1.0).kept == fitted(5, epsilon=1.0).kept != fitted(6, epsilon=1.0).kept


@pytest.mark.parametrize(("records", "number"), [(None, 12), (500, 500), (1, 2)])
def test_delta_is_one_over_n_ln_n_unless_given(records, number):
    found = fitted(epsilon=1.0, records=records)
    assert found.delta == pytest.approx(1 / (number * np.log(number)))
    assert fitted(epsilon=1.0, delta=1e-6, records=records).delta == 1e-6
    assert found.epsilon == pytest.approx(epsilon_of(found.noise_multiplier, found.delta, 8))


def test_infinite_epsilon_is_no_noise():
    found = fitted()
    assert found.noise_multiplier == 0
    assert found.epsilon == np.inf


def test_no_vote_above_the_threshold_is_said():
    with pytest.warns(UserWarning, match="no noisy count of '(bad|good)' is above 7 in 2 of 2 rounds"):
        found = fitted(rounds=2, threshold=7.0)  # of 6 votes
    assert found.passed == {"bad": (0, 0), "good": (0, 0)}
    assert all(len(texts) == 4 for texts in found.kept.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = fitted(rounds=2, threshold=1.0)
    assert min(map(min, some.passed.values())) > 0


def test_variations_that_change_nothing_are_counted():
    assert (
        fitted(writer=Walker(step=0.0)).unchanged == 2 * 7 * 4 * 3
    )  # classes, rounds that vary, kept, variations
    assert fitted().unchanged == 0


def test_sampled_texts_are_kept_ones_first():
    found = fitted()
    rng = np.random.default_rng(0)
    few = found.sample({"good": 3}, rng)
    assert few.labels == ["good"] * 3
    assert len(set(few.texts)) == 3
    assert set(few.texts) <= set(found.kept["good"])
    many = found.sample({"bad": 11, "good": 1}, rng)
    assert many.labels == ["bad"] * 11 + ["good"]
    assert set(many.texts[:4]) == set(found.kept["bad"])
    assert not set(many.texts[4:11]) & set(found.kept["bad"])
    # Each kept text is varied in turn: 7 variations of 4, none of them three times.
    found.writer.seen.clear()
    found.sample({"bad": 11}, rng)
    assert sorted(found.writer.seen.count(text) for text in found.kept["bad"]) == [1, 2, 2, 2]


def test_blank_texts_stay_and_are_counted():
    found = EvolvedTexts(Walker(), {"good": ("", " ", "1 1")}, {"good": (1,)}, 0, ("good",), 1.0, 0.1, 1.0)
    wrote = found.sample({"good": 3}, np.random.default_rng(0))
    assert sorted(wrote.texts) == ["", " ", "1 1"]
    assert wrote.blanks == 2


def test_a_writer_that_loses_texts_is_refused():
    class Loses(Walker):
        def variations(self, texts, label, rng):
            return super().variations(texts, label, rng)[1:]

    with pytest.raises(
        ValueError, match="writer must return one text for each it is asked for, got 11 of 12"
    ):
        fitted(writer=Loses())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\], got 0"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"kept": 0}, "kept must be"),
        ({"variations": 0}, "variations must be"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0"),
        ({"threshold": -1.0}, r"threshold must be in \[0, inf\), got -1"),
        ({"threshold": np.inf}, "threshold must be"),
        ({"adjacency": "swap"}, "adjacency must be one of"),
    ],
)
def test_bad_settings_are_named(changes, named):
    with pytest.raises(ValueError, match=named):
        AugPE(**{"epsilon": 1.0, **changes})


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ([], [], "texts must be a sequence of at least one text"),
        (["1 1", " "], ["good", "bad"], "texts must not be blank, got ' ' at index 1"),
        (TEXTS, LABELS[:4], "one label for each of the 12 texts, got 4"),
        (TEXTS, ["good"] * 12, "two classes at least, got 'good' alone"),
        (TEXTS, ["good", *["bad"] * 11], "2 texts at least, got 1 for 'good'"),
    ],
)
def test_bad_texts_are_named(texts, labels, named):
    with pytest.raises(ValueError, match=named):
        fitted(texts=texts, labels=labels)


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ({}, "counts must name a class among bad, good, got none"),
        ({"ugly": 1}, "label must be one of 'bad', 'good', got 'ugly'"),
        ({"good": 0}, "count must be a whole number of at least 1"),
    ],
)
def test_bad_orders_are_named(counts, named):
    with pytest.raises(ValueError, match=named):
        fitted().sample(counts, np.random.default_rng(0))
