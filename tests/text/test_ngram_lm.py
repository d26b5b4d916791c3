"""N-gram models against nltk (Laplace, add-k) and against Kneser-Ney written as a recursion over dictionaries."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from nltk.lm import Laplace, Lidstone
from nltk.lm.preprocessing import padded_everygram_pipeline

from dprepro.text.ngram_lm import END, SMOOTHINGS, START, UNKNOWN, NGramModel

TEXTS = [
    "the cat sat on the mat",
    "a dog sat on a log",
    "the dog and the cat sat",
    "I saw a cat",
    "the the the",
    "",
]
NEW = ["the cat saw a zebra", "a a a", "zebra", "", "on the log the dog sat", "the cat sat on the mat"]


def random_texts(rng, n, words=12, longest=9):
    return [
        " ".join(f"w{int(i)}" for i in rng.geometric(0.25, rng.integers(0, longest)) if i <= words)
        for _ in range(n)
    ]


def nltk_model(order, texts, k=1.0):
    model = Laplace(order) if k == 1 else Lidstone(k, order)
    model.fit(*padded_everygram_pipeline(order, [text.split() for text in texts]))
    return model


def padded(text, order):
    return text.split() if order == 1 else [START] * (order - 1) + text.split() + [END]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [1.0, 0.1])
def test_equals_nltk(order, k):
    texts = TEXTS + random_texts(np.random.default_rng(order), 60)
    oracle = nltk_model(order, texts, k)
    model = NGramModel(order, "laplace" if k == 1 else "add_k", k).fit(texts)
    for text in NEW + texts[:20]:
        words = padded(text, order)
        expected = 0.0
        for place in range(order - 1, len(words)):
            context = tuple(words[place - order + 1 : place])
            log_p = math.log(oracle.score(words[place], context))
            assert model.conditional_logprob(words[place], context) == pytest.approx(log_p, abs=1e-12)
            expected += log_p
        assert model.logprob(text) == pytest.approx(expected, abs=1e-11)


class KneserNey:
    """Interpolated Kneser-Ney as in the paper's formulas, over dictionaries of tuples."""

    def __init__(self, order, texts):
        self.order = order
        raw = Counter()
        for text in texts:
            words = padded(text, order)
            for length in range(1, order + 1):
                for end in range(length, len(words) + 1):
                    raw[tuple(words[end - length : end])] += 1
        self.counts = [Counter() for _ in range(order + 1)]
        for gram, count in raw.items():
            if gram[-1] != START and len(gram) == order:
                self.counts[order][gram] = count
        for length in range(order - 1, 0, -1):
            for gram in {gram for gram in raw if len(gram) == length + 1 and gram[-1] != START}:
                self.counts[length][gram[1:]] += 1
        self.after = [defaultdict(dict) for _ in range(order + 1)]
        for length in range(1, order + 1):
            for gram, count in self.counts[length].items():
                self.after[length][gram[:-1]][gram[-1]] = count
        words = {w for text in texts for w in text.split()}
        self.words = sorted(words) + [UNKNOWN] + ([END] if order > 1 else [])

    def discount(self, length):
        values = list(self.counts[length].values())
        once, twice = values.count(1), values.count(2)
        return min(max(once / (once + 2 * twice) if once else 0.0, 0.1), 0.9)

    def p(self, word, context):
        length = len(context) + 1
        lower = self.p(word, context[1:]) if context else 1 / len(self.words)
        after = self.after[length].get(context, {})
        total = sum(after.values())
        if total == 0:
            return lower
        d = self.discount(length)
        return max(after.get(word, 0) - d, 0) / total + d * len(after) / total * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_kneser_ney_equals_its_recursion_and_sums_to_one(order):
    texts = TEXTS + random_texts(np.random.default_rng(order), 60)
    oracle, model = KneserNey(order, texts), NGramModel(order, "kneser_ney").fit(texts)
    for text in NEW + texts[:20]:
        words = padded(text, order)
        known = [w if w in oracle.words or w == START else UNKNOWN for w in words]
        for place in range(order - 1, len(words)):
            context = tuple(known[place - order + 1 : place])
            expected = math.log(oracle.p(known[place], context))
            assert model.conditional_logprob(words[place], context) == pytest.approx(expected, abs=1e-10)
        steps = [
            model.conditional_logprob(words[i], tuple(words[i - order + 1 : i]))
            for i in range(order - 1, len(words))
        ]
        assert model.logprob(text) == pytest.approx(math.fsum(steps), abs=1e-9)
    for context in [("the", "cat", "sat"), (START, START, START), ("zebra", "on", "the"), ("on", "mat", END)]:
        context = context[len(context) - order + 1 :] if order > 1 else ()
        total = sum(math.exp(model.conditional_logprob(w, context)) for w in oracle.words)
        assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_unseen_words_have_a_probability(order, smoothing):
    model = NGramModel(order, smoothing).fit(["one two", "one two", "one two"])
    assert np.isfinite(model.logprob("never seen words"))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_samples_follow_the_model(order, smoothing):
    texts = random_texts(np.random.default_rng(7), 300, words=4, longest=6)
    model = NGramModel(order, smoothing, **({"k": 0.5} if smoothing == "add_k" else {})).fit(texts)
    n = 20_000
    sampled = model.sample(n, np.random.default_rng(1))
    assert len(sampled) == n
    first = Counter(text.split()[0] if text else END for text in sampled)
    context = (START,) * (order - 1)
    words = [*model.vocabulary, *([END] if order > 1 else [])]
    p = np.exp([model.conditional_logprob(w, context) for w in words])
    p /= p.sum()  # without <s> and <UNK>
    draws = sum(first[w] for w in model.vocabulary) if order == 1 else n
    for word, expected in zip(words, p, strict=True):
        assert abs(first[word] - draws * expected) <= 5 * math.sqrt(draws * expected * (1 - expected)) + 1, (
            word
        )


def test_samples_are_the_seed_s_and_are_cut():
    model = NGramModel(2).fit(TEXTS)
    one, two = (model.sample(50, np.random.default_rng(3), max_words=4) for _ in range(2))
    assert one == two != model.sample(50, np.random.default_rng(4), max_words=4)
    assert max(len(text.split()) for text in one) <= 4
    assert set(" ".join(one).split()) <= set(model.vocabulary)


def test_one_letter_words_and_any_white_space():
    model = NGramModel(1).fit(["I\tsaw  a\ncat"])
    assert model.vocabulary == ("I", "a", "cat", "saw")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NGramModel(5), "order must be a whole number from 1 to 4, got 5"),
        (lambda: NGramModel(0), "order"),
        (lambda: NGramModel(2, "good_turing"), "smoothing must be one of"),
        (lambda: NGramModel(2, "add_k", 0), "k must be in"),
        (lambda: NGramModel(2, "laplace", 0.5), "k must be 1"),
        (lambda: NGramModel(2).fit([]), "at least one word"),
        (lambda: NGramModel(2).fit(["", " "]), "at least one word"),
        (lambda: NGramModel(2).fit("one string"), "a sequence of strings"),
        (lambda: NGramModel(2).fit(["a", None]), "got NoneType at position 1"),
        (lambda: NGramModel(2).logprob("a"), "must be fitted"),
        (
            lambda: NGramModel(3).fit(["a b"]).conditional_logprob("a", ("b",)),
            "context must hold 2 words, got 1",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
