"""Do the metrics agree with people?

A *score table* is wide: one row per answer (`triplet_id`, `model`), one column per metric and part, such as
"EMS(local) F1" or "BLEU Score". Agreement is computed from such a table and a table of labels. Both hold
numbers only, so that it can be computed again without the texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ... import stats
from ...asking import Judge
from ...baselines import bertscore, bleu, rouge
from ...local.scorers import LocalScorer
from ...local.sentences import SentenceExtractor
from ...metrics import Metrics, ems_scores, f1
from ...pipeline import EMS, rescored
from ...presets import build
from ...score import BERTScorer, RougeScorer
from ...types import Answer, EMSResult, InputError, Triplet
from ...variants.sides import SidesLLMScorer
from ..own import score_columns

if TYPE_CHECKING:
    from ...local.encoder import Encoder

KEYS = ["triplet_id", "model"]
PARTS = ("Precision", "Recall", "F1")
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
PAIR_MEASURES = (*CORRELATIONS, "sign accuracy")
LABEL_MEASURES = ("kendall", "pearson", "AUC")
RANK_MEASURES = {"sign accuracy": stats.sign_accuracy, "AUC": stats.auc}


def unigram(references: Sequence[str], answers: Sequence[str]) -> list[tuple[float, float, float]]:
    """Precision, recall and F1 of the words that two texts share, in [0, 1]; 0 when either has no words.

    As SQuAD's F1 (Rajpurkar et al. 2016), articles included: words are runs of a-z and 0-9 in lower case.
    """
    scores = []
    for texts in zip(references, answers, strict=True):
        ref, ans = (Counter(re.findall(r"[a-z0-9]+", text.lower())) for text in texts)
        shared = (ref & ans).total()
        precision, recall = shared / max(1, ans.total()), shared / max(1, ref.total())
        scores.append((precision, recall, f1(recall, precision)))
    return scores


def surface_table(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """The score table of what any metric has to beat: the answer's length in words, and `unigram`."""
    reference = {t.id: t.reference for t in triplets}
    texts = [a.answer for a in answers]
    scores = unigram([reference[a.triplet_id] for a in answers], texts)
    return pd.DataFrame({key: [getattr(a, key) for a in answers] for key in KEYS}
                        | {"length Score": [len(text.split()) for text in texts]} | parts(UNIGRAM, scores))


def score_table(triplets: Sequence[Triplet], answers: Sequence[Answer], *, encoder: Encoder | None = None,
                metrics: Mapping[str, str] | None = None, scorers: Mapping[str, str] | None = None
                ) -> pd.DataFrame:
    """Every metric that needs no judge, for every answer; values in [0, 1] but for "length Score".

    `metrics` and `scorers` are a user's own (`own`). With an `encoder` also BERTScore, EMS(BERTScore) and
    EMS(local, encoder). EMS(ROUGE) and EMS(BERTScore) share points and matches with EMS(local-pair).
    """
    reference = {t.id: t.reference for t in triplets}
    references, texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    columns: dict[str, Sequence[float]] = {"BLEU Score": bleu(references, texts)}
    for kind, scores in rouge(references, texts).items():
        columns |= parts(f"ROUGE-{kind[-1]}", scores)
    local, pair = build(None, "local"), build(None, "local-pair")
    pipelines = {"EMS(local)": local}
    if encoder is not None:
        columns["BERTScore Score"] = bertscore(references, texts, encoder)
        pipelines["EMS(local, encoder)"] = EMS(local.extractor, local.matcher, LocalScorer(encoder))
    pipelines["EMS(local-pair)"] = pair
    results = {name: pipeline.evaluate(triplets, answers) for name, pipeline in pipelines.items()}
    results["EMS(ROUGE)"] = rescored(results["EMS(local-pair)"], RougeScorer(), pair)
    if encoder is not None:
        results["EMS(BERTScore)"] = rescored(results["EMS(local-pair)"], BERTScorer(encoder), pair)
    for name, rows in results.items():
        columns |= parts(name, [(r.precision, r.recall, r.f1) for r in rows])
    columns |= score_columns(metrics or {}, scorers or {}, triplets, answers)
    return pd.concat([surface_table(triplets, answers), pd.DataFrame(columns)], axis=1)


def judged_table(triplets: Sequence[Triplet], answers: Sequence[Answer], judge: Judge, *, sides: bool = True
                 ) -> pd.DataFrame:
    """The score table of what a judge says of sentence points, asked jointly: up to four calls an answer.

    EMS(LLM) (eq. 5 to 9), the same with scores of half and more cut to 1 and others to 0, and, with `sides`,
    EMS(LLM, sides).
    """
    points, joint = SentenceExtractor(), build(judge, "llm", variant="all")
    matched = EMS(points, joint.matcher, joint.scorer).evaluate(triplets, answers)
    cut = [ems_scores(r.match, [None if s is None else float(s >= 0.5) for s in r.score], len(r.ans_points))
           for r in matched]
    named: dict[str, Sequence[EMSResult | Metrics]] = {
        "EMS(LLM)": matched, "EMS(LLM, all or nothing)": cut}
    if sides:
        named["EMS(LLM, sides)"] = EMS(points, None, SidesLLMScorer(judge)).evaluate(triplets, answers)
    columns = {name: values for metric, rows in named.items()
               for name, values in parts(metric, [(r.precision, r.recall, r.f1) for r in rows]).items()}
    return pd.DataFrame({key: [getattr(a, key) for a in answers] for key in KEYS} | columns)


def of_values(values: pd.DataFrame) -> pd.DataFrame:
    """The score table of a run, from its values frame (columns triplet_id, model, metric, part, value)."""
    named = values.assign(column=values["metric"] + " " + values["part"])
    return named.pivot(index=KEYS, columns="column", values="value").reset_index().rename_axis(columns=None)


def parts(metric: str, scores: Sequence[tuple[float, float, float]]) -> dict[str, list[float]]:
    """Columns of a score table from (precision, recall, F1) of every answer."""
    return {f"{metric} {part}": [s[i] for s in scores] for i, part in enumerate(PARTS)}


def metrics_of(scores: pd.DataFrame, part: str = "F1") -> dict[str, str]:
    """Metric -> its column for `part`, or its only one ("Score"), in the table's order."""
    columns = [c.rsplit(" ", 1) for c in scores.columns if c.endswith((*PARTS, "Score"))]
    return {metric: f"{metric} {name}" for metric, name in columns if name in (part, "Score")}


def meta_pairs(meta: pd.DataFrame) -> tuple[list[Triplet], list[Answer], pd.DataFrame, pd.DataFrame]:
    """`upstream.ragchecker_meta`'s pairs: triplets, answers "1" and "2", labels, RAGChecker's score table.

    The labels are instance_id, annotator, dataset, overall, completeness, correctness.
    """
    first = meta.drop_duplicates("instance_id").astype({"instance_id": str})
    triplets = [Triplet(r.instance_id, r.instance_id, r.query, r.gt_answer) for r in first.itertuples()]
    answers = [Answer(r.instance_id, i, getattr(r, f"response{i}")) for r in first.itertuples() for i in "12"]
    parts = ("correctness", "completeness", "overall")            # as RAGChecker calls PARTS
    scores = [(r.instance_id, i, *(getattr(r, f"rc_{part}{i}") for part in parts))
              for r in first.itertuples() for i in "12"]
    labels = meta[["instance_id", "annotator", "dataset", *ASKED]].astype({"instance_id": str})
    columns = [*KEYS, *(f"{RAGCHECKER} {part}" for part in PARTS)]
    return triplets, answers, labels, pd.DataFrame(scores, columns=columns)


def human_agreement(labels: pd.DataFrame, scores: pd.DataFrame, *,
                    against: Sequence[str] = (UNIGRAM, RAGCHECKER), asked: Sequence[str] = tuple(ASKED),
                    measures: Sequence[str] = PAIR_MEASURES, resamples: int = 2000, seed: int = 7
                    ) -> pd.DataFrame:
    """How well each metric's preference within a pair agrees with the annotators', as RAGChecker has it.

    One observation per pair and annotator: the second answer's score less the first's (missing: the median
    difference) against the label, -2 .. 2. Tidy: asked, metric, measure (of `measures`: pearson, spearman,
    sign accuracy on labels other than 0), value, ci_low, ci_high over resampled pairs, n; paired differences
    of the correlations to the metrics `against`. The metric "the other annotator" is the annotators' own
    agreement.
    """
    bootstrap = {"resamples": resamples, "seed": seed}
    rows = []
    for ask in asked:
        columns = metrics_of(scores, ASKED[ask])
        wide = scores.pivot(index="triplet_id", columns="model", values=list(columns.values()))
        gap = wide.xs("2", axis=1, level=1) - wide.xs("1", axis=1, level=1)
        gap = gap.fillna(gap.median()).reindex(labels["instance_id"])
        preferences = {metric: gap[column].to_numpy() for metric, column in columns.items()}
        agreements = _agreement(preferences, labels[ask], labels["instance_id"], measures, against, bootstrap)
        people = labels.pivot(index="instance_id", columns="annotator", values=ask)
        agreements += _agreement({PEOPLE: people[0]}, people[1], people.index, measures, (), bootstrap)
        rows += [{"asked": ask, **row} for row in agreements]
    return pd.DataFrame(rows)


def by_domain(labels: pd.DataFrame, scores: pd.DataFrame, metrics: Sequence[str], *, resamples: int = 2000,
              seed: int = 7) -> pd.DataFrame:
    """`human_agreement`'s Spearman rows on the overall preference within each of the labels' data sets.

    Columns domain, pairs and those of `human_agreement`, for `metrics` and the other annotator. A domain has
    few pairs: read the intervals, which resample them.
    """
    columns = [name for metric, name in metrics_of(scores).items() if metric in metrics]
    rows = []
    for domain, here in labels.groupby("dataset"):
        found = human_agreement(here, scores[[*KEYS, *columns]], against=(), asked=["overall"],
                                measures=["spearman"], resamples=resamples, seed=seed)
        rows.append(found.assign(domain=domain, pairs=here["instance_id"].nunique()))
    return pd.concat(rows, ignore_index=True)


def beside_table1(people: pd.DataFrame, rouge: str = "rougeL") -> pd.DataFrame:
    """How far each metric of Table 1 agrees with people: metric, part, value, ci_low, ci_high.

    From `human_agreement`'s Spearman correlations: precision with correctness, recall with completeness, F1
    and metrics of one value with the overall preference. EMS(ROUGE) and EMS(BERTScore) are left out: there
    they rest on matches made without a judge.
    """
    apart = people["metric"].isin(["EMS(ROUGE)", "EMS(BERTScore)"])
    rows = people[(people["measure"] == "spearman") & ~apart]
    rows = rows.assign(part=rows["asked"].map(ASKED))
    rows["metric"] = rows["metric"].replace(f"ROUGE-{rouge[-1]}", "ROUGE")
    # a metric of one value has it compared with the overall preference, and stands under "Score"
    single = rows[rows["part"] == "F1"].assign(part="Score")
    return pd.concat([rows, single])[["metric", "part", "value", "ci_low", "ci_high"]].reset_index(drop=True)


def label_agreement(labels: pd.DataFrame, scores: pd.DataFrame, *, by: str = "", part: str = "F1",
                    against: Sequence[str] = (), measures: Sequence[str] = LABEL_MEASURES,
                    resamples: int = 2000, seed: int = 7) -> pd.DataFrame:
    """How well each metric tells right answers from wrong ones (`labels.correct`).

    Tidy as `human_agreement`, with a column subset: "all", then each value of the labels' column `by`.
    `measures` are kendall (tau-b), pearson and AUC, or some of them. Intervals resample whole groups.
    InputError when an answer has no label or no score.
    """
    table = _labelled(labels, scores)
    columns, rows = metrics_of(scores, part), []
    for name, subset in [("all", table), *(table.groupby(by) if by else ())]:
        values = {metric: subset[column] for metric, column in columns.items()}
        agreements = _agreement(values, subset["correct"].astype(float), subset["group"], measures,
                                against, {"resamples": resamples, "seed": seed})
        rows += [{"subset": name, **row} for row in agreements]
    return pd.DataFrame(rows)


def within_systems(labels: pd.DataFrame, scores: pd.DataFrame, shares: Mapping[str, float], *,
                   part: str = "F1", resamples: int = 2000, seed: int = 7) -> pd.DataFrame:
    """How well each metric tells right answers from wrong ones where both are of one system: AUC in [0, 1].

    Over all pairs of a correct and an incorrect answer of one `model`, the share in which the correct one
    scores higher; a tie counts half. Where systems differ in quality, an AUC over all answers also rewards a
    metric that only tells the systems apart; the last row, `SYSTEM`, says how far that alone leads: AUC over
    all answers where each has its system's share of correct ones, from `shares`, as its score.

    Columns metric, part ("F1 within systems"; of `SYSTEM` "Score"), value, ci_low, ci_high over resampled
    groups, n (pairs). In a resample a pair counts as often as its two groups were drawn, multiplied. nan
    without a pair. InputError as `label_agreement`.
    """
    table = _labelled(labels, scores).sort_values(KEYS, ignore_index=True)
    table["cluster"] = pd.factorize(table["group"].astype(str), sort=True)[0]
    correct, clusters = table["correct"].astype(bool), table["cluster"].nunique()
    pairs, rows = table[correct].merge(table[~correct], on="model", suffixes=("", " of wrong")), []
    for metric, column in metrics_of(scores, part).items():
        known = pairs.dropna(subset=[column, f"{column} of wrong"])
        wins = (1 + np.sign(known[column] - known[f"{column} of wrong"]).to_numpy()) / 2
        area = _pair_share(wins, known["cluster"].to_numpy(), known["cluster of wrong"].to_numpy())
        found = stats.bootstrapped(area, clusters if len(known) else 0, len(known), resamples, seed)
        rows.append({"metric": metric, "part": f"{part} within systems", **_ends(found), "n": len(known)})
    alone = stats.auc(table["model"].map(shares), correct, list(table["group"]), resamples=resamples,
                      seed=seed)
    rows.append({"metric": SYSTEM, "part": "Score", **_ends(alone),
                 "n": int(correct.sum() * (~correct).sum())})
    return pd.DataFrame(rows)


def _pair_share(wins: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> stats.Statistic:
    """The mean of `wins` over pairs, each counted as often as its two clusters' draws multiplied."""
    def share(weights: np.ndarray) -> np.ndarray:
        drawn = weights[:, right] * weights[:, wrong]
        return (drawn * wins).sum(axis=1) / drawn.sum(axis=1)
    return share


def _ends(found: stats.Estimate) -> dict[str, float]:
    return {"value": found.value, "ci_low": found.ci_low, "ci_high": found.ci_high}


def _labelled(labels: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Labels and scores joined by answer; InputError when one of them lacks an answer."""
    table = labels.merge(scores, on=KEYS, how="outer", indicator=True, validate="one_to_one")
    if unjoined := int((table["_merge"] != "both").sum()):
        raise InputError(f"{unjoined} answers have only scores or only a label; "
                         "scores and labels must be of one run")
    return table.drop(columns="_merge")


def _agreement(metrics: Mapping[str, Any], labels: Any, cluster: Any, measures: Sequence[str],
               against: Sequence[str], bootstrap: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows by metric and measure: first the coefficients, then those of `RANK_MEASURES`."""
    coefficients = [measure for measure in measures if measure not in RANK_MEASURES]
    ranks = [measure for measure in measures if measure in RANK_MEASURES]
    settings: dict[str, Any] = {"cluster": list(cluster), **bootstrap}
    asked = {"coefficients": coefficients, **settings}
    compared = [*coefficients, *(["auc"] if "AUC" in ranks else [])]
    rows = []
    for metric, values in metrics.items():
        found = stats.correlate(values, labels, **asked).to_dict("records")
        by_measure = {row["coefficient"]: row for row in found}
        by_measure |= {rank: asdict(RANK_MEASURES[rank](values, labels, **settings)) for rank in ranks}
        differences = {
            one: stats.correlate_difference(values, metrics[one], labels, coefficients=compared, **settings)
            .set_index("coefficient").rename(index={"auc": "AUC"})
            for one in against if one in metrics and one != metric}
        for measure, estimate in by_measure.items():
            row = {"metric": metric, "measure": measure,
                   **{name: estimate[name] for name in ("value", "ci_low", "ci_high", "n")}}
            for other, difference in differences.items():
                if measure in difference.index:
                    value, low, high = difference.loc[measure, ["value", "ci_low", "ci_high"]]
                    row |= {f"vs {other}": value, f"vs {other} low": low, f"vs {other} high": high}
            rows.append(row)
    return rows
