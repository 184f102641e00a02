"""Pipelines by name: what `ems score` and `ems evaluate` build from a judge and a scorer's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any

from .extract import LLMExtractor
from .io import meant
from .match import VARIANTS as ONE_BY_ONE
from .match import LLMMatcher
from .pipeline import EMS
from .score import BERTScorer, BLEUScorer, LLMScorer, RougeScorer, Scorer, WholeScorer
from .support.stage import Supporter
from .types import Answer, EMSResult, InputError, Triplet
from .variants.finer import ExpectedLLMScorer, SampledLLMScorer
from .variants.joint import JointLLMMatcher, JointLLMScorer
from .variants.sides import SidesLLMScorer

VARIANTS = (*ONE_BY_ONE, "all")           # ways to ask a judge for matches; "all": in one call an answer
SUPPORT = ("none", "local", "llm")        # ways to check answer points against the document


def score_answer(reference: str, answer: str, *, judge: Any = None, scorer: str | None = None) -> EMSResult:
    """Evaluate one answer; `judge` None needs no key and no network. See `build` for the choices.

    The scorer is "llm" with a judge and "local" without, if it is not named.
    """
    return build(judge, scorer or ("local" if judge is None else "llm")).score(reference, answer)


def build(judge: Any = None, scorer: str = "local", *, encoder: str | None = None, prompts: Any = None,
          max_score: int | None = None, variant: str = "faithful", support: str = "none") -> EMS:
    """The pipeline behind `ems score` and `ems evaluate`.

    Without a judge: sentence points, similarity matching and a scorer of rouge, bleu, bertscore, local or
    local-pair. With one, extraction and matching are the judge's, and `scorer` may also be llm, llm-expected
    or llm-sampled (`variants.finer`), or llm-sides (both sides whole, `SidesLLMScorer`). `encoder` names the
    model for bertscore (roberta-large if None), `max_score` the top of the judge's scale (10, or 9 for
    llm-expected, if None), `variant` the way a judge is asked for matches (`VARIANTS`; with "all" the
    llm scorer asks jointly as well). `support` checks answer points against the document as well: local by
    numbers, llm by the judge. InputError for a scorer, a scale, a variant or a support that does not go with
    the rest.
    """
    if variant not in VARIANTS:
        raise InputError(f"variant must be one of {', '.join(VARIANTS)}, got "
                         f"{variant!r}{meant(variant, VARIANTS)}")
    from .local.encoder import Encoder
    from .local.scorers import LocalScorer, PairScorer, SimilarityMatcher
    from .local.sentences import SentenceExtractor

    judged: dict[str, Callable[..., Any]] = {
        "llm": JointLLMScorer if variant == "all" else LLMScorer, "llm-sides": SidesLLMScorer,
        "llm-expected": ExpectedLLMScorer, "llm-sampled": SampledLLMScorer}
    local: dict[str, Callable[[], Scorer | WholeScorer]] = {
        "rouge": RougeScorer, "bleu": BLEUScorer,
        "bertscore": lambda: BERTScorer(Encoder(encoder or "roberta-large")),
        "local": LocalScorer, "local-pair": PairScorer}
    allowed = [*local, *(judged if judge is not None else ())]
    if scorer not in allowed:
        hint = f"; the {scorer} scorer needs a judge" if scorer in judged else ""
        raise InputError(f"scorer must be one of {', '.join(allowed)}, got "
                         f"{scorer!r}{hint or meant(scorer, allowed)}")
    if max_score is not None and scorer in local:
        raise InputError(f"max_score is the top of a judge's scale, which the {scorer} scorer does not have")
    if judge is None and variant != "faithful":
        raise InputError(f"variant {variant!r} is a way to ask a judge, and there is none")
    supporter = _supporter(support, judge, prompts)
    scale = {} if max_score is None else {"max_score": max_score}
    scores = local[scorer]() if scorer in local else judged[scorer](judge, prompts, **scale)
    if judge is None:
        return EMS(SentenceExtractor(), SimilarityMatcher(), scores, supporter)
    matcher = (JointLLMMatcher(judge, prompts) if variant == "all"
               else LLMMatcher(judge, prompts, variant=variant))
    return EMS(LLMExtractor(judge, prompts), matcher, scores, supporter)


def _supporter(support: str, judge: Any, prompts: Any) -> Supporter | None:
    """The supporter of this name; InputError for another name, or for llm without a judge."""
    from .support.supporters import LLMSupporter, LocalSupporter

    if support not in SUPPORT:
        raise InputError(f"support must be one of {', '.join(SUPPORT)}, got {support!r}")
    if support == "llm" and judge is None:
        raise InputError("support 'llm' asks a judge, and there is none; name one, or take support 'local'")
    if support == "llm":
        return LLMSupporter(judge, prompts)
    return LocalSupporter() if support == "local" else None


def compute(predictions: Sequence[str], references: Sequence[str | Sequence[str]], *, judge: Any = None,
            scorer: str = "local", **settings: Any) -> dict[str, Any]:
    """Means over answers (recall, precision, f1), called like a metric of Hugging Face's `evaluate`.

    A prediction may have several references: the best counts. nan where nothing could be scored; `n` counts
    the answers with a value, `unscored` the points without one. Other arguments are `build`'s.
    InputError for lists of different lengths, an empty one, or a prediction without a reference.
    """
    if len(predictions) != len(references) or not predictions:
        raise InputError(f"predictions and references must be lists of one length, not empty, got "
                         f"{len(predictions)} and {len(references)}")
    texts = [(given,) if isinstance(given, str) else tuple(given) for given in references]
    if () in texts:
        raise InputError(f"references[{texts.index(())}] is an empty list; a prediction needs a reference")
    triplets = [Triplet(str(i), str(i), "", first, others=tuple(others))
                for i, (first, *others) in enumerate(texts)]
    answers = [Answer(str(i), "predictions", text) for i, text in enumerate(predictions)]
    results = build(judge, scorer, **settings).evaluate(triplets, answers)
    scored = [r for r in results if not isnan(r.f1)]
    means = {name: sum(getattr(r, name) for r in scored) / len(scored) if scored else nan
             for name in ("recall", "precision", "f1")}
    return {**means, "n": len(scored), "unscored": sum(r.unscored for r in results),
            "signature": results[0].signature}
