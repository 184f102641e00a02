"""How large should a point be, by people's labels? EMS(LLM) of the same answers in four grains.

The answers are those of `PAIRS` of RAGChecker's pairs. Their scores are committed, and agreement
with people's preference is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.baselines import RAGChecker
from ems.extract import Extractor, LLMExtractor
from ems.judge.client import LLMJudge
from ems.local.sentences import SentenceExtractor
from ems.types import Answer, Points, Triplet

from .agreement import ANNOTATOR, pair_agreement
from .datasets import KEYS
from .granularity import JUDGE_POINTS, drawn
from .rescoring import as_recorded

PAIRS = 70  # drawn by the hashes of their ids
# Stored metrics that are shown beside the grains.
BESIDE = ["Judge alone Score", "ROUGE-L F1"]


class SingleFacts:
    """An extractor: points are the claims that the judge lists, by the prompt for RAGChecker's row.

    A text is listed alone, whatever it answers.
    """

    question = "What does the text say?"

    def __init__(self, judge: LLMJudge):
        self.checker = RAGChecker(judge)
        self.signature = f"llm facts:{self.checker.stage.prompts.signature('claims')}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        """Points of each text; a text without a word has none, and a lost reply gives None."""
        claims = self.checker._claims((self.question, text) for text in texts)
        return [claims[self.question, text] for text in texts]


ONE_SENTENCE = "sentences"
# What cuts the texts into points, given the judge; in the order of tables and figures.
GRAINS: dict[str, Callable[[LLMJudge], Extractor]] = {
    "single facts": SingleFacts,
    ONE_SENTENCE: lambda judge: SentenceExtractor(),
    JUDGE_POINTS: LLMExtractor,
    "paragraphs": lambda judge: SentenceExtractor(unit="paragraph"),
}


def grain_scores(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: LLMJudge
) -> pd.DataFrame:
    """EMS(LLM) of the answers to `PAIRS` triplets in each grain: data/human/grain_scores.csv.

    Columns: triplet_id, model, grain; f1; `points` of the answer; `calls`, what the judge is asked
    in all for this grain, references included, divided by the number of answers.
    """
    few = drawn(triplets, PAIRS)
    ids = [t.id for t in few]
    texts = few, [a for a in answers if a.triplet_id in ids]
    rows = []
    for grain, extractor in GRAINS.items():
        pipeline = ems.build(judge, joint=True, extractor=extractor(judge))
        before = _requests(judge)
        results = pipeline.evaluate(*(as_recorded(*texts) if grain == ONE_SENTENCE else texts))
        calls = (_requests(judge) - before) / len(results)
        for r in results:
            rows.append((r.triplet_id, r.model, grain, r.f1, len(r.ans_points), calls))
    columns = [*KEYS, "grain", "f1", "points", "calls"]
    return pd.DataFrame(rows, columns=columns).round(5)


def _requests(judge: LLMJudge) -> int:
    """How many requests the judge has got, also those that a recording answered."""
    return sum(usage.requests for usage in judge.usage().values())


def grain_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, stored: pd.DataFrame, **settings: Any
) -> pd.DataFrame:
    """How F1 in each grain agrees with annotators' overall preference, and what it costs.

    `labels` and `stored` are those of all of RAGChecker's pairs (`agreement.stored`), `scores` is a
    table of `grain_scores`; `settings` are those of the bootstrap over pairs. Index: grain, then
    `BESIDE` and the other annotator. Columns: spearman and its interval; the difference to
    `ONE_SENTENCE`, its interval and p_holm, over the other grains and `BESIDE`; `clear` (above,
    below or no); `points` and `calls` of an answer, means, nan for what is no grain; `clusters`,
    the pairs.
    """
    f1 = scores.pivot(index=KEYS, columns="grain", values="f1").add_suffix(" F1")
    table = f1.join(stored.set_index(KEYS)[BESIDE]).reset_index()
    of_pairs = labels[labels["instance_id"].isin(table["triplet_id"])]
    measured = pair_agreement(of_pairs, table, against=ONE_SENTENCE, **settings)
    overall = measured.query("asked == 'overall' and measure == 'Spearman'").set_index("metric")
    means = scores.groupby("grain")[["points", "calls"]].mean()
    overall = overall.rename(columns={"value": "spearman"}).join(means)
    return overall.loc[[*GRAINS, "Judge alone", "ROUGE-L", ANNOTATOR]]


def preference_findings(table: pd.DataFrame) -> list[str]:
    """Sentences about a table of `grain_agreement`: each grain, and which differs clearly."""
    grains = table.loc[list(GRAINS)]
    values = [
        f"{row.spearman:.2f} [{row.ci_low:.2f}, {row.ci_high:.2f}] on {row.Index} "
        f"({row.points:.1f} points and {row.calls:.1f} calls an answer)"
        for row in grains.itertuples()
    ]
    sentences = [f"EMS(LLM) F1 follows people's preference with a correlation of {series(values)}."]
    for word, side in (("better", "above"), ("worse", "below")):
        names = list(grains.index[grains["clear"] == side])
        if names:
            sentences.append(
                f"Agreement is clearly {word} on {series(names)} than on {ONE_SENTENCE}."
            )
    if len(sentences) == 1:
        sentences.append(f"No other grain differs clearly from {ONE_SENTENCE}.")
    return sentences
