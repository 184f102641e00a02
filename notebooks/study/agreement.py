"""Do the metrics agree with people? Scores of the labelled sets, and how well they follow the labels.

A table of scores is wide: a row per answer (`KEYS`) or point (`POINT_KEYS`), a column per metric and part,
such as "ROUGE-L Recall" or "BLEU Score", with values in [0, 1]; "length Score" is in words. Scores and labels
hold no texts: agreement can be computed where the texts are not at hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ems.analysis.stats import MIN_CLUSTERS
from ems.baselines import RAGChecker, bertscore, bleu, rouge
from ems.coverage import Coverage
from ems.evaluators import build
from ems.io import write_csv
from ems.judge.client import LLMJudge, MissingReplies
from ems.local.encoder import Encoder
from ems.local.sentences import SentenceExtractor
from ems.results import CoverageResult, ScoreResult
from ems.terminal import notify
from ems.types import Answer, InputError, Triplet

from . import ROOT, by_hash, read_frames
from .datasets import FINDVER_SYSTEMS, KEYS, POINT_KEYS, SETS

PARTS = ("Precision", "Recall", "F1")
PART_OF = {
    "overall": "F1",
    "completeness": "Recall",
    "correctness": "Precision",
}  # as annotators were asked
# Points are sentences here; in Table 1 they are the judge's.
EMS_JUDGED, EMS_ROUGE = "EMS(LLM, sentences)", "EMS(ROUGE, sentences)"
COVERAGE_JUDGED = "Coverage(LLM, sentences)"
JUDGED = [EMS_JUDGED, COVERAGE_JUDGED, "Judge alone"]
BODIES = ROOT / "data" / "human" / "bodies.csv"
ANNOTATOR, SYSTEM = "the other annotator", "the system alone"
WITHIN = "AUC within systems"
APART = 1e6  # more than any value, a length in words included
SENTENCES = "RAGChecker (sentences)"
OF_LLAMA = [name for name, (_, family, _) in FINDVER_SYSTEMS.items() if family == "Llama"]
Found = dict[str, Sequence[Any]]  # metric -> what it says of each answer


class SentenceClaims(RAGChecker):
    """RAGChecker's check of each sentence of both sides, in place of claims that a judge lists."""

    def _claims(self, texts: Any) -> Any:
        texts = list(texts)
        return dict(zip(texts, SentenceExtractor()([text for _, text in texts]), strict=True))


# --- scores ---


def stored(name: str, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labels and scores of one of `SETS`, from `<name>_labels.csv` and `<name>_scores.csv`."""
    labels, scores = (
        read_frames(folder / f"{name}_labels.csv"),
        read_frames(folder / f"{name}_scores.csv"),
    )
    if SETS[name].about == "systems":
        labels = labels.melt(["triplet_id", "group"], var_name="model", value_name="correct")
        labels["correct"] = labels["correct"].astype(bool)
    return labels, scores


def rescore(
    name: str, known: Path, to: Path, encoder: Encoder | None = None, judge: LLMJudge | None = None
) -> None:
    """Score one of `SETS` from its texts; write its labels and scores to the folder `to`, five decimals.

    What is not computed (BERTScore without an encoder, a judge's metrics without one) is taken from the
    folder `known`, joined by id.
    """
    one = SETS[name]
    triplets, answers, labels = one.load()
    points, systems = one.about == "points", one.about == "systems"
    keys = POINT_KEYS if points else KEYS
    scores = (
        point_scores(triplets, answers) if points else answer_scores(triplets, answers, encoder)
    )
    tables = [one.published()] if one.published else []
    if judge is not None:
        drawn = sample(labels, one.judged) if one.judged else set()
        read = [a for a in answers if not drawn or (a.triplet_id, a.model) in drawn]
        tables.append(judged_scores(triplets, read, judge, one.about))
    for table in (*tables, stored(name, known)[1]):
        new = [column for column in table if column in keys or column not in scores]
        scores = scores.merge(table[new], on=keys, how="left", validate="one_to_one")
    if systems:
        labels = labels.pivot(
            index=["triplet_id", "group"], columns="model", values="correct"
        ).astype(int)
        labels = labels.reset_index()
    write_csv(to / f"{name}_labels.csv", labels)
    write_csv(to / f"{name}_scores.csv", scores.round(5))


def answer_scores(
    triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder | None = None
) -> pd.DataFrame:
    """Every metric that needs no judge, by answer; EMS is on sentence points, matched by words."""
    reference = {t.id: t.reference for t in triplets}
    texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    found: Found = {"length": [len(text.split()) for text in texts[1]], "BLEU": bleu(*texts)}
    for kind, values in rouge(*texts, kinds=("rouge1", "rouge2", "rougeL")).items():
        found[f"ROUGE-{kind.removeprefix('rouge')}"] = values
    if encoder is not None:
        found["BERTScore"] = bertscore(*texts, encoder)
    found[EMS_ROUGE] = build(scorer="rouge").evaluate(triplets, answers)
    found["Coverage(local)"] = build().evaluate(triplets, answers)
    return _of_answers(answers, found)


def point_scores(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """Every metric that needs no judge, for every given point."""
    return _of_points(
        answers,
        {
            EMS_ROUGE: build(scorer="rouge").evaluate(triplets, answers),
            "Coverage(local)": build().evaluate(triplets, answers),
        },
    )


def judged_scores(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: LLMJudge, about: str
) -> pd.DataFrame:
    """The metrics `JUDGED`, asked jointly on sentence points: a row per answer, or per given point.

    `about` is as in `SETS`; RAGChecker's check is asked about systems alone. Where the judge only replays, a
    metric whose replies are not all recorded is left out.
    """
    points, systems = about == "points", about == "systems"
    bodies = read_frames(BODIES).set_index("text")
    whole = triplets, answers
    triplets = [replace(t, reference=as_read(t.reference, bodies)) for t in triplets]
    answers = [replace(a, answer=as_read(a.answer, bodies)) for a in answers]
    extractor = SentenceExtractor()
    evaluators = {
        EMS_JUDGED: build(judge, joint=True, extractor=extractor),
        COVERAGE_JUDGED: Coverage(extractor, judge),
    }
    if not points:
        evaluators["Judge alone"] = build(judge, "judge")
    if systems:
        evaluators[SENTENCES] = SentenceClaims(judge)
    frames = []
    for metric, evaluator in evaluators.items():
        read = [a for a in answers if metric != SENTENCES or a.model in OF_LLAMA]
        texts = whole if metric == "Judge alone" else (triplets, read)
        try:
            found: Found = {metric: evaluator.evaluate(*texts)}
            frames.append(_of_points(read, found) if points else _of_answers(read, found))
        except MissingReplies as error:
            notify(f"{metric} is left out: {str(error).partition(';')[0]}")
    keys = POINT_KEYS if points else KEYS
    return reduce(lambda one, other: one.merge(other, on=keys, how="left"), frames)


def as_read(text: str, bodies: pd.DataFrame) -> str:
    """What of a text was cut into points when its replies were recorded, by other rules for summaries.

    `bodies` has the few texts where that makes a difference: 16 hex digits of the SHA-256, start and end.
    """
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (
        text[bodies.loc[name, "start"] : bodies.loc[name, "end"]] if name in bodies.index else text
    )


def sample(labels: pd.DataFrame, of_each: int) -> set[tuple[str, str]]:
    """`KEYS` of the answers that the judge read: so many correct and so many incorrect ones, one a question.

    They are the first by the SHA-256 of "triplet_id|model"; refusals state nothing and are left out.
    """
    rows = tried(labels)
    rows = rows.loc[by_hash(rows.index, lambda row: "|".join(rows.loc[row, KEYS]))]
    rows = rows.drop_duplicates(["triplet_id", "correct"]).groupby("correct").head(of_each)
    return set(rows[KEYS].itertuples(index=False, name=None))


def tried(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels of answers that are no refusals."""
    return labels[labels["label"] != "refusal"] if "label" in labels else labels


def _of_answers(answers: Sequence[Answer], found: Found) -> pd.DataFrame:
    """A row per answer, from what each metric says of it: a number, (precision, recall, F1), or a result."""
    columns: Found = {key: [getattr(a, key) for a in answers] for key in KEYS}
    for metric, entries in found.items():
        if isinstance(entries[0], ScoreResult):
            entries = [r.value for r in entries]
        if isinstance(entries[0], (int, float)):
            columns[f"{metric} Score"] = entries
        else:
            for i, part in enumerate(PARTS):
                columns[f"{metric} {part}"] = [
                    e[i] if isinstance(e, tuple) else getattr(e, part.lower()) for e in entries
                ]
    return pd.DataFrame(columns)


def _of_points(answers: Sequence[Answer], found: Found) -> pd.DataFrame:
    """A row per reference point, from each metric's results."""
    sides = [
        [r.ref_score if isinstance(r, CoverageResult) else r.score for r in results]
        for results in found.values()
    ]
    rows = [
        (a.triplet_id, a.model, unit, *values)
        for a, *scores in zip(answers, *sides, strict=True)
        for unit, values in enumerate(zip(*scores, strict=True))
    ]
    return pd.DataFrame(rows, columns=[*POINT_KEYS, *(f"{metric} Score" for metric in found)])


# --- agreement ---


def metrics_of(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """The table's columns of the part, and of metrics with one value ("Score"), named by their metric."""
    columns = {
        name: name.rpartition(" ")[0]
        for name in table
        if name.rpartition(" ")[2] in (part, "Score")
    }
    return table[list(columns)].rename(columns=columns)


def pair_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, against: str = "RAGChecker", **settings: int
) -> pd.DataFrame:
    """How well each metric's preference within a pair follows the annotators', as RAGChecker has it.

    One observation per pair and annotator: the score of answer "2" less that of answer "1" (missing: the
    median difference) against the label, -2 to 2. The metric `ANNOTATOR` is one annotator against the other.
    Intervals resample pairs. `settings` are the bootstrap's resamples and seed, here and below.
    """
    tables, measures, pairs = [], ("Spearman", "Pearson"), labels["instance_id"]
    for asked, part in PART_OF.items():
        values = metrics_of(scores.set_index(KEYS), part)
        gap = values.xs("2", level="model") - values.xs("1", level="model")
        gap = gap.fillna(gap.median()).loc[pairs]
        people = labels.pivot(index="instance_id", columns="annotator", values=asked)
        other = people[[0]].set_axis([ANNOTATOR], axis=1)
        for table in (
            _measured(gap, labels[asked], pairs, measures, against, **settings),
            _measured(other, people[1], people.index, measures, "", **settings),
        ):
            tables.append(table.assign(asked=asked, part=part))
    return pd.concat(tables, ignore_index=True)


def answer_agreement(
    labels: pd.DataFrame,
    scores: pd.DataFrame,
    part: str = "F1",
    judged: bool = False,
    against: str = "ROUGE-L",
    **settings: int,
) -> pd.DataFrame:
    """How well each metric tells correct answers from incorrect ones; refusals are left out.

    AUC: the chance that a correct answer outscores an incorrect one, a tie counts half. `WITHIN`: the same
    over pairs of answers of one system, since a metric may only tell good systems from bad ones; the metric
    `SYSTEM` (each answer has its system's share of correct ones) is how far that leads. With `judged` the
    answers that the judge read and all metrics, else all answers without the metrics `JUDGED`. Clusters are
    groups. InputError for an answer without scores.
    """
    known = tried(labels)
    known = known[known["triplet_id"].isin(scores["triplet_id"])]
    table = known.merge(scores, on=KEYS, how="left", indicator=True, validate="one_to_one")
    if missing := int((table["_merge"] != "both").sum()):
        raise InputError(
            f"{missing} labelled answers have no scores; labels and scores must be of one set"
        )
    table[f"{SYSTEM} Score"] = table["model"].map(known.groupby("model")["correct"].mean())
    if judged:
        table = table[metrics_of(table, part)[EMS_JUDGED].notna()]
    metrics = metrics_of(table, part).drop(columns=[] if judged else JUDGED, errors="ignore")
    systems = pd.factorize(table["model"])[0]
    return _measured(
        metrics, table["correct"], table["group"], ("AUC", WITHIN), against, systems, **settings
    ).assign(part=part)


def point_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, against: str = EMS_ROUGE, **settings: int
) -> pd.DataFrame:
    """How well each metric tells points that are in an answer from others (AUC); clusters are questions."""
    table = labels.merge(scores, on=POINT_KEYS, validate="one_to_one")
    return _measured(
        metrics_of(table, "Score"),
        table["present"],
        table["triplet_id"],
        ("AUC",),
        against,
        **settings,
    )


def _measured(
    metrics: pd.DataFrame,
    labels: Any,
    cluster: Any,
    measures: Sequence[str],
    against: str = "",
    systems: Any = None,
    *,
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """A row per measure and metric: value and interval, and the paired difference to the metric `against`.

    `clear` is "above" or "below" where the whole interval of the difference is, else "no". A row that some
    metric has no value for is left out for all. Intervals are the percentile bootstrap's over clusters.
    """
    known = metrics.notna().all(axis=1).to_numpy()
    values, people = metrics.to_numpy(dtype=float)[known], np.asarray(labels, dtype=float)[known]
    codes = pd.factorize(pd.Series(list(cluster))[known].astype(str), sort=True)[0]
    members = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    times = resamples if len(members) >= MIN_CLUSTERS else 0
    draws = np.random.default_rng(seed).integers(len(members), size=(times, len(members)))
    samples = [
        np.arange(len(people)),
        *(np.concatenate([members[i] for i in draw]) for draw in draws),
    ]
    tables = []
    for measure in measures:
        of = systems[known] if measure == WITHIN else np.zeros(len(people), dtype=int)
        found = np.array([AGREE[measure](values[rows], people[rows], of[rows]) for rows in samples])
        spread = found[1:] if times else np.full_like(found, np.nan)
        low, high = np.quantile(spread, [0.025, 0.975], axis=0)
        table = pd.DataFrame(
            {
                "measure": measure,
                "metric": list(metrics),
                "value": found[0],
                "ci_low": low,
                "ci_high": high,
                "n": len(people),
                "clusters": len(members),
            }
        )
        if against in metrics:
            base = [metrics.columns.get_loc(against)]
            low, high = np.quantile(spread - spread[:, base], [0.025, 0.975], axis=0)
            clear = np.select([low > 0, high < 0], ["above", "below"], "no")
            clear[base] = ""
            table = table.assign(
                against=against,
                difference=found[0] - found[0, base],
                difference_low=low,
                difference_high=high,
                clear=clear,
            )
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


# How well each column of `x`, a metric's values, follows what people say, `y`; nan where it is undefined.


def _pearson(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    x, y = x - x.mean(axis=0), y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return y @ x / np.sqrt((x * x).sum(axis=0) * (y * y).sum())


def _spearman(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    return _pearson(rankdata(x, axis=0), rankdata(y), systems)


def _area(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    """AUC over the pairs of a 1 and a 0 of the same system, a tie counts half."""
    right, of_system = y == 1, np.bincount(systems)
    ones = np.bincount(systems[right], minlength=len(of_system))
    pairs = (ones * (of_system - ones)).sum()
    # Ranks within each system, from one ranking in which each system's values lie above the last one's.
    ranks = (
        rankdata(x + systems[:, None] * APART, axis=0)
        - (of_system.cumsum() - of_system)[systems, None]
    )
    wins = ranks[right].sum(axis=0) - (ones * (ones + 1) / 2).sum()
    return wins / pairs if pairs else np.full(x.shape[1], np.nan)


AGREE = {"Spearman": _spearman, "Pearson": _pearson, "AUC": _area, WITHIN: _area}
