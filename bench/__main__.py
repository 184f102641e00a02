"""The kit's speed, memory and calls, as one table.

    python -m bench             everything, about five minutes
    python -m bench judged      only the parts whose names begin so: start, local, client, judged, field,
                                stream

Servers are the tests' loopback server in processes of their own; a token is a word there. No key and no
network.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from loopback import Process, completion  # noqa: E402
from scripted import judgeable, judged, sentences  # noqa: E402

from ems.io import write_jsonl
from ems.judge.client import LLMJudge
from ems.judge.store import Replies, read_choice
from ems.judge.wire import Endpoint
from ems.types import Answer, Triplet

from . import client  # noqa: E402

ROOT = Path(__file__).parent.parent
LATENCY, PER_TOKEN, WORKERS = 0.4, 0.01, 32
Rows = Iterator[tuple[str, str]]


def real_texts() -> tuple[list[Triplet], list[Answer]]:
    """The fifty references of the data set, and as answers to them the same without every third sentence."""
    from ems.study.dataset.calls import build_triplets, load_companies

    data = ROOT / "data"
    triplets = build_triplets(
        load_companies(data / "companies.csv"), data / "questions.yaml", data / "q3-2024" / "references"
    )
    told = [[s for k, s in enumerate(sentences(t.reference)) if k % 3] for t in triplets]
    return triplets, [Answer(t.id, "bench", "\n\n".join(" ".join(s[k:k + 4]) for k in range(0, len(s), 4)))
                      for t, s in zip(triplets, told, strict=True)]


def asked(judge: LLMJudge, wall: float, what: str) -> Rows:
    """Time beside the ideal, which is the sum over stages of calls x latency / workers."""
    usage = judge.usage().values()
    ideal = sum(u.calls * LATENCY + u.completion_tokens * PER_TOKEN for u in usage) / judge.workers
    yield (f"{what}: calls, wall time, ideal, times the ideal",
           f"{sum(u.calls for u in usage)}, {wall:.1f} s, {ideal:.1f} s, {wall / ideal:.2f}")


def judged_rows(folder: Path) -> Rows:
    """Fifty answers end to end against a server of 400 ms and 10 ms a token."""
    from ems.baselines import RAGChecker
    from ems.presets import build

    triplets, answers = real_texts()
    with Process(latency=LATENCY, per_token=PER_TOKEN, judged=True) as server:
        for what in ("EMS, 50 answers", "EMS, 50 answers, matches in one call", "RAGChecker, 50 answers"):
            judge = LLMJudge(
                "bench",
                store=Replies(folder / f"{what[:3]}{len(what)}.sqlite"),
                base_url=server.url,
                workers=WORKERS,
            )
            began = time.perf_counter()
            if what.startswith("RAG"):
                RAGChecker(judge).check(triplets, answers)
            else:
                build(judge, "llm", variant="all" if "one call" in what else "faithful").evaluate(
                    triplets, answers
                )
            yield from asked(judge, time.perf_counter() - began, what)
            for task, u in judge.usage().items():
                yield (f"    {task}: calls, tokens in, tokens out per answer",
                       f"{u.calls / 50:.1f}, {u.prompt_tokens / 50:,.0f}, {u.completion_tokens / 50:,.0f}")
    with Process(malformed=0.02, judged=True) as server:
        judge = LLMJudge("bench", base_url=server.url, workers=WORKERS)
        RAGChecker(judge).check(triplets, answers)
        usage = judge.usage().values()
        needed = sum(u.requests - u.shared for u in usage)
        yield (
            "RAGChecker, 2 % malformed bodies: more calls",
            f"{sum(u.calls for u in usage) / needed - 1:.1%}",
        )


def field_rows(folder: Path) -> Rows:
    """A hundred pairs of RAGChecker's published set, if its file is at hand; the same server."""
    from ems.baselines import RAGChecker
    from ems.presets import build
    from ems.study.people.upstream import ragchecker

    os.environ.setdefault("EMS_DATA_MIRROR", str(ROOT.parent / "shared" / "data"))
    if not (Path(os.environ["EMS_DATA_MIRROR"]) / "ragchecker").is_dir():
        yield "RAGChecker's set: not at hand; EMS_DATA_MIRROR names a folder with upstream files", "-"
        return
    triplets, answers, *_ = ragchecker()
    triplets, answers = triplets[:50], answers[:100]
    with Process(latency=LATENCY, per_token=PER_TOKEN, judged=True) as server:
        for what in ("EMS", "RAGChecker"):
            judge = LLMJudge(
                "bench", store=Replies(folder / f"{what}.sqlite"), base_url=server.url, workers=WORKERS
            )
            began = time.perf_counter()
            if what == "EMS":
                build(judge, "llm").evaluate(triplets, answers)
            else:
                RAGChecker(judge).check(triplets, answers)
            yield from asked(judge, time.perf_counter() - began, f"{what}, 100 pairs of RAGChecker's set")


def run(*command: Any) -> tuple[float, float, str]:
    """Seconds of wall time, peak memory in MiB and output of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with status {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss / 1024, out


def best(times: int, *command: Any) -> str:
    runs = [run(*command) for _ in range(times)]
    return f"{min(r[0] for r in runs):.2f} s, {min(r[1] for r in runs):.0f} MiB"


def start_rows(folder: Path) -> Rows:
    """What a command costs before it does anything, beside what Python itself does."""
    yield "python -c pass: time, peak memory", best(5, "-c", "pass")
    yield "ems --help: time, peak memory", best(5, "-m", "ems.cli", "--help")
    (folder / "r.txt").write_text("Revenue was $5 billion, up 10%. Gross margin was 46%.")
    (folder / "a.txt").write_text("Revenue rose 10% to $5 billion.")
    score = ["-m", "ems.cli", "score", "--reference", folder / "r.txt", "--answer", folder / "a.txt"]
    yield "ems score, one pair, no judge: time, peak memory", best(5, *score)


def local_rows(folder: Path) -> Rows:
    """Evaluation without a judge."""
    triplets, answers = real_texts()
    triplets = [Triplet(f"{i}-{t.id}", t.group, t.question, t.reference) for i in range(10) for t in triplets]
    answers = [Answer(f"{i}-{a.triplet_id}", a.model, a.answer) for i in range(10) for a in answers]
    files = write_jsonl(folder / "t.jsonl", triplets), write_jsonl(folder / "a.jsonl", answers)
    for scorer in ("local", "local-pair", "rouge"):
        wall, memory, _ = run(
            "-m", "ems.cli", "evaluate", *files, "-o", folder / "o.jsonl", "--scorer", scorer
        )
        yield (f"ems evaluate --scorer {scorer}, {len(answers)} answers: a second, peak memory",
               f"{len(answers) / wall:.0f}, {memory:.0f} MiB")
    yield "a megabyte of dots cut into points: time", f"{float(run('-c', DOTS)[2]):.2f} s"


DOTS = """
import time
from ems.local.sentences import SentenceExtractor
began = time.perf_counter()
SentenceExtractor()(["." * 1_000_000])
print(time.perf_counter() - began)
"""


class Filled(Endpoint):
    """An endpoint that is a function, to fill a store quickly."""

    async def post(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**read_choice(completion(judged(body), body)), "chances": {}}


STREAM = """
import resource, sys, time
sys.path.append("tests")
from scripted import judgeable
from ems.presets import build
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
triplets, answers = judgeable(int(sys.argv[2]), 3)
pipeline = build(LLMJudge("bench", store=Replies(sys.argv[1]), mode="replay"), "llm")
began = time.perf_counter()
for n, result in enumerate(pipeline.stream(triplets, iter(answers)), 1):
    if n in (1000, len(answers)):
        print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def stream_rows(folder: Path, n: int = 10_000) -> Rows:
    """Ten thousand answers evaluated from the store."""
    from ems.presets import build

    judge = LLMJudge("bench", store=Replies(folder / "r.sqlite"), base_url="http://localhost/v1", workers=4)
    judge.endpoint = Filled("bench", "http://localhost/v1", None)
    for _ in build(judge, "llm").stream(*judgeable(n, 3)):
        pass
    stored = len(judge.store)
    seconds, memory = zip(
        *(map(float, line.split()) for line in run("-c", STREAM, folder / "r.sqlite", n)[2].splitlines()),
        strict=True,
    )
    yield f"{n:,} answers from a store of {stored:,} replies: time", f"{seconds[-1]:.0f} s"
    yield (
        f"{n:,} answers from the store: peak memory after 1,000 and at the end",
        f"{memory[0]:.0f}, {memory[-1]:.0f} MiB",
    )


def client_rows(folder: Path) -> Rows:
    """What the client costs beside the model, and the store of replies."""
    yield from client.measure(folder)


def main(names: Sequence[str]) -> None:
    """Measure and print row by row."""
    parts = {"start": start_rows, "local": local_rows, "client": client_rows, "judged": judged_rows,
             "field": field_rows, "stream": stream_rows}
    for name, rows in parts.items():
        if names and not name.startswith(tuple(names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for what, value in rows(Path(folder)):
                print(f"{what:<85} {value}", flush=True)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'this bench itself: peak memory':<85} {own:.0f} MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
