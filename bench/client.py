"""What the judge's client costs beside the model: CPU per call, how near the ideal time it comes, requests
saved.

    python -m bench.client

The server is the tests' loopback server in a process of its own, so that only the client's work is counted.
The ideal time of a run is calls x latency / workers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ems.asking import Request
from ems.judge.client import LLMJudge
from ems.judge.store import Record, Replies, reply_key
from ems.judge.wire import Endpoint
from tests.loopback import Process

LATENCY = 0.4                     # seconds the server takes for each reply
SCHEMA = {"type": "object", "properties": {"index": {"type": "integer"}}, "required": ["index"]}
LOOKUP = """
import re, sys, time
from pathlib import Path
from ems.judge.store import Replies
keys = [line.strip() for line in open(sys.argv[2])]
began = time.perf_counter()
store = Replies(sys.argv[1])
opened = time.perf_counter()
assert all(store.get(key) for key in keys)
lookup = (time.perf_counter() - opened) / len(keys)
status = Path("/proc/self/status")                              # Linux; elsewhere the peak is not shown
peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) / 1024 if status.exists() else float("nan")
print(opened - began, lookup, peak)
"""


def requests(n: int, tag: str) -> list[Request]:
    """Distinct requests of the size of a matching prompt, about 2 KB."""
    return [
        Request(
            "match", f"{tag} {i}: " + "revenue grew to 94.9 billion dollars in the quarter, " * 38, 32, SCHEMA
        )
        for i in range(n)
    ]


def run(url: str, store: Path, workers: int, asked: list[Request]) -> tuple[float, float]:
    """Seconds of wall and of CPU for one batch."""
    judge = LLMJudge("bench", store=Replies(store), base_url=url, workers=workers)
    judge.ask(requests(1, f"warm-up {workers} {time.time()}"))       # the first call imports the client
    wall, cpu = time.perf_counter(), time.process_time()
    replies = judge.ask(asked)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if failed := sum(reply.text is None for reply in replies):
        raise RuntimeError(f"{failed} of {len(replies)} calls failed")
    return wall, cpu


def bare(url: str, workers: int, asked: list[Request]) -> tuple[float, float]:
    """Seconds of wall and of CPU that the official client takes for the same bodies, alone."""
    import openai

    endpoint = Endpoint("bench", url)
    decoding = {"temperature": 0.0, "seed": 7}
    bodies = [endpoint.body(r.prompt, max_tokens=r.max_tokens, schema=r.schema, **decoding) for r in asked]

    async def all_of_them() -> tuple[float, float]:
        slots = asyncio.Semaphore(workers)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as official:

            async def one(body: dict[str, Any]) -> bytes:
                async with slots:
                    return (await official.chat.completions.with_raw_response.create(**body)).content

            await one(bodies[0])
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*map(one, bodies))
            return time.perf_counter() - wall, time.process_time() - cpu

    return asyncio.run(all_of_them())


def measure(folder: Path, rounds: int = 10, stored: int = 100_000) -> list[tuple[str, str]]:
    """The bench as rows of (what, value)."""
    rows = []
    with Process(latency=LATENCY) as server:
        for workers in (32, 128):
            calls = workers * rounds
            asked = requests(calls, f"share {workers}")
            bare_wall, bare_cpu = bare(server.url, workers, asked)
            wall, cpu = run(server.url, folder / "replies.sqlite", workers, asked)
            ideal = calls * LATENCY / workers
            calling = f"{workers} workers, {calls} calls of {LATENCY * 1000:.0f} ms"
            rows += [
                (f"CPU per call, {calling}", f"{cpu / calls * 1000:.2f} ms"),
                (f"  of the official client alone, {workers} workers",
                 f"{bare_cpu / calls * 1000:.2f} ms"),
                (f"wall time and ideal, {workers} workers", f"{wall:.2f} s, {ideal:.2f} s"),
                (f"share of the ideal reached, {workers} workers", f"{ideal / wall:.1%}"),
                (f"  by the official client alone, {workers} workers", f"{ideal / bare_wall:.1%}"),
            ]
        before, distinct = server.stats()["count"], requests(320, "repeated")
        run(server.url, folder / "replies.sqlite", 32, distinct + distinct[:160])
        sent = server.stats()["count"] - before - 1
        rows.append(
            ("requests saved by asking identical ones once", f"{480 - sent} of 480 ({160} were repeats)")
        )

    keys = [reply_key(n=i) for i in range(stored)]
    with open(folder / "large.jsonl", "w") as file:
        for key in keys:
            record = Record(
                key, "match", "bench", '{"index": 3}', prompt="p" * 2000, date="2024-11-01T00:00:00+00:00"
            )
            file.write(json.dumps(asdict(record)) + "\n")
    store = Replies(folder / "large.sqlite")
    store.import_(folder / "large.jsonl")
    store.export(folder / "large.jsonl")
    (folder / "keys").write_text("\n".join(keys[::10]))
    for name, file in (("SQLite store", "large.sqlite"), ("recording", "large.jsonl")):
        out = subprocess.run([sys.executable, "-c", LOOKUP, folder / file, folder / "keys"],
                             capture_output=True, text=True, check=True).stdout
        start, lookup, memory = map(float, out.split())
        rows.append((f"{name} of {stored:,} replies: open, look up, peak memory",
                     f"{start:.2f} s, {lookup * 1000:.3f} ms, {memory:.0f} MB"))
    return rows


def main() -> None:
    """Measure in a temporary folder and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        for what, value in measure(Path(folder)):
            print(f"{what:<75} {value}", flush=True)


if __name__ == "__main__":
    main()
