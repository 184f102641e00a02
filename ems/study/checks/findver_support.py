"""FinDVer's claims as answers of one point, checked against their filings by numbers and by a judge.

By numbers, a claim is taken as refuted when it is contradicted or a number of it is missing, else as
entailed: a claim without an amount always is. That rule was chosen on one half of the filings (`CHOSEN`) and
is measured on the other; which half a filing is in follows from its name alone. By a judge, a claim is
entailed when its label is supported, else refuted: nothing was chosen on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd

from ...asking import Judge
from ...stats import mean_over
from ...support.document import Document
from ...support.retrieve import average_precision, recall_at, reciprocal_rank
from ...support.supporters import LLMSupporter, LocalSupporter
from ..ablations.reliability import by_hash
from ..findings.verdicts import in_percent, interval, percent
from ..people import human
from ..people.upstream import findver_claims

CHOSEN, MEASURED, BOTH = "chosen on", "measured on", "both"
SUBSETS = {"all": "all claims", "ie": "FDV-IE", "numeric": "FDV-MATH", "knowledge": "FDV-KNOW"}
K = 10                       # passages that are retrieved, and shown to a judge


def claims(committed: Path, recompute: bool, save: Path | None = None) -> pd.DataFrame:
    """A row a claim, from the file `committed` or computed from the pinned filings (and written to `save`).

    Columns: triplet_id, group (the filing), half, subset, entailed, label, checked, said, right, recall_3 to
    recall_10, map_relevant, map_found, mrr, signature, and `right: <model>` for each released model.
    """
    return human.recorded(committed, _checked_claims if recompute else None, save)[0]


def judged_claims(frame: pd.DataFrame, committed: Path, judge: Judge | None = None,
                  save: Path | None = None) -> tuple[pd.DataFrame, str]:
    """The rows of `claims` with what a judge says in the columns label, said, right and signature, now or
    committed; and where it comes from (`human.recorded`). A claim whose label is unscored is left out.
    """
    judged, source = human.recorded(committed, partial(_judged, judge) if judge else None,
                                     save and save / committed.name)
    rows = frame.drop(columns=["label", "signature"]).merge(
        judged[judged["label"].notna()].drop(columns="reason"), on="triplet_id", validate="one_to_one")
    said = rows["label"] == "supported"
    return rows.assign(said=said, right=said == rows["entailed"].astype(bool)), source


def _judged(judge: Judge) -> pd.DataFrame:
    given, filings, _ = findver_claims()
    documents = {name: Document(passages) for name, passages in filings.items()}
    supporter = LLMSupporter(judge, k=K)
    supports = supporter.check_all([(documents[c["report"]], (c["statement"],)) for c in given])
    return pd.DataFrame([(c["triplet_id"], s.label, s.reason, supporter.signature)
                         for c, (s,) in zip(given, supports, strict=True)],
                        columns=["triplet_id", "label", "reason", "signature"])


def half_of(filings: Sequence[str]) -> dict[str, str]:
    """Every second filing in the order of the SHA-256 of its name, the first one included, is `CHOSEN`."""
    return {name: (CHOSEN, MEASURED)[i % 2] for i, name in enumerate(by_hash(set(filings)))}


def _checked_claims() -> pd.DataFrame:
    given, filings, released = findver_claims()
    documents = {name: Document(passages) for name, passages in filings.items()}
    halves, supporter = half_of([claim["report"] for claim in given]), LocalSupporter()
    rows = []
    for claim in given:
        document, relevant = documents[claim["report"]], claim["relevant"]
        ranked = document.index.top(claim["statement"], K)
        support, = supporter.check(document, [claim["statement"]])
        said = not (support.label == "contradicted" or support.missing)
        id_ = claim["triplet_id"]
        rows.append({
            "triplet_id": id_, "group": claim["report"].removesuffix(".json"),
            "half": halves[claim["report"]], "subset": claim["subset"], "entailed": claim["entailed"],
            "label": support.label, "checked": support.checked, "said": said,
            "right": said == claim["entailed"],
            **{f"recall_{k}": recall_at(ranked, relevant, k) for k in (3, 5, K)},
            "map_relevant": average_precision(ranked, relevant),
            "map_found": average_precision(ranked, relevant, over="found"),
            "mrr": reciprocal_rank(ranked, relevant), "signature": supporter.signature,
            **{f"right: {model}": results[id_] for model, results in released.items()}})
    return pd.DataFrame(rows)


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """The rule by half and subset: claims, share right with its interval over filings, share right of those
    with a number to check, share refuted of those flagged (and how many), and on the same claims the best and
    the median released model.
    """
    return _by_half(frame, (CHOSEN, MEASURED), lambda half, cell: {
        "right, of those with a number": cell.loc[cell["checked"].astype(bool), "right"].mean()})


def judge_beside(frame: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The judge by half and subset, on the claims that it has a label for; for it, both halves are unseen.

    Columns: half ("measured on" or "both"), claims of, n, right with its interval over filings, "less
    numbers" with its interval (its share right less the rule's; nan for both, since the rule was chosen on
    one), then those of `accuracy` from the share refuted of those flagged.
    """
    numbers = judged["triplet_id"].map(frame.set_index("triplet_id")["right"].astype(float))
    judged = judged.assign(more=judged["right"].astype(float) - numbers)
    return _by_half(judged, (MEASURED, BOTH), lambda half, cell: _interval(     # no claim's own half is both
        "less numbers", cell["more"].where(cell["half"] == half), cell["group"], "less_"))


def _by_half(frame: pd.DataFrame, halves: Sequence[str],
             between: Callable[[str, pd.DataFrame], dict[str, float]]) -> pd.DataFrame:
    """A row for the claims of each half and subset, if there are any, with what `between` says of them."""
    rows = []
    for half, (subset, name) in product(halves, SUBSETS.items()):
        cell = frame[frame["half"].eq(half) | (half == BOTH)]
        cell = cell[cell["subset"].eq(subset) | (subset == "all")]
        if cell.empty:
            continue
        flagged, models = cell[~cell["said"].astype(bool)], cell.filter(like="right: ").mean()
        rows.append({
            "half": half, "claims of": name, "n": len(cell),
            **_interval("right", cell["right"], cell["group"]), **between(half, cell),
            "refuted, of those flagged": (~flagged["entailed"].astype(bool)).mean(),
            "flagged": len(flagged), "best model": models.max(), "median model": models.median()})
    return pd.DataFrame(rows)


def _interval(name: str, values: pd.Series, filings: pd.Series, prefix: str = "") -> dict[str, float]:
    """The mean of values with its 95 % interval over filings; nan without values."""
    share = mean_over(values.astype(float), filings)
    return {name: share.value, f"{prefix}ci_low": share.ci_low, f"{prefix}ci_high": share.ci_high}


def retrieval(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean recall at 3, 5 and 10, average precision both ways, and reciprocal rank of BM25, by half."""
    columns = ["recall_3", "recall_5", "recall_10", "map_relevant", "map_found", "mrr"]
    return pd.concat([frame.groupby("half")[columns].mean(), frame[columns].mean().to_frame("all").T])


def findings(table: pd.DataFrame, ranks: pd.DataFrame, judged: pd.DataFrame) -> str:
    """What the rule and the judge are worth, in words: from `accuracy`, `retrieval` and `judge_beside`.

    Of the rule, only the half that it was not chosen on counts.
    """
    rows = table[table["half"] == MEASURED].set_index("claims of")
    whole, math_, ie, know = (rows.loc[SUBSETS[name]] for name in ("all", "numeric", "ie", "knowledge"))

    worth = ("which is not above the 50 % of guessing" if not whole["ci_low"] > 0.5
             else "which is above the 50 % of guessing")
    with_amount, flagged = (percent(row[name]) for row, name in (
        (whole, "right, of those with a number"), (ie, "refuted, of those flagged")))
    return (
        f"- **FinDVer's claims.** The rule, on {whole['n']} claims of filings on which it was not chosen, is "
        f"right about {in_percent(whole, 'right')}, {worth} (the median released model: "
        f"{percent(whole['median model'])}); {with_amount} of those with an amount. On FDV-MATH "
        f"{in_percent(math_, 'right')}, the median model {percent(math_['median model'])}; on FDV-IE "
        f"{in_percent(ie, 'right')} and {percent(ie['median model'])}, on FDV-KNOW "
        f"{in_percent(know, 'right')} and {percent(know['median model'])}. "
        f"Of the {ie['flagged']} FDV-IE claims that it takes for refuted, {flagged} are.\n"
        f"{_judge_finding(judged)}\n"
        f"- **Retrieval.** BM25 has {percent(ranks.loc['all', 'recall_10'])} of the experts' passages "
        "among its ten best, over all filings at hand.")


def _judge_finding(judged: pd.DataFrame) -> str:
    rows = judged.set_index(["half", "claims of"])
    same, every, ie = (rows.loc[place] for place in (
        (MEASURED, SUBSETS["all"]), (BOTH, SUBSETS["all"]), (BOTH, SUBSETS["ie"])))
    clear = same["less_ci_low"] > 0 or same["less_ci_high"] < 0
    return (
        f"- **The same claims by a judge**, which reads the ten passages nearest to each: right about "
        f"{in_percent(same, 'right')} of the {same['n']:.0f}, {100 * same['less numbers']:+.0f} points of 100"
        f"{interval(100 * same['less_ci_low'], 100 * same['less_ci_high'], '+.0f')} from the rule"
        f"{'' if clear else ', which is not a clear difference'}; of all {every['n']:.0f} (no setting was "
        f"chosen on any of them) {in_percent(every, 'right')}; the best released model on these: "
        f"{percent(every['best model'])}. Of the {every['flagged']:.0f} claims that it takes for refuted, "
        f"{percent(every['refuted, of those flagged'])} are; of FDV-IE's {ie['flagged']:.0f}, "
        f"{percent(ie['refuted, of those flagged'])}.")
