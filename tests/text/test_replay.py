"""Replays: what was saved comes back, and what was not is named."""

import json

import numpy as np
import pytest

from dprepro.text.answers import AnswerStore
from dprepro.text.replay import Replay

SAVED = [
    {"model": "m", "max_tokens": 8, "prompt": "Why?", "answer": " Because."},
    {"model": "m", "prompt": "Good?", "labels": [" no", " yes"], "answer": [-1.5, -0.25]},
    {"model": "m", "prompt": "Good?", "labels": [" maybe", " yes"], "answer": [-3.0, -0.25]},
]


@pytest.fixture(params=["jsonl", "json", "store"])
def saved(request, tmp_path):
    if request.param == "store":
        AnswerStore(tmp_path).put(({k: v for k, v in r.items() if k != "answer"}, r["answer"]) for r in SAVED)
        return tmp_path
    path = tmp_path / f"saved.{request.param}"
    lines = [json.dumps(record, ensure_ascii=False) for record in SAVED]
    path.write_text("\n\n".join(lines) + "\n" if request.param == "jsonl" else f"[{','.join(lines)}]")
    return path


def test_what_was_saved(saved):
    replay = Replay(saved)
    assert replay.generate(["Why?", "Why?"]) == [" Because."] * 2
    np.testing.assert_array_equal(
        replay.label_logprobs(["Good?"], [" yes", " maybe", " no"]), [[-0.25, -3.0, -1.5]]
    )
    assert replay.generate([]) == []
    assert replay.label_logprobs([], [" yes"]).shape == (0, 1)


def test_what_was_not_saved(saved):
    replay = Replay(saved)
    with pytest.raises(ValueError, match=r"holds no text for prompt 1 \('Who\?'\)"):
        replay.generate(["Why?", "Who?"])
    with pytest.raises(ValueError, match=r"holds no label ' never' for prompt 0 \('Good\?'\)"):
        replay.label_logprobs(["Good?"], [" yes", " never"])
    with pytest.raises(ValueError, match="^prompts must be"):
        replay.generate("Why?")
    with pytest.raises(ValueError, match="^labels must be"):
        replay.label_logprobs(["Good?"], [])


def test_texts_by_prompt(tmp_path):
    path = tmp_path / "texts.json"
    path.write_text('{"Why?": "Because.", "Wo?": "Da \u2028 dort."}', encoding="utf-8")
    assert Replay(path).generate(["Wo?", "Why?"]) == ["Da \u2028 dort.", "Because."]


def test_line_ends_inside_a_text(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text(
        json.dumps({"prompt": "a\u2028b", "answer": "c\x85d"}, ensure_ascii=False), encoding="utf-8"
    )
    assert Replay(path).generate(["a\u2028b"]) == ["c\x85d"]


def test_two_answers_to_one_prompt(tmp_path):
    path = tmp_path / "two.jsonl"
    longer = {**SAVED[0], "max_tokens": 9, "answer": " Because of it."}
    path.write_text("".join(json.dumps(record) + "\n" for record in [*SAVED, longer]))
    with pytest.raises(
        ValueError, match=r"record 3.*two answers to one prompt \('Why\?'\): choose by model="
    ):
        Replay(path)
    assert Replay(path, max_tokens=9).generate(["Why?"]) == [" Because of it."]
    assert Replay(path, max_tokens=8, model="m").generate(["Why?"]) == [" Because."]


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "3",
        '{"prompt": "a"}',
        '{"answer": "b"}',
        '{"prompt": 1, "answer": "b"}',
        '{"prompt": "a", "answer": 1}',
        '{"prompt": "a", "answer": [-1.0]}',
        '{"prompt": "a", "labels": ["x", "y"], "answer": [-1.0]}',
        '{"prompt": "a", "labels": ["x"], "answer": ["much"]}',
        '{"prompt": "a", "labels": "x", "answer": [-1.0]}',
    ],
)
def test_malformed_records(tmp_path, record):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(SAVED[0]) + "\n" + record + "\n")
    with pytest.raises(ValueError, match="bad.jsonl, record 1, must hold prompt and answer"):
        Replay(path)


def test_no_json_and_no_file(tmp_path):
    (tmp_path / "bad.json").write_text("{half")
    with pytest.raises(ValueError, match="bad.json must hold JSON"):
        Replay(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        Replay(tmp_path / "none.jsonl")
