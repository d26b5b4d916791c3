"""DP-SGD: gradients against Opacus and finite differences, the law of noise and batches, degenerate inputs."""

import math

import numpy as np
import pytest
from scipy import stats

from dprepro.mechanisms.accounting import dp_sgd_epsilon
from dprepro.mechanisms.dp_sgd import DPSGD, LogisticModel, per_example_gradients, with_canaries


def toy(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * rng.lognormal(sigma=1.0, size=(n, 1))  # some clipped, some not
    return x, (x[:, 0] + rng.normal(size=n) > 0).astype(int)


def opacus_model(torch, x):
    from opacus import GradSampleModule

    model = GradSampleModule(torch.nn.Linear(x.shape[1], 1).double())
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    return model


def test_gradients_and_their_clipped_sum_equal_those_of_opacus():
    torch = pytest.importorskip("torch")
    optimizers = pytest.importorskip("opacus.optimizers")
    x, y = toy(60, 5)
    model = opacus_model(torch, x)
    rate, clipping_norm, steps = 0.7, 0.5, 6
    optimizer = optimizers.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate),
        noise_multiplier=0.0,
        max_grad_norm=clipping_norm,
        expected_batch_size=len(x),
    )
    weight, bias = model._module.weight, model._module.bias
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        logits = model(torch.tensor(x))[:, 0]
        torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(y).double()).backward()
        sampled = torch.cat([weight.grad_sample[:, 0], bias.grad_sample], dim=1).numpy()
        ours = per_example_gradients(weight.detach().numpy()[0], bias.item(), x, y)
        np.testing.assert_allclose(ours, sampled, rtol=1e-10, atol=1e-13)
        optimizer.step()
        model_after = DPSGD(0, clipping_norm, 1, step, rate).fit(x, y, np.random.default_rng(0))
        # Opacus divides by the norm plus 1e-6, hence 2e-6 of a clipping norm of 0.5.
        theta = np.append(model_after.weights, model_after.bias)
        theirs = np.append(weight.detach().numpy()[0], bias.item())
        np.testing.assert_allclose(theta, theirs, atol=3e-6 * np.abs(theirs).max())
    norms = np.linalg.norm(sampled, axis=1)
    assert (norms > clipping_norm).any()
    assert (norms < clipping_norm).any()


def test_gradients_against_differences_of_the_loss():
    x, y = toy(30, 3, seed=1)
    weights, bias, step = np.array([0.3, -1.0, 0.5]), 0.2, 1e-6
    gradients = per_example_gradients(weights, bias, x, y)
    for column, direction in enumerate(np.eye(4)):
        up, down = (
            LogisticModel(weights + sign * step * direction[:3], bias + sign * step * direction[3]).loss(x, y)
            for sign in (1, -1)
        )
        np.testing.assert_allclose(gradients[:, column], (up - down) / (2 * step), atol=1e-7)


def test_a_step_against_a_naive_twin():
    x, y = toy(40, 4, seed=2)
    model = DPSGD(0, 0.8, 1, 3, 0.5).fit(x, y, np.random.default_rng(0))
    theta = np.zeros(5)
    for _ in range(3):
        total = np.zeros(5)
        for gradient in per_example_gradients(theta[:4], theta[4], x, y):
            total += gradient * min(1, 0.8 / np.linalg.norm(gradient))
        theta = theta - 0.5 * total / 40
    np.testing.assert_allclose(np.append(model.weights, model.bias), theta, rtol=1e-12)


def test_weights_and_bias_are_clipped_together():
    # One record: gradient (p - y)(x, 1) = -(x, 1)/2 of norm above 1 is scaled to norm 1, bias included.
    x = np.array([[3.0, 4.0]])
    model = DPSGD(0, 1, 1, 1, 1).fit(x, [1], np.random.default_rng(0))
    step = np.append(model.weights, model.bias)
    assert np.linalg.norm(step) == pytest.approx(1)
    np.testing.assert_allclose(step, np.array([3, 4, 1]) / math.sqrt(26))


def test_the_noise_is_normal_with_multiplier_times_clipping_norm():
    # x = 0: the gradients of the weights vanish, and what they hold is the noise of one step.
    n, d, sigma, clipping_norm, rate = 8, 20_000, 1.7, 0.3, 2.0
    model = DPSGD(sigma, clipping_norm, 1, 1, rate).fit(
        np.zeros((n, d)), [0, 1] * 4, np.random.default_rng(1)
    )
    scale = rate * sigma * clipping_norm / n
    assert stats.kstest(model.weights / scale, "norm").pvalue > 1e-4
    assert stats.kstest(model.weights / (1.05 * scale), "norm").pvalue < 1e-4  # it can fail
    # The bias is no exception: labels cancel, so over many runs it holds the same noise.
    rng = np.random.default_rng(2)
    runs = [
        DPSGD(sigma, clipping_norm, 1, 1, rate).fit(np.zeros((n, 1)), [0, 1] * 4, rng) for _ in range(4000)
    ]
    both = np.array([[run.weights[0], run.bias] for run in runs]) / scale
    assert stats.kstest(both.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(both.T)[0, 1]) < 4 / math.sqrt(4000)


def test_the_noise_of_many_steps_adds_up():
    model = DPSGD(1, 1, 1, 50, 1).fit(np.zeros((2, 5000)), [0, 1], np.random.default_rng(3))
    assert stats.kstest(model.weights / (math.sqrt(50) / 2), "norm").pvalue > 1e-4


def test_poisson_sampling_and_division_by_the_expected_size():
    # Record i has its own coordinate, so the weights show the batch.
    n, q, runs = 400, 0.05, 400
    x, y, rng = np.eye(n), np.ones(n), np.random.default_rng(4)
    weights = np.array([DPSGD(0, 0.1, q, 1, 1).fit(x, y, rng).weights for _ in range(runs)])
    batches = weights > 0
    # Norm sqrt(2)/2 clipped to 0.1, half of its square on the coordinate; divided by q n, whatever the batch.
    np.testing.assert_allclose(weights[batches], 0.1 / math.sqrt(2) / (q * n))
    assert stats.binomtest(int(batches.sum()), n * runs, q).pvalue > 1e-4
    # Sizes vary as a binomial does: a batch of fixed size would have variance 0.
    sizes = batches.sum(axis=1)
    statistic = (runs - 1) * sizes.var(ddof=1) / (n * q * (1 - q))
    assert 1e-4 < stats.chi2.sf(statistic, runs - 1) < 1 - 1e-4
    # Each record is as likely, and one's presence says nothing of the next.
    per_record = batches.sum(axis=0)
    assert 1e-4 < stats.chi2.sf(((per_record - runs * q) ** 2).sum() / (runs * q * (1 - q)), n) < 1 - 1e-4
    pairs = int((batches[:, :-1] & batches[:, 1:]).sum())
    assert stats.binomtest(pairs, runs * (n - 1), q * q).pvalue > 1e-4


def test_empty_batches_are_noise_only_steps_and_are_counted():
    n, q, steps = 3, 0.1, 20_000
    model = DPSGD(0, 1, q, steps, 1e-9).fit(np.ones((n, 1)), [1] * n, np.random.default_rng(5))
    assert stats.binomtest(model.empty_batches, steps, (1 - q) ** n).pvalue > 1e-4
    # Nobody is ever drawn: all steps are empty, and all add noise.
    q = 1e-12
    model = DPSGD(1, 1, q, 30, q).fit(np.ones((1, 5000)), [1], np.random.default_rng(6))
    assert model.empty_batches == 30
    assert stats.kstest(model.weights / math.sqrt(30), "norm").pvalue > 1e-4
    assert DPSGD(1, 1, q, 30, q).epsilon(1e-5) == dp_sgd_epsilon(1, q, 30, 1e-5)


def test_full_participation_has_no_empty_batch_and_no_randomness_without_noise():
    x, y = toy(20, 2)
    first, second = (DPSGD(0, 1, 1, 5, 1).fit(x, y, np.random.default_rng(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert first.empty_batches == 0


def test_a_zero_gradient_stays_zero():
    # p - y rounds to 0 far on the right side: factor 1, no nan, no step.
    x = np.array([[1e5], [-1e5]])
    model = DPSGD(0, 1e-3, 1, 10, 1e3).fit(x, [1, 0], np.random.default_rng(0))
    assert np.isfinite(model.weights).all()
    assert (per_example_gradients(model.weights, model.bias, x, [1, 0]) == 0).all()


def test_extreme_logits_lose_nothing():
    model = LogisticModel(np.array([1.0]), 0.0)
    x = np.array([[-2000.0], [2000.0], [40.0], [-40.0]])
    np.testing.assert_allclose(model.loss(x, [1, 0, 1, 0]), [2000, 2000, math.exp(-40), math.exp(-40)])
    np.testing.assert_allclose(model.probability(x), [0, 1, 1, math.exp(-40)], rtol=1e-12)
    assert model.accuracy(x, [0, 1, 1, 1]) == 0.75
    assert LogisticModel(np.zeros(1), 0.0).accuracy([[1.0], [2.0]], [0, 1]) == 0.5


def test_training_learns_and_noise_costs():
    x, y = toy(500, 2, seed=3)
    plain = DPSGD(0, 1, 1, 200, 2).fit(x, y, np.random.default_rng(0))
    noisy = DPSGD(100, 1, 1, 200, 2).fit(x, y, np.random.default_rng(0))
    assert plain.accuracy(x, y) > 0.7
    assert plain.loss(x, y).mean() < noisy.loss(x, y).mean()


def test_no_steps_and_no_sampling_leave_the_start():
    x, y = toy(10, 2)
    for sgd in (DPSGD(1, 1, 0.5, 0, 1), DPSGD(1, 1, 0, 7, 1)):
        model = sgd.fit(x, y, np.random.default_rng(0))
        assert not model.weights.any()
        assert model.bias == 0
        assert sgd.epsilon(1e-5) == 0
    assert model.empty_batches == 7


def test_the_public_number_of_records_sets_the_batch_size():
    x, y = toy(10, 2)
    ten, twenty = (
        DPSGD(0, 1, 1, 1, 1).fit(x, y, np.random.default_rng(0), records=records) for records in (None, 20)
    )
    np.testing.assert_allclose(twenty.weights, ten.weights / 2)


def test_epsilon_is_the_account_of_its_own_numbers():
    sgd = DPSGD(2, 0.1, 0.02, 250, 0.5)
    assert (
        sgd.epsilon(1e-5, "rdp")
        == dp_sgd_epsilon(2, 0.02, 250, 1e-5, "rdp")
        == pytest.approx(0.713108, rel=1e-5)
    )
    assert DPSGD(0, 1, 1, 1, 1).epsilon(1e-5) == np.inf
    with pytest.warns(UserWarning, match="at least 1/500"):
        sgd.epsilon(0.002, records=500)


def test_canaries_are_appended_where_included():
    x, y = toy(6, 2)
    canaries_x, canaries_y = np.array([[1.0, 2], [3, 4], [5, 6]]), [0, 1, 1]
    both_x, both_y = with_canaries(x, y, canaries_x, canaries_y, [True, False, True])
    np.testing.assert_array_equal(both_x, np.concatenate([x, [[1, 2], [5, 6]]]))
    np.testing.assert_array_equal(both_y, [*y, 0, 1])
    none_x, none_y = with_canaries(x, y, canaries_x, canaries_y, np.zeros(3, bool))
    np.testing.assert_array_equal(none_x, x)
    np.testing.assert_array_equal(none_y, y)
    for included, message in [([1, 0, 1], "included must be a boolean"), ([True], "shape \\(1,\\)")]:
        with pytest.raises(ValueError, match=message):
            with_canaries(x, y, canaries_x, canaries_y, included)
    with pytest.raises(ValueError, match="canaries_x must be an array \\(n, 2\\)"):
        with_canaries(x, y, canaries_x[:, :1], canaries_y, [True] * 3)
    with pytest.raises(ValueError, match="canaries_y must hold labels 0 and 1 only, got 0.5"):
        with_canaries(x, y, canaries_x, [0, 0.5, 1], [True] * 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": -0.1}, r"noise_multiplier must be in \[0, inf\), got -0.1"),
        ({"noise_multiplier": np.inf}, "noise_multiplier must be in"),
        ({"clipping_norm": 0}, r"clipping_norm must be in \(0, inf\), got 0"),
        ({"clipping_norm": -1}, "clipping_norm must be in"),
        ({"sample_rate": 1.2}, r"sample_rate must be in \[0, 1\], got 1.2"),
        ({"steps": 1.5}, "steps must be a whole number of at least 0"),
        ({"learning_rate": 0}, "learning_rate must be in"),
        ({"learning_rate": math.nan}, "learning_rate must be in"),
    ],
)
def test_bad_settings(change, message):
    settings = {"noise_multiplier": 1, "clipping_norm": 1, "sample_rate": 0.5, "steps": 5, "learning_rate": 1}
    with pytest.raises(ValueError, match=message):
        DPSGD(**settings | change)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [2.0]], [0, 2], r"y must be in \[0, 1\], got 2"),
        ([[1.0], [2.0]], [-1, 1], r"y must be in \[0, 1\], got -1"),
        ([[1.0], [2.0]], [0, 0.5], "y must hold labels 0 and 1 only, got 0.5"),
        ([[1.0], [2.0]], ["a", "b"], "y must be a number"),
        ([[1.0], [2.0]], [0], r"y must be an array \(2,\)"),
        ([[1.0], [2.0]], [[0], [1]], r"y must be an array \(2,\)"),
        ([1.0, 2.0], [0, 1], r"x must be an array \(n, d\) with n of at least 1, got shape \(2,\)"),
        (np.zeros((0, 2)), [], r"x must be an array \(n, d\) with n of at least 1"),
        ([[1.0], [math.nan]], [0, 1], "x must be finite"),
    ],
)
def test_bad_data(x, y, message):
    with pytest.raises(ValueError, match=message):
        DPSGD(1, 1, 0.5, 5, 1).fit(x, y, np.random.default_rng(0))


def test_a_model_says_what_rows_it_takes():
    model = LogisticModel(np.zeros(3), 0.0)
    with pytest.raises(ValueError, match=r"x must be an array \(n, 3\)"):
        model.probability(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"weights must be an array \(d,\)"):
        per_example_gradients(np.zeros((1, 3)), 0.0, np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(ValueError, match="records must be a whole number"):
        DPSGD(1, 1, 0.5, 5, 1).fit(np.zeros((4, 2)), np.zeros(4), np.random.default_rng(0), records=0)
