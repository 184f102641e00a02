"""Evaluators by name: what `ems score`, `ems evaluate` and the notebooks build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from .baselines import JudgeAlone, RAGChecker, score_result
from .coverage import Coverage
from .custom import as_stage
from .extract import LLMExtractor
from .local.encoder import Encoder
from .local.sentences import SentenceExtractor
from .local.words import WordMatcher
from .match import LLMMatcher
from .pipeline import EMS, Evaluator
from .prompts import Prompts
from .results import CoverageResult, ScoreResult
from .score import LLMScorer, Scorer, bert_scorer, bleu_scorer, rouge_scorer
from .terminal import did_you_mean
from .types import Answer, InputError, Triplet

JUDGED = ("llm", "coverage", "judge", "ragchecker")  # scorers that ask a judge
SCORERS = (*JUDGED, "rouge", "bleu", "bertscore", "local")
WHOLE: dict[Any, Any] = {"judge": JudgeAlone, "ragchecker": RAGChecker}  # without stages


# The names in `SCORERS`, for editors: a test compares them.
ScorerName = Literal[
    "llm", "rouge", "bertscore", "bleu", "coverage", "judge", "ragchecker", "local"
]
# What `build` takes: a name, an import path or a function.
AnyScorer = ScorerName | str | Callable[..., Any] | None


@overload
def score_answer(reference: str, answer: str, *, question: str = "") -> CoverageResult: ...


@overload
def score_answer(
    reference: str, answer: str, *, judge: Any = None, scorer: AnyScorer = None, question: str = ""
) -> Any: ...


def score_answer(
    reference: str, answer: str, *, judge: Any = None, scorer: AnyScorer = None, question: str = ""
) -> Any:
    """Evaluate one answer against one reference, as `build(judge, scorer)` does.

    By default an EMSResult with a judge; without one a CoverageResult, which needs no key and no network.
    """
    return build(judge, scorer).score(reference, answer, question)


def build(
    judge: Any = None,
    scorer: AnyScorer = None,
    *,
    joint: bool = False,
    extractor: Any = None,
    matcher: Any = None,
    prompts: Prompts | None = None,
    encoder: Encoder | str = "roberta-large",
    max_score: int = 10,
) -> Evaluator[Any]:
    """The evaluator with this judge and this scorer.

    scorer      "llm" (default with a judge), "rouge", "bleu", "bertscore": EMS. "coverage": Coverage(LLM).
                "local" (default without a judge): Coverage(local), which asks no judge. "judge": the judge
                alone. "ragchecker". Or a function from pairs of points to scores, or its import path
                "module:name" (`custom`): EMS with that scorer.
    joint       asks about all points of an answer in one call; else one call a point, as the paper does.
    extractor   and `matcher` are functions of your own or import paths. By default the judge does both;
                without a judge points are sentences, matched by their words.
    encoder     of "bertscore", or its name.
    max_score   top of the judge's scale.

    InputError for an unknown scorer, one that lacks a judge, or a stage that it does not have.
    """
    scorer = scorer or ("local" if judge is None else "llm")
    _check(judge, scorer, extractor, matcher)
    if scorer in WHOLE:
        return WHOLE[scorer](judge, prompts)
    cut = (
        SentenceExtractor() if judge is None or scorer == "local" else LLMExtractor(judge, prompts)
    )
    extract = as_stage(extractor or cut, "extractor")
    if scorer in ("local", "coverage"):
        return Coverage(extract, None if scorer == "local" else judge, prompts, max_score)
    default = WordMatcher() if judge is None else LLMMatcher(judge, prompts, joint=joint)
    match = as_stage(matcher or default, "matcher")
    scorers: dict[Any, Callable[[], Scorer]] = {
        "llm": lambda: LLMScorer(judge, prompts, max_score=max_score, joint=joint),
        "rouge": rouge_scorer,
        "bleu": bleu_scorer,
        "bertscore": lambda: bert_scorer(Encoder(encoder) if isinstance(encoder, str) else encoder),
    }
    return EMS(
        extract, match, scorers[scorer]() if scorer in scorers else as_stage(scorer, "scorer")
    )


def _check(judge: Any, scorer: Any, extractor: Any, matcher: Any) -> None:
    """InputError for a scorer that there is not, one that lacks a judge, and stages that it does not have."""
    if isinstance(scorer, str) and ":" not in scorer and scorer not in SCORERS:
        raise InputError(
            f"scorer must be one of {', '.join(SCORERS)}, a function or module:name, got "
            f"{scorer!r}{did_you_mean(scorer, SCORERS)}"
        )
    if scorer in JUDGED and judge is None:
        raise InputError(
            f"the {scorer} scorer needs a judge; name one, or take rouge, bleu or local"
        )
    if (extractor and scorer in WHOLE) or (matcher and scorer in (*WHOLE, "coverage", "local")):
        raise InputError(
            f"the {scorer} scorer has no use for this extractor or matcher; leave it out"
        )


class OwnMetric(Evaluator[ScoreResult]):
    """A metric of your own: a function, or its import path, from references and answers to values in [0, 1].

    Tables name it by its module and name. None or nan leaves an answer unscored.
    """

    def __init__(self, metric: Callable[..., Any] | str):
        self.metric = as_stage(metric, "metric")
        super().__init__(metric=self.metric)

    def batch(
        self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]
    ) -> list[ScoreResult]:
        asked = [triplets[answer.triplet_id] for answer in answers]
        values = self.metric(
            [triplet.reference for triplet in asked], [answer.answer for answer in answers]
        )
        return [
            score_result(triplet, answer, value, self.signature)
            for triplet, answer, value in zip(asked, answers, values, strict=True)
        ]
