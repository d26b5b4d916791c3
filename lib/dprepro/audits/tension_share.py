"""How much of a canary's gradient the loss test sees: what a design of canaries can show before anything is trained.

DP-SGD moves weights by a canary's clipped gradient, of norm clipping_norm, against noise that is alike in
all directions. On the embedding of a token that no other text has, nothing else pulls (Panda et al. 2025, arXiv
2503.06808, choose new tokens for that). A test of the final model that responds to this row alone, in the direction
of the gradient of its score, has the signal that the canary's gradient has in that direction.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.dp_finetune import text_losses, token_rows


class Shares(NamedTuple):
    """Parts of the gradient of a canary's loss, which has norm 1.

    Attributes
    ----------
    norm : float
        Of the gradient itself; above the clipping norm it is clipped.
    own : float
        Norm of the part on the embedding of the canary's token.
    seen : float
        Length of that part in the direction in which the score changes.
    """

    norm: float
    own: float
    seen: float


def shares(model: Any, tokenizer: Any, canary: str, token: str) -> Shares:
    """Split the gradient of a canary's loss; its score is the loss on the places where its own token stands.

    Parameters
    ----------
    model, tokenizer
        Of transformers, causal, input and output embeddings tied, token known (`with_new_tokens`).
    canary, token : str

    Raises
    ------
    ValueError
        A token that is not in the canary.
    """
    import torch

    row = token_rows(tokenizer, [canary], int(model.config.max_position_embeddings))[0]
    number = tokenizer.convert_tokens_to_ids(token)
    places = [place for place, word in enumerate(row) if word == number]
    if not places:
        raise ValueError(f"token must be in the canary, got {token!r} and {canary!r}")
    weights, table = list(model.parameters()), model.get_input_embeddings().weight
    whole = torch.autograd.grad(text_losses(model, [row]).sum(), weights)
    logits = model(input_ids=torch.tensor([row[:-1]]), use_cache=False).logits[0]
    scores = logits.log_softmax(-1)[[place - 1 for place in places], number]
    (by_score,) = torch.autograd.grad(-scores.mean(), [table])
    norm = float(np.sqrt(sum(float((part.double() ** 2).sum()) for part in whole)))
    own = next(part for part, weight in zip(whole, weights, strict=True) if weight is table)[number].double()
    direction = by_score[number].double()
    return Shares(norm, float(own.norm()) / norm, float(own @ direction / direction.norm()) / norm)


def expected_area(share: float, noise_multiplier: float, sample_rate: float, steps: int) -> float:
    """Area under the ROC curve of a canary whose score sees such a share of its gradient, clipped in every step.

    Parameters
    ----------
    share : float
        In [0, 1].
    noise_multiplier : float
        Positive.
    sample_rate : float
        In (0, 1].
    steps : int
        At least 1.

    Returns
    -------
    float
        Phi(d / sqrt(2)) for scores d = share sample_rate sqrt(steps) / noise_multiplier standard deviations apart:
        plain descent, the same direction in every step, batches as large as on average.

    Raises
    ------
    ValueError
        An argument outside its domain.
    """
    part = float(in_interval("share", share, 0, 1))
    sigma = float(in_interval("noise_multiplier", noise_multiplier, 0, np.inf, closed="neither"))
    rate = float(in_interval("sample_rate", sample_rate, 0, 1, closed="right"))
    distance = part * rate * np.sqrt(int(positive_count("steps", steps))) / sigma
    return float(stats.norm.cdf(distance / np.sqrt(2)))
