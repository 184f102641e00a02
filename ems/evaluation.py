"""`evaluate`: many answers from files, frames or records, and results that sum themselves up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .analysis.frames import GivenResults, by_metric, to_frame
from .analysis.report import save_report
from .analysis.stats import summarise
from .analysis.tables import means_table, table_text
from .data import Rows, load_answers, load_triplets, notify_unanswered
from .evaluators import AnyScorer, build
from .io import FilePath, write_jsonl
from .types import WITHOUT_JUDGE


class ResultList(list[Any]):
    """The results of one evaluation, in the order of the answers.

    In a notebook and in a terminal it shows its means, and a warning where no judge was asked.
    """

    def summary(self, *, cluster: str = "group") -> pd.DataFrame:
        """Means with intervals per metric, part and model: `ems.summarise` of `ems.to_frame`."""
        return summarise(to_frame(self), cluster=cluster)

    def save(self, path: FilePath) -> Path:
        """As `ems.save_results`."""
        return save_results(self, path)

    def report(self, path: FilePath, **options: Any) -> Path:
        """As `ems.save_report`, whose options these are."""
        return save_report(self, path, **options)

    def __repr__(self) -> str:
        if not self:
            return "no results"
        return f"{self._warning()}\n{table_text(self._means())}".lstrip()

    def _repr_html_(self) -> str:
        if not self:
            return "no results"
        means = self._means().to_html(index=False)
        return f'<div class="mathjax_ignore"><p><strong>{self._warning()}</strong></p>{means}</div>'

    def _means(self) -> pd.DataFrame:
        return means_table(self.summary())

    def _warning(self) -> str:
        judged = all("judge" in result.signature for result in self)
        return "" if judged else WITHOUT_JUDGE


def evaluate(
    triplets: Rows,
    answers: Rows,
    *,
    judge: Any = None,
    scorer: AnyScorer = None,
    **options: Any,
) -> ResultList:
    """One result per answer, in order.

    triplets   and `answers` are a file (JSON lines, JSON, CSV), a pandas frame, dictionaries, or
               records, as `load_triplets` and `load_answers` read them.
    judge      an LLMJudge, or the name of its model: then replies are kept in memory only. Without
               a judge words and figures are compared, not meaning.
    scorer     and the options are those of `build`, such as joint=True.

    A notice on stderr names a model that left triplets unanswered. InputError for input that cannot
    be read or does not belong together, before a judge is asked.
    """
    evaluator = build(judge, scorer, **options)
    triplets, answers = load_triplets(triplets), load_answers(answers)
    notify_unanswered(triplets, answers)
    return ResultList(evaluator.evaluate(triplets, answers, progress=True))


def save_results(results: GivenResults, path: FilePath) -> Path:
    """Write results, one, a list or by metric, as JSON lines that `load_results` reads.

    `ems report`, `compare` and `agree` read them too. The file's folder is made. InputError for
    what is no result, and for a file that cannot be written.
    """
    lines = []
    for metric, rows in by_metric(results).items():
        for result in rows:
            lines.append({"metric": metric, **result.to_dict()})
    return write_jsonl(path, lines)
