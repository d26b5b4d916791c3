import math

import numpy as np
import pytest

from dprepro.audits import prompt_attacks
from dprepro.audits.prompt_attacks import (
    bayes_success,
    mask_inference,
    nearest_success,
    neighbour_reach,
    with_kept,
)
from dprepro.mechanisms.prompt.metric_dp import Custext, Santext
from dprepro.mechanisms.prompt.perturbation import Perturbed, PromptMechanism
from dprepro.mechanisms.prompt.rantext import Rantext
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

SIZE = 23


@pytest.fixture(scope="module")
def vocabulary():
    words = (*(f"w{i}" for i in range(SIZE - 2)), "the", ".")
    return Vocabulary(words, np.random.default_rng(3).normal(size=(SIZE, 4)))


class Table(PromptMechanism):
    """A mechanism that is a table of probabilities; a context multiplies its columns."""

    notion, outside, keep = "local DP", "uniform", "none"

    def __init__(self, vocabulary, table):
        self.vocabulary, self.table = vocabulary, np.asarray(table)

    def log_channel(self, rows, epsilon, contexts=None):
        found = self.table[np.asarray(rows)]
        if contexts is not None:
            found = found * np.asarray(contexts)
        with np.errstate(divide="ignore"):
            return np.log(found / found.sum(axis=1, keepdims=True))

    def stated_loss(self, epsilon):
        return epsilon


def table(vocabulary, seed=0):
    return Table(vocabulary, np.random.default_rng(seed).dirichlet(np.ones(SIZE), size=SIZE))


def test_reach_is_the_distance_of_the_kth_word(vocabulary, monkeypatch):
    monkeypatch.setattr(prompt_attacks, "BLOCK", 50)
    found = neighbour_reach(vocabulary, (1, 5, SIZE))
    for word in range(SIZE):
        distances = sorted(math.dist(vocabulary.vectors[word], other) for other in vocabulary.vectors)
        np.testing.assert_allclose(found[word], [0, distances[4], distances[-1]], rtol=3e-5)


@pytest.mark.parametrize("contextual", [False, True])
def test_nearest_is_the_sum_over_outputs(vocabulary, contextual, monkeypatch):
    monkeypatch.setattr(prompt_attacks, "BLOCK", 50)
    mechanism, rows = table(vocabulary), np.array([4, 0, 4, 17])
    contexts = np.random.default_rng(6).random((4, SIZE)) if contextual else None
    found = nearest_success(mechanism, rows, 1.0, neighbour_reach(vocabulary, (1, 3)), contexts)
    for place, x in enumerate(rows):
        shares = mechanism.table[x] * (contexts[place] if contextual else 1)
        shares = shares / shares.sum()
        for column, k in enumerate((1, 3)):
            outputs = [
                y
                for y in range(SIZE)
                if x
                in sorted(
                    range(SIZE), key=lambda z, y=y: math.dist(vocabulary.vectors[y], vocabulary.vectors[z])
                )[:k]
            ]
            assert found[place, column] == pytest.approx(shares[outputs].sum())


def test_nearest_one_is_the_probability_to_stay(vocabulary):
    mechanism = Santext(vocabulary)
    found = nearest_success(mechanism, range(SIZE), 3.0, neighbour_reach(vocabulary, (1, SIZE)))
    np.testing.assert_allclose(found[:, 0], np.exp(np.diag(mechanism.log_channel(range(SIZE), 3.0))))
    np.testing.assert_allclose(found[:, 1], 1.0)


def test_a_token_outside_is_found_where_it_is_kept(vocabulary):
    reach = neighbour_reach(vocabulary, (2,))
    for mechanism, success in (
        (Custext(vocabulary, k=3), 1),
        (Santext(vocabulary), 0),
        (Rantext(vocabulary), 0),
    ):
        found = nearest_success(mechanism, [-1, 2, -1], 1.0, reach)
        assert found[[0, 2], 0].tolist() == [success, success]
        assert 0 < found[1, 0] < 1
    assert nearest_success(Santext(vocabulary), [], 1.0, reach).shape == (0, 1)


def test_bayes_is_the_best_of_all_guessing_rules(vocabulary):
    """Three inputs: each rule names one of them for each output; enumerated output by output."""
    mechanism, rows, prior = table(vocabulary, 5), [2, 9, 11], np.array([0.5, 0.2, 0.3])
    joint = prior[:, None] * mechanism.table[rows]
    best = sum(max(joint[guess, y] for guess in range(3)) for y in range(SIZE))
    assert bayes_success(mechanism, rows, prior, 1.0) == pytest.approx(best)


def test_bayes_against_closed_forms(vocabulary, monkeypatch):
    monkeypatch.setattr(prompt_attacks, "BLOCK", 50)
    stay = math.exp(2.0) / (math.exp(2.0) + SIZE - 1)
    response = np.full((SIZE, SIZE), (1 - stay) / (SIZE - 1))
    np.fill_diagonal(response, stay)
    uniform = np.full(SIZE, 1 / SIZE)
    assert bayes_success(Table(vocabulary, response), range(SIZE), uniform, 2.0) == pytest.approx(stay)
    # An output that says nothing: the most frequent token is the guess.
    prior = np.random.default_rng(1).dirichlet(np.ones(SIZE))
    silent = Table(vocabulary, np.full((SIZE, SIZE), 1 / SIZE))
    assert bayes_success(silent, range(SIZE), prior, 1.0) == pytest.approx(prior.max())
    # A context that lets one output through says nothing either.
    only = np.eye(SIZE)[7] + 1e-12
    assert bayes_success(table(vocabulary), range(SIZE), prior, 1.0, only) == pytest.approx(
        prior.max(), abs=1e-9
    )


def test_bayes_counts_the_group_of_custext(vocabulary):
    """However small epsilon is, the output shows the group: one guess a group is right."""
    mechanism = Custext(vocabulary, k=5)
    prior = np.random.default_rng(1).dirichlet(np.ones(SIZE))
    shares = [prior[members].max() for members in mechanism.members]
    assert bayes_success(mechanism, range(SIZE), prior, 1e-9) == pytest.approx(sum(shares))


class Guesser:
    """Guesses the word whose row is the place plus the number of the text's tokens."""

    view = "masked"

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def logits(self, cuts, texts, positions):
        guess = [len(cuts[t].tokens) + p for t, p in zip(texts, positions, strict=True)]
        return np.eye(len(self.vocabulary), dtype=np.float32)[guess]


@pytest.mark.parametrize("block", [1, 2**20])
def test_mask_inference_compares_with_the_original(vocabulary, block, monkeypatch):
    monkeypatch.setattr(prompt_attacks, "BLOCK", block)
    # Four tokens are sent of five: guesses 4, 5, 6, 7. The second was dropped, the last was never inside.
    cut = vocabulary.cut("w4 w9 the w6 zebra", "stop words")
    sent = ("w1", "", "the", "w2", "w3")
    short = vocabulary.cut("w1", "stop words")  # one token: the guess is 1
    empty = vocabulary.cut("", "stop words")
    perturbed = Perturbed(("", "", ""), ("", "", ""), (cut, short, empty), (sent, ("w5",), ()))
    found = mask_inference(perturbed, Guesser(vocabulary))
    assert found.sensitive.tolist() == [True, False, True, False, True]
    assert found.kept.tolist() == [False]


def test_rates_with_kept_tokens():
    assert with_kept(0.2, 50, 30) == pytest.approx(40 / 80)
    assert with_kept(0.3, 10, 0) == pytest.approx(0.3)
    assert with_kept(0.0, 0, 3) == 1.0


def test_bad_arguments_are_named(vocabulary):
    for ks in ((0,), (1, SIZE + 1)):
        with pytest.raises(ValueError, match="ks must be"):
            neighbour_reach(vocabulary, ks)
    for prior in ([0.5, 0.4], [1.0], [1.5, -0.5]):
        with pytest.raises(ValueError, match="prior must be"):
            bayes_success(table(vocabulary), [0, 1], prior, 1.0)
    unmasked = Guesser(vocabulary)
    unmasked.view = "unmasked"
    with pytest.raises(ValueError, match="model must have the view 'masked'"):
        mask_inference(Perturbed((), (), (), ()), unmasked)
    with pytest.raises(ValueError, match="must not both be 0"):
        with_kept(0.5, 0, 0)
    with pytest.raises(ValueError, match="success must be in"):
        with_kept(1.5, 1, 1)
