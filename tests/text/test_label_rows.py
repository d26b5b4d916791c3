"""Labels as tokens: which sequences are read, and the sum of log-probabilities out of a table."""

import numpy as np
import pytest

from dprepro.text.label_rows import LabelRows, after_prompt
from dprepro.text.questions import Question

QUESTION = Question(2, "Review:", (" a", " b"))
VOCABULARY = 7


def rows(labels, prompt=(5, 6)):
    return LabelRows(QUESTION, list(prompt), [list(label) for label in labels])


def test_labels_of_one_token_share_the_prompt():
    assert rows([(1,), (2,), (3,)]).sequences == [[5, 6]]


def test_only_the_longest_beginnings_are_read():
    found = rows([(1,), (1, 2), (1, 2, 3), (4, 2), (4, 3)])
    assert found.sequences == [[5, 6, 1, 2], [5, 6, 4]]


@pytest.mark.parametrize(
    "labels", [[(1,), (2,)], [(1, 2), (1, 3)], [(1,), (1, 2), (1, 2, 3), (4, 2), (4, 3)], [(3, 3, 3), (0,)]]
)
@pytest.mark.parametrize("extra", [0, 3])
def test_scores_are_the_chain_rule(labels, extra):
    """A model whose next-token log-probabilities are a random function of all tokens before."""

    def next_token(sequence):
        logits = np.random.default_rng(list(sequence)).standard_normal(VOCABULARY)
        return logits - np.logaddexp.reduce(logits)

    found = rows(labels)
    kept = max(len(sequence) - 2 for sequence in found.sequences) + 1 + extra
    table = np.full((len(found.sequences), kept, VOCABULARY), np.nan)
    for row, sequence in enumerate(found.sequences):
        for place in range(min(kept, len(sequence))):
            table[row, kept - 1 - place] = next_token(sequence[: len(sequence) - place])
    chain = [
        sum(next_token([5, 6, *label[:place]])[token] for place, token in enumerate(label))
        for label in labels
    ]
    np.testing.assert_allclose(found.scores(table), chain, rtol=1e-13)


def test_tokens_after_the_prompt():
    assert after_prompt(QUESTION, [5, 6], [[5, 6, 1], [5, 6, 2, 3]]) == [[1], [2, 3]]


@pytest.mark.parametrize("whole", [[5, 9], [5, 6], [9, 6, 1]])
def test_a_label_without_tokens_of_its_own(whole):
    with pytest.raises(
        ValueError, match=r"label ' b' runs together with the last token of prompt 2 \('Review:'\)"
    ):
        after_prompt(QUESTION, [5, 6], [[5, 6, 1], whole])
