"""DP-SGD beside PMixED: the same public model fine-tuned on the same reviews, at the same epsilon and delta.

What PMixED (arXiv 2403.15638) is compared with. The unit is one review; the model that comes out answers any number
of queries. The saved result ``pmixed_rival`` holds the negative log-probabilities of the same test texts as
``pmixed_perplexity``.
"""

from typing import Any

import numpy as np

from dprepro.audits.pmixed_study import review_task
from dprepro.audits.tension_study import mechanism
from dprepro.text.tiny_lm import TinyLM


def report(
    key: str,
    rng: np.random.Generator,
    *,
    texts: int,
    delta: float,
    clipping_norm: float,
    sample_rate: float,
    steps: int,
    learning_rate: float,
) -> dict[str, Any]:
    """Return one item.

    Parameters
    ----------
    key : str
        Epsilon, or "plain" (no clipping, no noise), and the number of the run: "8, 0".
    rng : Generator
        Draws batches and noise.
    texts : int
        Test texts.
    delta, clipping_norm, sample_rate, steps, learning_rate
        Of the training, as `tension_study.mechanism`.

    Returns
    -------
    dict
        tokens, and law: the negative log-probability in nats; one value for each text. noise_multiplier.
    """
    task = review_task(texts)
    setting, _, _ = key.partition(", ")
    training = mechanism(
        setting,
        delta=delta,
        clipping_norm=clipping_norm,
        sample_rate=sample_rate,
        steps=steps,
        learning_rate=learning_rate,
    )
    # By length: the chunks of a batch, in the order of the texts, then need little padding.
    private, test = (
        [task.lm.tokenizer.decode(row[1:-1]) for row in rows]
        for rows in (sorted(task.private, key=len), task.test)
    )
    tuned = training.fit(*task.lm, private, rng).model
    logs = TinyLM(tuned, task.lm.tokenizer).log_probabilities(test)
    return {
        "tokens": [len(line) for line in logs],
        "law": [float(-line.sum()) for line in logs],
        "noise_multiplier": training.noise_multiplier,
    }
