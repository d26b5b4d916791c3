"""Product of experts: sensitivity, normalisation, the two views, and closed forms against scipy and simulation."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, gumbel_r, kstest, logistic

from dprepro.mechanisms.in_context.experts import ProductOfExperts, logistic_rates
from dprepro.stats.lower_bound import best_rates
from dprepro.stats.tradeoff import epsilon_standard

GAMMA = 2.0


def neighbours(adjacency, partitions, labels=2):
    """Utilities of all inputs whose experts answer at the ends of the clip, and of their neighbours."""
    answers = np.array(list(product([-GAMMA, 0.0], repeat=labels)))
    for chosen in product(range(len(answers)), repeat=partitions):
        before = answers[list(chosen)].sum(axis=0)
        for other in answers:
            change = other - answers[chosen[0]] if adjacency == "replace-one" else other
            yield before, before + change


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_sensitivity_is_the_largest_change_of_a_utility(adjacency):
    mechanism = ProductOfExperts(1.0, 3, adjacency=adjacency)
    changes = [np.abs(b - a).max() for a, b in neighbours(adjacency, 3)]
    assert max(changes) == mechanism.sensitivity == GAMMA


@pytest.mark.parametrize(("adjacency", "exact"), [("replace-one", 4.0), ("add-remove", 2.0)])
@pytest.mark.parametrize("labels", [2, 3])
def test_privacy_of_the_label_by_enumeration(adjacency, exact, labels):
    # Softmax by hand: the log-ratio stays below the exact epsilon and comes close as experts are added.
    worst = []
    for partitions in (1, 2, 4):
        ratios = []
        for a, b in neighbours(adjacency, partitions, labels):
            p, q = (np.exp(4.0 * u / (2 * GAMMA)) for u in (a, b))
            ratios.append(np.abs(np.log(p / p.sum()) - np.log(q / q.sum())).max())
        worst.append(max(ratios))
    assert ProductOfExperts(4.0, 1, adjacency=adjacency).exact_epsilon == exact
    assert worst[0] < worst[1] < worst[2] < exact
    assert worst[2] > exact - 0.03


def test_one_expert_of_two_labels_gets_half_the_claim():
    # By hand: the odds move from exp(-epsilon/2) to exp(epsilon/2), the probabilities by a factor exp(epsilon/2).
    mechanism, u = ProductOfExperts(6.0, 1), np.array([[0.0, -GAMMA], [-GAMMA, 0.0]])
    wins = mechanism.success(u, u[0], u[1], "black", 0.5)[:, 0]
    assert np.log(wins[0] / wins[1]) == pytest.approx(3.0, rel=1e-13)


def test_utilities_by_hand():
    # Two experts over labels with log-probabilities (ln .1, ln .3) and (ln .02, ln .001).
    logs = np.log([[[0.1, 0.3], [0.02, 0.001]]])
    vocabulary = ProductOfExperts(1.0, 2, normalisation="vocabulary").utilities(logs)
    # Below exp(-2) = .135 everything is clipped: the second expert says nothing.
    np.testing.assert_allclose(vocabulary, [[-4.0, np.log(0.3) - 2.0]], rtol=1e-14)
    label_set = ProductOfExperts(1.0, 2, normalisation="label-set").utilities(logs)
    np.testing.assert_allclose(label_set, [[np.log(0.25) + np.log(20 / 21), np.log(0.75) - 2.0]], rtol=1e-13)


def test_normalisation_changes_the_separation_not_the_sensitivity():
    # The canary's expert swaps .10 and .01: hidden below the clip under the vocabulary, in sight within the labels.
    logs = np.log([[[0.10, 0.01]], [[0.01, 0.10]]])
    separations = {}
    for normalisation in ("label-set", "vocabulary"):
        mechanism = ProductOfExperts(1.0, 1, normalisation=normalisation)
        separations[normalisation] = mechanism.separation(*mechanism.utilities(logs))
        assert mechanism.sensitivity == GAMMA
    assert separations["vocabulary"] == 0.0
    assert separations["label-set"] == pytest.approx((2.0 + np.log(10 / 11)) / 2, rel=1e-13)


def test_impossible_label_counts_as_clipped():
    mechanism = ProductOfExperts(1.0, 1, normalisation="vocabulary")
    np.testing.assert_array_equal(mechanism.utilities([[[-np.inf, 0.0]]]), [[-2.0, 0.0]])


def test_release_adds_gumbel_noise_of_the_declared_scale():
    mechanism, u = ProductOfExperts(8.0, 3), np.array([-1.0, -3.0])
    released = mechanism.release(np.tile(u, (20_000, 1)), np.random.default_rng(0))
    for label in range(2):
        assert kstest(released[:, label] - u[label], gumbel_r(scale=4 / 8).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(released.T)[0, 1]) < 4 / 20_000**0.5


def test_release_takes_log_probabilities():
    mechanism = ProductOfExperts(8.0, 2)
    logs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=(5, 2)))
    first = mechanism.release(logs, np.random.default_rng(2))
    second = mechanism.release(mechanism.utilities(logs), np.random.default_rng(2))
    np.testing.assert_array_equal(first, second)


def test_white_box_score_is_logistic_shifted_by_the_separation():
    mechanism, n = ProductOfExperts(4.0, 3), 20_000
    u_in, u_out = np.array([-1.0, -4.0, -2.0]), np.array([-2.5, -3.0, -2.0])
    assert mechanism.separation(u_in, u_out) == (1.5 + 1.0) / 4
    for utilities, shift in ((u_in, 4.0 * 2.5 / 4), (u_out, 0.0)):
        released = mechanism.release(np.tile(utilities, (n, 1)), np.random.default_rng(3))
        score = mechanism.score(released, u_in, u_out, "white")
        assert kstest(score, logistic(loc=shift).cdf).pvalue > 1e-3


@pytest.mark.parametrize("view", ["white", "black"])
@pytest.mark.parametrize("labels", [2, 3])
def test_success_probability_against_simulation(view, labels):
    rng, n = np.random.default_rng(5), 40_000
    mechanism = ProductOfExperts(8.0, 3)
    u_in, u_out, other = -6 * rng.random((3, labels))
    for utilities in (u_in, u_out, other):
        score = mechanism.score(mechanism.release(np.tile(utilities, (n, 1)), rng), u_in, u_out, view)
        for threshold in (-1.0, 0.5, 1.0, 2.0):
            exact = mechanism.success(utilities[None, :], u_in, u_out, view, threshold)[0, 0]
            hits = np.sum(score >= threshold)
            assert binom.ppf(5e-5, n, exact) <= hits <= binom.ppf(1 - 5e-5, n, exact)


def test_label_probability_against_quadrature():
    mechanism, u = ProductOfExperts(8.0, 3), np.array([-1.0, -2.0, -1.5])
    noise = [gumbel_r(loc=value, scale=0.5) for value in u]
    exact, _ = quad(lambda x: noise[0].pdf(x) * noise[1].cdf(x) * noise[2].cdf(x), -10, 30, epsabs=1e-12)
    # The label that the canary raises is the first.
    found = mechanism.success(u[None, :], u, u - [0.5, 0, 0], "black", 0.5)[0, 0]
    assert found == pytest.approx(exact, abs=1e-10)


def test_difference_keeps_the_claim_and_the_vector_does_not():
    epsilon = 1.0
    mechanism = ProductOfExperts(epsilon, 1)
    u_in, u_out = np.array([0.0, -GAMMA]), np.array([-GAMMA, 0.0])
    noise = np.linspace(-30, 400, 500)
    rows = np.stack(np.meshgrid(noise, noise), axis=-1).reshape(-1, 2)
    inside = gumbel_r(scale=4 / epsilon)
    direct = (inside.logpdf(rows - u_in) - inside.logpdf(rows - u_out)).sum(axis=1)
    whole = mechanism.vector_log_ratio(rows, u_in, u_out)
    np.testing.assert_allclose(whole, direct, rtol=1e-9, atol=1e-9)
    # Unbounded where a noisy utility is low, in both directions here since one label gains and one loses; high
    # noisy utilities say as much as the claim allows, and no more.
    assert mechanism.vector_log_ratio(np.array([[0.0, -40.0]]), u_in, u_out)[0] > 1_000
    assert mechanism.vector_log_ratio(np.array([[-40.0, 0.0]]), u_in, u_out)[0] < -1_000
    assert mechanism.vector_log_ratio(np.array([[400.0, 400.0]]), u_in, u_out)[0] == pytest.approx(
        0.0, abs=1e-9
    )
    score = mechanism.score(rows, u_in, u_out, "white")
    bounded = logistic.logpdf(score - epsilon) - logistic.logpdf(score)
    assert np.abs(bounded).max() <= epsilon + 1e-12
    assert np.all(np.diff(bounded[np.argsort(score)]) >= -1e-12)  # so the score orders as the ratio does


def test_one_label_that_loses_makes_the_ratio_unbounded_on_one_side_only():
    mechanism = ProductOfExperts(1.0, 1)
    u_in, u_out = np.array([-GAMMA, -GAMMA]), np.array([0.0, -GAMMA])
    low = mechanism.vector_log_ratio(np.array([[-60.0, 0.0]]), u_in, u_out)[0]
    rows = np.stack([np.linspace(-60, 400, 1000), np.zeros(1000)], axis=1)
    assert low > 1_000
    assert mechanism.vector_log_ratio(rows, u_in, u_out).min() == pytest.approx(-0.5, abs=1e-9)


def test_whole_vector_breaks_the_claim_in_an_audit():
    # 400,000 releases a side, claimed epsilon 1: the difference stays below, the vector does not.
    mechanism, n = ProductOfExperts(1.0, 1), 400_000
    rng, found = np.random.default_rng(7), {}
    for view, u_in, u_out in (
        ("difference", np.array([0.0, -GAMMA]), np.array([-GAMMA, 0.0])),
        ("vector", np.full(4, -GAMMA), np.zeros(4)),
    ):
        sides = [mechanism.release(np.tile(u, (n, 1)), rng) for u in (u_in, u_out)]
        if view == "difference":
            scores = [mechanism.score(side, u_in, u_out, "white") for side in sides]
        else:
            scores = [mechanism.vector_log_ratio(side, u_in, u_out) for side in sides]
        rates = best_rates(*scores, 0.05)
        found[view] = float(epsilon_standard(rates.tpr_low, rates.fpr_up, 0.0))
    assert found["difference"] < 1.0
    assert found["vector"] > 5.0


def test_logistic_rates_against_scipy():
    threshold = np.linspace(-20, 20, 41)
    tpr, fpr = logistic_rates(0.75, 8.0, threshold)
    np.testing.assert_allclose(tpr, logistic.sf(threshold, loc=6.0), rtol=1e-12)
    np.testing.assert_allclose(fpr, logistic.sf(threshold), rtol=1e-12)


@pytest.mark.parametrize("separation", [0.0, 0.4, 1.0])
def test_separated_utilities_have_the_separation_and_its_rates(separation):
    mechanism = ProductOfExperts(4.0, 3)
    u_in, u_out = mechanism.separated(separation)
    assert mechanism.separation(u_in, u_out) == pytest.approx(separation, rel=1e-14)
    mechanism.release([u_in, u_out], np.random.default_rng(0))  # within the clip
    thresholds = np.array([-2.0, 0.7, 3.0])
    rates = mechanism.success([u_in, u_out], u_in, u_out, "white", thresholds)
    if separation > 0:
        np.testing.assert_allclose(rates, logistic_rates(separation, 4.0, thresholds), rtol=1e-12)
    else:
        np.testing.assert_array_equal(rates, [[1, 0, 0]] * 2)


@pytest.mark.parametrize(
    ("separation", "trials", "expected"),
    [
        # Audits with the threshold on the same trials and the standard conversion, as computed independently.
        (0.75, 400_000, {1: 0.73, 2: 1.43, 4: 2.92, 8: 5.90}),
        (0.80, 400_000, {1: 0.77, 2: 1.55, 4: 3.13, 8: 6.25}),
        (0.75, 2_000, {1: 0.52, 2: 1.17, 4: 2.55, 8: 4.88}),
        (0.80, 2_000, {1: 0.58, 2: 1.31, 4: 2.73, 8: 5.24}),
    ],
)
def test_one_separation_predicts_every_budget(separation, trials, expected):
    # One run has a standard deviation of 2 to 3 % (400,000 trials), and so had those that made the numbers above.
    rng, repeats = np.random.default_rng(9), 5 if trials > 10_000 else 100
    for epsilon, value in expected.items():
        mechanism = ProductOfExperts(float(epsilon), 3, delta=1e-5)
        u_in, u_out = mechanism.separated(separation)
        found = []
        for _ in range(repeats):
            scores = [
                mechanism.score(mechanism.release(np.tile(u, (trials, 1)), rng), u_in, u_out, "white")
                for u in (u_in, u_out)
            ]
            rates = best_rates(*scores, 0.05, delta=1e-5, grid=2_000)
            found.append(float(epsilon_standard(rates.tpr_low, rates.fpr_up, 1e-5)))
        assert np.median(found) == pytest.approx(value, rel=0.06, abs=0.06)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\), got 0"),
        ({"epsilon": np.nan}, r"epsilon must be in \(0, inf\), got nan"),
        ({"partitions": 0}, "partitions must be a whole number of at least 1, got 0"),
        ({"clip": -1.0}, r"clip must be in \(0, inf\), got -1"),
        ({"normalisation": "none"}, "normalisation must be one of 'label-set', 'vocabulary'"),
        ({"adjacency": "swap"}, "adjacency must be one of 'replace-one', 'add-remove'"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProductOfExperts(**({"epsilon": 1.0, "partitions": 3} | arguments))


@pytest.mark.parametrize(
    ("clean", "message"),
    [
        ([[-1.0, 0.5]], r"utilities must be in \[-6, 0\], got 0.5"),
        ([[-6.1, 0.0]], r"utilities must be in \[-6, 0\], got -6.1"),
        ([[np.nan, 0.0]], "utilities must be finite, got 1 of 2"),
        ([[-1.0]], r"utilities must have shape \(n, L\) with L >= 2 labels, got \(1, 1\)"),
        ([-1.0, 0.0], r"utilities must have shape \(n, L\)"),
        (np.zeros((1, 2, 2)), r"log_probabilities must have shape \(n, T, L\) with T = 3 partitions"),
        (np.zeros((1, 0, 2)), r"log_probabilities must have shape \(n, T, L\) with T = 3 partitions"),
        (np.ones((1, 3, 2)), r"log_probabilities must be in \[-inf, 0\], got 1"),
        (np.full((1, 3, 2), np.nan), r"log_probabilities must be in \[-inf, 0\], got nan"),
        (np.full((1, 3, 2), -np.inf), "log_probabilities must be finite for a label of each partition"),
    ],
)
def test_bad_clean_outputs(clean, message):
    with pytest.raises(ValueError, match=message):
        ProductOfExperts(1.0, 3).release(clean, np.random.default_rng(0))


def test_clip_of_a_sum_that_rounds():
    mechanism = ProductOfExperts(1.0, 6, clip=0.1, normalisation="vocabulary")
    mechanism.release(mechanism.utilities(np.full((1, 6, 2), -5.0)), np.random.default_rng(0))


def test_unknown_view():
    with pytest.raises(ValueError, match="view must be one of 'white', 'black', got 'grey'"):
        ProductOfExperts(1.0, 1).score(np.zeros((1, 2)), np.zeros(2), np.zeros(2), "grey")
