"""What `ems` understands: commands, options, and the help of each. Imports nothing heavy."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from ..io import meant
from ..presets import SUPPORT
from ..results.display import visible

STORE = "ems-replies.sqlite"
# Options of several commands.
JSON: dict[str, Any] = {"action": "store_true", "help": "JSON on standard output"}
CLUSTER: dict[str, Any] = {"choices": ("group", "triplet_id"), "default": "group",
                           "help": "what intervals take as one; default group"}
DRY_RUN = "count calls, tokens and cost without a single call"
EXIT = ("exit status: 0 done; 2 bad input, and one line says what; 3 finished, but under 95 % of the points, "
        "or of the answers,\nhave a score; 130 stopped by Ctrl-C, 143 by SIGTERM: the replies that came are "
        "saved.")
# Options of `score` and `evaluate` that mean nothing without a judge, with their defaults.
JUDGE_OPTIONS: dict[str, Any] = {
    "base_url": None, "key_env": None, "mode": "live", "recorded": None, "weights": None, "seed": 7,
    "temperature": 0.0, "thinking_tokens": 0, "timeout": 600.0, "max_score": None, "prices": None,
    "spend_limit": None, "prompts": "kit", "rubrics": None, "repeats": 1, "panel": None,
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose help has examples, and whose errors suggest what was meant."""
    def __init__(self, **settings: Any):
        about = textwrap.fill(settings.pop("description", ""), 100)
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, description=about, **settings)

    def error(self, message: str) -> NoReturn:
        """One line with the nearest choice, where there is one; exit status 2."""
        if wrong := re.fullmatch(r"argument .*?: invalid choice: (['\"])(.*)\1 \(choose from (.*)\)",
                                 message):
            message += meant(wrong[2], re.findall(r"[^\s',]+", wrong[3]))
        super().error(visible(message))

    def refuse_unknown(self, arguments: Sequence[str]) -> None:
        """Exit status 2 for arguments that are none of this command's, with the option that was meant."""
        if arguments:
            known = re.findall(r"--[a-z][a-z-]*", self.format_help())
            wrong = arguments[0].partition("=")[0]
            self.error(f"unrecognized arguments: {' '.join(arguments)}{meant(wrong, known)}")


def parse(version: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments read: `run` is the module and function of the command in `ems.commands`, None without a
    command; `parser` is the command's, or the whole one. Exits with status 2 for what is not understood.
    """
    args, unknown = _parser(version).parse_known_args(arguments)
    args.parser.refuse_unknown(unknown)
    return args


def _parser(version: str) -> Parser:
    parser = Parser(prog="ems", description="Extract, match, and score: judge long answers about long "
                                            "documents.",
                    epilog=_examples("ems score --reference ref.txt --answer ans.txt",
                                     "ems evaluate triplets.jsonl answers.jsonl -o results.jsonl",
                                     "ems report results.jsonl -o report.html",
                                     "ems compare before.jsonl after.jsonl", "ems reproduce",
                                     more="`ems COMMAND -h` explains a command.\n\n"))
    parser.add_argument("--version", action="version", version=f"ems {version}")
    parser.set_defaults(run=None, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for add in (_add_score, _add_evaluate, _add_report, _add_compare, _add_agree, _add_triplets,
                _add_reproduce, _add_prompts, _add_replies):
        add(commands)
    return parser


def _command(commands: Any, run: str, *, examples: Sequence[str], **settings: Any) -> Parser:
    """Add the parser of a command, which is named as the function that runs it."""
    command = commands.add_parser(run.rpartition(".")[2], epilog=_examples(*examples), **settings)
    command.set_defaults(run=run, parser=command)
    return command


def _examples(*lines: str, more: str = "") -> str:
    return "examples:\n" + "".join(f"  {line}\n" for line in lines) + "\n" + more + EXIT


# --- evaluation ---

def _add_score(commands: Any) -> None:
    one = _command(
        commands, "score.score", help="one answer against one reference",
        usage="%(prog)s --reference FILE --answer FILE [options]",
        description="Score one answer against one reference, two text files, and show which points match.",
        examples=["ems score --reference ref.txt --answer ans.txt",
                  "ems score --reference ref.txt --answer ans.txt --judge gpt-4o --json"])
    one.add_argument("--reference", required=True, metavar="FILE", help="text of the reference, UTF-8")
    one.add_argument("--answer", required=True, metavar="FILE", help="text of the answer, UTF-8")
    one.set_defaults(support="none")
    _add_stages(one)


def _add_evaluate(commands: Any) -> None:
    many = _command(
        commands, "evaluate.evaluate", help="many answers: results a line, and a table by model",
        usage="%(prog)s TRIPLETS ANSWERS -o OUT.jsonl [options]",
        description="Score many answers. Files are JSON lines, a JSON array, CSV with a header, or "
                    "RAGChecker's JSON. A triplet has id, question, reference (or references: a list, of "
                    "which the best counts; or points of its "
                    "own), and if you like group (what is not independent, such as a "
                    "company) and context. An answer has triplet_id, model and answer.",
        examples=["ems evaluate triplets.jsonl answers.csv -o results.jsonl",
                  "ems evaluate q3-2024 answers.jsonl -o results.jsonl --judge gpt-4o --dry-run",
                  "ems evaluate t.csv a.csv -o r.jsonl --judge m --base-url http://localhost:8000/v1"])
    add = many.add_argument
    add("triplets", metavar="TRIPLETS", help="questions with references; q3-2024 names the kit's own fifty")
    add("answers", metavar="ANSWERS", help="the answers to score")
    add("-o", "--output", required=True, metavar="OUT.jsonl", help="file of results to write, one a line")
    add("--cluster", **CLUSTER)
    add("--dry-run", action="store_true", help=DRY_RUN)
    add("--support", choices=SUPPORT, default="none",
        help="check answer points against the triplet's context: local by numbers, llm by the judge")
    add("--rubrics", type=_names, metavar="NAME[,NAME...]",
        help="rate whole answers by the judge as well, as OmniEval does: accuracy, completeness, "
             "hallucination, utilization, numeric")
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for local and BERTScore evaluation")
    _add_stages(many)
    several = many.add_argument_group("several judgements of the same points")
    several.add_argument("--repeats", type=WHOLE, metavar="N",
                         help="ask each judge so many times; default 1")
    several.add_argument("--panel", action="append", metavar="MODEL",
                         help="another judge at the same address; may be given again")


def _add_stages(command: Parser) -> None:
    add = command.add_argument
    add("--judge", default="none", metavar="none|MODEL",
        help="model that judges; default none: no key, no network")
    add("--scorer", metavar="rouge|bleu|bertscore|llm|llm-sides|llm-expected|llm-sampled|local|local-pair",
        help="default local, with a judge llm")
    add("--encoder", metavar="NAME", help="model for bertscore; default roberta-large")
    add("--json", **JSON)
    group = command.add_argument_group("the judge")         # what only a judge needs
    add = group.add_argument
    add("--base-url", metavar="URL", help="address of the endpoint; default OPENAI_BASE_URL")
    add("--key-env", metavar="NAME", help="environment variable with the key; default OPENAI_API_KEY")
    add("--workers", type=int, default=32, metavar="N", help="questions under way at once; default 32")
    add("--timeout", type=float, metavar="SECONDS", help="for one reply with its retries; default 600")
    add("--store", default=STORE, metavar="FILE", help=f"the judge's replies; default {STORE}")
    add("--recorded", action="append", metavar="FILE", help="recorded replies to use as well")
    add("--mode", choices=("live", "replay", "refresh"),
        help="live asks for what is not saved (default), replay never asks, refresh asks for all again")
    add("--weights", metavar="REVISION", help="of the model: a reply belongs to the weights it was made with")
    add("--seed", type=SEED, metavar="N|none", help="sent with every question; default 7")
    add("--temperature", type=TEMPERATURE, metavar="T|none", help="sent with every question; default 0")
    add("--thinking-tokens", type=WHOLE, metavar="N",
        help="that a reply may take beyond its answer, for a model that thinks first; default 0")
    add("--max-score", type=SCORE_LIMIT, metavar="N", help="the best score of a pair; default 10")
    add("--variant", default="faithful", metavar="faithful|shared|all|reasoned",
        help="how matches are asked for; default faithful, the paper's: a question a point")
    add("--prompts", metavar="SET", help="kit, paper (see ems prompts import) or a folder; default kit")
    add("--prices", type=PRICES, metavar="PROMPT,REPLY[,CACHED]",
        help="money for a million tokens, such as 2.5,10,1.25")
    add("--spend-limit", type=float, metavar="MONEY", help="stop before the judge costs more")
    group.set_defaults(**JUDGE_OPTIONS)


def _add_triplets(commands: Any) -> None:
    own = _command(
        commands, "reproduce.triplets", help="write the kit's own fifty questions and references to a file",
        description="Write the kit's fifty questions about ten calls, for a system of yours to answer.",
        examples=["ems triplets questions.jsonl", "ems triplets questions.jsonl --transcripts calls/"])
    own.add_argument("file", metavar="OUT.jsonl", help="file to write")
    own.add_argument("--transcripts", metavar="DIR",
                     help="folder or parquet file with the calls: each goes in as context")


# --- results ---

def _add_report(commands: Any) -> None:
    report = _command(
        commands, "results.report", help="results as one HTML file to read, sort, filter and send",
        description="Write one HTML file, which needs no server and no network: a summary with intervals, a "
                    "table of answers, and the points of each. RESULTS is the output of ems evaluate, or "
                    "the alignments.jsonl of a reproduced run.",
        examples=["ems report results.jsonl -o report.html --triplets triplets.jsonl",
                  "ems report runs/default/alignments.jsonl -o report.html --triplets q3-2024"])
    add = report.add_argument
    add("results", metavar="RESULTS", help="file of results")
    add("-o", "--output", required=True, metavar="FILE.html", help="file to write")
    add("--triplets", metavar="FILE",
        help="the questions, and the groups that intervals are over; or q3-2024")
    add("--title", default="EMS report", metavar="TEXT", help="heading of the page")
    add("--store", metavar="FILE", help="the judge's replies: those that could not be read are quoted")
    add("--json", **JSON)


def _add_compare(commands: Any) -> None:
    both = _command(
        commands, "results.compare", help="two files of results: paired differences, and what changed most",
        description="Compare two systems, two judges or two versions of a prompt: B less A on the same "
                    "questions, with intervals and a sign-flip test over groups, then the answers and "
                    "reference points that changed most. Results are joined by question and model; where "
                    "each file has one model, by question.",
        examples=["ems compare before.jsonl after.jsonl --triplets triplets.jsonl",
                  "ems compare a.jsonl b.jsonl --metric 'EMS(LLM)' --json"])
    add = both.add_argument
    add("a", metavar="A", help="results to compare with")
    add("b", metavar="B", help="results that are compared: a positive difference is in their favour")
    add("--metric", metavar="NAME", help="which one, where a file holds several")
    add("--triplets", metavar="FILE", help="the groups that intervals and tests are over; or q3-2024")
    add("--top", type=WHOLE, default=5, metavar="N", help="changed answers and points to show; default 5")
    add("--cluster", **CLUSTER)
    add("--seed", type=WHOLE, default=7, metavar="N", help="of the test, where it draws signs; default 7")
    add("--json", **JSON)


def _add_agree(commands: Any) -> None:
    own = _command(
        commands, "results.agree", help="results beside your own labels of the same answers",
        usage="%(prog)s RESULTS [RESULTS ...] LABELS",
        description="How well metrics agree with labels of yours: correlation, AUC or pair preference with "
                    "intervals, and the mean label of all answers as metric and labels together give it. "
                    "LABELS is CSV: triplet_id, model and label, or triplet_id, model_a, model_b and "
                    "preference; and if there are any, rater and group.",
        examples=["ems agree results.jsonl labels.csv",
                  "ems agree local.jsonl judged.jsonl preferences.csv"])
    own.add_argument("results", nargs="+", metavar="RESULTS",
                     help="files of results, of ems evaluate; several are compared")
    own.add_argument("labels", metavar="LABELS", help="CSV file of labels or preferences")


# --- the study ---

def _add_reproduce(commands: Any) -> None:
    rerun = _command(
        commands, "reproduce.reproduce", help="run the notebooks of a profile",
        description="Run the notebooks of a profile into runs/<profile>/: Table 1, figures, every value. "
                    "What has not changed is skipped. The default profile needs no key and no network.",
        examples=["ems reproduce", "ems reproduce --only 03 --only 07",
                  "ems reproduce --profile paper --dry-run", "ems reproduce -p RESAMPLES 500"])
    add = rerun.add_argument
    add("--profile", default="default", metavar="P", help="a name in profiles/, or a .yaml file")
    add("--only", action="append", metavar="03", help="only the notebooks that begin so")
    add("-p", dest="parameter", nargs=2, action="append", metavar=("NAME", "VALUE"),
        help="a notebook parameter, its value as YAML; for every notebook that has it")
    add("--dry-run", action="store_true", help=DRY_RUN)


def _add_prompts(commands: Any) -> None:
    words = _command(
        commands, "reproduce.prompts", help="the paper's own questions and prompts, from your copy of it",
        description="Make the prompt set named paper from your copy of the paper, for --prompts paper.",
        examples=["ems prompts import 2503.16575.pdf"])
    actions = words.add_subparsers(required=True, metavar="import", title="actions")
    make = actions.add_parser("import", help="make the prompt set paper")
    make.add_argument("source", metavar="SOURCE", help="arXiv 2503.16575 as PDF, HTML or text")
    make.add_argument("--reading", action="append", metavar="NAME=CHOICE", help="where the paper says two "
                      "things: index=1, list=everywhere|plain, versions=counted, answer=bare")


def _add_replies(commands: Any) -> None:
    saved = _command(
        commands, "replies.replies", help="export, import, count and show saved replies",
        description="What judges replied is saved as it comes. Take it elsewhere, fill it by a batch "
                    "endpoint, look.",
        examples=["ems replies stats", "ems replies show --unread",
                  "ems replies export --pending batch.jsonl", "ems replies import batch-output.jsonl"])
    actions = saved.add_subparsers(required=True, dest="action", metavar="export|import|stats|show",
                                   title="actions")
    out = actions.add_parser(
        "export", help="write replies, or with --pending the requests that wait, as JSON lines")
    out.add_argument("file", metavar="FILE", help="file to write; .gz is compressed")
    out.add_argument("--pending", action="store_true", help="as input of a batch endpoint or vllm run-batch")
    out.add_argument("--prompts", action="store_true", help="with the prompts")
    into = actions.add_parser("import", help="read replies, or a batch endpoint's results")
    into.add_argument("file", metavar="FILE", help="file to read")
    count = actions.add_parser("stats", help="replies and tokens by model and task")
    show = actions.add_parser("show", help="the replies themselves, one a line")
    show.add_argument("--unread", action="store_true", help="only those that give nothing usable")
    show.add_argument("--task", metavar="NAME", help="only those of a task, such as extract, match or score")
    for action in (out, into, count, show):
        action.add_argument("--store", default=STORE, metavar="FILE", help=f"default {STORE}")
    for action in (count, show):
        action.add_argument("--json", **JSON)


# --- values ---

def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _type(needed: str, read: Callable[[str], Any], allowed: Callable[[Any], bool]) -> Callable[[str], Any]:
    """What an option takes: what `read` makes of the text, if that is allowed; or what is needed instead."""
    def value(text: str) -> Any:
        with suppress(ValueError):
            if allowed(found := read(text)):
                return found
        raise argparse.ArgumentTypeError(f"{needed} needed, got {text!r}")
    return value


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else read(text)


WHOLE = _type("a whole number is", int, lambda n: n >= 0)
SEED = _or_none(_type("a whole number or none is", int, lambda n: n >= 0))
TEMPERATURE = _or_none(_type("a number from 0 to 2 or none is", float, lambda t: 0 <= t <= 2))
SCORE_LIMIT = _type("a whole number from 1 to 100 is", int, lambda n: 1 <= n <= 100)
PRICES = _type("two or three numbers with commas between are",
               lambda text: [float(n) for n in text.split(",")], lambda prices: len(prices) in (2, 3))
