"""Labels of people beside the scores of metrics, for notebooks 5, 6 and 10.

Tables are those of a folder of committed ones or, where `recompute` says so (`is_recomputed`), computed again
from the upstream files and written to the folder `save`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from ... import data as frames
from ...asking import Judge
from ...baselines import rouge
from ...batches import MissingReplies
from ...io import write_csv
from ...local.encoder import Encoder
from ...presets import build
from ...stats import summarise
from ...support.rubrics import local_ratings
from ...types import InputError
from .. import own
from ..ablations import ablation
from . import agreement, unit_labels, upstream

NAMES = ("ragchecker", "financebench", "findver")
TEXTS: dict[str, Callable[[], tuple[Any, ...]]] = {"ragchecker": upstream.ragchecker,
                                                   "financebench": upstream.financebench}
NOW = "scored now, from the upstream files"


@dataclass(frozen=True, slots=True)
class LabelSet:
    """What people said of answers, and the score table of the same answers (`agreement.score_table`)."""

    labels: pd.DataFrame
    scores: pd.DataFrame
    source: str                  # where the scores come from, for people

    def save(self, folder: Path, name: str) -> None:
        """Write `<name>_labels.csv` and `<name>_scores.csv`, five decimals.

        Columns of scores that are there already and were not computed now, such as a judge's, are kept.
        """
        path, scores = folder / f"{name}_scores.csv", self.scores
        if path.is_file():
            before = frames.read_frames(path)
            left = [column for column in before if column not in scores]
            scores = scores.merge(before[[*agreement.KEYS, *left]], on=agreement.KEYS, how="left")
        write_csv(folder / f"{name}_labels.csv", self.labels.round(5))
        write_csv(path, scores.round(5))

    def beside(self, table: pd.DataFrame, metrics: Sequence[str]) -> LabelSet:
        """The answers of a score table with their labels, and these metrics' columns of this set beside."""
        columns = [c for c in self.scores if c.rpartition(" ")[0] in metrics]
        scores = table.merge(self.scores[[*agreement.KEYS, *columns]], on=agreement.KEYS,
                             validate="one_to_one")
        of_pairs = scores[["triplet_id"]].drop_duplicates().rename(columns={"triplet_id": "instance_id"})
        known = of_pairs if "instance_id" in self.labels else scores[agreement.KEYS]
        return replace(self, labels=self.labels.merge(known), scores=scores)


def label_sets(committed: Path, run: Path, recompute: str = "no", *, encoder: str = "all-MiniLM-L6-v2",
               judge: Judge | None = None, metrics: Mapping[str, str] | None = None,
               scorers: Mapping[str, str] | None = None, save: Path | None = None) -> dict[str, LabelSet]:
    """RAGChecker's pairs, FinanceBench and FinDVer, by name; FinDVer from the run when that is about it.

    Computed again, BERTScore is by `encoder`, and for the pairs EMS(LLM) by `judge`. A user's own `metrics`
    and `scorers` (`own`) are computed on the texts of the first two; where these are out of reach, the source
    says so.
    """
    computed: dict[str, LabelSet] = {}
    if is_recomputed(recompute):
        model = Encoder(encoder)
        computed = {"ragchecker": _scored("ragchecker", model, judge),
                    "financebench": _scored("financebench", model)}
    if (of_run := _findver(run)) is not None:
        computed["findver"] = of_run
    if save is not None:
        for name, one in computed.items():
            one.save(save, name)
    sets = {name: computed.get(name) or stored(committed, name) for name in NAMES}
    if metrics or scorers:
        sets |= {name: _with_own(name, sets[name], metrics or {}, scorers or {}) for name in TEXTS}
    return sets


def pairs_with_own(committed: Path, metrics: Mapping[str, str], scorers: Mapping[str, str]) -> LabelSet:
    """RAGChecker's pairs alone, with a user's own metrics and scorers as in `label_sets`."""
    return _with_own("ragchecker", stored(committed, "ragchecker"), metrics, scorers)


def _with_own(name: str, known: LabelSet, metrics: Mapping[str, str], scorers: Mapping[str, str]) -> LabelSet:
    """The set with columns of own metrics and scorers; where texts are missing, with the reason instead."""
    names = ", ".join({**metrics, **scorers})
    try:
        triplets, answers, *_ = TEXTS[name]()
    except InputError as error:
        return replace(known, source=f"{known.source}; without {names}: {error}")
    columns = agreement.table_of(answers, own.values(triplets, answers, metrics, scorers))
    scores = known.scores.merge(columns, on=agreement.KEYS, how="left", validate="one_to_one")
    return replace(known, scores=scores, source=f"{known.source}; {names} scored now")


def _scored(name: str, encoder: Encoder, judge: Judge | None = None) -> LabelSet:
    triplets, answers, labels, *published = TEXTS[name]()
    scores, source = agreement.score_table(triplets, answers, encoder=encoder), NOW
    for table in published:
        scores = scores.merge(table, on=agreement.KEYS)
    if judge is not None:
        try:
            scores = scores.merge(agreement.judged_table(triplets, answers, judge), on=agreement.KEYS)
        except MissingReplies as error:     # a recording of some pairs, while all of them are at hand
            source += f", without EMS(LLM): {error}"
    return LabelSet(labels, scores, source)


UNIT_FILES = {"summaries": "realsumm_scores", "pyramid": "realsumm_labels", "REALSumm": "realsumm_units",
              "K-QA": "kqa_units"}


def unit_sets(committed: Path, recompute: str = "no", *, encoder: str = "all-MiniLM-L6-v2",
              save: Path | None = None) -> dict[str, pd.DataFrame]:
    """REALSumm's "summaries" (scores) and "pyramid" (people's) by answer; unit tables with labels: "REALSumm"
    (every fourth article) and "K-QA".
    """
    if not is_recomputed(recompute):
        return {name: frames.read_frames(committed / f"{file}.csv") for name, file in UNIT_FILES.items()}
    triplets, answers, labels = upstream.realsumm()
    some = {t.id for t in triplets[::4]}
    few = unit_labels.unit_table(triplets, [a for a in answers if a.triplet_id in some])
    medical, said, judged = upstream.kqa()
    made = {"summaries": unit_labels.summary_table(triplets, answers, Encoder(encoder)),
            "pyramid": unit_labels.pyramid(labels),
            "REALSumm": agreement.joined(labels[labels["triplet_id"].isin(some)], few, upstream.UNIT_KEYS),
            "K-QA": agreement.joined(judged, unit_labels.unit_table(medical, said), upstream.UNIT_KEYS)}
    if save is not None:
        for name, file in UNIT_FILES.items():
            write_csv(save / f"{file}.csv", made[name].round(5 if name == "pyramid" else 4))
    return made


def choice_scores(committed: Path, recompute: str = "no", *, save: Path | None = None) -> LabelSet:
    """RAGChecker's labels, and the values of `ablation.study` on its pairs."""
    if not is_recomputed(recompute):
        pairs = stored(committed, "ragchecker")
        return replace(pairs, scores=frames.read_frames(committed / "granularity_scores.csv"))
    triplets, answers, labels, _ = upstream.ragchecker()
    scores = agreement.of_values(ablation.study(triplets, answers))
    if save is not None:
        write_csv(save / "granularity_scores.csv", scores.round(5))
    return LabelSet(labels, scores, NOW)


def recorded(file: Path, compute: Callable[[], pd.DataFrame] | None = None, save: Path | None = None
             ) -> tuple[pd.DataFrame, str]:
    """The table that `compute` makes now, and where it comes from, for people.

    The committed `file` without `compute`, or where a judge's recorded replies do not suffice for it. What
    was computed now is written to the file `save`, five decimals.
    """
    source = f"numbers from {file.parent.parent.name}/{file.parent.name}"
    if compute is not None:
        try:
            table = compute()
        except MissingReplies as error:
            source += f": {error}"
        else:
            if save is not None:
                write_csv(save, table.round(5))
            return table, NOW
    return frames.read_frames(file), source


def is_recomputed(recompute: str) -> bool:
    """Of "yes", "no" and "auto"; auto is yes where EMS_DATA_MIRROR names upstream files."""
    if recompute not in ("yes", "no", "auto"):
        raise InputError(f"RECOMPUTE must be yes, no or auto, got {recompute!r}")
    return recompute == "yes" or (recompute == "auto" and bool(os.environ.get("EMS_DATA_MIRROR")))


def without_refusals(bench: LabelSet) -> LabelSet:
    """FinanceBench's answers that are correct or incorrect."""
    labels = bench.labels[bench.labels["label"] != "refusal"]
    return replace(bench, labels=labels, scores=bench.scores.merge(labels[agreement.KEYS]))


def refusals(bench: LabelSet) -> LabelSet:
    """FinanceBench with an answer in the place of "correct" and a refusal in that of "incorrect"."""
    return replace(bench, labels=bench.labels.assign(correct=bench.labels["label"] != "refusal"))


def all_answer_sets(folder: Path, recompute: bool, save: Path | None = None) -> LabelSet:
    """FinanceBench's sixteen answer sets with metrics that need neither judge nor encoder.

    Labels have `printed`: whether the paper's Table 2 has the set, which are those that were scored while
    EMS(local) was developed. "number recall" is nan where the reference has no number, "support by evidence"
    (EMS-Support against the pages that hold the evidence) where the answer has none.
    """
    if not recompute:
        return stored(folder, "financebench_all")
    triplets, answers, labels = upstream.financebench(upstream.financebench_sets(), contexts=True)
    labels["printed"] = labels["model"].isin(upstream.FINANCEBENCH_SETS)
    texts = own.texts_of(triplets, answers)
    # by question, so that each document is read once
    rated = {(r.triplet_id, r.model, r.rubric): nan if r.value is None else r.value
             for r in local_ratings(triplets, sorted(answers, key=lambda a: a.triplet_id))}
    scores = agreement.table_of(answers, agreement.surface(*texts) | {
        "number recall": [rated[a.triplet_id, a.model, "numeric"] for a in answers],
        "support by evidence": [1 - rated[a.triplet_id, a.model, "hallucination"] for a in answers],
        "ROUGE-L": rouge(*texts, ("rougeL",))["rougeL"],
        "EMS(local)": build(None, "local").evaluate(triplets, answers)})
    sets = LabelSet(labels.drop(columns=["llm", "setting"]), scores, NOW)
    if save is not None:
        sets.save(save, "financebench_all")
    return sets


def means_where_stated(labels: pd.DataFrame, scores: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """FinDVer's answers by metric and model: mean F1 (or value) and accuracy over all claims, and over the
    claims to which every model's answer names a verdict.

    Columns: metric, claims ("all" or "all state a verdict"), model, value with ci_low and ci_high over
    filings, n. `labels` needs `stated` and `correct`. InputError for a metric without scores.
    """
    table = labels.merge(scores, on=agreement.KEYS, validate="one_to_one")
    known = agreement.metrics_of(scores)
    if unknown := [name for name in metrics if name not in known]:
        raise InputError(f"METRICS: no scores of {unknown[0]!r}; there are {', '.join(known)}")
    columns = {name: known[name] for name in metrics}
    everywhere = table.groupby("triplet_id")["stated"].transform("all")
    parts = []
    for claims, rows in {"all": table, "all state a verdict": table[everywhere]}.items():
        for metric, column in {**columns, "accuracy": "correct"}.items():
            values = rows.assign(metric=metric, part="Score", value=rows[column].astype(float), num=nan,
                                 den=nan, units=1, unscored=0, signature="")
            parts.append(summarise(values).assign(claims=claims))
    return pd.concat(parts)[["metric", "claims", "model", "value", "ci_low", "ci_high", "n"]]


def stored(folder: Path, name: str) -> LabelSet:
    """A data set's committed labels and scores: one of `NAMES`."""
    labels, scores = (frames.read_frames(folder / f"{name}_{kind}.csv") for kind in ("labels", "scores"))
    return LabelSet(labels, scores, f"numbers from {folder.parent.name}/{folder.name}")


def _findver(run: Path) -> LabelSet | None:
    """FinDVer from the files of a run about it, scored by notebooks 2 and 3; None for another run."""
    labels = frames.read_frames(run / "labels.csv")
    if "correct_without_cot" not in labels:
        return None
    values = frames.read_frames(run / "values_baselines.csv", run / "values_ems.csv")
    triplets = frames.load_triplets(run / "triplets.jsonl")
    answers = frames.load_answers(run / "answers.jsonl")
    scores = agreement.table_of(answers, agreement.surface(*own.texts_of(triplets, answers)))
    scores = scores.merge(agreement.of_values(values), on=agreement.KEYS)
    scores.columns = scores.columns.str.replace("^ROUGE ", "ROUGE-L ", regex=True)
    labels["group"] = labels["triplet_id"].map({t.id: t.group for t in triplets})
    return LabelSet(labels, scores, "this run's answers and scores")
