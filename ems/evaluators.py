"""Evaluators by name: what `ems score`, `ems evaluate` and the notebooks build.

`SCORERS` is the one table of scorers. A new one needs a row in it and a file that computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, overload

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
from .score import LLMScorer, bert_scorer, bleu_scorer, rouge_scorer
from .terminal import did_you_mean
from .types import Answer, InputError, Triplets, clear_arguments

if TYPE_CHECKING:
    from .data import ResultList, Rows


@dataclass(frozen=True)
class Options:
    """What an evaluator is made of; `build` explains each."""

    judge: Any = None
    joint: bool = False
    extractor: Any = None
    matcher: Any = None
    prompts: Prompts | None = None
    encoder: Encoder | str = "roberta-large"
    max_score: int = 10

    def make_extractor(self) -> Any:
        if self.extractor or self.judge is None:
            return self.extractor or SentenceExtractor()
        return LLMExtractor(self.judge, self.prompts)

    def make_matcher(self) -> Any:
        if self.matcher or self.judge is None:
            return self.matcher or WordMatcher()
        return LLMMatcher(self.judge, self.prompts, joint=self.joint)


def _ems(options: Options, scorer: Any) -> EMS:
    return EMS(options.make_extractor(), options.make_matcher(), scorer)


def _llm(options: Options) -> EMS:
    scorer = LLMScorer(
        options.judge, options.prompts, max_score=options.max_score, joint=options.joint
    )
    return _ems(options, scorer)


def _bertscore(options: Options) -> EMS:
    encoder = options.encoder
    return _ems(options, bert_scorer(Encoder(encoder) if isinstance(encoder, str) else encoder))


@dataclass(frozen=True)
class NamedScorer:
    """A row of `SCORERS`."""

    about: str  # a line for the help
    build: Callable[[Options], Evaluator[Any]]
    takes: tuple[str, ...]  # the options that it has a use for; others are refused
    needs_judge: bool = False


# The options of every EMS. Without a judge `joint` and `prompts` have no use.
_EMS_OPTIONS = ("extractor", "matcher", "joint", "prompts")

SCORERS = {
    "llm": NamedScorer(
        about="the paper's extract, match and score",
        build=_llm,
        takes=(*_EMS_OPTIONS, "max_score"),
        needs_judge=True,
    ),
    "rouge": NamedScorer(
        about="EMS with ROUGE-L for matched pairs",
        build=lambda options: _ems(options, rouge_scorer()),
        takes=_EMS_OPTIONS,
    ),
    "bertscore": NamedScorer(
        about="EMS with BERTScore for matched pairs",
        build=_bertscore,
        takes=(*_EMS_OPTIONS, "encoder"),
    ),
    "bleu": NamedScorer(
        about="EMS with BLEU for matched pairs",
        build=lambda options: _ems(options, bleu_scorer()),
        takes=_EMS_OPTIONS,
    ),
    "coverage": NamedScorer(
        about="the judge scores each point against the whole other text",
        build=lambda options: Coverage(
            options.make_extractor(), options.judge, options.prompts, options.max_score
        ),
        takes=("extractor", "prompts", "max_score"),
        needs_judge=True,
    ),
    "judge": NamedScorer(
        about="the judge gives one number to the whole answer",
        build=lambda options: JudgeAlone(options.judge, options.prompts),
        takes=("prompts",),
        needs_judge=True,
    ),
    "ragchecker": NamedScorer(
        about="the judge checks the claims of both sides",
        build=lambda options: RAGChecker(options.judge, options.prompts),
        takes=("prompts",),
        needs_judge=True,
    ),
    "local": NamedScorer(
        about="coverage by words and numbers, which asks no judge",
        build=lambda options: Coverage(options.extractor or SentenceExtractor()),
        takes=("extractor",),
    ),
}


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


@clear_arguments
def score_answer(
    reference: str, answer: str, *, judge: Any = None, scorer: AnyScorer = None, question: str = ""
) -> Any:
    """Evaluate one answer against one reference, as `build(judge, scorer)` does.

    The default is an EMSResult with a judge, and a CoverageResult without one, which needs neither
    a key nor a network. InputError for what is no text, and for an empty reference.
    """
    if isinstance(reference, str) and not reference.strip():
        raise InputError("the reference is empty; an answer needs a text that it is compared with")
    return build(judge, scorer).score(reference, answer, question)


@clear_arguments
def build(
    judge: Any = None,
    scorer: AnyScorer = None,
    *,
    joint: bool = False,
    extractor: Any = None,
    matcher: Any = None,
    prompts: Prompts | str | None = None,
    encoder: Encoder | str = "roberta-large",
    max_score: int = 10,
) -> Evaluator[Any]:
    """The evaluator with this judge and this scorer.

    judge       an LLMJudge, the name of its model, or a function from prompt to reply.
    scorer      a name in `SCORERS` (default "llm" with a judge, "local" without one). Or a function
                from pairs of points to scores, or its import path (`custom`): EMS with that scorer.
    joint       asks about all points of an answer in one call; the paper has a call a point.
    extractor   and `matcher`: functions of your own or import paths. By default the judge does
                both; without a judge points are sentences, matched by their words.
    prompts     of the judge, or their name: "kit" (default), "paper" or a folder.
    encoder     of "bertscore", or its name.
    max_score   the highest number of the judge's scale.

    InputError for an unknown scorer, one that lacks a judge, and an option that it has no use for.
    """
    if judge in ("", "none"):
        raise InputError(f"a judge is named by its model, got {judge!r}; leave it out for none")
    if isinstance(judge, str):
        from .judge.client import LLMJudge

        judge = LLMJudge(judge)
    if isinstance(prompts, str):
        prompts = Prompts.named(prompts)
    options = Options(judge, joint, extractor, matcher, prompts, encoder, max_score)
    scorer = scorer or ("local" if judge is None else "llm")
    if not isinstance(scorer, str) or ":" in scorer:
        _check_options("this", _EMS_OPTIONS, options)
        return _ems(options, scorer)
    if scorer not in SCORERS:
        raise InputError(
            f"scorer must be one of {', '.join(SCORERS)}, a function or module:name, got "
            f"{scorer!r}{did_you_mean(scorer, SCORERS)}"
        )
    named = SCORERS[scorer]
    if named.needs_judge and judge is None:
        raise InputError(
            f"the {scorer} scorer needs a judge; name one, or take rouge, bleu or local"
        )
    _check_options(f"the {scorer}", named.takes, options)
    return named.build(options)


def _check_options(scorer: str, takes: Sequence[str], options: Options) -> None:
    """InputError for an option that is not the default and has no effect on this scorer."""
    useful = {"judge", *takes}
    without_judge = ""
    if options.judge is None:
        useful -= {"joint", "prompts"}
        without_judge = " without a judge"
    for option in fields(options):
        if option.name not in useful and getattr(options, option.name) != option.default:
            raise InputError(
                f"{scorer} scorer{without_judge} has no use for {option.name}; leave it out"
            )


class OwnMetric(Evaluator[ScoreResult]):
    """A metric of your own: a function, or its import path, from references and answers to values.

    Values are in [0, 1]; None or nan leaves an answer unscored. Tables show the metric's module and
    name.
    """

    def __init__(self, metric: Callable[..., Any] | str):
        self.metric = as_stage(metric, "metric")
        self.name: str = self.metric.signature.partition(":")[0]
        super().__init__(metric=self.metric)

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[ScoreResult]:
        """One value per answer."""
        references = [triplets[answer.triplet_id].reference for answer in answers]
        values = self.metric(references, [answer.answer for answer in answers])
        signature = self.signature
        return [
            score_result(triplets[answer.triplet_id], answer, value, signature)
            for answer, value in zip(answers, values, strict=True)
        ]


@clear_arguments
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
    from .data import ResultList, load_answers, load_triplets, notify_unanswered

    evaluator = build(judge, scorer, **options)
    triplets, answers = load_triplets(triplets), load_answers(answers)
    notify_unanswered(triplets, answers)
    return ResultList(evaluator.evaluate(triplets, answers, progress=True))
