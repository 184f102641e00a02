"""Extract, Match, and Score: an evaluation kit for long answers about long documents (arXiv:2503.16575).

    import ems
    result = ems.score_answer(reference, answer)   # no key, no network: sentence points, local matching and scoring
    result.recall, result.precision, result.f1

Everything is imported on first use, so that `import ems` costs nothing.
"""

from __future__ import annotations

import importlib

from .types import Answer, EMSResult, InputError, Triplet

__version__ = "0.1.0"

_WHERE = {name: module for module, names in {
    "metrics": ("ems_scores", "Tally"),
    "pipeline": ("EMS", "build", "rescored"),
    "extract": ("LLMExtractor",),
    "local.sentences": ("SentenceExtractor", "remove_summaries"),
    "match": ("LLMMatcher",),
    "local.scorers": ("SimilarityMatcher", "LocalScorer", "PairScorer"),
    "score": ("LLMScorer", "RougeScorer", "BERTScorer"),
    "baselines": ("RAGChecker",),
    "local.encoder": ("Encoder",),
    "judge.client": ("LLMJudge",),
    "prompting": ("as_judge", "Prompts"),
    "judge.store": ("Replies",),
    "data": ("load_triplets", "load_answers", "check_join", "to_frame", "values_frame", "claims_frame", "read_frames"),
    "stats": ("summarise", "paired_table"),
    "report": ("table1", "save_table1"),
}.items() for name in names}

__all__ = ["Answer", "EMSResult", "InputError", "Triplet", "score_answer", "__version__", *_WHERE]


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def score_answer(reference: str, answer: str, *, judge=None, scorer: str = "local") -> EMSResult:
    """Evaluate one answer; `judge` None needs no key and no network. See `evaluate.build` for the choices."""
    from .pipeline import build

    return build(judge, scorer).score(reference, answer)
