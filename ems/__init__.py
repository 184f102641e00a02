"""Extract, Match, and Score: an evaluation kit for long answers about long documents (arXiv:2503.16575).

    import ems
    result = ems.score_answer(reference, answer)   # no key, no network: sentence points, scored locally
    result.recall, result.precision, result.f1

The method is ten files, read in this order: types, sanitise, prompting, reading, extract, match, score,
metrics, pipeline, baselines. They stand on io, json_in_text, asking and batches. Beside them:

pipelines by name   presets (`ems.build`)
tables, reports     data (rows, frames), pooling, stats, matrix; results, comparison, report, report_html
command line        cli, cli_parser
rooms               `judge/` asks a model, `local/` does without one, `support/` checks points against the
                    document, `variants/` evaluates in ways that are not the paper's, `study/` reproduces it

Everything is imported on first use, so that `import ems` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .types import Answer, EMSResult, GivenPoint, InputError, Triplet

if TYPE_CHECKING:              # the names of _WHERE once more, for editors and type checkers
    from .asking import as_judge
    from .baselines import RAGChecker
    from .comparison import compare
    from .data import (
        answers_of,
        check_join,
        claims_frame,
        load_answers,
        load_triplets,
        read_frames,
        support_frame,
        to_frame,
        triplets_of,
        values_frame,
    )
    from .extract import LLMExtractor
    from .judge.client import LLMJudge
    from .judge.store import Replies
    from .local.encoder import Encoder
    from .local.scorers import LocalScorer, PairScorer, SimilarityMatcher
    from .local.sentences import SentenceExtractor, remove_summaries
    from .match import LLMMatcher
    from .matrix import label_matrix
    from .metrics import ems_scores
    from .pipeline import EMS, rescored
    from .pooling import Tally, tally
    from .presets import build, compute
    from .prompting import Prompts
    from .report import save_table1, table1
    from .report_html import save_report
    from .results import load_results
    from .score import BERTScorer, BLEUScorer, LLMScorer, RougeScorer
    from .stats import paired_table, summarise
    from .support.rubrics import RubricJudge, local_ratings, number_recall, rating_frame, rating_table
    from .support.scores import support_scores
    from .support.stage import with_support
    from .support.support import LLMSupporter, LocalSupporter
    from .variants.joint import JointLLMScorer
    from .variants.sides import SidesLLMScorer

__version__ = "0.1.0"

_WHERE = {name: module for module, names in {
    "metrics": ("ems_scores",),
    "pooling": ("Tally", "tally"),
    "pipeline": ("EMS", "rescored"),
    "presets": ("build", "compute"),
    "extract": ("LLMExtractor",),
    "local.sentences": ("SentenceExtractor", "remove_summaries"),
    "match": ("LLMMatcher",),
    "local.scorers": ("SimilarityMatcher", "LocalScorer", "PairScorer"),
    "score": ("LLMScorer", "RougeScorer", "BLEUScorer", "BERTScorer"),
    "variants.joint": ("JointLLMScorer",),
    "variants.sides": ("SidesLLMScorer",),
    "baselines": ("RAGChecker",),
    "local.encoder": ("Encoder",),
    "judge.client": ("LLMJudge",),
    "asking": ("as_judge",),
    "prompting": ("Prompts",),
    "judge.store": ("Replies",),
    "data": ("load_triplets", "load_answers", "check_join", "to_frame", "values_frame", "claims_frame",
             "read_frames", "support_frame", "triplets_of", "answers_of"),
    "comparison": ("compare",),
    "results": ("load_results",),
    "report_html": ("save_report",),
    "support.scores": ("support_scores",),
    "support.stage": ("with_support",),
    "support.support": ("LocalSupporter", "LLMSupporter"),
    "support.rubrics": ("RubricJudge", "local_ratings", "number_recall", "rating_frame", "rating_table"),
    "matrix": ("label_matrix",),
    "stats": ("summarise", "paired_table"),
    "report": ("table1", "save_table1"),
}.items() for name in names}

__all__ = ["Answer", "EMSResult", "GivenPoint", "InputError", "Triplet", "score_answer", "__version__",
           *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def score_answer(reference: str, answer: str, *, judge: Any = None, scorer: str | None = None) -> EMSResult:
    """Evaluate one answer; `judge` None needs no key and no network. See `presets.build` for the choices.

    The scorer is "llm" with a judge and "local" without, if it is not named.
    """
    from .presets import build

    return build(judge, scorer or ("local" if judge is None else "llm")).score(reference, answer)
