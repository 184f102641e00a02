"""Do the numbers agree with people, and does a judge agree with itself?

A *score table* is wide: one row per answer (`triplet_id`, `model`), one column per metric and part, such as
"EMS(local) F1" or "BLEU Score". Agreement is computed from such a table and a table of labels, numbers only, so that
it can be redone without the texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .. import stats
from ..baselines import bertscore, bleu, rouge
from ..local.scorers import LocalScorer
from ..metrics import f1
from ..pipeline import EMS, build, rescored
from ..score import BERTScorer, RougeScorer
from ..types import Answer, EMSResult, InputError, Reply, Request, Triplet

if TYPE_CHECKING:
    from ..local.encoder import Encoder




KEYS = ["triplet_id", "model"]
PARTS = ("Precision", "Recall", "F1")
# What RAGChecker's annotators compared -> the part of a metric that speaks of it.
ASKED = {"overall": "F1", "completeness": "Recall", "correctness": "Precision"}
UNIGRAM, RAGCHECKER, PEOPLE = "unigram", "RAGChecker", "the other annotator"
CORRELATIONS = ("pearson", "spearman")


def unigram(references: Sequence[str], answers: Sequence[str]) -> list[tuple[float, float, float]]:
    """Precision, recall and F1 of the bag of lower-case words (a-z, 0-9), each in [0, 1]; 0 when either has none."""
    scores = []
    for texts in zip(references, answers, strict=True):
        ref, ans = (Counter(re.findall(r"[a-z0-9]+", text.lower())) for text in texts)
        both = (ref & ans).total()
        precision, recall = both / max(1, ans.total()), both / max(1, ref.total())
        scores.append((precision, recall, f1(recall, precision)))
    return scores


def surface_table(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """The score table of what any metric has to beat: the answer's length in words, and `unigram`."""
    reference = {t.id: t.reference for t in triplets}
    texts = [a.answer for a in answers]
    scores = unigram([reference[a.triplet_id] for a in answers], texts)
    return pd.DataFrame({key: [getattr(a, key) for a in answers] for key in KEYS}
                        | {"length Score": [len(text.split()) for text in texts]} | _parts(UNIGRAM, scores))


def score_table(triplets: Sequence[Triplet], answers: Sequence[Answer], *, encoder: Encoder | None = None,
                more: Mapping[str, EMS] | None = None, progress: bool = False) -> pd.DataFrame:
    """Every metric that needs no judge, for every answer; values in [0, 1] but for "length Score".

    With an `encoder` also BERTScore, EMS(BERTScore) and EMS(local, encoder), whose words are weighed by meaning.
    EMS(ROUGE) and EMS(BERTScore) share points and matches with EMS(local-pair). `more` adds pipelines by name.
    """
    reference = {t.id: t.reference for t in triplets}
    refs, texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    columns: dict[str, Sequence[float]] = {"BLEU Score": bleu(refs, texts)}
    for kind, scores in rouge(refs, texts).items():
        columns |= _parts(f"ROUGE-{kind[-1]}", scores)
    if encoder is not None:
        columns["BERTScore Score"] = bertscore(refs, texts, encoder)
    local = build(None, "local")
    results = {"EMS(local)": local.evaluate(triplets, answers, progress=progress)}
    if encoder is not None:
        meant = EMS(local.extractor, local.matcher, LocalScorer(encoder))
        results["EMS(local, encoder)"] = meant.evaluate(triplets, answers, progress=progress)
    pair = build(None, "local-pair")
    results["EMS(local-pair)"] = pair.evaluate(triplets, answers, progress=progress)
    results["EMS(ROUGE)"] = rescored(results["EMS(local-pair)"], RougeScorer(), pair)
    if encoder is not None:
        results["EMS(BERTScore)"] = rescored(results["EMS(local-pair)"], BERTScorer(encoder), pair)
    for name, pipeline in (more or {}).items():
        results[name] = pipeline.evaluate(triplets, answers, progress=progress)
    for name, rows in results.items():
        columns |= _parts(name, [(r.precision, r.recall, r.f1) for r in rows])
    return pd.concat([surface_table(triplets, answers), pd.DataFrame(columns)], axis=1)


def of_values(values: pd.DataFrame) -> pd.DataFrame:
    """The score table of a run, from its values frame."""
    named = values.assign(column=values["metric"] + " " + values["part"])
    return named.pivot(index=KEYS, columns="column", values="value").reset_index().rename_axis(columns=None)


def _parts(metric: str, scores: Sequence[tuple[float, float, float]]) -> dict[str, list[float]]:
    return {f"{metric} {part}": [s[i] for s in scores] for i, part in enumerate(PARTS)}


def metrics_of(scores: pd.DataFrame, part: str = "F1") -> dict[str, str]:
    """Metric -> its column for `part`, or its only one ("Score"), in the table's order."""
    columns = [c.rsplit(" ", 1) for c in scores.columns if c.endswith((*PARTS, "Score"))]
    return {metric: f"{metric} {name}" for metric, name in columns if name in (part, "Score")}


def meta_pairs(meta: pd.DataFrame) -> tuple[list[Triplet], list[Answer], pd.DataFrame, pd.DataFrame]:
    """RAGChecker's pairs (`datasets.ragchecker_meta`) as triplets, answers "1" and "2", labels, and its own scores.

    The labels are instance_id, annotator, dataset, overall, completeness, correctness; the scores are a score table
    with RAGChecker's precision, recall and F1.
    """
    first = meta.drop_duplicates("instance_id").astype({"instance_id": str})
    triplets = [Triplet(r.instance_id, r.instance_id, r.query, r.gt_answer) for r in first.itertuples()]
    answers = [Answer(r.instance_id, i, getattr(r, f"response{i}")) for r in first.itertuples() for i in "12"]
    own = [(r.instance_id, i, *(getattr(r, f"rc_{ask}{i}") for ask in ("correctness", "completeness", "overall")))
           for r in first.itertuples() for i in "12"]
    labels = meta[["instance_id", "annotator", "dataset", *ASKED]].astype({"instance_id": str})
    return triplets, answers, labels, pd.DataFrame(own, columns=[*KEYS, *(f"{RAGCHECKER} {part}" for part in PARTS)])


def human_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, *, against: Sequence[str] = (UNIGRAM, RAGCHECKER),
    asked: Sequence[str] = tuple(ASKED), resamples: int = 2000, seed: int = 7,
) -> pd.DataFrame:
    """How well each metric's preference within a pair goes with the annotators', by RAGChecker's published procedure.

    One observation per pair and annotator: the second answer's score less the first's, against the label (-2 .. 2). A
    missing difference is replaced by the median one, as published. Tidy: asked (overall, completeness, correctness),
    metric, measure (pearson, spearman, sign accuracy on labels other than 0), value, ci_low, ci_high over resampled
    pairs, n; for each of `against`, the paired difference of the correlations with its interval. The row
    "the other annotator" holds the two annotators' agreement, one observation per pair.
    """
    rows = []
    for ask in asked:
        columns = metrics_of(scores, ASKED[ask])
        wide = scores.pivot(index="triplet_id", columns="model", values=list(columns.values()))
        gap = wide.xs("2", axis=1, level=1) - wide.xs("1", axis=1, level=1)
        gap = gap.fillna(gap.median()).reindex(labels["instance_id"])
        rows += _agreement({m: gap[c].to_numpy() for m, c in columns.items()}, labels[ask], labels["instance_id"],
                           against, resamples, seed, {"asked": ask}, CORRELATIONS, "sign accuracy")
        both = labels.pivot(index="instance_id", columns="annotator", values=ask)
        rows += _agreement({PEOPLE: both[0]}, both[1], both.index, (), resamples, seed, {"asked": ask}, CORRELATIONS,
                           "sign accuracy")
    return pd.DataFrame(rows)


def label_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, *, by: str = "", cluster: str = "group", part: str = "F1",
    against: Sequence[str] = (), resamples: int = 2000, seed: int = 7,
) -> pd.DataFrame:
    """How well each metric tells right answers from wrong ones (`labels.correct`), joined by triplet and model.

    Tidy as `human_agreement`; the measures are AUC (chance that a right answer outscores a wrong one), kendall (tau-b)
    and pearson (the point-biserial correlation). `by` names a column of the labels: once for all rows ("all"), then for
    each of its values. Intervals resample whole clusters. InputError when an answer has no label or no score.
    """
    table = labels.merge(scores, on=KEYS, how="outer", indicator=True, validate="one_to_one")
    if lost := int((table["_merge"] != "both").sum()):
        raise InputError(f"{lost} answers have only scores or only a label; scores and labels must be of one run")
    columns, rows = metrics_of(scores, part), []
    for name, subset in [("all", table), *(table.groupby(by) if by else ())]:
        rows += _agreement({m: subset[c] for m, c in columns.items()}, subset["correct"].astype(float), subset[cluster],
                           against, resamples, seed, {"subset": name}, ("kendall", "pearson"), "AUC")
    return pd.DataFrame(rows)


def shown(row: Mapping[str, float]) -> str:
    """A value with its interval: "0.62 [0.55, 0.69]"."""
    return f"{row['value']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}]"


def compared(row: Mapping[str, float], other: str) -> str:
    """A row's paired difference to another metric, in words that its interval allows."""
    gap, low, high = (row[f"vs {other}{end}"] for end in ("", " low", " high"))
    word = "above" if low > 0 else "below" if high < 0 else "not distinguishable from"
    return f"{word} {other} ({gap:+.2f} [{low:+.2f}, {high:+.2f}])"


def _agreement(x: Mapping[str, Any], y: Any, cluster: Any, against: Sequence[str], resamples: int, seed: int,
               about: dict[str, str], coefficients: Sequence[str], also: str) -> list[dict[str, Any]]:
    """Rows of the coefficients and of one rank measure for each metric in `x`, and differences to some of them."""
    settings = {"cluster": list(cluster), "resamples": resamples, "seed": seed}
    third, rows = {"AUC": stats.auc, "sign accuracy": stats.sign_accuracy}[also], []
    for metric, values in x.items():
        found = stats.correlate(values, y, **settings).set_index("coefficient").loc[list(coefficients)].to_dict("index")
        found[also] = asdict(third(values, y, **settings))
        gaps = {o: stats.correlate_difference(values, x[o], y, **settings).set_index("coefficient")
                for o in against if o in x and o != metric}
        for measure, row in found.items():
            row = {**about, "metric": metric, "measure": measure, **{k: row[k] for k in list(row)[:4]}}
            for other, gap in gaps.items():
                if measure in gap.index:
                    row |= {f"vs {other}": gap.value[measure], f"vs {other} low": gap.ci_low[measure],
                            f"vs {other} high": gap.ci_high[measure]}
            rows.append(row)
    return rows


class Repeated:
    """The same judge asked once more: its requests carry the number of the repetition, so replies are kept apart.

    At temperature 0 repetitions show what the server leaves to chance; above, how far the judge's word can be trusted.
    """

    def __init__(self, judge: Any, sample: int):
        self.judge, self.sample, self.name = judge, sample, judge.name

    @property
    def signature(self) -> str:
        """The judge's own, and the number of the repetition."""
        return f"{self.judge.signature},sample={self.sample}"

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """As the judge's own `ask`."""
        return self.judge.ask([replace(r, sample=self.sample) for r in requests], progress)


def reliability(results: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """How far raters (repetitions of one judge, or several judges) agree on the same answers.

    One row each for the three metrics per answer, and for indices and scores per reference point where all raters
    were given the same points. Columns: level, n (units that two raters or more rated), raters, icc and icc_mean
    (`icc`), alpha (Krippendorff's; nominal for indices, interval for the rest; needs the `krippendorff` package),
    spread (mean standard deviation within a unit), largest (range within a unit). Answers are joined by id.
    """
    by_key = {rater: {(r.triplet_id, r.model): r for r in rows} for rater, rows in results.items()}
    keys = sorted(set.union(*map(set, by_key.values())))
    sides = [[by_key[rater].get(key) for rater in by_key] for key in keys]
    levels = {part: ([[np.nan if r is None else getattr(r, part) for r in row] for row in sides], "interval")
              for part in ("recall", "precision", "f1")}
    same = [row for row in sides if None not in row and len({(r.ref_points, r.ans_points) for r in row}) == 1]
    for name, field, level in (("match index", "match", "nominal"), ("point score", "score", "interval")):
        rated = [[np.nan if v is None else v for v in point]
                 for row in same for point in zip(*(getattr(r, field) for r in row), strict=True)]
        levels[name] = (rated, level)
    rows = []
    for name, (rated, level) in levels.items():
        table = np.array(rated, dtype=float).reshape(-1, len(by_key))
        table = table[np.isfinite(table).sum(axis=1) >= 2]
        single, mean = icc(table) if level == "interval" else (np.nan, np.nan)
        within, ranges = _spread(table) if level == "interval" else (np.nan, np.nan)
        rows.append({"level": name, "n": len(table), "raters": len(by_key), "icc": single, "icc_mean": mean,
                     "alpha": alpha(table, level), "spread": within, "largest": ranges})
    return pd.DataFrame(rows)


def model_spread(results: Mapping[str, Sequence[EMSResult]], part: str = "f1") -> pd.DataFrame:
    """Per model: the mean over raters of its mean score, and the standard deviation between raters of that mean."""
    rows = [(r.model, rater, getattr(r, part)) for rater, found in results.items() for r in found]
    means = pd.DataFrame(rows, columns=["model", "rater", "mean"]).groupby(["model", "rater"])["mean"].mean()
    return means.groupby("model").agg(mean="mean", spread="std", raters="size").reset_index()


def icc(ratings: np.ndarray) -> tuple[float, float]:
    """Intraclass correlation of one rater and of the mean of all k: ICC(2,1) and ICC(2,k), Shrout and Fleiss (1979).

    `ratings` is (units, raters); units with a missing rating are left out. Absolute agreement: a rater who is always
    higher lowers it. At most 1, may be negative; nan with fewer than two units or raters, or without any variation.
    """
    table = np.asarray(ratings, dtype=float)
    table = table[np.isfinite(table).all(axis=1)]
    n, k = table.shape
    if n < 2 or k < 2:
        return np.nan, np.nan
    rows, columns, mean = table.mean(axis=1), table.mean(axis=0), table.mean()
    between = k * ((rows - mean) ** 2).sum() / (n - 1)
    raters = n * ((columns - mean) ** 2).sum() / (k - 1)
    error = ((table - rows[:, None] - columns + mean) ** 2).sum() / ((n - 1) * (k - 1))
    totals = between + (k - 1) * error + k * (raters - error) / n, between + (raters - error) / n
    return tuple(float((between - error) / total) if total > 1e-24 else np.nan for total in totals)


def alpha(ratings: np.ndarray, level: str = "interval") -> float:
    """Krippendorff's alpha of (units, raters) ratings: 1 agreement, 0 chance. nan = missing, or without variation."""
    try:
        import krippendorff
    except ImportError:
        raise InputError("Krippendorff's alpha needs its package: pip install 'ems-kit[agreement]'") from None
    table = np.asarray(ratings, dtype=float)
    if len(np.unique(table[np.isfinite(table)])) < 2:
        return np.nan
    return float(krippendorff.alpha(reliability_data=table.T, level_of_measurement=level))


def _spread(table: np.ndarray) -> tuple[float, float]:
    """Mean standard deviation, and largest range, of the ratings of one unit."""
    if not len(table):
        return np.nan, np.nan
    ranges = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    return float(np.nanstd(table, axis=1, ddof=1).mean()), float(ranges.max())
