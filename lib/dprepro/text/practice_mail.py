"""Subject lines of mail to an invented firm, drawn from a seed: labelled private texts to practise on.

A line such as "red printer broken since monday" begins with its label, the team that answers it. What the firm sells
and which team answers what is drawn: nobody outside knows it. The public lines have the same form and words, but
every word is equally likely and says nothing about the team. Labels as a first word, from which a model continues,
are the control codes of Keskar et al., "CTRL" (arXiv 1909.05858).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import positive_count

TEAMS = ("red", "green", "blue")
_OF_THINGS = (
    "account battery bill camera card charger contract display fee headset invoice keyboard letter licence modem "
    "parcel password phone printer receipt refund router screen tablet"
)
_OF_STATES = "blocked broken cancelled double empty expired late lost missing old slow wrong"
_OF_DAYS = "today yesterday monday tuesday friday april"
_THINGS, _STATES, _DAYS = _OF_THINGS.split(), _OF_STATES.split(), _OF_DAYS.split()
WORDS = (*TEAMS, *_THINGS, *_STATES, "since", *_DAYS)
END = 0  # the mark before and after a line; word i has number i + 1
VOCABULARY = len(WORDS) + 1


@dataclass(frozen=True)
class Mail:
    """Subject lines.

    Attributes
    ----------
    public : list of str
    private, test : list of str
        Of the firm; nobody's line of one is in the other, but equal lines occur.
    customer : ndarray of int, shape (len(private),)
        Who wrote each private line; all lines of a customer stand together.
    """

    public: list[str]
    private: list[str]
    test: list[str]
    customer: NDArray[np.int64]


def draw_mail(
    rng: np.random.Generator, *, public: int = 1500, customers: int = 600, each: int = 4, test: int = 400
) -> Mail:
    """Draw a firm and its mail.

    Parameters
    ----------
    rng : Generator
    public, test : int
        Numbers of lines.
    customers, each : int
        Number of customers, and of private lines that each of them wrote.

    Raises
    ------
    ValueError
        A number below 1.
    """
    known, tried = int(positive_count("public", public)), int(positive_count("test", test))
    people, lines = int(positive_count("customers", customers)), int(positive_count("each", each))
    teams = len(TEAMS)
    habits = (
        rng.dirichlet(np.full(len(_THINGS), 0.3), size=teams),
        rng.dirichlet(np.full(len(_STATES), 0.5), size=teams),
    )
    strangers = (
        np.full((teams, len(_THINGS)), 1 / len(_THINGS)),
        np.full((teams, len(_STATES)), 1 / len(_STATES)),
    )
    return Mail(
        _lines(known, *strangers, rng),
        _lines(people * lines, *habits, rng),
        _lines(tried, *habits, rng),
        np.repeat(np.arange(people), lines),
    )


def token_rows(texts: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the words of each text, END in front and behind.

    Raises
    ------
    ValueError
        One text in place of a sequence, or a word that is none of WORDS.
    """
    if isinstance(texts, str):
        raise ValueError(f"texts must be a sequence of texts, got {texts!r:.80}")
    number = {word: i for i, word in enumerate(WORDS, start=1)}
    rows = [text.split() for text in texts]
    if unknown := [word for row in rows for word in row if word not in number]:
        raise ValueError(f"texts must consist of WORDS, got {unknown[0]!r}")
    return [[END, *(number[word] for word in row), END] for row in rows]


def _lines(
    n: int, things: NDArray[np.float64], states: NDArray[np.float64], rng: np.random.Generator
) -> list[str]:
    # As `rng.choice(_THINGS, p=things[team])` draws, which would check and add up the probabilities for each word.
    sums = (np.cumsum(law, axis=1) for law in (things, states))
    thing_law, state_law = (law / law[:, -1:] for law in sums)
    lines = []
    for team in rng.integers(len(TEAMS), size=n):
        thing = _THINGS[thing_law[team].searchsorted(rng.random(), side="right")]
        state = _STATES[state_law[team].searchsorted(rng.random(), side="right")]
        lines.append(f"{TEAMS[team]} {thing} {state} since {_DAYS[rng.integers(len(_DAYS))]}")
    return lines
