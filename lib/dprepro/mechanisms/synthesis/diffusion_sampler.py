"""The way back from noise to text, by the ancestral sampler of denoising diffusion.

Ho et al., "Denoising Diffusion Probabilistic Models" (arXiv 2006.11239), for the times of ``diffusion_net``: at each
step the expected vectors under the network's prediction stand for the text without noise.
"""

import math
from itertools import pairwise
from typing import Any

from dprepro.mechanisms.synthesis.diffusion_net import Weights, token_logits
from dprepro.mechanisms.synthesis.diffusion_tokens import DIMENSION, WINDOW, token_vectors


def denoised(weights: Weights, label: Any, steps: int, generator: Any) -> Any:
    """Draw texts, from noise alone back to time 0.

    Parameters
    ----------
    weights : dict of str to tensor
    label : tensor of int, shape (n,)
    steps : int
        From time .995 to 0, evenly.
    generator : torch.Generator

    Returns
    -------
    tensor of int, shape (n, WINDOW)
        The most probable token of each place at the last step.
    """
    import torch

    times = torch.linspace(1.0, 0.0, steps + 1)
    times[0] = 0.995  # at time 1 the noise says nothing of the vectors, and its share of them is 0/0
    noisy = torch.randn(len(label), WINDOW, DIMENSION, generator=generator)
    with torch.inference_mode():
        for now, then in pairwise(times):
            logits = token_logits(weights, noisy, now.expand(len(label)), label)
            if then == 0:
                break
            expected = logits.softmax(-1) @ token_vectors()
            (keep, spread), (kept, left) = _shares(now), _shares(then)
            fresh = left / spread * (1 - (keep / kept) ** 2).sqrt()
            old = (noisy - keep * expected) / spread  # the noise that is in it, if the prediction is right
            drawn = torch.randn(noisy.shape, generator=generator)
            noisy = kept * expected + (left**2 - fresh**2).sqrt() * old + fresh * drawn
    return logits.argmax(-1)


def _shares(time: Any) -> tuple[Any, Any]:
    angle = time * (math.pi / 2)
    return angle.cos(), angle.sin()
