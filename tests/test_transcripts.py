import dataclasses
import datetime
import json
import os
from pathlib import Path

import pytest

from ems.io import data_path
from ems.study.dataset import calls, transcripts
from ems.study.dataset.calls import build_triplets, check_transcript, find_transcript, load_companies
from ems.study.dataset.transcripts import read_hub, read_transcript
from ems.types import InputError

MIRROR = (
    Path(os.environ.get("EMS_DATA_MIRROR") or Path(__file__).parents[2] / "shared" / "data") / "transcripts"
)
needs_mirror = pytest.mark.skipif(
    not (MIRROR / "raw").is_dir(),
    reason="needs the ten calls; point EMS_DATA_MIRROR at a folder that has them",
)

ACME = {"ticker": "ACM", "company": "Acme", "names": "Acme|Acme Works", "symbols": "ACM ACMB",
        "fiscal_period": "FY2024Q3", "call_date": "2024-10-30", "transcript": "ACM_FY2024Q3",
        "min_chars": "2000"}
DAY = datetime.date(2024, 10, 30)
SAID = [
    ("Operator", "Operator", "Good day and welcome to the Acme third quarter 2024 earnings call."),
    ("Ann Lee", "Chief Officer",
     "Thank you. Revenue of the quarter was $12 million, and grew 8% on the year. " * 15),
    ("Bo de Wit", "Analyst",
     "Congratulations on the quarter. How is the order book, and what of the margin?"),
    (
        "Ann Lee",
        "Chief Officer",
        "The order book is full, and we think that the margin will hold for the year. " * 15,
    ),
    ("Operator", "Operator", "This concludes the call. You may now disconnect."),
]
SPEAKERS = ["Operator", "Ann Lee", "Bo de Wit", "Ann Lee", "Operator"]
HEADER = "Acme (ACM)\nQ3 2024 Earnings Call\nOct. 30, 2024, 5:00 p.m. ET\n\n"
PLAIN = " ".join(words.strip() for _, _, words in SAID)


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def pdf(path, pages):
    """A PDF of lines of text, written by hand."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    for lines in pages:
        shown = b"".join(
            b"(%s ) Tj T* " % line.replace("(", "\\(").replace(")", "\\)").encode() for line in lines
        )
        stream = b"BT /F 10 Tf 12 TL 40 800 Td " + shown + b"ET"
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
        objects.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 900]/Resources<</Font<</F 3 0 R>>>>"
                       b"/Contents %d 0 R>>" % len(objects))
    kids = b" ".join(b"%d 0 R" % n for n in range(5, len(objects) + 1, 2))
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages))
    out, starts = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    xref = b"".join(b"%010d 00000 n \n" % start for start in starts)
    size = len(objects) + 1
    path.write_bytes(
        out
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\n" % (size, xref, size)
        + b"startxref\n%d\n%%%%EOF\n" % len(out)
    )
    return path


def wrapped(words, width=90):
    lines = [""]
    for word in words.split():
        lines = (
            [*lines, word]
            if len(lines[-1]) + len(word) > width
            else [*lines[:-1], f"{lines[-1]} {word}".strip()]
        )
    return lines


# --- formats ---


def as_titled_text(folder):
    turns = [
        f"{name if name == 'Operator' else f'{name} -- {title}'}\n\n{words}" for name, title, words in SAID
    ]
    participants = "\n\nAnn Lee -- Chief Officer\n"
    return put(folder / "a.txt", HEADER + "Prepared Remarks:\n\n" + "\n\n".join(turns) + participants)


def as_scrape(folder):
    head = "Scraped: 2026-05-30T10:18:54\n\nAcme(ACM+5.25%)Q3 2024 Earnings CallOct 30, 2024,5:30 p.m. ET\n\n"
    return put(folder / "a.txt", head + "\n\n".join(f"{name}:{words}" for name, _, words in SAID))


def as_markdown(folder):
    fields = "**Date:** 2024-10-30\n**Company:** ACM\n**Quarter:** Q3 2024"
    head = f"# ACM Q3 2024 Earnings Call\n\n{fields}\n\n---\n\n"
    return put(folder / "a.md", head + "\n".join(f"{name}: {words}" for name, _, words in SAID))


def as_html(folder, english_first=True):
    rows = [
        "Acme (NYSE:ACM) Q3 2024 Earnings Call October 30, 2024<br><br>"
        "Company Participants<br><br>Ann Lee - CEO"
    ]
    rows += [f"{name}<br>{title}<br><br>{words}" for name, title, words in SAID[:2]]
    rows += [f"{name}: {words}" for name, _, words in SAID[2:]]
    korean = "매출은 전년 대비 성장했으며 마진은 유지될 것으로 예상합니다<br>"
    pairs = [(row, korean) if english_first else (korean, row) for row in rows]
    cells = "\n".join(f"<tr><td>{left}</td><td>{right}</td></tr>" for left, right in pairs)
    return put(folder / "a.html", f"<html><title>번역</title><body><table><tr><th>Original</th></tr>{cells}"
                                  "</table><h3>요약</h3><p>요약입니다</p></body></html>")


def as_swapped_html(folder):
    return as_html(folder, english_first=False)


def as_speaker_list(folder):
    turns = [
        {"speaker": name, "title": title, "content": words, "sentiment": "0.1"} for name, title, words in SAID
    ]
    whole = {"symbol": "ACM", "quarter": "2024Q3", "transcript": turns, "earnings_date": "2024-08-01"}
    return put(folder / "a.json", json.dumps(whole))


def as_stacked_string(folder):
    said = "\n".join(f"{name}\n{title}\n{words}" for name, title, words in SAID)
    return put(folder / "a.json", json.dumps({"ticker": "ACM", "date": "10-30-2024", "transcript": said}))


def as_pdf(folder):
    first = ["1", "", "Acme, Inc. (ACM)", "October 30th, 2024", ""]
    first += [f"Operator: {SAID[0][2]}", "", "Ann Lee", "Chief Officer, Acme, Inc.", *wrapped(SAID[1][2]), "",
              "." * 80]
    second = ["2", "", "Bo de Wit", "Analyst, Some Bank LLC Q", SAID[2][2], "",
              "Ann Lee", "Chief Officer, Acme, Inc. A", *wrapped(SAID[3][2]), "", f"Operator: {SAID[4][2]}"]
    return pdf(folder / "a.pdf", [first, second])


@pytest.mark.parametrize(("make", "dated"), [
    (as_titled_text, True), (as_scrape, True), (as_markdown, True), (as_html, True), (as_swapped_html, True),
    (as_speaker_list, False), (as_stacked_string, True), (as_pdf, True),
])
def test_every_format_gives_the_call(tmp_path, make, dated):
    call = read_transcript(make(tmp_path))
    assert [who for who, _ in call.turns] == SPEAKERS
    assert [" ".join(words.split()) for _, words in call.turns] == [
        " ".join(words.split()) for _, _, words in SAID
    ]
    assert (call.ticker, call.date) == (
        "ACM",
        DAY if dated else None,
    )  # a list of turns gives no day of the call
    assert check_transcript(call, ACME) is call


def test_text_that_names_no_speakers(tmp_path):
    call = read_transcript(put(tmp_path / "a.txt", PLAIN))
    assert (call.text, call.turns, call.ticker, call.date) == (PLAIN, (), None, None)
    assert check_transcript(call, ACME) is call                 # its opening names company and quarter


def test_page_break_inside_a_sentence_is_mended(tmp_path):
    pages = [["1", "", "Revenue was", "paid in the fourth"], ["2", "", "quarter.", "", "Next."]]
    call = read_transcript(pdf(tmp_path / "a.pdf", pages))
    assert call.text == "Revenue was paid in the fourth quarter.\n\nNext."


@pytest.mark.parametrize(("name", "content", "says"), [
    ("a.docx", b"x", "must be .txt, .md, .pdf, .html, .htm, .json, got .docx"),
    ("a", b"x", "got no suffix"),
    ("a.txt", b"caf\xe9", "is not UTF-8"),
    ("a.pdf", b"no pdf", "is no readable PDF"),
    ("a.pdf", b"", "is no readable PDF"),
    ("a.json", b"{", "is not JSON"),
    ("a.json", b"[]", "'transcript' must be a text or a list"),
    ("a.json", b'{"transcript": [{"speaker": "A"}]}', "'transcript' must be a text or a list"),
])
def test_unreadable_files(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_transcript(tmp_path / name)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_no_file_and_a_directory(tmp_path):
    for kind in ("txt", "pdf", "html", "json"):
        (tmp_path / f"folder.{kind}").mkdir()
        for name in (f"absent.{kind}", f"folder.{kind}"):
            with pytest.raises(InputError, match=name):
                read_transcript(tmp_path / name)


@pytest.mark.parametrize(
    ("header", "day"),
    [
        ("Acme Q3 Oct 31, 2024, 5:00 p.m. ET", (2024, 10, 31)),
        ("CallOct 30, 2024,5:30", (2024, 10, 30)),
        ("October 30th, 2024", (2024, 10, 30)),
        ("Sept. 5, 2024", (2024, 9, 5)),
        ("**Date:** 2025-07-31", (2025, 7, 31)),
        ("Scraped: 2026-05-30T10:18", None),
        ("February 31, 2024", None),
        ("Date: 2024-13-01", None),
        ("October 2024", None),
        ("Date: 2024-10-30\nquarter to September 28, 2024", (2024, 10, 30)),
    ],
)
def test_dates(header, day):
    assert transcripts._date(header) == (datetime.date(*day) if day else None)


@pytest.mark.parametrize(
    ("opening", "periods"),
    [
        ("the Q3 2024 call", [(3, 2024)]),
        ("3Q24 results", [(3, 2024)]),
        ("Q4 fiscal year 2024", [(4, 2024)]),
        ("the third quarter of fiscal 2025", [(3, 2025)]),
        ("Third Quarter Fiscal Year 2024", [(3, 2024)]),
        ("Fiscal Year 2025 first-quarter earnings", [(1, 2025)]),
        ("fourth quarter and fiscal year 2024", [(4, 2024)]),
        (
            "our third quarter 2024 results, guidance for our fourth quarter fiscal year 2024",
            [(3, 2024), (4, 2024)],
        ),
        ("Q3 FY'25", [(3, 2025)]),
        ("third-quarter earnings", []),
        ("the quarter, 24% up", []),
    ],
)
def test_periods(opening, periods):
    assert calls._periods(opening) == periods


# --- refusals ---

GERMAN = (
    "Guten Tag und willkommen bei Acme zum Ergebnis des Quartals Q3 2024. Der Umsatz wuchs um acht Prozent "
    "und "
    "die Marge blieb im Rahmen der Erwartungen, wie wir es im Sommer angekündigt hatten. "
) * 20
KOREAN = "Acme Q3 2024 매출은 전년 대비 성장했으며 마진은 유지될 것으로 예상합니다. 감사합니다. " * 80
NO_QUARTER = PLAIN.replace("third quarter 2024 ", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        (" \n\n ", "it is empty"),
        (HEADER + PLAIN[:1500], "it is cut: 15"),  # half of it
        (HEADER + PLAIN[: PLAIN.index("This concludes")], "nothing in its last 6000 characters ends a call"),
        (GERMAN, "it does not read as English"),
        (KOREAN, "it does not read as English"),
        (HEADER.replace("ACM", "OTH") + PLAIN, "it is of another company: OTH, not ACM ACMB"),
        (PLAIN.replace("Acme", "Other"), "its opening does not name the company (Acme|Acme Works)"),
        (PLAIN.replace("Acme", "Acmeon"), None),  # a name may go on: JPMorgan, JPMorganChase
        (PLAIN.replace("Acme", "Macme"), "does not name the company"),
        (HEADER.replace("Oct. 30, 2024", "Jul 30, 2024") + PLAIN,
         "it is of another call: 2024-07-30, not 2024-10-30"),
        (HEADER.replace("Oct. 30", "Oct. 31") + PLAIN, None),  # a day apart: time zones
        (HEADER.replace("Q3", "Q2") + PLAIN.replace("third", "second"), "opening names Q2 2024, not Q3 2024"),
        (HEADER + "We compare with Q3 2023. " + PLAIN, None),  # dated: an aside is allowed
        (PLAIN.replace("third quarter", "second quarter") + " Next call: Q3 2024.",
         "opening names Q2 2024, not Q3 2024"),
        (NO_QUARTER, "names neither its day nor its quarter; put 'Date: 2024-10-30' on its first line"),
        ("Date: 2024-10-30\n\n" + NO_QUARTER, None),
    ],
)
def test_refusals(tmp_path, text, says):
    call = read_transcript(put(tmp_path / "ACM_FY2024Q3.txt", text))
    if says is None:
        assert check_transcript(call, ACME) is call
        return
    with pytest.raises(InputError, match="is refused as ACM FY2024Q3: ") as error:
        check_transcript(call, ACME)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_file_names_are_not_believed(tmp_path):
    put(tmp_path / "ACM_FY2024Q3.txt", HEADER.replace("Oct. 30", "Jul. 30") + PLAIN)
    put(tmp_path / "OTH_FY2024Q3.txt", HEADER + PLAIN)                  # of another ticker: not tried
    with pytest.raises(InputError, match=r"ACM_FY2024Q3\.txt is refused .* 2024-07-30"):
        find_transcript(ACME, tmp_path)
    put(tmp_path / "ACM_someday.md", HEADER + PLAIN)
    assert find_transcript(ACME, tmp_path).source.endswith("ACM_someday.md")
    put(tmp_path / "ACM_FY2024Q3.md", HEADER + PLAIN)  # of two that are right, the name decides
    assert find_transcript(ACME, tmp_path).source.endswith("ACM_FY2024Q3.md")


@pytest.mark.parametrize("place", ["", "absent"])
def test_folder_without_the_call(tmp_path, place):
    with pytest.raises(InputError, match=r"has no transcript ACM_FY2024Q3\.\*, nor any other of ACM"):
        find_transcript(ACME, tmp_path / place)


# --- the hub's parquet ---

TURNS = [{"speaker": name, "text": words} for name, _, words in SAID]


def hub_row(**changes):
    return {"symbol": "ACM", "company_name": "Acme", "company_id": 7.0, "year": 2024, "quarter": 4,
            "date": "2024-10-30 17:00:00", "content": PLAIN, "structured_content": TURNS} | changes


def hub(path, *rows):
    import pyarrow
    import pyarrow.parquet
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


@pytest.mark.parametrize("day", ["2024-10-30 17:00:00", "2024-10-31", datetime.date(2024, 10, 30),
                                 datetime.datetime(2024, 10, 30, 21)])
def test_hub_row_is_found_by_day_whatever_its_quarter(tmp_path, day):
    other = hub_row(date="2024-07-30" if isinstance(day, str) else type(day)(2024, 7, 30), quarter=3,
                    content="July")
    call = read_hub(hub(tmp_path / "p.parquet", other, hub_row(symbol="OTH", date=day), hub_row(date=day)),
                    ACME)
    assert [who for who, _ in call.turns] == SPEAKERS
    assert call.ticker == "ACM"
    assert call.text.startswith("Operator: Good day")
    assert check_transcript(call, ACME) is call


def test_hub_folder_other_share_class_and_no_turns(tmp_path):
    put(tmp_path / "README.md", "# a data set")
    hub(tmp_path / "parts" / "0.parquet", hub_row(symbol="OTH"))
    hub(tmp_path / "parts" / "1.parquet", hub_row(symbol="ACMB", structured_content=None), hub_row(date=None))
    call = find_transcript(ACME, tmp_path)
    assert (call.ticker, call.text, call.turns) == ("ACMB", PLAIN, ())


def test_hub_refusals(tmp_path):
    with pytest.raises(InputError, match="has no call of ACM on 2024-10-30; its latest: 2024-07-30"):
        read_hub(hub(tmp_path / "a.parquet", hub_row(date="2024-07-30")), ACME)
    with pytest.raises(InputError, match="its latest: none"):
        read_hub(hub(tmp_path / "b.parquet", hub_row(symbol="OTH")), ACME)
    with pytest.raises(InputError, match=r"must have columns symbol, date, .*; structured_content missing"):
        read_hub(
            hub(tmp_path / "c.parquet", {k: v for k, v in hub_row().items() if k != "structured_content"}),
            ACME,
        )
    with pytest.raises(InputError, match="is no readable parquet"):
        read_hub(put(tmp_path / "d.parquet", "x"), ACME)
    with pytest.raises(InputError, match="is no readable parquet"):
        read_hub(tmp_path / "absent.parquet", ACME)
    with pytest.raises(InputError, match="it is cut"):
        find_transcript(ACME, hub(tmp_path / "e.parquet", hub_row(structured_content=TURNS[:3])))


# --- triplets ---

QUESTIONS = (
    "- id: Q1\n  topic: a\n  question: >-\n    What was\n    said?\n"
    "- {id: Q2, topic: b, question: 'Risks?'}\n"
)


@pytest.fixture
def written(tmp_path):
    (tmp_path / "references").mkdir()
    put(tmp_path / "references" / "ACM.yaml", "Q1: |\n  Revenue grew.\n\n  It was 12.\nQ2: |\n  None.\n")
    return put(tmp_path / "q.yaml", QUESTIONS), tmp_path / "references"


def test_triplets_for_each_company_and_question(tmp_path, written):
    first, second = build_triplets([ACME], *written)
    assert (first.id, first.group, first.context) == ("ACM-Q1", "ACM", None)
    assert first.reference == "Revenue grew.\n\nIt was 12."
    assert first.question == "Acme (ACM), FY2024Q3 earnings call of 2024-10-30. What was said?"
    assert second.id == "ACM-Q2"
    folder = as_titled_text(tmp_path).rename(tmp_path / "ACM_FY2024Q3.txt").parent
    for place in (folder, hub(tmp_path / "hub" / "p.parquet", hub_row())):
        triplets = build_triplets([ACME], *written, place)
        assert all("Revenue of the quarter was $12 million" in t.context for t in triplets)


@pytest.mark.parametrize(("file", "content", "says"), [
    ("references/ACM.yaml", "Q1: |\n  Fine.\n", "ACM.yaml has no text for Q2"),
    ("references/ACM.yaml", "Q1: Fine.\nQ2: 12\n", "has no text for Q2"),
    ("references/ACM.yaml", "Q1: Fine.\nQ2: ' '\n", "has no text for Q2"),
    ("references/ACM.yaml", "- Q1\n", "has no text for Q1"),
    ("references/ACM.yaml", "Q1: [", "ACM.yaml is not YAML"),
    ("q.yaml", "Q1: What?", "a list of entries with id, topic and question is needed"),
    ("q.yaml", "- {id: Q1}", "a list of entries with id, topic and question is needed"),
    ("q.yaml", "- {id: [1], question: What}", "a list of entries with id, topic and question is needed"),
    ("q.yaml", "- {id: Q1, question: }", "the question of Q1 must be a text; write it there"),
    ("q.yaml", "- {id: Q1, question: What}\n- {id: Q2, question: 5}", "the question of Q2 must be a text"),
    ("q.yaml", "- {id: Q1, question: What}\n- {id: Q1, question: Why}", "id Q1 occurs more than once"),
])
def test_bad_questions_and_references(tmp_path, written, file, content, says):
    put(tmp_path / file, content)
    with pytest.raises(InputError) as error:
        build_triplets([ACME], *written)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_reference_file(tmp_path, written):
    with pytest.raises(InputError, match=r"OTH\.yaml cannot be read: No such file"):
        build_triplets([ACME | {"ticker": "OTH"}], *written)


@pytest.mark.parametrize(("content", "says"), [
    ("", "every row needs ticker, company"),
    ("ticker,company\nA,Acme\n", "names, symbols, fiscal_period, call_date, transcript, min_chars missing"),
    (",".join(ACME) + 2 * ("\n" + ",".join(ACME.values())), "ticker ACM occurs more than once"),
])
def test_bad_companies(tmp_path, content, says):
    with pytest.raises(InputError, match=says):
        load_companies(put(tmp_path / "c.csv", content))


def test_the_ten_companies():
    companies = {c["ticker"]: c for c in load_companies(data_path("companies.csv"))}
    assert list(companies) == ["AAPL", "NVDA", "MSFT", "GOOGL", "AMZN", "META", "TSLA", "AVGO", "JPM", "LLY"]
    assert all(c["transcript"] == f"{t}_{c['fiscal_period']}" for t, c in companies.items())
    days = [datetime.date.fromisoformat(c["call_date"]) for c in companies.values()]
    assert min(days) == datetime.date(2024, 10, 11)
    assert (
        max(days)
        == datetime.date(2024, 12, 12)
        == datetime.date.fromisoformat(companies["AVGO"]["call_date"])
    )
    july, august, september = 31, 31, 30  # Broadcom's quarters end on 4 August and on 3 November
    assert (july + 4, august - 4 + september) == (35, 57)
    assert "35 days" in companies["AVGO"]["note"]
    assert "57" in companies["AVGO"]["note"]


# --- the real calls ---


@pytest.fixture(scope="module")
def companies():
    return {c["ticker"]: c for c in load_companies(data_path("companies.csv"))}


@needs_mirror
def test_the_ten_calls_pass_and_their_fragments_do_not(companies):
    for company in companies.values():
        call = find_transcript(company, MIRROR)
        assert Path(call.source).stem == company["transcript"]
        for share in (0.5, 0.8, 0.9, 0.95):
            with pytest.raises(InputError, match="it is cut"):
                check_transcript(dataclasses.replace(call, text=call.text[: int(share * len(call.text))]),
                                 company)
        stranger = companies["JPM" if company["ticker"] != "JPM" else "LLY"]
        with pytest.raises(InputError, match=r"another company|does not name the company"):
            check_transcript(call, stranger)


@needs_mirror
@pytest.mark.parametrize(("file", "turns", "speaker", "day"), [
    ("META_Q3_2024.pdf", 30, "Susan Li", "2024-10-30"),
    ("JPM_Q3_2024.pdf", 90, "Jeremy Barnum", "2024-10-11"),
    ("GOOGL_FY2024Q3.alphavantage.json", 40, "Sundar Pichai", None),
    ("JPM_FY2024Q3.alphavantage.json", 80, "Jamie Dimon", None),        # a paraphrase: form cannot tell
    ("AVGO_12-12-2024.earningscall.json", 50, "Hawk Tan", "2024-12-12"),
    ("MSFT_FY2025Q1.motleyfool_scrape.txt", 50, "Satya Nadella", "2024-10-30"),
    ("TSLA_2024Q3.motleyfool_scrape.txt", 100, "Elon Musk", "2024-10-23"),
])
def test_raw_formats_of_the_calls(companies, file, turns, speaker, day):
    call = read_transcript(MIRROR / "raw" / file)
    assert len(call.turns) >= turns
    assert speaker in {who for who, _ in call.turns}
    assert call.date == (datetime.date.fromisoformat(day) if day else None)
    assert check_transcript(call, companies[file.split("_")[0]]) is call


@needs_mirror
@pytest.mark.parametrize(("file", "day"), [
    ("AVGO_09-05-2024.earningscall.json", "2024-09-05"),
    ("JPM_3Q25_bilingual.html", "2025-10-14"),
    ("LLY_3Q25_bilingual.html", "2025-10-30"),
    ("AAPL_FY2025Q3.kaljuvee.md", "2025-07-31"),
    ("TSLA_FY2025Q2.kaljuvee.md", "2025-07-23"),
])
def test_raw_files_of_other_calls_are_refused(companies, file, day):
    call = read_transcript(MIRROR / "raw" / file)
    assert len(call.turns) >= 45
    assert len(call.text) > 40_000
    assert sum("가" <= c <= "힣" for c in call.text) == 0            # of two columns, the English one
    with pytest.raises(InputError, match=f"another call: {day}"):
        check_transcript(call, companies[file.split("_")[0]])
    undated = dataclasses.replace(call, date=None)                  # the quarter gives it away as well
    with pytest.raises(InputError, match=r"its opening names Q\d 202\d"):
        check_transcript(undated, companies[file.split("_")[0]])


@pytest.mark.slow
@needs_mirror
def test_pdf_text_is_that_of_the_edited_copy():
    for pdf_name, txt_name in (
        ("META_Q3_2024.pdf", "META_FY2024Q3.txt"),
        ("JPM_Q3_2024.pdf", "JPM_FY2024Q3.txt"),
    ):
        ours, theirs = (read_transcript(MIRROR / n).text.split() for n in (f"raw/{pdf_name}", txt_name))
        assert abs(len(ours) - len(theirs)) < 0.01 * len(theirs)
        assert len(set(theirs) - set(ours)) < 0.01 * len(set(theirs))
