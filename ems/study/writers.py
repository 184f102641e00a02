"""Candidate and reference answers from models (paper, section 3.1 and A.2): answer a question, consolidate answers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ..judge.client import LLMJudge
from ..judge.store import Replies
from ..prompting import Prompts
from ..reading import without_thought
from ..sanitise import harmless
from ..types import InputError, Judge, Record, Reply, Request, Triplet

CHARS_PER_TOKEN = 3       # of a transcript, at least: tokenizers in use take 3.5 to 4.5
KINDS = {"prices": (dict, type(None)), "spend_limit": (int, float), "context_tokens": (int,), "max_tokens": (int,),
         "context_chars": (int, type(None))}       # of what a profile says of a model; the rest is text


@dataclass(frozen=True, slots=True)
class Model:
    """A model behind an endpoint, as a profile names it. Never a key, only the name of the variable that holds it."""

    model: str                          # its name in answers and tables
    served: str = ""                    # its name at the endpoint; "" = the same
    base_url: str = ""                  # its address; "" = OPENAI_BASE_URL
    key_env: str = ""                   # environment variable with its key; "" = OPENAI_API_KEY; "none" = send no key
    weights: str = ""                   # revision of its weights, if known
    context_tokens: int = 0             # what it can read at most, its own answer included; 0 = not known, no limit
    context_chars: int | None = None    # show no more of a document than this; 0 = closed book; None = all that fits
    max_tokens: int = 800               # longest answer
    prices: Mapping[str, float] | None = None    # money for a million tokens: {prompt, completion, cached}
    spend_limit: float = 0.0            # money it may cost, in the currency of its prices; 0 = no limit

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Model:
        """From a profile's mapping. InputError for an unknown name, a value of another kind, or a key in it."""
        allowed = [f.name for f in fields(cls)]
        name = given.get("model") if isinstance(given, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InputError(f"a model is given as {{model: NAME, ...}}, with any of {', '.join(allowed[1:])}")
        if spare := sorted(str(key) for key in given if key not in allowed):
            raise InputError(f"model {name}: {', '.join(spare)} unknown; there are {', '.join(allowed)}. A key is "
                             "never given, key_env names the environment variable that holds it")
        for field, value in given.items():
            if type(value) not in KINDS.get(field, (str,)) or (type(value) in (int, float) and value < 0):
                raise InputError(f"model {name}: {field} is of the wrong kind or below 0")
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|none|", given.get("key_env", "")):
            raise InputError(f"model {name}: key_env must name an environment variable, such as MISTRAL_API_KEY")
        return cls(**given)

    def judge(self, store: Replies | None = None, *, mode: str = "live", workers: int = 32,
              timeout: float = 3600.0) -> LLMJudge:
        """The endpoint to ask it at. InputError when the variable for its key is named but empty."""
        key = os.environ.get(self.key_env, "").strip() if self.key_env not in ("", "none") else self.key_env
        if self.key_env and not key and mode in ("live", "refresh"):
            # Another service's key must not be sent to this address instead.
            raise InputError(f"model {self.model}: no key in {self.key_env}; set that environment variable")
        return LLMJudge(self.served or self.model, store=store, mode=mode, base_url=self.base_url or None,
                        api_key=key or None, weights=self.weights or None, workers=workers, timeout=timeout,
                        prices=self.prices, spend_limit=self.spend_limit)

    def write(self, triplets: Sequence[Triplet], judge: Judge, prompts: Prompts | None = None) -> list[Written]:
        """Its answers, within its limits; see `write_answers`."""
        return write_answers(triplets, judge, model=self.model, context_chars=self.context_chars,
                             context_tokens=self.context_tokens, max_tokens=self.max_tokens, prompts=prompts)


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as a model wrote it, with what a reader needs to judge how it came about."""

    triplet_id: str
    model: str
    answer: str
    finish_reason: str            # "length": the answer hit its token limit and ends where it was cut; "refusal": it is ""
    context_chars: int            # characters of the document that the model was shown, 0 = closed book
    context_of: int               # characters the document has
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    signature: str                # prompt's hash, longest answer in tokens, model as served, decoding, weights
    date: str                     # UTC


def write_answers(
    triplets: Sequence[Triplet],
    judge: Judge,
    *,
    model: str,
    context_chars: int | None = None,
    context_tokens: int = 0,
    max_tokens: int = 800,
    prompts: Prompts | None = None,
) -> list[Written]:
    """One answer per triplet by the model behind `judge`, recorded under the name `model`.

    The question has to name the company and the call. The document is shown from its beginning: `context_chars` of it
    at most (None = whole, 0 = none: closed book), and no more than fits into a model that reads `context_tokens`
    (0 = no limit) and writes `max_tokens`. A model that declines has answered nothing: "", with the finish reason
    "refusal". What it thinks aloud before its answer (`<think>`) is left out. Raises InputError when a document is
    wanted and missing, or when a reply did not come or its tokens went before the first word of an answer: an answer
    that was never written must not be scored as an empty one.
    """
    prompts = prompts or Prompts()
    requests, shown = [], []
    for t in triplets:
        if context_chars != 0 and not t.context:
            raise InputError(f"triplet {t.id} has no context to answer from; give the transcripts, or context_chars=0")
        context = "" if context_chars == 0 else harmless(t.context or "")[:context_chars]
        values = {"question": harmless(t.question)}
        prompt, chars = _with_document(prompts, "answer", context, context_tokens, max_tokens, values)
        requests.append(Request("answer", prompt, max_tokens, label=f"{t.id} {model}"))
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


def consolidate(
    triplets: Sequence[Triplet],
    versions: Mapping[str, Sequence[str]],
    judge: Judge,
    *,
    context_tokens: int = 0,
    max_tokens: int = 1200,
    prompts: Prompts | None = None,
) -> dict[str, str]:
    """The paper's reference procedure: several answers to each question made into one by a model, by triplet id.

    `versions[triplet_id]` holds the answers; the paper's prompt speaks of three and lists two, and any number from
    two up is taken. As much of the document is shown as fits; a model that declines gives "". Raises InputError for fewer
    answers than two, or when a reply did not come.
    """
    prompts = prompts or Prompts()
    requests = []
    for t in triplets:
        texts = versions.get(t.id, ())
        if len(texts) < 2:
            raise InputError(f"triplet {t.id} has {len(texts)} answers; consolidation needs two or more")
        listed = "\n\n".join(f"Answer Version {i}:\n<text>\n{harmless(v)}\n</text>" for i, v in enumerate(texts, 1))
        values = {"question": harmless(t.question), "versions_count": str(len(texts)), "versions": listed}
        context = harmless(t.context or "")
        prompt, _ = _with_document(prompts, "consolidate", context, context_tokens, max_tokens, values)
        requests.append(Request("consolidate", prompt, max_tokens, label=t.id))
    replies = judge.ask(requests, "consolidated references")
    return {t.id: _text(reply, t.id, max_tokens)[0] for t, reply in zip(triplets, replies, strict=True)}


def write_references(
    triplets: Sequence[Triplet],
    writers: Sequence[tuple[Model, Judge]],
    consolidator: tuple[Model, Judge] | None = None,
    prompts: Prompts | None = None,
) -> tuple[list[Triplet], list[Written]]:
    """The triplets with references written by models, and the answers that these were made of.

    Several writers answer each question and the consolidator makes one answer of theirs; a single writer's answer is
    the reference as it is. InputError for several writers without a consolidator, for a consolidator of one, and for
    a reference that comes out empty.
    """
    if not writers or (len(writers) > 1) != (consolidator is not None):
        raise InputError(f"references need one writer, or two or more and a consolidator; got {len(writers)} writers "
                         f"and {'a' if consolidator else 'no'} consolidator")
    drafts = [answer for model, judge in writers for answer in model.write(triplets, judge, prompts)]
    versions: dict[str, list[str]] = {t.id: [] for t in triplets}
    for draft in drafts:
        versions[draft.triplet_id].append(draft.answer)
    if consolidator is None:
        references = {id_: texts[0] for id_, texts in versions.items()}
    else:
        model, judge = consolidator
        references = consolidate(triplets, versions, judge, context_tokens=model.context_tokens,
                                 max_tokens=model.max_tokens, prompts=prompts)
    if empty := [id_ for id_, text in references.items() if not text]:
        raise InputError(f"{len(empty)} references came out empty, e.g. {empty[0]}; nothing can be scored against them")
    return [replace(t, reference=references[t.id]) for t in triplets], drafts


def _with_document(prompts: Prompts, task: str, document: str, context_tokens: int, max_tokens: int,
                   values: Mapping[str, str]) -> tuple[str, int]:
    """The prompt with as much of the document as fits, and how many characters of it those are."""
    if context_tokens:
        bare = len(prompts.fill(task, **_document(""), **values))
        document = document[:max(0, (context_tokens - max_tokens) * CHARS_PER_TOKEN - bare)]
    return prompts.fill(task, **_document(document), **values), len(document)


def _document(text: str) -> dict[str, str]:
    """A document as the prompts' slots take it: under a heading of its own, and bare for prompts that have one."""
    bare = f"<text>\n{text}\n</text>" if text else ""
    return {"context": f"Transcript of the earnings call:\n{bare}\n" if text else "", "document": bare}


def _text(reply: Reply, what: str, max_tokens: int) -> tuple[str, str]:
    """The reply's text and finish reason. One cut at its token limit, or declined (""), is still an answer."""
    if reply.error == "refusal":
        return "", "refusal"
    cut = reply.record.text if reply.record and reply.error == "length" else None
    if reply.text is None and cut is None:
        hint = ("the model sent no text, only what it thought or called" if reply.error == "no text" else
                f"{reply.error}{f' ({reply.message})' if reply.message else ''}; run again to ask for what is missing")
        raise InputError(f"no answer by {what}: {hint}")
    text = without_thought(cut or "" if reply.text is None else reply.text)
    if reply.text is None and not text:
        raise InputError(f"no answer by {what}: its {max_tokens} tokens went before the first word of one; raise max_tokens")
    return text, "stop" if reply.text is not None else "length"
