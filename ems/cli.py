"""The command line: commands, their options and help texts. `commands` has what each command does.

Exit status: 0 done; 2 bad input, which one line on stderr names; 3 done, but less than 95 % of the
points or of the answers have a score; 4 done, but a gate has failed (--fail-under, --fail-over,
--fail-on-regression); 130 stopped by Ctrl-C or SIGTERM: the replies that had come
are saved, and no results are written.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import __version__, commands
from .evaluators import SCORERS
from .terminal import notify
from .types import InputError

STORE = "ems-replies.sqlite"
# By the names of an option or an argument, separated by spaces: what `add_argument` is told of it.
_Options = dict[str, dict[str, Any]]


def none_or(kind: Callable[[str], float]) -> Callable[[str], float | None]:
    """A reader of an option's value: a number of this kind, or None for the word "none"."""

    def number(text: str) -> float | None:
        return None if text == "none" else kind(text)

    return number


def name_and_value(text: str) -> tuple[str, str]:
    """The two sides of METRIC=VALUE; the name is empty without the sign."""
    name, _, value = text.rpartition("=")
    return name, value


# --- options of several commands ---

_JSON: _Options = {"--json": {"action": "store_true", "help": "print JSON in place of a text"}}
_FORMAT: _Options = _JSON | {
    "--markdown": {
        "action": "store_true",
        "help": "print Markdown for a pull request: a verdict, ten rows at most, and the gate",
    },
}
_CLUSTER: _Options = {
    "--cluster": {
        "choices": ("group", "triplet_id"),
        "default": "group",
        "help": "what an interval resamples: the group (default) or the single question",
    },
}
_STORE: _Options = {
    "--store": {
        "default": STORE,
        "metavar": "FILE",
        "help": f"the file in which the judge's replies are saved; default {STORE}",
    },
}
_WHOLE_TEXTS: _Options = {
    "--triplets": {
        "default": "",
        "metavar": "TRIPLETS",
        "help": "the file of questions that was evaluated, for the whole references in the page",
    },
    "--answers": {
        "default": "",
        "metavar": "ANSWERS",
        "help": "the file of answers that was evaluated, for the whole answers in the page",
    },
}
EVALUATOR_OPTIONS: _Options = {
    "--judge": {
        "default": "none",
        "metavar": "none|MODEL",
        "help": "the model that judges; default none: no model is asked",
    },
    "--scorer": {
        "metavar": "|".join([*SCORERS, "IMPORT:PATH"]),
        "help": "what gives the scores; default llm with a judge, local without one. "
        + "; ".join(f"{name}: {scorer.about}" for name, scorer in SCORERS.items()),
    },
}
# Options of which each sets an argument of `build` with the same name. One that is not given keeps
# the default that the argument has there.
STAGE_OPTIONS: _Options = {
    "--extractor": {
        "metavar": "IMPORT:PATH",
        "help": "your own function from texts to lists of points",
    },
    "--matcher": {
        "metavar": "IMPORT:PATH",
        "help": "your own function from pairs of lists of points to indices",
    },
    "--encoder": {
        "metavar": "NAME",
        "help": "the model that the bertscore scorer uses; default roberta-large",
    },
    "--joint": {
        "action": "store_true",
        "help": "ask the judge about all points of an answer in one call; by default a call "
        "asks about one point",
    },
    "--max-score": {
        "type": int,
        "metavar": "N",
        "help": "the highest score that the judge can give; default 10",
    },
    "--prompts": {
        "metavar": "SET",
        "help": "the judge's prompts: kit (default), paper, or a folder of templates",
    },
}
# Options of which each sets a setting of `LLMJudge.of` with the same name.
JUDGE_OPTIONS: _Options = {
    "--base-url": {
        "metavar": "URL",
        "help": "the address of the judge's endpoint; default OPENAI_BASE_URL",
    },
    "--key-env": {
        "metavar": "NAME",
        "help": "the environment variable that holds the key; default OPENAI_API_KEY",
    },
    "--workers": {
        "type": int,
        "metavar": "N",
        "help": "the largest number of calls under way at once; default 32",
    },
    "--timeout": {
        "type": float,
        "metavar": "SECONDS",
        "help": "how long one reply may take, repeated calls included; default 600",
    },
    "--recorded": {
        "action": "append",
        "metavar": "FILE",
        "help": "a file of recorded replies to use beside the store; may be given several times",
    },
    "--mode": {
        "choices": ("live", "replay"),
        "help": "live (default) asks for the replies that are not saved; replay never asks",
    },
    "--weights": {
        "metavar": "REVISION",
        "help": "the revision of the judge's weights; a reply saved under another revision is "
        "not used",
    },
    "--seed": {
        "type": none_or(int),
        "metavar": "N|none",
        "help": "the seed that every request sends; default 7",
    },
    "--temperature": {
        "type": none_or(float),
        "metavar": "T|none",
        "help": "the temperature that every request sends; default 0",
    },
    "--thinking-tokens": {
        "type": int,
        "metavar": "N",
        "help": "tokens added to the limit of each reply, for a model that thinks before it "
        "answers; default 0",
    },
    "--prices": {
        "metavar": "FILE",
        "help": "a YAML file with the price of a million tokens: prompt, completion and, if it "
        "differs, cached",
    },
    "--spend-limit": {
        "type": float,
        "metavar": "MONEY",
        "help": "stop before a call that could make the judge cost more; needs --prices",
    },
}
DRY_RUN: _Options = {
    "--dry-run": {
        "action": "store_true",
        "help": "ask nothing: print how many calls and tokens the run takes at most and, with "
        "--prices, what they cost",
    },
}


# --- options of one command ---

SCORE_OPTIONS: _Options = {
    "--reference": {"required": True, "metavar": "FILE", "help": "the reference, a UTF-8 text"},
    "--answer": {"required": True, "metavar": "FILE", "help": "the answer, a UTF-8 text"},
    "--question": {
        "default": "",
        "metavar": "TEXT",
        "help": "the question; the local evaluator gives its words less weight",
    },
}
EVALUATE_OPTIONS: _Options = {
    "triplets": {"metavar": "TRIPLETS", "help": "the file of questions with references"},
    "answers": {"metavar": "ANSWERS", "help": "the file of answers to score"},
    "-o --output": {
        "required": True,
        "metavar": "OUT.jsonl",
        "help": "the file to write; it changes only when every answer has a result",
    },
    "--support": {
        "choices": ("llm",),
        "help": "the judge looks in the context for each answer point",
    },
    "--metric": {
        "action": "append",
        "metavar": "IMPORT:PATH",
        "help": "your own metric in place of a scorer: a function from references and answers to "
        "values; may be given several times",
    },
    "--fail-under": {
        "action": "append",
        "type": name_and_value,
        "default": [],
        "metavar": "METRIC=VALUE",
        "help": "exit with status 4 when a model's mean is lower: recall=0.7, 'Figures "
        "Precision=0.95', or the name of your own metric; may be given several times, and needs a "
        "judge unless it is about Figures or your own metric",
    },
    "--fail-over": {
        "action": "append",
        "type": name_and_value,
        "default": [],
        "metavar": "METRIC=VALUE",
        "help": "the same when a mean is higher, for Contradicted, Missing and Refused: "
        "contradicted=0.05",
    },
    "--scheduler": {
        "metavar": "ADDRESS",
        "help": "the address of a Dask cluster that evaluates; only without a judge",
    },
}
REPORT_OPTIONS: _Options = {
    "results": {
        "nargs": "+",
        "metavar": "RESULTS",
        "help": "the results that ems evaluate wrote, or the alignments.jsonl of a run; several "
        "files stand in one page",
    },
    "-o --output": {"required": True, "metavar": "FILE.html", "help": "the file to write"},
    "--title": {
        "default": "",
        "metavar": "TEXT",
        "help": "the title of the page; default the names of the models",
    },
}
COMPARE_OPTIONS: _Options = {
    "a": {
        "metavar": "A",
        "help": "the first file of results; alone, its models are compared",
    },
    "b": {
        "metavar": "B",
        "nargs": "?",
        "help": "the second file of results: differences are a minus b",
    },
    "--metric": {
        "action": "append",
        "default": [],
        "metavar": "NAME",
        "help": "a metric to compare; may be given several times; default all that both have",
    },
    "--fail-on-regression": {
        "action": "store_true",
        "help": "exit with status 4 when B, the new results, is clearly worse than A, the old "
        "ones, in any part; needs a judge, or --metric Figures",
    },
}
LABEL_OPTIONS: _Options = {
    "results": {
        "metavar": "RESULTS",
        "help": "the results that ems evaluate wrote; of several metrics the first one is labelled",
    },
    "-o --output": {"required": True, "metavar": "FILE.html", "help": "the file to write"},
    "--number": {
        "type": int,
        "default": 60,
        "metavar": "N",
        "help": "how many points or pairs to label; default 60, which take about an hour",
    },
    "--pairs": {"action": "store_true", "help": "label which of two answers is better"},
}
AGREE_OPTIONS: _Options = {
    "results": {
        "nargs": "+",
        "metavar": "RESULTS",
        "help": "results of ems evaluate; the metrics of several files are compared",
    },
    "labels": {
        "metavar": "LABELS",
        "help": "the CSV file of labels; several people's files of ems label can be named",
    },
}
REPLIES_OPTIONS: _Options = {
    "action": {
        "choices": ("export", "import"),
        "help": "write replies as JSON lines, or read them",
    },
    "file": {"metavar": "FILE", "help": "the file to write, or to read"},
    "--pending": {
        "action": "store_true",
        "help": "export the requests that have no reply yet, for a batch endpoint",
    },
}


# --- commands ---


@dataclass(frozen=True)
class Command:
    """A command. The docstring of `run` describes it; the list of commands has the first line."""

    run: Callable[[argparse.Namespace], int]
    example: str
    options: _Options


COMMANDS = {
    "score": Command(
        commands.score_texts,
        "--reference ref.txt --answer ans.txt --judge gpt-4o",
        SCORE_OPTIONS | _JSON | EVALUATOR_OPTIONS | _STORE | STAGE_OPTIONS | JUDGE_OPTIONS,
    ),
    "evaluate": Command(
        commands.evaluate_files,
        "triplets.jsonl answers.csv -o results.jsonl",
        EVALUATE_OPTIONS
        | _CLUSTER
        | _FORMAT
        | EVALUATOR_OPTIONS
        | _STORE
        | STAGE_OPTIONS
        | JUDGE_OPTIONS
        | DRY_RUN,
    ),
    "report": Command(
        commands.write_report,
        "results.jsonl -o report.html",
        REPORT_OPTIONS | _WHOLE_TEXTS | _CLUSTER,
    ),
    "compare": Command(
        commands.compare_files, "before.jsonl after.jsonl", COMPARE_OPTIONS | _CLUSTER | _FORMAT
    ),
    "label": Command(
        commands.write_sheet, "results.jsonl -o sheet.html", LABEL_OPTIONS | _WHOLE_TEXTS
    ),
    "agree": Command(commands.show_agreement, "results.jsonl labels.csv", AGREE_OPTIONS),
    "replies": Command(
        commands.move_replies, "export --pending batch.jsonl", REPLIES_OPTIONS | _STORE
    ),
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
        args.judge_settings = _given(args, JUDGE_OPTIONS | DRY_RUN)
        return COMMANDS[args.command].run(args)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ems",
        description="Extract, match, and score: judge long answers about long texts.",
        epilog="`ems COMMAND -h` explains a command. Exit status: 0 done; 2 bad input; 3 done, "
        "but less than 95 % of the points or of the answers have a score; 4 done, but a gate has "
        "failed.",
    )
    parser.add_argument("--version", action="version", version=f"ems {__version__}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", title="commands", required=True, dest="command"
    )
    for name, command in COMMANDS.items():
        description = str(command.run.__doc__)
        subparser = subparsers.add_parser(
            name,
            help=description.splitlines()[0],
            description=description,
            epilog=f"example: ems {name} {command.example}",
            allow_abbrev=False,
        )
        # The parsed arguments have no entry for an option of a group that is not given.
        stages = subparser.add_argument_group("stages", argument_default=argparse.SUPPRESS)
        judge = subparser.add_argument_group("judge", argument_default=argparse.SUPPRESS)
        for names, settings in command.options.items():
            group: Any = subparser
            if names in STAGE_OPTIONS:
                group = stages
            elif names in JUDGE_OPTIONS | DRY_RUN:
                group = judge
            group.add_argument(*names.split(), **settings)
    # `main` hands the arguments of this command on before they are parsed.
    subparsers.add_parser("reproduce", help="Run the notebooks of a profile.")
    return parser


def _given(args: argparse.Namespace, options: _Options) -> dict[str, Any]:
    """Those of the options that the user has given, by the names that `build` or the judge has."""
    given = {}
    for name, value in vars(args).items():
        if f"--{name.replace('_', '-')}" in options:
            given[name] = value
    return given
