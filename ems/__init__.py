"""Extract, Match, and Score: an evaluation kit for long answers about long documents (arXiv:2503.16575).

    import ems
    judge = ems.LLMJudge("gpt-4o")                 # the paper's way: a model extracts, matches and scores
    pipeline = ems.EMS(ems.LLMExtractor(judge), ems.LLMMatcher(judge), ems.LLMScorer(judge))
    result = pipeline.score(reference, answer)
    result.recall, result.precision, result.f1
    ems.score_answer(reference, answer)            # ours, without a model: EMS(local)

The method is seven files, read in this order: types, extract, match, score, metrics, pipeline, baselines.
They ask a model through prompting, sanitise and reading, and stand on asking, batches, ngrams (BLEU, ROUGE),
io and `parsing/`. Beside them:

pipelines by name   presets (`ems.build`)
tables              data (rows, frames), stats (intervals, tests), report (Table 1)
rooms               `judge/` asks a model, `local/` does without one, `support/` checks points against the
                    document, `variants/` evaluates in ways that are not the paper's, `results/` reads, shows
                    and compares results, `study/` reproduces the paper
command line        cli, `commands/`

The public names are those of `__init__.pyi`, each imported on first use: `import ems` costs nothing.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
