"""What only the notebooks need, beside `ems`: data sets, checks against people, ablations, figures.

A notebook begins with `root, run = open_run(RUN)`. What other notebooks of the run have written is read by
`triplets_of`, `answers_of` and `values_of`; in a run without it they read the committed data set, so that
each notebook opens alone. What is lacking in a run is printed.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

import ems
from ems.analysis.frames import METRIC_ORDER, TEXT_COLUMNS, of_rows
from ems.io import read_text, write_json
from ems.judge.client import LLMJudge, MissingReplies
from ems.judge.cost import Usage, usage_table
from ems.pipeline import EMS, Evaluator
from ems.results import CoverageResult, EMSResult
from ems.score import Scorer
from ems.types import Answer, Signature, Triplet, rendered

ROOT = Path(__file__).resolve().parents[2]  # the project's folder, wherever a notebook starts
COMMITTED = ROOT / "data" / "q3-2024"  # the data set that a run without files of its own shows


def open_run(name: str) -> tuple[Path, Path]:
    """The project's folder, to which paths in parameters are relative, and the run's, made if absent."""
    pd.set_option("display.max_colwidth", 120, "display.max_rows", 200, "display.precision", 3)
    pd.set_option("display.html.use_mathjax", False)  # a "$" begins no formula
    warnings.filterwarnings("ignore", message="IProgress not found")
    run = ROOT / name
    run.mkdir(parents=True, exist_ok=True)
    return ROOT, run


def file_of(run: Path, name: str) -> Path:
    """The file `name` of the run, or the committed one where the run has none."""
    return run / name if (run / name).is_file() else COMMITTED / name


def lacks(run: Path, what: str) -> None:
    """Print what a run does not have, and how to see the committed data."""
    print(
        f"{'/'.join(run.parts[-2:])} lacks {what}. Delete this folder to return to the committed data."
    )


def triplets_of(run: Path) -> list[Triplet]:
    """The triplets that notebook 1 wrote, or the committed ones."""
    return ems.load_triplets(file_of(run, "triplets.jsonl"))


def answers_of(run: Path) -> list[Answer]:
    """The answers that notebook 1 wrote, or the committed ones."""
    return ems.load_answers(file_of(run, "answers.jsonl"))


def values_of(run: Path) -> pd.DataFrame:
    """Every value of every answer (`ems.analysis.frames.COLUMNS`): from run/values_*.csv, or the committed ones."""
    if own := sorted(run.glob("values_*.csv")):
        values = read_frames(*own)
        if missing := absent(values):
            lacks(
                run,
                ", ".join(f"{metric} (notebook {number})" for metric, number in missing.items()),
            )
        return values
    if (run / "answers.jsonl").is_file():
        lacks(run, "values of its answers (notebooks 2 and 3); the committed ones are shown")
    return pd.read_csv(
        COMMITTED / "values.csv.gz",
        dtype=dict.fromkeys(TEXT_COLUMNS, str),
        keep_default_na=False,
        na_values="",
    )


def absent(values: pd.DataFrame) -> dict[str, int]:
    """Metrics of Table 1 without a value, each with the number of the notebook that makes it."""
    return {
        metric: 3 if metric.startswith(("EMS", "Coverage")) else 2
        for metric in METRIC_ORDER
        if metric not in set(values["metric"])
    }


def read_frames(*paths: str | Path) -> pd.DataFrame:
    """Tables of `io.write_csv`, one below the other: names are text, an empty cell elsewhere is nan."""
    tables = [
        pd.read_csv(
            io.StringIO(read_text(path)),
            dtype=dict.fromkeys(TEXT_COLUMNS, str),
            na_values="",
            keep_default_na=False,
        )
        for path in paths
    ]
    return pd.concat(tables, ignore_index=True).fillna(dict.fromkeys(TEXT_COLUMNS, ""))


def values_frame(
    answers: Sequence[Answer],
    values: Sequence[float],
    metric: str,
    part: str,
    signature: Signature,
    triplets: Sequence[Triplet] = (),
) -> pd.DataFrame:
    """A frame of values from one value per answer, nan for unscored; groups from the triplets, if given."""
    groups, text = {triplet.id: triplet.group for triplet in triplets}, rendered(signature)
    return of_rows(
        [
            (
                metric,
                part,
                a.model,
                a.triplet_id,
                groups.get(a.triplet_id, a.triplet_id),
                value,
                value,
                1.0,
                1,
                int(math.isnan(value)),
                text,
            )
            for a, value in zip(answers, values, strict=True)
        ]
    )


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


def judged_alignments(run: Path, judge: LLMJudge) -> list[EMSResult]:
    """`alignments_of`, where they are on this judge's points in the kit's prompts; else none, and a line."""
    results, wanted = alignments_of(run, judge), ems.build(judge).signature
    if all(r.signature.get(name) == wanted[name] for r in results for name in ("extract", "judge")):
        return results
    lacks(run, f"EMS(LLM) by {judge.name} (notebook 3), and what needs it is left out")
    return []


def recorded(
    evaluator: Evaluator[EMSResult], triplets: Sequence[Triplet], answers: Sequence[Answer]
) -> list[EMSResult]:
    """Results of all answers; in a replay that lacks replies, of those for which it has them all."""
    try:
        return evaluator.evaluate(triplets, answers)
    except MissingReplies:
        if len(answers) == 1:
            return []
    return [result for answer in answers for result in recorded(evaluator, triplets, [answer])]


def contradicted(results: Sequence[CoverageResult]) -> pd.DataFrame:
    """Points of each model's answers that are contradicted: columns model, contradicted, points, share."""
    rows = pd.DataFrame(
        [(r.model, len(r.ans_contradicted), len(r.ans_points)) for r in results],
        columns=["model", "contradicted", "points"],
    )
    return rows.groupby("model").sum().eval("share = contradicted / points").reset_index()


def rescored(results: Sequence[EMSResult], scorer: Scorer, pipeline: EMS) -> list[EMSResult]:
    """The same points and matches with another scorer: EMS(ROUGE) differs from EMS(LLM) in nothing else.

    `pipeline` has the stages that made the points and matches.
    """
    return EMS(pipeline.extractor, pipeline.matcher, scorer).scored(results)


def by_hash(items: Iterable[Any], name: Callable[[Any], str] = str) -> list[Any]:
    """The items in the order of the SHA-256 of their names: as good as random, and always the same."""
    return sorted(items, key=lambda item: sha256(name(item).encode()).hexdigest())


def sample(answers: Sequence[Answer], number: int | Mapping[str, int]) -> list[Answer]:
    """So many answers of each model, drawn by hash. A mapping names models, and "" for all others."""
    drawn: dict[str, list[Answer]] = {}
    for answer in by_hash(answers, lambda a: f"{a.model} {a.triplet_id}"):
        drawn.setdefault(answer.model, []).append(answer)
    counts = {"": number} if isinstance(number, int) else {"": 0, **number}
    return [
        answer
        for model in sorted(drawn)
        for answer in drawn[model][: counts.get(model, counts[""])]
    ]


def example(results: Sequence[EMSResult], triplet_id: str = "") -> EMSResult:
    """A result to look at: the median F1 of the model with the best mean, or its answer to `triplet_id`."""
    valued = [r for r in results if r.f1 == r.f1] or results
    means = (
        pd.DataFrame([{"model": r.model, "f1": r.f1} for r in valued]).groupby("model")["f1"].mean()
    )
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
    plain = {
        name: {task: vars(used) for task, used in tasks.items()} for name, tasks in usages.items()
    }
    write_json(path, plain)
    return usage_table(usages)
