"""Tasks drawn from corpora: who is in, how long texts are cut, and what is refused."""

import pytest

from dprepro.audits.synbench_tasks import packaged, task
from dprepro.text.corpora import corpus, read_corpus


def own_corpus(folder, classes=("none", "drowsiness", "insomnia"), each=30, columns="psytar"):
    """Write a file in the columns of the map for PsyTAR, as somebody who has it would keep it, and read it."""
    rows = [
        f'"{kind} on day {number}, and again, doctor","{kind}"' for kind in classes for number in range(each)
    ]
    (folder / "posts.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return read_corpus(folder, columns, name="psytar")


def test_private_and_test_texts_are_apart_and_a_number_gives_the_same_task():
    products = corpus("products")
    first = task(products, 0, private=60, tested=50, side="test", sign=True)
    assert (len(first.texts), len(first.test_texts), set(first.labels)) == (60, 50, {"bad", "good"})
    assert not {*first.texts} & {*first.test_texts}
    assert first == task(products, 0, private=60, tested=50, side="test", sign=True)
    assert first.texts != task(products, 1, private=60, tested=50, side="test", sign=True).texts
    signs = dict(zip(products.table["text"], products.table["sentiment"], strict=True))
    whole = dict(zip(first.whole, first.test_labels, strict=True))
    assert all((signs[text] > 0) == (label == "good") and signs[text] != 0 for text, label in whole.items())


def test_the_public_model_has_not_read_the_products_of_the_task():
    read = {text.strip() for text in corpus("products").split("train").texts}
    made = packaged("products", 0)
    assert not read.intersection({*made.texts, *made.whole})


def test_a_chapter_is_one_record_cut_to_its_first_words():
    made = packaged("novels", 0)
    assert made.cut == len(made.texts) == 200
    assert all(whole.startswith(text) for whole, text in zip(made.whole, made.test_texts, strict=True))
    assert max(len(text.split()) for text in made.texts) <= 31
    assert min(len(text.split()) for text in made.whole) >= 500


def test_counts_follow_the_private_classes(tmp_path):
    made = task(own_corpus(tmp_path), 0, private=1000, tested=1000)
    counts = made.counts(40)
    assert sum(counts.values()) == pytest.approx(40, abs=2)
    assert made.counts(1) == dict.fromkeys(sorted({*made.labels}), 1)


def test_a_class_with_too_few_texts_is_named(tmp_path):
    source = own_corpus(tmp_path)
    table = source.table
    rare = table[(table["label"] != "insomnia") | (table.index == table.index[-1])]
    few = type(source)("psytar", rare.reset_index(drop=True), ("label",), "", "", "")
    with pytest.raises(ValueError, match="for 'insomnia': name the classes to keep"):
        task(few, 0, private=100, tested=100)
    assert set(task(few, 0, private=100, tested=100, kept=("none", "drowsiness")).labels) == {
        "none",
        "drowsiness",
    }
    with pytest.raises(ValueError, match="two classes at least"):
        task(few, 0, private=100, tested=100, kept=("none",))


def test_bad_input(tmp_path):
    source = own_corpus(tmp_path)
    with pytest.raises(ValueError, match="kept must be classes of psytar, got nausea"):
        task(source, 0, private=10, tested=10, kept=("none", "nausea"))
    with pytest.raises(ValueError, match="sign needs numbers in the label column 'label'"):
        task(source, 0, private=10, tested=10, sign=True)
    with pytest.raises(ValueError, match="label must be one of"):
        task(source, 0, private=10, tested=10, label="drug")
    with pytest.raises(ValueError, match="side must be one of"):
        task(source, 0, private=10, tested=10, side="train")
    bare = read_corpus(tmp_path / "posts.csv", {"text": "sentence"}, name="psytar")
    with pytest.raises(ValueError, match="label column, got psytar without one"):
        task(bare, 0, private=10, tested=10)
    with pytest.raises(ValueError, match="name must be one of"):
        packaged("tweets", 0)
