"""What an OpenAI-compatible server replied: a text, log-probabilities, a refusal, or something to be asked again."""

import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

_SHOWN = 200


class ServerError(RuntimeError):
    """A server did not answer, or refused to."""


class Again(ServerError):
    """A failure that the next try may not meet.

    Attributes
    ----------
    retry_after : float
        Seconds that the server asks to be left alone.
    """

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def checked_reply(response: httpx.Response, key_variable: str, *, echo: bool) -> dict[str, Any]:
    """Return a completion as it was sent.

    Parameters
    ----------
    response : httpx.Response
    key_variable : str
        Named where the key is missing or wrong.
    echo : bool
        Whether log-probabilities of the prompt were asked for.

    Raises
    ------
    Again
        Status 408, 429 or 5xx; no JSON, or without what a completion has.
    ServerError
        Any other refusal. The server's own words are left out where they may repeat the key.
    """
    status = response.status_code
    if status in (401, 403):
        sent = (
            "the key sent was refused" if "Authorization" in response.request.headers else "no key was sent"
        )
        raise ServerError(
            f"status {status}, {sent}: set the environment variable {key_variable} to a key for it"
        )
    if status in (408, 429) or status >= 500:
        raise Again(f"status {status}{_words(response)}", _retry_after(response))
    if status != 200:
        hint = "; label_logprobs needs a server that takes echo with logprobs" if echo else ""
        raise ServerError(f"status {status}{_words(response)}{hint}")
    try:
        reply = response.json()
        choice, usage = reply["choices"][0], reply["usage"]
        if not isinstance(choice, dict) or not isinstance(usage["total_tokens"], int):
            raise TypeError("another shape")
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Again(f"malformed answer ({type(error).__name__})") from error
    return reply


def text_of(reply: dict[str, Any]) -> str:
    """Return the text of a completion, of either kind; ServerError if it holds none."""
    choice = reply["choices"][0]
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str):
        raise ServerError(f"an answer without text (finish_reason {choice.get('finish_reason')!r})")
    return text


def label_score(reply: dict[str, Any], label: str) -> float | None:
    """Sum the log-probabilities of a label's tokens at the end of an echoed prompt.

    Tokens are counted from the end and matched by their text. Offsets are of no use: servers count the mark of the
    beginning or not.

    Returns
    -------
    float or None
        None if no token begins where the label does.

    Raises
    ------
    ServerError
        The server gives no log-probabilities of the prompt.
    """
    found, usage = reply["choices"][0].get("logprobs"), reply["usage"]
    with suppress(KeyError, TypeError):
        tokens, scores, read = found["tokens"], found["token_logprobs"], usage["prompt_tokens"]
        # Without the echo only the new token is there.
        if len(tokens) == len(scores) >= read:
            text = ""
            for place in range(read - 1, 0, -1):
                text = tokens[place] + text
                if text == label:
                    return float(sum(scores[place:read]))
                if not label.endswith(text):
                    break
            return None
    raise ServerError(
        "no log-probabilities of the prompt in the answer: label_logprobs needs a server that takes echo with "
        "logprobs, such as vLLM"
    )


def _retry_after(response: httpx.Response) -> float:
    told = response.headers.get("Retry-After", "")
    with suppress(ValueError):
        return max(0.0, float(told))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    return 0.0


def _words(response: httpx.Response) -> str:
    words = " ".join(response.text.split())
    key = response.request.headers.get("Authorization", "").removeprefix("Bearer ")
    if key:
        words = words.replace(key, "[key]")
    return f": {words[:_SHOWN]}" if words else ""
