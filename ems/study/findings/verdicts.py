"""What the numbers of a run say, in words: from frames to the Markdown that notebooks 3 to 6 show first.

Every text follows from the numbers alone. Names of models come from outside and are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from typing import Any

import pandas as pd

from ...judge.budget import Usage, table
from ...results.display import markdown_text
from ...stats import MIN_CLUSTERS
from ...types import EMSResult, InputError
from ..people.agreement import SYSTEM

ALPHA = 0.05         # p below which two systems count as distinguished
WEAK = 0.5           # share of equal indices, or of equal scores, above which a judge is called weak
JUDGED, LOCAL = "EMS(LLM)", "EMS(local)"


def with_interval(row: Mapping[str, Any]) -> str:
    """A value with its interval, if any: "0.62 [0.55, 0.69]". Needs `value`, `ci_low` and `ci_high`."""
    return f"{row['value']:.2f}{interval(row['ci_low'], row['ci_high'])}"


def in_percent(row: Mapping[str, Any], name: str = "value") -> str:
    """A share with its interval, if any: "62 % [55, 69]". Needs `name`, `ci_low` and `ci_high`."""
    return percent(row[name]) + interval(100 * row["ci_low"], 100 * row["ci_high"], ".0f")


def interval(low: float, high: float, form: str = ".2f") -> str:
    """Both ends in this form, after a space; "" where there is no interval."""
    return "" if isnan(low) else f" [{low:{form}}, {high:{form}}]"


def percent(share: float) -> str:
    """A share in whole percent, "–" for nan."""
    return "–" if isnan(share) else f"{100 * share:.0f} %"


def people_sets(people: pd.DataFrame, summaries: pd.DataFrame, correct: pd.DataFrame, right: pd.DataFrame,
                judged: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What notebook 6 compares metrics by, a frame a column of `by_set`: from `agreement.human_agreement`,
    `unit_labels.summary_agreement` and two of `agreement.label_agreement`; `judged` are more of the latter by
    column, of the answers that a judge scored."""
    kendall = summaries[summaries["measure"] == "kendall"]
    return {
        "RAGChecker's pairs (Spearman)": people[(people["asked"] == "overall")
                                                & (people["measure"] == "spearman")],
        "REALSumm, systems (Kendall)": kendall[kendall["level"] == "system"],
        "REALSumm, summaries (Kendall)": kendall[kendall["level"] == "summary"],
        **{name: of_all(frame) for name, frame in (
            ("FinanceBench (AUC)", correct), ("FinDVer (AUC)", right), *judged.items())}}


def of_all(frame: pd.DataFrame, measure: str = "AUC") -> pd.DataFrame:
    """The rows of one measure over all answers, of a frame of `agreement.label_agreement`."""
    return frame[(frame["subset"] == "all") & (frame["measure"] == measure)]


def by_set(named: Mapping[str, pd.DataFrame], developed: Sequence[str]) -> pd.DataFrame:
    """One table of metrics by set, each cell a value with its interval; a star for those `developed` there.

    The frames have columns metric, value, ci_low, ci_high; a metric that a set does not have is nan.
    """
    cells = {name: frame.set_index("metric").apply(with_interval, axis=1) for name, frame in named.items()}
    metrics = dict.fromkeys(metric for column in cells.values() for metric in column.index)
    beside = pd.DataFrame(cells).reindex(list(metrics))
    return beside.rename(index={metric: f"{metric} *" for metric in developed}).rename_axis("metric")


def comparison(row: Mapping[str, Any], other: str) -> str:
    """A row's paired difference to another metric; "above" or "below" only when its whole interval is.

    `row` is one of `agreement.human_agreement` or `label_agreement`, compared against `other`.
    """
    gap, low, high = (row[f"vs {other}{end}"] for end in ("", " low", " high"))
    word = "above" if low > 0 else "below" if high < 0 else "not distinguishable from"
    return f"{word} {markdown_text(other)} ({gap:+.2f} [{low:+.2f}, {high:+.2f}])"


# --- notebook 3: the judge ---

def judge_signs(results: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """Signs of a weak judge, a row for each set of results; shares in [0, 1], nan where nothing was read.

    points per reference, points per answer   mean numbers
    long points       share of the answers' points with more than the two sentences that the prompt allows
    unmatched         share of the matches that could be read which say that there is none
    commonest index   share of the matches found that name one and the same answer point
    commonest score   share of the scored pairs that have one and the same score
    """
    rows = []
    for metric, answers in results.items():
        matches = [index for r in answers for index in r.match if index is not None]
        scores = [s for r in answers for index, s in zip(r.match, r.score, strict=True)
                  if index != -1 and s is not None]
        rows.append({
            "metric": metric,
            "points per reference": _mean(len(r.ref_points) for r in answers),
            "points per answer": _mean(len(r.ans_points) for r in answers),
            "long points": _mean(len(p.rstrip(".").split(". ")) > 2 for r in answers for p in r.ans_points),
            "unmatched": _mean(index == -1 for index in matches),
            "commonest index": _commonest(index for index in matches if index >= 0),
            "commonest score": _commonest(scores)})
    return pd.DataFrame(rows).set_index("metric")


def judge(signs: pd.DataFrame, rank_correlation: float, name: str) -> str:
    """What the judge `name` ("" for none) is worth: from `judge_signs`, and from the Spearman correlation of
    its F1 with EMS(local)'s.
    """
    if not name:
        return "This run has no judge: every EMS row is computed locally."
    seen = signs.loc[JUDGED]
    if isnan(seen["commonest index"]):
        return (f"**The judge matched nothing.** {markdown_text(name)} matched no reference point: its rows "
                "measure nothing.")
    agrees = f"its rank correlation with EMS(local) over the answers is {rank_correlation:.2f}"
    if isnan(rank_correlation):
        agrees = ("no rank correlation with EMS(local) can be computed, because one of the two gives all "
                  "answers the same value")
    text = (f"{markdown_text(name)} left {percent(seen['unmatched'])} of the reference points unmatched. It "
            f"chose the same index for {percent(seen['commonest index'])} of the points that it matched, "
            f"and gave the same score to {percent(seen['commonest score'])} of the pairs; {agrees}. ")
    if max(seen["commonest index"], seen["commonest score"]) > WEAK:
        return (f"**This is a weak judge.** {text}Read the rows that depend on it as a demonstration of the "
                "procedure. EMS(local) may be the better evidence: notebook 6 shows how far people agree "
                "with it, notebook 4 which metrics distinguish the systems.")
    return (f"**No sign of a weak judge.** {text}A judge is called weak when one index, or one score, is "
            f"given in more than {percent(WEAK)} of the cases.")


def example(results: Sequence[EMSResult], triplet_id: str = "") -> EMSResult:
    """An answer to draw: of the model with the highest mean F1, the one in the middle by F1.

    With a `triplet_id`, the best answer to that triplet. InputError when there is none.
    """
    chosen = [r for r in results if r.triplet_id == triplet_id or not triplet_id]
    if not chosen:
        raise InputError(f"EXAMPLE: no answer to triplet {triplet_id!r}")
    ranked = sorted((r for r in chosen if not isnan(r.f1)), key=lambda r: (r.f1, r.triplet_id))
    if triplet_id or not ranked:
        return (ranked or chosen)[-1]
    means = pd.Series([r.f1 for r in ranked]).groupby([r.model for r in ranked]).mean()
    best = [r for r in ranked if r.model == means.idxmax()]
    return best[len(best) // 2]


def coverage(results: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """Points, unscored points, and answers without a value, a row for each set of results."""
    return pd.DataFrame([{"metric": metric, "points": sum(max(len(r.match), r.unscored) for r in answers),
                          "unscored": sum(r.unscored for r in answers),
                          "answers without a value": sum(isnan(r.f1) for r in answers)}
                         for metric, answers in results.items()]).set_index("metric")


def judge_use(usage: Usage) -> str:
    """What a judge was asked and what it cost, a line for each model of a usage (`data.judge_usage`)."""
    lines, used = [], table(usage)
    for total in used[(used["task"] == "all") & used["model"].isin(list(usage))].itertuples():
        line = (f"- **{markdown_text(total.model)}**: {total.requests:,} questions, {total.stored:,} replies "
                f"from the store, {total.calls:,} calls")
        if total.calls:
            line += (f" ({total.prompt_tokens:,} prompt tokens, {total.completion_tokens:,} reply tokens, "
                     f"{'unknown' if isnan(total.cost) else format(total.cost, ',.2f')} money, "
                     f"{total.seconds:,.0f} seconds of all calls together)")
        lines.append(f"{line}; {total.unread:,} questions without a usable reply.")
    return "\n".join(lines) or "No model was asked."


# --- notebook 4: the systems ---

def models(paired: pd.DataFrame) -> str:
    """Which metrics distinguish which systems: three bullets, from `stats.paired_table`.

    A metric distinguishes two systems when the interval of their difference excludes 0 and `p_holm` is below
    0.05. A sign-flip test over k clusters cannot give a p below 2 / 2^k (times the number of pairs, by Holm):
    where that is 0.05 or more the interval decides alone, and the text says so.
    """
    rows = paired[paired["part"].isin(["F1", "Score"])]
    if rows.empty:
        return "The values are of one system: there is nothing to compare."
    clusters, of_pairs = rows["clusters"].max(), rows.groupby(["a", "b"])["clusters"].max()

    def least_of(clusters: int) -> float:
        # Holm multiplies the smallest p by the number of pairs, the next by one less: pairs over more
        # clusters may come first.
        return min(1.0, int((of_pairs <= clusters).sum()) * 2.0 ** (1 - clusters))

    least = least_of(clusters)
    found: dict[str, dict[str, str]] = {"The later system is better": {}, "No clear difference": {},
                                        "The later system is worse": {}}
    notes = []
    for (earlier, later), pair in rows.groupby(["b", "a"], sort=False):
        name = f"**{markdown_text(later)}** against **{markdown_text(earlier)}**"
        alone = least_of(own := pair["clusters"].max()) >= ALPHA
        clear = (pair["p_holm"] < ALPHA) | alone
        above, below = clear & (pair["ci_low"] > 0), clear & (pair["ci_high"] < 0)
        for by_pair, chosen in zip(found.values(), (above, ~above & ~below, below), strict=True):
            by_pair[name] = ", ".join(map(markdown_text, pair["metric"][chosen]))
        if alone and least < ALPHA:
            notes.append(f"{name} by the interval alone: over its {own} clusters no `p_holm` is below "
                         f"{least_of(own):.2g}.")
    order = ", ".join(markdown_text(system) for system in dict.fromkeys(rows[["b", "a"]].to_numpy().ravel()))
    first = (f"By interval and `p_holm`, over {clusters} clusters." if least < ALPHA else
             f"By the interval alone, as an indication only: over {clusters} clusters no `p_holm` is below "
             f"{least:.2g}{'' if clusters >= MIN_CLUSTERS else ', and there is no interval either'}.")
    return "\n".join([f"{first} Systems in order: {order}.", "",
                      *(f"- **{kind}:** {_said_once(by_pair)}." for kind, by_pair in found.items()),
                      *["", *notes] * bool(notes)])


def _said_once(by_pair: Mapping[str, str]) -> str:
    """The metrics of each pair that has some; said once when they are the same for all pairs."""
    first, *others = set(by_pair.values())
    if first and not others and len(by_pair) > 1:
        return f"in all {len(by_pair)} pairs by {first}"
    return "; ".join(f"{name} by {metrics}" for name, metrics in by_pair.items() if metrics) or "in no pair"


# --- notebook 5: choices and edits ---

def choices(compared_choices: pd.DataFrame, separation: pd.DataFrame, base: str) -> str:
    """Which of the paper's choices help, from `ablation.compare` and `ablation.separation` by metric.

    `base` is the row of `separation` without a change.
    """
    named = compared_choices.groupby("verdict", sort=False)["name"].agg("; ".join)
    gaps = separation["gap"].dropna()
    if gaps.empty:
        gap = "There is no gap between models to look at: that takes two models and two triplets."
    else:
        first, last = (markdown_text(separation[end].iloc[0]) for end in ("first", "last"))
        gap = (f"The mean difference of {last} to {first}, in standard deviations, is "
               f"{separation['gap'][base]:.2f} under the paper's choices ({base}); it is widest for "
               f"{gaps.idxmax()} ({gaps.max():.2f}) and narrowest for {gaps.idxmin()} ({gaps.min():.2f}).")
    return ("- **Choices and people.** One choice of the paper is changed at a time, and the values are "
            f"compared with RAGChecker's annotators. The change does harm in {named.get('harms', 'no case')};"
            f" it helps in {named.get('helps', 'no case')}; all other changes make no clear difference.\n"
            f"- **Choices and models.** {gap}")


def edits(noticed: pd.DataFrame) -> str:
    """Which metric notices which edit of a text, from `ablation.verdicts`; losses in points of 100."""
    passed = noticed.groupby("metric")["passes"].sum().sort_values(ascending=False, kind="stable")
    failed = noticed[~noticed["passes"].fillna(True).astype(bool)].groupby("metric")["edit"].agg(", ".join)
    losses = noticed.set_index(["metric", "edit"])["loss"].mul(100)

    def loss(metric: str, edit: str) -> str:
        return f"{losses.get((metric, edit), nan):.1f}"

    lines = [f"- **Who notices what.** Number of edits, of {noticed['edit'].nunique()}, at which a metric "
             "moves in the right direction and proportion: "
             f"{', '.join(f'{metric} {n}' for metric, n in passed.items())}."]
    if "change numbers" not in set(noticed["edit"]):
        lines[0] += (" No reference has a number to change: those losses are nan, and edits that should cost "
                     "little have no verdict.")
    if noticed["ci_low"].isna().all():
        lines[0] += (f" The texts are of fewer than {MIN_CLUSTERS} groups: there is no interval, and edits "
                     "that should cost have no verdict.")
    falsified = "; ".join(
        f"{metric} loses {loss(metric, 'change numbers')} and {loss(metric, 'change stop words')}"
        for metric in (LOCAL, "ROUGE-L", "BLEU"))
    lines.append(f"- **Changed numbers and changed stop words**, in points of 100: {falsified}.")
    lines.append(f"- **Against EMS.** {LOCAL} fails at: {failed.get(LOCAL, 'none of these edits')}. Swapped "
                 f"names cost it {loss(LOCAL, 'swap names')} points, and a light paraphrase, which loses "
                 f"nothing, {loss(LOCAL, 'paraphrase lightly')}{_paraphrased(noticed)}: without a judge a "
                 "synonym is another word, and a swapped name is a word that both texts have.")
    return "\n".join(lines)


def _paraphrased(noticed: pd.DataFrame) -> str:
    """Which edits that should cost EMS(local) cost it less than a light paraphrase, and why that may pass."""
    own = noticed[noticed["metric"] == LOCAL].set_index("edit")
    if not {"paraphrase lightly", "change numbers"} <= set(own.index):
        return ""
    found = own.loc["paraphrase lightly"]
    less = own[own["harm"].isin(["worse", "excess"]) & (own["loss"] < found["loss"])]
    words = f", more than for: {', '.join(less.index)}" if len(less) else ""
    if own["passes"].fillna(False)["paraphrase lightly"]:
        bar = 50 * own.loc["change numbers", "loss"]
        words += f" (it passes, since the bar is half of its own loss for changed numbers, {bar:.1f})"
    return words


# --- notebook 6: people ---

def pairs(people: pd.DataFrame, n_pairs: int, annotator: str = "the other annotator") -> str:
    """Which metric prefers what people prefer, from `agreement.human_agreement` over `n_pairs` pairs.

    `annotator` is the row that holds the agreement of the annotators with each other.
    """
    rows = people[people["measure"] == "spearman"].set_index(["asked", "metric"])
    overall = rows.xs("overall")["value"].drop(annotator)
    local, pair = rows.loc[("overall", LOCAL)], rows.loc[("overall", "EMS(local-pair)")]
    value = {key: with_interval(row) for key, row in rows.iterrows()}
    judged = ""
    if JUDGED in overall:
        sides = f"{JUDGED[:-1]}, sides)"
        judged = (
            f"- **{JUDGED} F1**, sentence points and a large model as the judge, reaches "
            f"{value['overall', JUDGED]}: {comparison(rows.loc[('overall', JUDGED)], 'RAGChecker')}. For "
            f"completeness it reaches {value['completeness', JUDGED]}, where RAGChecker reaches "
            f"{value['completeness', 'RAGChecker']}; for correctness {value['correctness', JUDGED]} and "
            f"{value['correctness', 'RAGChecker']}. Each point compared with the whole other side, which is "
            f"not the paper's form, {sides} reaches {value['overall', sides]}: "
            f"{comparison(rows.loc[('overall', sides)], 'RAGChecker')}. Scores cut to all or nothing: "
            f"{value['overall', f'{JUDGED[:-1]}, all or nothing)']}.\n")
    return (
        f"- **The upper limit.** On {n_pairs} pairs of answers one annotator predicts the other with a "
        f"Spearman correlation of {value['overall', annotator]}; RAGChecker, with a large model as its "
        f"judge, with {value['overall', 'RAGChecker']}.\n"
        f"{judged}"
        f"- **{LOCAL} F1**, developed on these pairs, reaches {value['overall', LOCAL]} without a judge: "
        f"{comparison(local, 'unigram')}, {comparison(local, 'RAGChecker')}. Its recall against "
        f"completeness: {value['completeness', LOCAL]}; its precision against correctness: "
        f"{value['correctness', LOCAL]}.\n"
        f"- **Against EMS.** The paper's one-to-one form, EMS(local-pair), reaches {with_interval(pair)}: "
        f"{comparison(pair, 'unigram')}. Metrics with a higher value: "
        f"{_higher(overall, pair['value'])}; higher than {LOCAL}: {_higher(overall, local['value'])}.\n"
        f"- **Length alone**, without the reference, reaches {value['overall', 'length']}, and "
        f"{value['completeness', 'length']} for completeness.")


def right_wrong(bench: pd.DataFrame, recall: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """Which metric ranks right answers over wrong ones, from three frames of `agreement.label_agreement`.

    `bench`: FinanceBench by F1, `recall`: the same by recall, `verdicts`: FinDVer by F1.
    """
    areas = [of_all(frame).set_index("metric") for frame in (bench, recall, verdicts)]
    by_f1, by_recall, by_verdict = (with_interval(area.loc[LOCAL]) for area in areas)
    higher = [f"higher, of the metrics computed on all {area.loc[LOCAL, 'n']:,.0f} answers: "
              f"{_higher(area['value'], area.loc[LOCAL, 'value'])}" for area in areas]
    linear = of_all(verdicts, "pearson").set_index("metric").loc[LOCAL]
    return (
        "- **FinanceBench.** Its references are a few words long and its answers are long, so that every "
        f"explanation lowers F1 and precision. {LOCAL} F1 ranks correct over incorrect answers with an AUC "
        f"of {by_f1} (0.5 is chance); {higher[0]}. Its recall reaches {by_recall}; {higher[1]}. "
        "Where references are short, use recall.\n"
        f"- **FinDVer.** {LOCAL} F1 ranks right over wrong answers with an AUC of {by_verdict}; "
        f"{higher[2]}. Its point-biserial correlation, {with_interval(linear)}, is "
        f"{comparison(linear, 'ROUGE-L')} and {comparison(linear, 'unigram')}. Likeness to an expert's "
        "explanation, without a judge, says little about whether the conclusion is right.")


def judged_labels(answers: Mapping[str, Mapping[str, pd.DataFrame]], within: Mapping[str, pd.DataFrame],
                  points: pd.DataFrame) -> str:
    """What EMS(LLM) is worth on labels that no prompt was tuned on.

    `answers`: by set and part, `agreement.label_agreement` of the answers that the judge scored, against
    EMS(LLM); `within`: by set, `agreement.within_systems` of their F1; `points`:
    `unit_labels.unit_agreement` of K-QA's claims.
    """
    lines = []
    for name, frames in answers.items():
        by_f1, by_recall = (of_all(frames[part]).set_index("metric") for part in ("F1", "Recall"))
        inside = within[name].set_index("metric")
        others = "; ".join(f"{markdown_text(metric)} {with_interval(row)}, {comparison(row, JUDGED)}"
                           for metric, row in by_f1.iterrows() if metric != JUDGED)
        same = ", ".join(f"{metric} {with_interval(inside.loc[metric])}"
                         for metric in (JUDGED, "ROUGE-L", LOCAL))
        lines.append(
            f"- **{JUDGED} on {name}**. No prompt was tuned there. On {by_f1.loc[JUDGED, 'n']:.0f} answers, "
            f"its F1 ranks correct over incorrect ones with an AUC of {with_interval(by_f1.loc[JUDGED])}, "
            f"its recall with {with_interval(by_recall.loc[JUDGED])}. F1 of the others: {others}. Systems "
            "differ in quality: who knows of each answer only which system wrote it reaches "
            f"{with_interval(inside.loc[SYSTEM])}. Over the {inside.loc[JUDGED, 'n']:,} pairs of a correct "
            f"and an incorrect answer of one system: {same}.")
    by_claim = points.set_index("metric")
    claims = "; ".join(f"{markdown_text(metric)} {with_interval(row)}" for metric, row in by_claim.iterrows())
    lines.append(f"- **K-QA**, {by_claim.loc[JUDGED, 'n']:.0f} claims that physicians looked for in answers. "
                 f"AUC: {claims}. (`words`: share of the claim's words that the answer has; `matched`: "
                 "whether the matcher found a partner, without a score.)")
    return "\n".join(lines)


def _higher(values: pd.Series, than: float) -> str:
    """The metrics with a higher value, to the two decimals that are shown."""
    return _listed(values.index[values.round(2) > round(than, 2)])


def _mean(values: Iterable[float]) -> float:
    return pd.Series(list(values), dtype=float).mean()


def _commonest(values: Iterable[Any]) -> float:
    """Share of the most frequent value; nan without any."""
    return pd.Series(list(values), dtype=object).value_counts(normalize=True).max()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(markdown_text(name) for name in names) or "none"
