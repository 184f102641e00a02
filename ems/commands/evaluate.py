"""`ems evaluate`: many answers."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import check_join, load_answers, support_frame, to_frame
from ..io import whole_file, write_jsonl
from ..judge.budget import plan, plan_text
from ..pipeline import EMS
from ..prompting import Prompts
from ..results.display import percent, visible, with_interval
from ..support.rubrics import RubricJudge, rating_frame
from ..types import Answer, EMSResult, InputError, Triplet
from .files import keep, named_triplets
from .judging import check_judge_options, judge_of, pipeline_of, say_usage, stage_settings, status
from .output import as_text, say

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 3               # checked points of which a document that fits supports one


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a line per answer into OUT, a table per model onto the screen."""
    check_judge_options(args)
    several = args.repeats != 1 or bool(args.panel)
    beside = args.support != "none" or args.rubrics or args.scheduler
    if several and (beside or (args.panel and args.dry_run)):
        raise InputError("--repeats and --panel ask judges about matches and scores alone, and a dry run "
                         "counts one judge; leave out --support, --rubrics and --scheduler, and count a "
                         "panel judge by judge")
    if args.support != "none" and args.scheduler:
        raise InputError("--support is not computed on a cluster; leave out --scheduler, or --support")
    triplets, answers = named_triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        say(f"{model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}")
    keep(Path(args.output), args.triplets, args.answers, args.store, *(args.recorded or ()))
    if args.dry_run:
        return _plan(args, triplets, answers)
    if several:
        return _evaluate_several(args, triplets, answers)
    pipeline, results = pipeline_of(args), []
    with whole_file(args.output) as file:          # opened before a judge is asked for anything
        rated, lines = _rated(args, pipeline, triplets, answers)
        for result in _results(args, pipeline, triplets, answers):
            line = result.to_dict() | lines.get((result.triplet_id, result.model), {})
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
            results.append(_slim(result))
    say_usage(pipeline.judges)
    import pandas as pd  # late, and scipy with it: a refusal need not wait for them

    from ..stats import summarise

    frames = [to_frame(results, "EMS", triplets), *rated]
    if args.support != "none":
        frames.append(support_frame(results, triplets))
        _doubt_documents(results)
    summary = summarise(pd.concat(frames, ignore_index=True), cluster=args.cluster)
    if args.json:
        print(summary.to_json(orient="records"))
    else:
        print(_shown(summary))
        print(f"{len(results)} results in {args.output}")
    return status(results, pipeline.judges, pipeline.unread)


def _evaluate_several(args: argparse.Namespace, triplets: Sequence[Triplet],
                      answers: Sequence[Answer]) -> int:
    """Judges and repetitions on the same points: their mean, how far they agree, and each one's results."""
    import pandas as pd

    from ..stats import summarise
    from ..study.ablations import reliability

    first = judge_of(args)
    judges = [first, *(judge_of(args, name, first.store) for name in args.panel or ())]
    by_rater = reliability.raters(first, triplets, answers, repeats=args.repeats, judges=judges[1:],
                                  **stage_settings(args))
    write_jsonl(args.output, ({"metric": name, **result.to_dict()}
                              for name, results in by_rater.items() for result in results))
    say_usage(judges)
    mean = summarise(reliability.panel(by_rater, triplets, "EMS"), cluster=args.cluster)
    each = summarise(pd.concat([to_frame(results, name, triplets) for name, results in by_rater.items()]),
                     cluster=args.cluster)
    agreement = reliability.reliability(by_rater)
    if args.json:
        tables = {"panel": mean, "judgements": each, "agreement": agreement}
        print(json.dumps({name: json.loads(rows.to_json(orient="records")) for name, rows in tables.items()}))
    else:
        f1 = each[each["part"] == "F1"].pivot(index="metric", columns="model", values="value").round(3)
        print(f"Mean of {len(by_rater)} judgements:\n{_shown(mean)}\n\nMean F1 by judgement:")
        print(as_text(f1.rename_axis("judgement").reset_index().rename(columns=visible)))
        print(f"\nAgreement of the judgements:\n{as_text(agreement.round(3))}")
        print(f"{sum(map(len, by_rater.values()))} results in {args.output}")
    return status([result for results in by_rater.values() for result in results], judges)


def _results(args: argparse.Namespace, pipeline: EMS, triplets: Sequence[Triplet],
             answers: Sequence[Answer]) -> Iterator[EMSResult]:
    if not args.scheduler:
        return pipeline.stream(triplets, answers, progress=True)
    if pipeline.judges:
        raise InputError("--scheduler is for evaluation without a judge; a judge scales by its endpoint: "
                         "more --workers, several servers behind one --base-url, or batch files (--mode "
                         "replay, ems replies export)")
    from ..study.run.distributed_run import stream

    return stream(args.scheduler, triplets, answers, args.scorer or "local", encoder=args.encoder)


def _doubt_documents(results: Sequence[EMSResult]) -> None:
    """One line about documents that support nothing although much was checked: cut ones, or wrong ones."""
    checked: Counter[str] = Counter()
    supported: Counter[str] = Counter()
    for result in results:
        labels = [s.label for s in result.support if s.checked]
        checked[result.triplet_id] += len(labels)
        supported[result.triplet_id] += labels.count("supported")
    if doubtful := [id_ for id_, n in checked.items() if n >= ENOUGH and not supported[id_]]:
        say(f"the documents of {len(doubtful)} of {len(checked)} triplets support none of the points that "
             f"could be checked, e.g. of {doubtful[0]!r}: are they whole, and those the questions are about?")


def _rated(args: argparse.Namespace, pipeline: EMS, triplets: Sequence[Triplet], answers: Sequence[Answer]
           ) -> tuple[list[pd.DataFrame], dict[tuple[str, str], dict[str, Any]]]:
    """The judge's ratings by --rubrics: frames of values, none without, and what each answer's line gains."""
    if args.rubrics is None:
        return [], {}
    judge = RubricJudge(pipeline.judges[0], Prompts.named(args.prompts), rubrics=args.rubrics)
    ratings = judge.rate(triplets, answers)
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for r in ratings:
        line = lines.setdefault((r.triplet_id, r.model), {"rubrics": []})
        line["rubrics"].append({"rubric": r.rubric, "value": r.value, "reason": r.reason})
    if lost := ", ".join(f"{what} {n}" for what, n in judge.unread.most_common()):
        say(f"ratings without a usable reply: {lost}")
    return [rating_frame(ratings, judge.signature, triplets)], lines


def _plan(args: argparse.Namespace, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> int:
    """Say what an evaluation would ask and cost, without asking."""
    def work(planner: Any) -> None:
        if args.repeats != 1:
            from ..study.ablations.reliability import raters

            raters(planner, triplets, answers, repeats=args.repeats, **stage_settings(args, counted=True))
        else:
            pipeline = pipeline_of(args, planner)
            for _ in pipeline.stream(triplets, answers):
                pass
            _rated(args, pipeline, triplets, answers)
    print(plan_text({}, {}) if args.judge == "none" else plan(work, judge_of(args)))
    return 0


def _slim(result: EMSResult) -> EMSResult:
    """The result without its texts, which the output file has: what is kept of 10,000 answers stays small."""
    kept = result.ans_score if result.support else ()          # which the measures of support need
    return replace(result, ref_points=(), ans_points=(), score=(), ans_score=kept,
                   support=tuple(replace(s, quote="") for s in result.support))


def _shown(summary: pd.DataFrame) -> str:
    """A row a model: recall, precision and F1, and other metrics' values; intervals over enough clusters, and
    "–" for what has no value.
    """
    from ..stats import MIN_CLUSTERS

    rows = []
    for model, parts in summary.groupby("model", sort=False):
        # EMS-Support and EMS-open have one part each, and stand under the metric's name
        cells = {row.part if row.metric == "EMS" else row.metric: row
                 for row in parts.itertuples(index=False)}
        f1, shown = cells["F1"], dict.fromkeys(("Recall", "Precision", "F1", *cells))
        rows.append({"model": model, **{name: with_interval(cells[name]) for name in shown}, "n": f1.n,
                     "clusters": f1.clusters, "coverage": percent(f1.coverage)})
    note = (f"\nNo interval with fewer than {MIN_CLUSTERS} clusters: too few to say how they vary."
            if summary["ci_low"].isna().any() else "")
    if "EMS-Support" in set(summary.loc[summary["value"].isna(), "metric"]):
        note += "\nEMS-Support –: no point could be checked; without a judge, a point needs a number for it."
    return as_text(rows) + note
