"""The command line: commands, their options and help texts. `commands` has what each command does.

Exit status: 0 done; 2 bad input, which one line on stderr names; 3 done, but less than 95 % of the
points or of the answers have a score; 130 stopped by Ctrl-C or SIGTERM: the replies that had come
are saved, and no results are written.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import __version__, commands
from .terminal import notify
from .types import InputError

STORE = "ems-replies.sqlite"
# What argparse is told about an option: the keyword arguments of `add_argument`.
ArgparseSettings = dict[str, Any]


def none_or(kind: Callable[[str], float]) -> Callable[[str], float | None]:
    """A reader of an option's value: a number of this kind, or None for the word "none"."""

    def number(text: str) -> float | None:
        return None if text == "none" else kind(text)

    return number


# Options of which each sets an argument of `build` with the same name. One that is not given keeps
# the default that the argument has there.
STAGE_OPTIONS: dict[str, ArgparseSettings] = {
    "extractor": {
        "metavar": "IMPORT:PATH",
        "help": "your own function from texts to lists of points",
    },
    "matcher": {
        "metavar": "IMPORT:PATH",
        "help": "your own function from pairs of lists of points to indices",
    },
    "encoder": {
        "metavar": "NAME",
        "help": "the model that the bertscore scorer uses; default roberta-large",
    },
    "joint": {
        "action": "store_true",
        "help": "ask the judge about all points of an answer in one call; by default a call "
        "asks about one point",
    },
    "max_score": {
        "type": int,
        "metavar": "N",
        "help": "the highest score that the judge can give; default 10",
    },
    "prompts": {
        "metavar": "SET",
        "help": "the judge's prompts: kit (default), paper, or a folder of templates",
    },
}
# Options of which each sets a setting of `LLMJudge.of` with the same name.
JUDGE_OPTIONS: dict[str, ArgparseSettings] = {
    "base_url": {
        "metavar": "URL",
        "help": "the address of the judge's endpoint; default OPENAI_BASE_URL",
    },
    "key_env": {
        "metavar": "NAME",
        "help": "the environment variable that holds the key; default OPENAI_API_KEY",
    },
    "workers": {
        "type": int,
        "metavar": "N",
        "help": "the largest number of calls under way at once; default 32",
    },
    "timeout": {
        "type": float,
        "metavar": "SECONDS",
        "help": "how long one reply may take, repeated calls included; default 600",
    },
    "recorded": {
        "action": "append",
        "metavar": "FILE",
        "help": "a file of recorded replies to use beside the store; may be given several times",
    },
    "mode": {
        "choices": ("live", "replay"),
        "help": "live (default) asks for the replies that are not saved; replay never asks",
    },
    "weights": {
        "metavar": "REVISION",
        "help": "the revision of the judge's weights; a reply saved under another revision is "
        "not used",
    },
    "seed": {
        "type": none_or(int),
        "metavar": "N|none",
        "help": "the seed that every request sends; default 7",
    },
    "temperature": {
        "type": none_or(float),
        "metavar": "T|none",
        "help": "the temperature that every request sends; default 0",
    },
    "thinking_tokens": {
        "type": int,
        "metavar": "N",
        "help": "tokens added to the limit of each reply, for a model that thinks before it "
        "answers; default 0",
    },
    "prices": {
        "metavar": "FILE",
        "help": "a YAML file with the price of a million tokens: prompt, completion and, if it "
        "differs, cached",
    },
    "spend_limit": {
        "type": float,
        "metavar": "MONEY",
        "help": "stop before a call that could make the judge cost more; needs --prices",
    },
}
DRY_RUN_OPTION: dict[str, ArgparseSettings] = {
    "dry_run": {
        "action": "store_true",
        "help": "ask nothing: print how many calls and tokens the run takes at most and, with "
        "--prices, what they cost",
    },
}
# Options that several commands have.
_JSON: ArgparseSettings = {"action": "store_true", "help": "print JSON in place of a text"}
_CLUSTER: ArgparseSettings = {
    "choices": ("group", "triplet_id"),
    "default": "group",
    "help": "what an interval resamples: the group (default) or the single question",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. argparse exits with 2 for what it does not know."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Some terminals cannot show a dash or an arrow.
        sys.stdout.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments[:1] == ["reproduce"]:
            return commands.run_notebooks(arguments[1:])
        args = _parser().parse_args(arguments)
        args.stage_settings = _given(args, STAGE_OPTIONS)
        args.judge_settings = _given(args, [*JUDGE_OPTIONS, *DRY_RUN_OPTION])
        return args.run(args)
    except InputError as error:
        notify(f"ems: {error}")
        return 2
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as interrupt:
        notify(f"ems: {str(interrupt) or 'stopped'}")
        return 128 + signal.SIGINT


def _given(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Those of the options that the user has given, with their values."""
    return {name: getattr(args, name) for name in names if name in args}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ems",
        description="Extract, match, and score: judge long answers about long texts.",
        epilog="`ems COMMAND -h` explains a command. Exit status: 0 done; 2 bad input; 3 done, "
        "but less than 95 % of the points or of the answers have a score.",
    )
    parser.add_argument("--version", action="version", version=f"ems {__version__}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", title="commands", required=True, dest="command"
    )
    _add_score(subparsers)
    _add_evaluate(subparsers)
    _add_report(subparsers)
    _add_compare(subparsers)
    _add_agree(subparsers)
    _add_replies(subparsers)
    # `main` hands the arguments of this command on before they are parsed.
    subparsers.add_parser("reproduce", help="Run the notebooks of a profile.")
    return parser


def _command(
    subparsers: Any, name: str, run: Callable[[argparse.Namespace], int], example: str
) -> argparse.ArgumentParser:
    """Add a command. Its description is the docstring of `run`, of which the list has one line."""
    description = str(run.__doc__)
    command: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=description.splitlines()[0],
        description=description,
        epilog=f"example: ems {name} {example}",
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def _add_score(subparsers: Any) -> None:
    command = _command(
        subparsers,
        "score",
        commands.score_texts,
        "--reference ref.txt --answer ans.txt --judge gpt-4o",
    )
    add = command.add_argument
    add("--reference", required=True, metavar="FILE", help="the reference, a UTF-8 text")
    add("--answer", required=True, metavar="FILE", help="the answer, a UTF-8 text")
    add(
        "--question",
        default="",
        metavar="TEXT",
        help="the question; the local evaluator gives its words less weight",
    )
    _add_evaluator(command)


def _add_evaluate(subparsers: Any) -> None:
    command = _command(
        subparsers,
        "evaluate",
        commands.evaluate_files,
        "triplets.jsonl answers.csv -o results.jsonl",
    )
    add = command.add_argument
    add("triplets", metavar="TRIPLETS", help="the file of questions with references")
    add("answers", metavar="ANSWERS", help="the file of answers to score")
    add(
        "-o",
        "--output",
        required=True,
        metavar="OUT.jsonl",
        help="the file to write; it changes only when every answer has a result",
    )
    add("--cluster", **_CLUSTER)
    add(
        "--support",
        choices=("llm", "numbers"),
        help="look in the context for each answer point (llm: the judge does), or for its numbers",
    )
    add(
        "--metric",
        metavar="IMPORT:PATH",
        help="your own metric in place of a scorer: a function from references and answers to "
        "values",
    )
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="the address of a Dask cluster that evaluates; only without a judge",
    )
    _add_settings(add, DRY_RUN_OPTION)
    _add_evaluator(command)


def _add_evaluator(command: argparse.ArgumentParser) -> None:
    """The options that `score` and `evaluate` share: the judge, the scorer and the stages."""
    add = command.add_argument
    add("--json", **_JSON)
    add(
        "--judge",
        default="none",
        metavar="none|MODEL",
        help="the model that judges; default none: no model is asked",
    )
    add(
        "--scorer",
        metavar="llm|rouge|bertscore|bleu|coverage|judge|local|ragchecker|IMPORT:PATH",
        help="what gives the scores; default llm with a judge, local without one",
    )
    add(
        "--store",
        default=STORE,
        metavar="FILE",
        help=f"the file in which the judge's replies are saved; default {STORE}",
    )
    _add_settings(command.add_argument_group("stages").add_argument, STAGE_OPTIONS)
    _add_settings(command.add_argument_group("judge").add_argument, JUDGE_OPTIONS)


def _add_settings(
    add: Callable[..., argparse.Action], options: Mapping[str, ArgparseSettings]
) -> None:
    """Add the options of a table. The parsed arguments have no entry for one that is not given."""
    for name, settings in options.items():
        flag = "--" + name.replace("_", "-")
        add(flag, default=argparse.SUPPRESS, **settings)


def _add_report(subparsers: Any) -> None:
    command = _command(subparsers, "report", commands.write_report, "results.jsonl -o report.html")
    add = command.add_argument
    add(
        "results",
        metavar="RESULTS",
        help="the results that ems evaluate wrote, or the alignments.jsonl of a run",
    )
    add("-o", "--output", required=True, metavar="FILE.html", help="the file to write")
    add("--cluster", **_CLUSTER)


def _add_compare(subparsers: Any) -> None:
    command = _command(subparsers, "compare", commands.compare_files, "before.jsonl after.jsonl")
    add = command.add_argument
    add("a", metavar="A", help="results to compare with; without B, the models of A are compared")
    add(
        "b",
        metavar="B",
        nargs="?",
        help="results to compare: a difference above 0 is in their favour",
    )
    add("--metric", metavar="NAME", help="the metric to compare; default all that both have")
    add("--cluster", **_CLUSTER)
    add("--json", **_JSON)


def _add_agree(subparsers: Any) -> None:
    command = _command(subparsers, "agree", commands.show_agreement, "results.jsonl labels.csv")
    add = command.add_argument
    add(
        "results",
        nargs="+",
        metavar="RESULTS",
        help="results of ems evaluate; the metrics of several files are compared",
    )
    add("labels", metavar="LABELS", help="the CSV file of labels")


def _add_replies(subparsers: Any) -> None:
    command = _command(subparsers, "replies", commands.move_replies, "export --pending batch.jsonl")
    add = command.add_argument
    add("action", choices=("export", "import"), help="write replies as JSON lines, or read them")
    add("file", metavar="FILE", help="the file to write, or to read")
    add(
        "--pending",
        action="store_true",
        help="export the requests that have no reply yet, for a batch endpoint",
    )
    add(
        "--store",
        default=STORE,
        metavar="FILE",
        help=f"the file in which replies are saved; default {STORE}",
    )
