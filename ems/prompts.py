"""Prompts: templates filled strictly, and texts from outside cleaned before they enter one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from string import Template

from .io import read_text
from .types import InputError

KIT = Path(__file__).parent / "prompts"
# Slots that a template may leave out.
OPTIONAL = frozenset("question context document versions_count max_score middle low".split())


def home() -> Path:
    """The user's data folder: EMS_HOME, or ~/.local/share/ems."""
    return Path(os.environ.get("EMS_HOME") or Path.home() / ".local" / "share" / "ems")


class Prompts:
    """A set of templates, one text file a task: the kit's, or a folder's where it has a file of that name."""

    def __init__(self, folder: str | Path | None = None):
        self.folder = KIT if folder is None else Path(folder)
        self.name = "kit" if folder is None else self.folder.name
        self.template = cache(self._read)  # by task
        if not self.folder.is_dir():
            raise InputError(
                f"no prompt set {str(folder)!r}: no such folder, nor one in {home()}/prompts"
            )

    @classmethod
    def named(cls, name: str) -> Prompts:
        """The kit's set by "kit", a set in the user's data folder by its name, or any folder by its path."""
        if name == "kit":
            return cls()
        in_home = home() / "prompts" / name
        return cls(in_home if in_home.is_dir() else name)

    def fill(self, task: str, **values: str) -> str:
        """The prompt; KeyError for a slot without a value."""
        return self.template(task).substitute(values).strip("\n")

    def signature(self, *tasks: str) -> str:
        """`kit#1a2b3c4d`: the set's name and a hash over its templates of these tasks.

        What a folder leaves to the kit is signed as the kit's: `mine#1a2b3c4d+kit#5e6f7a8b(summary)`.
        """
        own = [task for task in tasks if (self.folder / f"{task}.txt").is_file()]
        kits = [task for task in tasks if task not in own]
        parts = [f"{self.name}#{self._hash(own)}"] if own else []
        parts += [f"kit#{self._hash(kits)}({','.join(kits)})"] if kits else []
        return "+".join(parts)

    def _hash(self, tasks: Sequence[str]) -> str:
        templates = "\0".join(self.template(task).template for task in tasks)
        return hashlib.sha256(templates.encode()).hexdigest()[:8]

    def _read(self, task: str) -> Template:
        """The template of a task. InputError when there is none, or when its slots are not the kit's."""
        kit, own = KIT / f"{task}.txt", self.folder / f"{task}.txt"
        path = own if own.is_file() else kit  # InputError when there is neither
        template = Template(read_text(path))
        if not template.is_valid():
            raise InputError(f"{path}: write a dollar sign that begins no slot as $$")
        slots = set(template.get_identifiers())
        expected = set(Template(read_text(kit)).get_identifiers()) if kit.is_file() else slots
        if wrong := (slots ^ expected) - OPTIONAL:
            raise InputError(f"{path} lacks slots or has unknown ones: {sorted(wrong)}")
        return template


_LINE_END = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Invisible, or steering a terminal, the writing direction or a tokenizer; lone halves of a surrogate pair.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Characters that can pass for those of a tag.
_OPEN, _CLOSE, _SLASH, _BAR = "<＜﹤≮‹〈⟨〈«≪˂ᐸ❮❰⧼⟪《𝈶", ">＞﹥", r"/\\／＼∕⁄⧸╱", "|｜￨∣ǀ│❘"
_TWINS = str.maketrans("тτᴛеεᴇхχ×", "ttteeexxx")
_LETTER = "(?:[^\\W\\d_]|×)[\u0300-\u036f\u20d0-\u20ff\ufe0f]*"  # with its accents
_TAG = re.compile(
    rf"(?:[{_OPEN}]|&(?=(?:lt|#60|#x3c);))"
    rf"(?=(?:lt;|#60;|#x3c;)?[\s{_SLASH}]*((?:{_LETTER}){{4}})(?!\w))",
    re.I,
)
# Tags that an answer may well contain; every other one could be some model's special token.
_HTML = (
    "a|b|blockquote|br|center|code|dd|del|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|li|mark|ol|p|pre|small|"
    "span|strong|sub|sup|table|tbody|td|tfoot|th|thead|tr|u|ul"
)
_TOKEN = re.compile(
    rf"[<＜﹤](?=[{_SLASH}]?(?!(?:{_HTML})[\s/{_CLOSE}])(?:[^\W\d][\w:.▁-]{{0,60}}|0x[0-9a-f]{{2}})"
    rf"(?:\s[\w:-]{{1,40}}\s?=[^<>\n]{{0,80}})?\s?/?[{_CLOSE}])",
    re.I,
)
_BRACKETS = re.compile(
    r"[\[［](/?(?:inst|sys|system_prompt|available_tools|tool_calls|tool_results|tool_content|args|call_id|"
    r"think|gmask|bos|eos|prefix|middle|suffix|im_start|im_end))[\]］]",
    re.I,
)
_LABEL = re.compile(
    r"^[^\S\n]*((?:Candidate )?Answer|JSON|Bullet Points|Matched Index|Matching Score)[^\S\n]*[:：][^\S\n]*$",
    re.M | re.I,
)


def sanitized(text: str) -> str:
    """A text from outside, safe between a prompt's tags; ordinary text, and a safe one, stay as they are.

    Control and invisible characters go, long runs of blanks and of empty lines shrink. What could pass for
    our `<text>` tag, or for a special token of a chat template, loses its bracket; a label gets some.
    """
    text = _HIDDEN.sub("", _LINE_END.sub("\n", text))
    text = re.sub(f"[{_BAR}][{_CLOSE}]", " )", re.sub(f"[<＜﹤][{_BAR}]", "( ", text))
    text = re.sub(r"[^\S\n]{3,}", "  ", text)
    text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    text = _TOKEN.sub("(", _TAG.sub(_bracket, text))
    text = _BRACKETS.sub(r"(\1)", text)
    return _LABEL.sub(r"(\1:)", text).strip()


def _bracket(match: re.Match[str]) -> str:
    """A round bracket where the letters after it read "text"; else the bracket that stood there."""
    letters = unicodedata.normalize("NFKD", match[1]).casefold().translate(_TWINS)
    return "(" if "".join(filter(str.isalpha, letters)) == "text" else match[0]


@lru_cache(maxsize=1 << 14)  # the same point is asked about several times
def quoted(text: str) -> str:
    """One point on one line, as a JSON string: no line break or quote in it can end it early."""
    return json.dumps(" ".join(sanitized(text).split()), ensure_ascii=False)


def numbered(points: Sequence[str]) -> str:
    """Points as numbered lines, from 0."""
    return "\n".join(f"{i}: {quoted(point)}" for i, point in enumerate(points))
