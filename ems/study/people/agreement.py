"""Do the metrics agree with people?

A *score table* is wide: one row per answer (`triplet_id`, `model`), one column per metric and part, such as
"EMS(local) F1" or "BLEU Score". Agreement is computed from such a table and a table of labels. Both hold
numbers only, so that it can be computed again without the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ... import stats
from ...asking import Judge
from ...baselines import bertscore, bleu, rouge
from ...local.scorers import LocalScorer
from ...local.sentences import SentenceExtractor
from ...metrics import ems_scores
from ...pipeline import EMS, rescored
from ...presets import build
from ...score import BERTScorer, RougeScorer
from ...types import Answer, InputError, Triplet
from ...variants.sides import SidesLLMScorer
from .. import own

if TYPE_CHECKING:
    from ...local.encoder import Encoder

KEYS = ["triplet_id", "model"]
PARTS = own.PARTS
# What RAGChecker's annotators compared -> the part of a metric that speaks of it.
ASKED = {"overall": "F1", "completeness": "Recall", "correctness": "Precision"}
UNIGRAM, RAGCHECKER, PEOPLE = "unigram", "RAGChecker", "the other annotator"
# Metrics that were developed on the pairs at hand: for them agreement with these people is the best case.
DEVELOPED = ("EMS(local)", "EMS(local, encoder)", "EMS(local-pair)")
SYSTEM = "the system alone"
ABOUT_PEOPLE = ("Spearman correlation with two annotators' preferences between pairs of answers to other "
                "questions (notebook 6). EMS(local) was developed on these pairs, no other row was. "
                "RAGChecker's values there are its authors', by their own judge; EMS(LLM) is there on "
                "sentence points. –: not compared. On these pairs EMS(ROUGE) and EMS(BERTScore) rest on "
                "matches made without a judge, and there is no document for EMS-Support, EMS-open, "
                "EMS-Support(LLM) and EMS-open(LLM).")
CORRELATIONS = ("pearson", "spearman")
SIGN = "sign accuracy"
PAIR_MEASURES = (*CORRELATIONS, SIGN)
LABEL_MEASURES = ("kendall", "pearson", "AUC")
UNASKED = ["clusters", "left_out"]             # what `measured` has and tables of agreement do not show


def unigram(references: Sequence[str], answers: Sequence[str]) -> list[tuple[float, float, float]]:
    """Precision, recall and F1 of the words that two texts share, in [0, 1]; 0 when either has no words.

    As SQuAD's F1 (Rajpurkar et al. 2016), articles included: ROUGE-1 without stemming.
    """
    from rouge_score.rouge_scorer import RougeScorer as Official

    official = Official(["rouge1"])
    return [tuple(official.score(*texts)["rouge1"]) for texts in zip(references, answers, strict=True)]


def table_of(answers: Sequence[Answer], metrics: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """The score table of what each metric says of the answers: a number of each, (precision, recall, F1), or
    a result that has them.
    """
    columns = {f"{metric} {part}": column for metric, scores in metrics.items()
               for part, column in own.by_part(scores).items()}
    return pd.DataFrame({key: [getattr(a, key) for a in answers] for key in KEYS} | columns)


def surface(references: Sequence[str], answers: Sequence[str]) -> dict[str, Sequence[Any]]:
    """What any metric has to beat: the answer's length in words, and `unigram`."""
    return {"length": [len(text.split()) for text in answers], UNIGRAM: unigram(references, answers)}


def score_table(triplets: Sequence[Triplet], answers: Sequence[Answer], *, encoder: Encoder | None = None,
                metrics: Mapping[str, str] | None = None, scorers: Mapping[str, str] | None = None
                ) -> pd.DataFrame:
    """Every metric that needs no judge, for every answer; values in [0, 1] but for "length Score".

    `metrics` and `scorers` are a user's own (`own`). With an `encoder` also BERTScore, EMS(BERTScore) and
    EMS(local, encoder). EMS(ROUGE) and EMS(BERTScore) share points and matches with EMS(local-pair).
    """
    texts = own.texts_of(triplets, answers)
    found = surface(*texts) | {"BLEU": bleu(*texts)}
    found |= {f"ROUGE-{kind[-1]}": scores for kind, scores in rouge(*texts).items()}
    local, pair = build(None, "local"), build(None, "local-pair")
    if encoder is not None:
        found["BERTScore"] = bertscore(*texts, encoder)
    found["EMS(local)"] = local.evaluate(triplets, answers)
    if encoder is not None:
        by_meaning = EMS(local.extractor, local.matcher, LocalScorer(encoder))
        found["EMS(local, encoder)"] = by_meaning.evaluate(triplets, answers)
    found["EMS(local-pair)"] = aligned = pair.evaluate(triplets, answers)
    found["EMS(ROUGE)"] = rescored(aligned, RougeScorer(), pair)
    if encoder is not None:
        found["EMS(BERTScore)"] = rescored(aligned, BERTScorer(encoder), pair)
    return table_of(answers, found | own.values(triplets, answers, metrics or {}, scorers or {}))


def judged_table(triplets: Sequence[Triplet], answers: Sequence[Answer], judge: Judge, *, sides: bool = True
                 ) -> pd.DataFrame:
    """The score table of what a judge says of sentence points, asked jointly: up to four calls an answer.

    EMS(LLM) (eq. 5 to 9), the same with scores of half and more cut to 1 and others to 0, and, with `sides`,
    EMS(LLM, sides).
    """
    pipelines = of_sentences(judge)
    matched = pipelines["EMS(LLM)"].evaluate(triplets, answers)
    cut = [ems_scores(r.match, [None if s is None else float(s >= 0.5) for s in r.score], len(r.ans_points))
           for r in matched]
    found: dict[str, Sequence[Any]] = {"EMS(LLM)": matched, "EMS(LLM, all or nothing)": cut}
    if sides:
        found["EMS(LLM, sides)"] = pipelines["EMS(LLM, sides)"].evaluate(triplets, answers)
    return table_of(answers, found)


def of_sentences(judge: Judge) -> dict[str, EMS]:
    """EMS(LLM), asked jointly, and EMS(LLM, sides), with sentences for points."""
    points, joint = SentenceExtractor(), build(judge, "llm", variant="all")
    return {"EMS(LLM)": EMS(points, joint.matcher, joint.scorer),
            "EMS(LLM, sides)": EMS(points, None, SidesLLMScorer(judge))}


def of_values(values: pd.DataFrame) -> pd.DataFrame:
    """The score table of a run, from its values frame (columns triplet_id, model, metric, part, value)."""
    named = values.assign(column=values["metric"] + " " + values["part"])
    return named.pivot(index=KEYS, columns="column", values="value").reset_index().rename_axis(columns=None)


def metrics_of(scores: pd.DataFrame, part: str = "F1") -> dict[str, str]:
    """Metric -> its column for `part`, or its only one ("Score"), in the table's order."""
    columns = [c.rsplit(" ", 1) for c in scores.columns if c.endswith((*PARTS, "Score"))]
    return {metric: f"{metric} {name}" for metric, name in columns if name in (part, "Score")}


def human_agreement(labels: pd.DataFrame, scores: pd.DataFrame, *,
                    against: Sequence[str] = (UNIGRAM, RAGCHECKER), asked: Sequence[str] = tuple(ASKED),
                    measures: Sequence[str] = PAIR_MEASURES, **bootstrap: int) -> pd.DataFrame:
    """How well each metric's preference within a pair agrees with the annotators', as RAGChecker has it.

    One observation per pair and annotator: the second answer's score less the first's (missing: the median
    difference) against the label, -2 .. 2. Tidy: asked, metric, measure (of `measures`: pearson, spearman,
    sign accuracy on labels other than 0), value, ci_low, ci_high over resampled pairs, n; paired differences
    of the correlations to the metrics `against`. The metric "the other annotator" is the annotators' own
    agreement. `bootstrap` is `stats.correlate`'s resamples and seed, here and below.
    """
    rows = []
    for ask in asked:
        columns = metrics_of(scores, ASKED[ask])
        wide = scores.pivot(index="triplet_id", columns="model", values=list(columns.values()))
        gap = wide.xs("2", axis=1, level=1) - wide.xs("1", axis=1, level=1)
        gap = gap.fillna(gap.median()).reindex(labels["instance_id"])
        gaps = {metric: gap[column] for metric, column in columns.items()}
        people = labels.pivot(index="instance_id", columns="annotator", values=ask)
        found = [*measured(gaps, labels[ask], gap.index, measures, against, **bootstrap),
                 *measured({PEOPLE: people[0]}, people[1], people.index, measures, (), **bootstrap)]
        rows += [{"asked": ask, **row} for row in found]
    return pd.DataFrame(rows).drop(columns=UNASKED)


def measured(metrics: Mapping[str, Any], labels: Any, cluster: Iterable[object], measures: Iterable[str],
             against: Iterable[str], **bootstrap: int) -> list[dict[str, Any]]:
    """How well each metric's values agree with labels: a row a metric and measure, with an estimate's fields
    and, but for sign accuracy, paired differences to the metrics `against`.
    """
    settings: dict[str, Any] = {"cluster": list(cluster), **bootstrap}
    rows = []
    for (metric, values), measure in product(metrics.items(), measures):
        row = {"metric": metric, "measure": measure}
        rows.append(row)
        if measure == SIGN:
            row |= asdict(stats.sign_accuracy(values, labels, **settings))
            continue
        asked = {"coefficients": [measure.lower()], **settings}
        found, = stats.correlate(values, labels, **asked).drop(columns="coefficient").to_dict("records")
        row |= found
        for other in against:
            if other in metrics and other != metric:
                gap, = stats.correlate_difference(values, metrics[other], labels, **asked).to_dict("records")
                row |= {f"vs {other}": gap["value"], f"vs {other} low": gap["ci_low"],
                        f"vs {other} high": gap["ci_high"]}
    return rows


def by_domain(labels: pd.DataFrame, scores: pd.DataFrame, metrics: Sequence[str], **bootstrap: int
              ) -> pd.DataFrame:
    """`human_agreement`'s Spearman rows on the overall preference within each of the labels' data sets, with
    columns domain and pairs. A domain has few pairs: read the intervals, which resample them.
    """
    columns = [*KEYS, *(name for metric, name in metrics_of(scores).items() if metric in metrics)]
    settings: dict[str, Any] = {"against": (), "asked": ["overall"], "measures": ["spearman"], **bootstrap}
    return pd.concat([human_agreement(here, scores[columns], **settings)
                      .assign(domain=domain, pairs=here["instance_id"].nunique())
                      for domain, here in labels.groupby("dataset")], ignore_index=True)


def beside_table1(people: pd.DataFrame) -> pd.DataFrame:
    """How far each metric of Table 1 agrees with people: metric, part, value, ci_low, ci_high.

    From `human_agreement`'s Spearman correlations: precision with correctness, recall with completeness, F1
    and metrics of one value with the overall preference. EMS(ROUGE) and EMS(BERTScore) are left out: there
    they rest on matches made without a judge.
    """
    apart = people["metric"].isin(["EMS(ROUGE)", "EMS(BERTScore)"])
    rows = people[(people["measure"] == "spearman") & ~apart].replace({"metric": {"ROUGE-L": "ROUGE"}})
    rows = rows.assign(part=rows["asked"].map(ASKED))
    # a metric of one value has it compared with the overall preference, and stands under "Score"
    single = rows[rows["part"] == "F1"].assign(part="Score")
    return pd.concat([rows, single])[["metric", "part", "value", "ci_low", "ci_high"]].reset_index(drop=True)


def label_agreement(labels: pd.DataFrame, scores: pd.DataFrame, *, by: str = "", part: str = "F1",
                    against: Sequence[str] = (), measures: Sequence[str] = LABEL_MEASURES, **bootstrap: int
                    ) -> pd.DataFrame:
    """How well each metric tells right answers from wrong ones (`labels.correct`).

    Tidy as `human_agreement`, with a column subset: "all", then each value of the labels' column `by`.
    `measures` are kendall (tau-b), pearson and AUC, or some of them. Intervals resample whole groups.
    InputError when an answer has no label or no score.
    """
    table = joined(labels, scores)
    columns, rows = metrics_of(scores, part), []
    for name, subset in [("all", table), *(table.groupby(by) if by else ())]:
        values = {metric: subset[column] for metric, column in columns.items()}
        found = measured(values, subset["correct"], subset["group"], measures, against, **bootstrap)
        rows += [{"subset": name, **row} for row in found]
    return pd.DataFrame(rows).drop(columns=UNASKED)


def joined(labels: pd.DataFrame, scores: pd.DataFrame, on: Sequence[str] = KEYS) -> pd.DataFrame:
    """Labels and scores of the same answers, or units; InputError when one of them lacks one."""
    table = labels.merge(scores, on=on, how="outer", indicator=True, validate="one_to_one")
    if unjoined := int((table["_merge"] != "both").sum()):
        raise InputError(f"{unjoined} {'units' if 'unit' in on else 'answers'} have only scores or only a "
                         "label; scores and labels must be of one run")
    return table.drop(columns="_merge")


def within_systems(labels: pd.DataFrame, scores: pd.DataFrame, shares: Mapping[str, float],
                   **bootstrap: int) -> pd.DataFrame:
    """How well each metric tells right answers from wrong ones where both are of one system: AUC in [0, 1].

    Over all pairs of a correct and an incorrect answer of one `model`, the share in which the correct one
    scores higher; a tie counts half. Where systems differ in quality, an AUC over all answers also rewards a
    metric that only tells the systems apart; the last row, `SYSTEM`, says how far that alone leads: AUC over
    all answers where each has its system's share of correct ones, from `shares`, as its score.

    Columns metric, part ("F1 within systems"; of `SYSTEM` "Score"), value, ci_low, ci_high over resampled
    groups, n (pairs). In a resample a pair counts as often as its two groups were drawn, multiplied. nan
    without a pair. InputError as `label_agreement`.
    """
    table = joined(labels, scores).sort_values(KEYS, ignore_index=True)
    table["cluster"] = pd.factorize(table["group"].astype(str), sort=True)[0]
    correct, clusters = table["correct"].astype(bool), table["cluster"].nunique()
    pairs, rows = table[correct].merge(table[~correct], on="model", suffixes=("", " of wrong")), []
    for metric, column in metrics_of(scores).items():
        known = pairs.dropna(subset=[column, f"{column} of wrong"])
        wins = (1 + np.sign(known[column] - known[f"{column} of wrong"]).to_numpy()) / 2
        area = _pair_share(wins, known["cluster"].to_numpy(), known["cluster of wrong"].to_numpy())
        found = stats.bootstrapped(area, clusters if len(known) else 0, len(known), **bootstrap)
        rows.append({"metric": metric, "part": "F1 within systems", **asdict(found)})
    alone = stats.auc(table["model"].map(shares), correct, list(table["group"]), **bootstrap)
    pairs_of_all = int(correct.sum() * (~correct).sum())
    rows.append({"metric": SYSTEM, "part": "Score", **asdict(alone), "n": pairs_of_all})
    return pd.DataFrame(rows).drop(columns=UNASKED)


def _pair_share(wins: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> stats.Statistic:
    """The mean of `wins` over pairs, each counted as often as its two clusters' draws multiplied."""
    def share(weights: np.ndarray) -> np.ndarray:
        drawn = weights[:, right] * weights[:, wrong]
        return (drawn * wins).sum(axis=1) / drawn.sum(axis=1)
    return share
