"""Answers of a run, and edited references, checked against documents, for notebook 8: now, or as stored.

The calls belong to their publishers and are not part of the project. What is stored is what the check found:
a label for each point, named by a hash of its text, with the passage's number and the numbers that decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from ... import data as frames
from ...io import unguarded, write_csv
from ...local.sentences import SentenceExtractor
from ...results.display import markdown_text
from ...results.saved import load_results
from ...stats import COLUMNS as COLUMNS_OF_SUMMARY
from ...stats import MIN_CLUSTERS, Paired, paired, summarise
from ...support.stage import with_support
from ...support.supporters import LocalSupporter, point_id
from ...types import EMSResult, InputError, Support, Triplet
from ..ablations.edits import EDITS, edited_answers
from ..dataset.calls import own_triplets
from ..findings.verdicts import in_percent, interval, percent

KEYS = ["triplet_id", "model", "point"]
COLUMNS = [*KEYS, "label", "passage", "missing", "derived", "reason", "elsewhere", "signature"]
FLOOR = "EMS-Support, another company's document"       # metric of the values that chance gives
ABSENT = {**dict.fromkeys(("EMS-Support", "EMS-open"), "this run has neither documents nor stored labels"),
          **dict.fromkeys(("EMS-Support(LLM)", "EMS-open(LLM)"), "no judge's labels are stored for this run")}
NOT_STORED = "no stored label for this point"
PLACES = ["matched", "blind spot", "unsupported", "not checked", "unscored"]
DOSE = 0.75               # share of an edit's possible changes that are made
TEXTS = 10                # references that are edited, at most
SEED = 7


@dataclass(frozen=True, slots=True)
class Checked:
    """The answers of a run with what their documents say, and with what another company's document says."""

    results: list[EMSResult]
    elsewhere: list[EMSResult]
    source: str                  # where the labels come from, for people


def read_alignments(path: Path, metrics: Sequence[str]) -> list[EMSResult]:
    """The results of the first of these metrics that a run's alignments.jsonl has. InputError for none."""
    results = load_results(path)
    metric = next((name for name in metrics if name in results), None)
    if metric is None:
        raise InputError(f"{path} has no alignments of {', '.join(metrics)}; there are "
                         f"{', '.join(sorted(results))}")
    return results[metric]


def with_contexts(triplets: Sequence[Triplet], transcripts: Path | None) -> list[Triplet]:
    """The triplets with the calls in the folder `transcripts` for contexts, where they have none."""
    of_calls = {t.id: t.context for t in own_triplets(transcripts)} if transcripts else {}
    return [replace(t, context=t.context or of_calls.get(t.id)) for t in triplets]


def checked_answers(results: Sequence[EMSResult], triplets: Sequence[Triplet], *, stored: Path | None = None,
                    save: Path | None = None) -> Checked:
    """Every answer point against its own document, the triplet's context, and against that of the next group.

    Without documents, labels come from the file `stored`; a point that it does not have is unscored. With
    both, the text says how many labels differ. What was computed is written to `save`.
    """
    kept = stored_answers(results, stored)
    before = [s for r in kept for s in r.support]
    if any(t.context is None for t in triplets):
        known = sum(s.label is not None for s in before)
        where = f"labels stored in {stored.parent.name}/{stored.name}" if stored else "stored labels"
        return Checked(kept, stored_answers(results, stored, elsewhere=True),
                       f"{where}, for {known:,} of {len(before):,} points")
    supporter = LocalSupporter()
    found = with_support(results, triplets, supporter)
    elsewhere = with_support(results, exchanged(triplets), supporter)
    if save is not None:
        write_csv(save, label_table(found, elsewhere))
    now = [s for r in found for s in r.support]
    differ = [a.label != b.label for a, b in zip(before, now, strict=True) if a.reason != NOT_STORED]
    source = f"checked now, against the documents; {sum(differ)} of {len(differ)} stored labels differ"
    return Checked(found, elsewhere, source)


def exchanged(triplets: Sequence[Triplet]) -> list[Triplet]:
    """Each triplet with the context of the next group, in the order of names; the last has the first's."""
    of_group = {t.group: t.context for t in triplets}
    groups = sorted(of_group)
    if len(groups) < 2:
        return list(triplets)
    following = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    return [replace(t, context=of_group[following[t.group]]) for t in triplets]


def label_table(found: Sequence[EMSResult], elsewhere: Sequence[EMSResult] = ()) -> pd.DataFrame:
    """A row for each different point of an answer, without any text of the document but numbers.

    Columns: `COLUMNS`. `elsewhere` has the same answers against another document; () for none.
    """
    rows = []
    for r, other in zip_longest(found, elsewhere):
        others = [s.label for s in other.support] if other else [None] * len(r.support)
        rows += [(r.triplet_id, r.model, point_id(point), s.label, s.passage,
                  *(json.dumps(numbers) if numbers else "" for numbers in (s.missing, s.derived)), s.reason,
                  label, "support:" + r.signature.rpartition("|support:")[2])
                 for point, s, label in zip(r.ans_points, r.support, others, strict=True)]
    return pd.DataFrame(rows, columns=COLUMNS).drop_duplicates(KEYS).astype({"passage": "Int64"})


def stored_answers(results: Sequence[EMSResult], stored: Path | None, *, elsewhere: bool = False
                   ) -> list[EMSResult]:
    """The results with the labels of a `label_table`'s file; a point without one is unscored, all are without
    a file. InputError for another table.
    """
    kept: dict[Any, dict[str, str]] = {}
    if stored and stored.is_file():
        table = pd.read_csv(stored, dtype=str, keep_default_na=False).map(unguarded)
        if absent := [name for name in COLUMNS if name not in table]:
            raise InputError(f"{stored} must have columns {', '.join(COLUMNS)}; {', '.join(absent)} missing")
        kept = table.drop_duplicates(KEYS, keep="last").set_index(KEYS).to_dict("index")
    labelled = []
    for r in results:
        rows = [kept.get((r.triplet_id, r.model, point_id(point))) for point in r.ans_points]
        signatures = {row["signature"] for row in rows if row}
        support = tuple(_stored(row, elsewhere) if row else Support(None, reason=NOT_STORED) for row in rows)
        labelled.append(replace(r, support=support, signature="|".join([r.signature, *sorted(signatures)])))
    return labelled


def _stored(row: dict[str, str], elsewhere: bool) -> Support:
    if elsewhere:
        return Support(row["elsewhere"] or None, reason=row["reason"])
    missing, derived = (tuple(json.loads(row[name] or "[]")) for name in ("missing", "derived"))
    passage = int(row["passage"]) if row["passage"] else None
    return Support(row["label"] or None, passage, "", missing, derived, row["reason"])


# --- what notebook 8 shows ---

def values(checked: Checked, triplets: Sequence[Triplet]) -> pd.DataFrame:
    """The values frame of a run's answers: `data.support_frame`, and `FLOOR` from the other documents.

    Without rows where nothing has a label: then there is nothing to say.
    """
    own, floor = (frames.support_frame(results, triplets) for results in (checked.results, checked.elsewhere))
    if own["value"].isna().all():
        return own.iloc[:0]
    frame = pd.concat([own, floor[floor["metric"] == "EMS-Support"].assign(metric=FLOOR)], ignore_index=True)
    # one signature a metric: that of an answer none of whose points has a label lacks the rule's
    longest = frame.groupby("metric")["signature"].transform(lambda column: max(column, key=len))
    return frame.assign(signature=longest)


def shares(results: Sequence[EMSResult]) -> pd.DataFrame:
    """Where an answer's points go, a row a model: shares of all its points, which add up to 1.

    matched: earns something in eq. 8; blind spot: nothing, and supported; unsupported: nothing, checked and
    not supported; not checked: nothing, and nothing to check it by; unscored.
    """
    table = pd.DataFrame([(r.model, place) for r in results for place in _places(r)],
                         columns=["model", "place"])
    counted = pd.crosstab(table["model"], table["place"], normalize="index")
    return counted.reindex(index=table["model"].unique(), columns=PLACES, fill_value=0.0)


def most_mixed(results: Sequence[EMSResult]) -> EMSResult:
    """The result to show: that with points in most places, then with the largest share of the rarest place.

    A point that an answer repeats counts once; of equals the first by id and model. InputError without
    results.
    """
    if not results:
        raise InputError("there are no results: nothing was scored")

    def order(r: EMSResult) -> tuple[int, float, str, str]:
        counts = Counter(dict(zip(r.ans_points, _places(r), strict=False)).values())
        rarest = min(counts.values(), default=0) / max(1, len(r.ans_points))
        return -len(counts), -rarest, r.triplet_id, r.model
    return min(results, key=order)


def _places(result: EMSResult) -> list[str]:
    """Where each answer point goes, one of `PLACES`."""
    return [_place(score, s) for score, s in zip(result.ans_score, result.support, strict=True)]


def _place(score: float | None, support: Support) -> str:
    if score is None or support.label is None:
        return "unscored"
    if score > 0:
        return "matched"
    if not support.checked:
        return "not checked"
    return "blind spot" if support.label == "supported" else "unsupported"


def summary(frame: pd.DataFrame, models: Sequence[str], cluster: str = "group") -> pd.DataFrame:
    """`stats.summarise` of the values, its models in this order; empty for values without rows."""
    if frame.empty:
        return pd.DataFrame(columns=[*COLUMNS_OF_SUMMARY, "coverage"])
    table = summarise(frame, cluster=cluster)
    return table[table["model"].isin(models)].sort_values(
        "model", key=lambda column: column.map(list(models).index), kind="stable", ignore_index=True)


def differences(frame: pd.DataFrame, models: Sequence[str], baseline: str = "",
                cluster: str = "group", metric: str = "EMS-Support") -> list[Paired]:
    """Each model's value of a metric less the baseline's, over the questions for which both have one.

    Where `baseline` is not among the models, the first of them takes its place.
    """
    if frame.empty:
        return []
    baseline = baseline if baseline in models else models[0]
    return [paired(frame, metric, "Score", model, baseline, cluster=cluster)
            for model in models if model != baseline]


def findings(table: pd.DataFrame, gaps: Sequence[Paired], places: pd.DataFrame) -> str:
    """What the check against the documents says, in words: from `summary`, `differences` and `shares`."""
    if table.empty:
        return ("**Nothing was checked.** This run's triplets have no context, and no labels are stored for "
                "its points: put the documents into the triplets, or name their folder in TRANSCRIPTS.")
    lines = []
    cells = table.set_index(["metric", "model"]).to_dict("index")
    for model in dict.fromkeys(table["model"]):
        own, floor = cells.get(("EMS-Support", model)), cells.get((FLOOR, model))
        if own is None or pd.isna(own["value"]):
            lines.append(f"- **{markdown_text(model)}**: no point could be checked.")
            continue
        by_chance = "" if floor is None or pd.isna(floor["value"]) else (
            f"; against another company's document {in_percent(floor)}, which is what chance gives")
        lines.append(
            f"- **{markdown_text(model)}**: on average over the {own['n']} answers with points to check, the "
            f"document supports {in_percent(own)} of these points ({percent(own['coverage'])} of "
            f"all points; the others have no amount){by_chance}. Of all points together "
            f"{percent(places.loc[model, 'blind spot'])} earn nothing in eq. 8 and are supported, "
            f"{percent(places.loc[model, 'unsupported'])} earn nothing, were checked and are not.")
    for gap in gaps:
        lines.append(f"- {named(gap)}, over the {gap.n} questions and "
                     f"{gap.clusters} groups in which both have a point to check"
                     + (f": too few groups for an interval ({MIN_CLUSTERS} are needed), so that nothing "
                        "follows from it." if pd.isna(gap.ci_low) else "."))
    return "\n".join(lines)


def named(gap: Paired) -> str:
    """A difference between two models in points of 100, with its interval where there is one."""
    ends = interval(100 * gap.ci_low, 100 * gap.ci_high, "+.0f")
    return (f"**{markdown_text(gap.a)}** less **{markdown_text(gap.b)}**: "
            f"{100 * gap.difference:+.0f} points of 100{ends}")


# --- edited references ---

def edited_values(triplets: Sequence[Triplet], *, stored: Path | None = None, save: Path | None = None
                  ) -> pd.DataFrame:
    """EMS-Support of one reference a group, unedited and after each edit (`model`), as a values frame.

    Changed numbers should lower it; an order turned round should not. Of more than `TEXTS` groups the first
    by name are taken. Without documents, rows come from the file `stored`, for these triplets alone: none
    where it has none. What was computed is written to `save`.
    """
    first = {t.group: t for t in sorted(triplets, key=lambda t: t.id, reverse=True)}
    texts = [t for _, t in sorted(first.items())[:TEXTS]]
    if any(not t.context for t in texts):
        none = pd.DataFrame(columns=frames.COLUMNS)
        kept = frames.read_frames(stored) if stored and stored.is_file() else none
        return kept[kept["triplet_id"].isin([t.id for t in texts])].reset_index(drop=True)
    answers, _ = edited_answers(texts, [DOSE], seed=SEED)
    points = SentenceExtractor()([answer.answer for answer in answers])
    results = [EMSResult(a.triplet_id, a.model.partition("@")[0], (), of_answer or (), (),
                         signature=f"edits:dose={DOSE},seed={SEED}")
               for a, of_answer in zip(answers, points, strict=True)]
    frame = frames.support_frame(with_support(results, texts, LocalSupporter()), texts)
    frame = frame[frame["metric"] == "EMS-Support"].reset_index(drop=True)
    if save is not None:
        write_csv(save, frame.round(5))
    return frame


def edit_losses(frame: pd.DataFrame) -> pd.DataFrame:
    """A row an edit, in `edits`' order: harm, support before, loss with its 95 % interval over groups, texts.

    Loss is the support of a text less that of its edited version, in [-1, 1], over the texts for which both
    have a sentence to check. Without rows for an empty frame.
    """
    before = frame.loc[frame["model"] == "unedited", "value"].mean()
    rows = []
    for edit in EDITS:
        if edit.name in set(frame["model"]):
            gap = paired(frame, "EMS-Support", "Score", "unedited", edit.name)
            rows.append((edit.name, edit.harm, before, gap.difference, gap.ci_low, gap.ci_high, gap.n))
    columns = ["edit", "harm", "support before", "loss", "ci_low", "ci_high", "texts"]
    return pd.DataFrame(rows, columns=columns)
