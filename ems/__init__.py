"""Extract, Match, and Score: evaluate long answers about long documents (arXiv:2503.16575).

    import ems
    result = ems.score_answer(reference, answer)            # no model: Coverage(local)
    judge = ems.LLMJudge("gpt-4o")
    result = ems.build(judge).score(reference, answer)      # as the paper does: EMS(LLM)
    result.recall, result.precision, result.f1
    results = ems.evaluate("triplets.csv", "answers.csv", judge=judge)
    results.summary()                                       # means with intervals

The method is five files, to be read in this order: extract, match, score, metrics, pipeline. Then
come the baselines, and coverage, which is ours and not the paper's. `judge/` asks a model, `local/`
works without one, `support/` checks points against the document. `analysis/` makes values,
intervals, tables and pages from results.
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"
# The public names stand in __init__.pyi, each imported on first use.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _load(name)
    from .terminal import did_you_mean

    raise AttributeError(f"module 'ems' has no {name!r}{did_you_mean(name, __all__)}")
