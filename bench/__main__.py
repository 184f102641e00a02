"""The kit's speed and memory as one table, each value beside what it is to be compared with.

    python -m bench             everything, some minutes
    python -m bench judge       only the parts whose names begin so: start, local, judge,
                                evaluation, replay

Absolute values are those of this machine: compare the ratios. The server is the loopback server of
the tests, in a process of its own. No key and no network are needed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import ems
from ems.io import write_jsonl

from .judged import evaluation_rows, judge_rows
from .process import DATA, Row, quickest, run

MEGABYTE = 1_000_000
# Cuts a megabyte of a repeated text into points, and prints the seconds.
CUT = f"""
import sys, time
from ems.local.sentences import SentenceExtractor
start = time.perf_counter()
SentenceExtractor()([sys.argv[1] * ({MEGABYTE} // len(sys.argv[1]))])
print(time.perf_counter() - start)
"""
# How notebook 3 asks the large judge, whose replies are recorded.
RECORDED_JUDGE = (
    "--judge large-llm-2026-11 --mode replay --joint --temperature none --seed none --recorded"
)


def start_rows(folder: Path) -> Iterator[Row]:
    """What a command costs before it does anything, beside Python itself."""
    text = folder / "r.txt"
    text.write_text("Revenue was $5 billion, up 10%. Gross margin was 46%.")
    python = quickest("-c", "pass")
    yield "python -c pass", f"{python:.2f} s", ""
    commands: dict[str, list[str | Path]] = {
        "ems --help": ["--help"],
        "ems score, one answer, no judge": ["score", "--reference", text, "--answer", text],
    }
    for name, command in commands.items():
        seconds = quickest("-m", "ems", *command)
        yield name, f"{seconds:.2f} s", f"{seconds / python:.1f} times python"


def write_copies(folder: Path, times: int) -> tuple[Path, Path]:
    """The data set so many times over, as files: fifty questions and two hundred answers each."""
    triplets = []
    answers = []
    for i in range(times):
        for triplet in ems.load_triplets(DATA / "triplets.jsonl"):
            fields = {"group": triplet.group, "question": triplet.question}
            triplets.append({"id": f"{i}-{triplet.id}", "reference": triplet.reference, **fields})
        for answer in ems.load_answers(DATA / "answers.jsonl"):
            fields = {"model": answer.model, "answer": answer.answer}
            answers.append({"triplet_id": f"{i}-{answer.triplet_id}", **fields})
    return (
        write_jsonl(folder / f"t{times}.jsonl", triplets),
        write_jsonl(folder / f"a{times}.jsonl", answers),
    )


def local_rows(folder: Path) -> Iterator[Row]:
    """Evaluation without a judge: speed, memory, and texts that are nothing but signs."""
    first_memory = 0.0
    for times in (5, 100):
        n = 200 * times
        copies = write_copies(folder, times)
        done = run("-m", "ems", "evaluate", *copies, "-o", folder / "o.jsonl")
        ratio = (
            f"{done.memory / first_memory:.2f} times the memory of 1,000" if first_memory else ""
        )
        first_memory = first_memory or done.memory
        value = f"{n / done.seconds:.0f} answers/s, {done.memory:.0f} MiB"
        yield f"ems evaluate, {n:,} answers, no judge", value, ratio
    sentences = float(run("-c", CUT, "Sales rose by 5 percent. ").output)
    yield "a megabyte of sentences, cut into points", f"{sentences:.2f} s", ""
    for text in (".", "-1"):
        seconds = float(run("-c", CUT, text).output)
        ratio = f"{seconds / sentences:.2f} times sentences"
        yield f"a megabyte of {text!r}, cut into points", f"{seconds:.2f} s", ratio
    for text in (".", "-1"):
        long = folder / "long.txt"
        long.write_text(text * (MEGABYTE // len(text)))
        done = run("-m", "ems", "score", "--reference", long, "--answer", long)
        yield f"ems score, both texts a megabyte of {text!r}", f"{done.seconds:.2f} s", ""


def replay_rows(folder: Path) -> Iterator[Row]:
    """The data set's two hundred answers by EMS(LLM), joint, from the recorded replies."""
    files = [DATA / "triplets.jsonl", DATA / "answers.jsonl", "-o", folder / "r.jsonl"]
    command = ["-m", "ems", "evaluate", *files]
    recorded = [*RECORDED_JUDGE.split(), DATA / "replies.jsonl", "--store", folder / "s.sqlite"]
    alone = run(*command)
    yield "200 answers without a judge", f"{alone.seconds:.1f} s", ""
    replayed = run(*command, *recorded)
    value = f"{replayed.seconds:.1f} s, {replayed.memory:.0f} MiB"
    ratio = f"{replayed.seconds / alone.seconds:.1f} times that"
    yield "200 answers from recorded replies", value, ratio


PARTS = {
    "start": start_rows,
    "local": local_rows,
    "judge": judge_rows,
    "evaluation": evaluation_rows,
    "replay": replay_rows,
}


def main(names: Sequence[str]) -> None:
    """Measure the parts whose names begin so, or all, and print row by row."""
    for part, rows_of in PARTS.items():
        if names and not part.startswith(tuple(names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for what, value, ratio in rows_of(Path(folder)):
                print(f"{what:<60} {value:<28} {ratio}".rstrip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
