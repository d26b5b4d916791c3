"""Scores of the n-gram attack: by hand on a corpus of three words, variants, what is refused."""

import numpy as np
import pytest

from dprepro.audits.ngram_scores import (
    VARIANTS,
    attack_scores,
    blanks,
    target_logprobs,
    token_counts,
    tokens,
)


def test_words_are_lower_case_without_marks():
    assert tokens("It's GOOD, isn't it? -- 10/10 (twice)") == "it's good isn't it 10 10 twice"
    assert tokens(" ... ") == ""


def test_bigram_probability_by_hand():
    # Vocabulary a, b, <UNK>, <s>, </s>: 5 symbols. Bigrams of "a b" and "a a": <s>a 2, ab 1, b</s> 1, aa 1, a</s> 1.
    found = target_logprobs(["A b!", "a a"], ["a b", "c"])
    assert found == pytest.approx(np.log([3 / 7 * 2 / 8 * 2 / 6, 1 / 7 * 1 / 5]))


def test_unigram_probability_by_hand():
    # Vocabulary a, b, <UNK>; a three times of four.
    assert target_logprobs(["a b", "a a"], ["a b a"], 1) == pytest.approx(np.log([(4 / 7) ** 2 * 2 / 7]))


def test_token_counts_have_the_end_from_order_two_on():
    assert token_counts(["a b c", "d"], 1).tolist() == [3, 1]
    assert token_counts(["a b c", "d"], 3).tolist() == [4, 2]


def test_blank_texts_are_counted_and_stay_in_the_corpus():
    corpus = ["a b", "", " . "]
    assert blanks(corpus) == 2
    # Two texts of three end at once: P(a | <s>) = (1 + 1)/(3 + 5), and 2/6 without them.
    assert target_logprobs(corpus, ["a b"]) - target_logprobs(["a b"], ["a b"]) == pytest.approx(
        np.log((2 / 8) / (2 / 6))
    )


@pytest.mark.parametrize("corpus", [[], ["", "  ", "?!"]])
def test_a_corpus_without_a_word_is_refused(corpus):
    with pytest.raises(ValueError, match=rf"texts must hold a word, got {len(corpus)} texts"):
        target_logprobs(corpus, ["a"])


def test_a_target_without_a_token_is_refused():
    for call in (
        lambda: target_logprobs(["a"], ["a", " -- "]),
        lambda: token_counts(["a", " -- "], 2),
    ):
        with pytest.raises(ValueError, match=r"targets must hold a word each, got ' -- ' at number 1"):
            call()


def test_variants_by_hand():
    synthetic, references, counts = np.log([[0.25, 0.5]]), np.log([[0.04, 0.5], [0.16, 0.125]]), [2, 1]
    assert attack_scores(synthetic, references, counts, "probability")[0] == pytest.approx([0.15, 0.1875])
    assert attack_scores(synthetic, references, counts, "per_token_geometric")[0] == pytest.approx(
        [0.2, 0.1875]
    )
    default = attack_scores(synthetic, references, counts)[0]
    assert default == pytest.approx([np.log(0.5 / np.sqrt(0.08)), np.log(0.5 / 0.25)])


def test_within_a_target_variants_and_references_change_no_order():
    rng = np.random.default_rng(1)
    synthetic, counts = -30 * rng.random((20, 5)), rng.integers(2, 9, 5)
    orders = {
        tuple(attack_scores(synthetic, -30 * rng.random((4, 5)), counts, variant).argsort(axis=0).ravel())
        for variant in VARIANTS
    }
    assert len(orders) == 1


def test_a_copied_target_scores_higher_than_an_absent_one():
    targets = ["a rare wombat sings", "the quiet heron waits"]
    others = ["a film about the war", "the plot is quiet"]
    references = [target_logprobs([*others, target], targets) for target in targets]
    scores = attack_scores(
        [target_logprobs([*others, target], targets) for target in targets],
        references,
        token_counts(targets, 2),
    )
    assert (np.diag(scores) > 0).all()
    assert scores[0, 1] < 0
    assert scores[1, 0] < 0


def test_misfits_are_refused():
    with pytest.raises(ValueError, match=r"for the same targets, got shapes \(1, 2\), \(1, 3\) and \(2,\)"):
        attack_scores([[-1, -2]], [[-1, -2, -3]], [1, 1])
    with pytest.raises(ValueError, match=r"synthetic must be finite"):
        attack_scores([[-1, -np.inf]], [[-1, -2]], [1, 1])
    with pytest.raises(ValueError, match=r"variant must be one of"):
        attack_scores([[-1]], [[-1]], [1], "log")
    with pytest.raises(ValueError, match=r"counts must be a whole number of at least 1, got 0"):
        attack_scores([[-1]], [[-1]], [0])
    with pytest.raises(ValueError, match=r"order must be"):
        target_logprobs(["a"], ["a"], 0)


def test_one_text_is_no_corpus():
    with pytest.raises(ValueError, match="texts must be a sequence of texts, got 'a fine film'"):
        target_logprobs("a fine film", ["a film"])
