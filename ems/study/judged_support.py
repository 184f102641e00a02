"""Support by a judge beside support by numbers, on some of a run's answers, for notebook 8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..data import support_frame
from ..io import write_csv
from ..pipeline import with_support
from ..report import markdown_text
from ..stats import Paired
from ..support.support import LLMSupporter
from ..types import EMSResult, Judge, MissingReplies, Triplet
from .document_check import from_labels, label_table, named, percent, read_labels, with_contexts

LABELS = ["supported", "contradicted", "silent"]
BY_NUMBERS, BY_JUDGE = "EMS-Support by numbers", "EMS-Support by the judge"      # metrics of `values`


def sample(results: Sequence[EMSResult], triplets: Sequence[Triplet]) -> list[EMSResult]:
    """The results of one question a group: the first group's first, the second group's second, and so on."""
    of_group: dict[str, list[str]] = {}
    for triplet in triplets:
        of_group.setdefault(triplet.group, []).append(triplet.id)
    chosen = {ids[i % len(ids)] for i, (_, ids) in enumerate(sorted(of_group.items()))}
    return [r for r in results if r.triplet_id in chosen]


def judged_answers(results: Sequence[EMSResult], triplets: Sequence[Triplet], judge: Judge | None = None, *,
                   transcripts: Path | None = None, stored: Path | None = None, save: Path | None = None
                   ) -> tuple[list[EMSResult], str]:
    """The `sample` of these results with what a judge says of their points, those without any label left out;
    and where the labels come from, for people.

    By `judge` now, where the documents are at hand (as in `document_check.checked_answers`; then written to
    `save`); from the file `stored` without a judge, or where its recorded replies do not suffice.
    """
    some, whole = sample(results, triplets), with_contexts(triplets, transcripts)
    source = f"labels stored in {stored.parent.name}/{stored.name}" if stored else "no labels are stored"
    judged: list[EMSResult] | None = None
    if judge is not None and all(t.context is not None for t in whole):
        try:
            judged = with_support(some, whole, LLMSupporter(judge))
        except MissingReplies as error:
            source += f": {error}"
        else:
            source = "labelled now, from recorded replies"
            if save is not None:
                write_csv(save, label_table(judged))
    if judged is None:
        kept = read_labels(stored) if stored and stored.is_file() else {}
        judged = [from_labels(r, kept) for r in some]
    return [r for r in judged if any(s.label is not None for s in r.support)], source


def crossed(checked: Sequence[EMSResult], judged: Sequence[EMSResult]) -> pd.DataFrame:
    """Points by what the numbers say (rows, also "not checked") and what the judge says (columns).

    The results are joined by answer, their points by place; a point without a label by either is left out.
    """
    labels = _points(checked, judged)
    return pd.crosstab(labels["numbers"], labels["judge"]).reindex(
        index=[*LABELS, "not checked"], columns=LABELS, fill_value=0)


def values(checked: Sequence[EMSResult], judged: Sequence[EMSResult], triplets: Sequence[Triplet]
           ) -> pd.DataFrame:
    """The values frame of the judged answers' EMS-Support: `BY_NUMBERS` and `BY_JUDGE`."""
    both, parts = {(r.triplet_id, r.model) for r in judged}, []
    same = [r for r in checked if (r.triplet_id, r.model) in both]
    for metric, results in ((BY_NUMBERS, same), (BY_JUDGE, judged)):
        frame = support_frame(results, triplets)
        parts.append(frame[frame["metric"] == "EMS-Support"].assign(metric=metric))
    return pd.concat(parts, ignore_index=True)


def _points(checked: Sequence[EMSResult], judged: Sequence[EMSResult]) -> pd.DataFrame:
    by_numbers = {(r.triplet_id, r.model): r.support for r in checked}
    rows = [(r.triplet_id, r.model, a.label if a.checked else "not checked", b.label)
            for r in judged for a, b in zip(by_numbers[r.triplet_id, r.model], r.support, strict=True)
            if a.label is not None and b.label is not None]
    return pd.DataFrame(rows, columns=["triplet_id", "model", "numbers", "judge"])


def findings(checked: Sequence[EMSResult], judged: Sequence[EMSResult], table: pd.DataFrame,
             gaps: Sequence[Paired]) -> str:
    """The judge beside the numbers in words: from the results, `document_check.summary` of `values`, and the
    models' differences by the judge.
    """
    if not judged:
        return "- **By a judge**: no labels are stored for the answers of this run."
    counts = crossed(checked, judged)
    without = counts.loc[["contradicted", "silent"]].sum()
    means = "; ".join(f"{markdown_text(row.model)} {percent(row)}"
                      for row in table[table["metric"] == BY_JUDGE].itertuples(index=False))
    return "\n".join([
        f"- **By a judge**, which read every point of {len(judged)} answers: it supports "
        f"{_of(counts.loc['supported'])} points that the numbers support, {_of(without)} that they do not, "
        f"and {_of(counts.loc['not checked'])} that they could not check. EMS-Support by the judge: {means}.",
        *(f"- By the judge, {named(gap)}, over {gap.n} questions." for gap in gaps)])


def _of(counts: pd.Series) -> str:
    whole = counts.sum()
    share = f" ({100 * counts['supported'] / whole:.0f} %)" if whole else ""
    return f"{counts['supported']} of the {whole}{share}"
