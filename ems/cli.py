"""The command line: what each command takes, and how it ends. `commands` has what each does.

Exit status: 0 done; 2 bad input, named in one line; 3 finished, but under 95 % of the points or of the
answers have a score; 130 stopped by Ctrl-C or SIGTERM: the replies that came are saved, results not written.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from . import __version__
from .io import say
from .types import InputError

STORE = "ems-replies.sqlite"
# Options of several commands, and what argparse is told of them.
JSON: dict[str, Any] = {"action": "store_true", "help": "JSON on standard output"}
CLUSTER: dict[str, Any] = {"choices": ("group", "triplet_id"), "default": "group",
                           "help": "what intervals take as one; default group"}
DRY_RUN: dict[str, Any] = {"action": "store_true", "help": "count calls, tokens and cost without a call"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. What argparse does not understand exits with status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):       # not every terminal has a dash or an arrow
        sys.stdout.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = _parser().parse_args(argv)
        return getattr(import_module("ems.commands"), args.command)(args)
    except InputError as error:
        say(f"ems: {error}")
        return 2
    except KeyboardInterrupt as stop:
        say(f"ems: {str(stop) or 'stopped'}")
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ems", description="Extract, match, and score: judge long answers about long texts.",
        epilog="`ems COMMAND -h` explains a command. Exit status: 0 done; 2 bad input; 3 done, but under "
               "95 % of the points or of the answers have a score.")
    parser.add_argument("--version", action="version", version=f"ems {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    for add in (_score, _evaluate, _report, _compare, _agree, _replies, _reproduce):
        add(commands)
    return parser


def _command(commands: Any, name: str, about: str, example: str) -> Callable[..., Any]:
    """Add a command; returns what adds an argument to it."""
    command = commands.add_parser(name, help=about.partition(":")[0], description=about,
                                  epilog=f"example: {example}", allow_abbrev=False)
    return command.add_argument


def _score(commands: Any) -> None:
    add = _command(commands, "score", "One answer against one reference: two text files.",
                   "ems score --reference ref.txt --answer ans.txt --judge gpt-4o")
    add("--reference", required=True, metavar="FILE", help="text of the reference, UTF-8")
    add("--answer", required=True, metavar="FILE", help="text of the answer, UTF-8")
    add("--question", default="", metavar="TEXT", help="what is answered: its words weigh less")
    _add_stages(add)


def _evaluate(commands: Any) -> None:
    add = _command(
        commands, "evaluate", "Many answers: results a line, and a table of means. Files are JSON lines, a "
        "JSON array or CSV with a header. A triplet has id, question and reference (or points), and if you "
        "like group (what is not independent, such as a company) and context; an answer has triplet_id, "
        "model and answer.", "ems evaluate triplets.jsonl answers.csv -o results.jsonl")
    add("triplets", metavar="TRIPLETS", help="questions with references")
    add("answers", metavar="ANSWERS", help="the answers to score")
    add("-o", "--output", required=True, metavar="OUT.jsonl", help="file to write when all are scored")
    add("--cluster", **CLUSTER)
    add("--dry-run", **DRY_RUN, default=argparse.SUPPRESS)
    add("--support", choices=("llm", "numbers"), help="check points, or their numbers, against the context")
    add("--metric", metavar="IMPORT:PATH", help="your own: a function from references and answers to values")
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for evaluation without a judge")
    _add_stages(add)


def _add_stages(add: Callable[..., Any]) -> None:
    """What a judge and stages are made of: an option that is not given keeps the default that these have."""
    add("--json", **JSON)
    add("--judge", default="none", metavar="none|MODEL", help="model that judges; default none")
    add("--scorer", metavar="llm|rouge|bertscore|bleu|coverage|judge|local|ragchecker|IMPORT:PATH",
        help="default llm with a judge, else local")
    add("--store", default=STORE, metavar="FILE", help=f"the judge's replies; default {STORE}")
    add = partial(add, default=argparse.SUPPRESS)
    add("--extractor", metavar="IMPORT:PATH", help="your own: a function from texts to lists of points")
    add("--matcher", metavar="IMPORT:PATH", help="your own: a function from pairs of lists to indices")
    add("--encoder", metavar="NAME", help="model for bertscore; default roberta-large")
    add("--joint", action="store_true", help="ask the judge about all points of an answer at once")
    add("--max-score", type=int, metavar="N", help="the judge's best score; default 10")
    add("--prompts", metavar="SET", help="the judge's: kit (default), paper or a folder of templates")
    add("--base-url", metavar="URL", help="address of the judge's endpoint; default OPENAI_BASE_URL")
    add("--key-env", metavar="NAME", help="environment variable with its key; default OPENAI_API_KEY")
    add("--workers", type=int, metavar="N", help="questions under way at once; default 32")
    add("--timeout", type=float, metavar="SECONDS", help="for one reply; default 600")
    add("--recorded", action="append", metavar="FILE", help="recorded replies to use as well")
    add("--mode", choices=("live", "replay", "refresh"),
        help="live asks for what is not saved (default), replay never asks, refresh asks for all again")
    add("--weights", metavar="REVISION", help="of the judge: a reply belongs to the weights it was made with")
    add("--seed", type=_or_none(int), metavar="N|none", help="sent with every question; default 7")
    add("--temperature", type=_or_none(float), metavar="T|none", help="sent with every question; default 0")
    add("--thinking-tokens", type=int, metavar="N", help="room for a model that thinks first; default 0")
    add("--prices", metavar="FILE", help="YAML: money for a million tokens as prompt, completion and cached")
    add("--spend-limit", type=float, metavar="MONEY", help="stop before the judge costs more")


def _or_none(kind: Callable[[str], float]) -> Callable[[str], float | None]:
    def number(text: str) -> float | None:
        return None if text == "none" else kind(text)
    return number


def _report(commands: Any) -> None:
    add = _command(commands, "report", "Results as one HTML file: a summary with intervals, a table of the "
                   "answers, the points of each. It needs no server and no network.",
                   "ems report results.jsonl -o report.html")
    add("results", metavar="RESULTS", help="results of ems evaluate, or a run's alignments.jsonl")
    add("-o", "--output", required=True, metavar="FILE.html", help="file to write")


def _compare(commands: Any) -> None:
    add = _command(commands, "compare", "Two files of results: B less A on the same questions, by intervals "
                   "and a sign-flip test over groups, and what changed most. Joined by question and model; "
                   "where A has one model, by question.", "ems compare before.jsonl after.jsonl")
    add("a", metavar="A", help="results to compare with")
    add("b", metavar="B", help="results that are compared: a positive difference is in their favour")
    add("--metric", metavar="NAME", help="which one, where a file holds several")
    add("--cluster", **CLUSTER)
    add("--json", **JSON)


def _agree(commands: Any) -> None:
    add = _command(commands, "agree", "Results beside your labels: how well metrics agree with them. LABELS "
                   "is CSV: triplet_id, model and label, or triplet_id, model_a, model_b and preference; "
                   "if any, rater and group.", "ems agree results.jsonl labels.csv")
    add("results", nargs="+", metavar="RESULTS", help="results of ems evaluate; several are compared")
    add("labels", metavar="LABELS", help="CSV file of labels or preferences")


def _replies(commands: Any) -> None:
    add = _command(commands, "replies", "Saved replies: to take elsewhere, or from a batch endpoint.",
                   "ems replies export --pending batch.jsonl")
    add("action", choices=("export", "import"), help="write replies as JSON lines, or read them")
    add("file", metavar="FILE", help="file to write, or to read")
    add("--pending", action="store_true", help="export the requests that wait, for a batch endpoint")
    add("--prompts", action="store_true", help="export the prompts as well")
    add("--store", default=STORE, metavar="FILE", help=f"default {STORE}")


def _reproduce(commands: Any) -> None:
    add = _command(commands, "reproduce", "Run the notebooks of a profile: into runs/<profile>/. What has "
                   "not changed is skipped. The default profile needs no key and no network.",
                   "ems reproduce --profile paper --dry-run")
    add("--profile", default="default", metavar="P", help="a name in profiles/")
    add("--only", default="", metavar="03,08", help="these notebooks alone")
    add("-p", dest="parameters", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="a notebook parameter, or a key of one (JUDGE.mode); its value as YAML")
    add("--dry-run", **DRY_RUN)
