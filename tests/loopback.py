"""An OpenAI-compatible chat server on the loopback address: fixed latency, scripted replies, faults to order.

In tests: `with Loopback("yes") as server: LLMJudge("m", base_url=server.url)`; see `server.bodies`.
As a process of its own, whose work does not count as the client's: `with Process(latency=0.4) as server:` or
`python tests/loopback.py --latency 0.4 --per-token 0.01`, which prints its address.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """What to do instead of a proper answer. Fields combine: a delay before a reset, a 429 with headers."""

    status: int = 200
    body: str | dict | None = None      # None: the proper reply for status 200, else an OpenAI-style error
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0                  # seconds before anything is sent
    reset: bool = False                 # drop the connection with a TCP reset
    drip: float = 0.0                   # seconds between single bytes of the body


def refusing(*names: str) -> Callable[[int, dict], Fault | None]:
    """Refuses bodies with one of these parameters or response formats, in the words of OpenAI."""
    def fault(number: int, body: dict) -> Fault | None:
        form = body.get("response_format", {}).get("type")
        for name in names:
            if name == form:
                message = f"This model does not support response_format {name}."
                return Fault(400, {"error": {"message": message, "param": "response_format", "code": None}})
            if name in body:
                return Fault(400, {"error": {"message": f"Unsupported parameter: '{name}' is not supported.",
                                             "param": name, "code": "unsupported_parameter"}})
        return None
    return fault


MIXED = (Fault(429, headers={"Retry-After": "0.05"}), Fault(429), Fault(500), Fault(reset=True),
         Fault(body="<html>busy</html>"), Fault(body={"object": "chat.completion", "choices": []}))


def mixed(rate: float, seed: int = 0, kinds: Sequence[Fault] = MIXED) -> Callable[[int, dict], Fault | None]:
    """Faults of every kind at a given rate, the same ones in every run."""
    def fault(number: int, body: dict) -> Fault | None:
        dice = random.Random(f"{seed}:{number}")
        return dice.choice(kinds) if dice.random() < rate else None
    return fault


class Loopback:
    """A chat server in a thread. `reply` is a text or a function of the request's body; a dict is sent as is.

    `faults` are taken one per request, None meaning a proper answer, or given by a function (number, body).
    `models` is the list of models that it gives (names, or entries of its own), or a fault; None = no such route.
    """

    def __init__(self, reply: str | Callable[[dict], str | dict] = "ok", *, latency: float = 0.0,
                 per_token: float = 0.0, port: int = 0,
                 faults: Sequence[Fault | None] | Callable[[int, dict], Fault | None] = (),
                 models: Sequence[str | dict] | Fault | None = None):
        self.models = models
        self.reply, self.latency, self.per_token = reply, latency, per_token
        self.faults, self.port = faults, port
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.count = self.now = self.peak = 0         # requests so far, under way, most at once
        self.listings = 0                             # times that the list of models was asked for
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Loopback:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exc) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
        server = self._loop.run_until_complete(start)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        data = await reader.readexactly(int(headers.get("content-length", 0)))
        if first.startswith("GET") and "/models" in first:
            self.listings += 1
            return await self._answer(writer, {}, self._listing())
        if first.startswith("GET"):
            self._send(writer, 200, json.dumps({"count": self.count, "peak": self.peak}), {})
            return True
        number, body = self.count, json.loads(data)
        self.count += 1
        self.bodies.append(body)
        self.headers.append(headers)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            fault = (self.faults(number, body) if callable(self.faults)
                     else self.faults[number] if number < len(self.faults) else None)
            return await self._answer(writer, body, fault or Fault())
        finally:
            self.now -= 1

    def _listing(self) -> Fault:
        if self.models is None or isinstance(self.models, Fault):
            return self.models or Fault(404)
        entries = [{"id": m, "object": "model"} if isinstance(m, str) else m for m in self.models]
        return Fault(body={"object": "list", "data": entries})

    async def _answer(self, writer: asyncio.StreamWriter, body: dict, fault: Fault) -> bool:
        await asyncio.sleep(fault.delay)
        if fault.reset:
            linger = struct.pack("ii", 1, 0)           # closing with a zero linger time sends a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        content = fault.body
        if content is None and fault.status == 200:
            content = self.reply(body) if callable(self.reply) else self.reply
            tokens = len(content.split()) if isinstance(content, str) else 0
            await asyncio.sleep(self.latency + self.per_token * tokens)
            content = completion(content, body) if isinstance(content, str) else content
        elif content is None:
            content = {"error": {"message": f"status {fault.status} on demand", "code": None, "param": None}}
        text = content if isinstance(content, str) else json.dumps(content)
        if fault.drip:
            self._send(writer, fault.status, "", {**fault.headers, "Content-Length": str(len(text.encode()))})
            for byte in text.encode():
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(fault.drip)
        else:
            self._send(writer, fault.status, text, fault.headers)
        await writer.drain()
        return True

    @staticmethod
    def _send(writer: asyncio.StreamWriter, status: int, text: str, headers: dict[str, str]) -> None:
        data = text.encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + data)


def completion(text: str | None, body: dict | None = None, finish: str = "stop", **message) -> dict:
    """A chat completion as a server sends it; a token is a word here."""
    words = len(body["messages"][-1]["content"].split()) if body else 0
    said = len((text or "").split())
    model = (body or {}).get("model", "m")
    return {"id": "chat-1", "object": "chat.completion", "created": 1_700_000_000, "model": model,
            "choices": [{"index": 0, "finish_reason": finish,
                         "message": {"role": "assistant", "content": text, **message}}],
            "usage": {"prompt_tokens": words, "completion_tokens": said, "total_tokens": words + said,
                      "prompt_tokens_details": {"cached_tokens": 0}}}


def run_batch(source: Path, target: Path, reply: Callable[[dict], str],
              outcomes: Callable[[int], str] = lambda n: "done") -> int:
    """A stand-in for a batch endpoint: answers a file's lines in another order; returns how many.

    `outcomes` says what becomes of line n: done, failed (status 500), refused (an error entry), expired,
    lost (no line at all), twice, cut (valid JSON of the wrong shape).
    """
    lines, done = [], 0
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines()):
        asked, outcome = json.loads(line), outcomes(number)
        entry = {"id": f"batch-{number}", "custom_id": asked["custom_id"], "error": None,
                 "response": {"status_code": 200, "request_id": f"r{number}",
                              "body": completion(reply(asked["body"]), asked["body"])}}
        if outcome == "failed":
            entry["response"] = {"status_code": 500, "body": {"error": {"message": "on demand"}}}
        elif outcome == "refused":
            entry["error"] = {"code": "server_error", "message": "on demand"}
        elif outcome == "expired":
            entry |= {"response": None, "error": {"code": "batch_expired", "message": "not done in time"}}
        elif outcome == "cut":
            entry["response"]["body"] = {"object": "chat.completion", "choices": []}
        done += outcome in ("done", "twice")
        lines += [json.dumps(entry)] * {"lost": 0, "twice": 2}.get(outcome, 1)
    target.write_text("".join(line + "\n" for line in reversed(lines)), encoding="utf-8")
    return done


class Process:
    """The same server as a process of its own, for measurements."""

    def __init__(self, **options: float | bool):
        self.options = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
                        for name, value in options.items()]

    def __enter__(self) -> Process:
        command = [sys.executable, __file__, *self.options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *exc) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def stats(self) -> dict[str, int]:
        """Requests so far and the most at once."""
        with urllib.request.urlopen(self.url) as answer:
            return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--per-token", type=float, default=0.0, help="seconds per word of the reply")
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that go wrong")
    parser.add_argument("--malformed", type=float, default=0.0, help="share of replies of another shape")
    parser.add_argument("--words", type=int, default=1, help="length of the reply")
    parser.add_argument("--judged", action="store_true", help="answer the kit's prompts (scripted.py)")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    reply: str | Callable[[dict], str] = " ".join(["ok"] * options.words)
    if options.judged:
        sys.path.append(str(Path(__file__).resolve().parent.parent))
        from scripted import judged as reply
    faults = mixed(options.malformed, kinds=MIXED[-2:]) if options.malformed else mixed(options.faults)
    with Loopback(reply, latency=options.latency, per_token=options.per_token, faults=faults,
                  port=options.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
