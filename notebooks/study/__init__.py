"""What only the notebooks need, beside `ems`: data sets, checks against people, ablations, figures.

A notebook begins with `root, run = open_run(RUN)`. `read_triplets`, `read_answers` and
`read_values` read what other notebooks of the run have written. In a run without it they read the
committed data set, so that each notebook opens alone. What is missing in a run is printed.
`input_file` finds a file that a parameter names.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import Markdown

import ems
from ems.analysis.frames import METRIC_ORDER, of_rows, with_figures_once
from ems.io import read_text, write_file
from ems.judge.client import LLMJudge, MissingReplies
from ems.judge.cost import together, usage_table
from ems.pipeline import EMS, Evaluator
from ems.results import CoverageResult, EMSResult
from ems.terminal import did_you_mean
from ems.types import Answer, InputError, Signature, Triplet, rendered

ROOT = Path(__file__).resolve().parents[2]  # the project's folder, wherever a notebook starts
COMMITTED = ROOT / "data" / "q3-2024"  # the data set that a run without files of its own shows
# The files in which notebooks 2 and 3 write the values of a run.
VALUES_FILES = {2: "values_baselines.csv", 3: "values_ems.csv"}
# What the signature of a committed value ends with, where it stands beside values of a run.
COMMITTED_MARK = "|values:committed"
REHEARSAL = "A rehearsal: the values mean nothing"
# Columns that are text whatever they hold: "1.10", "N/A", "None".
TEXT_COLUMNS = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")


# --- what a run has ---


def open_run(name: str) -> tuple[Path, Path]:
    """The project's folder and the run's, which is made if absent.

    Paths in parameters are relative to the first one.
    """
    pd.set_option("display.max_colwidth", 120, "display.max_rows", 200, "display.precision", 3)
    pd.set_option("display.html.use_mathjax", False)  # a "$" begins no formula
    warnings.filterwarnings("ignore", message="IProgress not found")
    run = ROOT / name
    run.mkdir(parents=True, exist_ok=True)
    return ROOT, run


def read_triplets(run: Path) -> list[Triplet]:
    """The triplets that notebook 1 wrote, or the committed ones."""
    return ems.load_triplets(_file_of(run, "triplets.jsonl"))


def read_answers(run: Path) -> list[Answer]:
    """The answers that notebook 1 wrote, or the committed ones."""
    return ems.load_answers(_file_of(run, "answers.jsonl"))


def read_values(run: Path) -> pd.DataFrame:
    """Every value of every answer, as `ems.to_frame` has them: the run's, or the committed ones.

    A run's are in its files values_*.csv. In the place of values that notebook 2 or 3 has not
    written stand the committed ones of the same answers; these signatures end with
    `COMMITTED_MARK`. InputError where there are neither for any answer of the run, and where
    notebook 2 or 3 has written values of other answers than the run has now.
    """
    tables = {path.name: read_frames(path) for path in sorted(run.glob("values_*.csv"))}
    if (run / "answers.jsonl").is_file():
        _check_answers(run, tables)
    elif not tables:
        return read_frames(COMMITTED / "values.csv.gz")
    absent = [number for number, name in VALUES_FILES.items() if name not in tables]
    if absent:
        tables = {"committed": _committed_values(run, absent), **tables}
    with_rows = [table for table in tables.values() if len(table)]
    values = pd.concat(with_rows or tables.values(), ignore_index=True)
    values = with_figures_once(values).reset_index(drop=True)
    if values.empty:
        raise InputError(
            f"{_short_name(run)} has no values of its answers; run notebooks 2 and 3 first"
        )
    missing = [f"{metric} (notebook {n})" for metric, n in missing_metrics(values).items()]
    if missing:
        _print_missing(run, ", ".join(missing))
    return values


def _check_answers(run: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """InputError where values that a notebook has written are not those of the run's answers."""
    answers = {(answer.triplet_id, answer.model) for answer in read_answers(run)}
    outdated = []
    for number, name in VALUES_FILES.items():
        if name in tables and answers != set(tables[name].groupby(["triplet_id", "model"]).groups):
            outdated.append(f"notebook {number}")
    if outdated:
        raise InputError(
            f"{_short_name(run)} has other answers than when its values were computed; "
            f"run {' and '.join(outdated)} again"
        )


def without(values: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A frame of values without the models and groups (companies) of these names.

    InputError for a name that is neither.
    """
    present = {*values["model"], *values["group"]}
    for name in set(names) - present:
        hint = did_you_mean(name, present)
        raise InputError(f"no model or group {name!r}{hint}; there are {sorted(present)}")
    return values[~values[["model", "group"]].isin(names).any(axis=1)]


def _committed_values(run: Path, absent: Sequence[int]) -> pd.DataFrame:
    """The committed values in the place of those that the `absent` notebooks would write."""
    values = read_frames(COMMITTED / "values.csv.gz")
    ours = _texts(read_triplets(run), read_answers(run))
    committed = _texts(
        ems.load_triplets(COMMITTED / "triplets.jsonl"),
        ems.load_answers(COMMITTED / "answers.jsonl"),
    )
    same = {key for key, texts in ours.items() if committed.get(key) == texts}
    is_same = pd.MultiIndex.from_frame(values[["triplet_id", "model"]]).isin(list(same))
    taken = values[values["metric"].map(notebook_of).isin(absent) & is_same]
    if len(taken):
        print(
            f"{_short_name(run)} has no values of {', '.join(taken['metric'].unique())}: the "
            "committed values of the same answers stand in their place."
        )
    return taken.assign(signature=taken["signature"] + COMMITTED_MARK)


def _texts(
    triplets: Sequence[Triplet], answers: Sequence[Answer]
) -> dict[tuple[str, str], tuple[Triplet | None, str]]:
    """By triplet's id and model: the triplet without its document, and the answer."""
    by_id = {triplet.id: replace(triplet, context=None) for triplet in triplets}
    return {(a.triplet_id, a.model): (by_id.get(a.triplet_id), a.answer) for a in answers}


def missing_metrics(values: pd.DataFrame) -> dict[str, int]:
    """Metrics of Table 1 without a value, each with the number of the notebook that makes it."""
    present = set(values["metric"])
    return {metric: notebook_of(metric) for metric in METRIC_ORDER if metric not in present}


def notebook_of(metric: str) -> int:
    """The number of the notebook that makes the values of a metric of Table 1."""
    return 3 if metric.startswith(("EMS", "Coverage", "Figures")) else 2


def run_notes(run: Path, values: pd.DataFrame) -> list[str]:
    """What stands under a table of these values: `changes_of`, and values not made again.

    `values` has the columns metric and signature.
    """
    notes = changes_of(run)
    committed = values[values["signature"].str.contains(COMMITTED_MARK, regex=False)]
    if len(committed):
        metrics = ", ".join(committed["metric"].unique())
        notes.append(f"Not run again, committed values of the same answers: {metrics}")
    return notes


def changes_of(run: Path) -> list[str]:
    """A note on each parameter that a run has changed, from its manifest.json.

    A run whose models were all asked at one address (`--at`) is a rehearsal: this stands first.
    """
    path = run / "manifest.json"
    changed = json.loads(read_text(path)).get("changed", {}) if path.is_file() else {}
    notebooks: dict[str, list[str]] = {}
    for notebook, parameters in changed.items():
        for name, value in parameters.items():
            notebooks.setdefault(f"{name} {value!r:.80}", []).append(notebook[:2])
    notes = []
    if any("--at" in parameters for parameters in changed.values()):
        notes.append(REHEARSAL)
    for setting, numbers in notebooks.items():
        notes.append(f"Changed from the profile: {setting} (notebook {', '.join(numbers)})")
    return notes


def _file_of(run: Path, name: str) -> Path:
    """The file `name` of the run, or the committed one where the run has none."""
    return run / name if (run / name).is_file() else COMMITTED / name


def _print_missing(run: Path, missing: str) -> None:
    print(f"{_short_name(run)} lacks {missing}.")


def _short_name(run: Path) -> str:
    return "/".join(run.parts[-2:])


# --- files ---


def input_file(name: str) -> Path:
    """The file that a parameter names: beside the notebook, or else in the project's folder.

    InputError where it is in neither.
    """
    places = [Path.cwd() / name, ROOT / name]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"no file {places[0]}, and none {places[1]}: put {name} beside the notebook")


def write_csv(path: str | Path, frame: pd.DataFrame) -> Path:
    """Write a table without its index; in a text a carriage return becomes a newline.

    Some versions of Python write a carriage return without quotes, and readers end the row there.
    """
    table = frame.replace("\r\n?", "\n", regex=True)
    return write_file(path, [table.to_csv(index=False, lineterminator="\n")])


# --- frames of values ---


def read_frames(*paths: str | Path) -> pd.DataFrame:
    """Tables that `write_csv` wrote, and .gz files of such, one below the other.

    Columns of names are text, and "" where a cell is empty; an empty cell elsewhere is nan.
    InputError for what cannot be read.
    """
    types = dict.fromkeys(TEXT_COLUMNS, str)
    tables = []
    for path in paths:
        try:
            table = pd.read_csv(path, dtype=types, keep_default_na=False, na_values="")
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        tables.append(table)
    return pd.concat(tables, ignore_index=True).fillna(dict.fromkeys(TEXT_COLUMNS, ""))


def values_frame(
    answers: Sequence[Answer],
    values: Sequence[float],
    metric: str,
    part: str,
    signature: Signature,
    triplets: Sequence[Triplet] = (),
) -> pd.DataFrame:
    """A frame of values from one value per answer, where nan is an unscored answer.

    Groups are the triplets'; an answer to none of `triplets` is in a group named like its triplet.
    """
    groups = {triplet.id: triplet.group for triplet in triplets}
    text = rendered(signature)
    rows = []
    for answer, value in zip(answers, values, strict=True):
        group = groups.get(answer.triplet_id, answer.triplet_id)
        names = (metric, part, answer.model, answer.triplet_id, group)
        rows.append((*names, value, value, 1.0, 1, int(math.isnan(value)), text))
    return of_rows(rows)


# --- findings ---


def show_findings(run: Path, notebook: str, sentences: Sequence[str]) -> Markdown:
    """The sentences as a list, to be shown at the top of a notebook.

    They are kept in the run's folder `findings/`, in a file named like the notebook, such as
    "04_scaling", from which the start page of the run is made. Without a sentence the notebook says
    that nothing is clear.
    """
    lines = [f"- {sentence}\n" for sentence in sentences] or ["- Nothing is clear in this run.\n"]
    write_file(run / "findings" / f"{notebook}.md", lines)
    return Markdown("".join(lines))


def link_to(page: Path, text: str) -> Markdown:
    """A link to a file of the run, from a notebook in Lab or from the copy that a run keeps."""
    place = Path.cwd()
    if (
        place == ROOT / "notebooks"
    ):  # a run executes here, and its copy lies in the run's notebooks/
        place = page.parent / "notebooks"
    return Markdown(f"[{text}]({os.path.relpath(page, place)})")


# --- results ---


def judge_of(settings: Mapping[str, Any], run: Path) -> LLMJudge | None:
    """The judge that the parameter JUDGE describes; None when it names no model.

    New replies are stored in the run.
    """
    return LLMJudge.of(settings, folder=run, root=ROOT)


def alignments_of(run: Path, judge: LLMJudge | None) -> list[EMSResult]:
    """The run's EMS alignments, or those of the committed answers, which the judge replays."""
    path = run / "alignments.jsonl"
    if path.is_file():
        results = ems.load_results(path)
        return results.get("EMS(LLM)") or results["EMS(ROUGE)"]
    return ems.build(judge, joint=judge is not None).evaluate(read_triplets(run), read_answers(run))


def judged_alignments(run: Path, judge: LLMJudge) -> list[EMSResult]:
    """`alignments_of`, where all are on this judge's points in the kit's prompts.

    Otherwise none, and a line that says so.
    """
    expected = ems.build(judge).signature
    results = alignments_of(run, judge)
    for name in ("extract", "judge"):
        if any(result.signature.get(name) != expected[name] for result in results):
            _print_missing(
                run, f"EMS(LLM) by {judge.name} (notebook 3), and what needs it is left out"
            )
            return []
    return results


def recorded(
    evaluator: Evaluator[EMSResult], triplets: Sequence[Triplet], answers: Sequence[Answer]
) -> list[EMSResult]:
    """Results of the answers; where a replay lacks replies, of those for which it has them all."""
    try:
        return evaluator.evaluate(triplets, answers)
    except MissingReplies:
        if len(answers) == 1:
            return []
    results = []
    for answer in answers:
        results += recorded(evaluator, triplets, [answer])
    return results


def contradiction_table(results: Sequence[CoverageResult]) -> pd.DataFrame:
    """How many points of each model's answers are contradicted by the reference.

    Columns: model, contradicted, points, and share, the first divided by the second.
    """
    rows = pd.DataFrame(
        [(r.model, len(r.ans_contradicted), len(r.ans_points)) for r in results],
        columns=["model", "contradicted", "points"],
    )
    return (
        rows.groupby("model", sort=False).sum().eval("share = contradicted / points").reset_index()
    )


def rescored(results: Sequence[EMSResult], scorer: Any, pipeline: EMS) -> list[EMSResult]:
    """The same points and matches with another scorer, which may be a plain function.

    EMS(ROUGE) differs from EMS(LLM) in nothing else. `pipeline` has the stages that made the
    points and matches.
    """
    return EMS(pipeline.extractor, pipeline.matcher, scorer).scored(results)


def save_usage(path: Path, *judges: LLMJudge | None) -> pd.DataFrame | None:
    """Write what judges were asked and cost, by model and task, as JSON.

    Returns it as a table, where judges of one name are one row for each task, or None where every
    reply was recorded: no call and no failure.
    """
    usages = together((judge.name, judge.usage()) for judge in judges if judge is not None)
    content = {}
    for name, tasks in usages.items():
        content[name] = {task: vars(usage) for task, usage in tasks.items()}
    write_file(path, [json.dumps(content, indent=1, ensure_ascii=False) + "\n"])
    table = usage_table(usages)
    asked = table["calls"] + table["failures"]
    return table if asked.any() else None


# --- drawing by hash ---


def by_hash(items: Iterable[Any], name: Callable[[Any], str] = str) -> list[Any]:
    """The items in the order of the SHA-256 of their names: always the same order."""
    return sorted(items, key=lambda item: sha256(name(item).encode()).hexdigest())


def sample_of_each_model(
    answers: Sequence[Answer], number: int | Mapping[str, int]
) -> list[Answer]:
    """So many answers of each model, drawn by hash.

    A mapping gives the number for each model; the number of its name "" is for all other models.
    """
    by_model: dict[str, list[Answer]] = {}
    for answer in by_hash(answers, lambda a: f"{a.model} {a.triplet_id}"):
        by_model.setdefault(answer.model, []).append(answer)
    numbers = {"": number} if isinstance(number, int) else {"": 0, **number}
    drawn = []
    for model in sorted(by_model):
        drawn += by_model[model][: numbers.get(model, numbers[""])]
    return drawn
