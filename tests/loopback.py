"""An OpenAI-compatible chat server on the loopback address: latency, scripted replies, faults.

To try a live judge without a key: `python tests/loopback.py`, which prints the command to type in
another shell. To rehearse a profile that asks models: `python tests/loopback.py --profile paper`,
which runs it with this server in the place of every model, into runs/paper-rehearsal; where the
folder of transcripts has none, calls are made up. In tests: `with Loopback("yes") as server:
LLMJudge("m", base_url=server.url)`; see `server.bodies`.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ems.cli import main
from ems.io import parse_yaml, read_text
from ems.prompts import home
from ems.terminal import notify


@dataclass(frozen=True)
class Fault:
    """What to do in place of a proper answer. Fields combine: say, a delay before a reset."""

    status: int = 200
    # None for the proper reply if the status is 200, and else for an error in OpenAI's form.
    body: str | dict | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before anything is sent
    reset: bool = False  # drop the connection with a TCP reset
    drip: float = 0.0  # seconds between single bytes of the body


QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')  # a point in a prompt: a JSON string in one line
CANDIDATE = re.compile(r'^\d+: (".*")$', re.MULTILINE)
# The longest text of a prompt, in letters, that is no document to write an answer from.
LONGEST_ANSWER = 10_000
WRITTEN, CONSIDERED = 12, 30  # sentences of an answer, and those of a document it is drawn from
JSON_FORM = re.compile(r"Reply with one JSON object: \{(.*)\}")
Faults = Sequence[Fault | None] | Callable[[int, dict], Fault | None]
MIXED = (
    Fault(429, headers={"Retry-After": "0.05"}),
    Fault(429),
    Fault(500),
    Fault(reset=True),
    Fault(body="<html>busy</html>"),
    Fault(body={"object": "chat.completion", "choices": []}),
)


def error(status: int, message: str, **more: str) -> Fault:
    """An error in the words of a server."""
    return Fault(status, {"error": {"message": message, **more}})


def mixed(rate: float) -> Faults:
    """Faults of every kind at a given rate, the same ones in every run."""

    def fault(number: int, body: dict) -> Fault | None:
        dice = random.Random(f"fault {number}")
        return dice.choice(MIXED) if dice.random() < rate else None

    return fault


def refusing(*names: str) -> Faults:
    """Refuses bodies with one of these parameters, in the words of OpenAI."""

    def fault(number: int, body: dict) -> Fault | None:
        for name in names:
            if name in body:
                message = f"Unsupported parameter: '{name}' is not supported."
                return error(400, message, param=name)
        return None

    return fault


def completion(
    text: str | None, body: dict | None = None, finish: str | None = "stop", **message: object
) -> dict:
    """A chat completion as a server sends it; a token is a word here."""
    words = len(body["messages"][-1]["content"].split()) if body else 0
    said = len((text or "").split())
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": words, "completion_tokens": said, "total_tokens": words + said},
    }


def shared(one: str, other: str, most: int = 10) -> int:
    """How many of the words of one text the other has, from 0 to `most`."""
    words, others = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    return round(most * len(words & others) / max(1, len(words)))


def by_words(body: dict) -> str:
    """What a model that counts shared words replies, to the kit's prompts and to the paper's.

    Points are sentences; a point is matched when half of its words are shared. An answer has
    sentences of the document.
    """
    prompt = body["messages"][-1]["content"]
    texts = re.findall(r"^<text>\n(.*?)\n</text>$", prompt, re.DOTALL | re.MULTILINE)
    form = JSON_FORM.search(prompt)
    if not form and re.search("^Reference answer:$", prompt, re.MULTILINE):
        return str(shared(*texts, most=100))
    if not form:
        return text_or_number(body, prompt, texts)
    first, _, last = prompt.rpartition("Candidate points")
    points = listed(first.rpartition("Reference point")[2] or last)
    candidates = listed(last) if first else []
    matches = [best_match(point, candidates) for point in points]
    if texts:
        scores = [shared(point, texts[-1]) for point in points]
    else:
        scores = list(map(shared, points[::2], points[1::2]))
    sentences = sentences_of(texts[-1]) if texts else []
    replies = {
        "points": sentences,
        "claims": sentences,
        "blocks": [],
        "matches": matches,
        "scores": scores,
        "contradicted": [],
        "labels": ["Entailment" if score >= 5 else "Neutral" for score in scores],
    }
    return json.dumps({key: replies[key] for key in re.findall(r'"(\w+)":', form[1])})


def text_or_number(body: dict, prompt: str, texts: Sequence[str]) -> str:
    """The reply to a prompt that describes no JSON: points or an answer, a match, or a score.

    A long text is a document to answer from; the sentences of another one are listed as points.
    Without a text, the point to be matched is the last one before the numbered candidates, and the
    pair to be scored is the last one of the prompt.
    """
    if texts and max(map(len, texts)) <= LONGEST_ANSWER:
        return "\n".join(f"- {sentence}" for sentence in sentences_of(texts[-1]))
    if texts:
        document = max(texts, key=len)
        return answer_from(document, prompt.replace(document, ""), body["model"])
    candidates = list(CANDIDATE.finditer(prompt))
    before = prompt[: candidates[0].start()] if candidates else prompt
    points = [json.loads(point) for point in QUOTED.findall(before)]
    if candidates:
        return str(best_match(points[-1], [json.loads(found[1]) for found in candidates]))
    return str(shared(*points[-2:])) if len(points) > 1 else "ok"


def sentences_of(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text)
    return [sentence.removeprefix("- ") for sentence in sentences if sentence.strip()]


def answer_from(document: str, question: str, model: str) -> str:
    """Sentences of a document which share words with the question; each model draws its own."""
    ranked = sorted(
        dict.fromkeys(sentences_of(document)), key=lambda one: shared(question, one, most=1000)
    )
    considered = ranked[-CONSIDERED:]
    drawn = random.Random(model).sample(considered, min(WRITTEN, len(considered)))
    return "\n".join(drawn)


def best_match(point: str, candidates: Sequence[str]) -> int:
    """The candidate that has most of the words of a point, the first of equals; -1 below a half."""
    best, most = -1, 4
    for i, candidate in enumerate(candidates):
        if shared(point, candidate) > most:
            best, most = i, shared(point, candidate)
    return best


def listed(part: str) -> list[str]:
    """The points of a part of a prompt: they stand in quotes at the ends of lines."""
    return [json.loads(point) for point in re.findall(r'(?:: |^   )(".*")$', part, re.MULTILINE)]


class Loopback:
    """A chat server in a thread.

    `reply` is a text, or a function of the request's body; a dictionary is sent as it is. `faults`
    are taken one per request, None for a proper answer, or made by a function (number, body).
    """

    def __init__(
        self,
        reply: str | Callable[[dict], str | dict] = "ok",
        *,
        latency: float = 0.0,
        faults: Faults = (),
        port: int = 0,
    ):
        self.reply, self.latency, self.faults, self.port = reply, latency, faults, port
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.now = self.peak = 0  # requests under way, most at once
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Loopback:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self.bodies)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
        )
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
        """One request and its answer; whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))))
        number = self.count
        self.bodies.append(body)
        self.headers.append(headers)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            if callable(self.faults):
                fault = self.faults(number, body)
            else:
                fault = self.faults[number] if number < len(self.faults) else None
            return await self._answer(writer, body, fault or Fault())
        finally:
            self.now -= 1

    async def _answer(self, writer: asyncio.StreamWriter, body: dict, fault: Fault) -> bool:
        await asyncio.sleep(fault.delay)
        if fault.reset:
            linger = struct.pack("ii", 1, 0)  # closing with a zero linger time sends a reset
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        content = fault.body
        if content is None and fault.status == 200:
            await asyncio.sleep(self.latency)
            content = self.reply(body) if callable(self.reply) else self.reply
            content = completion(content, body) if isinstance(content, str) else content
        elif content is None:
            content = {"error": {"message": f"status {fault.status} on demand"}}
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **fault.headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {fault.status} Status\r\n{head}\r\n".encode())
        step = 1 if fault.drip else len(data) or 1
        for i in range(0, len(data), step):
            writer.write(data[i : i + step])
            await writer.drain()
            await asyncio.sleep(fault.drip)
        return True


def run_batch(
    source: Path,
    target: Path,
    reply: Callable[[dict], str],
    lost: Callable[[int], bool] = lambda n: False,
) -> None:
    """A batch endpoint: answers the lines of a file in another order; the `lost` ones fail."""
    lines = []
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines()):
        asked = json.loads(line)
        body = (
            {"error": {"message": "on demand"}}
            if lost(number)
            else completion(reply(asked["body"]), asked["body"])
        )
        lines.append(
            {
                "id": f"batch-{number}",
                "custom_id": asked["custom_id"],
                "error": None,
                "response": {"status_code": 500 if lost(number) else 200, "body": body},
            }
        )
    target.write_text(
        "".join(json.dumps(line) + "\n" for line in reversed(lines)), encoding="utf-8"
    )


def made_up_calls(data: Path, folder: Path) -> Path:
    """Write a text in the place of each call of data/companies.csv; returns the folder.

    It has the sentences of the committed references to its company's questions, as often as the
    least length of the call asks for, between an opening and an end that a call has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for company in csv.DictReader(read_text(data / "companies.csv").splitlines()):
        path = data / "q3-2024" / "references" / f"{company['ticker']}.yaml"
        said = "\n\n".join(parse_yaml(read_text(path), path).values())
        times = int(company["min_chars"]) // len(said) + 1
        opening = f"A made-up call of {company['company']}, for a rehearsal."
        paragraphs = [opening, *[said] * times, "This concludes today's call."]
        text = "\n\n".join(paragraphs)
        (folder / f"{company['transcript']}.txt").write_text(text, encoding="utf-8")
    return folder


def rehearse(profile: str, address: str, options: Sequence[str]) -> int:
    """Run a profile with this server as all its models; returns the exit status.

    `options` are further ones of `ems reproduce`. Where the prompts of the profile have not been
    imported, the kit's are taken, and where its folder of transcripts has no text, made-up calls.
    The encoder is the small one that is installed with the kit, and resamples are few.
    """
    path = Path("profiles", f"{profile}.yaml")
    settings = {}
    if path.is_file():  # if not, the command below names the profiles that there are
        settings = parse_yaml(read_text(path), path)
    prompts = settings.get("common", {}).get("PROMPTS", "kit")
    calls = settings.get("01_dataset", {}).get("WRITING", {}).get("transcripts")
    given = ["-p", "ENCODER", "all-MiniLM-L6-v2", "-p", "RESAMPLES", "100"]
    if prompts != "kit" and not (home() / "prompts" / prompts).is_dir():
        notify(f"The prompt set {prompts!r} is not imported: the kit's prompts are used.")
        given += ["-p", "PROMPTS", "kit", "-p", "WRITING.prompts", "kit"]
    if calls and "WRITING.transcripts" not in options and not list(Path(calls).glob("*.txt")):
        made_up = made_up_calls(Path("data"), Path("runs", "made-up-calls"))
        notify(
            f"{calls} has no texts: the calls of this rehearsal are MADE UP from the "
            f"committed references, and lie in {made_up}."
        )
        given += ["-p", "WRITING.transcripts", str(made_up), "-p", "TRANSCRIPTS", str(made_up)]
    name = f"{profile}-rehearsal"
    command = ["reproduce", "--profile", profile, "--run", name, "--at", address]
    status = main([*command, *given, *options])
    notify("This was a rehearsal: a program counted shared words. The values mean nothing.")
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that go wrong")
    parser.add_argument("--profile", help="a profile to rehearse; options of ems reproduce follow")
    options, others = parser.parse_known_args()
    if others and not options.profile:
        parser.error(f"unknown options {others}; only with --profile further ones may follow")
    with Loopback(by_words, latency=options.latency, faults=mixed(options.faults)) as served:
        if options.profile:
            sys.exit(rehearse(options.profile, served.url, others))
        print(
            served.url,
            "Now, in another shell: ems evaluate data/versions/triplets.jsonl "
            "data/versions/answers.jsonl -o results.jsonl --judge by-words --joint "
            f"--base-url {served.url}",
            sep="\n",
            flush=True,
        )
        threading.Event().wait()
