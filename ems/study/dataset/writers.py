"""Candidate and reference answers by models (paper, section 3.1 and A.2): answered, and consolidated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...asking import Judge, Record, Reply, Request
from ...judge.endpoint import ModelEndpoint
from ...parsing.reply_text import without_thought
from ...prompting import Prompts
from ...sanitise import harmless
from ...types import InputError, Triplet

CHARS_PER_TOKEN = 3       # of a transcript, at least: tokenizers in use take 3.5 to 4.5


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as a model wrote it, with what a reader needs to judge how it came about."""

    triplet_id: str
    model: str
    answer: str
    finish_reason: str            # "stop"; "length": cut at its token limit; "refusal": the answer is ""
    context_chars: int            # characters of the document that the model was shown, 0 = closed book
    context_of: int               # characters the document has
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    signature: str                # prompt's hash, token limit, model as served, decoding, weights
    date: str                     # UTC


def write_answers(triplets: Sequence[Triplet], judge: Judge, endpoint: ModelEndpoint,
                  prompts: Prompts | None = None) -> list[Written]:
    """One answer per triplet by the model behind `judge`, under the endpoint's name and within its limits.

    The document is shown from its beginning: `context_chars` of it at most (None = whole, 0 = closed book),
    and what fits into `context_tokens` (0 = no limit) beside the longest reply. A model that declines has
    answered "". InputError when a document is wanted and missing, or no answer came: an answer that was never
    written must not be scored as an empty one.
    """
    model, max_tokens = endpoint.model, endpoint.max_tokens
    prompts = prompts or Prompts()
    requests, shown = [], []
    for t in triplets:
        if endpoint.context_chars != 0 and not t.context:
            raise InputError(f"triplet {t.id} has no context to answer from; give the transcripts, or "
                             "context_chars=0")
        context = "" if endpoint.context_chars == 0 else harmless(t.context or "")[:endpoint.context_chars]
        values = {"question": harmless(t.question)}
        prompt, chars = _with_document(prompts, "answer", context, endpoint, values)
        requests.append(Request("answer", prompt, endpoint.max_tokens, label=f"{t.id} {endpoint.model}"))
        shown.append(chars)
    replies = judge.ask(requests, f"answers of {model}")
    written, signature = [], f"{prompts.signature('answer')}|max_tokens:{max_tokens}|{judge.signature}"
    for t, chars, reply in zip(triplets, shown, replies, strict=True):
        text, finish = _text(reply, f"{model} on {t.id}", max_tokens)
        record = reply.record or Record("", "answer", model, text)
        written.append(Written(t.id, model, text, finish, chars, len(t.context or ""),
                               record.prompt_tokens, record.completion_tokens, round(record.seconds, 1),
                               signature, record.date))
    return written


def consolidate(triplets: Sequence[Triplet], versions: Mapping[str, Sequence[str]], judge: Judge,
                endpoint: ModelEndpoint, prompts: Prompts | None = None) -> dict[str, str]:
    """The paper's reference procedure: the answers `versions[triplet_id]` made into one, by triplet id.

    As much of the document is shown as fits into `context_tokens`; a model that declines gives "". InputError
    for fewer answers than two, or when a reply did not come.
    """
    prompts = prompts or Prompts()
    requests = []
    for t in triplets:
        texts = versions.get(t.id, ())
        if len(texts) < 2:
            raise InputError(f"triplet {t.id} has {len(texts)} answers; consolidation needs two or more")
        listed = "\n\n".join(f"Answer Version {i}:\n<text>\n{harmless(text)}\n</text>"
                             for i, text in enumerate(texts, 1))
        values = {"question": harmless(t.question), "versions_count": str(len(texts)), "versions": listed}
        context = harmless(t.context or "")
        prompt, _ = _with_document(prompts, "consolidate", context, endpoint, values)
        requests.append(Request("consolidate", prompt, endpoint.max_tokens, label=t.id))
    replies = judge.ask(requests, "consolidated references")
    return {t.id: _text(reply, t.id, endpoint.max_tokens)[0]
            for t, reply in zip(triplets, replies, strict=True)}


def write_references(triplets: Sequence[Triplet], writers: Sequence[tuple[ModelEndpoint, Judge]],
                     consolidator: tuple[ModelEndpoint, Judge] | None = None, prompts: Prompts | None = None
                     ) -> tuple[list[Triplet], list[Written]]:
    """The triplets with references written by models, and the answers that these were made of.

    The consolidator makes one answer of those of several writers; a single writer's is taken as it is.
    InputError for several writers without a consolidator, for a consolidator of one, and for a reference
    that comes out empty.
    """
    if not writers or (len(writers) > 1) != (consolidator is not None):
        raise InputError("references need one writer, or two or more and a consolidator; "
                         f"got {len(writers)} writers and {'a' if consolidator else 'no'} consolidator")
    drafts = [draft for endpoint, judge in writers
              for draft in write_answers(triplets, judge, endpoint, prompts)]
    versions: dict[str, list[str]] = {t.id: [] for t in triplets}
    for draft in drafts:
        versions[draft.triplet_id].append(draft.answer)
    if consolidator is None:
        references = {id_: texts[0] for id_, texts in versions.items()}
    else:
        endpoint, judge = consolidator
        references = consolidate(triplets, versions, judge, endpoint, prompts)
    if empty := [id_ for id_, text in references.items() if not text]:
        raise InputError(f"{len(empty)} references came out empty, e.g. {empty[0]}; "
                         "nothing can be scored against them")
    return [replace(t, reference=references[t.id]) for t in triplets], drafts


def _with_document(prompts: Prompts, task: str, document: str, endpoint: ModelEndpoint,
                   values: Mapping[str, str]) -> tuple[str, int]:
    """The prompt with as much of the document as fits, and how many characters of it those are."""
    if endpoint.context_tokens:
        bare = len(prompts.fill(task, **_document(""), **values))
        reply = endpoint.max_tokens + endpoint.thinking_tokens
        room = (endpoint.context_tokens - reply) * CHARS_PER_TOKEN - bare
        document = document[:max(0, room)]
    return prompts.fill(task, **_document(document), **values), len(document)


def _document(text: str) -> dict[str, str]:
    """A document for the prompts' two slots: under a heading, and bare for prompts that have their own."""
    bare = f"<text>\n{text}\n</text>" if text else ""
    return {"context": f"Transcript of the earnings call:\n{bare}\n" if text else "", "document": bare}


def _text(reply: Reply, what: str, max_tokens: int) -> tuple[str, str]:
    """The reply's text and finish reason: one cut at its token limit, or declined (""), is an answer too."""
    if reply.error == "refusal":
        return "", "refusal"
    cut = reply.record.text if reply.record and reply.error == "length" else None
    if reply.text is None and cut is None:
        message = f" ({reply.message})" if reply.message else ""
        hint = ("the model sent no text, only what it thought or called" if reply.error == "no text" else
                f"{reply.error}{message}; run again to ask for what is missing")
        raise InputError(f"no answer by {what}: {hint}")
    text = without_thought(reply.text if reply.text is not None else cut or "")
    if reply.text is None and not text:
        raise InputError(f"no answer by {what}: its {max_tokens} tokens went before the first word of one; "
                         "raise max_tokens, or thinking_tokens for a model that thinks first")
    return text, "stop" if reply.text is not None else "length"
