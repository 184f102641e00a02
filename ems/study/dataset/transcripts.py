"""Transcripts of earnings calls: read from text, Markdown, PDF, HTML, JSON and the hub's parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from pathlib import Path

from ...io import read_text
from ...types import InputError
from .documents import english_share, html_text, parse_html, pdf_pages, without_running_heads

OPENING = 2500             # characters of a transcript that name the call, at most
HUB_COLUMNS = ("symbol", "date", "content", "structured_content")

# A line that names a speaker: "Operator", "Name -- Title", "Name, Title", or "Name: words".
WORD = r"[A-Z][\w.'’]*(?:-[\w.'’]+)*"
NAME = rf"{WORD}(?: (?:{WORD}|de|van|von)){{1,4}}"
SPEAKER = re.compile(rf"(?P<alone>Operator)$|(?P<dashed>{WORD}|{NAME}) ?-- ?[A-Z].{{1,110}}$"
                     rf"|(?P<titled>{NAME}), (?:[A-Z&][\w&]*,? ?|of ){{1,8}}$"
                     rf"|(?P<inline>Operator|{NAME}) ?: ?(?P<words>\S.*)$")
# Name and title on two lines: as JSON and HTML have them, and as a PDF prints them.
STACKED = re.compile(rf"^(?:(Operator)(?:\nOperator)?|({WORD}|{NAME})(?<!\.)\n([^\n]{{2,79}}[^\n.?!,]))"
                     r"\n+(?=\S)", re.MULTILINE)
PRINTED = re.compile(rf"^({NAME}) *\n([A-Z][^\n]{{2,90}}?)(?: +[QA])? *\n(?=\S)", re.MULTILINE)

TICKER = re.compile(r"[\w.] ?\((?:[A-Z]+: ?)?([A-Z]{1,5})(?:\)|[+-]\d)")     # Apple (AAPL), Tesla(TSLA+0.69%)
TICKER_FIELD = re.compile(r"^\W*(?:Ticker|Company):\W*([A-Z]{1,5})$", re.MULTILINE)
MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
DATE = re.compile(rf"({MONTHS})[a-z]*\.? (\d{{1,2}})(?:st|nd|rd|th)?, ?(20\d\d)")
DATE_FIELD = re.compile(r"Date:\W*(20\d\d-\d\d-\d\d)")


@dataclass(frozen=True, slots=True)
class Transcript:
    """One call as text, with what its source says about it. What a file is called counts for nothing."""

    source: str                             # where it was read, for messages
    text: str
    turns: tuple[tuple[str, str], ...]      # (speaker, words); empty when the source labels nobody
    ticker: str | None                      # as a header or a field gives it
    date: date | None                       # likewise: the day of the call


def read_transcript(path: str | Path) -> Transcript:
    """Read one call: text, Markdown, PDF, HTML (of two languages side by side the English one), or JSON.

    Speakers are `Name -- Title`, `Name, Title` or `Operator` on a line of their own, or `Name: text`; a text
    that labels nobody has no turns. InputError for a file that cannot be read or whose suffix is not known.
    """
    readers = {".txt": read_text, ".md": read_text, ".pdf": _pdf, ".html": _html, ".htm": _html,
               ".json": _speaker_json}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise InputError(f"{path}: a transcript must be {', '.join(readers)}, got {suffix or 'no suffix'}")
    text = re.sub(r"[ \t\f\v\xa0]+", " ", readers[suffix](Path(path)).replace("\r\n", "\n"))
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()
    header, turns = _turns(text)
    opening = header[:OPENING] if turns else text[:300]
    ticker = TICKER.search(opening) or TICKER_FIELD.search(opening)
    spoken = tuple((speaker, words) for speaker, words in turns if words)
    return Transcript(str(path), text, spoken, ticker[1] if ticker else None, _date(opening))


def _turns(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What comes before the first speaker, and (speaker, words) in order; words may be empty."""
    header: list[str] = []
    turns: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if label := SPEAKER.match(line):
            speaker = label["alone"] or label["dashed"] or label["titled"] or label["inline"]
            turns.append((speaker, [label["words"] or ""]))
        else:
            (turns[-1][1] if turns else header).append(line)
    return "\n".join(header), [(speaker, "\n".join(lines).strip()) for speaker, lines in turns]


def _date(opening: str) -> date | None:
    """A date after `Date:`, else one in words; another date in figures may be the day a page was fetched."""
    try:
        if field := DATE_FIELD.search(opening):
            return date.fromisoformat(field[1])
        if words := DATE.search(opening):
            return date(int(words[3]), MONTHS.split("|").index(words[1]) + 1, int(words[2]))
    except ValueError:            # a day that the calendar does not have
        pass
    return None


def _pdf(path: Path) -> str:
    """The text of a PDF, its lines joined to paragraphs, without running heads and dotted rules."""
    text = re.sub(r"^ *\.{20,} *$", "", without_running_heads(pdf_pages(path)), flags=re.MULTILINE)
    paragraphs: list[str] = []
    starts = True                              # whether the line before ends a paragraph
    for line in map(str.strip, PRINTED.sub(r"\n\1 -- \2\n", text).split("\n")):
        speaker = SPEAKER.match(line)
        # A page may end within a paragraph.
        goes_on = paragraphs and line[:1].islower() and paragraphs[-1][-1] not in ".?!:"
        if line and paragraphs and not speaker and (goes_on or not starts):
            paragraphs[-1] += " " + line
        elif line:
            paragraphs.append(line)
        starts = not line or bool(speaker and not speaker["words"])
    return "\n\n".join(paragraphs)


def _html(path: Path) -> str:
    """The text of a page; of tables with several columns, the column that reads most like English."""
    page = parse_html(read_text(path))
    rows = [cells for row in page.find_all("tr") if len(cells := row.find_all("td")) > 1]
    columns = ([html_text(cell).strip() for cell in column if cell] for column in zip_longest(*rows))
    texts = ["\n\n".join(cells) for cells in columns] or [html_text(page)]
    return _unstack(max(texts, key=english_share))


def _unstack(text: str) -> str:
    """Speakers given as name, title and words on lines of their own, written as `Name -- Title`."""
    return STACKED.sub(lambda m: f"{m[1]}\n" if m[1] else f"{m[2]} -- {m[3]}\n", text)


def _speaker_json(path: Path) -> str:
    """`{symbol, transcript: [{speaker, title, content}]}`, whose `earnings_date` is not the day of the call;
    or `{ticker, date, transcript}` with a stacked text.
    """
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None
    turns = data.get("transcript") if isinstance(data, dict) else None
    if isinstance(turns, str):
        day = re.sub(r"(\d\d)-(\d\d)-(\d{4})", r"\3-\1-\2", str(data.get("date")))      # 12-31-2024
        return f"Ticker: {data.get('ticker')}\nDate: {day}\n\n{_unstack(turns)}"
    if not isinstance(turns, list) or not all(isinstance(t, dict) and isinstance(t.get("content"), str)
                                              for t in turns):
        raise InputError(f"{path}: 'transcript' must be a text or a list of objects with 'speaker' and "
                         "'content'")
    return "\n\n".join([f"Ticker: {data.get('symbol')}", *(
        f"{t.get('speaker')} -- {t.get('title') or 'Speaker'}\n{t['content']}" for t in turns)])


def read_hub(path: str | Path, company: Mapping[str, str]) -> Transcript:
    """The company's call in the hub's `kurry/sp500_earnings_transcripts` (parquet file or folder), by symbol
    and date. InputError when no row is within a day of the call, or the file has another form.
    """
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise InputError("reading parquet needs pyarrow; pip install 'ems-kit[transcripts]'") from None
    files = sorted(map(str, Path(path).rglob("*.parquet"))) if Path(path).is_dir() else str(path)
    try:
        data = pyarrow.dataset.dataset(files, format="parquet")
        missing = [column for column in HUB_COLUMNS if column not in data.schema.names]
        symbols = pyarrow.dataset.field("symbol").isin(company["symbols"].split())
        rows = [] if missing else data.to_table(list(HUB_COLUMNS), symbols).to_pylist()
        calls = [(day_of(row["date"]), row) for row in rows if row["date"]]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is no readable parquet of the hub's form: {reason}") from None
    if missing:
        raise InputError(f"{path} must have columns {', '.join(HUB_COLUMNS)}; {', '.join(missing)} missing")
    near = [(day, row) for day, row in calls if abs((day - day_of(company["call_date"])).days) <= 1]
    if not near:
        days = ", ".join(sorted(str(day) for day, _ in calls)[-8:]) or "none"
        raise InputError(f"{path} has no call of {company['ticker']} on {company['call_date']}; "
                         f"its latest: {days}")
    day, row = near[0]
    turns = tuple((turn["speaker"] or "?", turn["text"] or "") for turn in row["structured_content"] or ())
    text = "\n\n".join(f"{speaker}: {words}" for speaker, words in turns) or row["content"] or ""
    return Transcript(f"{path} ({row['symbol']}, {day})", text, turns, row["symbol"], day)


def day_of(value: object) -> date:
    """The day of a date, a time stamp or a text that begins in ISO form."""
    return date.fromisoformat(str(value)[:10])
