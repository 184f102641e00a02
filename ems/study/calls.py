"""Earnings-call transcripts: reading them from many formats, refusing the wrong ones, building triplets from them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ..io import data_path, read_text
from ..types import InputError, Triplet, duplicates

OWN = "q3-2024"            # name of the kit's own calls, questions and references
HUB_COLUMNS = ("symbol", "date", "content", "structured_content")
COMPANY_COLUMNS = ("ticker", "company", "names", "symbols", "fiscal_period", "call_date", "transcript", "min_chars")
ENGLISH = frozenset(("the", "of", "and", "to", "in", "that", "we", "our", "is", "for", "on", "you", "as", "with", "it"))
OPENING, CLOSING = 2500, 6000      # characters: an opening names the call, a closing says that it is over
WORD = r"[A-Z][\w.'’]*(?:-[\w.'’]+)*"
NAME = rf"{WORD}(?: (?:{WORD}|de|van|von)){{1,4}}"
SPEAKER = re.compile(rf"(?P<alone>Operator)$|(?P<dashed>{WORD}|{NAME}) ?-- ?[A-Z].{{1,110}}$"
                     rf"|(?P<titled>{NAME}), (?:[A-Z&][\w&]*,? ?|of ){{1,8}}$"
                     rf"|(?P<inline>Operator|{NAME}) ?: ?(?P<said>\S.*)$")
STACKED = re.compile(rf"^(?:(Operator)(?:\nOperator)?|({WORD}|{NAME})(?<!\.)\n([^\n]{{2,79}}[^\n.?!,]))\n+(?=\S)",
                     re.MULTILINE)
PRINTED = re.compile(rf"^({NAME}) *\n([A-Z][^\n]{{2,90}}?)(?: +[QA])? *\n(?=\S)", re.MULTILINE)    # likewise, in a PDF
OVER = re.compile(r"signoff|disconnect\b|conclude[sd]? (?:today|the|our|this)|good ?bye|all the time (?:that )?we have|"
                  r"(?:thanks?|thank you)[^.]{0,40} (?:joining|participa|attending)", re.IGNORECASE)
QUARTER = r"(?:Q([1-4])|([1-4])Q|(first|second|third|fourth)[ -]quarter)"
FILLER = r"(?:[ ,'’-]|and|of|the|fiscal|full|year|FY|results)*"
PERIOD = re.compile(rf"\b{QUARTER}{FILLER}(?:20)?(2\d)\b|\b(?:fiscal|FY){FILLER}(?:20)?(2\d)[ -]{QUARTER}",
                    re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One call as text, with what its source says about it. What a file is called counts for nothing."""

    source: str                             # where it was read, for messages
    text: str
    turns: tuple[tuple[str, str], ...]      # (speaker, what was said); empty when the source labels nobody
    ticker: str | None                      # as a header or a field gives it
    date: date | None                       # likewise: the day of the call


def read_transcript(path: str | Path) -> Transcript:
    """Read one call: plain text, Markdown, PDF, HTML (of two languages side by side the English column), speaker JSON.

    Speakers are recognised as `Name -- Title`, `Name, Title` or `Operator` on a line of their own and as
    `Name: text`; a text that labels nobody, such as one single line, has no turns. Spaces that a source lost at its
    line breaks stay lost. InputError for a file that cannot be read or a kind that is not known.
    """
    readers = {".txt": read_text, ".md": read_text, ".pdf": _pdf, ".html": _html, ".htm": _html, ".json": _speaker_json}
    kind = Path(path).suffix.lower()
    if kind not in readers:
        raise InputError(f"{path}: a transcript must be {', '.join(readers)}, got {kind or 'no suffix'}")
    text = re.sub(r"[ \t\f\v\xa0]+", " ", readers[kind](Path(path)).replace("\r\n", "\n"))
    text = re.sub(r" ?\n ?", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    header, said, turns = [], None, []
    for line in text.split("\n"):
        if found := SPEAKER.match(line):
            said = [found["said"]] if found["said"] else []
            turns.append((found["alone"] or found["dashed"] or found["titled"] or found["inline"], said))
        else:
            (header if said is None else said).append(line)
    head = "\n".join(header)[:OPENING] if turns else text[:300]
    ticker = (re.search(r"[\w.] ?\((?:[A-Z]+: ?)?([A-Z]{1,5})(?:\)|[+-]\d)", head)     # Apple (AAPL), Tesla(TSLA+0.69%)
              or re.search(r"^\W*(?:Ticker|Company):\W*([A-Z]{1,5})$", head, re.MULTILINE))
    kept = tuple((who, words) for who, lines in turns if (words := "\n".join(lines).strip()))
    return Transcript(str(path), text, kept, ticker[1] if ticker else None, _date(head))


def _date(header: str) -> date | None:
    """A date in figures after `Date:`, else one in words; a bare one in figures may be the day a page was fetched."""
    months = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
    try:
        if found := re.search(r"Date:\W*(20\d\d-\d\d-\d\d)", header):
            return date.fromisoformat(found[1])
        found = re.search(rf"({months})[a-z]*\.? (\d{{1,2}})(?:st|nd|rd|th)?, ?(20\d\d)", header)
        return date(int(found[3]), months.split("|").index(found[1]) + 1, int(found[2])) if found else None
    except ValueError:
        return None


def _unstack(text: str) -> str:
    """Speakers given as name, title and words on lines of their own, written as `Name -- Title`."""
    return STACKED.sub(lambda m: f"{m[1]}\n" if m[1] else f"{m[2]} -- {m[3]}\n", text)


def _pdf(path: Path) -> str:
    """The text of a PDF, its lines joined to paragraphs, page numbers and dotted rules left out."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise InputError(f"{path}: reading PDF needs pypdf; pip install pypdf") from None
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    except (PyPdfError, ValueError, KeyError, OSError) as error:
        raise InputError(f"{path} is no readable PDF ({error}); save it again, or give the text") from None
    text = "\n".join(re.sub(r"^[ \n]*\d{1,3} *\n", "", page) for page in pages)
    text = PRINTED.sub(r"\n\1 -- \2\n", re.sub(r"^ *\.{20,} *$", "", text, flags=re.MULTILINE))
    paragraphs, fresh = [], True
    for line in map(str.strip, text.split("\n")):
        speaker = SPEAKER.match(line)
        broken = paragraphs and line[:1].islower() and paragraphs[-1][-1] not in ".?!:"     # by the end of a page
        if line and not speaker and paragraphs and (broken or not fresh):
            paragraphs[-1] += " " + line
        elif line:
            paragraphs.append(line)
        fresh = not line or bool(speaker and not speaker["said"])
    return "\n\n".join(paragraphs)


def _html(path: Path) -> str:
    """The text of a page; of tables with several columns, the column that reads most like English."""
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise InputError(f"{path}: reading HTML needs beautifulsoup4; pip install beautifulsoup4") from None
    soup = BeautifulSoup(read_text(path), "html.parser")
    for mark in soup(["br", "p", "div", "tr"]):
        mark.insert_after("\n")
    columns: dict[int, list[str]] = {}
    for row in soup.find_all("tr"):
        cells = row.find_all("td")
        for i, cell in enumerate(cells if len(cells) > 1 else ()):
            columns.setdefault(i, []).append(cell.get_text().strip())
    whole = ["\n\n".join(column) for column in columns.values()] or [(soup.body or soup).get_text()]
    return _unstack(max(whole, key=_english))


def _speaker_json(path: Path) -> str:
    """`{symbol, transcript: [{speaker, title, content}]}` or `{ticker, date, transcript: "Name\\nTitle\\ntext ..."}`.

    The first kind carries an `earnings_date` that is not the day of the call; it is left alone.
    """
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None
    said = data.get("transcript") if isinstance(data, dict) else None
    if isinstance(said, str):
        day = re.sub(r"(\d\d)-(\d\d)-(\d{4})", r"\3-\1-\2", str(data.get("date")))      # 12-31-2024
        return f"Ticker: {data.get('ticker')}\nDate: {day}\n\n{_unstack(said)}"
    if not isinstance(said, list) or not all(isinstance(t, dict) and isinstance(t.get("content"), str) for t in said):
        raise InputError(f"{path}: 'transcript' must be a text or a list of objects with 'speaker' and 'content'")
    turns = [f"{t.get('speaker')} -- {t.get('title') or 'Speaker'}\n{t['content']}" for t in said]
    return "\n\n".join([f"Ticker: {data.get('symbol')}", *turns])


def read_hub(path: str | Path, company: Mapping[str, str]) -> Transcript:
    """The company's call of its date in the hub's `kurry/sp500_earnings_transcripts` (a parquet file or a folder).

    A row is found by symbol and date, since the years and quarters of fiscal calendars differ between sources.
    """
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise InputError(f"{path}: reading parquet needs pyarrow; pip install pyarrow") from None
    files = sorted(map(str, Path(path).rglob("*.parquet"))) if Path(path).is_dir() else str(path)
    try:
        data = pyarrow.dataset.dataset(files, format="parquet")
        if missing := [c for c in HUB_COLUMNS if c not in data.schema.names]:
            raise InputError(f"{path} must have columns {', '.join(HUB_COLUMNS)}; {', '.join(missing)} missing")
        mine = pyarrow.dataset.field("symbol").isin(company["symbols"].split())
        rows = [(_day(row["date"]), row) for row in data.to_table(list(HUB_COLUMNS), mine).to_pylist() if row["date"]]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no readable parquet of the hub's form: {str(error).splitlines()[0]}") from None
    near = [(day, row) for day, row in rows if abs((day - _day(company["call_date"])).days) <= 1]
    if not near:
        days = ", ".join(sorted(str(day) for day, _ in rows)[-8:]) or "none"
        raise InputError(f"{path} has no call of {company['ticker']} on {company['call_date']}; its latest: {days}")
    day, row = near[0]
    turns = tuple((t["speaker"] or "?", t["text"] or "") for t in row["structured_content"] or ())
    text = "\n\n".join(f"{who}: {words}" for who, words in turns) or row["content"] or ""
    return Transcript(f"{path} ({row['symbol']}, {day})", text, turns, row["symbol"], day)


def _day(day: Any) -> date:
    """The day of a date, a time stamp or a text that begins in ISO form."""
    return date.fromisoformat(str(day)[:10])


def check_transcript(transcript: Transcript, company: Mapping[str, str]) -> Transcript:
    """Return the transcript when it is the whole English call that `company` (a row of companies.csv) names.

    InputError with the reason for one that is empty, in another language, of another company or day, or cut (shorter
    than `min_chars`, or without the end of a call). In a source without a date the fiscal quarter must be the first
    that the opening names. A paraphrase of the right call cannot be told by its form.
    """
    text, wanted = transcript.text, _day(company["call_date"])
    period = int(company["fiscal_period"][-1]), int(company["fiscal_period"][2:6])
    named = _periods(text[:OPENING])
    names = "|".join(map(re.escape, company["names"].split("|")))
    if not text.strip():
        reason = "it is empty; a scanned PDF has no text"
    elif (share := _english(text)) < 0.15:
        reason = f"it does not read as English ({share:.0%} of its words are common English ones, 15% is the least)"
    elif transcript.ticker and transcript.ticker not in company["symbols"].split():
        reason = f"it is of another company: {transcript.ticker}, not {company['symbols']}"
    elif not re.search(rf"\b(?:{names})", text[:OPENING], re.IGNORECASE):
        reason = f"its opening does not name the company ({company['names']})"
    elif transcript.date and abs((transcript.date - wanted).days) > 1:
        reason = f"it is of another call: {transcript.date}, not {wanted}"
    elif named and period not in (named if transcript.date else named[:1]):
        reason = f"it is of another call: its opening names Q{named[0][0]} {named[0][1]}, not Q{period[0]} {period[1]}"
    elif not transcript.date and not named:
        reason = f"it names neither its day nor its quarter; put 'Date: {wanted}' on its first line if that is the call"
    elif len(text) < int(company["min_chars"]):
        reason = f"it is cut: {len(text)} characters, at least {company['min_chars']} are expected"
    elif not OVER.search(text[-CLOSING:]):
        reason = f"it is cut: nothing in its last {CLOSING} characters ends a call"
    else:
        return transcript
    raise InputError(f"{transcript.source} is refused as {company['ticker']} {company['fiscal_period']}: {reason}")


def _english(text: str) -> float:
    """Share of the commonest English words among all words; a letter of another script counts as a word."""
    words = re.findall(r"[a-zà-ÿ]+|[^\W\d_]", text.lower())
    return sum(w in ENGLISH for w in words) / len(words) if words else 0.0


def _periods(opening: str) -> list[tuple[int, int]]:
    """(quarter, year) in the order named: Q3 2024, 3Q24, third quarter of fiscal year 2024, FY2025 first-quarter."""
    found = []
    for a, b, word, year, year2, a2, b2, word2 in PERIOD.findall(opening):
        number = a or b or a2 or b2 or ("first", "second", "third", "fourth").index((word or word2).lower()) + 1
        found.append((int(number), 2000 + int(year or year2)))
    return found


def load_companies(path: str | Path) -> list[dict[str, str]]:
    """The rows of companies.csv, checked for their columns and for tickers given twice."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    if missing := [c for c in COMPANY_COLUMNS if not rows or any(not row.get(c) for row in rows)]:
        raise InputError(f"{path}: every row needs {', '.join(COMPANY_COLUMNS)}; {', '.join(missing)} missing")
    if twice := duplicates([row["ticker"] for row in rows]):
        raise InputError(f"{path}: ticker {twice[0]} occurs more than once")
    return rows


def find_transcript(company: Mapping[str, str], place: str | Path) -> Transcript:
    """The company's call, checked, from the hub's parquet or from a folder of files.

    In a folder the file named after the call comes first, then all that begin with the ticker. A file that is not the
    call is passed over; when none is left, the InputError says why each was refused.
    """
    place = Path(place)
    if place.suffix == ".parquet" or any(place.rglob("*.parquet")):
        return check_transcript(read_hub(place, company), company)
    stem, refused = company["transcript"], []
    files = place.glob(f"{company['ticker']}[_.-]*")
    for file in sorted(files, key=lambda f: (f.stem != stem, not f.name.startswith(stem), f.name)):
        try:
            return check_transcript(read_transcript(file), company)
        except InputError as error:
            refused.append(str(error))
    raise InputError("; ".join(refused) or f"{place} has no transcript {stem}.*, nor any other of {company['ticker']}")


def build_triplets(
    companies: Sequence[Mapping[str, str]],
    questions: str | Path,
    references: str | Path | None,
    transcripts: str | Path | None = None,
) -> list[Triplet]:
    """A triplet for each company and question: id `AAPL-Q1`, group the ticker, the question headed by the call's name.

    `questions`: YAML list of {id, topic, question}. `references`: folder of `<TICKER>.yaml`, question id -> text; None
    leaves them empty, to be written later.
    `transcripts`: a folder or the hub's parquet; each call, checked, becomes the context; without it that is None.
    InputError for a question, reference or transcript that is missing or no text, and for an id given twice.
    """
    asked, triplets = _yaml(questions), []
    if not isinstance(asked, list) or not all(isinstance(q, dict) and {"id", "question"} <= q.keys() for q in asked):
        raise InputError(f"{questions}: a list of entries with id, topic and question is needed")
    if off := [q["id"] for q in asked if not isinstance(q["question"], str) or not q["question"].strip()]:
        raise InputError(f"{questions}: the question of {off[0]} must be a text; write it there")
    if twice := duplicates([str(q["id"]) for q in asked]):
        raise InputError(f"{questions}: id {twice[0]} occurs more than once")
    for company in companies:
        ticker, path = company["ticker"], Path(references or "", f"{company['ticker']}.yaml")
        written = {} if references is None else _yaml(path)
        context = find_transcript(company, transcripts).text if transcripts else None
        call = f"{company['company']} ({ticker}), {company['fiscal_period']} earnings call of {company['call_date']}. "
        for q in asked:
            reference = written.get(q["id"]) if isinstance(written, dict) else None
            if references is not None and (not isinstance(reference, str) or not reference.strip()):
                raise InputError(f"{path} has no text for {q['id']}; it must map every question id to a reference")
            question = call + q["question"].strip()
            triplets.append(Triplet(f"{ticker}-{q['id']}", ticker, question, (reference or "").strip(), context))
    return triplets


def own_triplets(transcripts: str | Path | None = None) -> list[Triplet]:
    """The kit's own fifty: five questions to each of ten calls, with the kit's references. See `build_triplets`."""
    return build_triplets(load_companies(data_path("companies.csv")), data_path("questions.yaml"),
                          data_path(f"{OWN}/references"), transcripts)


def _yaml(path: str | Path) -> Any:
    import yaml
    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
