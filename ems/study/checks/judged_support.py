"""Support by a judge beside support by numbers, for notebook 8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ...asking import Judge
from ...batches import MissingReplies
from ...io import write_csv
from ...results.display import markdown_text
from ...results.matrix import label_matrix
from ...stats import Paired
from ...support.stage import with_support
from ...support.supporters import LLMSupporter
from ...types import EMSResult, Triplet
from ..findings.verdicts import in_percent, percent
from . import document_check
from .document_check import Checked, label_table, named, shares, stored_answers

LABELS = ["supported", "contradicted", "silent"]
SUPPORT, OPEN = "EMS-Support(LLM)", "EMS-open(LLM)"        # metrics of `values`
FLOOR = f"{SUPPORT}, another company's document"           # and of what another document gives


def judged_answers(results: Sequence[EMSResult], triplets: Sequence[Triplet], judge: Judge | None = None, *,
                   stored: Path | None = None, save: Path | None = None) -> tuple[list[EMSResult], str]:
    """These results with what a judge says of their points; and where its labels come from, for people.

    By `judge` now, where all triplets have documents (then written to `save`); from the file `stored` without
    a judge, or where its recorded replies do not suffice. A point without a label is unscored; [] where no
    point has one.
    """
    source = f"labels stored in {stored.parent.name}/{stored.name}" if stored else "no labels are stored"
    judged = stored_answers(results, stored)
    if judge is not None and all(t.context is not None for t in triplets):
        try:
            judged = with_support(results, triplets, LLMSupporter(judge))
            source = "labelled now, from recorded replies"
            if save is not None:
                write_csv(save, label_table(judged))
        except MissingReplies as error:
            source += f": {error}"
    return judged if any(s.label for r in judged for s in r.support) else [], source


def one_a_group(results: Sequence[EMSResult], triplets: Sequence[Triplet]) -> list[EMSResult]:
    """The results of one question a group: the first group's first, the second group's second, and so on."""
    of_group: dict[str, list[str]] = {}
    for triplet in triplets:
        of_group.setdefault(triplet.group, []).append(triplet.id)
    chosen = {ids[i % len(ids)] for i, (_, ids) in enumerate(sorted(of_group.items()))}
    return [r for r in results if r.triplet_id in chosen]


def crossed(checked: Sequence[EMSResult], judged: Sequence[EMSResult]) -> pd.DataFrame:
    """Points by what the numbers say (rows, also "not checked") and what the judge says (columns).

    The results are joined by answer, their points by place; a point without a label by either is left out.
    """
    labels = _points(checked, judged)
    return pd.crosstab(labels["first"], labels["second"]).reindex(
        index=[*LABELS, "not checked"], columns=LABELS, fill_value=0).rename_axis(
        index="by numbers", columns="by the judge")


def values(judged: Sequence[EMSResult], triplets: Sequence[Triplet], elsewhere: Sequence[EMSResult] = ()
           ) -> pd.DataFrame:
    """The values frame of `SUPPORT` and `OPEN`, as `data.support_frame` has them; no rows for no results.

    `elsewhere` has answers that were judged against another company's document, for rows of `FLOOR`.
    """
    frame = document_check.values(Checked(list(judged), list(elsewhere), ""), triplets)
    names = {"EMS-Support": SUPPORT, "EMS-open": OPEN, document_check.FLOOR: FLOOR}
    frame["metric"] = frame["metric"].map(names)
    return frame.dropna(subset="metric").reset_index(drop=True)


def _points(first: Sequence[EMSResult], second: Sequence[EMSResult]) -> pd.DataFrame:
    """The points that have a label in both: a row each, of the answers in `second`."""
    known = {(r.triplet_id, r.model): r.support for r in first}
    rows = [(r.triplet_id, r.model, point, a.label if a.checked else "not checked", b.label)
            for r in second
            for point, a, b in zip(r.ans_points, known[r.triplet_id, r.model], r.support, strict=True)
            if a.label is not None and b.label is not None]
    return pd.DataFrame(rows, columns=["triplet_id", "model", "point", "first", "second"])


def asked_again(judged: Sequence[EMSResult], again: Sequence[EMSResult]) -> pd.DataFrame:
    """How far a judge's second reading agrees with its first, a row: points that differ within their answer,
    share with the same label, and Cohen's kappa; without a row where nothing was read twice.
    """
    points = _points(judged, again).drop_duplicates(["triplet_id", "model", "point"])
    both = label_matrix(points, "first", "second")
    row = {"answers": len(again), "points": both.n, "same label": both.agreement, "kappa": both.kappa}
    return pd.DataFrame([row] if both.n else [], columns=list(row))


def findings(checked: Sequence[EMSResult], judged: Sequence[EMSResult], table: pd.DataFrame,
             gaps: Sequence[Paired]) -> str:
    """The judge beside the numbers in words: from the results by both, `document_check.summary` of `values`,
    and the models' differences by the judge.
    """
    if not judged:
        return "- **By a judge**: no labels are stored for the answers of this run."
    counts, places = crossed(checked, judged), shares(judged)
    without = counts.loc[["contradicted", "silent"]].sum()
    means, chance = ("; ".join(f"{markdown_text(row['model'])} {in_percent(row)}"
                               for row in table[table["metric"] == metric].to_dict("records"))
                     for metric in (SUPPORT, FLOOR))
    blind = "; ".join(f"{markdown_text(str(model))} {percent(share)}"
                      for model, share in places["blind spot"].items())
    return "\n".join([
        f"- **By a judge**, which read every point: it supports {_of(counts.loc['supported'])} points that "
        f"the numbers support, {_of(without)} that they do not, and {_of(counts.loc['not checked'])} that "
        f"they could not check. The document supports, on average over answers: {means}. Of all points "
        f"together, these earn nothing in eq. 8 and are supported: {blind}."
        + (f" Another company's document supports, by chance or in general words: {chance}."
           if chance else ""),
        *(f"- By the judge, {named(gap)}, over {gap.n} questions." for gap in gaps)])


def _of(counts: pd.Series) -> str:
    whole = counts.sum()
    share = f" ({percent(counts['supported'] / whole)})" if whole else ""
    return f"{counts['supported']} of the {whole}{share}"
