"""What each command of `ems` does (`cli` says what it takes). Heavy libraries are loaded late."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .evaluators import OwnMetric, build
from .frames import COLUMNS, Row, metric_of, of_rows, values_of
from .io import read_text, say, write_jsonl
from .prompts import Prompts
from .types import InputError, Triplet

if TYPE_CHECKING:
    from .judge.client import LLMJudge

ENOUGH = 0.95            # share of points, and of answers, that must have a score for exit status 0
AT_ONCE = 256            # results whose points are checked against the documents together
OF_STAGES = ("extractor", "matcher", "encoder", "joint", "max_score")       # options as `build` takes them
OF_THE_JUDGE = ("base_url", "key_env", "workers", "timeout", "recorded", "mode", "weights", "seed",
                "temperature", "thinking_tokens", "prices", "spend_limit")      # and as `LLMJudge.of` does


# --- evaluation ---


def score(args: argparse.Namespace) -> int:
    """One answer against one reference."""
    reference, answer = read_text(args.reference), read_text(args.answer)
    if not reference.strip():
        raise InputError(f"{args.reference} is empty; nothing can be scored against it")
    evaluator = _evaluator(args, _judge(args))
    result = evaluator.score(reference, answer, args.question)
    print(json.dumps({"metric": metric_of(result), **result.to_dict()}) if args.json else result)
    return _status(list(values_of(result, "")), Counter(_doubts(result)), evaluator.failures)


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a table of means on the screen, and a line per answer in the output file."""
    _keep(args.output, args.triplets, args.answers, args.store, *getattr(args, "recorded", []))
    judge = _judge(args)
    evaluator = OwnMetric(args.metric) if args.metric else _evaluator(args, judge)
    results = _results(args, judge, evaluator)
    if args.dry_run:
        from .judge.cost import plan_text

        deque(results, 0)                 # counted by a judge that plans
        print(plan_text({} if judge is None else {judge.name: judge.usage()}))
        return 0
    rows: list[Row] = []
    doubts: Counter[str] = Counter()
    checked: list[Any] = []
    def lines() -> Iterator[dict[str, Any]]:
        for result in results:
            rows.extend(values_of(result, metric_of(result)))
            doubts.update(_doubts(result))
            checked.extend([result] if args.support else [])
            yield {"metric": metric_of(result), **result.to_dict()}
    write_jsonl(args.output, lines())
    failures = evaluator.failures
    del evaluator                         # with the points of all references: the table needs the room
    _show(args, judge, rows, checked)
    return _status(rows, doubts, failures)


def _results(args: argparse.Namespace, judge: LLMJudge | None, evaluator: Any) -> Iterator[Any]:
    """The results, one after the other. All texts are let go with the last one."""
    from .data import check_join, load_answers, load_triplets

    triplets, answers = load_triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        say(f"ems: {model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}")
    if not args.scheduler:
        results = evaluator.stream(triplets, answers, progress=not args.dry_run)
    elif evaluator.judges or args.metric or "extractor" in args or "matcher" in args:
        raise InputError("--scheduler spreads the kit's own stages without a judge; a judge scales by its "
                         "endpoint: more --workers, or a batch endpoint (ems replies export --pending)")
    else:
        from .distributed import stream

        results = stream(args.scheduler, triplets, answers, scorer=args.scorer, **_stages(args))
    yield from _supported(args, judge, triplets, results) if args.support else results


def _supported(args: argparse.Namespace, judge: LLMJudge | None, triplets: Sequence[Triplet],
               results: Iterable[Any]) -> Iterator[Any]:
    """The results, their points checked against the triplets' documents."""
    from .support.supporter import check_by_judge, check_numbers

    if args.support == "llm" and judge is None:
        raise InputError("--support llm asks a judge; name one with --judge MODEL, or give --support numbers")
    contexts = {triplet.id: triplet.context or "" for triplet in triplets}
    source = iter(results)
    while batch := list(islice(source, AT_ONCE)):
        if not hasattr(batch[0], "ans_points"):
            raise InputError(f"--support checks points, and {metric_of(batch[0])} has none; leave it out")
        if judge is not None and args.support == "llm":
            yield from check_by_judge(batch, contexts, judge, _prompts(args))
        else:
            yield from check_numbers(batch, contexts)


def _show(args: argparse.Namespace, judge: LLMJudge | None, rows: Sequence[Row],
          checked: Sequence[Any]) -> None:
    """The means with their intervals; then what the documents say, and what the judge was asked."""
    import pandas as pd

    from .judge.cost import usage_table
    from .stats import MIN_CLUSTERS, summarise
    from .support.supporter import support_table
    from .tables import as_text, percent, with_interval

    summary = summarise(of_rows(rows), cluster=args.cluster)
    if args.json:
        print(summary.to_json(orient="records"))
    else:
        table = []
        for (metric, model), parts in summary.groupby(["metric", "model"], sort=False):
            cells = {row.part: with_interval(row) for row in parts.itertuples(index=False)}
            table.append({"model": model, "metric": metric, **cells, "n": parts["n"].min(),
                          "clusters": parts["clusters"].min(), "scored": percent(parts["coverage"].min())})
        print(as_text(pd.DataFrame(table)))
        if summary["ci_low"].isna().any():
            print(f"No interval with fewer than {MIN_CLUSTERS} clusters: too few to say how they vary.")
        if checked:
            print(f"\nThe answers' points in the documents:\n{as_text(support_table(checked))}")
    if judge is not None:
        print(as_text(usage_table({judge.name: judge.usage()})), file=sys.stderr)


def _doubts(result: Any) -> list[str]:
    """What speaks against a value although every point has a score."""
    return [result.reason] if result.reason and not result.unscored else []


def _status(rows: Sequence[Row], doubts: Counter[str], failures: Counter[str]) -> int:
    """The exit status; on stderr doubts about results, and where it is not 0 what is unscored, and why."""
    answers = [dict(zip(COLUMNS, row, strict=True)) for row in rows if row[1] in ("F1", "Score")]
    units, unscored = (sum(answer[name] for answer in answers) for name in ("units", "unscored"))
    lost = sum(math.isnan(answer["value"]) for answer in answers)
    for doubt, times in doubts.most_common(3):
        say(f"ems: {times} of {len(answers)} answers: {doubt}")
    if lost < len(answers) and (unscored <= (1 - ENOUGH) * units and lost <= (1 - ENOUGH) * len(answers)):
        return 0
    reasons = ", ".join(f"{reason} {times}" for reason, times in failures.most_common())
    why = f". Without a usable reply: {reasons}" if reasons else ""
    if ": length" in why:
        why += "; a reply cut by its length may be one of a model that thinks first: give --thinking-tokens"
    say(f"ems: {unscored} of {units} points are unscored, {lost} of {len(answers)} answers altogether; the "
        f"values speak for the rest only{why}")
    return 3


def _judge(args: argparse.Namespace) -> LLMJudge | None:
    """The judge that the options name; None for none, and then InputError for options that are about one."""
    settings = {name: value for name, value in vars(args).items() if name in OF_THE_JUDGE}
    if args.judge == "none":
        given = [*settings, *(name for name in ("joint", "max_score", "prompts") if name in args)]
        if given:
            raise InputError(f"without a judge there is nothing that --{given[0].replace('_', '-')} could "
                             "change; name one with --judge MODEL, or leave the option out")
        return None
    from .judge.client import LLMJudge

    if "prices" in settings:
        import yaml

        settings["prices"] = yaml.safe_load(read_text(settings["prices"]))
    settings = {"mode": "live", "store": args.store, **settings, "model": args.judge}
    if getattr(args, "dry_run", False):
        settings["mode"] = "plan"
    return LLMJudge.of(settings, Path(), Path())


def _evaluator(args: argparse.Namespace, judge: LLMJudge | None) -> Any:
    """The stages that the options name."""
    return build(judge, args.scorer, prompts=_prompts(args), **_stages(args))


def _stages(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name in OF_STAGES}


def _prompts(args: argparse.Namespace) -> Prompts:
    return Prompts.named(getattr(args, "prompts", "kit"))


# --- results ---


def report(args: argparse.Namespace) -> int:
    """Results as one HTML file."""
    from .data import load_results
    from .report import save_report

    _keep(args.output, args.results)
    results = load_results(args.results)
    path = save_report(results, args.output)
    print(f"{sum(map(len, results.values()))} results in {path} ({path.stat().st_size / 1000:,.0f} kB)")
    return 0


def compare(args: argparse.Namespace) -> int:
    """Two files of results: paired differences, and the answers that changed most."""
    from . import compare as comparison

    tables = comparison.compare(args.a, args.b, metric=args.metric, cluster=args.cluster)
    if args.json:
        rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        print(json.dumps(rows))
    else:
        print(comparison.text(tables, args.top))
    return 0


def agree(args: argparse.Namespace) -> int:
    """Results beside a user's own labels."""
    from .labels import agreement_text

    print(agreement_text(args.results, args.labels))
    return 0


def replies(args: argparse.Namespace) -> int:
    """Write saved replies, or the requests that wait for one, to a file; or read replies from one."""
    from .judge.store import Replies

    if args.action == "export" and not Path(args.store).exists():
        raise InputError(f"{args.store}: no such store; --store names one that a run with a judge has made")
    if args.action == "export":
        _keep(args.file, args.store)
    store = Replies(args.store)
    if args.action == "import":
        print(", ".join(f"{times} {what}" for what, times in store.import_file(args.file).items()))
    elif args.pending:
        print(f"{store.export_pending(args.file)} pending requests written to {args.file}")
    else:
        print(f"{store.export(args.file, prompts=args.prompts)} replies written to {args.file}")
    return 0


def reproduce(args: argparse.Namespace) -> int:
    """Run the notebooks of a profile, or say what their judges would ask and cost."""
    import yaml

    from . import reproduce as runner
    from .judge.cost import plan_text

    given, only = {}, args.only.split(",") if args.only else []
    for name, value in args.parameters:
        try:
            given[name] = yaml.safe_load(value) if value else ""        # YAML would read nothing as null
        except yaml.YAMLError:
            given[name] = value
    if args.dry_run:
        print(plan_text(runner.plan(args.profile, only=only, given=given)))
        return 0
    table = runner.reproduce(args.profile, only=only, given=given, force=args.force) / "table1.md"
    if table.exists() and not only:
        print(table.read_text(encoding="utf-8"))
    return 0


def _keep(out: str, *read: str) -> None:
    """InputError when what a command would write is a folder, or one of the files that it reads."""
    if Path(out).is_dir():
        raise InputError(f"{out} is a folder; name a file in it to write")
    for path in read:
        if os.path.realpath(path) == os.path.realpath(out):
            raise InputError(f"{out} is also read by this command and would be lost; name another file")
