"""Controlled edits of a reference: what was done to the text is known, so what a metric should say is known too.

Every edit offers a list of *changes*, each one or more replacements of spans, in a random order fixed by the seed. A
dose is a share of them: the changes of a small dose are among those of a larger one, so that more of the same edit is
more of the same damage. Rules only, English prose; nothing is asked of a model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..local.quantities import find_quantities
from ..local.sentences import sentences
from ..types import Answer, Triplet

DOSES = (0.1, 0.25, 0.5, 0.75)
Change = tuple[tuple[int, int, str], ...]      # replacements (start, end, new text) that belong together
_FLIPS = {
    "first": "third", "second": "fourth", "third": "first", "fourth": "second", "Q1": "Q3", "Q2": "Q4", "Q3": "Q1",
    "Q4": "Q2", "January": "July", "March": "December", "April": "October", "June": "September", "July": "January",
    "September": "June", "October": "April", "December": "March", "months": "years", "years": "months",
    "million": "billion", "billion": "million", "thousand": "million", "$": "€",
    "%": " basis points", "percent": "basis points", "basis points": "percent",
}
_MONTHS = "January|March|April|June|July|September|October|December"
_UNIT = re.compile(r"\b(?:million|billion|thousand|percent|basis points|months|years)\b|(?<=\d)%|\$(?=\d)|\bQ[1-4]\b"
                   r"|\b(?:first|second|third|fourth)(?=[ -](?:fiscal )?quarter)|\b20[0-2]\d\b"
                   rf"|\b(?:{_MONTHS})\b")
_AUXILIARY = re.compile(r"\b(?:is|are|was|were|will|would|can|could|should|has|have|had|does|did)\b(?! not\b)")
_VERB = re.compile(r"\b(?:states?|shows?|confirms?|indicates?|expects?|reports?|reported|said|rose|fell|grew|remains?"
                   r"|matches|specif(?:y|ies)|provides?|supports?)\b")
_NAME = re.compile(rf"(?<=[a-z,;] )(?!(?:I|We|The|This|In|It|However|Paragraphs?|Table|{_MONTHS})\b)"
                   r"[A-Z][\w&]*[a-z][\w&]*(?: [A-Z][\w&]*[a-z][\w&]*)*")
_STOP_WORDS = ("the", "of", "and", "in", "to", "a", "for", "with", "by", "on", "at", "as")
_STOP = re.compile(rf"\b(?:{'|'.join(_STOP_WORDS)})\b")
# Words and near equals that fit the same place in a sentence.
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
prices:price levels; provides:gives; reported:posted; required:needed; revenue:sales; rose:climbed; said:stated
several:a number of; shows:reveals; significant:considerable; spending:outlays; states:says; statement:assertion
strong:robust; support:back; therefore:hence; though:albeit; total:overall; which:that; while:whereas"""))
_SYNONYM = re.compile(rf"\b(?:{'|'.join(_SYNONYMS)})\b")
_RESTATE = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)(?: (?P<scale>billion|million)\b|(?P<percent>%| percent\b))")
EMPTY = ("In summary, the points above answer the question.", "Overall, they give a full picture.",
         "Taken together, these are the main points.", "In conclusion, that is what there is to say.")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of every sentence, list mark included; headings and lines without a word are passed over."""
    spans = []
    for block in re.finditer(r"[^\n]+(?:\n(?!\s*(?:\n|[-*•#]|\d+[.)]\s))[^\n]+)*", text):
        at = block.start()
        for piece in sentences(block[0]):
            start, end = at + len(piece) - len(piece.lstrip()), at + len(piece.rstrip())
            at += len(piece)
            if len(re.findall(r"[^\W\d_]+", piece)) >= 2 and not piece.rstrip().endswith(":"):
                spans.append((start, end))
    return spans


def _delete(text: str, other: str, rng: random.Random) -> list[Change]:
    return [((start, end, ""),) for start, end in sentence_spans(text)]


def _number(text: str, other: str, rng: random.Random) -> list[Change]:
    """The first digit that is not zero becomes another: always far beyond rounding. Dates are left to `_unit`."""
    changes = []
    for q in find_quantities(text):
        digit = re.search("[1-9]", text[q.start:q.end])
        if digit and q.unit not in ("date", "versus"):
            at = q.start + digit.start()
            changes.append(((at, at + 1, rng.choice("123456789".replace(digit[0], ""))),))
    return changes


def _unit(text: str, other: str, rng: random.Random) -> list[Change]:
    return [((m.start(), m.end(), _FLIPS.get(m[0]) or str(int(m[0]) - 1)),) for m in _UNIT.finditer(text)]


def _negate(text: str, other: str, rng: random.Random) -> list[Change]:
    """One "not" in each sentence that has a place for it."""
    changes = []
    for start, end in sentence_spans(text):
        if m := _AUXILIARY.search(text, start, end):
            changes.append(((m.end(), m.end(), " not"),))
        elif m := _VERB.search(text, start, end):
            changes.append(((m.start(), m.start(), "never "),))
    return changes


def _swap(text: str, other: str, rng: random.Random) -> list[Change]:
    """Each name gives way to another name of the same text."""
    found = list(_NAME.finditer(text))
    names = list(dict.fromkeys(m[0] for m in found))
    return [((m.start(), m.end(), rng.choice([n for n in names if n != m[0]])),) for m in found if len(names) > 1]


def _repeat(text: str, other: str, rng: random.Random) -> list[Change]:
    """A sentence is said twice in a row."""
    return [((end, end, " " + _unmarked(text[start:end])),) for start, end in sentence_spans(text)]


def _pad(text: str, other: str, rng: random.Random) -> list[Change]:
    """After a sentence comes one of `other`: true, and not asked for."""
    spare = [_unmarked(other[start:end]) for start, end in sentence_spans(other)]
    return [((end, end, " " + added),) for (_, end), added in zip(sentence_spans(text), spare, strict=False)]


def _summary(text: str, other: str, rng: random.Random) -> list[Change]:
    """Closing paragraphs that say nothing."""
    return [((len(text), len(text), "\n\n" + line),) for line in EMPTY]


def _shuffle(text: str, other: str, rng: random.Random) -> list[Change]:
    """Pairs of sentences change places."""
    spans = sentence_spans(text)
    order = rng.sample(range(len(spans)), len(spans))
    return [(((*spans[i], text[slice(*spans[j])])), ((*spans[j], text[slice(*spans[i])])))
            for i, j in zip(order[::2], order[1::2], strict=False)]


def _paraphrase(text: str, other: str, rng: random.Random) -> list[Change]:
    return [((m.start(), m.end(), _SYNONYMS[m[0]]),) for m in _SYNONYM.finditer(text)]


def _restate(text: str, other: str, rng: random.Random) -> list[Change]:
    """The same amount in another form: 11.4 billion is 11,400 million, 6% is 6 percent."""
    changes = []
    for m in _RESTATE.finditer(text):
        if m["percent"]:
            new = m["number"] + (" percent" if m["percent"] == "%" else "%")
        else:
            value, digits = float(m["number"].replace(",", "")), len(m["number"].partition(".")[2])
            new = (f"{value * 1000:,.0f} million" if m["scale"] == "billion"
                   else f"{value / 1000:.{digits + 3}f} billion")
        changes.append(((m.start(), m.end(), new),))
    return changes


def _stop_word(text: str, other: str, rng: random.Random) -> list[Change]:
    return [((m.start(), m.end(), rng.choice([w for w in _STOP_WORDS if w != m[0]])),) for m in _STOP.finditer(text)]


@dataclass(frozen=True, slots=True)
class Edit:
    """One kind of edit and what a metric should make of it."""

    name: str
    harm: str      # "worse": content lost or falsified; "excess": more than was asked; "none"; "control"
    make: Callable[[str, str, random.Random], list[Change]]


EDITS = (
    Edit("delete points", "worse", _delete),
    Edit("change numbers", "worse", _number),
    Edit("change units, periods", "worse", _unit),
    Edit("negate", "worse", _negate),
    Edit("swap names", "worse", _swap),
    Edit("repeat points", "excess", _repeat),
    Edit("pad with other facts", "excess", _pad),
    Edit("add an empty summary", "none", _summary),
    Edit("shuffle sentences", "none", _shuffle),
    Edit("restate numbers", "none", _restate),
    Edit("paraphrase lightly", "none", _paraphrase),
    Edit("change stop words", "control", _stop_word),
)


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after an edit."""

    text: str
    changes: int       # how many were made
    offered: int       # how many there were to make; 0: the edit does not apply to this text
    touched: float     # words replaced, removed or added, as a share of the words of the original


def apply(edit: Edit, text: str, dose: float, *, other: str = "", seed: int = 7, key: str = "") -> Edited:
    """Make the share `dose` in (0, 1] of an edit's changes, at least one; `key` varies the choice between texts.

    `other` is where padding comes from. Equal arguments give equal texts, on every machine.
    """
    if not 0 < dose <= 1:
        raise ValueError(f"dose must be in (0, 1], got {dose}")
    rng = random.Random(f"{seed}|{edit.name}|{key}")
    changes = edit.make(text, other, rng)
    taken = rng.sample(changes, len(changes))[:max(1, round(dose * len(changes)))]
    flat = sorted((r for change in taken for r in change), reverse=True)      # from the end, so that spans stay valid
    touched = sum(max(len(text[start:end].split()), len(new.split())) for start, end, new in flat)
    edited = text
    for start, end, new in flat:
        edited = edited[:start] + new + edited[end:]
    return Edited(edited, len(taken), len(changes), touched / max(1, len(text.split())))


def edited_answers(triplets: Sequence[Triplet], doses: Sequence[float] = DOSES, *, seed: int = 7
                   ) -> tuple[list[Answer], list[dict[str, object]]]:
    """Every edit at every dose of every reference, as answers, and what was done to each.

    An answer's `model` is "<edit>@<dose>", or "unedited" for the reference itself. The second list has, in the same
    order, dicts of triplet_id, model, edit, harm, dose, changes and touched. Where an edit finds nothing to change
    there is no answer. Padding comes from the other references, those of the same group first.
    """
    answers, about = [], []
    for t in triplets:
        made = {"unedited": ("", "", 0.0, Edited(t.reference, 0, 1, 0.0))}
        others = sorted((o for o in triplets if o.id != t.id), key=lambda o, t=t: o.group != t.group)[:8]
        other = "\n\n".join(o.reference for o in others)
        for edit in EDITS:
            for dose in doses:
                done = apply(edit, t.reference, dose, other=other, seed=seed, key=t.id)
                made[f"{edit.name}@{dose:g}"] = (edit.name, edit.harm, dose, done)
        for model, (name, harm, dose, done) in made.items():
            if done.offered:
                answers.append(Answer(t.id, model, done.text))
                about.append({"triplet_id": t.id, "model": model, "edit": name, "harm": harm, "dose": dose,
                              "changes": done.changes, "touched": done.touched})
    return answers, about


def _unmarked(sentence: str) -> str:
    """A sentence without the list mark before it."""
    return re.sub(r"^(?:[-*•]|\(?\d{1,2}[.)])\s+", "", sentence)
