"""Does a difference of systems depend on the form of the references? The same systems, with prose.

The kit's references are separate statements. The paper's are prose, and so are earlier references
to the same calls, which are committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.frames import to_frame
from ems.evaluators import build
from ems.io import parse_jsonl, read_lines
from ems.judge import Judge
from ems.pipeline import Evaluator
from ems.types import Answer, Triplet

from .sensitivity import whole_text_values


def as_prose(triplets: Sequence[Triplet], path: Path) -> list[Triplet]:
    """The triplets of a file, with its references; the file has JSON lines of id and reference."""
    prose = {row["id"]: row["reference"] for _, row in parse_jsonl(read_lines(path), path)}
    return [replace(t, reference=prose[t.id]) for t in triplets if t.id in prose]


def values_with(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: Judge
) -> pd.DataFrame:
    """The values of BLEU, ROUGE-L, EMS(ROUGE), Coverage(local), EMS(LLM) and the judge alone.

    EMS(ROUGE) is on sentences, matched by words; EMS(LLM) is joint.
    """
    evaluators: dict[str, Evaluator[Any]] = {
        "EMS(ROUGE)": build(None, "rouge"),
        "Coverage(local)": build(),
        "EMS(LLM)": build(judge, joint=True),
        "Judge alone": build(judge, "judge"),
    }
    results = {name: one.evaluate(triplets, answers) for name, one in evaluators.items()}
    return pd.concat([whole_text_values(triplets, answers), to_frame(results)], ignore_index=True)
