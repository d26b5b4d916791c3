import numpy as np
import pytest

from dprepro.text.rouge import rouge_l


def brute_force(a, b):
    """Longest common subsequence by all subsets of the shorter text."""
    best = 0
    for chosen in range(1 << len(a)):
        part = [token for i, token in enumerate(a) if chosen >> i & 1]
        rest = iter(b)
        if len(part) > best and all(token in rest for token in part):
            best = len(part)
    return 2 * best / (len(a) + len(b))


@pytest.mark.parametrize("tokens", ["words", "whitespace"])
def test_against_all_subsequences(tokens):
    rng = np.random.default_rng(0)
    for _ in range(40):
        a, b = (rng.choice(list("abcd"), rng.integers(1, 9)).tolist() for _ in range(2))
        assert rouge_l(" ".join(a), " ".join(b), tokens) == pytest.approx(brute_force(a, b))


def test_the_two_ways_to_cut():
    assert rouge_l("a good film .", "a bad film !") == pytest.approx(2 / 3)
    assert rouge_l("a good film .", "a bad film !", "whitespace") == pytest.approx(1 / 2)
    assert rouge_l("It's fun", "it s FUN") == 1
    assert rouge_l("It's fun", "it s FUN", "whitespace") == pytest.approx(2 / 5)
    assert rouge_l("фильм", "фильм") == 0  # no letters a to z: the package sees no token
    assert rouge_l("фильм", "фильм", "whitespace") == 1


def test_order_counts_where_a_bag_of_words_is_blind():
    assert rouge_l("a b c", "c b a") == pytest.approx(1 / 3)


def test_empty_texts_and_bad_calls():
    assert rouge_l("", "a") == rouge_l("a", "") == rouge_l("", "") == 0
    with pytest.raises(ValueError, match="tokens must be one of"):
        rouge_l("a", "a", "letters")
