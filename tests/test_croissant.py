"""data/croissant.json: it describes the files as they are, and says what other files say."""

import json
import re
from collections import Counter

import croissant
import pandas as pd
import pytest
import yaml

import ems


@pytest.fixture(scope="module")
def committed():
    return json.loads(croissant.FILE.read_text(encoding="utf-8"))


def test_every_file_is_described_as_it_is(committed):
    now = croissant.described()
    assert croissant.changes(committed, now) == [], "run `python tests/croissant.py --write`"
    assert croissant.FILE.read_text(encoding="utf-8") == croissant.text_of(now) + "\n"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A small data set with its description."""
    for folder in croissant.FOLDERS:
        (tmp_path / folder).mkdir()
    row = {"key": "a", "text": "57", "date": "2026-11-21T10:00:00+00:00", "sent": {}}
    (tmp_path / "human" / "replies.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "q3-2024" / "ladder_scores.csv").write_text("model,n,clear,BLEU\na,1,True,0.5\n")
    (tmp_path / "croissant.json").write_text('{"name": "by hand"}')
    monkeypatch.setattr(croissant, "DATA", tmp_path)
    monkeypatch.setattr(croissant, "FILE", tmp_path / "croissant.json")
    croissant.main(["--write"])
    return tmp_path


def test_the_entries_say_what_is_in_the_files(copied):
    written = json.loads((copied / "croissant.json").read_text())
    assert (written["name"], written["datePublished"]) == ("by hand", "2026-11-21")
    types = {}
    for records in written["recordSet"]:
        types.update({field["@id"]: field["dataType"] for field in records["field"]})
    assert types == {
        "human/replies.jsonl/key": "sc:Text",
        "human/replies.jsonl/text": "sc:Text",
        "human/replies.jsonl/date": "sc:DateTime",
        "q3-2024/ladder_scores.csv/model": "sc:Text",
        "q3-2024/ladder_scores.csv/n": "sc:Integer",
        "q3-2024/ladder_scores.csv/clear": "sc:Boolean",
        "q3-2024/ladder_scores.csv/BLEU": "sc:Float",
    }


def test_a_changed_a_new_and_a_lost_recording_are_named(copied, capsys):
    (copied / "human" / "masked_replies.jsonl").write_text('{"date": "2026-11-25", "key": "b"}\n')
    (copied / "human" / "replies.jsonl").write_text('{"key": "a", "text": "58"}\n')
    (copied / "q3-2024" / "other.jsonl").write_text('{"n": 1}\n')
    (copied / "q3-2024" / "ladder_scores.csv").unlink()
    before = croissant.FILE.read_text()
    croissant.main([])
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "datePublished",
        "human/masked_replies.jsonl",
        "human/replies.jsonl",
        "q3-2024/ladder_scores.csv",
        "q3-2024/other.jsonl",
        "5 entries of croissant.json differ from the files",
    ]
    assert croissant.FILE.read_text() == before
    with pytest.raises(SystemExit, match="usage"):
        croissant.main(["--wrong"])


def test_names_are_unique_and_every_field_has_its_file(committed):
    entries = [*committed["distribution"], *committed["recordSet"]]
    files = {entry["@id"] for entry in committed["distribution"]}
    for records in committed["recordSet"]:
        entries += records["field"]
        assert records["field"], records["name"]
        for field in records["field"]:
            assert field["source"]["fileObject"]["@id"] in files
    names = Counter([entry["@id"] for entry in entries])
    assert [name for name, n in names.items() if n > 1] == []


def test_the_replies_and_the_scores_are_in_it(committed):
    names = {entry["name"] for entry in committed["distribution"]}
    recorded = {path.relative_to(croissant.DATA).as_posix() for path in recordings()}
    assert recorded
    assert recorded <= names
    assert {"human/ragchecker_scores.csv", "human/ragchecker_labels.csv"} <= names


def recordings():
    return croissant.DATA.rglob("*replies.jsonl")


def test_it_says_what_the_citation_and_the_package_say(committed):
    citation = yaml.safe_load((croissant.DATA.parent / "CITATION.cff").read_text(encoding="utf-8"))
    paper = citation["preferred-citation"]
    assert committed["version"] == ems.__version__
    assert committed["license"][0].endswith(f"/{citation['license']}.html")
    assert committed["creator"]["name"] == citation["authors"][0]["name"]
    for text in (paper["title"], str(paper["year"]), paper["identifiers"][0]["value"]):
        assert text in committed["citeAs"]
    for author in paper["authors"]:
        assert f"{author['family-names']}, {author['given-names'][0]}." in committed["citeAs"]


def test_its_licences_are_those_that_the_readmes_name(committed):
    readme = (croissant.DATA / "human" / "README.md").read_text(encoding="utf-8")
    named = re.sub(r"\s+", " ", readme)
    for licence in re.findall(r"CC BY(?:-NC)? 4\.0", named):
        url = f"https://spdx.org/licenses/{licence.replace(' ', '-')}.html"
        assert url in committed["license"]
        assert licence in committed["usageInfo"]


def test_multiples_of_five_are_rarer_than_by_chance(committed):
    assert "multiples of five are rarer than by chance" in committed["rai:dataBiases"]
    numbers = []
    for path in recordings():
        rows = pd.DataFrame(croissant.rows_of(path))
        texts = rows.loc[rows["task"] == "judge", "text"]
        numbers += [number for number in map(int, texts) if 0 < number < 100]
    assert len(numbers) > 1_000
    assert sum(number % 5 == 0 for number in numbers) / len(numbers) < 19 / 99
