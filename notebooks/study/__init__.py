"""What only the notebooks need, beside `ems`: data sets, checks against people, ablations, figures.

A notebook begins with `root, run = open_run(RUN)`. What other notebooks of the run have written is read by
`triplets_of`, `answers_of` and `values_of`; in a run without it they read the committed data set, so that
each notebook opens alone.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

import ems
from ems.frames import NAMES, of_rows
from ems.io import read_text, write_json
from ems.judge.client import LLMJudge
from ems.judge.cost import Usage, usage_table
from ems.pipeline import EMS
from ems.results import CoverageResult, EMSResult
from ems.score import Scorer
from ems.types import Answer, InputError, Signature, Triplet, rendered

ROOT = Path(__file__).resolve().parents[2]      # the project's folder, wherever a notebook starts
COMMITTED = ROOT / "data" / "q3-2024"           # the data set that a run without files of its own shows


def open_run(name: str) -> tuple[Path, Path]:
    """The project's folder, to which paths in parameters are relative, and the run's, made if absent."""
    pd.set_option("display.max_colwidth", 120, "display.max_rows", 200, "display.precision", 3,
                  "display.html.use_mathjax", False)                # a "$" begins no formula
    warnings.filterwarnings("ignore", message="IProgress not found")
    run = ROOT / name
    run.mkdir(parents=True, exist_ok=True)
    return ROOT, run


def file_of(run: Path, name: str) -> Path:
    """The file `name` of the run, or the committed one where the run has none. InputError without both."""
    for folder in (run, COMMITTED):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"neither {run} nor {COMMITTED} has {name}; run the notebook that writes it first")


def triplets_of(run: Path) -> list[Triplet]:
    """The triplets that notebook 1 wrote, or the committed ones."""
    return ems.load_triplets(file_of(run, "triplets.jsonl"))


def answers_of(run: Path) -> list[Answer]:
    """The answers that notebook 1 wrote, or the committed ones."""
    return ems.load_answers(file_of(run, "answers.jsonl"))


def values_of(run: Path) -> pd.DataFrame:
    """Every value of every answer (`ems.frames.COLUMNS`): from run/values_*.csv, or the committed ones."""
    own = sorted(run.glob("values_*.csv"))
    if own:
        return read_frames(*own)
    packed = COMMITTED / "values.csv.gz"
    if packed.is_file():
        return pd.read_csv(packed, dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values="")
    return read_frames(file_of(run, "values.csv"))


def read_frames(*paths: str | Path) -> pd.DataFrame:
    """Tables of `io.write_csv`, one below the other: names are text, an empty cell elsewhere is nan."""
    tables = [pd.read_csv(io.StringIO(read_text(path)), dtype=dict.fromkeys(NAMES, str), na_values="",
                          keep_default_na=False) for path in paths]
    return pd.concat(tables, ignore_index=True).fillna(dict.fromkeys(NAMES, ""))


def values_frame(answers: Sequence[Answer], values: Sequence[float], metric: str, part: str,
                 signature: Signature, triplets: Sequence[Triplet] = ()) -> pd.DataFrame:
    """A frame of values from one value per answer, nan for unscored; groups from the triplets, if given."""
    groups, text = {triplet.id: triplet.group for triplet in triplets}, rendered(signature)
    return of_rows([
        (metric, part, a.model, a.triplet_id, groups.get(a.triplet_id, a.triplet_id), value, value, 1.0, 1,
         int(math.isnan(value)), text) for a, value in zip(answers, values, strict=True)])


def judge_of(settings: Mapping[str, Any], run: Path) -> LLMJudge | None:
    """The judge that the parameter JUDGE describes, its new replies stored in the run; None for no model."""
    return LLMJudge.of(settings, folder=run, root=ROOT)


def alignments_of(run: Path, judge: LLMJudge | None) -> list[EMSResult]:
    """The run's EMS alignments; without a run those of the committed answers, replayed by the judge."""
    path = run / "alignments.jsonl"
    if path.is_file():
        results = ems.load_results(path)
        return results.get("EMS(LLM)") or results["EMS(ROUGE)"]
    return ems.build(judge, joint=judge is not None).evaluate(triplets_of(run), answers_of(run))


def contradicted(results: Sequence[CoverageResult]) -> pd.DataFrame:
    """Points of each model's answers that are contradicted: columns model, contradicted, points, share."""
    rows = pd.DataFrame([(r.model, len(r.ans_contradicted), len(r.ans_points)) for r in results],
                        columns=["model", "contradicted", "points"])
    return rows.groupby("model").sum().eval("share = contradicted / points").reset_index()


def rescored(results: Sequence[EMSResult], scorer: Scorer, pipeline: EMS) -> list[EMSResult]:
    """The same points and matches with another scorer: EMS(ROUGE) differs from EMS(LLM) in nothing else.

    `pipeline` has the stages that made the points and matches.
    """
    return EMS(pipeline.extractor, pipeline.matcher, scorer).scored(results)


def sample(answers: Sequence[Answer], number: int | Mapping[str, int]) -> list[Answer]:
    """So many answers of each model, drawn by hash. A mapping names models, and "" for all others."""
    drawn: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=_hash):
        drawn.setdefault(answer.model, []).append(answer)
    counts = {"": number} if isinstance(number, int) else {"": 0, **number}
    return [answer for model in sorted(drawn) for answer in drawn[model][:counts.get(model, counts[""])]]


def _hash(answer: Answer) -> bytes:
    return sha256(f"{answer.model} {answer.triplet_id}".encode()).digest()


def example(results: Sequence[EMSResult], triplet_id: str = "") -> EMSResult:
    """A result to look at: the median F1 of the model with the best mean, or its answer to `triplet_id`."""
    valued = [r for r in results if r.f1 == r.f1] or results
    means = pd.DataFrame([{"model": r.model, "f1": r.f1} for r in valued]).groupby("model")["f1"].mean()
    best_model = means.fillna(0.0).idxmax()
    best = sorted((r for r in valued if r.model == best_model), key=lambda r: (r.f1, r.triplet_id))
    named = [r for r in best if r.triplet_id == triplet_id]
    return named[0] if named else best[len(best) // 2]


def save_usage(path: Path, *judges: LLMJudge | None) -> pd.DataFrame:
    """Write what judges were asked and cost, by model and task, as JSON; returns it as a table."""
    usages: dict[str, dict[str, Usage]] = {}
    for number, judge in enumerate(judges):
        if judge is not None:
            name = judge.name if judge.name not in usages else f"{judge.name}, again ({number})"
            usages[name] = judge.usage()
    plain = {name: {task: vars(used) for task, used in tasks.items()} for name, tasks in usages.items()}
    write_json(path, plain)
    return usage_table(usages)
