"""Who answers prompts (a judge, or a plain function), and the shape and length of a reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .io import progress_bar
from .types import InputError, Judge, Reply, Request

# A sentence seldom holds more than two points, or three claims. A small judge that starts to repeat itself
# would otherwise write until its limit, and the whole reply would be lost; where servers constrain replies,
# the list ends.
PER_SENTENCE = {"points": 2, "claims": 3}
_OTHER_SCRIPT = re.compile("[\u0370-\u1fff\u2c00-\U0010ffff]")        # not Latin, no punctuation
_SENTENCE_END = re.compile(r"[.!?;]\s|[。！？；]|\n")


class CallableJudge:
    """A plain function from prompt to reply, as a judge. Its exceptions pass through."""

    def __init__(self, function: Callable[[str], str]):
        self.function = function
        named = getattr(function, "name", None) or getattr(function, "__name__", None)
        self.name: str = named or type(function).__name__
        self.signature = f"judge:{self.name}"

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """Ask one after the other."""
        replies = []
        with progress_bar(progress, len(requests)) as bar:
            for request in requests:
                text = self.function(request.prompt)
                replies.append(Reply(text) if isinstance(text, str) else Reply(None, "not text"))
                bar.update()
        return replies


def as_judge(judge: Judge | Callable[[str], str]) -> Judge:
    """The judge itself, or a plain function from prompt to reply made into one."""
    if isinstance(judge, Judge):
        return judge
    if callable(judge):
        return CallableJudge(judge)
    raise InputError(f"a judge is an LLMJudge or a function from prompt to reply, got {judge!r:.60}; "
                     "for a model behind an endpoint pass LLMJudge(name)")


def reply_schema(key: str, entry: Mapping[str, Any], **limits: int) -> dict[str, Any]:
    """The JSON schema of a reply `{key: [...]}`, a list of such entries."""
    entries = {"type": "array", "items": entry, **limits}
    return {"type": "object", "properties": {key: entries}, "required": [key], "additionalProperties": False}


def list_schema(key: str, text: str) -> dict[str, Any]:
    """The shape `{key: [strings]}` of a reply about `text`, with as many entries as the text can hold."""
    sentences = len(_SENTENCE_END.findall(text)) + 1
    return reply_schema(key, {"type": "string"}, maxItems=PER_SENTENCE[key] * sentences)


def room(text: str) -> int:
    """Tokens granted to a reply that repeats `text` in another shape: about twice what a text in Latin
    letters takes, and two more for each letter of other scripts, of which some tokenizers make that many.
    """
    return 256 + len(text) // 2 + 2 * len(_OTHER_SCRIPT.findall(text))
