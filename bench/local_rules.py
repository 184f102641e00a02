"""What each rule of the local evaluator is worth, by data set: removed one at a time, and a plain bag beside.

    python -m bench.local_rules            the tables of docs/local.md, as Markdown; needs the upstream files

Five sets with people's labels: RAGChecker's pairs, a quarter of REALSumm's articles, K-QA, FinanceBench and a
quarter of FinDVer's claims. Points are cut once; numbers in them are found once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pandas as pd

from ems import stats
from ems.local import words
from ems.local.scorers import LocalScorer
from ems.pipeline import with_metrics
from ems.presets import build
from ems.study.people import unit_labels, upstream
from ems.types import Answer, EMSResult, Triplet

Settings = Mapping[str, object]
RULES: dict[str, Settings] = {
    "numbers weigh 1, as words do": {"NUMBER": 1.0},
    "numbers count in any context": {"CONTEXT": 0.0},
    "no negations": {"NEGATION": 0.0},
    "a verdict is words like others": {"_NEGATION_STEMS": words._NEGATIONS},
    "words of the question weigh in full": {"question_word": 1.0},
    "function words weigh in full": {"FUNCTION_WORD": 1.0},
    "points do not share mentions": {"_portion": lambda side, mentions, others: float(others > 0)},
    "a refusal is words like others": {"_DISCLAIMER": re.compile("(?!)")},
}
GRID: dict[str, Sequence[float]] = {
    "question_word": (0.1, 0.6, 1.0), "NUMBER": (1.0, 2.0, 5.0), "NEGATION": (0.0, 1.0, 3.0),
    "CONTEXT": (0.0, 0.5)}
RESAMPLES = 500
Results = Sequence[EMSResult]


@dataclass(frozen=True)
class Measure:
    """How well results agree with people, from counts of drawn clusters."""

    read: Callable[[Results], np.ndarray]              # the values that are compared with the labels
    statistic: Callable[[np.ndarray], stats.Statistic]
    clusters: int

    def value(self, results: Results) -> float:
        """The measure, every cluster counted once."""
        return float(self.statistic(self.read(results))(np.ones((1, self.clusters)))[0])

    def difference(self, results: Results, base: Results) -> stats.Estimate:
        """How much higher the results' measure is than the base's, with a paired 95 % interval."""
        one, other = self.statistic(self.read(results)), self.statistic(self.read(base))
        return stats.bootstrapped(lambda w: one(w) - other(w), self.clusters, len(self.read(base)), RESAMPLES)


@dataclass(frozen=True)
class LabelSet:
    """Answers with points, and what is measured on their results."""

    alignments: list[EMSResult]
    measures: dict[str, Measure]


def aligned(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
    return build().align({t.id: t for t in triplets}, answers)


def f1s(results: Results) -> np.ndarray:
    return np.array([r.f1 for r in results])


def unit_scores(results: Results) -> np.ndarray:
    return np.array([s for r in results for s in r.score], dtype=float)


def coefficient(name: str, read: Callable[[Results], np.ndarray], labels: Sequence[float],
                cluster: Sequence[str]) -> Measure:
    """Agreement of the values with labels of the same rows, over clusters."""
    codes, found = pd.factorize(pd.Series(list(cluster)), sort=True)
    y = np.asarray(labels, dtype=float)
    return Measure(read, lambda values: stats.COEFFICIENTS[name](values, y, codes), len(found))


def pairs() -> LabelSet:
    triplets, answers, labels, _ = upstream.ragchecker()
    place = {(a.triplet_id, a.model): i for i, a in enumerate(answers)}
    one, two = ([place[id_, model] for id_ in labels["instance_id"]] for model in "12")

    def gaps(results: Results) -> np.ndarray:
        return f1s(results)[two] - f1s(results)[one]
    return LabelSet(aligned(triplets, answers), {
        f"pairs, {name}": coefficient(name.lower(), gaps, labels["overall"], labels["instance_id"])
        for name in ("Spearman", "Pearson")})


def realsumm() -> LabelSet:
    """Alignments with people's units, then with the sentences of the references."""
    triplets, answers, labels = upstream.realsumm()
    triplets = triplets[::4]
    kept = {t.id for t in triplets}
    answers, labels = [a for a in answers if a.triplet_id in kept], labels[labels["triplet_id"].isin(kept)]
    units = aligned(triplets, answers)
    people = unit_labels.pyramid(labels).pivot(index="triplet_id", columns="model", values="value")
    place = {(a.triplet_id, a.model): i for i, a in enumerate(answers)}
    order = [len(units) + place[t, m] for t in people.index for m in people.columns]
    labels = labels.set_index(unit_labels.UNIT_KEYS)["present"]
    present = [labels[r.triplet_id, r.model, unit] for r in units for unit in range(len(r.ref_points))]

    def means(results: Results) -> np.ndarray:
        return np.array([results[i].recall for i in order]).reshape(people.shape)
    return LabelSet([*units, *aligned([replace(t, points=()) for t in triplets], answers)], {
        "REALSumm, unit AUC": coefficient(
            "auc", lambda results: unit_scores(results[:len(units)]), present,
            [r.triplet_id for r in units for _ in r.ref_points]),
        "REALSumm, system Kendall": Measure(
            means, lambda x: unit_labels.system_level(x, people.to_numpy(), "kendall"), len(people))})


def kqa() -> LabelSet:
    triplets, answers, labels = upstream.kqa()
    said = np.flatnonzero(labels["label"] != "Neutral")
    return LabelSet(aligned(triplets, answers), {
        "K-QA, unit AUC": coefficient("auc", unit_scores, labels["present"], labels["triplet_id"]),
        "K-QA, contradicted": coefficient("auc", lambda results: unit_scores(results)[said],
                                          labels["present"].iloc[said], labels["triplet_id"].iloc[said])})


def financebench() -> LabelSet:
    triplets, answers, labels = upstream.financebench()
    return LabelSet(aligned(triplets, answers), {
        "FinanceBench, AUC": coefficient("auc", f1s, labels["correct"], labels["group"])})


def findver() -> LabelSet:
    triplets, answers, labels = upstream.findver()
    kept = [i for i, a in enumerate(answers) if int(a.triplet_id.rpartition("-")[2]) % 4 == 0]
    group, labels = {t.id: t.group for t in triplets}, labels.iloc[kept]
    return LabelSet(aligned(triplets, [answers[i] for i in kept]), {
        "FinDVer, AUC": coefficient("auc", f1s, labels["correct"], labels["triplet_id"].map(group))})


@contextmanager
def changed(settings: Settings) -> Iterator[float]:
    """The local evaluator under other constants; gives the weight of the question's words."""
    constants = {name: value for name, value in settings.items() if name != "question_word"}
    with patch.dict(vars(words), constants):
        words.read_point.cache_clear()
        yield float(settings.get("question_word", words.QUESTION_WORD))
    words.read_point.cache_clear()


def scored(one: LabelSet, settings: Settings) -> Results:
    with changed(settings) as question_word:
        covered = LocalScorer(question_word=question_word).cover(one.alignments)
    return [with_metrics(replace(a, whole_sides=True)) for a in covered]


def bag(one: LabelSet) -> Results:
    """Each side one bag of stems, weighted by their rarity among the set's own texts; the question's 0.3."""
    texts = {side for a in one.alignments for side in (a.ref_points, a.ans_points)}
    counts = Counter(w for side in texts for w in {w for point in side for w in words.words_of(point)})
    rarity = {w: math.log((len(texts) + 1) / (n + 0.5)) for w, n in counts.items()}

    def share(points: Sequence[str], others: Sequence[str], asked: set[str]) -> tuple[float, ...]:
        here = [Counter(words.words_of(p)) for p in points]
        there = Counter(w for p in others for w in words.words_of(p))
        weigh = {w: rarity[w] * (words.QUESTION_WORD if w in asked else 1) for c in here for w in c}
        return tuple(sum(weigh[w] * min(n, there[w]) for w, n in c.items())
                     / (sum(weigh[w] * n for w, n in c.items()) or 1) for c in here)
    results = []
    for a in one.alignments:
        asked = set(words.words_of(a.question))
        ref = a.ref_points if a.given else (" ".join(a.ref_points),) * bool(a.ref_points)
        ans = (" ".join(a.ans_points),) * bool(a.ans_points)
        results.append(with_metrics(replace(
            a, ref_points=ref, ans_points=ans, match=(None,) * len(ref), whole_sides=True,
            score=share(ref, ans, asked), ans_score=share(ans, ref, asked))))
    return results


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Rows by name as Markdown; columns are the first row's."""
    columns = list(next(iter(rows.values())))
    lines = [["", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[name, *(row[column] for column in columns)] for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def compared(sets: Sequence[LabelSet], results: Sequence[Results], base: Sequence[Results]) -> dict[str, str]:
    """By measure, in points of 100: the difference to `base` and its interval."""
    cells = {}
    for one, ours, theirs in zip(sets, results, base, strict=True):
        for name, measure in one.measures.items():
            d = measure.difference(ours, theirs)
            clear = "**" * (d.ci_low > 0 or d.ci_high < 0)
            value, low, high = (f"{100 * number:+.1f}" for number in (d.value, d.ci_low, d.ci_high))
            cells[name] = f"{clear}{value}{clear} [{low}, {high}]"
    return cells


def levels(sets: Sequence[LabelSet], results: Sequence[Results]) -> dict[str, str]:
    return {name: f"{100 * measure.value(ours):.1f}"
            for one, ours in zip(sets, results, strict=True) for name, measure in one.measures.items()}


def left_out(sets: Sequence[LabelSet], base: Sequence[Results]) -> dict[str, dict[str, str]]:
    """Each set under settings chosen on the others, one setting at a time, by the mean of their first
    measures."""
    def first(one: LabelSet, results: Results) -> float:
        return next(iter(one.measures.values())).value(results)
    gains: dict[tuple[str, float], list[float]] = {
        (name, value): [first(one, scored(one, {name: value})) - first(one, ours)
                        for one, ours in zip(sets, base, strict=True)]
        for name, values in GRID.items() for value in values}
    rows = {}
    for i, one in enumerate(sets):
        chosen: dict[str, float] = {}
        for name, values in GRID.items():
            gain, best = max((float(np.mean(np.delete(gains[name, value], i))), value) for value in values)
            if gain > 0:
                chosen[name] = best
        measure = next(iter(one.measures))
        said = ", ".join(f"{name.lower()} {value:g}" for name, value in chosen.items()) or "the same"
        rows[measure] = {"chosen on the other sets": said, "with these, difference":
                         compared([one], [scored(one, chosen)], [base[i]])[measure]}
    return rows


def main() -> None:
    words.find_quantities = cache(words.find_quantities)
    sets = [make() for make in (pairs, realsumm, kqa, financebench, findver)]
    base = [scored(one, {}) for one in sets]
    bags = [bag(one) for one in sets]
    print(table({"EMS(local)": levels(sets, base), "the plain bag": levels(sets, bags),
                 "difference": compared(sets, base, bags)}), flush=True)
    removed = {name: compared(sets, [scored(one, change) for one in sets], base)
               for name, change in RULES.items()}
    print("\n" + table(removed), flush=True)
    print("\n" + table(left_out(sets, base)))


if __name__ == "__main__":
    main()
