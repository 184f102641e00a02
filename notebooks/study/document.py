"""Are the answers' points in the documents? A judge's stored labels, without the documents' texts.

A label is stored under a hash of its point: no text is needed to join it to a run's alignments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ems.analysis.findings import series
from ems.analysis.frames import of_rows
from ems.analysis.labels import kappa
from ems.analysis.stats import mean_over
from ems.analysis.tables import with_interval
from ems.io import read_text
from ems.judge import Judge
from ems.results import EMSResult, Support
from ems.support.supporter import check_by_judge
from ems.types import Answer, Triplet

from . import ROOT, datasets, sample_of_each_model, upstream, write_csv

TWICE = 4  # answers of each model whose labels are made twice
FINDVER_PASSAGES = 10  # that the judge is shown with a claim
LABEL_COLUMNS = ["triplet_id", "model", "point", "label", "passage", "reason"]


# --- labels ---


def point_id(point: str) -> str:
    """Twelve hex digits that name a point by its text."""
    return hashlib.sha256(point.encode(errors="surrogatepass")).hexdigest()[:12]


def label_table(results: Sequence[EMSResult]) -> pd.DataFrame:
    """The labels of all points, one row a point of an answer; columns `LABEL_COLUMNS`.

    `point` is the hash of its text.
    """
    rows = []
    for r in results:
        for point, support in zip(r.ans_points, r.support, strict=True):
            label = (support.label, support.passage, support.reason)
            rows.append((r.triplet_id, r.model, point_id(point), *label))
    table = pd.DataFrame(rows, columns=LABEL_COLUMNS).astype({"passage": "Int64"})
    return table.drop_duplicates(["triplet_id", "model", "point"])


def with_stored_labels(results: Sequence[EMSResult], path: Path) -> list[EMSResult]:
    """The results that the file `path` of a `label_table` has labels for, with these.

    They are joined by answer and point. A point that the file does not have is unscored, not
    silent. InputError when the file cannot be read.
    """
    read_text(path)
    table = pd.read_csv(path, keep_default_na=False, na_values={"passage": ""})
    rows = {(row.triplet_id, row.model, row.point): row for row in table.itertuples(index=False)}
    answers = {(triplet_id, model) for triplet_id, model, _ in rows}
    labelled = []
    for result in results:
        if (result.triplet_id, result.model) not in answers:
            continue
        supports = []
        for point in result.ans_points:
            row = rows.get((result.triplet_id, result.model, point_id(point)))
            if row is None:
                supports.append(Support(None, reason="no label is stored"))
            else:
                supports.append(Support(row.label or None, reason=row.reason))
        labelled.append(replace(result, support=tuple(supports)))
    return labelled


def without_company_names(results: Sequence[EMSResult]) -> list[EMSResult]:
    """The results about companies of data/companies.csv, their answers' points without its names.

    "the company" stands in place of each name.
    """
    companies = pd.read_csv(ROOT / "data" / "companies.csv", index_col="ticker").to_dict("index")
    renamed = []
    for result in results:
        if result.group not in companies:
            continue
        company = companies[result.group]
        names = [company["company"], *company["names"].split("|"), *company["symbols"].split()]
        pattern = "|".join(re.escape(name) for name in names)
        regex = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
        points = tuple(regex.sub("the company", point) for point in result.ans_points)
        renamed.append(replace(result, ans_points=points))
    return renamed


def stored_labels(results: Sequence[EMSResult], folder: Path) -> dict[str, list[EMSResult]]:
    """The results with the stored labels of each of `label_sets`, by its name."""
    renamed = without_company_names(results)
    labelled = {}
    for name in ("judged", "elsewhere", "unnamed", "again"):
        points_of = renamed if name == "unnamed" else results
        labelled[name] = with_stored_labels(points_of, folder / f"support_{name}.csv")
    return labelled


def label_sets(
    results: Sequence[EMSResult],
    triplets: Sequence[Triplet],
    judge: Judge,
    second: Judge,
) -> dict[str, list[EMSResult]]:
    """The labels of four stored files, by name, made from the calls that triplets have as contexts.

    judged      every answer beside its own call
    elsewhere   answers to one question a group, beside the call of the next group
    unnamed     the same, without their company's names
    again       a few answers of each model a second time, by the judge `second`
    """
    calls = {t.id: t.context or "" for t in triplets}
    other_calls = _calls_of_next_group(triplets)
    asked = _one_question_a_group(triplets)
    elsewhere = [r for r in results if r.triplet_id in asked]
    answers = [Answer(r.triplet_id, r.model, "") for r in results]
    drawn = {(a.triplet_id, a.model) for a in sample_of_each_model(answers, TWICE)}
    again = [r for r in results if (r.triplet_id, r.model) in drawn]
    unnamed = without_company_names(elsewhere)
    return {
        "judged": check_by_judge(results, calls, judge),
        "elsewhere": check_by_judge(elsewhere, other_calls, judge),
        "unnamed": check_by_judge(unnamed, other_calls, judge),
        "again": check_by_judge(again, calls, second),
    }


def _calls_of_next_group(triplets: Sequence[Triplet]) -> dict[str, str]:
    """For each triplet's id the call of the next group by name; the first one's for the last."""
    texts = {t.group: t.context or "" for t in triplets}
    groups = sorted(texts)
    following = dict(zip(groups, [*groups[1:], *groups[:1]], strict=True))
    return {t.id: texts[following[t.group]] for t in triplets}


def _one_question_a_group(triplets: Sequence[Triplet]) -> set[str]:
    """Ids of triplets: of the first group by name its first, of the second its second, and so on.

    After a group's last question comes its first again.
    """
    ids = set()
    for i, group in enumerate(sorted({t.group for t in triplets})):
        of_group = [t.id for t in triplets if t.group == group]
        ids.add(of_group[i % len(of_group)])
    return ids


# --- what the labels show ---


def by_model(results: Sequence[EMSResult], metric: str) -> pd.DataFrame:
    """The share of supported points of each answer, as a frame of values of the metric so named.

    An answer without a label has no row.
    """
    rows = []
    for r in results:
        labels = [support.label for support in r.support if support.label is not None]
        if labels:
            share = labels.count("supported") / len(labels)
            names = (metric, "Score", r.model, r.triplet_id, r.group)
            unscored = len(r.support) - len(labels)
            rows.append((*names, share, share, 1.0, len(r.support), unscored, metric))
    return of_rows(rows)


def support_findings(
    summary: pd.DataFrame, points: pd.DataFrame, names: Mapping[str, str]
) -> list[str]:
    """Sentences: what share of an answer's points is supported, and what precision counts of all.

    `summary` is a table of `ems.summarise` of one metric of `by_model`, `points` that of
    `support_table`; `names` has the systems in order, with short names.
    """
    rows = summary.merge(points, on="model").set_index("model").loc[list(names)]
    shares, pooled = [], []
    for name, row in zip(names.values(), rows.to_dict("records"), strict=True):
        mean = with_interval(row["value"], row["ci_low"], row["ci_high"])
        shares.append(f"{mean} for {name}")
        lost = row["supported but unmatched"]
        pooled.append(f"{row['supported']:.2f} ({lost:.2f} unmatched) for {name}")
    return [
        f"Of the points of an answer the call supports, on average, {series(shares)}.",
        "Over the points of all answers together, where a long answer weighs more, the supported "
        f"share is {series(pooled)}. Unmatched means that no reference point chose the point, so "
        "that precision gives it nothing.",
    ]


def agreement_of_readings(first: Sequence[EMSResult], second: Sequence[EMSResult]) -> pd.DataFrame:
    """How far a second reading agrees with the first, over the points that both have a label of.

    One row: answers, points, `same label` (the share of points) and Cohen's kappa, which is nan
    where both give one label to all points. A point that an answer repeats counts once.
    """
    both = pd.DataFrame({"first": _labels(first), "second": _labels(second)}).dropna()
    row = {
        "answers": len(second),
        "points": len(both),
        "same label": (both["first"] == both["second"]).mean(),
        "kappa": kappa(both["first"], both["second"]),
    }
    return pd.DataFrame([row])


def _labels(results: Sequence[EMSResult]) -> pd.Series:
    """The label of every point, by triplet, model and text."""
    labels = {}
    for r in results:
        for point, support in zip(r.ans_points, r.support, strict=True):
            labels[r.triplet_id, r.model, point] = support.label
    return pd.Series(labels, dtype=object)


# --- FinDVer's claims ---


def findver_labels(path: Path, judge: Judge | None = None) -> pd.DataFrame:
    """A judge's labels of FinDVer's claims beside their filings, from the file `path`.

    With a judge they are made from the filings and written to `path` first. Columns: triplet_id,
    group, subset, entailed (the experts' verdict), label, reason.
    """
    if judge is not None:
        write_csv(path, _judged_claims(datasets.findver_rows(), judge))
    read_text(path)  # InputError where it cannot be read
    return pd.read_csv(path)


def _judged_claims(claims: Mapping[str, Mapping[str, str]], judge: Judge) -> pd.DataFrame:
    filings = {}
    for name in upstream.pinned("findver/financial_reports"):
        parts = upstream.pinned_rows(name)["context"]
        filings[Path(name).name] = [part["context"] for part in parts]
    claims = {name: claim for name, claim in claims.items() if claim["report"] in filings}
    contexts = {name: filings[claim["report"]] for name, claim in claims.items()}
    points = []
    for name, claim in claims.items():
        points.append(EMSResult(name, "claim", (), (claim["statement"],), ()))
    rows = []
    for result in check_by_judge(points, contexts, judge, k=FINDVER_PASSAGES):
        claim = claims[result.triplet_id]
        rows.append(
            {
                "triplet_id": result.triplet_id,
                "group": claim["group"],
                "subset": claim["subset"],
                "entailed": claim["entailment_label"],
                "label": result.support[0].label,
                "reason": result.support[0].reason,
            }
        )
    return pd.DataFrame(rows)


def claim_accuracy(claims: pd.DataFrame) -> pd.DataFrame:
    """The share of claims that the judge labels as the experts do, with its 95 % interval.

    A claim that the judge calls supported is taken as entailed, any other as refuted. Rows: all
    claims, and those of each verdict of the experts. The interval is over filings.
    """
    scored = claims.dropna(subset="label")
    is_right = (scored["label"] == "supported") == scored["entailed"]
    scored = scored.assign(right=is_right.astype(float))
    tables = {
        "all": scored,
        "entailed": scored[scored["entailed"]],
        "refuted": scored[~scored["entailed"]],
    }
    rows = {}
    for name, table in tables.items():
        mean = mean_over(table["right"], table["group"])
        rows[name] = {
            "claims": mean.n,
            "right": mean.value,
            "ci_low": mean.ci_low,
            "ci_high": mean.ci_high,
        }
    return pd.DataFrame(rows).T
