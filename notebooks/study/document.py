"""Are the answers' points in the documents? Recorded labels of a judge, without the documents' texts.

A label is stored under a hash of its point, so that no text is needed to join it to a run's alignments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ems.analysis.frames import of_rows
from ems.analysis.stats import mean_over
from ems.io import read_text, write_csv
from ems.judge import Judge
from ems.results import EMSResult, Support
from ems.support.supporter import check_by_judge
from ems.types import Answer, Triplet

from . import ROOT, datasets, sample, upstream

AGAIN = 4  # answers of each model whose labels are made twice
FINDVER_PASSAGES = 10  # laid before the judge with a claim
COLUMNS = ["triplet_id", "model", "point", "label", "passage", "reason"]


# --- labels ---


def point_id(point: str) -> str:
    """Twelve hex digits that name a point by its text."""
    return hashlib.sha256(point.encode(errors="surrogatepass")).hexdigest()[:12]


def label_table(results: Sequence[EMSResult]) -> pd.DataFrame:
    """The labels of all points, without their text; columns `COLUMNS`, `point` is its hash."""
    rows = [
        (r.triplet_id, r.model, point_id(point), s.label, s.passage, s.reason)
        for r in results
        for point, s in zip(r.ans_points, r.support, strict=True)
    ]
    return (
        pd.DataFrame(rows, columns=COLUMNS)
        .astype({"passage": "Int64"})
        .drop_duplicates(COLUMNS[:3])
    )


def with_stored_labels(results: Sequence[EMSResult], path: Path) -> list[EMSResult]:
    """The results that the file `path` of a `label_table` has labels for, with these.

    They are joined by answer and point. A point that the file does not have is unscored, not silent.
    """
    read_text(path)  # InputError where it cannot be read
    table = pd.read_csv(path, keep_default_na=False, na_values={"passage": ""})
    known = {(row.triplet_id, row.model, row.point): row for row in table.itertuples(index=False)}
    answers = {(triplet_id, model) for triplet_id, model, _ in known}
    labelled = []
    for result in results:
        if (result.triplet_id, result.model) not in answers:
            continue
        supports = []
        for point in result.ans_points:
            row = known.get((result.triplet_id, result.model, point_id(point)))
            supports.append(
                Support(None, reason="no label is stored")
                if row is None
                else Support(row.label or None, reason=row.reason)
            )
        labelled.append(replace(result, support=tuple(supports)))
    return labelled


def unnamed(results: Sequence[EMSResult]) -> list[EMSResult]:
    """Results about companies of data/companies.csv, with "the company" for its names in answers' points."""
    rows = pd.read_csv(ROOT / "data" / "companies.csv", index_col="ticker").to_dict("index")
    shorn = []
    for r in results:
        if row := rows.get(r.group):
            names = [row["company"], *row["names"].split("|"), *row["symbols"].split()]
            name = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
            shorn.append(
                replace(r, ans_points=tuple(name.sub("the company", p) for p in r.ans_points))
            )
    return shorn


def stored_labels(results: Sequence[EMSResult], folder: Path) -> dict[str, list[EMSResult]]:
    """The results with the stored labels of each of `label_sets`, by its name."""
    whose = {"judged": results, "elsewhere": results, "unnamed": unnamed(results), "again": results}
    return {
        name: with_stored_labels(of, folder / f"support_{name}.csv") for name, of in whose.items()
    }


def label_sets(
    results: Sequence[EMSResult], triplets: Sequence[Triplet], judge: Judge, second: Judge
) -> dict[str, list[EMSResult]]:
    """The labels of four stored files, by name, made from the calls that the triplets have as contexts.

    judged      every answer beside its own call
    elsewhere   answers to one question a group, beside the call of the next group
    unnamed     the same, without their company's names
    again       a few answers of each model a second time, by the judge `second`
    """
    groups = sorted({t.group for t in triplets})
    next_group = dict(zip(groups, [*groups[1:], *groups[:1]], strict=True))
    texts = {t.group: t.context or "" for t in triplets}
    own = {t.id: t.context or "" for t in triplets}
    other = {t.id: texts[next_group[t.group]] for t in triplets}
    ids = [[t.id for t in triplets if t.group == group] for group in groups]
    asked = {
        of_group[i % len(of_group)] for i, of_group in enumerate(ids)
    }  # the first group's first, ...
    few = sample([Answer(r.triplet_id, r.model, "") for r in results], AGAIN)
    twice = {(a.triplet_id, a.model) for a in few}
    some = [r for r in results if r.triplet_id in asked]
    return {
        "judged": check_by_judge(results, own, judge),
        "elsewhere": check_by_judge(some, other, judge),
        "unnamed": check_by_judge(unnamed(some), other, judge),
        "again": check_by_judge(
            [r for r in results if (r.triplet_id, r.model) in twice], own, second
        ),
    }


# --- what they say ---


def by_model(results: Sequence[EMSResult], what: str) -> pd.DataFrame:
    """Share of supported points of each answer as a frame of values, with `what` as its metric."""
    rows = []
    for r in results:
        if labels := [s.label for s in r.support if s.label is not None]:
            share, points = labels.count("supported") / len(labels), len(r.support)
            rows.append(
                (
                    what,
                    "Score",
                    r.model,
                    r.triplet_id,
                    r.group,
                    share,
                    share,
                    1.0,
                    points,
                    points - len(labels),
                    what,
                )
            )
    return of_rows(rows)


def read_twice(first: Sequence[EMSResult], second: Sequence[EMSResult]) -> pd.DataFrame:
    """How far a second reading agrees with the first: share of points with the same label, and Cohen's kappa.

    A point that an answer repeats counts once.
    """
    labels = _labels(first), _labels(second)
    both = pd.DataFrame(dict(zip(("first", "second"), labels, strict=True))).dropna()
    same = (both["first"] == both["second"]).mean()
    shares = [both[side].value_counts(normalize=True) for side in both]
    chance = shares[0].mul(shares[1], fill_value=0).sum()
    return pd.DataFrame(
        [
            {
                "answers": len(second),
                "points": len(both),
                "same label": same,
                "kappa": (same - chance) / (1 - chance) if chance < 1 else float("nan"),
            }
        ]
    )


def _labels(results: Sequence[EMSResult]) -> pd.Series:
    return pd.Series(
        {
            (r.triplet_id, r.model, point): s.label
            for r in results
            for point, s in zip(r.ans_points, r.support, strict=True)
        },
        dtype=object,
    )


# --- FinDVer's claims ---


def findver_claims(path: Path, judge: Judge | None = None) -> pd.DataFrame:
    """What the judge says of FinDVer's claims beside their filings: triplet_id, group, subset, entailed (the
    experts' verdict), label, reason.

    From the file `path`; with a judge from the filings at hand, and then written to `path`.
    """
    if judge is not None:
        write_csv(path, _judged_claims(datasets.findver_rows(), judge))
    read_text(path)
    return pd.read_csv(path)


def _judged_claims(claims: Mapping[str, Mapping[str, str]], judge: Judge) -> pd.DataFrame:
    filings = {
        Path(name).name: [part["context"] for part in upstream.pinned_rows(name)["context"]]
        for name in upstream.pinned("findver/financial_reports")
    }
    claims = {name: claim for name, claim in claims.items() if claim["report"] in filings}
    points = [
        EMSResult(name, "claim", (), (claim["statement"],), ()) for name, claim in claims.items()
    ]
    contexts = {name: filings[claim["report"]] for name, claim in claims.items()}
    checked = check_by_judge(points, contexts, judge, k=FINDVER_PASSAGES)
    return pd.DataFrame(
        [
            {
                "triplet_id": name,
                "group": claim["group"],
                "subset": claim["subset"],
                "entailed": claim["entailment_label"],
                "label": result.support[0].label,
                "reason": result.support[0].reason,
            }
            for (name, claim), result in zip(claims.items(), checked, strict=True)
        ]
    )


def claim_accuracy(claims: pd.DataFrame) -> pd.DataFrame:
    """Claims that the judge calls supported are taken as entailed, all others as refuted: the share of claims
    taken rightly, with its 95 % interval over filings; of all, and by the experts' verdict.
    """
    scored = claims.dropna(subset="label")
    right = (scored["label"] == "supported") == scored["entailed"]
    rows = {}
    for name, verdicts in {"all": [True, False], "entailed": [True], "refuted": [False]}.items():
        kept = scored["entailed"].isin(verdicts)
        mean = mean_over(right[kept].astype(float), scored["group"][kept])
        rows[name] = {
            "claims": mean.n,
            "right": mean.value,
            "ci_low": mean.ci_low,
            "ci_high": mean.ci_high,
        }
    return pd.DataFrame(rows).T
