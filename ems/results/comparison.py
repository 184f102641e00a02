"""Two sets of results of the same questions: how far the second differs from the first, and where.

For two systems, two judges or two versions of a prompt. Results are joined by question and model, or by
question alone where each set has one model. Reference points are joined by their text, never by position.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ..data import to_frame
from ..io import some
from ..metrics import scores_of
from ..stats import MIN_CLUSTERS, PARTS, Paired, holm, paired
from ..types import EMSResult, InputError, Triplet
from .display import visible

A, B = "A", "B"
Pair = tuple[str, EMSResult, EMSResult]        # the model's name, or both names; the results in A and in B


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
    pairs, left_out = _joined(a, b)
    answers = _changed((model, one.triplet_id, "", one.f1, other.f1) for model, one, other in pairs)
    points = _changed(_point_scores(pairs))
    shared = sum(_shared(one, other) for _, one, other in pairs)
    return Comparison(_parts(pairs, a, b, triplets, cluster, seed), answers.drop(columns="point"), points,
                      sum(len(one.ref_points) for _, one, _ in pairs), shared, left_out)


def _joined(a: Sequence[EMSResult], b: Sequence[EMSResult]) -> tuple[list[Pair], tuple[str, ...]]:
    """Results of the same answer, or of the same question where each side has one model; models left out."""
    models = [list(dict.fromkeys(r.model for r in side)) for side in (a, b)]
    if len(models[0]) == len(models[1]) == 1:
        name = models[0][0] if models[0] == models[1] else f"{models[0][0]} → {models[1][0]}"
        other = {r.triplet_id: r for r in b}
        pairs = [(name, r, other[r.triplet_id]) for r in a if r.triplet_id in other]
        left_out: tuple[str, ...] = ()
    else:
        answered = {(r.triplet_id, r.model): r for r in b}
        pairs = [(r.model, r, answered[key]) for r in a if (key := (r.triplet_id, r.model)) in answered]
        left_out = tuple(sorted(set(models[0]) ^ set(models[1])))
    if not pairs:
        raise InputError(f"nothing to compare: A has answers of {some(models[0])} to "
                         f"{some([r.triplet_id for r in a])},"
                         f" B of {some(models[1])} to {some([r.triplet_id for r in b])}; both must answer "
                         "the same questions, and have the same models unless each has one")
    return pairs, left_out


def _parts(pairs: Sequence[Pair], a: Sequence[EMSResult], b: Sequence[EMSResult],
           triplets: Sequence[Triplet] | None, cluster: str, seed: int) -> pd.DataFrame:
    rows = []
    for model in dict.fromkeys(name for name, _, _ in pairs):
        first = {one.model for name, one, _ in pairs if name == model}
        second = {other.model for name, _, other in pairs if name == model}
        sides = [replace(r, model=A) for r in a if r.model in first]
        sides += [replace(r, model=B) for r in b if r.model in second]
        values = to_frame(sides, triplets=triplets)
        for part in PARTS[1:]:
            found = paired(values, "EMS", part, B, A, cluster=cluster, seed=seed)
            rows.append({"model": model, "part": part, **_means(values, part), **_swapped(found)})
    table = pd.DataFrame(rows)
    table.insert(table.columns.get_loc("p") + 1, "p_holm", table.groupby("part")["p"].transform(holm))
    return table


def _means(values: pd.DataFrame, part: str) -> dict[str, float]:
    """Mean of each side over the questions that both have a value for."""
    wide = values[values["part"] == part].pivot(index="triplet_id", columns="model", values="value")
    means = wide.reindex(columns=[A, B]).dropna().mean()
    return {"a": float(means[A]), "b": float(means[B])}


def _swapped(found: Paired) -> dict[str, float]:
    """The numbers of `stats.paired`, whose first model is B here."""
    return {"difference": found.difference, "ci_low": found.ci_low, "ci_high": found.ci_high, "p": found.p,
            "n": found.n, "clusters": found.clusters, "only_a": found.only_b, "only_b": found.only_a,
            "unscored": found.unscored}


def _point_scores(pairs: Sequence[Pair]) -> Iterator[tuple[str, str, str, float | None, float | None]]:
    """Model, question, text and both scores of every reference point that stands on both sides."""
    for model, one, other in pairs:
        theirs: dict[str, list[float | None]] = {}
        for point, score in zip(other.ref_points, scores_of(other), strict=True):
            theirs.setdefault(point, []).append(score)
        for point, score in zip(one.ref_points, scores_of(one), strict=True):
            if left := theirs.get(point):          # a repeated point is joined with its next repetition
                yield model, one.triplet_id, point, score, left.pop(0)


def _shared(one: EMSResult, other: EMSResult) -> int:
    return (Counter(one.ref_points) & Counter(other.ref_points)).total()


def _changed(rows: Iterator[tuple[str, str, str, float | None, float | None]]) -> pd.DataFrame:
    """Rows with a value on both sides, the largest change first; equal ones in their order."""
    table = pd.DataFrame(rows, columns=["model", "triplet_id", "point", "a", "b"]).dropna()
    table = table.astype({"a": float, "b": float})
    table["change"] = table["b"] - table["a"]
    return table.sort_values("change", key=abs, ascending=False, kind="stable", ignore_index=True)


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
