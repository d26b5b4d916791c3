import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dprepro.mechanisms.prompt import metric_dp
from dprepro.mechanisms.prompt.metric_dp import Custext, Santext, SantextPlus, disjoint_groups, rare_words
from dprepro.mechanisms.prompt.vocabulary import Vocabulary

WORDS = ("cat", "dog", "fox", "sun", "moon", "sea", "the")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(WORDS, np.random.default_rng(3).normal(size=(7, 2)))


@pytest.fixture(scope="module")
def larger():
    return Vocabulary(tuple(f"w{i}" for i in range(203)), np.random.default_rng(4).normal(size=(203, 5)))


def distance(vocabulary, x, y):
    return math.dist(vocabulary.vectors[x].tolist(), vocabulary.vectors[y].tolist())


def normalised(weights):
    return [weight / sum(weights) for weight in weights]


def santext_by_hand(vocabulary, x, epsilon, outputs):
    return normalised([math.exp(-epsilon * distance(vocabulary, x, y) / 2) for y in outputs])


@pytest.mark.parametrize("epsilon", [0.3, 4.0, 30.0])
def test_santext_is_its_formula(vocabulary, epsilon):
    found = np.exp(Santext(vocabulary).log_channel(range(7), epsilon))
    expected = [santext_by_hand(vocabulary, x, epsilon, range(7)) for x in range(7)]
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_santext_keeps_metric_dp_and_needs_it(larger):
    table = Santext(larger).log_channel(range(203), 2.0)
    gaps = np.abs(table[:, None] - table).max(axis=2)
    share = gaps / np.maximum(2.0 * larger.distances(np.arange(203)), 1e-9)
    np.fill_diagonal(share, 0)
    # At most epsilon d, at least epsilon d/2: the two words as outputs, one normaliser is the larger.
    assert share.max() <= 1 + 1e-5
    assert share[share > 0].min() >= 0.5 - 1e-5


def test_stated_loss_of_santext_bounds_the_diameter(larger):
    diameter = larger.distances(np.arange(203)).max()
    assert 3.0 * diameter <= Santext(larger).stated_loss(3.0) <= 2 * 3.0 * diameter


@pytest.mark.parametrize("sensitive", [[0, 2, 3, 5], [4]])
def test_santext_plus_is_its_rule(vocabulary, sensitive):
    mask = np.isin(np.arange(7), sensitive)
    found = np.exp(SantextPlus(vocabulary, sensitive=mask, p=0.3).log_channel(range(7), 1.5))
    for x in range(7):
        expected = dict(zip(sensitive, santext_by_hand(vocabulary, x, 1.5, sensitive), strict=True))
        if x not in sensitive:
            expected = {y: 0.3 * share for y, share in expected.items()} | {x: 0.7}
        np.testing.assert_allclose(found[x], [expected.get(y, 0.0) for y in range(7)], rtol=2e-5)


def test_santext_plus_without_common_words_is_santext(vocabulary):
    plus, plain = SantextPlus(vocabulary), Santext(vocabulary)
    np.testing.assert_allclose(plus.log_channel(range(7), 2.0), plain.log_channel(range(7), 2.0))
    assert plus.stated_loss(2.0) == plain.stated_loss(2.0)
    assert SantextPlus(vocabulary, sensitive=np.arange(7) < 3).stated_loss(2.0) == np.inf


def test_rare_words_are_the_rarest(vocabulary):
    counts = {"the": 90, "sun": 5, "cat": 5, "dog": 1, "elsewhere": 7}
    # fox, moon and sea count 0, dog 1; of sun and cat the later one comes first.
    marked = rare_words(vocabulary, counts, share=5 / 7)
    assert {WORDS[i] for i in np.flatnonzero(marked)} == {"fox", "moon", "sea", "dog", "sun"}
    assert rare_words(vocabulary, counts, share=1.0).all()


def groups_by_hand(vocabulary, k):
    left, number, groups = list(range(len(vocabulary))), {}, 0
    while left:
        for word in sorted(left, key=lambda y: distance(vocabulary, left[0], y))[:k]:
            number[word] = groups
            left.remove(word)
        groups += 1
    return [number[word] for word in range(len(vocabulary))]


@pytest.mark.parametrize("k", [1, 2, 20, 203])
def test_groups_are_the_greedy_ones(larger, k, monkeypatch):
    expected = groups_by_hand(larger, k)
    assert disjoint_groups(larger, k).tolist() == expected
    monkeypatch.setattr(metric_dp, "SEEDS", 3)
    assert disjoint_groups(larger, k).tolist() == expected


@pytest.mark.parametrize("epsilon", [0.5, 6.0])
def test_custext_is_its_formula(larger, epsilon):
    mechanism = Custext(larger, k=20)
    found = np.exp(mechanism.log_channel(range(203), epsilon))
    number = groups_by_hand(larger, 20)
    for x in (0, 5, 77, 202):
        group = [y for y in range(203) if number[y] == number[x]]
        distances = [distance(larger, x, y) for y in group]
        low, high = min(distances), max(distances)
        shares = normalised([math.exp(epsilon / 2 * (low - d) / (high - low)) for d in distances])
        np.testing.assert_allclose(found[x, group], shares, rtol=1e-4)
        assert found[x].sum() == pytest.approx(1)
        assert np.count_nonzero(found[x]) == len(group)


def test_custext_is_dp_within_a_group_and_nothing_between(larger):
    mechanism = Custext(larger, k=20)
    table = mechanism.log_channel(range(203), 3.0)
    losses = []
    for members in mechanism.members:
        inside = table[np.ix_(members, members)]
        losses += [
            inside[i, y] - inside[j, y]
            for i in range(len(members))
            for j in range(len(members))
            for y in range(len(members))
        ]
    assert mechanism.loss_within(3.0) == pytest.approx(max(losses), rel=1e-5)
    assert max(losses) <= 3.0
    assert mechanism.stated_loss(3.0) == np.inf
    assert mechanism.budget(3.0, 1).token == np.inf
    assert Custext(larger, k=203).stated_loss(3.0) == 3.0


def test_equal_vectors_share_a_group_evenly():
    same = Vocabulary(("a", "b", "c", "d"), np.ones((4, 2)))
    np.testing.assert_allclose(np.exp(Custext(same, k=4).log_channel([1], 5.0)), 0.25)
    alone = Custext(same, k=1)
    assert alone.draw([0, 3], 1.0, np.random.default_rng(0)).tolist() == [0, 3]
    assert alone.loss_within(1.0) == 0


@pytest.mark.parametrize(
    "make", [Santext, lambda v: SantextPlus(v, sensitive=np.arange(7) < 4), lambda v: Custext(v, k=3)]
)
def test_ten_thousand_tokens_follow_the_channel(vocabulary, make):
    mechanism = make(vocabulary)
    rows = np.tile([0, 4, 6], 10_000)
    drawn = mechanism.draw(rows, 1.7, np.random.default_rng(8))
    for place, row in enumerate((0, 4, 6)):
        expected = np.exp(mechanism.log_channel([row], 1.7))[0]
        counts = np.bincount(drawn[place::3], minlength=7)
        assert counts[expected == 0].sum() == 0
        possible = expected > 0
        if possible.sum() > 1:
            assert chisquare(counts[possible], expected[possible] / expected.sum() * 10_000).pvalue > 1e-3


def test_the_matrix_of_all_distances_is_never_held(larger, rows_asked, monkeypatch):
    whole = Santext(larger).draw(range(203), 2.0, np.random.default_rng(1))
    rows_asked.clear()
    monkeypatch.setattr(metric_dp, "BLOCK", 2_030)
    assert Santext(larger).draw(range(203), 2.0, np.random.default_rng(1)).tolist() == whole.tolist()
    assert max(rows_asked) == 10
    assert sum(rows_asked) == 203


def test_words_outside_are_counted_and_go_where_the_mechanism_says(vocabulary):
    rng = np.random.default_rng(2)
    texts = ["The cat, привет zebra", "", "東京"]
    kept = Custext(vocabulary, k=3).perturb(texts, 1.0, rng)
    # "," "привет" "zebra" "東京" have no vector.
    assert kept.outside == 4
    assert [kept.tokens[0][i] for i in (2, 3, 4)] == [",", "привет", "zebra"]
    assert kept.texts[1] == ""
    assert kept.texts[2] == "東京"
    uniform = Santext(vocabulary, keep="both").perturb(texts * 2000, 1.0, rng)
    assert uniform.outside == 3 * 2000
    assert uniform.kept == 2 * 2000
    counts = np.bincount([vocabulary.number[text] for text in uniform.texts[2::3]], minlength=7)
    assert chisquare(counts).pvalue > 1e-3


def test_bad_arguments_are_named(vocabulary):
    for mechanism in (Santext(vocabulary), Custext(vocabulary, k=3), SantextPlus(vocabulary)):
        for epsilon in (0, -1.0, np.inf, np.nan):
            with pytest.raises(ValueError, match="epsilon must be in"):
                mechanism.perturb(["the cat"], epsilon, np.random.default_rng(0))
            with pytest.raises(ValueError, match="epsilon must be in"):
                mechanism.log_channel([0], epsilon)
            with pytest.raises(ValueError, match="epsilon must be in"):
                mechanism.stated_loss(epsilon)
    for k in (0, 8, 2.5):
        with pytest.raises(ValueError, match="k must be"):
            Custext(vocabulary, k=k)
    with pytest.raises(ValueError, match="p must be in"):
        SantextPlus(vocabulary, p=0.0)
    for sensitive in (np.zeros(7, bool), np.ones(6, bool), np.ones(7)):
        with pytest.raises(ValueError, match="sensitive must have one truth value"):
            SantextPlus(vocabulary, sensitive=sensitive)
    with pytest.raises(ValueError, match="share must be in"):
        rare_words(vocabulary, {}, 0.0)
    with pytest.raises(ValueError, match="keep must be one of"):
        Santext(vocabulary, keep="all")
