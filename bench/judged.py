"""How fast the judge is asked: beside the official client, and beside the pure latency."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ems
from ems.judge import Request

from .process import DATA, ROOT, Row

LATENCY = 0.4  # seconds that the server takes for a reply
SECONDS_PER_TOKEN = 0.01  # and for each of its tokens, where whole evaluations are measured
CALLS_PER_WORKER = 40
PAIRS = 100  # answers with their references, in a whole evaluation
WORKERS = 32  # in a whole evaluation


@contextmanager
def served(seconds_per_token: float = 0.0) -> Iterator[str]:
    """The address of a server in a process of its own."""
    server = ROOT / "bench" / "server.py"
    command = [sys.executable, str(server), str(LATENCY), str(seconds_per_token)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.kill()


# --- calls, beside the official client ---


def judge_rows(folder: Path) -> Iterator[Row]:
    """Calls beside the ideal time, which is calls x latency / workers, and the official client."""
    with served() as url:
        warm_up(url)
        for workers in (32, 128):
            requests = prompts_of(CALLS_PER_WORKER * workers, f"run {workers}")
            store = ems.Replies(folder / f"{workers}.sqlite")
            judge = ems.LLMJudge("bench", store=store, base_url=url, workers=workers)
            start = time.perf_counter()
            records = judge.ask(requests)
            ours = time.perf_counter() - start
            theirs = official_client_seconds(url, workers, requests)
            ideal = CALLS_PER_WORKER * LATENCY
            lost = sum(record.error != "" for record in records)
            yield (
                f"{len(requests):,} calls of {LATENCY} s, {workers} workers, {lost} lost",
                f"{ours:.2f} s",
                f"{ideal / ours:.0%} of the ideal, "
                f"{theirs / ours:.2f} of the official client's speed",
            )


def warm_up(url: str) -> None:
    """Make a first call, which imports the client."""
    ems.LLMJudge("bench", base_url=url).ask(prompts_of(1, "warm-up"))


def prompts_of(n: int, tag: str) -> list[Request]:
    """Different requests of the size of a matching prompt, about 2 kB."""
    sentence = "revenue grew to 94.9 billion dollars in the quarter, "
    return [Request("match", f"{tag} {i}: {sentence * 38}", 32) for i in range(n)]


def official_client_seconds(url: str, workers: int, requests: Sequence[Request]) -> float:
    """The time that the official asynchronous client alone takes for the same prompts."""
    import openai

    async def call(client: Any, slots: asyncio.Semaphore, request: Request) -> None:
        async with slots:
            await client.chat.completions.create(
                model="bench",
                messages=[{"role": "user", "content": request.prompt}],
                max_tokens=request.max_tokens,
                temperature=0.0,
                seed=7,
            )

    async def call_all() -> float:
        slots = asyncio.Semaphore(workers)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            await call(client, slots, requests[0])
            start = time.perf_counter()
            await asyncio.gather(*(call(client, slots, request) for request in requests))
            return time.perf_counter() - start

    return asyncio.run(call_all())


# --- whole evaluations, beside the pure latency ---


def evaluation_rows(folder: Path) -> Iterator[Row]:
    """Evaluations of a hundred pairs, beside the latency of their calls divided by the workers."""
    answers = ems.load_answers(DATA / "answers.jsonl")[:PAIRS]
    names = {answer.triplet_id for answer in answers}
    triplets = [t for t in ems.load_triplets(DATA / "triplets.jsonl") if t.id in names]
    evaluations: dict[str, dict[str, Any]] = {
        "RAGChecker": {"scorer": "ragchecker"},
        "EMS(LLM), joint": {"joint": True},
        "EMS(LLM)": {},
    }
    with served(SECONDS_PER_TOKEN) as url:
        warm_up(url)
        for name, settings in evaluations.items():
            store = ems.Replies(folder / f"{name}.sqlite")
            judge = ems.LLMJudge("bench", store=store, base_url=url, workers=WORKERS)
            start = time.perf_counter()
            ems.build(judge, **settings).evaluate(triplets, answers)
            seconds = time.perf_counter() - start
            calls = sum(usage.calls for usage in judge.usage().values())
            tokens = sum(usage.completion_tokens for usage in judge.usage().values())
            pure = (calls * LATENCY + tokens * SECONDS_PER_TOKEN) / WORKERS
            yield (
                f"{name}, {PAIRS} pairs, {calls:,} calls, {WORKERS} workers",
                f"{seconds:.1f} s",
                f"{seconds / pure:.2f} times the pure latency of {pure:.1f} s",
            )
