"""How far apart two plain answers lie, such as the Yes and No of SnapAudit (arXiv 2511.13502).

The paper does not name the embedding model behind its distances, so a distance on the packaged embedder is another
number under the same name, not a reproduction of it.
"""

from typing import Any

import numpy as np

from dprepro.text.embedders import embedder


def report(key: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return the distance of two texts on the packaged embedder: an item of a saved result.

    Parameters
    ----------
    key : str
        Two texts with a slash between them: "Yes/No".
    rng : numpy.random.Generator
        Not used; saved results hand one to every item.

    Returns
    -------
    dict
        "distance": Euclidean, in [0, 2], with six digits, as the seventh depends on the CPU.

    Raises
    ------
    ValueError
        For a key that does not hold two texts.
    """
    texts = key.split("/")
    if len(texts) != 2 or not all(text.strip() for text in texts):
        raise ValueError(f"key must hold two texts with a slash between them, got {key!r}")
    first, second = embedder(threads=1).encode(texts)
    return {"distance": round(float(np.linalg.norm(first - second)), 6)}
