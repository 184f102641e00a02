"""Controlled edits of English prose: what was done to the text is known, so is what a metric should do.

Every edit offers *changes*, each one or more replacements of spans, in a random order fixed by the seed. A
dose is a share of them; the changes of a small dose are among those of a larger one.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...local.quantities import find_quantities
from ...local.sentences import sentences
from ...types import Answer, InputError, Triplet

DOSES = (0.1, 0.25, 0.5, 0.75)
PADDING_REFERENCES = 8                         # how many other references padding is taken from, at most
Replacement = tuple[int, int, str]             # start and end in the text, new text
Change = list[Replacement]                     # replacements that belong together
Changes = Callable[[str, str, random.Random], Iterator[Change]]     # of a text, another text and a generator
_FLIPS = {
    "first": "third", "second": "fourth", "third": "first", "fourth": "second",
    "Q1": "Q3", "Q2": "Q4", "Q3": "Q1", "Q4": "Q2",
    "January": "July", "March": "December", "April": "October", "June": "September",
    "July": "January", "September": "June", "October": "April", "December": "March",
    "months": "years", "years": "months",
    "million": "billion", "billion": "million", "thousand": "million", "$": "€",
    "%": " basis points", "percent": "basis points", "basis points": "percent",
}
_MONTHS = "January|March|April|June|July|September|October|December"
_UNIT = re.compile(r"\b(?:million|billion|thousand|percent|basis points|months|years)\b"
                   r"|(?<=\d)%|\$(?=\d)|\bQ[1-4]\b"
                   r"|\b(?:first|second|third|fourth)(?=[ -](?:fiscal )?quarter)|\b20[0-2]\d\b"
                   rf"|\b(?:{_MONTHS})\b")
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|will|would|can|could|should|has|have|had|does|did)\b"
                        r"(?! not\b|['’])")
_VERB = re.compile(r"\b(?:states?|shows?|confirms?|indicates?|expects?|reports?|reported|said|rose|fell|grew"
                   r"|remains?|matches|specif(?:y|ies)|provides?|supports?)\b")
_NAME = re.compile(rf"(?<=[a-z,;] )(?!(?:I|We|The|This|In|It|However|Paragraphs?|Table|{_MONTHS}"
                   r"|February|May|August|November)\b)"
                   r"[A-Z][\w&]*[a-z][\w&]*(?: [A-Z][\w&]*[a-z][\w&]*)*")
_STOP_WORDS = ("the", "of", "and", "in", "to", "a", "for", "with", "by", "on", "at", "as")
_STOP = re.compile(rf"\b(?:{'|'.join(_STOP_WORDS)})\b")
# Words, and words of nearly the same meaning that fit the same place in a sentence.
_SYNONYMS = dict(pair.split(":") for pair in re.split(r"[;\n]\s*", """\
about:roughly; above:over; actually:in fact; additional:further; also:in addition; although:though
amounted to:came to; approximately:about; because:since; before:ahead of; better:improved; both:the two
business:enterprise; called:termed; claims:asserts; company:firm; compared with:relative to; confirms:verifies
continued:went on; costs:expenses; customers:clients; demand:appetite; described:portrayed; describes:portrays
details:particulars; discussed:talked about; discusses:talks about; driven by:owing to; due to:owing to
earlier:previously; executives:leaders; expects:anticipates; explains:clarifies; explicitly:expressly
faster:quicker; grew:rose; growing:rising; growth:expansion; however:yet; including:such as; increase:rise
increased:rose; indicates:shows; large:sizable; losses:deficits; mainly:chiefly; management:leadership
many:numerous; mentions:notes; most:the bulk of; nearly:almost; new:recent; outlook:prospects; plans:intends
prices:price levels; provides:gives; reported:posted; required:needed; revenue:sales; rose:climbed
said:stated; several:a number of; shows:reveals; significant:considerable; spending:outlays; states:says
statement:assertion; strong:robust; support:back; therefore:hence; though:albeit; total:overall
which:that; while:whereas"""))
_SYNONYM = re.compile(rf"\b(?:{'|'.join(_SYNONYMS)})\b")
_RESTATE = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)"
                      r"(?: (?P<scale>billion|million)\b|(?P<percent>%| percent\b))")
_RANGE = re.compile(r"\d(?:[-–—]| to | and )\$?$")      # before the second end: the first has its scale
# Lines up to an empty one, or to one that begins an entry of a list or a heading.
_BLOCK = re.compile(r"[^\n]+(?:\n(?!\s*(?:\n|[-*•#]|\d+[.)]\s))[^\n]+)*")
EMPTY = ("In summary, the points above answer the question.", "Overall, they give a full picture.",
         "Taken together, these are the main points.", "In conclusion, that is what there is to say.")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of every sentence, list mark included, but for headings and pieces under two words."""
    spans = []
    for block in _BLOCK.finditer(text):
        start = block.start()
        for sentence in sentences(block[0]):
            words = re.findall(r"[^\W\d_]+", sentence)
            if len(words) >= 2 and not sentence.rstrip().endswith(":"):
                indent = len(sentence) - len(sentence.lstrip())
                spans.append((start + indent, start + len(sentence.rstrip())))
            start += len(sentence)
    return spans


# Each of the following offers the changes of one edit to `text`. `other` is a text to take sentences from.


def _number(text: str, other: str, rng: random.Random) -> Iterator[Change]:
    """The first digit but 0 becomes another, always far beyond rounding. Dates are left alone."""
    for quantity in find_quantities(text):
        digit = re.search("[1-9]", text[quantity.start:quantity.end])
        if digit and quantity.unit not in ("date", "versus"):
            position = quantity.start + digit.start()
            yield [(position, position + 1, rng.choice("123456789".replace(digit[0], "")))]


def _negate(text: str, other: str, rng: random.Random) -> Iterator[Change]:
    """One "not" or "never" in each sentence that has a place for it."""
    for start, end in sentence_spans(text):
        if m := _AUXILIARY.search(text, start, end):
            yield [(m.end(), m.end(), " not")]
        elif m := _VERB.search(text, start, end):
            yield [(m.start(), m.start(), "never ")]


def _swap(text: str, other: str, rng: random.Random) -> Iterator[Change]:
    """A name gives way to another name of the same text."""
    names = list(dict.fromkeys(m[0] for m in _NAME.finditer(text)))
    for m in _NAME.finditer(text) if len(names) > 1 else ():
        yield [(m.start(), m.end(), rng.choice([name for name in names if name != m[0]]))]


def _add(text: str, source: str) -> Iterator[Change]:
    """After each sentence of the text comes one of `source`, without the list mark before it."""
    for (_, end), added in zip(sentence_spans(text), sentence_spans(source), strict=False):
        yield [(end, end, " " + re.sub(r"^(?:[-*•]|\(?\d{1,2}[.)])\s+", "", source[slice(*added)]))]


def _shuffle(text: str, other: str, rng: random.Random) -> Iterator[Change]:
    """Pairs of sentences change places."""
    spans = sentence_spans(text)
    order = rng.sample(spans, len(spans))
    for one, two in zip(order[::2], order[1::2], strict=False):
        yield [(*one, text[slice(*two)]), (*two, text[slice(*one)])]


def _each(pattern: re.Pattern[str], new: Callable[[re.Match[str], random.Random], str | None]) -> Changes:
    """Whatever matches the pattern gives way to what is `new` for it; None leaves it."""
    def changes(text: str, other: str, rng: random.Random) -> Iterator[Change]:
        for m in pattern.finditer(text):
            if (replacement := new(m, rng)) is not None:
                yield [(m.start(), m.end(), replacement)]
    return changes


def _restated(m: re.Match[str], rng: random.Random) -> str | None:
    value, decimals = float(m["number"].replace(",", "")), len(m["number"].partition(".")[2])
    if m["percent"]:
        return m["number"] + (" percent" if m["percent"] == "%" else "%")
    if _RANGE.search(m.string, max(0, m.start() - 8), m.start()):
        return None
    if m["scale"] == "billion":
        return f"{value * 1000:,.{max(0, decimals - 3)}f} million"
    return f"{value / 1000:.{decimals + 3}f} billion"


class Edit(NamedTuple):
    """One kind of edit and what a metric should make of it."""

    name: str
    harm: str      # "worse": content lost or falsified; "excess": more than was asked; "none"; "control"
    changes: Changes


EDITS = (
    Edit("delete points", "worse", lambda text, other, rng: ([(*span, "")] for span in sentence_spans(text))),
    Edit("change numbers", "worse", _number),
    # A unit or a period becomes another one; a year becomes the year before.
    Edit("change units, periods", "worse",
         _each(_UNIT, lambda m, rng: _FLIPS.get(m[0]) or str(int(m[0]) - 1))),
    Edit("negate", "worse", _negate),
    Edit("swap names", "worse", _swap),
    Edit("repeat points", "excess", lambda text, other, rng: _add(text, text)),
    Edit("pad with other facts", "excess", lambda text, other, rng: _add(text, other)),
    Edit("add an empty summary", "none",
         lambda text, other, rng: ([(len(text), len(text), "\n\n" + line)] for line in EMPTY)),
    Edit("shuffle sentences", "none", _shuffle),
    # The same amount in another form: 11.4 billion is 11,400 million, 6% is 6 percent.
    Edit("restate numbers", "none", _each(_RESTATE, _restated)),
    Edit("paraphrase lightly", "none", _each(_SYNONYM, lambda m, rng: _SYNONYMS[m[0]])),
    Edit("change stop words", "control",
         _each(_STOP, lambda m, rng: rng.choice([word for word in _STOP_WORDS if word != m[0]]))),
)


class Edited(NamedTuple):
    """A text after an edit."""

    text: str
    changes: int       # how many were made
    offered: int       # how many could be made; 0: the edit does not apply to this text
    touched: float     # words replaced, removed or added, as a share of the words of the original


def apply(edit: Edit, text: str, dose: float, *, other: str = "", seed: int = 7, key: str = "") -> Edited:
    """Make the share `dose` of an edit's changes, at least one; padding comes from `other`.

    Equal arguments give equal texts; `key` varies the choice. InputError for a dose outside (0, 1].
    """
    if not 0 < dose <= 1:
        raise InputError(f"dose must be in (0, 1], got {dose}")
    rng = random.Random(f"{seed}|{edit.name}|{key}")
    offered = list(edit.changes(text, other, rng))
    made = rng.sample(offered, len(offered))[:max(1, round(dose * len(offered)))]
    # From the end of the text, so that the spans before stay valid.
    replacements = sorted((replacement for change in made for replacement in change), reverse=True)
    touched = sum(max(len(text[start:end].split()), len(new.split())) for start, end, new in replacements)
    edited = text
    for start, end, new in replacements:
        edited = edited[:start] + new + edited[end:]
    return Edited(edited, len(made), len(offered), touched / max(1, len(text.split())))


def draw(triplets: Sequence[Triplet], count: int, *, seed: int = 7) -> list[Triplet]:
    """At most `count` triplets (0: all) in random order, of different groups as far as there are as many."""
    drawn = random.Random(seed).sample(triplets, len(triplets))
    of_group: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    return sorted(drawn, key=lambda t: next(of_group[t.group]))[:count or None]      # each group's first


def edited_answers(triplets: Sequence[Triplet], doses: Sequence[float] = DOSES, *, seed: int = 7
                   ) -> tuple[list[Answer], list[dict[str, object]]]:
    """Every edit at every dose of every reference, as answers, and in the same order what was done to each.

    An answer's `model` is "<edit>@<dose>", or "unedited" for the reference itself; where an edit has nothing
    to change there is no answer. Padding comes from the other references, those of the same group first.
    InputError without a dose.
    """
    if not doses:
        raise InputError("DOSES must hold shares in (0, 1], such as 0.5; got none")
    answers: list[Answer] = []
    about: list[dict[str, object]] = []
    for t in triplets:
        others = sorted((o for o in triplets if o.id != t.id), key=lambda o: o.group != t.group)
        other = "\n\n".join(o.reference for o in others[:PADDING_REFERENCES])
        versions = [("", "", 0.0, Edited(t.reference, 0, 1, 0.0))]
        for edit, dose in itertools.product(EDITS, dict.fromkeys(doses)):
            edited = apply(edit, t.reference, dose, other=other, seed=seed, key=t.id)
            versions.append((edit.name, edit.harm, dose, edited))
        for name, harm, dose, edited in versions:
            if edited.offered:
                model = f"{name}@{dose:g}" if name else "unedited"
                answers.append(Answer(t.id, model, edited.text))
                about.append({"triplet_id": t.id, "group": t.group, "model": model, "edit": name,
                              "harm": harm, "dose": dose, "changes": edited.changes,
                              "touched": edited.touched})
    return answers, about
