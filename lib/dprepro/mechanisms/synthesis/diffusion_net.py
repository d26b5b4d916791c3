"""The network of a diffusion model over token embeddings: what stood where, given a text in noise.

Li et al., "Diffusion-LM Improves Controllable Text Generation" (arXiv 2205.14217): each token of a text is a vector,
noise is added to the vectors until nothing is left of them, and a network learns the way back. As in Dieleman et al.,
"Continuous diffusion for categorical data" (arXiv 2211.15089), it predicts the token at each place and is trained
with cross-entropy; the expected vector under that prediction stands for the text without noise. At time t in [0, 1]

    noisy = cos(pi t / 2) vectors + sin(pi t / 2) noise.

The vectors are fixed (``diffusion_tokens``). The network is a transformer of two layers that looks both ways, and its
weights are a plain dictionary of tensors, which is what gradients per text (`torch.func`) work on.
"""

import math
from typing import Any

from dprepro.mechanisms.synthesis.diffusion_tokens import DIMENSION, WINDOW, token_vectors

Weights = dict[str, Any]  # tensors by name

WIDTH = 96
LAYERS = 2
HEADS = 4
MLP = 3  # hidden units of a layer, in multiples of its width
FREQUENCIES = 8  # of the time
# The label has few steps to be learnt in; Adam moves each weight by about the learning rate a step.
LABEL_SCALE = 10.0


def new_weights(classes: int, seed: int) -> Weights:
    """Return weights drawn anew; a label has no effect yet.

    Parameters
    ----------
    classes : int
        Number of labels.
    seed : int
        The random state of torch stays as it is.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])

    weights: Weights = {
        "input": drawn(WIDTH, DIMENSION),
        "place": torch.randn(WINDOW, WIDTH, generator=generator),
    }
    weights |= {"time": drawn(WIDTH, 2 * FREQUENCIES), "label": torch.zeros(classes, WIDTH)}
    for layer in range(LAYERS):
        shapes = {
            "attend": (3 * WIDTH, WIDTH),
            "mix": (WIDTH, WIDTH),
            "up": (MLP * WIDTH, WIDTH),
            "down": (WIDTH, MLP * WIDTH),
        }
        for name, shape in shapes.items():
            weights[f"{layer}.{name}"] = drawn(*shape)
            weights[f"{layer}.{name}.bias"] = torch.zeros(shape[0])
    weights |= {"output": 0.1 * drawn(DIMENSION, WIDTH), "bias": torch.zeros(len(token_vectors()))}
    return weights


def token_logits(weights: Weights, noisy: Any, time: Any, label: Any) -> Any:
    """Score of each token at each place.

    Parameters
    ----------
    weights : dict of str to tensor
    noisy : tensor, shape (n, WINDOW, DIMENSION)
    time : tensor, shape (n,)
        In [0, 1].
    label : tensor of int, shape (n,)
        Rows of the weights "label".

    Returns
    -------
    tensor, shape (n, WINDOW, vocabulary)
    """
    import torch

    linear, normed = torch.nn.functional.linear, torch.nn.functional.layer_norm
    angles = time[:, None] * torch.arange(1, FREQUENCIES + 1) * (math.pi / 2)
    known = linear(torch.cat([angles.sin(), angles.cos()], dim=1), weights["time"])
    known = known + LABEL_SCALE * weights["label"][label]
    state = linear(noisy, weights["input"]) + weights["place"] + known[:, None]
    count, places, width = state.shape
    for layer in range(LAYERS):

        def by(name: str, value: Any, layer: int = layer) -> Any:
            return linear(value, weights[f"{layer}.{name}"], weights[f"{layer}.{name}.bias"])

        heads = by("attend", normed(state, (width,))).view(count, places, 3, HEADS, width // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        shares = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(width // HEADS), dim=-1)
        state = state + by("mix", (shares @ value).transpose(1, 2).reshape(count, places, width))
        hidden = torch.nn.functional.gelu(by("up", normed(state, (width,))), approximate="tanh")
        state = state + by("down", hidden)
    return linear(normed(state, (width,)), weights["output"]) @ token_vectors().T + weights["bias"]


def noised(tokens: Any, marks: Any, generator: Any) -> tuple[Any, Any, Any, Any]:
    """Return tokens and labels of a batch with a time and a noise for each text, as `text_losses` takes them."""
    import torch

    time = torch.rand(len(tokens), generator=generator)
    return tokens, marks, time, torch.randn(*tokens.shape, DIMENSION, generator=generator)


def text_losses(weights: Weights, tokens: Any, label: Any, time: Any, noise: Any) -> Any:
    """Mean cross-entropy over the places of each text, in nats: a tensor, shape (n,).

    Parameters
    ----------
    weights : dict of str to tensor
    tokens : tensor of int, shape (n, WINDOW)
    label, time : tensors, shape (n,)
    noise : tensor, shape (n, WINDOW, DIMENSION)
        Standard normal.
    """
    import torch

    angle = (time * (math.pi / 2))[:, None, None]
    noisy = angle.cos() * token_vectors()[tokens] + angle.sin() * noise
    logits = token_logits(weights, noisy, time, label)
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens, reduction="none").mean(1)
