"""The data set (paper, section 3.1): earnings calls as triplets; answers and references written by models."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

import ems
from ems.io import read_text, write_jsonl
from ems.judge import Record, Request
from ems.prompts import Prompts, sanitized
from ems.terminal import first_few
from ems.types import InputError, Triplet

OPENING = 2500  # characters of a transcript that name the company, at most
CLOSING = 6000  # characters of a transcript that say that the call is over, at most
OVER = re.compile(
    r"signoff|disconnect\b|conclude[sd]? (?:today|the|our|this)|good ?bye|"
    r"all the time (?:that )?we have|"
    r"(?:thanks?|thank you)[^.]{0,40} (?:joining|participa|attending)",
    re.IGNORECASE,
)
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

    `companies` names tickers (none: all). `transcripts` is a folder of texts `<transcript>.txt`, which become
    the contexts. A prompt set may bring questions of its own. InputError for an unknown ticker, and for a
    text or a reference that is missing or not the call's.
    """
    rows = list(csv.DictReader(read_text(data / "companies.csv").splitlines()))
    tickers = [row["ticker"] for row in rows]
    if unknown := sorted(set(companies) - set(tickers)):
        raise InputError(
            f"COMPANIES: no {unknown[0]!r} in {data / 'companies.csv'}; there are {tickers}"
        )
    own = (
        prompts.folder / "questions.yaml" if prompts and prompts.folder else data / "questions.yaml"
    )
    questions = read_yaml(own if own.is_file() else data / "questions.yaml")
    triplets = []
    for row in rows:
        ticker = row["ticker"]
        if companies and ticker not in companies:
            continue
        context = read_call(transcripts, row) if transcripts else None
        references = read_yaml(data / "q3-2024" / "references" / f"{ticker}.yaml")
        call = f"{row['company']} ({ticker}), {row['fiscal_period']} earnings call of {row['call_date']}."
        for question in questions:
            name = question["id"]
            if not references.get(name):
                raise InputError(
                    f"the references of {ticker} have no text for {name}; write it there"
                )
            triplets.append(
                Triplet(
                    f"{ticker}-{name}",
                    ticker,
                    f"{call} {question['question'].strip()}",
                    references[name].strip(),
                    context,
                )
            )
    return triplets


def read_call(folder: Path, company: Mapping[str, str]) -> str:
    """The text of a company's call, its white space made even. InputError for what is not the whole call."""
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


def read_yaml(path: Path) -> Any:
    """The value of a YAML file; InputError when it is none."""
    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


# --- answers and references by models (paper, section 3.1 and A.2) ---


@dataclass(frozen=True)
class Writer:
    """A model that writes: its judge (a model is asked in the same way for both) and its limits."""

    model: str  # its name in answers and tables
    judge: Any
    context_tokens: int  # what it can read, its answer included; 0 = no limit
    context_chars: (
        int | None
    )  # most of a document to show it; 0 = closed book; None = all that fits
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
        """The prompt with as much of the document as fits, and how many characters of it those are."""
        document = document if self.context_chars is None else document[: self.context_chars]
        if self.context_tokens:
            bare = len(prompts.fill(task, **_slots(""), **values))
            reply = self.max_tokens + self.judge.thinking_tokens
            room = (self.context_tokens - reply) * CHARS_PER_TOKEN - bare
            document = document[: max(0, room)]
        return prompts.fill(task, **_slots(document), **values), len(document)


def write(
    settings: Mapping[str, Any],
    triplets: Sequence[Triplet],
    prompts: Prompts,
    run: Path,
    root: Path,
) -> tuple[list[Triplet], list[dict[str, Any]], list[Any]]:
    """What the models of a profile's WRITING write: triplets with new references, answers; the judges.

    Without `references` the triplets stay as they are; else the drafts are kept in `run`/drafts.jsonl.
    """
    mode, final = settings.get("mode", "replay"), settings.get("consolidator")
    authors, finals, writers = (
        [Writer.of(entry, run, root, mode) for entry in entries]
        for entries in (
            settings.get("references", []),
            [final] if final else [],
            settings.get("answers", []),
        )
    )
    if authors:
        triplets, drafts = write_references(
            triplets, authors, finals[0] if finals else None, prompts
        )
        write_jsonl(run / "drafts.jsonl", drafts)
    answers = [row for writer in writers for row in write_answers(triplets, writer, prompts)]
    return list(triplets), answers, [writer.judge for writer in (*authors, *finals, *writers)]


def write_answers(
    triplets: Sequence[Triplet], writer: Writer, prompts: Prompts
) -> list[dict[str, Any]]:
    """One row of answers.jsonl per triplet, with how much of the document the model was shown.

    A model that declines has answered "". InputError when a document is wanted and missing, or no answer
    came: an answer that was never written must not be scored as an empty one.
    """
    if writer.context_chars != 0 and (bare := [t.id for t in triplets if not t.context]):
        raise InputError(
            f"triplet {bare[0]} has no context to answer from; name the folder of transcripts, "
            "or set context_chars: 0"
        )
    asked = [
        writer.filled(prompts, "answer", sanitized(t.context or ""), question=sanitized(t.question))
        for t in triplets
    ]
    requests = [
        _request("answer", prompt, writer, f"{t.id} {writer.model}")
        for t, (prompt, _) in zip(triplets, asked, strict=True)
    ]
    replies = writer.judge.ask(requests, f"answers of {writer.model}")
    return [
        {
            "triplet_id": t.id,
            "model": writer.model,
            "answer": written(reply, f"{writer.model} on {t.id}"),
            "finish_reason": reply.finish_reason,
            "context_chars": shown,
            "context_of": len(t.context or ""),
            "date": reply.date,
            **writer.judge.signature,
        }
        for t, (_, shown), reply in zip(triplets, asked, replies, strict=True)
    ]


def write_references(
    triplets: Sequence[Triplet],
    writers: Sequence[Writer],
    consolidator: Writer | None,
    prompts: Prompts,
) -> tuple[list[Triplet], list[dict[str, Any]]]:
    """The triplets with references written by models, and the drafts: the paper's procedure.

    The consolidator makes one answer of those of several writers; a single writer's is taken as it is.
    InputError for several writers without a consolidator, and for a reference that comes out empty.
    """
    drafts = [row for writer in writers for row in write_answers(triplets, writer, prompts)]
    if consolidator is None and len(writers) != 1:
        raise InputError(
            f"references need one writer, or several and a consolidator; got {len(writers)} writers"
        )
    texts = {row["triplet_id"]: row["answer"] for row in drafts}
    if consolidator is not None:
        requests = [_consolidation(t, drafts, consolidator, prompts) for t in triplets]
        replies = consolidator.judge.ask(requests, "consolidated references")
        texts = {t.id: written(reply, t.id) for t, reply in zip(triplets, replies, strict=True)}
    if empty := [name for name, text in texts.items() if not text]:
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
    """A dry run assumes a text of its own, as long as it may be: three paragraphs, sentences of 20 words."""
    sentence = f" {label}{' says this' * 9}."
    third = sentence * (CHARS_WRITTEN * writer.max_tokens // len(sentence) // 3 + 1)
    return Request(task, prompt, writer.max_tokens, label=label, assumed=lambda: f"{third}\n\n" * 3)


def _slots(document: str) -> dict[str, str]:
    """A document for the prompts' two slots: under a heading, and bare for prompts that have their own."""
    bare = f"<text>\n{document}\n</text>" if document else ""
    return {
        "context": f"Transcript of the earnings call:\n{bare}\n" if document else "",
        "document": bare,
    }


def written(reply: Record, what: str) -> str:
    """A reply as an answer: cut at its token limit it is one too, and a refusal is an empty one."""
    if reply.error == "refusal":
        return ""
    text = THOUGHT.sub("", reply.text).strip() if reply.error in ("", "length") else ""
    if not text:
        raise InputError(
            f"no answer by {what}: {reply.error or 'no text'}; run again to ask for what is "
            "missing, or raise max_tokens (thinking_tokens for a model that thinks first)"
        )
    return text
