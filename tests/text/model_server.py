"""A server that speaks the OpenAI protocol with the packaged model, and fails as it is told to.

Prints its port, then serves until it is killed. It weighs echoed prompts by one plain forward pass, not by the code
under test. With --die-at N it loads no model, answers with the prompt in capitals, and dies at the Nth completion.
"""

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dprepro.text.local_model import LocalModel
from dprepro.text.questions import Question

MODEL = LocalModel(threads=1)
LOCK = threading.Lock()
STATE = {"faults": [], "key": "", "calls": 0, "now": 0, "most": 0, "times": [], "headers": [], "die_at": 0}
SLOW = 4.0


def echoed(text):
    import torch

    ids = MODEL.tokenizer(text)["input_ids"]
    with torch.inference_mode():
        logits = MODEL.model(input_ids=torch.tensor([ids])).logits[0]
    table = logits.log_softmax(dim=-1)
    scores = [None, *(table[place, token].item() for place, token in enumerate(ids[1:]))]
    new = int(logits[-1].argmax())
    return {
        "tokens": [MODEL.tokenizer.decode([token]) for token in [*ids, new]],
        "token_logprobs": [*scores, table[-1, new].item()],
    }, len(ids)


def completion(path, asked):
    prompt = asked["messages"][0]["content"] if "chat" in path else asked["prompt"]
    if asked.get("echo"):
        logprobs, read = echoed(prompt)
        choice = {"text": "".join(logprobs["tokens"]), "logprobs": logprobs}
        usage = {"prompt_tokens": read, "completion_tokens": 1, "total_tokens": read + 1}
    elif STATE["die_at"]:
        choice, usage = {"text": prompt.upper()}, {"total_tokens": 1}
    else:
        object.__setattr__(MODEL, "max_tokens", asked["max_tokens"])
        object.__setattr__(MODEL, "chat", "chat" in path)
        ((answered,),) = MODEL.answer([Question(0, prompt)])
        object.__setattr__(MODEL, "chat", False)
        message = {"role": "assistant", "content": answered.answer}
        choice = {"message": message} if "chat" in path else {"text": answered.answer, "logprobs": None}
        usage = {"prompt_tokens": 0, "total_tokens": answered.tokens}
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/control"):
            seen = dict(STATE)
            STATE.update({"calls": 0, "most": 0, "times": [], "headers": [], **asked})
            self.reply(200, seen)
            return
        with LOCK:
            STATE["calls"] += 1
            STATE["now"] += 1
            STATE["most"] = max(STATE["most"], STATE["now"])
            STATE["times"].append(time.time())
            STATE["headers"].append(self.headers.get("Authorization"))
            fault = STATE["faults"].pop(0) if STATE["faults"] else ""
            if STATE["die_at"] and STATE["calls"] >= STATE["die_at"]:
                os._exit(1)
        try:
            self.answer(asked, fault)
        finally:
            with LOCK:
                STATE["now"] -= 1

    def answer(self, asked, fault):
        if STATE["key"] and self.headers.get("Authorization") != f"Bearer {STATE['key']}":
            self.reply(401, {"error": f"wrong key {self.headers.get('Authorization')}"})
        elif fault == "slow":
            time.sleep(SLOW)
            self.close_connection = True
        elif fault == "late 404":
            time.sleep(SLOW)
            self.reply(404, {})
        elif fault == "drop":
            self.close_connection = True
        elif fault == "cut":
            self.reply(200, b'{"choices": [{"text": "half an ans', length=500)
            self.close_connection = True
        elif fault == "garbage":
            self.reply(200, b"<html>not JSON</html>")
        elif fault == "shape":
            self.reply(200, {"choices": []})
        elif fault == "silent":
            self.reply(200, {"choices": [{"message": {"content": None}}], "usage": {"total_tokens": 1}})
        elif fault == "no-echo":
            usage = {"prompt_tokens": 9, "total_tokens": 10}
            only_new = {"tokens": ["x"], "token_logprobs": [-1.0]}
            self.reply(200, {"choices": [{"text": "x", "logprobs": only_new}], "usage": usage})
        elif fault.startswith("status"):
            status, _, wait = fault.removeprefix("status ").partition(" wait ")
            words = {"error": f"you sent {self.headers.get('Authorization')}"}
            self.reply(int(status), words, {"Retry-After": wait} if wait else {})
        else:
            with LOCK:
                reply = completion(self.path, asked)
            self.reply(200, reply)

    def reply(self, status, body, headers=(), length=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length or len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--die-at", type=int, default=0)
    STATE["die_at"] = parser.parse_args().die_at
    assert STATE["die_at"] or MODEL.model is not None
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.handle_error = lambda *_: None  # a client that has gone is no news
    print(served.server_address[1], flush=True)
    served.serve_forever()
