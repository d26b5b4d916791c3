"""The client against a real server process that serves the packaged model, and fails as it is told to."""

import re
import time

import numpy as np
import pytest

from dprepro.text import server as module
from dprepro.text.answers import AnswerStore
from dprepro.text.questions import Question
from dprepro.text.responders import StoredResponder, responder
from dprepro.text.server import Server
from dprepro.text.server_replies import ServerError

pytest.importorskip("transformers")

KEY = "sk-very-secret-0123456789"
PROMPTS = ["The capital of France is", "1, 2, 3, 4,", "Once upon a time"]
LABELS = [" Paris", " very good"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.02)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


@pytest.fixture
def asked(server, folder):
    """Make a responder that asks the server."""

    def make(**options):
        options = {"model": "smol", "revision": "1", "max_tokens": 3, "concurrency": 1, **options}
        return responder(server.url, store=folder, progress=False, **options)

    return make


@pytest.fixture(scope="module")
def texts(variant):
    questions = [Question(i, prompt) for i, prompt in enumerate(PROMPTS)]
    found = {a.question.index: a.answer for batch in variant(max_tokens=3).answer(questions) for a in batch}
    return [found[i] for i in range(len(PROMPTS))]


def test_the_same_texts_as_on_this_machine(asked, texts, server):
    assert asked().generate(PROMPTS) == texts
    assert asked().generate(PROMPTS) == texts
    assert server.control()["calls"] == len(PROMPTS), "the second run makes no call"


def test_chat(asked, variant):
    ((batch,),) = variant(chat=True, max_tokens=3).answer([Question(0, "Name a colour.")])
    assert asked(chat=True).generate(["Name a colour."]) == [batch.answer]
    with pytest.raises(ValueError, match="chat must be False for label_logprobs"):
        asked(chat=True).label_logprobs(["a"], [" b"])


def test_the_same_log_probabilities_as_on_this_machine(asked, variant, tmp_path):
    local = StoredResponder(variant(), AnswerStore(tmp_path / "local"), progress=False)
    table = local.label_logprobs(PROMPTS, LABELS)
    np.testing.assert_allclose(asked().label_logprobs(PROMPTS, LABELS), table, atol=1e-4)
    with pytest.raises(ValueError, match=r"label 'positive' runs together .* prompt 0 \('Sentiment: '\)"):
        asked().label_logprobs(["Sentiment: "], ["positive"])


def test_calls_under_way_at_once(asked, server):
    many = [f"Number {n} is" for n in range(8)]
    assert len(asked(concurrency=4, max_tokens=1).generate(many)) == 8
    assert (
        2 <= server.control()["most"] <= 4
    )  # a busy machine may not send the fourth before the first is answered


@pytest.mark.parametrize(
    "fault", ["drop", "cut", "garbage", "shape", "status 500", "status 503", "status 429"]
)
def test_a_failure_is_tried_again(asked, server, texts, fault):
    server.control(faults=[fault, fault])
    assert asked().generate(PROMPTS[:1]) == texts[:1]
    assert server.control()["calls"] == 3


def test_no_answer_in_time_is_tried_again(asked, server):
    server.control(faults=["slow"])
    assert asked(timeout=3.0, max_tokens=1).generate(PROMPTS[:1]) == [" Paris"]
    assert server.control()["calls"] == 2


def test_retry_after_is_waited_for(asked, server, texts):
    server.control(faults=["status 429 wait 1"])
    assert asked().generate(PROMPTS[:1]) == texts[:1]
    first, second = server.control()["times"]
    assert 1.0 <= second - first < 1.5


def test_retry_after_as_a_date(asked, server, texts):
    from email.utils import formatdate

    server.control(faults=[f"status 503 wait {formatdate(time.time() + 3, usegmt=True)}"])
    assert asked().generate(PROMPTS[:1]) == texts[:1]
    first, second = server.control()["times"]
    assert 1.0 <= second - first < 3.5


def test_a_wait_that_is_too_long(asked, server):
    server.control(faults=["status 429 wait 86400"])
    with pytest.raises(ServerError, match=r"prompt 0 .*status 429.*asks to wait 86400 s"):
        asked().generate(PROMPTS[:1])
    assert server.control()["calls"] == 1


def test_pauses_grow_and_are_partly_random(monkeypatch):
    import tenacity

    monkeypatch.setattr(module, "_FIRST_PAUSE", 1.0)

    def pauses(attempt):
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = attempt
        return [module._pause(state) for _ in range(200)]

    for attempt, most in [(1, 1), (3, 4), (5, 16), (40, module._LONGEST_PAUSE)]:
        drawn = pauses(attempt)
        assert 0.7 * most < max(drawn) <= most
        assert min(drawn) < 0.3 * most


def test_giving_up(asked, server, texts, folder):
    """What came in is kept, the error says what is missing, and the same call goes on from there."""
    server.control(faults=["", "status 500", "garbage"])
    with pytest.raises(
        ServerError,
        match=r"/v1, prompt 1 \('1, 2, 3, 4,'\): malformed .*attempt 2\); 1 of 3 answers came in, 2 missing",
    ):
        asked(attempts=2).generate(PROMPTS)
    again = asked()
    assert again.generate(PROMPTS) == texts
    assert (again.calls, again.cached) == (2, 1)


def test_a_refusal_is_not_tried_again(asked, server):
    server.control(faults=["status 404"])
    with pytest.raises(ServerError, match="prompt 0 .*status 404: .* 3 missing"):
        asked().generate(PROMPTS)
    assert server.control()["calls"] == 1


def test_the_others_under_way_are_kept(asked, server):
    many = [f"Number {n} is" for n in range(50)]
    server.control(faults=["late 404"])
    with pytest.raises(ServerError, match="of 50 answers came in") as raised:
        asked(concurrency=2, max_tokens=1).generate(many)
    done = int(re.search(r"(\d+) of 50", str(raised.value))[1])
    assert 1 <= done == server.control()["calls"] - 1
    again = asked(max_tokens=1)
    again.generate(many[:done])
    assert again.cached >= done - 1


def test_a_server_that_dies(mortal_server, asked, folder, monkeypatch):
    prompts = [f"Number {n} is" for n in range(6)]
    dying = responder(
        mortal_server.url, model="smol", revision="1", max_tokens=3, concurrency=1, attempts=3, store=folder
    )
    with pytest.raises(ServerError, match="3 of 6 answers came in, 3 missing"):
        dying.generate(prompts)
    assert mortal_server.process.wait(10) == 1
    again = asked()
    assert again.generate(prompts)[:3] == ["NUMBER 0 IS", "NUMBER 1 IS", "NUMBER 2 IS"]
    assert (again.calls, again.cached) == (3, 3)


def test_no_server():
    asked = Server("http://127.0.0.1:9/v1", "m", attempts=1)
    with pytest.raises(ServerError, match="ConnectError"):
        list(asked.answer([Question(0, "a")]))


def test_an_interrupt_ends_pauses_at_once(asked, server, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE", 60.0)
    source = asked(concurrency=2).source
    server.control(faults=["", "status 500"])
    answers = source.answer([Question(0, "a b"), Question(1, "c d")])
    next(answers)
    start = time.perf_counter()
    answers.close()
    assert time.perf_counter() - start < 1


def test_no_echo(asked, server):
    for fault in ("no-echo", "silent"):
        server.control(faults=[fault])
        with pytest.raises(ServerError, match="needs a server that takes echo with logprobs"):
            asked().label_logprobs(["a b c d e f g"], [" x"])
    server.control(faults=["status 400"])
    with pytest.raises(ServerError, match="status 400.*label_logprobs needs a server that takes echo"):
        asked().label_logprobs(["a b c d e f g"], [" x"])


def test_an_answer_without_text(asked, server):
    server.control(faults=["silent"])
    with pytest.raises(ServerError, match="without text"):
        asked(chat=True).generate(["a"])


def test_no_key_for_a_server_that_wants_none(asked, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    asked().generate(PROMPTS[:1])
    assert server.control()["headers"] == [None]


def test_the_key_is_missing_or_wrong(asked, server, monkeypatch, caplog):
    server.control(key=KEY)
    with pytest.raises(ServerError, match=r"status 401, no key was sent: set .* OPENAI_API_KEY"):
        asked().generate(PROMPTS)
    monkeypatch.setenv("MY_KEY", KEY + "x")
    with pytest.raises(ServerError, match=r"status 401, the key sent was refused: set .* MY_KEY") as raised:
        asked(key_variable="MY_KEY").generate(PROMPTS)
    assert KEY not in everything_about(raised.value)


def everything_about(error):
    import traceback

    return "".join(traceback.format_exception(error)) + repr(error)


def test_the_key_is_written_nowhere(asked, server, monkeypatch, folder, capfd, caplog):
    caplog.set_level("DEBUG")
    server.control(key=KEY, faults=["", "", "status 500", "status 400"])
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    sending = asked()
    sending.generate(PROMPTS[:1])
    sending.label_logprobs(PROMPTS[:1], LABELS[:1])
    with pytest.raises(ServerError, match=r"status 400.*you sent Bearer \[key\]") as raised:
        sending.generate(PROMPTS)
    assert set(server.control(key="")["headers"]) == {f"Bearer {KEY}"}
    sending.store.export(folder / "export.jsonl")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 1
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    records = repr([*sending.store.records()])
    shown = "".join([*capfd.readouterr(), caplog.text, repr(sending.source), records])
    assert KEY not in shown + everything_about(raised.value)


@pytest.mark.parametrize("key", ["two words", "caf\u00e9", "line\nend"])
def test_a_key_that_no_header_can_carry(asked, server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ValueError, match="OPENAI_API_KEY must be one word") as raised:
        asked().generate(PROMPTS)
    assert key not in everything_about(raised.value)
    assert server.control()["calls"] == 0


@pytest.mark.parametrize(
    "options",
    [
        {"url": f"https://user:{KEY}@host/v1"},
        {"url": f"https://host/v1?key={KEY}"},
        {"url": f"https://host/v1#{KEY}"},
        {"url": "ftp://host/v1"},
        {"url": "http:///v1"},
        {"key_variable": KEY},
    ],
)
def test_a_key_where_none_belongs(options):
    with pytest.raises(ValueError, match="must be") as raised:
        Server(**{"url": "https://host/v1", "model": "m", **options})
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": 0}, {"concurrency": 0}, {"attempts": 0}, {"timeout": 0}, {"timeout": float("nan")}],
)
def test_bad_settings(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        Server("https://host/v1", "m", **options)


def test_what_tells_servers_apart():
    one = Server("https://host/v1/", "m")
    assert one.identity == Server("https://host/v1", "m").identity
    assert one.identity != Server("https://other/v1", "m").identity
    named = [Server(f"https://{host}/v1", "m", revision="fp8").identity for host in ("host", "other")]
    assert named[0] == named[1] == {"model": "m", "revision": "fp8", "chat": False}
