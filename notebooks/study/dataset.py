"""The data set (paper, section 3.1): earnings calls as triplets, and texts that models write.

The texts are answers to the triplets' questions, and references.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import ems
from ems.io import parse_yaml, read_text, write_jsonl
from ems.judge import Record, Request
from ems.prompts import Prompts, sanitized
from ems.terminal import did_you_mean, first_few
from ems.types import Answer, InputError, Triplet

from . import ROOT, input_file, save_usage
from .datasets import findver

OPENING = 2500  # characters of a transcript that name the company, at most
CLOSING = 6000  # characters of a transcript that say that the call is over, at most
OVER = re.compile(
    r"signoff|disconnect\b|conclude[sd]? (?:today|the|our|this)|good ?bye|"
    r"all the time (?:that )?we have|"
    r"(?:thanks?|thank you)[^.]{0,40} (?:joining|participa|attending)",
    re.IGNORECASE,
)
SOURCES = ("q3-2024", "findver", "files")
CHARS_PER_TOKEN = 3  # of a transcript, at least: tokenizers in use take 3.5 to 4.5
CHARS_WRITTEN = 4  # per token of an answer, about: what a dry run assumes
# What a writer's entry in a profile says beyond what a judge's says.
WRITING = {"served": "", "context_tokens": 0, "context_chars": None, "max_tokens": 800}
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


# --- calls ---


def call_triplets(
    data: Path,
    companies: Sequence[str] = (),
    transcripts: Path | None = None,
    prompts: Prompts | None = None,
) -> list[Triplet]:
    """Five questions to each call of `data/companies.csv`, with the references of `data/q3-2024`.

    `companies` names tickers (none: all). `transcripts` is a folder of texts `<transcript>.txt`,
    which become the contexts. A prompt set may bring questions of its own. InputError for an
    unknown ticker, and for a text or a reference that is missing or not the call's.
    """
    rows = list(csv.DictReader(read_text(data / "companies.csv").splitlines()))
    tickers = [row["ticker"] for row in rows]
    unknown = sorted(set(companies) - set(tickers))
    if unknown:
        raise InputError(
            f"COMPANIES: no {unknown[0]!r} in {data / 'companies.csv'}; there are {tickers}"
        )
    chosen = [row for row in rows if not companies or row["ticker"] in companies]
    if transcripts:
        _check_calls(transcripts, chosen)
    questions = _questions(data, prompts)
    triplets = []
    for row in chosen:
        triplets += _triplets_of_call(data, row, questions, transcripts)
    return triplets


def _check_calls(folder: Path, companies: Sequence[Mapping[str, str]]) -> None:
    """InputError that names all calls of these companies whose texts are not in the folder."""
    names = [f"{company['transcript']}.txt" for company in companies]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks {len(missing)} of {len(names)} calls: {', '.join(missing)}; "
            "data/README.md says where they come from (The transcripts)"
        )


def _questions(data: Path, prompts: Prompts | None) -> list[dict[str, str]]:
    """The questions (id, question) of a prompt set, or the kit's where it has none."""
    path = data / "questions.yaml"
    if prompts and prompts.folder and (prompts.folder / path.name).is_file():
        path = prompts.folder / path.name
    return list(parse_yaml(read_text(path), path))


def _triplets_of_call(
    data: Path,
    company: Mapping[str, str],
    questions: Sequence[Mapping[str, str]],
    transcripts: Path | None,
) -> list[Triplet]:
    ticker = company["ticker"]
    context = read_call(transcripts, company) if transcripts else None
    path = data / "q3-2024" / "references" / f"{ticker}.yaml"
    references = parse_yaml(read_text(path), path)
    call = (
        f"{company['company']} ({ticker}), "
        f"{company['fiscal_period']} earnings call of {company['call_date']}."
    )
    triplets = []
    for question in questions:
        name = question["id"]
        if not references.get(name):
            raise InputError(f"{path} has no text for {name}; write it there")
        text = f"{call} {question['question'].strip()}"
        reference = references[name].strip()
        triplets.append(Triplet(f"{ticker}-{name}", ticker, text, reference, context))
    return triplets


def read_call(folder: Path, company: Mapping[str, str]) -> str:
    """The text of a company's call, its white space made even.

    InputError for a text that is not the whole call, or another company's.
    """
    path = folder / f"{company['transcript']}.txt"
    text = re.sub(r"[ \t\f\v\xa0]+", " ", read_text(path).replace("\r\n", "\n"))
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()
    names = "|".join(map(re.escape, company["names"].split("|")))
    if not re.search(rf"\b(?:{names})", text[:OPENING], re.IGNORECASE):
        raise InputError(
            f"{path}: its opening does not name the company ({company['names']}); give its call"
        )
    if len(text) < int(company["min_chars"]) or not OVER.search(text[-CLOSING:]):
        raise InputError(
            f"{path} is cut: {len(text)} characters and no end of a call in the last {CLOSING}; "
            f"at least {company['min_chars']} are expected"
        )
    return text


# --- the data set of a run ---


def collect(
    run: Path,
    source: str,
    *,
    triplets: str = "",
    answers: str = "",
    models: Sequence[str] = (),
    companies: Sequence[str] = (),
    limit: int = 0,
    writing: Mapping[str, Any] | None = None,
) -> tuple[list[Triplet], list[Answer]]:
    """Write what a run evaluates to its triplets.jsonl and answers.jsonl, and return it.

    `source` is "q3-2024" (the kit's calls), "findver" (public claims about filings) or "files" (the
    file `triplets`). `answers` is the file of the answers of the first and the last, "" for none.
    Paths are relative to the project's folder. `companies` names tickers of the calls, `models`
    whose answers are kept, and `limit` how many triplets are; nothing, or 0, means all. `writing`
    names models that write now: see `write`. InputError for an unknown source, ticker or model.
    """
    writing = writing or {}
    prompts = _prompts(writing.get("prompts", "kit"))
    found = ems.load_answers(input_file(answers)) if answers and source != "findver" else []
    if source == "findver":
        wanted, found, _ = findver()
    elif source == "files":
        wanted = ems.load_triplets(input_file(triplets))
    elif source == "q3-2024":
        transcripts = ROOT / writing["transcripts"] if writing.get("transcripts") else None
        wanted = call_triplets(ROOT / "data", companies, transcripts, prompts)
    else:
        hint = did_you_mean(source, SOURCES)
        raise InputError(f"SOURCE: no {source!r}{hint}; there are {', '.join(SOURCES)}")
    wanted, written, judges = write(writing, wanted[: limit or None], prompts, run, ROOT)
    rows = _kept([*map(asdict, found), *written], wanted, models)
    filled = []
    for triplet in wanted:
        fields = asdict(triplet)
        filled.append({name: value for name, value in fields.items() if value})
    write_jsonl(run / "triplets.jsonl", filled)
    write_jsonl(run / "answers.jsonl", rows)
    save_usage(run / "usage_dataset.json", *judges)
    return wanted, ems.load_answers(run / "answers.jsonl")


def _prompts(name: str) -> Prompts:
    """A prompt set. Where it is absent, the InputError says what else the paper's run needs."""
    try:
        return Prompts.named(name)
    except InputError as error:
        raise InputError(
            f"WRITING.prompts: {error}. `python notebooks/study/paper_prompts.py FILE.txt` makes "
            "the set of the paper, whose profile also needs the calls: data/README.md (The "
            "transcripts)"
        ) from None


def _kept(
    rows: Sequence[dict[str, Any]], triplets: Sequence[Triplet], models: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of answers to these triplets by these models; without models, by all."""
    ids = {triplet.id for triplet in triplets}
    rows = [row for row in rows if row["triplet_id"] in ids]
    present = list(dict.fromkeys(row["model"] for row in rows))
    for model in models:
        if model not in present:
            raise InputError(f"MODELS: no answers of {model!r}; there are {present}")
    return [row for row in rows if row["model"] in (models or present)]


# --- answers and references by models (paper, section 3.1 and A.2) ---


@dataclass(frozen=True)
class Writer:
    """A model that writes: its judge (a model is asked in the same way for both) and its limits."""

    model: str  # its name in answers and tables
    judge: Any
    context_tokens: int  # what it can read, its answer included; 0 = no limit
    # The most characters of a document to show it: 0 = closed book, None = all that fits.
    context_chars: int | None
    max_tokens: int  # longest answer

    @classmethod
    def of(cls, entry: Mapping[str, Any], folder: Path, root: Path, mode: str) -> Writer:
        """From a profile's entry: a judge's settings, and `WRITING`'s.

        `served` is the name that the endpoint knows the model by.
        """
        if not entry.get("model"):
            raise InputError(
                "WRITING: an entry needs a model, the name it has in answers; got "
                f"{first_few(list(entry))}"
            )
        limits = {name: entry.get(name, default) for name, default in WRITING.items()}
        served = limits.pop("served") or entry["model"]
        settings = {name: value for name, value in entry.items() if name not in WRITING}
        judge = ems.LLMJudge.of({"mode": mode, **settings, "model": served}, folder, root)
        return cls(entry["model"], judge, **limits)

    def filled(self, prompts: Prompts, task: str, document: str, **values: str) -> tuple[str, int]:
        """The prompt with as much of the document as fits, and how many of its characters do."""
        document = document[: self.context_chars]
        if self.context_tokens:
            bare = len(prompts.fill(task, **slots_of(""), **values))
            reply = self.max_tokens + self.judge.thinking_tokens
            room = (self.context_tokens - reply) * CHARS_PER_TOKEN - bare
            document = document[: max(0, room)]
        return prompts.fill(task, **slots_of(document), **values), len(document)


def write(
    settings: Mapping[str, Any],
    triplets: Sequence[Triplet],
    prompts: Prompts,
    run: Path,
    root: Path,
) -> tuple[list[Triplet], list[dict[str, Any]], list[Any]]:
    """What the models of a profile's WRITING write, and the judges that were asked for it.

    Returns the triplets, rows of answers, and the judges. With `references` the triplets get new
    references, and the drafts of these are kept in `run`/drafts.jsonl.
    """
    mode = settings.get("mode", "replay")
    final = settings.get("consolidator")
    authors = [Writer.of(entry, run, root, mode) for entry in settings.get("references", [])]
    consolidator = Writer.of(final, run, root, mode) if final else None
    writers = [Writer.of(entry, run, root, mode) for entry in settings.get("answers", [])]
    if authors:
        triplets, drafts = write_references(triplets, authors, consolidator, prompts)
        write_jsonl(run / "drafts.jsonl", drafts)
    answers = _answers_by_all(triplets, writers, prompts)
    judges = [writer.judge for writer in (*authors, consolidator, *writers) if writer]
    return list(triplets), answers, judges


def write_answers(
    triplets: Sequence[Triplet], writer: Writer, prompts: Prompts
) -> list[dict[str, Any]]:
    """One row of answers.jsonl per triplet, with how much of the document the model was shown.

    A model that declines has answered "". InputError when a document is wanted and missing, or no
    answer came: an answer that was never written must not be scored as an empty one.
    """
    requests = []
    chars_shown = []
    for t in triplets:
        if not t.context and writer.context_chars != 0:
            raise InputError(
                f"triplet {t.id} has no context to answer from; name the folder of transcripts, "
                "or set context_chars: 0"
            )
        question, document = sanitized(t.question), sanitized(t.context or "")
        prompt, shown = writer.filled(prompts, "answer", document, question=question)
        requests.append(_request("answer", prompt, writer, f"{t.id} {writer.model}"))
        chars_shown.append(shown)
    replies = writer.judge.ask(requests, f"answers of {writer.model}")
    return [
        {
            "triplet_id": t.id,
            "model": writer.model,
            "answer": answer_text(reply, f"{writer.model} on {t.id}"),
            "finish_reason": reply.finish_reason,
            "context_chars": shown,
            "context_of": len(t.context or ""),
            "date": reply.date,
            **writer.judge.signature,
        }
        for t, shown, reply in zip(triplets, chars_shown, replies, strict=True)
    ]


def _answers_by_all(
    triplets: Sequence[Triplet], writers: Sequence[Writer], prompts: Prompts
) -> list[dict[str, Any]]:
    rows = []
    for writer in writers:
        rows += write_answers(triplets, writer, prompts)
    return rows


def write_references(
    triplets: Sequence[Triplet],
    writers: Sequence[Writer],
    consolidator: Writer | None,
    prompts: Prompts,
) -> tuple[list[Triplet], list[dict[str, Any]]]:
    """The triplets with references written by models, and the drafts: the paper's procedure.

    The consolidator makes one answer of those of several writers; a single writer's is taken as it
    is. InputError for several writers without a consolidator, and for an empty reference.
    """
    drafts = _answers_by_all(triplets, writers, prompts)
    if consolidator is None and len(writers) != 1:
        raise InputError(
            f"references need one writer, or several and a consolidator; got {len(writers)} writers"
        )
    texts = {row["triplet_id"]: row["answer"] for row in drafts}
    if consolidator is not None:
        requests = [_consolidation(t, drafts, consolidator, prompts) for t in triplets]
        replies = consolidator.judge.ask(requests, "consolidated references")
        texts = {t.id: answer_text(reply, t.id) for t, reply in zip(triplets, replies, strict=True)}
    empty = [name for name, text in texts.items() if not text]
    if empty:
        raise InputError(f"the references of {first_few(empty)} came out empty; write them again")
    return [replace(t, reference=texts[t.id]) for t in triplets], drafts


def _consolidation(
    triplet: Triplet, drafts: Sequence[Mapping[str, Any]], consolidator: Writer, prompts: Prompts
) -> Request:
    texts = [row["answer"] for row in drafts if row["triplet_id"] == triplet.id]
    versions = "\n\n".join(
        f"Answer Version {i}:\n<text>\n{sanitized(text)}\n</text>"
        for i, text in enumerate(texts, 1)
    )
    prompt, _ = consolidator.filled(
        prompts,
        "consolidate",
        sanitized(triplet.context or ""),
        question=sanitized(triplet.question),
        versions=versions,
        versions_count=str(len(texts)),
    )
    return _request("consolidate", prompt, consolidator, triplet.id)


def _request(task: str, prompt: str, writer: Writer, label: str) -> Request:
    """A request to write, with the text that a dry run assumes.

    That text is as long as it may be, in three paragraphs, with sentences of 20 words.
    """
    sentence = f" {label}{' says this' * 9}."
    third = sentence * (CHARS_WRITTEN * writer.max_tokens // len(sentence) // 3 + 1)
    return Request(task, prompt, writer.max_tokens, label=label, assumed=lambda: f"{third}\n\n" * 3)


def slots_of(document: str) -> dict[str, str]:
    """A document for the prompts' two slots; both are empty without a document.

    `context` has a heading; `document` has none, for prompts that have their own.
    """
    if not document:
        return {"context": "", "document": ""}
    tagged = f"<text>\n{document}\n</text>"
    return {"context": f"Transcript of the earnings call:\n{tagged}\n", "document": tagged}


def answer_text(reply: Record, name: str) -> str:
    """A reply as an answer; a refusal is an empty one.

    A reply that was cut at its token limit is an answer too. InputError for any other failure.
    """
    if reply.error == "refusal":
        return ""
    text = THOUGHT.sub("", reply.text).strip() if reply.error in ("", "length") else ""
    if not text:
        raise InputError(
            f"no answer by {name}: {reply.error or 'no text'}; run again to ask for what is "
            "missing, or raise max_tokens (thinking_tokens for a model that thinks first)"
        )
    return text
