"""What each command of `ems` does (`cli` says what it takes). Heavy libraries are loaded late."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .evaluators import OwnMetric, build
from .frames import COLUMNS, Row, metric_of, of_rows, values_of
from .io import read_text, say, write_jsonl
from .prompts import Prompts
from .types import InputError

if TYPE_CHECKING:
    from .judge.client import LLMJudge

ENOUGH = 0.95            # share of points, and of answers, that must have a score for exit status 0
# Options as `build` takes them, as `LLMJudge.of` does, and others that are about a judge.
OF_STAGES = ("extractor", "matcher", "encoder", "joint", "max_score", "prompts")
OF_THE_JUDGE = ("base_url", "key_env", "workers", "timeout", "recorded", "mode", "weights", "seed",
                "temperature", "thinking_tokens", "prices", "spend_limit")
WITH_A_JUDGE = ("joint", "max_score", "prompts", "dry_run")


def score(args: argparse.Namespace) -> int:
    """One answer against one reference."""
    reference, answer = read_text(args.reference), read_text(args.answer)
    evaluator = build(_judge(args), args.scorer, **_stages(args))
    result = evaluator.score(reference, answer, args.question)
    print(json.dumps({"metric": metric_of(result), **result.to_dict()}) if args.json else result)
    return _status(list(values_of(result, "")), Counter([result.reason]), evaluator.failures)


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a table of means on the screen, and a line per answer in the output file."""
    _keep(args.output, args.triplets, args.answers, args.store, *getattr(args, "recorded", []))
    judge = _judge(args)
    evaluator = OwnMetric(args.metric) if args.metric else build(judge, args.scorer, **_stages(args))
    results = _results(args, judge, evaluator)
    if judge is not None and "dry_run" in args:
        from .judge.cost import plan_text

        deque(results, 0)                 # counted by a judge that plans
        print(plan_text({judge.name: judge.usage()}))
        return 0
    rows: list[Row] = []
    reasons: Counter[str] = Counter()
    def lines() -> Iterator[dict[str, Any]]:
        for result in results:
            rows.extend(values_of(result, metric_of(result)))
            reasons[result.reason] += 1
            yield {"metric": metric_of(result), **result.to_dict()}
    write_jsonl(args.output, lines())
    failures = evaluator.failures
    del evaluator                         # with the points of all references: the table needs the room
    _show(args, judge, rows, results if args.support else ())
    return _status(rows, reasons, failures)


def _results(args: argparse.Namespace, judge: LLMJudge | None, evaluator: Any) -> Any:
    """The results one after the other, or as a list where their points are checked against the documents."""
    from .data import check_join, load_answers, load_triplets
    from .support.supporter import check_by_judge, check_numbers

    if args.support and not hasattr(evaluator, "extractor"):
        raise InputError("--support checks points, and this scorer or metric has none; leave it out")
    if args.support == "llm" and judge is None:
        raise InputError("--support llm asks a judge; name one, or give --support numbers")
    triplets, answers = load_triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        say(f"ems: {model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}")
    if not args.scheduler:
        results = evaluator.stream(triplets, answers, progress="dry_run" not in args)
    elif judge is not None or args.metric:
        raise InputError("--scheduler spreads stages without a judge; a judge scales by its endpoint: more "
                         "--workers, or a batch endpoint (ems replies export --pending)")
    else:
        from .distributed import stream

        results = stream(args.scheduler, triplets, answers, scorer=args.scorer, **_stages(args))
    contexts = {triplet.id: triplet.context or "" for triplet in triplets}
    if args.support == "numbers":
        return check_numbers(list(results), contexts)
    if judge is not None and args.support:
        return check_by_judge(list(results), contexts, judge, _stages(args).get("prompts"))
    return results


def _show(args: argparse.Namespace, judge: LLMJudge | None, rows: Sequence[Row],
          checked: Sequence[Any]) -> None:
    """The means with their intervals; then what the documents say, and what the judge was asked."""
    import pandas as pd

    from .judge.cost import usage_table
    from .stats import summarise
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
        if checked:
            print(f"\nThe answers' points in the documents:\n{as_text(support_table(checked))}")
    if judge is not None:
        print(as_text(usage_table({judge.name: judge.usage()})), file=sys.stderr)


def _status(rows: Sequence[Row], reasons: Counter[str], failures: Counter[str]) -> int:
    """The exit status; on stderr the results' commonest reasons, and what is unscored where it is not 0."""
    answers = [dict(zip(COLUMNS, row, strict=True)) for row in rows if row[1] in ("F1", "Score")]
    units, unscored = (sum(answer[name] for answer in answers) for name in ("units", "unscored"))
    lost = sum(math.isnan(answer["value"]) for answer in answers)
    del reasons[""]
    for reason, times in reasons.most_common(3):
        say(f"ems: {times} of {len(answers)} answers: {reason}")
    if lost < len(answers) and unscored <= (1 - ENOUGH) * units and lost <= (1 - ENOUGH) * len(answers):
        return 0
    say(f"ems: {unscored} of {units} points are unscored, {lost} of {len(answers)} answers altogether; the "
        "values speak for the rest only")
    for why, times in failures.most_common():
        hint = "; a model that thinks first needs --thinking-tokens" if why.endswith(": length") else ""
        say(f"ems: {times} replies could not be used, {why}{hint}")
    return 3


def _judge(args: argparse.Namespace) -> LLMJudge | None:
    """The judge that the options name; None for none, and then InputError for options that are about one."""
    if args.judge == "none":
        if idle := [name for name in vars(args) if name in (*OF_THE_JUDGE, *WITH_A_JUDGE)]:
            raise InputError(f"--{idle[0].replace('_', '-')} needs a judge; name one with --judge MODEL, or "
                             "leave the option out")
        return None
    from .judge.client import LLMJudge
    from .reproduce import parse_yaml

    settings = {name: value for name, value in vars(args).items() if name in OF_THE_JUDGE}
    if "prices" in settings:
        settings["prices"] = parse_yaml(read_text(settings["prices"]), settings["prices"])
    if "dry_run" in args:
        settings["mode"] = "plan"
    return LLMJudge.of({"mode": "live", "store": args.store, "model": args.judge} | settings, Path(), Path())


def _stages(args: argparse.Namespace) -> dict[str, Any]:
    stages = {name: value for name, value in vars(args).items() if name in OF_STAGES}
    if "prompts" in stages:
        stages["prompts"] = Prompts.named(stages["prompts"])
    return stages


def report(args: argparse.Namespace) -> int:
    """Results as one HTML file."""
    from .data import load_results
    from .report import save_report

    _keep(args.output, args.results)
    print(save_report(load_results(args.results), args.output))
    return 0


def compare(args: argparse.Namespace) -> int:
    """Two files of results: paired differences, and the answers and points that changed most."""
    from . import compare as comparison

    tables = comparison.compare(args.a, args.b, metric=args.metric, cluster=args.cluster)
    if args.json:
        rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        print(json.dumps(rows))
    else:
        print(comparison.text(tables))
    return 0


def agree(args: argparse.Namespace) -> int:
    """Results beside a user's own labels."""
    from .labels import agreement_text

    print(agreement_text(args.results, args.labels))
    return 0


def replies(args: argparse.Namespace) -> int:
    """Write saved replies, or the requests that wait for one, to a file; or read replies from one."""
    from .judge.store import Replies

    if args.action == "export":
        _keep(args.file, args.store)
        if not Path(args.store).exists():
            raise InputError(f"{args.store}: no such store; --store names one that a run has made")
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
    from . import reproduce as runner
    from .judge.cost import plan_text

    given = {name: runner.parse_yaml(value, f"-p {name}") for name, value in args.parameters}
    only = args.only.split(",") if args.only else []
    if args.dry_run:
        print(plan_text(runner.plan(args.profile, only=only, given=given)))
        return 0
    table = runner.reproduce(args.profile, only=only, given=given) / "table1.md"
    if table.exists() and not only:
        print(read_text(table))
    return 0


def _keep(out: str, *read: str) -> None:
    """InputError when what a command would write is one of the files that it reads."""
    if Path(out).resolve() in [Path(path).resolve() for path in read]:
        raise InputError(f"{out} is also read by this command and would be lost; name another file")
