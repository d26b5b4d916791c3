"""A zero-shot filter of synthetic texts: keep those for which a language model says yes rather than no.

SynBench (arXiv 2509.14594) scores each synthetic text by P(yes) - P(no), the probabilities of the two answers to a
question about it, and keeps the texts with the highest scores. No model is trained and no private text is read: the
scores and the choice are a function of the synthetic texts, so that the filtered texts have the privacy of those
before it, whatever that is (post-processing), for nothing. The same holds only as long as the question and the share
that is kept are not chosen by looking at private texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.synthesis.labelled_texts import SyntheticTexts
from dprepro.text.responders import Responder

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PostFilter:
    """Keep the best share of each class by the answers of a responder.

    Parameters
    ----------
    responder : Responder
        Knows nothing of the private texts.
    question : str
        A prompt with {text} and, if it asks for it, {label}; without a space at its end.
    share : float
        Of the texts of each class, in (0, 1]; rounded up to whole texts.
    yes, no : str
        The answers, with the space that they begin with.
    characters : int
        A text is cut after so many: a long one would not fit the model's window.

    Raises
    ------
    ValueError
        An argument outside its domain, a question without {text}, a blank answer, or equal answers.
    """

    responder: Responder
    question: str = "Text: {text}\nQuestion: Is this text {label}, yes or no?\nAnswer:"
    share: float = 0.5
    yes: str = " yes"
    no: str = " no"
    characters: int = 2000

    def __post_init__(self) -> None:
        in_interval("share", self.share, 0, 1, closed="right")
        positive_count("characters", self.characters)
        if "{text}" not in self.question:
            raise ValueError(f"question must hold {{text}}, got {self.question!r}")
        for name in ("yes", "no"):
            answer = getattr(self, name)
            if not isinstance(answer, str) or not answer.strip():
                raise ValueError(f"{name} must be an answer with a visible character, got {answer!r}")
        if self.yes == self.no:
            raise ValueError(f"no must be another answer than yes, got {self.no!r}")

    def scores(self, texts: Sequence[str], labels: Sequence[str]) -> FloatArray:
        """Return P(yes) - P(no) for each text.

        Parameters
        ----------
        texts, labels : sequences of str, length n

        Returns
        -------
        ndarray, shape (n,)
            In [-1, 1]; probabilities are over the whole vocabulary. -1 for a text without a visible character, about
            which nothing is asked.

        Raises
        ------
        ValueError
            Texts and labels of different number, or a single text in place of a sequence; what the responder raises.
        """
        _rows(texts=texts, labels=labels)
        if len(texts) != len(labels):
            raise ValueError(f"labels must be one for each of {len(texts)} texts, got {len(labels)}")
        found = np.full(len(texts), -1.0)
        visible = [place for place, text in enumerate(texts) if text.strip()]
        if visible:
            prompts = [
                self.question.replace("{label}", labels[place]).replace(
                    "{text}", texts[place][: self.characters]
                )
                for place in visible
            ]
            yes, no = np.exp(self.responder.label_logprobs(prompts, [self.yes, self.no])).T
            found[visible] = yes - no
        return found

    def keep(self, written: SyntheticTexts) -> SyntheticTexts:
        """Return the texts with the highest scores of each class, in the order in which they stood.

        Of equal scores the earlier text stays.
        """
        return chosen(written, best(self.scores(written.texts, written.labels), written.labels, self.share))


def best(scores: Sequence[float] | FloatArray, labels: Sequence[str], share: float) -> NDArray[np.int64]:
    """Return the places of the highest scores of each class, ascending; `share` of a class, rounded up.

    Raises
    ------
    ValueError
        Scores and labels of different number, a score that is NaN, a single text in place of a sequence of labels, or
        a share outside (0, 1].
    """
    _rows(labels=labels)
    values = np.asarray(scores, dtype=np.float64)
    kinds = np.asarray(labels, dtype=object)
    part = float(in_interval("share", share, 0, 1, closed="right"))
    if values.shape != kinds.shape or np.isnan(values).any():
        raise ValueError(
            f"scores must be one number for each of {len(kinds)} labels, got shape {values.shape} "
            f"and {int(np.isnan(values).sum())} NaN"
        )
    places = [np.flatnonzero(kinds == kind) for kind in dict.fromkeys(labels)]
    kept = [
        place[np.argsort(-values[place], kind="stable")][: int(np.ceil(part * len(place)))]
        for place in places
    ]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *kept]))


def chosen(written: SyntheticTexts, places: NDArray[np.int64]) -> SyntheticTexts:
    """Return the synthetic texts at these places."""
    texts = [written.texts[place] for place in places]
    return SyntheticTexts(
        texts, [written.labels[place] for place in places], sum(not t.strip() for t in texts)
    )


def _rows(**arguments: Sequence[str]) -> None:
    """Refuse a text where a sequence of texts is meant: its letters would be taken one by one."""
    for name, values in arguments.items():
        if isinstance(values, str):
            raise ValueError(f"{name} must be a sequence of texts, got the text {values[:40]!r}")
