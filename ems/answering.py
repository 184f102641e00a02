"""Candidate and reference answers from models (paper, section 3.1 and A.2): answer a question, consolidate answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .judge import Judge, Reply, Request
from .prompting import Prompts, harmless
from .types import InputError, Triplet


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as a model wrote it, with what a reader needs to judge how it came about."""

    triplet_id: str
    model: str
    answer: str
    finish_reason: str            # "length": the answer hit its token limit and ends where it was cut
    context_chars: int            # characters of the document that the model was shown, 0 = closed book
    context_of: int               # characters the document has
    prompt_tokens: int
    completion_tokens: int
    seconds: float


def write_answers(
    triplets: Sequence[Triplet],
    judge: Judge,
    *,
    model: str,
    context_chars: int | None = None,
    max_tokens: int = 800,
    prompts: Prompts | None = None,
) -> list[Written]:
    """One answer per triplet by the model behind `judge`, recorded under the name `model`.

    The question has to name the company and the call. `context_chars` limits how much of the document is shown, from its
    beginning (None = whole, 0 = none: closed book). Raises InputError when a document is wanted and missing, or when
    a reply did not come: an answer that was never written must not be scored as an empty one.
    """
    prompts = prompts or Prompts()
    requests, shown = [], []
    for t in triplets:
        if context_chars != 0 and not t.context:
            raise InputError(f"triplet {t.id} has no context to answer from; give the transcripts, or context_chars=0")
        context = "" if context_chars == 0 else harmless(t.context or "")[:context_chars]
        prompt = prompts.fill("answer", context=_document(context), question=t.question)
        requests.append(Request("answer", prompt, max_tokens, label=f"{t.id} {model}"))
        shown.append(len(context))
    written = []
    for t, chars, reply in zip(triplets, shown, judge.ask(requests, f"answers of {model}"), strict=True):
        text, finish = _text(reply, f"{model} on {t.id}")
        written.append(Written(t.id, model, text.strip(), finish, chars, len(t.context or ""),
                               reply.prompt_tokens, reply.completion_tokens, round(reply.seconds, 1)))
    return written


def consolidate(
    triplets: Sequence[Triplet],
    versions: Mapping[str, Sequence[str]],
    judge: Judge,
    *,
    max_tokens: int = 1200,
    prompts: Prompts | None = None,
) -> dict[str, str]:
    """The paper's reference procedure: several answers to each question made into one by a model, by triplet id.

    `versions[triplet_id]` holds the answers; the paper's prompt speaks of three and lists two, and any number from
    two up is taken. Raises InputError for fewer, or when a reply did not come.
    """
    prompts = prompts or Prompts()
    requests = []
    for t in triplets:
        texts = versions.get(t.id, ())
        if len(texts) < 2:
            raise InputError(f"triplet {t.id} has {len(texts)} answers; consolidation needs two or more")
        listed = "\n\n".join(f"Answer {i}:\n<text>\n{harmless(v)}\n</text>" for i, v in enumerate(texts, 1))
        requests.append(Request("consolidate", prompts.fill(
            "consolidate", context=_document(harmless(t.context or "")), question=t.question,
            versions_count=str(len(texts)), versions=listed), max_tokens, label=t.id))
    replies = judge.ask(requests, "consolidated references")
    return {t.id: _text(reply, t.id)[0].strip() for t, reply in zip(triplets, replies, strict=True)}


def _document(text: str) -> str:
    return f"Transcript of the earnings call:\n<text>\n{text}\n</text>\n" if text else ""


def _text(reply: Reply, what: str) -> tuple[str, str]:
    """The reply's text and finish reason. An answer cut at its token limit is still an answer."""
    if reply.text is None and reply.cut is None:
        raise InputError(f"no answer by {what}: {reply.error}; run again to ask for what is missing")
    return (reply.text, "stop") if reply.text is not None else (reply.cut, "length")
