"""Extract, Match, and Score: evaluate long answers about long documents (arXiv:2503.16575).

    import ems
    result = ems.score_answer(reference, answer)            # no model: Coverage(local)
    judge = ems.LLMJudge("gpt-4o")
    result = ems.build(judge).score(reference, answer)      # as the paper does: EMS(LLM)
    result.recall, result.precision, result.f1

The method is five files, to be read in this order: extract, match, score, metrics, pipeline. Then
come the baselines, and coverage, which is ours and not the paper's. `judge/` asks a model, `local/`
works without one, `support/` checks points against the document. `analysis/` makes values,
intervals, tables and pages from results.
"""

import lazy_loader

__version__ = "0.1.0"
# The public names stand in __init__.pyi, each imported on first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
