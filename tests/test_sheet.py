"""The page of `ems label`: which points and pairs it has, what it hides, and its script by keys."""

import json
import re
import shutil
import subprocess
from collections import Counter
from itertools import product
from math import nan
from pathlib import Path

import pytest
from doubles import refused
from pages import assert_runs_only_its_own

from ems.analysis.labels import sheets_text
from ems.analysis.sheet import pair_items, point_items, save_sheet
from ems.cli import main
from ems.io import write_jsonl
from ems.results import CoverageResult, ScoreResult

QUESTIONS = 8
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e$style"


def result(number, model="m", scores=(0.9, 0.4, 0.0), **fields):
    """A result of three reference points: covered, in part and not covered."""
    return CoverageResult(
        f"t{number}",
        model,
        ref_points=tuple(f"point {i} of t{number}" for i in range(3)),
        ans_points=("An answer.",),
        ref_score=scores,
        ans_score=(0.5,),
        question=f"question {number}",
        group=f"g{number}",
        recall=sum(score or 0 for score in scores) / 3,
        f1=sum(score or 0 for score in scores) / 3,
        signature={"coverage": "llm:x", "judge": "j"},
        **fields,
    )


def results(*models):
    answers = product(range(QUESTIONS), models or ["m"])
    return [result(number, model) for number, model in answers]


@pytest.fixture
def sheet(tmp_path):
    def written(given, number=60, **options):
        path = tmp_path / "sheet.html"
        save_sheet(given, path, number, **{"whole": {}, **options})
        return path.read_text(encoding="utf-8")

    return written


def items_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


# --- the sample ---


def test_each_stratum_gives_an_item_in_turn_so_that_rare_words_are_seen(sheet):
    given = [*results("a", "b"), result(99, "a", (0.9, 0.9, 0.9), contradicted=(1,))]
    every = {item["id"]: item for item in point_items(given)}
    drawn = items_of(sheet(given, 14))
    words = Counter((every[item["id"]]["word"], *every[item["id"]]["models"]) for item in drawn)
    assert words == {
        ("contradicted", "a"): 1,
        ("covered", "a"): 3,
        ("covered", "b"): 2,
        ("in part", "a"): 2,
        ("in part", "b"): 2,
        ("not covered", "a"): 2,
        ("not covered", "b"): 2,
    }
    sizes = {every[item["id"]]["word"]: item["size"] for item in drawn if item["stratum"] < 2}
    assert sizes == {"contradicted": 1, "covered": QUESTIONS + 2}


def test_the_sample_is_always_the_same_and_part_of_a_larger_one(sheet):
    few = sheet(results("a", "b"), 10)
    assert sheet(results("a", "b")[::-1], 10) == few
    many = {item["id"] for item in items_of(sheet(results("a", "b"), 20))}
    assert {item["id"] for item in items_of(few)} < many


def test_points_of_one_answer_stand_together(sheet):
    places = [(item["question"], item["point"][-2:]) for item in items_of(sheet(results()))]
    assert len(places) == 3 * QUESTIONS
    assert sum(a != b for a, b in zip(places, places[1:], strict=False)) == QUESTIONS - 1


def test_unscored_points_and_results_without_points_are_not_labelled():
    given = [result(1, scores=(None, 0.5, 0.0)), ScoreResult("t2", "m", 0.5)]
    assert [item["point"] for item in point_items(given)] == ["point 1 of t1", "point 2 of t1"]
    assert [item["share"] for item in point_items(given)] == [0.5, 0.5]
    assert list(pair_items(given)) == []


def test_answers_that_a_judge_scored_as_a_whole_are_labelled_as_pairs_with_their_texts(sheet):
    given = [ScoreResult("t1", "a", 0.5), ScoreResult("t1", "b", 0.7), ScoreResult("t1", "c", nan)]
    (pair,) = pair_items(given)  # an answer without a value is in no pair
    assert (pair["word"], set(pair["models"])) == ("b", {"a", "b"})
    with refused("these results keep no texts: add --triplets FILE and --answers FILE"):
        sheet(given, pairs=True)
    texts = {("t1", "a"): ("Reference.", "Up."), ("t1", "b"): ("Reference.", "Down.")}
    (item,) = items_of(sheet(given, pairs=True, whole=texts))
    assert (item["reference"], set(item["answers"])) == ("Reference.", {"Up.", "Down."})


def test_pairs_stand_in_the_order_of_a_hash_and_not_of_names_or_values():
    good, bad = (0.9, 0.9, 0.9), (0.1, 0.1, 0.1)
    given = []
    for number in range(40):
        given += [result(number, "a", good), result(number, "b", bad)]
    pairs = list(pair_items(given))
    assert {pair["word"] for pair in pairs} == {"a"}
    assert 10 < sum(pair["models"] == ("a", "b") for pair in pairs) < 30
    assert next(pair_items([result(1, "a"), result(1, "b")]))["word"] == "equal"


def test_nothing_to_label_is_refused(tmp_path):
    for given, number in (([], 60), (results(), 0), ([ScoreResult("t", "m", 0.5)], 60)):
        with refused("there is nothing to label"):
            save_sheet(given, tmp_path / "s.html", number, whole={})
    with refused("results of --scorer judge have no points: use --pairs"):
        save_sheet([ScoreResult("t", "m", 0.5)], tmp_path / "s.html", 60, whole={})
    with refused("there is nothing to label"):
        save_sheet(results("m"), tmp_path / "s.html", 60, pairs=True, whole={})


# --- the page ---


def test_the_page_names_no_model_no_score_and_no_word_of_the_metric(sheet):
    for pairs in (False, True):
        page = sheet(results("secret-model", "other-model"), pairs=pairs)
        assert "secret-model" not in page
        for item in items_of(page):
            shown = {"id", "stratum", "size", "question", "point", "reference", "answers"}
            assert set(item) == shown


def test_whole_texts_take_the_place_of_points(sheet):
    whole = {("t1", "a"): ("whole reference", "whole\nanswer")}
    (item,) = items_of(sheet([result(1, "a")], 1, whole=whole))
    assert (item["reference"], item["answers"]) == ("whole reference", ["whole\nanswer"])
    (item,) = items_of(sheet([result(2, "a")], 1, whole=whole))
    assert item["answers"] == ["An answer."]


def test_hostile_texts_stay_text(sheet):
    page = sheet([result(1)], whole={("t1", "m"): (HOSTILE, HOSTILE)})
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "\u202e" not in page
    assert items_of(page)[0]["answers"] == [HOSTILE.replace("\u202e", "\ufffd")]


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(sheet):
    assert_runs_only_its_own(sheet(results()))


# --- the page's script, by keys ---


@pytest.fixture
def pressed(tmp_path, sheet):
    """What the page shows after each of some steps; `label_page.js` has what a step may be."""
    node = shutil.which("node")
    if not node:
        pytest.skip("node, which runs the page's script, is not here")
    sheet(results(), 4)

    def shown(*steps):
        command = [node, Path(__file__).parent / "label_page.js", tmp_path / "sheet.html"]
        text = json.dumps(steps)
        run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    return shown


def test_keys_label_move_undo_and_save(pressed, tmp_path):
    first, typed, moved, undone, *_, saved = pressed(
        ["name", 'A, "B"'],
        ["key", "1"],
        ["key", "ArrowLeft"],
        ["key", "u"],
        ["key", "4"],
        ["key", "9"],
        ["key", "3"],
        ["key", "2"],
        ["key", "5"],
        ["key", "s"],
    )
    assert (first["count"], first["who"]) == ("1 of 4 · 0 labelled", "A   B")
    assert typed["count"] == "2 of 4 · 1 labelled"
    assert (moved["count"], len(moved["pressed"])) == ("1 of 4 · 1 labelled", 1)
    assert moved["pressed"][0].startswith("1 stated")
    assert (undone["count"], undone["pressed"]) == ("1 of 4 · 0 labelled", [])
    assert saved["count"] == "4 of 4 · 4 labelled"
    assert saved["saved"]["name"] == "labels-A---B.csv"
    head, *rows = saved["saved"]["text"].splitlines()
    assert head == "id,stratum,size,label,by"
    assert [row.split(",")[3] for row in rows] == [
        "contradicted",
        "not stated",
        "in part",
        "cannot tell",
    ]
    labels = tmp_path / "labels.csv"
    labels.write_text(saved["saved"]["text"])
    path = write_jsonl(tmp_path / "r.jsonl", [result.to_dict() for result in results()])
    assert "labels.csv: 3 labels" in sheets_text([path], [labels])


def test_progress_is_kept_for_each_person_and_goes_on_from_a_file(pressed):
    steps = [["name", "A"], ["key", "1"], ["key", "2"], ["key", "s"], ["open", ""]]
    *_, again = pressed(*steps)
    assert (again["count"], again["who"]) == ("3 of 4 · 2 labelled", "A")
    text = again["saved"]["text"]
    *_, other = pressed(*steps, ["name", "B"])
    assert other["count"] == "1 of 4 · 0 labelled"  # another person does not see these labels
    read, closed = pressed(["load", text.replace(",", ";")], ["load", "id,label\nx,stated\n"])
    assert (read["count"], read["who"]) == ("3 of 4 · 2 labelled", "A")
    assert read["notice"].startswith("2 of 2 labels of the file are of this sheet")
    assert closed["count"] == "This file has no labels of this sheet."


# --- the command ---


def test_the_command_writes_the_page(tmp_path, capsys):
    rows = [result.to_dict() for result in results("a", "b")]
    path = str(write_jsonl(tmp_path / "results.jsonl", rows))
    page = tmp_path / "page.html"
    assert main(["label", path, "-o", str(page), "--number", "5"]) == 0
    assert capsys.readouterr().out == f"{page}: 5 points of Coverage(LLM) to label\n"
    assert main(["label", path, "-o", str(page), "--pairs"]) == 0
    assert f"{QUESTIONS} pairs" in capsys.readouterr().out
    triplets = [{"id": f"t{i}", "question": "q", "reference": "whole"} for i in range(QUESTIONS)]
    answers = [{"triplet_id": "t1", "model": "a", "answer": "the whole answer"}]
    texts = ["--triplets", str(write_jsonl(tmp_path / "t.jsonl", triplets))]
    assert main(["label", path, "-o", str(page), *texts]) == 2
    assert "give the other one too" in capsys.readouterr().err
    texts += ["--answers", str(write_jsonl(tmp_path / "a.jsonl", answers))]
    assert main(["label", path, "-o", str(page), *texts]) == 0
    assert "the whole answer" in page.read_text(encoding="utf-8")
    assert main(["label", path, "-o", path]) == 2
    assert "would be lost" in capsys.readouterr().err
