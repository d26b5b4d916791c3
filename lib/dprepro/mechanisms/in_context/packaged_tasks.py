"""Tasks for in-context pipelines from packaged corpora: two classifications and two generations.

SnapAudit (arXiv 2511.13502) uses AGNews, TREC, SAMSum and XSum, which are not shipped here; these stand in for them:
the sentiment of film reviews, which of three corpora a sentence is from, replies in dialogues, and how a sentence of
an editorial goes on. Texts are short, so that four demonstrations and a query stay within 100 tokens.
"""

from collections.abc import Iterable

from dprepro.base.check import positive_count
from dprepro.mechanisms.in_context.demonstrations import Demonstration
from dprepro.text.corpora import corpus

SENTIMENTS = ("positive", "negative")
DOMAINS = {"movies": "film", "editorials": "news", "products": "product"}
_CLEAR = 1.0  # of a rating from -4 to 4: nearer to 0 a review is neither
_FEWEST_WORDS = 4


def sentiment(most_words: int = 12) -> list[Demonstration]:
    """Film reviews with "positive" or "negative" (ratings of at least 1 from 0).

    Parameters
    ----------
    most_words : int
        Longer texts are left out, as are those of under four words.
    """
    table = corpus("movies").without_copies().table
    clear = table[table["sentiment"].abs() >= _CLEAR]
    labels = [SENTIMENTS[int(rating < 0)] for rating in clear["sentiment"]]
    return _short(zip(clear["text"], labels, strict=True), most_words)


def domains(most_words: int = 12) -> list[Demonstration]:
    """Sentences with "film", "news" or "product", by the corpus that they are from; `most_words` as `sentiment`."""
    pairs = ((text, label) for name, label in DOMAINS.items() for text in corpus(name).texts)
    return _short(pairs, most_words)


def replies(most_words: int = 20) -> list[Demonstration]:
    """Dialogues: what one says and what the other replies, together of at most `most_words` words."""
    turns = (text.split("\n") for text in corpus("dialogue").texts)
    return _short(((said[0], said[1]) for said in turns if len(said) > 1), most_words)


def continuations(most_words: int = 20) -> list[Demonstration]:
    """Editorials: the first half of a sentence's words, and the second; together at most `most_words`."""
    rows = (text.split() for text in corpus("editorials").texts)
    halves = (
        (" ".join(row[: len(row) // 2]), " ".join(row[len(row) // 2 :])) for row in rows if len(row) > 1
    )
    return _short(halves, most_words)


def _short(pairs: Iterable[tuple[str, str]], most_words: int) -> list[Demonstration]:
    most = int(positive_count("most_words", most_words, minimum=_FEWEST_WORDS))
    kept: dict[str, Demonstration] = {}
    for text, answer in pairs:
        if text.strip() and _FEWEST_WORDS <= len(text.split()) + answer.count(" ") <= most:
            item = Demonstration(text, answer)
            kept.setdefault(item.text, item)  # the first of equal texts
    return list(kept.values())
