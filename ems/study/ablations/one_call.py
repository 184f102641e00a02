"""Matching and scoring in one call instead of two, and points of one to three sentences (notebook 05).

The paper holds that one call for both tasks may do worse and cost more (section 2.3), and asks for points of
at most two sentences (A.3); it tests neither. Both are tried here on recorded replies of a judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan, nan

import numpy as np
import pandas as pd

from ... import stats
from ...asking import Judge, Reply, Request, reply_schema
from ...batches import triplets_by_id
from ...data import to_frame
from ...extract import Extractor, LLMExtractor
from ...judge.budget import LIKELY_TOKENS, tokens_at_most
from ...local.scorers import LocalScorer
from ...local.sentences import SentenceExtractor
from ...pipeline import EMS, with_metrics
from ...presets import build
from ...prompting import Prompts
from ...sanitise import numbered
from ...score import scale
from ...types import Answer, EMSResult, Points, Triplet
from ...variants.joint import read_pairs
from ..findings.verdicts import interval
from .reliability import by_hash, choices_of, in_both, stored_part

PAIRS_SCHEMA = reply_schema("pairs", {"type": "array", "items": {"type": "integer"}})
TASKS = ("match", "score", "match and score")
TWO_CALLS, ONE_CALL = "two calls", "one call"
KINDS = ("the same point", "another point", "a point only in the first", "a point only in the other",
         "none in both")
GRAINS = {"1 sentence": 1, "2 sentences": 2, "3 sentences": 3}        # a point
MAX_SCORE = 10        # of a pair, in one call


class SentenceGroups:
    """So many sentences in a row as a point, across the ends of paragraphs and list entries."""

    def __init__(self, size: int):
        self.size, self._sentences = size, SentenceExtractor()
        self.signature = f"{self._sentences.signature},{size} a point"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        cut = [points or () for points in self._sentences(texts)]         # rules lose no text
        return [tuple(" ".join(points[i:i + self.size]) for i in range(0, len(points), self.size))
                for points in cut]


class MatchAndScore:
    """EMS whose judge matches and scores all reference points of an answer in one call.

    Points are the extractor's. A pair that cannot be read, or names a candidate or a score that is not
    offered, leaves its reference point unscored; a reply without exactly one pair a point, all of them.
    """

    def __init__(self, extractor: Extractor, judge: Judge):
        self.extractor, self.judge, self.prompts = extractor, judge, Prompts()

    @property
    def signature(self) -> str:
        """Everything that can change a result, as `EMS.signature`."""
        version, extract, *_ = EMS(self.extractor, None, LocalScorer()).signature.split("|")
        prompt = self.prompts.signature("match_and_score")
        return (f"{version}|{extract}|match and score:llm:{prompt},one call,max={MAX_SCORE}|"
                f"{self.judge.signature}")

    def evaluate(self, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
        """One result an answer, as `EMS.evaluate`. An answer without points costs no call."""
        cut = EMS(self.extractor, None, LocalScorer()).align(triplets_by_id(triplets), answers)
        cut = [replace(a, signature=self.signature) for a in cut]
        asked = [a for a in cut if a.ref_points and a.ans_points]
        requests = [Request("match and score", self.prompts.fill(
            "match_and_score", references=numbered(a.ref_points), candidates=self.prompts.menu(a.ans_points),
            **scale(MAX_SCORE)), 32 + 16 * len(a.ref_points), PAIRS_SCHEMA) for a in asked]
        replies = iter(self.judge.ask(requests, "match and score points"))
        return [with_metrics(self._read(a, next(replies).text) if a.ref_points and a.ans_points
                             else replace(a, match=(-1,) * len(a.ref_points)) if not a.lost else a)
                for a in cut]

    def _read(self, a: EMSResult, reply: str | None) -> EMSResult:
        pairs = None if reply is None else read_pairs(reply, "pairs", len(a.ref_points), len(a.ans_points),
                                                      MAX_SCORE)
        match, score = zip(*(pairs or [(None, None)] * len(a.ref_points)), strict=True)
        return replace(a, match=match, score=score)


def one_a_group(triplets: Sequence[Triplet], groups: int) -> list[Triplet]:
    """One triplet of each of so many groups, always the same ones: drawn by a hash of their ids."""
    first: dict[str, Triplet] = {}
    for t in by_hash(triplets, lambda t: t.id):
        first.setdefault(t.group, t)
    return list(first.values())[:groups]


class CountedJudge:
    """A judge whose questions about matches and scores are counted: calls, and tokens as texts in English
    take, since not every endpoint says how many there were.
    """

    def __init__(self, judge: Judge):
        self.judge, self.name = judge, judge.name
        self.calls = self.prompt_tokens = self.reply_tokens = 0

    @property
    def signature(self) -> str:
        """The judge's own."""
        return self.judge.signature

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """As the judge's own `ask`."""
        replies = self.judge.ask(requests, progress)
        for request, reply in zip(requests, replies, strict=True):
            if request.task in TASKS:
                self.calls += 1
                self.prompt_tokens += round(LIKELY_TOKENS * tokens_at_most(request.prompt))
                self.reply_tokens += round(LIKELY_TOKENS * tokens_at_most(reply.text or ""))
        return replies


def by_form(judge: Judge, triplets: Sequence[Triplet], answers: Sequence[Answer], groups: int = 6
            ) -> tuple[dict[str, list[EMSResult]], pd.DataFrame]:
    """Answers to one triplet of each of so many groups, judged on the judge's points in two calls and in one,
    and in one on points of 1 to 3 sentences; and what each form asked.

    Results by form: TWO_CALLS, ONE_CALL, and the names of `GRAINS`. In a replay an answer whose judgement is
    not stored is left out of that form. The table has, by form, answers, calls and estimated tokens
    (`CountedJudge`) of matching and scoring, extraction aside.
    """
    few = {t.id for t in one_a_group(triplets, groups)}
    results: dict[str, list[EMSResult]] = {}
    rows = {}
    for form in (TWO_CALLS, ONE_CALL, *GRAINS):
        results[form], asked = [], []
        for answer in [a for a in answers if a.triplet_id in few]:
            counted = CountedJudge(judge)
            if found := stored_part(_pipeline(form, counted), triplets, [answer]):
                results[form] += found
                asked.append((counted.calls, counted.prompt_tokens, counted.reply_tokens))
        rows[form] = pd.DataFrame(asked, columns=["calls", "prompt tokens", "reply tokens"]).sum()
        rows[form]["answers"] = len(asked)
    return results, pd.DataFrame(rows).T.astype(int)


def _pipeline(form: str, judge: Judge) -> EMS | MatchAndScore:
    if form == TWO_CALLS:
        return build(judge, "llm", variant="all")
    return MatchAndScore(SentenceGroups(GRAINS[form]) if form in GRAINS else LLMExtractor(judge), judge)


def beside(results: Mapping[str, Sequence[EMSResult]], first: str, triplets: Sequence[Triplet]
           ) -> pd.DataFrame:
    """Points and means of each form over the answers that all of them value, and its F1 less the first's.

    A row a form: answers, points a reference, points an answer, reference points unscored, mean
    recall, precision and F1, and the mean difference of F1 to `first` with its t interval over the triplets'
    groups (nan under six of them, and in the first's own row). An answer without points counts, with F1 0.
    """
    by_key = {form: {(r.triplet_id, r.model): r for r in rows} for form, rows in results.items() if rows}
    valued = [{key for key, r in rows.items() if not isnan(r.f1)} for rows in by_key.values()]
    shared = sorted(set.intersection(*valued)) if first in by_key else []
    group, table = {t.id: t.group for t in triplets}, {}
    for form in by_key if shared else ():
        rows, base = ([by_key[name][key] for key in shared] for name in (form, first))
        means = pd.DataFrame([(len(r.ref_points), len(r.ans_points), r.recall, r.precision, r.f1)
                              for r in rows]).mean()
        gap = stats.mean_over([r.f1 - b.f1 for r, b in zip(rows, base, strict=True)],
                              [group[r.triplet_id] for r in rows])
        less = (gap.value, gap.ci_low, gap.ci_high) if form != first else [nan] * 3
        table[form] = (len(rows), means[0], means[1], sum(r.unscored for r in rows), *means[2:], *less)
    return pd.DataFrame.from_dict(table, orient="index", columns=[
        "answers", "reference points", "answer points", "unscored", "recall", "precision", "F1",
        f"less {first}", "low", "high"])


def choices(first: Sequence[EMSResult], other: Sequence[EMSResult]) -> pd.DataFrame:
    """How two judgements of the same answers and points chose: reference points by kind of agreement, with
    their mean score in each, nan where none is scored. What either left unscored does not count, nor does an
    answer without points, which leaves no choice.
    """
    points = choices_of([(a, b) for a, b in in_both(first, other) if a.ans_points])
    i, j = points["match"], points["other match"]
    kind = np.select([(i == j) & (i >= 0), i == j, j < 0, i < 0], [KINDS[0], KINDS[4], KINDS[2], KINDS[3]],
                     KINDS[1])
    grouped = points.groupby(kind).agg(points=("match", "size"), first=("score", "mean"),
                                       other=("other score", "mean"))
    return grouped.reindex(pd.Index(KINDS, name="choice")).fillna({"points": 0}).astype({"points": int})


def f1_by_model(results: Mapping[str, Sequence[EMSResult]], triplets: Sequence[Triplet]) -> pd.DataFrame:
    """Mean F1 of each model (column) in each form with results (row); nan where it has none of a model."""
    frames = [to_frame(rows, form, triplets) for form, rows in results.items() if rows]
    if not frames:
        return pd.DataFrame()
    values = pd.concat(frames)
    f1 = values[values["part"] == "F1"]
    return f1.pivot_table(index="metric", columns="model", values="value", sort=False).rename_axis("form")


def findings(results: Mapping[str, Sequence[EMSResult]], costs: pd.DataFrame, triplets: Sequence[Triplet]
             ) -> str:
    """What both comparisons show, as Markdown; it says so where nothing is recorded for them."""
    two, one = results.get(TWO_CALLS, ()), results.get(ONE_CALL, ())
    forms = beside({TWO_CALLS: two, ONE_CALL: one}, TWO_CALLS, triplets)
    if ONE_CALL not in forms.index:
        return "- **One call for matches and scores.** Not tried here: no replies are recorded for it."
    pair = forms.loc[ONE_CALL]
    kinds, tokens = choices(two, one), costs[["prompt tokens", "reply tokens"]].sum(axis=1)
    points, (same, _, only_two, only_one, none) = kinds["points"], KINDS
    alike = (points[same] + points[none]) / points.sum()
    lines = [
        f"- **One call for matches and scores** instead of two, {pair['answers']:.0f} answers: "
        f"{100 * alike:.1f} % of {points.sum()} choices are the same. One call names a partner for "
        f"{points[only_one]} points that have none in two calls (mean score {kinds['other'][only_one]:.2f}), "
        f"and none for {points[only_two]} that have one. F1 is {pair['F1']:.3f}, "
        f"{pair[f'less {TWO_CALLS}']:+.3f}{interval(pair['low'], pair['high'], '+.3f')} against two calls. "
        f"It takes {costs['calls'][ONE_CALL]} calls instead of {costs['calls'][TWO_CALLS]}, and about "
        f"{tokens[ONE_CALL]:,} tokens instead of {tokens[TWO_CALLS]:,}."]
    cut = beside({form: results[form] for form in GRAINS if results.get(form)}, next(iter(GRAINS)), triplets)
    if len(cut) > 1:
        means = f1_by_model({form: results[form] for form in cut.index}, triplets).dropna(axis=1)
        orders = {tuple(row.sort_values(kind="stable").index) for _, row in means.iterrows()}
        order = "in the same order" if len(orders) == 1 else f"in {len(orders)} different orders"
        gaps = means.max(axis=1) - means.min(axis=1)
        lines.append(
            f"- **Points of 1, 2 and 3 sentences**, {cut['answers'].iloc[0]:.0f} answers: F1 "
            f"{', '.join(f'{f1:.3f}' for f1 in cut['F1'])}; all put the {len(means.columns)} models {order}, "
            f"the highest {', '.join(f'{gap:.3f}' for gap in gaps)} above the lowest.")
    return "\n".join(lines)
