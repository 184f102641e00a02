"""The command line: what each command takes, what it does, and how it ends. Heavy libraries are loaded late.

Exit status: 0 done; 2 bad input, named in one line; 3 finished, but under 95 % of the points or of the
answers have a score; 130 stopped by Ctrl-C or SIGTERM: the replies that came are saved, results not written.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import runpy
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .analysis.frames import ValueRow, metric_of, of_rows, value_rows
from .evaluators import SCORERS, OwnMetric, build
from .io import parse_yaml, read_text, write_jsonl
from .judge.cost import plan_text, usage_table
from .prompts import Prompts
from .terminal import notify
from .types import Answer, InputError, Triplet

if TYPE_CHECKING:
    from .judge.client import LLMJudge

STORE = "ems-replies.sqlite"
ENOUGH = 0.95  # share of points, and of answers, that must have a score for exit status 0
# Options as `build` takes them, and as `LLMJudge.of` does.
OF_STAGES = ("extractor", "matcher", "encoder", "joint", "max_score", "prompts")
OF_THE_JUDGE = (
    "base_url",
    "key_env",
    "workers",
    "timeout",
    "recorded",
    "mode",
    "weights",
    "seed",
    "temperature",
    "thinking_tokens",
    "prices",
    "spend_limit",
)
# Options of several commands, and what argparse is told of them.
JSON: dict[str, Any] = {"action": "store_true", "help": "JSON on standard output"}
CLUSTER: dict[str, Any] = {
    "choices": ("group", "triplet_id"),
    "default": "group",
    "help": "what intervals take as one; default group",
}
DRY_RUN: dict[str, Any] = {
    "action": "store_true",
    "help": "count calls, tokens and cost without a call",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. What argparse does not understand exits with status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every terminal has a dash or an arrow
        sys.stdout.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        arguments = sys.argv[1:] if argv is None else list(argv)
        if arguments[:1] == ["reproduce"]:
            return reproduce(arguments[1:])
        args = _parser().parse_args(arguments)
        return args.run(args)
    except InputError as error:
        notify(f"ems: {error}")
        return 2
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as stop:
        notify(f"ems: {str(stop) or 'stopped'}")
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ems",
        description="Extract, match, and score: judge long answers about long texts.",
        epilog="`ems COMMAND -h` explains a command. Exit status: 0 done; 2 bad input; 3 done, but under "
        "95 % of the points or of the answers have a score.",
    )
    parser.add_argument("--version", action="version", version=f"ems {__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND", title="commands", required=True, dest="command"
    )
    for add in (_score, _evaluate, _report, _compare, _agree, _replies, _reproduce):
        add(commands)
    return parser


def _command(commands: Any, run: Callable[..., int], example: str) -> Callable[..., Any]:
    """Add a command, named and described as the function that runs it; returns what adds an argument."""
    about = str(run.__doc__)
    command = commands.add_parser(
        run.__name__,
        help=about.partition(":")[0],
        description=about,
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command.add_argument


def _score(commands: Any) -> None:
    add = _command(commands, score, "ems score --reference ref.txt --answer ans.txt --judge gpt-4o")
    add("--reference", required=True, metavar="FILE", help="text of the reference, UTF-8")
    add("--answer", required=True, metavar="FILE", help="text of the answer, UTF-8")
    add("--question", default="", metavar="TEXT", help="what is answered: its words weigh less")
    _add_stages(add)


def score(args: argparse.Namespace) -> int:
    """One answer against one reference: two text files."""
    reference, answer = read_text(args.reference), read_text(args.answer)
    evaluator = build(_judge(args), args.scorer, **_stages(args))
    result = evaluator.score(reference, answer, args.question)
    print(json.dumps({"metric": metric_of(result), **result.to_dict()}) if args.json else result)
    return _status(list(value_rows(result, "")), Counter([result.reason]), evaluator.failures)


def _evaluate(commands: Any) -> None:
    add = _command(commands, evaluate, "ems evaluate triplets.jsonl answers.csv -o results.jsonl")
    add("triplets", metavar="TRIPLETS", help="questions with references")
    add("answers", metavar="ANSWERS", help="the answers to score")
    add(
        "-o",
        "--output",
        required=True,
        metavar="OUT.jsonl",
        help="file to write when all are scored",
    )
    add("--cluster", **CLUSTER)
    add("--dry-run", **DRY_RUN, default=argparse.SUPPRESS)
    add(
        "--support",
        choices=("llm", "numbers"),
        help="check points, or their numbers, against the context",
    )
    add(
        "--metric",
        metavar="IMPORT:PATH",
        help="your own: a function from references and answers to values",
    )
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for evaluation without a judge")
    _add_stages(add)


def _add_stages(add: Callable[..., Any]) -> None:
    """What a judge and stages are made of: an option that is not given keeps the default that these have."""
    add("--json", **JSON)
    add("--judge", default="none", metavar="none|MODEL", help="model that judges; default none")
    add(
        "--scorer",
        metavar="|".join([*SCORERS, "IMPORT:PATH"]),
        help="what gives the scores; default llm with a judge, local without one. "
        + "; ".join(f"{name}: {scorer.about}" for name, scorer in SCORERS.items()),
    )
    add("--store", default=STORE, metavar="FILE", help=f"the judge's replies; default {STORE}")
    add = partial(add, default=argparse.SUPPRESS)
    add(
        "--extractor",
        metavar="IMPORT:PATH",
        help="your own: a function from texts to lists of points",
    )
    add(
        "--matcher",
        metavar="IMPORT:PATH",
        help="your own: a function from pairs of lists to indices",
    )
    add("--encoder", metavar="NAME", help="model for bertscore; default roberta-large")
    add("--joint", action="store_true", help="ask the judge about all points of an answer at once")
    add("--max-score", type=int, metavar="N", help="the judge's best score; default 10")
    add(
        "--prompts",
        metavar="SET",
        help="the judge's: kit (default), paper or a folder of templates",
    )
    add(
        "--base-url", metavar="URL", help="address of the judge's endpoint; default OPENAI_BASE_URL"
    )
    add(
        "--key-env",
        metavar="NAME",
        help="environment variable with its key; default OPENAI_API_KEY",
    )
    add("--workers", type=int, metavar="N", help="questions under way at once; default 32")
    add("--timeout", type=float, metavar="SECONDS", help="for one reply; default 600")
    add("--recorded", action="append", metavar="FILE", help="recorded replies to use as well")
    add(
        "--mode",
        choices=("live", "replay"),
        help="live asks for what is not saved (default), replay never",
    )
    add(
        "--weights",
        metavar="REVISION",
        help="of the judge: a reply belongs to the weights it was made with",
    )
    add("--seed", type=_or_none(int), metavar="N|none", help="sent with every question; default 7")
    add(
        "--temperature",
        type=_or_none(float),
        metavar="T|none",
        help="sent with every question; default 0",
    )
    add(
        "--thinking-tokens",
        type=int,
        metavar="N",
        help="room for a model that thinks first; default 0",
    )
    add(
        "--prices",
        metavar="FILE",
        help="YAML: money for a million tokens as prompt, completion and cached",
    )
    add("--spend-limit", type=float, metavar="MONEY", help="stop before the judge costs more")


def _or_none(kind: Callable[[str], float]) -> Callable[[str], float | None]:
    def number(text: str) -> float | None:
        return None if text == "none" else kind(text)

    return number


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a table of means on the screen, and a line per answer in the output file.

    Files are JSON lines, a JSON array or CSV with a header. A triplet has id, question and reference (or
    points), if you like context and group (such as a company); an answer has triplet_id, model and answer.
    """
    _keep(args.output, args.triplets, args.answers, args.store, *getattr(args, "recorded", []))
    if args.metric and args.scorer:
        raise InputError(
            "--metric takes the place of a scorer: leave --scorer out, or evaluate twice"
        )
    judge = _judge(args)
    stages = _stages(args)
    if args.support == "llm" and args.scorer == "local":
        stages.pop("prompts", None)  # only the check of points has a use for them
    evaluator = OwnMetric(args.metric) if args.metric else build(judge, args.scorer, **stages)
    results = _results(args, judge, evaluator)
    if judge is not None and "dry_run" in args:
        deque(results, 0)  # counted by a judge that plans
        print(plan_text({judge.name: judge.usage()}))
        return 0
    rows: list[ValueRow] = []
    reasons: Counter[str] = Counter()

    def lines() -> Iterator[dict[str, Any]]:
        for result in results:
            rows.extend(value_rows(result, metric_of(result)))
            reasons[result.reason] += 1
            yield {"metric": metric_of(result), **result.to_dict()}

    write_jsonl(args.output, lines())
    _show(args, judge, rows, results if args.support else ())
    return _status(rows, reasons, evaluator.failures)


def _results(args: argparse.Namespace, judge: LLMJudge | None, evaluator: Any) -> Any:
    """The results one after the other, or as a list where their points are checked against the documents."""
    from .data import check_join, records
    from .support.supporter import check_by_judge, check_numbers

    if args.support and not hasattr(evaluator, "extractor"):
        raise InputError(
            "--support checks points, and this scorer or metric has none; leave it out"
        )
    if args.support == "llm" and judge is None:
        raise InputError("--support llm asks a judge; name one, or give --support numbers")
    triplets = [
        t if args.support else replace(t, context=None) for t in records(args.triplets, Triplet)
    ]
    again = Path(args.answers).is_file()  # then read twice, first for errors, and no text kept
    found = [
        replace(answer, answer="") if again else answer for answer in records(args.answers, Answer)
    ]
    for model, missing in check_join(triplets, found).items():
        notify(
            f"ems: {model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}"
        )
    answers = records(args.answers, Answer) if again else iter(found)
    if not args.scheduler:
        results = evaluator.stream(triplets, answers, None if "dry_run" in args else len(found))
    elif judge is not None or args.metric:
        raise InputError(
            "--scheduler spreads stages without a judge; a judge scales by its endpoint: more "
            "--workers, or a batch endpoint (ems replies export --pending)"
        )
    else:
        from .distributed import stream

        results = stream(
            args.scheduler, triplets, list(answers), scorer=args.scorer, **_stages(args)
        )
    contexts = {triplet.id: triplet.context or "" for triplet in triplets}
    if args.support == "numbers":
        return check_numbers(list(results), contexts)
    if judge is not None and args.support:
        return check_by_judge(list(results), contexts, judge, _stages(args).get("prompts"))
    return results


def _show(
    args: argparse.Namespace, judge: LLMJudge | None, rows: list[ValueRow], checked: Sequence[Any]
) -> None:
    """The means with their intervals; then what the documents say, and what the judge was asked."""
    from .analysis.stats import summarise
    from .analysis.tables import means_table, table_text
    from .support.supporter import support_table

    summary = summarise(of_rows(rows), cluster=args.cluster)
    if args.json:
        print(summary.to_json(orient="records"))
    else:
        print(table_text(means_table(summary)))
        if checked:
            print(f"\nThe answers' points in the documents:\n{table_text(support_table(checked))}")
    if judge is not None:
        print(table_text(usage_table({judge.name: judge.usage()})), file=sys.stderr)


def _status(rows: Sequence[ValueRow], reasons: Counter[str], failures: Counter[str]) -> int:
    """The exit status; on stderr the results' commonest reasons, and what is unscored where it is not 0."""
    answers = [row for row in rows if row.part in ("F1", "Score")]
    units = sum(answer.units for answer in answers)
    unscored = sum(answer.unscored for answer in answers)
    lost = sum(math.isnan(answer.value) for answer in answers)
    del reasons[""]
    for reason, times in reasons.most_common(3):
        notify(f"ems: {times} of {len(answers)} answers: {reason}")
    if (
        lost < len(answers)
        and unscored <= (1 - ENOUGH) * units
        and lost <= (1 - ENOUGH) * len(answers)
    ):
        return 0
    notify(
        f"ems: {unscored} of {units} points are unscored, {lost} of {len(answers)} answers altogether; the "
        "values speak for the rest only"
    )
    for why, times in failures.most_common():
        hint = (
            "; a model that thinks first needs --thinking-tokens"
            if why.endswith(": length")
            else ""
        )
        notify(f"ems: {times} replies could not be used, {why}{hint}; another --store asks anew")
    return 3


def _judge(args: argparse.Namespace) -> LLMJudge | None:
    """The judge that the options name; None for none, and then InputError for options that are about one."""
    if args.judge == "none":
        needy = (*OF_THE_JUDGE, "joint", "max_score", "prompts", "dry_run")
        if idle := [name for name in vars(args) if name in needy]:
            raise InputError(
                f"--{idle[0].replace('_', '-')} needs a judge; name one with --judge MODEL, or "
                "leave the option out"
            )
        return None
    from .judge.client import LLMJudge

    settings = {name: value for name, value in vars(args).items() if name in OF_THE_JUDGE}
    if "prices" in settings:
        settings["prices"] = parse_yaml(read_text(settings["prices"]), settings["prices"])
    if "dry_run" in args:
        settings["mode"] = "plan"
    return LLMJudge.of(
        {"mode": "live", "store": args.store, "model": args.judge} | settings, Path(), Path()
    )


def _stages(args: argparse.Namespace) -> dict[str, Any]:
    stages = {name: value for name, value in vars(args).items() if name in OF_STAGES}
    if "prompts" in stages:
        stages["prompts"] = Prompts.named(stages["prompts"])
    return stages


def _report(commands: Any) -> None:
    add = _command(commands, report, "ems report results.jsonl -o report.html")
    add("results", metavar="RESULTS", help="results of ems evaluate, or a run's alignments.jsonl")
    add("-o", "--output", required=True, metavar="FILE.html", help="file to write")
    add("--cluster", **CLUSTER)


def report(args: argparse.Namespace) -> int:
    """Results as one HTML file: a summary with intervals, and the points of each answer."""
    from .analysis.report import save_report
    from .data import worst_results

    _keep(args.output, args.results)
    results, rows = worst_results(args.results)
    print(
        save_report(
            results, args.output, of_rows(rows).assign(group=lambda frame: frame[args.cluster])
        )
    )
    return 0


def _compare(commands: Any) -> None:
    add = _command(commands, compare, "ems compare before.jsonl after.jsonl")
    add("a", help="first file of results; alone, its models are compared")
    add("b", nargs="?", help="second file of results: differences are a minus b")
    add("--metric", metavar="NAME", help="which one, where a file holds several")
    add("--cluster", **CLUSTER)
    add("--json", **JSON)


def compare(args: argparse.Namespace) -> int:
    """Two files of results, or the models of one file: a minus b on the same questions.

    Answers are joined by triplet and model. The column "higher" names the file, or the model, with
    the higher mean where the difference is clear.
    """
    from .analysis.compare import compare_results, comparison_text

    tables = compare_results(args.a, args.b, metric=args.metric, cluster=args.cluster)
    rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
    print(json.dumps(rows) if args.json else comparison_text(tables, args.a, args.b))
    return 0


def _agree(commands: Any) -> None:
    add = _command(commands, agree, "ems agree results.jsonl labels.csv")
    add(
        "results",
        nargs="+",
        metavar="RESULTS",
        help="results of ems evaluate; several are compared",
    )
    add("labels", metavar="LABELS", help="CSV file of labels")


def agree(args: argparse.Namespace) -> int:
    """Results beside your labels: how well metrics agree with them.

    LABELS is a file of triplet_id, model and label (0 or 1, or a grade).
    """
    from .analysis.labels import agreement_text

    print(agreement_text(args.results, args.labels))
    return 0


def _replies(commands: Any) -> None:
    add = _command(commands, replies, "ems replies export --pending batch.jsonl")
    add("action", choices=("export", "import"), help="write replies as JSON lines, or read them")
    add("file", metavar="FILE", help="file to write, or to read")
    add(
        "--pending", action="store_true", help="export the requests that wait, for a batch endpoint"
    )
    add("--store", default=STORE, metavar="FILE", help=f"default {STORE}")


def replies(args: argparse.Namespace) -> int:
    """Saved replies: to take elsewhere, or from a batch endpoint."""
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
        print(f"{store.export(args.file)} replies written to {args.file}")
    return 0


def _reproduce(commands: Any) -> None:
    commands.add_parser(
        "reproduce", help="Run the notebooks of a profile", add_help=False, prefix_chars="\0"
    ).add_argument("rest", nargs="*")


def reproduce(arguments: Sequence[str]) -> int:
    """Run the notebooks of a profile in a clone of the project, as notebooks/run.py does."""
    runner = Path("notebooks", "run.py")
    if not runner.is_file():
        raise InputError(f"no {runner} in {Path.cwd()}; run this in a clone of the project")
    return int(runpy.run_path(str(runner))["main"](arguments))


def _keep(out: str, *read: str) -> None:
    """InputError when what a command would write is a folder, or one of the files that it reads."""
    if Path(out).is_dir():
        raise InputError(f"{out} is a folder; name a file in it to write")
    if Path(out).resolve() in [Path(path).resolve() for path in read]:
        raise InputError(f"{out} is also read by this command and would be lost; name another file")
