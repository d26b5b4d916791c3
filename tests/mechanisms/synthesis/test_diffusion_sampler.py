import numpy as np
import pytest
import torch
from scipy import stats

from dprepro.mechanisms.synthesis import diffusion_sampler
from dprepro.mechanisms.synthesis.diffusion_net import new_weights
from dprepro.mechanisms.synthesis.diffusion_sampler import denoised
from dprepro.mechanisms.synthesis.diffusion_tokens import WINDOW, token_vectors

SHARES = np.array([0.5, 0.3, 0.2])


def test_the_exact_posterior_gives_back_the_prior(monkeypatch):
    """Three tokens with known shares, each place for itself, and Bayes' rule in place of the network."""
    vectors, prior = token_vectors()[:3], torch.full((len(token_vectors()),), -torch.inf)
    prior[:3] = torch.as_tensor(np.log(SHARES))

    def posterior(weights, noisy, time, label):
        angle = time[:, None, None] * (np.pi / 2)
        squares = (noisy[..., None, :] - angle.cos()[..., None] * vectors).square().sum(-1)
        return prior.expand(*noisy.shape[:2], -1).slice_scatter(
            prior[:3] - squares / (2 * angle.sin() ** 2), dim=2, start=0, end=3
        )

    monkeypatch.setattr(diffusion_sampler, "token_logits", posterior)
    found = denoised({}, torch.zeros(20, dtype=torch.long), 64, torch.Generator().manual_seed(0))
    assert found.shape == (20, WINDOW)
    counts = np.bincount(found.flatten().numpy(), minlength=3)
    assert counts[:3].sum() == counts.sum()
    low, high = stats.binom.ppf([[1e-4], [1 - 1e-4]], counts.sum(), SHARES)
    # 64 steps are not infinitely many: two hundredths of the texts beside the sampling error.
    slack = 0.02 * counts.sum()
    assert (counts[:3] >= low - slack).all(), counts
    assert (counts[:3] <= high + slack).all(), counts


@pytest.mark.parametrize("steps", [1, 5])
def test_every_number_of_steps_gives_tokens(steps):
    found = denoised(
        new_weights(1, 0), torch.zeros(2, dtype=torch.long), steps, torch.Generator().manual_seed(0)
    )
    assert found.shape == (2, WINDOW)
    assert found.min() >= 0
    assert found.max() < len(token_vectors())
