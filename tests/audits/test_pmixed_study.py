"""The study on text: what is private and what is test, the numbers without privacy, the mechanism between them."""

import numpy as np
import pytest

from dprepro.audits.pmixed_study import joined, report, review_task
from dprepro.text.corpora import corpus
from dprepro.text.public_text import PUBLIC

pytest.importorskip("torch")
pytest.importorskip("transformers")

SETTING = {"n_experts": 80, "sample_rate": 0.03, "n_queries": 1024, "delta": 1e-5, "texts": 2}


def perplexity(item, way):
    return float(np.exp(sum(item[way]) / sum(item["tokens"])))


@pytest.fixture(scope="module")
def plain():
    return report("without privacy, 0", np.random.default_rng(0), **SETTING)


def test_public_numbers_are_those_of_the_model(plain):
    task = review_task(2)
    texts = [task.lm.tokenizer.decode(row[1:-1]) for row in task.test]
    direct = task.lm.log_probabilities(texts)
    assert [len(line) for line in direct] == plain["tokens"]
    np.testing.assert_allclose([-line.sum() for line in direct], plain["public"], atol=1e-3)


def test_sides():
    task = review_task(2)
    assert "movies" not in PUBLIC
    films = corpus("movies").without_copies()
    assert 0.99 * len(films.split("train")) < len(task.private) <= len(films.split("train"))
    assert len({tuple(row) for row in task.private} & {tuple(row) for row in task.test}) == 0
    assert all(row[0] == row[-1] == 0 for row in task.test + task.private)


@pytest.mark.parametrize("kind", ["expert", "record", "published"])
def test_privacy_costs_and_public_text_costs_more(kind, plain):
    item = report(f"{kind}, 8, 0", np.random.default_rng(1), **SETTING)
    assert item["tokens"] == plain["tokens"]
    assert perplexity(plain, "ensemble") < perplexity(item, "drawn") < perplexity(plain, "public")
    if kind == "published":
        assert "law" not in item
    else:  # the logarithm is concave, so a mixture that is known costs more than their mean
        assert perplexity(plain, "ensemble") < perplexity(item, "law") < perplexity(plain, "public")


def test_more_epsilon_helps_and_a_seed_repeats():
    ways = [report(f"expert, {e}, 0", np.random.default_rng(1), **SETTING) for e in (2, 10, 10)]
    assert perplexity(ways[0], "law") > perplexity(ways[1], "law")
    assert [way["order"] for way in ways] == [9, 3, 3]
    assert ways[1] == ways[2]


@pytest.mark.parametrize("setting", ["without privacy", "expert, 8"])
def test_parts_joined_are_the_whole(setting):
    once, again = np.random.default_rng(3), np.random.default_rng(3)
    whole = report(f"{setting}, 0", once, **SETTING)
    parts = {f"{setting}, {k}": report(f"{setting}, {k}", again, **{**SETTING, "texts": 1}) for k in (0, 1)}
    assert parts[f"{setting}, 0"]["tokens"] != parts[f"{setting}, 1"]["tokens"]
    assert joined(parts) == {setting: whole}


def test_bad_input():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="key must be one of 'expert', 'record', 'published', got 'film'"):
        report("film, 8, 0", rng, **SETTING)
    with pytest.raises(ValueError, match="at least 100 tokens each"):
        report("expert, 8, 0", rng, **{**SETTING, "n_experts": 5000})
    with pytest.raises(ValueError, match="texts must be at most"):
        report("expert, 8, 0", rng, **{**SETTING, "texts": 10**6})
    there = len(corpus("movies").without_copies().split("test"))
    with pytest.raises(ValueError, match=f"texts must be at most 0 for part {there}, got 2"):
        report(f"expert, 8, {there}", rng, **SETTING)
    with pytest.raises(ValueError, match="parts in order, got part 1 of 'expert, 8' for 0"):
        joined({"expert, 8, 1": {"tokens": [3]}})
