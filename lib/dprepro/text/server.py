"""Answers of a server that speaks the OpenAI protocol: vLLM, llama.cpp, a hosted model.

Calls run side by side, a failed one is tried again after a pause that grows and is partly random, and each answer is
handed on as soon as it is there. The key is read from the environment when a call is made; it goes into the request's
header and nowhere else.
"""

import ipaddress
import os
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import httpx
import tenacity

from dprepro.base.check import in_interval, positive_count
from dprepro.text.label_rows import runs_together
from dprepro.text.questions import Answered, Question
from dprepro.text.server_replies import Again, ServerError, checked_reply, label_score, text_of

# Seconds: the first pause at most, and the longest; a server that asks for more is given up at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 120.0


@dataclass(frozen=True)
class Server:
    """A model behind an OpenAI-compatible server; a `Source` of answers.

    Parameters
    ----------
    url : str
        With the version: ``"http://127.0.0.1:8000/v1"``.
    model : str
        The name that the server knows it by.
    revision : str, optional
        What else tells its answers apart in the store: a version, a quantisation. By default the URL.
    max_tokens : int
        Tokens that an answer has at most.
    chat : bool
        Ask /chat/completions, each prompt as what the user says; else /completions. Labels need the latter.
    key_variable : str
        Environment variable that holds the key. Left unset where the server wants none.
    concurrency : int
        Calls under way at once.
    timeout : float
        Seconds without a byte after which a call is given up.
    attempts : int
        Calls made for an answer before it is given up: after no answer in time, a lost connection, an answer that is
        cut or malformed, status 429 or 5xx. A Retry-After is waited for.

    Raises
    ------
    ValueError
        An argument lies outside its domain; the URL carries a password or parameters, where a key might stand.
    """

    url: str
    model: str
    revision: str | None = None
    max_tokens: int = 32
    chat: bool = False
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 4
    timeout: float = 60.0
    attempts: int = 6

    def __post_init__(self) -> None:
        # What may hold a key by mistake is not repeated in a message.
        if not re.fullmatch(r"https?://[^\s@?#/]+(/[^\s@?#]*)?", self.url):
            raise ValueError("url must be http(s)://host/path without a user, a password or parameters")
        if not re.fullmatch(r"[A-Za-z_]\w*", self.key_variable):
            raise ValueError("key_variable must be the name of an environment variable, not the key itself")
        positive_count("max_tokens", self.max_tokens)
        positive_count("concurrency", self.concurrency)
        positive_count("attempts", self.attempts)
        in_interval("timeout", self.timeout, 0, float("inf"), closed="neither")

    @property
    def identity(self) -> dict[str, Any]:
        """What a label's log-probability depends on beside the prompt."""
        return {"model": self.model, "revision": self.revision or self.url.rstrip("/"), "chat": self.chat}

    @property
    def decoding(self) -> dict[str, Any]:
        """What a text depends on beside these."""
        return {"temperature": 0, "max_tokens": self.max_tokens}

    def answer(self, questions: Sequence[Question]) -> Iterator[list[Answered]]:
        """Yield answers as they come in.

        Raises
        ------
        ServerError
            An answer was given up, or the server refuses. Those under way are still waited for and yielded; the
            message says how many are missing.
        ValueError
            A label runs together with the prompt's last token, or the key holds what no header can carry.
        """
        if self.chat and any(question.labels for question in questions):
            raise ValueError(
                "chat must be False for label_logprobs: /chat/completions gives no log-probabilities of a given text"
            )
        stop = threading.Event()
        done, failure = 0, None
        client = self._client()
        pool = ThreadPoolExecutor(int(self.concurrency), thread_name_prefix="dprepro-server")
        try:
            pending = {pool.submit(self._ask_unless, stop, client, question) for question in questions}
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                answered, failures = _sorted_out(finished)
                if answered:
                    done += len(answered)
                    yield answered
                failure = failure or next(iter(failures), None)
                if failure:
                    pending = {future for future in pending if not future.cancel()}
        finally:
            # Also at Ctrl-C: pauses end at once, and calls under way are not waited for.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            client.close()
        if isinstance(failure, ServerError):
            raise ServerError(
                f"{failure}; {done} of {len(questions)} answers came in, {len(questions) - done} missing: "
                "the same call goes on from there"
            ) from failure
        if failure is not None:
            raise failure

    def _client(self) -> httpx.Client:
        key = os.environ.get(self.key_variable, "").strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise ValueError(f"{self.key_variable} must be one word of plain ASCII; its value is not shown")
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=self.timeout,
            limits=httpx.Limits(max_connections=int(self.concurrency)),
            # A proxy that the environment names cannot reach this machine's own servers.
            trust_env=not _is_loopback(httpx.URL(self.url).host),
        )

    def _ask_unless(self, stop: threading.Event, client: httpx.Client, question: Question) -> Answered:
        if stop.is_set():
            raise CancelledError
        try:
            return self._ask(client, question, stop)
        except BaseException:
            stop.set()  # here, so that this thread takes no other question first
            raise

    def _ask(self, client: httpx.Client, question: Question, stop: threading.Event) -> Answered:
        if not question.labels:
            said = [{"role": "user", "content": question.prompt}]
            asked: dict[str, Any] = {"messages": said} if self.chat else {"prompt": question.prompt}
            path = "chat/completions" if self.chat else "completions"
            reply = self._post(client, path, asked, question, stop)
            return Answered(question, text_of(reply), reply["usage"]["total_tokens"])
        scores, tokens = [], 0
        for label in question.labels:
            # One new token, because not every server takes none; it is left out of the sum.
            echo = {"prompt": question.prompt + label, "echo": True, "logprobs": 1, "max_tokens": 1}
            reply = self._post(client, "completions", echo, question, stop)
            score = label_score(reply, label)
            if score is None:
                raise ValueError(runs_together(question, label))
            scores.append(score)
            tokens += reply["usage"]["total_tokens"]
        return Answered(question, scores, tokens)

    def _post(
        self,
        client: httpx.Client,
        path: str,
        asked: dict[str, Any],
        question: Question,
        stop: threading.Event,
    ) -> dict[str, Any]:
        request = {"model": self.model, "max_tokens": self.max_tokens, "temperature": 0, **asked}

        def once() -> dict[str, Any]:
            try:
                response = client.post(path, json=request)
            except httpx.TransportError as error:
                raise Again(f"{type(error).__name__} {error}".strip()) from error
            return checked_reply(response, self.key_variable, echo="echo" in asked)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Again),
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(int(self.attempts)), tenacity.stop_when_event_set(stop)
            ),
            wait=_pause,
            sleep=tenacity.sleep_using_event(stop),
            reraise=True,
        )
        try:
            return retrying(once)
        except ServerError as error:
            tried = f" (attempt {retrying.statistics['attempt_number']})" if isinstance(error, Again) else ""
            raise ServerError(f"{self.url}, {question}: {error}{tried}") from error


def _pause(state: tenacity.RetryCallState) -> float:
    # The random part keeps calls that failed together from coming back together.
    backoff = tenacity.wait_random_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE)(state)
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, Again) else 0.0
    if asked > _LONGEST_PAUSE:
        raise ServerError(f"{error}; it asks to wait {asked:.0f} s, which is too long to wait here")
    return asked + backoff


def _sorted_out(finished: set[Future[Answered]]) -> tuple[list[Answered], list[BaseException]]:
    answered, failures = [], []
    for future in finished:
        error = future.exception()
        if error is None:
            answered.append(future.result())
        elif not isinstance(error, CancelledError):
            failures.append(error)
    return answered, failures


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
