"""Text classifiers: words counted and weighed with a linear model, and a small transformer fine-tuned.

Both are there to measure what texts are good for: trained on synthetic texts, tested on real ones (SynBench, arXiv
2509.14594).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from dprepro.base.check import in_interval, positive_count

FloatArray = NDArray[np.float64]


def tfidf_classifier(seed: int = 0) -> Any:
    """Return an untrained scikit-learn pipeline: TF-IDF of words and word pairs, then logistic regression.

    It has ``fit(texts, labels)``, ``predict(texts)`` and ``predict_proba(texts)``. Words may have one letter.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    features = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    return make_pipeline(features, LogisticRegression(C=10.0, max_iter=1000, random_state=seed))


class FineTunedClassifier:
    """The packaged MiniLM with a linear layer on its mean-pooled output, all weights trained.

    Parameters
    ----------
    epochs : int
    learning_rate : float
        Of AdamW, falling linearly to 0.
    batch_size : int
    seed : int
        Of the layer's start, the order of the batches and dropout: the same seed on the same machine gives the same
        classifier.
    max_tokens : int
        Longer texts are cut.

    Attributes
    ----------
    classes_ : array
        The labels, sorted (after `fit`).

    Raises
    ------
    ValueError
        An argument outside its domain.
    """

    def __init__(
        self,
        epochs: int = 3,
        learning_rate: float = 1e-4,
        batch_size: int = 32,
        seed: int = 0,
        max_tokens: int = 128,
    ) -> None:
        self.epochs = int(positive_count("epochs", epochs))
        self.learning_rate = float(in_interval("learning_rate", learning_rate, 0, np.inf, closed="neither"))
        self.batch_size = int(positive_count("batch_size", batch_size))
        self.seed = int(positive_count("seed", seed, minimum=0))
        self.max_tokens = int(positive_count("max_tokens", max_tokens))

    def fit(self, texts: Sequence[str], labels: ArrayLike) -> "FineTunedClassifier":
        """Train on texts and labels of one length; ValueError for others, or for fewer than two labels."""
        import torch

        from dprepro.text.embedders import embedder

        self.classes_, numbers = np.unique(np.asarray(labels), return_inverse=True)
        if len(texts) != len(numbers) or len(self.classes_) < 2:
            raise ValueError(
                "labels must be one for each text and of two kinds at least, "
                f"got {len(numbers)} for {len(texts)} texts, {len(self.classes_)} kinds"
            )
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._encoder = embedder().model  # loaded anew: nobody else's weights are trained
            self._layer = torch.nn.Linear(self._encoder.get_embedding_dimension(), len(self.classes_))
            weights = [*self._encoder.parameters(), *self._layer.parameters()]
            self._encoder.max_seq_length = self.max_tokens
            batches = [
                order[start : start + self.batch_size]
                for order in (torch.randperm(len(texts)) for _ in range(self.epochs))
                for start in range(0, len(texts), self.batch_size)
            ]
            optimizer = torch.optim.AdamW(weights, lr=self.learning_rate)
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=len(batches))
            self._encoder.train()
            for batch in tqdm(batches, desc="fine-tuning", unit="batch", disable=None):
                target = torch.as_tensor(numbers[batch.numpy()])
                loss = torch.nn.functional.cross_entropy(self._logits([texts[i] for i in batch]), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            self._encoder.eval()
        return self

    def predict_proba(self, texts: Sequence[str]) -> FloatArray:
        """Return the probability of each class, shape (len(texts), len(classes_)); ValueError before `fit`."""
        import torch

        if not hasattr(self, "_layer"):
            raise ValueError("the classifier must be fitted before it predicts: call fit(texts, labels)")
        with torch.no_grad():
            parts = [
                torch.softmax(self._logits(texts[start : start + self.batch_size]), dim=1).numpy()
                for start in range(0, len(texts), self.batch_size)
            ]
        return np.concatenate([np.zeros((0, len(self.classes_))), *parts])

    def predict(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return the most probable label of each text; ValueError before `fit`."""
        best = self.predict_proba(texts).argmax(axis=1)
        return self.classes_[best]

    def _logits(self, texts: Sequence[str]) -> Any:
        tokens = self._encoder.tokenize(list(texts))
        return self._layer(self._encoder(tokens)["sentence_embedding"])
