"""Earnings calls: a transcript checked to be the right call, and calls made into triplets."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...io import data_path, duplicates, read_text
from ...types import InputError, Triplet
from .documents import english_share
from .transcripts import OPENING, Transcript, day_of, read_hub, read_transcript

OWN = "q3-2024"            # name of the kit's own calls, questions and references
COMPANY_COLUMNS = ("ticker", "company", "names", "symbols", "fiscal_period", "call_date", "transcript",
                   "min_chars")
CLOSING = 6000             # characters of a transcript that say that the call is over, at most
LEAST_ENGLISH = 0.15       # share of the commonest English words in an English text
QUARTERS = ("first", "second", "third", "fourth")
QUARTER = rf"(?:Q([1-4])|([1-4])Q|({'|'.join(QUARTERS)})[ -]quarter)"
FILLER = r"(?:[ ,'’-]|and|of|the|fiscal|full|year|FY|results)*"
PERIOD = re.compile(rf"\b{QUARTER}{FILLER}(?:20)?(2\d)\b|\b(?:fiscal|FY){FILLER}(?:20)?(2\d)[ -]{QUARTER}",
                    re.IGNORECASE)
OVER = re.compile(r"signoff|disconnect\b|conclude[sd]? (?:today|the|our|this)|good ?bye|"
                  r"all the time (?:that )?we have|"
                  r"(?:thanks?|thank you)[^.]{0,40} (?:joining|participa|attending)", re.IGNORECASE)


def check_transcript(transcript: Transcript, company: Mapping[str, str]) -> Transcript:
    """Return the transcript when it is the whole English call that `company`, a row of companies.csv, names.

    InputError with the reason for one that is empty, in another language, of another company or day, or cut.
    A paraphrase of the right call cannot be told by its form.
    """
    text, call_date = transcript.text, day_of(company["call_date"])
    period = int(company["fiscal_period"][-1]), int(company["fiscal_period"][2:6])
    named = _periods(text[:OPENING])
    names = "|".join(map(re.escape, company["names"].split("|")))
    if not text.strip():
        reason = "it is empty; a scanned PDF has no text"
    elif (share := english_share(text)) < LEAST_ENGLISH:
        reason = (f"it does not read as English ({share:.0%} of its words are common English ones, "
                  f"{LEAST_ENGLISH:.0%} is the least)")
    elif transcript.ticker and transcript.ticker not in company["symbols"].split():
        reason = f"it is of another company: {transcript.ticker}, not {company['symbols']}"
    elif not re.search(rf"\b(?:{names})", text[:OPENING], re.IGNORECASE):
        reason = f"its opening does not name the company ({company['names']})"
    elif transcript.date and abs((transcript.date - call_date).days) > 1:
        reason = f"it is of another call: {transcript.date}, not {call_date}"
    elif named and period not in (named if transcript.date else named[:1]):
        reason = "it is of another call: its opening names Q{} {}, not Q{} {}".format(*named[0], *period)
    elif not transcript.date and not named:
        reason = ("it names neither its day nor its quarter; "
                  f"put 'Date: {call_date}' on its first line if that is the call")
    elif len(text) < int(company["min_chars"]):
        reason = f"it is cut: {len(text)} characters, at least {company['min_chars']} are expected"
    elif not OVER.search(text[-CLOSING:]):
        reason = f"it is cut: nothing in its last {CLOSING} characters ends a call"
    else:
        return transcript
    raise InputError(f"{transcript.source} is refused as {company['ticker']} {company['fiscal_period']}: "
                     f"{reason}")


def _periods(opening: str) -> list[tuple[int, int]]:
    """(quarter, year) in the order named: Q3 2024, 3Q24, FY2025 first-quarter."""
    periods = []
    for number1, number2, word1, year1, year2, number3, number4, word2 in PERIOD.findall(opening):
        number = number1 or number2 or number3 or number4 or QUARTERS.index((word1 or word2).lower()) + 1
        periods.append((int(number), 2000 + int(year1 or year2)))
    return periods


def load_companies(path: str | Path) -> list[dict[str, str]]:
    """The rows of companies.csv. InputError for a missing column or value, and for a ticker given twice."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    if missing := [c for c in COMPANY_COLUMNS if not rows or any(not row.get(c) for row in rows)]:
        raise InputError(f"{path}: every row needs {', '.join(COMPANY_COLUMNS)}; "
                         f"{', '.join(missing)} missing")
    if twice := duplicates([row["ticker"] for row in rows]):
        raise InputError(f"{path}: ticker {twice[0]} occurs more than once")
    return rows


def find_transcript(company: Mapping[str, str], place: str | Path) -> Transcript:
    """The company's call, checked, from the hub's parquet or a folder of files that begin with its ticker.

    A file that is not the call is passed over; when none is left, the InputError says why each was refused.
    """
    place = Path(place)
    if place.suffix == ".parquet" or any(place.rglob("*.parquet")):
        return check_transcript(read_hub(place, company), company)
    stem, refusals = company["transcript"], []
    files = place.glob(f"{company['ticker']}[_.-]*")
    for file in sorted(files, key=lambda f: (f.stem != stem, not f.name.startswith(stem), f.name)):
        try:
            return check_transcript(read_transcript(file), company)
        except InputError as error:
            refusals.append(str(error))
    raise InputError("; ".join(refusals)
                     or f"{place} has no transcript {stem}.*, nor any other of {company['ticker']}")


def build_triplets(companies: Sequence[Mapping[str, str]], questions: str | Path,
                   references: str | Path | None, transcripts: str | Path | None = None) -> list[Triplet]:
    """A triplet for each company and question: id `AAPL-Q1`, group the ticker, question with the call's name.

    `questions`: YAML list of {id, topic, question}. `references`: folder of `<TICKER>.yaml`, question id ->
    text; None leaves them empty. `transcripts`: folder or parquet of the calls that become the context.
    InputError for a question, reference or transcript that is missing or no text, and for an id given twice.
    """
    asked, triplets = _questions(questions), []
    for company in companies:
        ticker, path = company["ticker"], Path(references or "", f"{company['ticker']}.yaml")
        texts = {} if references is None else read_yaml(path)
        context = find_transcript(company, transcripts).text if transcripts else None
        call = (f"{company['company']} ({ticker}), {company['fiscal_period']} earnings call of "
                f"{company['call_date']}.")
        for id_, question in asked.items():
            reference = texts.get(id_) if isinstance(texts, dict) else None
            if references is not None and not _is_text(reference):
                raise InputError(f"{path} has no text for {id_}; "
                                 "it must map every question id to a reference")
            reference = (reference or "").strip()
            triplets.append(Triplet(f"{ticker}-{id_}", ticker, f"{call} {question}", reference, context))
    return triplets


def _questions(path: str | Path) -> dict[str, str]:
    """Question id -> text, in the file's order."""
    rows = read_yaml(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("id"), str | int)
                                             and "question" in row for row in rows):
        raise InputError(f"{path}: a list of entries with id, topic and question is needed")
    if bad := [row["id"] for row in rows if not _is_text(row["question"])]:
        raise InputError(f"{path}: the question of {bad[0]} must be a text; write it there")
    if twice := duplicates([str(row["id"]) for row in rows]):
        raise InputError(f"{path}: id {twice[0]} occurs more than once")
    return {row["id"]: row["question"].strip() for row in rows}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def own_triplets(transcripts: str | Path | None = None) -> list[Triplet]:
    """The kit's fifty triplets: five questions to each of ten calls, with the kit's references."""
    return build_triplets(load_companies(data_path("companies.csv")), data_path("questions.yaml"),
                          data_path(f"{OWN}/references"), transcripts)


def read_yaml(path: str | Path) -> Any:
    """The value of a YAML file; InputError when it is none."""
    import yaml

    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
