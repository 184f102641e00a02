"""Two sets of results of the same questions: how far the second differs from the first, and where.

For two systems, two judges or two versions of a prompt. Results are joined by question and model, or by
question alone where each set has one model. Reference points are joined by their text, never by position.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ..data import to_frame
from ..io import some
from ..metrics import scores_of
from ..stats import MIN_CLUSTERS, holm, paired_table
from ..types import EMSResult, InputError, Triplet
from .display import visible

ANSWER = ["model", "triplet_id"]               # the columns that results are joined by


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found. Differences are B less A: positive where B is higher.

    parts      a row a model and part (Recall, Precision, F1): means of both over the answers that both score,
               `difference` with its 95 % interval, the sign-flip test's p, adjusted (Holm) over the models of
               a part, n, clusters, and what was left out: only_a, only_b, unscored.
    answers    a row an answer with F1 in both: a, b and change, the largest change first.
    points     a row a reference point that both extracted and scored: a, b and change, the largest first.
    ref_points how many reference points A has on the joined answers; `shared_points` of them B has as well.
    left_out   models that one side alone has.
    """

    parts: pd.DataFrame
    answers: pd.DataFrame
    points: pd.DataFrame
    ref_points: int
    shared_points: int
    left_out: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Everything as one JSON document; nan becomes null."""
        tables = {name: json.loads(getattr(self, name).to_json(orient="records"))
                  for name in ("parts", "answers", "points")}
        return json.dumps({**tables, "ref_points": self.ref_points, "shared_points": self.shared_points,
                           "left_out": self.left_out})

    def text(self, top: int = 5) -> str:
        """The comparison for a terminal, with the `top` answers and points that changed most."""
        lines = [*_parts_text(self.parts), ""]
        lines += _changes_text("Answers whose F1 changed most", self.answers, top)
        if self.shared_points:
            lines += ["", *_changes_text("Reference points whose score changed most", self.points, top)]
        lines.append("")
        lines.append(f"{self.shared_points} of the {self.ref_points} reference points in A are in B, word "
                     "for word; points are compared where they are.")
        lines += [f"On one side only: {visible(model)}" for model in self.left_out]
        return "\n".join(lines)


def compare(a: Sequence[EMSResult], b: Sequence[EMSResult], *, triplets: Sequence[Triplet] | None = None,
            cluster: str = "group", seed: int = 7) -> Comparison:
    """Compare two sets of results of one metric. `triplets` give the groups that intervals and tests are
    over; without them every question stands alone. InputError where nothing joins.
    """
    *sides, left_out = _named_alike(a, b)
    values = [to_frame(side, triplets=triplets) for side in sides]
    answers = _joined([table.loc[table["part"] == "F1", [*ANSWER, "value"]] for table in values], ANSWER)
    if answers.empty:
        raise InputError(f"nothing to compare: A has answers of {_named(a)}, B of {_named(b)}; both must "
                         "answer the same questions, and have the same models unless each has one")
    both = set(answers[ANSWER].itertuples(index=False, name=None))
    points = [_points(r for r in side if (r.model, r.triplet_id) in both) for side in sides]
    shared = _joined(points, [*ANSWER, "point", "nth"]).drop(columns="nth")
    return Comparison(_parts(values, answers["model"].unique(), cluster, seed), _changed(answers),
                      _changed(shared), len(points[0]), len(shared), left_out)


def _named_alike(a: Sequence[EMSResult], b: Sequence[EMSResult]
                 ) -> tuple[list[EMSResult], list[EMSResult], tuple[str, ...]]:
    """The results of models that both sides have, under one name where each has one; the models left out."""
    models_a, models_b = ({r.model: None for r in side} for side in (a, b))
    if len(models_a) == len(models_b) == 1:
        name = " → ".join(models_a | models_b)
        return [replace(r, model=name) for r in a], [replace(r, model=name) for r in b], ()
    return ([r for r in a if r.model in models_b], [r for r in b if r.model in models_a],
            tuple(sorted(models_a.keys() ^ models_b.keys())))


def _named(side: Sequence[EMSResult]) -> str:
    models = list(dict.fromkeys(r.model for r in side))
    return f"{some(models)} to {some([r.triplet_id for r in side])}"


def _points(results: Iterable[EMSResult]) -> pd.DataFrame:
    """A row a reference point with its score; `nth` tells the repetitions of a point in an answer apart."""
    rows = [(r.model, r.triplet_id, point, score)
            for r in results for point, score in zip(r.ref_points, scores_of(r), strict=True)]
    table = pd.DataFrame(rows, columns=[*ANSWER, "point", "value"])
    return table.assign(nth=table.groupby([*ANSWER, "point"]).cumcount())


def _joined(sides: Sequence[pd.DataFrame], key: list[str]) -> pd.DataFrame:
    """What both sides have, in the order of the first: the value of each as columns `a` and `b`."""
    a, b = (side.rename(columns={"value": name}) for side, name in zip(sides, "ab", strict=True))
    return a.merge(b, on=key)


def _changed(joined: pd.DataFrame) -> pd.DataFrame:
    """Rows with a value on both sides, the largest change first; equal ones in their order."""
    table = joined.dropna().astype({"a": float, "b": float})
    table["change"] = table["b"] - table["a"]
    return table.sort_values("change", key=abs, ascending=False, kind="stable", ignore_index=True)


def _parts(values: Sequence[pd.DataFrame], models: Collection[str], cluster: str, seed: int) -> pd.DataFrame:
    """`Comparison.parts`: B and A as two models of a metric, which has the compared model's name."""
    table = pd.concat([side.assign(metric=side["model"], model=name)
                       for side, name in zip(values, "AB", strict=True)])
    table = table[table["metric"].isin(models)]
    found = paired_table(table, models=["A", "B"], cluster=cluster, seed=seed).drop(columns=["a", "b"])
    wide = table.pivot(index=["metric", "part", "triplet_id"], columns="model", values="value").dropna()
    means = wide.groupby(["metric", "part"]).mean().rename(columns={"A": "a", "B": "b"})
    found = found.join(means, on=["metric", "part"]).set_index("metric").loc[list(models)]
    found = found.rename_axis("model").reset_index().rename(columns={"only_a": "only_b", "only_b": "only_a"})
    found["p_holm"] = found.groupby("part")["p"].transform(holm)
    return found[["model", "part", "a", "b", "difference", "ci_low", "ci_high", "p", "p_holm", "n",
                  "clusters", "only_a", "only_b", "unscored"]]


def _parts_text(parts: pd.DataFrame) -> list[str]:
    lines = []
    for model, rows in parts.groupby("model", sort=False):
        first = rows.iloc[0]
        clusters = f"{first.clusters} cluster{'' if first.clusters == 1 else 's'}"
        lines.append(f"{visible(str(model), 90)}: {first.n} answers in {clusters} "
                     f"(A alone {first.only_a}, B alone {first.only_b}, unscored {first.unscored})")
        lines.append(f"  {'':<10}{'A':>7}{'B':>8}{'B - A':>9}   "
                     f"{'95 % interval':<19}{'p':>7}{'p (Holm)':>10}")
        for row in rows.itertuples(index=False):
            interval = ("–" if math.isnan(row.ci_low) else f"[{row.ci_low:+.3f}, {row.ci_high:+.3f}]")
            lines.append(f"  {row.part:<10}{row.a:>7.3f}{row.b:>8.3f}{row.difference:>+9.3f}   {interval:<19}"
                         f"{row.p:>7.2g}{row.p_holm:>10.2g}")
    if parts["ci_low"].isna().any():
        lines.append(f"No interval with fewer than {MIN_CLUSTERS} clusters: too few to say how they vary.")
    return lines


def _changes_text(title: str, table: pd.DataFrame, top: int) -> list[str]:
    moved = table[table["change"].abs() > 0]
    lines = [f"{title} ({len(moved)} of {len(table)} changed):"]
    for row in moved.head(top).to_dict("records"):
        name = f"{visible(row['triplet_id'], 40)}  {visible(row['model'], 60)}"
        lines.append(f"  {row['a']:.2f} → {row['b']:.2f} ({row['change']:+.2f})  {name}")
        if "point" in row:
            lines.append(f"      {visible(row['point'], 110)}")
    return lines
