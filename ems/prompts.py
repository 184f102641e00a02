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

from .io import FilePath, read_text
from .types import InputError

KIT = Path(__file__).parent / "prompts"
# Slots that a template may leave out.
OPTIONAL_SLOTS = frozenset("question context document versions_count max_score middle low".split())


def home() -> Path:
    """The user's data folder: EMS_HOME, or ~/.local/share/ems."""
    return Path(os.environ.get("EMS_HOME") or Path.home() / ".local" / "share" / "ems")


class Prompts:
    """A set of templates, one text file for each task: the kit's, or a folder of one's own.

    Where such a folder has no file for a task, the kit's template is taken.
    """

    def __init__(self, folder: FilePath | None = None):
        self.folder = KIT if folder is None else Path(folder)
        self.name = "kit" if folder is None else self.folder.name
        self.template = cache(self._read)  # by task
        if not self.folder.is_dir():
            raise InputError(
                f"no prompt set {str(folder)!r}: no such folder, nor one in {home()}/prompts"
            )

    @classmethod
    def named(cls, name: str) -> Prompts:
        """The set with this name: "kit", a set in the user's data folder, or any folder's path."""
        if name == "kit":
            return cls()
        in_home = home() / "prompts" / name
        return cls(in_home if in_home.is_dir() else name)

    def fill(self, task: str, **values: str) -> str:
        """The prompt; KeyError for a slot without a value."""
        return self.template(task).substitute(values).strip("\n")

    def signature(self, *tasks: str) -> str:
        """`kit#1a2b3c4d`: the set's name and a hash over its templates of these tasks.

        A template that a folder lacks is signed as the kit's:
        `mine#1a2b3c4d+kit#5e6f7a8b(summary)`.
        """
        in_folder = [task for task in tasks if (self.folder / f"{task}.txt").is_file()]
        in_kit = [task for task in tasks if task not in in_folder]
        parts = []
        if in_folder:
            parts.append(f"{self.name}#{self._hash(in_folder)}")
        if in_kit:
            parts.append(f"kit#{self._hash(in_kit)}({','.join(in_kit)})")
        return "+".join(parts)

    def _hash(self, tasks: Sequence[str]) -> str:
        templates = "\0".join(self.template(task).template for task in tasks)
        return hashlib.sha256(templates.encode()).hexdigest()[:8]

    def _read(self, task: str) -> Template:
        """The template of a task. InputError without one, and for slots that are not the kit's."""
        kit = KIT / f"{task}.txt"
        path = self.folder / f"{task}.txt"
        if not path.is_file():
            path = kit  # reading it is an InputError when there is neither
        template = Template(read_text(path))
        if not template.is_valid():
            raise InputError(f"{path}: write a dollar sign that begins no slot as $$")
        slots = set(template.get_identifiers())
        expected = set(Template(read_text(kit)).get_identifiers()) if kit.is_file() else slots
        if wrong := (slots ^ expected) - OPTIONAL_SLOTS:
            raise InputError(f"{path} lacks slots or has unknown ones: {sorted(wrong)}")
        return template


_LINE_END = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Characters that are invisible, or that steer a terminal, the writing direction or a tokenizer;
# and lone halves of a surrogate pair.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Characters that look like those of a tag.
_OPEN = "<＜﹤≮‹〈⟨〈«≪˂ᐸ❮❰⧼⟪《𝈶"
_CLOSE = ">＞﹥"
_SLASH = r"/\\／＼∕⁄⧸╱"
_BAR = "|｜￨∣ǀ│❘"
# Letters of other scripts that look like those of "text", and the latter.
_LOOK_ALIKES = str.maketrans("тτᴛеεᴇхχ×", "ttteeexxx")
_LETTER = "(?:[^\\W\\d_]|×)[\u0300-\u036f\u20d0-\u20ff\ufe0f]*"  # with its accents
# Our own tag or one that looks like it: <text>, </text>, < / text, &lt;/text>. Only the bracket (or
# the "&" of its entity) is matched; the four letters after it are the group.
_OUR_TAG = re.compile(
    rf"""
    (?: [{_OPEN}] | & (?= (?:lt|\#60|\#x3c); ) )
    (?= (?:(?:lt|\#60|\#x3c);)? [\s{_SLASH}]* ( (?:{_LETTER}){{4}} ) (?!\w) )
    """,
    re.I | re.X,
)
# Tags that an answer may well contain. Every other one could be some model's special token.
_HTML = (
    "a|b|blockquote|br|center|code|dd|del|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|li|mark|ol|p|pre|"
    "small|span|strong|sub|sup|table|tbody|td|tfoot|th|thead|tr|u|ul"
)
# A special token in angle brackets: <s>, </think>, <0x0A>, <tool name="x">. Only "<" is matched.
_TOKEN = re.compile(
    rf"""
    [<＜﹤] (?=
        [{_SLASH}]? (?! (?:{_HTML}) [\s/{_CLOSE}] )
        (?: [^\W\d][\w:.▁-]{{0,60}} | 0x[0-9a-f]{{2}} )
        (?: \s [\w:-]{{1,40}} \s? = [^<>\n]{{0,80}} )?
        \s? /? [{_CLOSE}]
    )
    """,
    re.I | re.X,
)
# A special token in square brackets: [INST], [/INST].
_BRACKETS = re.compile(
    r"[\[［](/?(?:inst|sys|system_prompt|available_tools|tool_calls|tool_results|tool_content|args|"
    r"call_id|think|gmask|bos|eos|prefix|middle|suffix|im_start|im_end))[\]］]",
    re.I,
)
# A line that could be one of ours: the label before a reply.
_LABEL_LINE = re.compile(
    r"^[^\S\n]*((?:Candidate )?Answer|JSON|Bullet Points|Matched Index|Matching Score)"
    r"[^\S\n]*[:：][^\S\n]*$",
    re.M | re.I,
)


def sanitized(text: str) -> str:
    """A text from outside, made safe to stand between a prompt's tags.

    Control characters and invisible ones are removed; long runs of blanks and of empty lines are
    shortened. What looks like our `<text>` tag or like a special token of a chat template gets a
    round bracket in place of its own. A line that looks like a label of ours is put in brackets.
    Ordinary text stays as it is, and a text that is safe already does not change.
    """
    text = _HIDDEN.sub("", _LINE_END.sub("\n", text))
    text = re.sub(f"[{_BAR}][{_CLOSE}]", " )", re.sub(f"[<＜﹤][{_BAR}]", "( ", text))
    text = re.sub(r"[^\S\n]{3,}", "  ", text)
    text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    text = _TOKEN.sub("(", _OUR_TAG.sub(_bracket, text))
    text = _BRACKETS.sub(r"(\1)", text)
    return _LABEL_LINE.sub(r"(\1:)", text).strip()


def _bracket(match: re.Match[str]) -> str:
    """A round bracket where the letters after it read "text"; else what stands there."""
    letters = unicodedata.normalize("NFKD", match[1]).casefold().translate(_LOOK_ALIKES)
    word = "".join(filter(str.isalpha, letters))
    return "(" if word == "text" else match[0]


@lru_cache(maxsize=1 << 14)  # the same point is asked about several times
def quoted(text: str) -> str:
    """One point on one line, as a JSON string, which no line break or quote in it can end early."""
    return json.dumps(" ".join(sanitized(text).split()), ensure_ascii=False)


def numbered(points: Sequence[str]) -> str:
    """Points as numbered lines, from 0."""
    return "\n".join(f"{i}: {quoted(point)}" for i, point in enumerate(points))
