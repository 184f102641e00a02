"""The kit's speed and memory as one table, each figure beside what it is to be held against.

    python -m bench             everything, some minutes
    python -m bench judge       only the parts whose names begin so: start, local, judge, replay

Absolute figures are those of this machine: compare the ratios. The server is the tests' loopback server in a
process of its own. No key, no network.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ems
from ems.io import write_jsonl
from ems.judge import Request

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "q3-2024"
LATENCY = 0.4  # seconds that the server takes for a reply
Row = tuple[str, str, str]  # what, value, ratio
CUT = """
import sys, time
from ems.local.sentences import SentenceExtractor
began = time.perf_counter()
SentenceExtractor()([sys.argv[1] * (1_000_000 // len(sys.argv[1]))])
print(time.perf_counter() - began)
"""


def run(*command: Any) -> tuple[float, float, str]:
    """Seconds, peak memory in MiB and output of a Python command in a process of its own."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        out = process.stdout.read() if process.stdout else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"{command[:4]} ended with status {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss / 1024, out


def quickest(*command: Any) -> float:
    """The least time of five."""
    return min(run(*command)[0] for _ in range(5))


def start_rows(folder: Path) -> Iterator[Row]:
    """What a command costs before it does anything, beside Python itself."""
    (folder / "r.txt").write_text("Revenue was $5 billion, up 10%. Gross margin was 46%.")
    python = quickest("-c", "pass")
    yield "python -c pass", f"{python:.2f} s", ""
    files = ["--reference", folder / "r.txt", "--answer", folder / "r.txt"]
    for what, command in (
        ("ems --help", ["--help"]),
        ("ems score, one answer, no judge", ["score", *files]),
    ):
        seconds = quickest("-m", "ems", *command)
        yield what, f"{seconds:.2f} s", f"{seconds / python:.1f} times python"


def copies(folder: Path, times: int) -> tuple[Path, Path]:
    """The data set so many times over, as files: fifty questions and two hundred answers each time."""
    triplets, answers = (
        ems.load_triplets(DATA / "triplets.jsonl"),
        ems.load_answers(DATA / "answers.jsonl"),
    )
    rows = [
        {"id": f"{i}-{t.id}", "group": t.group, "question": t.question, "reference": t.reference}
        for i in range(times)
        for t in triplets
    ]
    answered = [
        {"triplet_id": f"{i}-{a.triplet_id}", "model": a.model, "answer": a.answer}
        for i in range(times)
        for a in answers
    ]
    return write_jsonl(folder / f"t{times}.jsonl", rows), write_jsonl(
        folder / f"a{times}.jsonl", answered
    )


def local_rows(folder: Path) -> Iterator[Row]:
    """Evaluation without a judge: its speed, its memory, and texts that are nothing but signs."""
    memories = []
    for times in (5, 100):
        seconds, memory, _ = run(
            "-m", "ems", "evaluate", *copies(folder, times), "-o", folder / "o.jsonl"
        )
        memories.append(memory)
        ratio = f"{memory / memories[0]:.2f} times the memory of 1,000" if times > 5 else ""
        yield (
            f"ems evaluate, {200 * times:,} answers, no judge",
            f"{200 * times / seconds:.0f} answers/s, {memory:.0f} MiB",
            ratio,
        )
    plain = float(run("-c", CUT, "Sales rose by 5 percent. ")[2])
    yield "a megabyte of sentences, cut into points", f"{plain:.2f} s", ""
    for text in (".", "-1"):
        seconds = float(run("-c", CUT, text)[2])
        ratio = f"{seconds / plain:.2f} times sentences"
        yield f"a megabyte of {text!r}, cut into points", f"{seconds:.2f} s", ratio
    long = folder / "long.txt"
    for text in (".", "-1"):
        long.write_text(text * (1_000_000 // len(text)))
        seconds, *_ = run("-m", "ems", "score", "--reference", long, "--answer", long)
        yield f"ems score, both texts a megabyte of {text!r}", f"{seconds:.2f} s", ""


def requests(n: int, tag: str) -> list[Request]:
    """Distinct requests of the size of a matching prompt, about 2 kB."""
    sentence = "revenue grew to 94.9 billion dollars in the quarter, "
    return [Request("match", f"{tag} {i}: {sentence * 38}", 32) for i in range(n)]


def bare(url: str, workers: int, asked: Sequence[Request]) -> float:
    """Seconds that the official asynchronous client takes for the same prompts, alone."""
    import openai

    async def all_of_them() -> float:
        slots = asyncio.Semaphore(workers)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

            async def one(request: Request) -> None:
                async with slots:
                    await client.chat.completions.create(
                        model="bench",
                        messages=[{"role": "user", "content": request.prompt}],
                        max_tokens=request.max_tokens,
                        temperature=0.0,
                        seed=7,
                    )

            await one(asked[0])
            began = time.perf_counter()
            await asyncio.gather(*map(one, asked))
            return time.perf_counter() - began

    return asyncio.run(all_of_them())


@contextmanager
def served() -> Iterator[str]:
    """The tests' server in a process of its own, whose work does not count as the client's; its address."""
    command = [sys.executable, str(ROOT / "tests" / "loopback.py"), "--latency", str(LATENCY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.kill()


def judge_rows(folder: Path) -> Iterator[Row]:
    """How near the judge comes to the ideal time, which is calls x latency / workers."""
    with served() as url:
        for workers in (32, 128):
            calls = 12 * workers
            asked = requests(calls, f"ask {workers}")
            store = ems.Replies(folder / f"{workers}.sqlite")
            judge = ems.LLMJudge("bench", store=store, base_url=url, workers=workers)
            judge.ask(requests(1, "warm-up"))  # the first call imports the client
            began = time.perf_counter()
            lost = sum(record.usable is None for record in judge.ask(asked))
            ours, theirs = time.perf_counter() - began, bare(url, workers, asked)
            ideal = calls * LATENCY / workers
            yield (
                f"{calls:,} calls of {LATENCY} s, {workers} workers, {lost} lost",
                f"{ours:.2f} s",
                f"{ideal / ours:.0%} of the ideal, {theirs / ours:.0%} of the official client's speed",
            )


def replay_rows(folder: Path) -> Iterator[Row]:
    """The data set's two hundred answers by EMS(LLM), joint, from the recorded replies."""
    files = [DATA / "triplets.jsonl", DATA / "answers.jsonl", "-o", folder / "r.jsonl"]
    command = ["-m", "ems", "evaluate", *files]
    recorded = [
        "--judge",
        "large-llm-2026-11",
        "--mode",
        "replay",
        "--joint",
        "--temperature",
        "none",
        "--seed",
        "none",
        "--recorded",
        DATA / "replies.jsonl",
        "--store",
        folder / "s.sqlite",
    ]
    alone, *_ = run(*command)
    seconds, memory, _ = run(*command, *recorded)
    yield "200 answers without a judge", f"{alone:.1f} s", ""
    ratio = f"{seconds / alone:.1f} times that"
    yield "200 answers from recorded replies", f"{seconds:.1f} s, {memory:.0f} MiB", ratio


def main(names: Sequence[str]) -> None:
    """Measure and print row by row."""
    parts = {"start": start_rows, "local": local_rows, "judge": judge_rows, "replay": replay_rows}
    for name, rows in parts.items():
        if names and not name.startswith(tuple(names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for what, value, ratio in rows(Path(folder)):
                print(f"{what:<60} {value:<28} {ratio}".rstrip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
