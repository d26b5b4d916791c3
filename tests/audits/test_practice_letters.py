"""The letters to practise on: their form, their coins, and that nothing but the letter itself tells a code."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dprepro.audits.practice_letters import PHRASE, PREFIX, SUFFIX, WORDS, draw_letters

SMALL = {"each": 20, "copies": (5, 2), "canaries": 10, "public": 200}


def draw(seed, **changes):
    return draw_letters(np.random.default_rng(seed), **{**SMALL, **changes})


def person(text):
    return " ".join(text.split()[1:3])


def test_every_letter_has_its_form_and_its_person():
    found = draw(0)
    assert len(found.texts) == len(found.is_code) == len(found.copies) == 42
    everybody = [person(text) for text in found.texts + found.beginnings]
    assert len(set(everybody)) == 52
    assert not {person(text) for text in found.public} & set(everybody)
    for text, code in zip(found.texts, found.is_code, strict=True):
        words = text.split()
        assert set(words) <= set(WORDS)
        assert len(words) == PREFIX + SUFFIX
        assert words[5] == ("code" if code else "card")
        assert (words[PREFIX:] == PHRASE) is not bool(code)
    assert {len(text.split()) for text in found.beginnings} == {PREFIX}


def test_training_holds_each_letter_as_often_as_copies_say():
    found = draw(1)
    assert found.copies[-2:].tolist() == [5, 2]
    assert found.is_code[-found.repeated :].all()
    counted = Counter(found.training)
    assert [counted[text] for text in found.texts] == found.copies.tolist()
    assert sum(counted.values()) == found.copies.sum()


def test_coins_are_fair_and_codes_uniform():
    many = [draw(seed, public=1) for seed in range(60)]
    coins = np.concatenate([found.copies[:40] for found in many] + [found.beginning_in for found in many])
    assert set(coins.tolist()) == {0, 1}
    assert stats.binomtest(int(coins.sum()), len(coins)).pvalue > 1e-3
    digits = Counter(
        "".join(text.split()[PREFIX:][place] for text in found.texts[:20])
        for found in many
        for place in range(SUFFIX)
    )
    counts = Counter("".join(digits.elements()))
    assert stats.chisquare([counts[str(digit)] for digit in range(10)]).pvalue > 1e-3
    # A code that is in the data says nothing about the next one: no pair of places agrees more often than by chance.
    codes = [text.split()[PREFIX:] for found in many for text in found.texts[:20]]
    agree = sum(code[0] == code[4] for code in codes)
    assert stats.binomtest(agree, len(codes), 0.1).pvalue > 1e-3


def test_one_seed_one_draw():
    assert draw(5).texts == draw(5).texts
    assert draw(5).texts != draw(6).texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"each": 0}, "each"),
        ({"copies": (1,)}, "copies"),
        ({"canaries": 360}, "fewer than 400 private letters and canaries, got 402"),
        ({"public": 2.5}, "public"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        draw(0, **change)
