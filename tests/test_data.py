"""Rows from files, dictionaries and frames: what is read, and the one line for what is not."""

import json
import math
from itertools import chain

import pandas as pd
import pytest
from doubles import refused

from ems.analysis.labels import read_labels
from ems.baselines import Claims
from ems.data import (
    iter_results,
    load_answers,
    load_results,
    load_triplets,
    notify_unanswered,
    read_results,
    worst_results,
)
from ems.io import write_jsonl
from ems.results import CoverageResult, EMSResult, Figures, ScoreResult, SideFigures, Support
from ems.types import Answer, GivenPoint, Triplet

T = {"id": "a", "group": "g", "question": "q?", "reference": "r"}
A = {"triplet_id": "a", "model": "m", "answer": "x"}


def saved(tmp_path, *rows):
    path = tmp_path / "f.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows),
        encoding="utf-8",
    )
    return path


def without(row, key):
    return {k: v for k, v in row.items() if k != key}


# --- what is read


def test_triplets_and_answers_of_json_lines(tmp_path):
    odd = "one\u2028two\x85three"  # no line ends, for JSON lines
    path = saved(
        tmp_path,
        {**T, "reference": odd, "source": 7},
        "",
        {**without(T, "group"), "id": "b", "context": "c"},
    )
    assert load_triplets(path) == [Triplet("a", "g", "q?", odd), Triplet("b", "b", "q?", "r", "c")]
    path = saved(tmp_path, {**A, "answer": ""}, {**A, "model": "n", "tokens": 5})
    assert load_answers(path) == [Answer("a", "m", ""), Answer("a", "n", "x")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.json", json.dumps([T, {**T, "id": "b"}], indent=1)),
        ("f.csv", "id,group,question,reference,context\na,g,q?,r,\nb,g,q?,r,\n"),
        ("f.CSV", "\ufeffid;group;question;reference\r\na;g;q?;r\r\nb;g;q?;r\r\n"),
        ("f.csv", "id,group,question,reference\ra,g,q?,r\rb,g,q?,r\r"),
        ("f.tsv", 'id\tgroup\tquestion\treference\na\tg\tq?\t"r"\nb\tg\tq?\tr\n'),
    ],
)
def test_forms_of_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert load_triplets(tmp_path / name) == [
        Triplet("a", "g", "q?", "r"),
        Triplet("b", "g", "q?", "r"),
    ]


def test_cells_of_a_csv_may_be_long_and_hold_what_they_like(tmp_path):
    long = 'growth; of 5 %, or\n"more" ' * 40_000
    pd.DataFrame([{**A, "answer": long}]).to_csv(tmp_path / "a.csv", index=False)
    assert load_answers(tmp_path / "a.csv") == [Answer("a", "m", long)]


def test_whole_numbers_are_names(tmp_path):
    triplets = load_triplets(saved(tmp_path, {**T, "id": 7, "group": 1}))
    assert triplets == [Triplet("7", "1", "q?", "r")]
    (tmp_path / "a.csv").write_text("triplet_id,model,answer\n007,1,x\n7,1,y\n")
    answers = load_answers(tmp_path / "a.csv")
    assert [a.triplet_id for a in answers] == ["007", "7"]  # what is written stands as it is
    notify_unanswered(triplets, answers[1:])


def test_rows_of_dictionaries_and_of_a_frame():
    rows = [T, {"id": 2, "group": None, "question": "q", "reference": "r", "context": math.nan}]
    expected = [Triplet("a", "g", "q?", "r"), Triplet("2", "2", "q", "r")]
    assert load_triplets(rows) == load_triplets(pd.DataFrame(rows)) == expected
    frame = pd.DataFrame({"triplet_id": [1, 2], "model": "m", "answer": ["x", None]}).astype(
        {"answer": "string"}
    )
    assert load_answers(frame[:1]) == [Answer("1", "m", "x")]
    with refused("row 1: 'answer' is empty; a refusal is the text ''"):
        load_answers(frame)


def test_given_points_stand_in_place_of_the_reference(tmp_path):
    points = [
        {"text": "one", "weight": 2},
        {"text": "two"},
        {"text": "three", "weight": 0, "kind": "okay"},
    ]
    triplets = load_triplets(saved(tmp_path, {"id": "a", "question": "q", "points": points}))
    assert triplets == [
        Triplet(
            "a",
            "a",
            "q",
            "",
            points=(GivenPoint("one", 2), GivenPoint("two"), GivenPoint("three", 0)),
        )
    ]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_file_in_another_encoding_is_read(tmp_path, capsys, name):
    text = "triplet_id,model,answer\na,m,5 €\n"
    if name == "t.jsonl":
        text = json.dumps({**A, "answer": "5 €"}, ensure_ascii=False)
    for encoding in ("cp1252", "utf-16"):
        path = tmp_path / f"{encoding}_{name}"
        path.write_text(text, encoding=encoding)
        assert load_answers(path) == [Answer("a", "m", "5 €")]
        assert f"{path} is not UTF-8" in capsys.readouterr().err


def test_names_are_read_with_blanks_and_capital_letters(tmp_path):
    rows = [{"Id ": " a ", "Group": "g\xa0", "QUESTION": "q?", " reference": "r", "id_": 1}]
    path = tmp_path / "t.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    assert load_triplets(rows) == load_triplets(path) == [Triplet("a", "g", "q?", "r")]
    answers = load_answers([{"Triplet ID": "a", "Model": "m ", "answer": " x ", "Answer": "y"}])
    assert answers == [Answer("a", "m", " x ")]


def test_records_and_frames_are_rows_too():
    triplet = Triplet("a", "g", "q?", "", points=(GivenPoint("one", 2),))
    assert load_triplets([triplet]) == [triplet]
    assert load_answers(iter([Answer("a", "m", "")])) == [Answer("a", "m", "")]


def test_the_line_for_excel_is_no_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\ntriplet_id;model;answer\na;m;x, y\nb;m\n")
    with refused(f"{path}, line 4: 'answer' is empty"):
        load_answers(path)
    path.write_text("\ufeffsep=|\r\ntriplet_id|model|answer\r\na|m|x, y\r\n", newline="")
    assert load_answers(path) == [Answer("a", "m", "x, y")]


@pytest.mark.parametrize(
    ("column", "notice"),
    [
        ("groupp", "columns not used: groupp; did you mean 'group'?"),
        ("Contex", "columns not used: contex; did you mean 'context'?"),
        ("source", ""),
    ],
)
def test_a_misspelt_column_is_named(tmp_path, capsys, column, notice):
    path = saved(tmp_path, {**without(T, "group"), column: "x"})
    load_triplets(path)
    assert capsys.readouterr().err == (f"ems: {path}: {notice}\n" if notice else "")
    load_triplets([{**T, "context": "c", column: "x"}])  # the field is there: nothing is misspelt
    assert capsys.readouterr().err == ""


def test_labels_are_read_with_arabic_digits_and_decimal_sign():
    rows = []
    for i, label in enumerate(["٠٫٥", "٠", "1", " 0.25 "]):
        rows.append({"triplet_id": str(i), "model": "m", "label": label})
    assert read_labels(rows)["label"].tolist() == [0.5, 0.0, 1.0, 0.25]
    with refused("label row 0: 'label': Input should be a valid number", "'0,5'"):
        read_labels([{**rows[0], "label": "0,5"}])


# --- what is not


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "f.jsonl has no rows"),
        (["", " "], "has no rows"),
        (["[]"], "has no rows"),
        (
            [T, without(T, "question")],
            "line 2: 'question' is missing; the columns are 'id', 'group', 'reference'",
        ),
        ([A], "line 1: 'id' is missing"),  # answers in place of triplets
        (
            [{"id": "a", "question": "q", "refrence": "r"}],
            "'reference' is missing; the columns are 'id', 'question', 'refrence'",
        ),
        ([{**T, "reference": None}], "'reference' is empty"),
        ([T, {**T, "id": "b", "reference": " \n"}], "line 2: 'reference' is empty"),
        (
            [{**T, "reference": 3}],
            "line 1: 'reference': Input should be a valid string, got int '3'",
        ),
        ([{**T, "reference": "\ud800"}], "line 1: a text holds half a surrogate pair"),
        ([T, {**T, "id": "b"}, T], "line 3: a second row of 'a'"),
        ([{**T, "id": " "}], "'id' is empty"),
        ([T, '{"id": "b", '], "line 2 is not JSON"),
        ([json.dumps([T, 3])], "entry 1: an object with named values"),
        (["[3"], "line 1 is not JSON"),
        (
            [{**T, "points": []}, without({**T, "points": []}, "reference")],
            "line 2: 'reference' is missing",
        ),
        ([{**T, "points": "one"}], "'points': Input should be a valid tuple, got str 'one'"),
        ([{**T, "points": ["one"]}], "'points.0': Input should be"),
        ([{**T, "points": [{"weight": 1}]}], "'points.0.text': Field required"),
        *(
            (
                [{**T, "points": [{"text": "one"}, point]}],
                "line 1: each of the points needs a text and a weight from 0 to 1e9",
            )
            for point in (
                {"text": " "},
                {"text": "y", "weight": -1},
                {"text": "x", "weight": 1e300},
            )
        ),
    ],
)
def test_bad_triplets_get_one_clear_line(tmp_path, rows, says):
    path = saved(tmp_path, *rows)
    with refused(says, str(path)):
        load_triplets(path)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (None, "triplets are a file, a frame or a list of rows, got NoneType"),
        ([], "the list of triplets has no rows"),
        (pd.DataFrame([A]), "triplet row 0: 'id' is missing; the columns are 'triplet_id'"),
        ({"id": "a"}, "triplets are a file, a frame or a list of rows, got dict"),
        ([Answer("a", "m", "x")], "triplet row 0: 'id' is missing"),
        ([Triplet("a", "g", "q", None)], "triplet row 0: 'reference' is empty"),
        ([Triplet], "triplet row 0: an object with named values is needed"),
    ],
)
def test_what_is_no_list_of_triplets_gets_one_clear_line(source, says):
    with refused(says):
        load_triplets(source)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", "", "has no rows"),
        ("a.jsonl", f"{json.dumps(A)}\n{json.dumps(A)}", "line 2: a second row of ('a', 'm')"),
        ("a.jsonl", json.dumps({**A, "model": ""}), "'model' is empty"),
        (
            "a.csv",
            "triplet_id,model,answer\na,m,one, two\n",
            "line 2: more cells than the header has; quote texts that hold ','",
        ),
        ("a.csv", "triplet_id;model;answer\na;m\n", "line 2: 'answer' is empty"),
        (  # without a header
            "a.csv",
            f"a,m,{'a long answer ' * 99}\n" * 2,
            "'triplet_id' is missing; the columns are 'a', 'm', "
            "'a_long_answer_a_long_answer_a_long_answer_a_long_answer_a_…",
        ),
        (
            "a.csv",
            "triplet_id,model,answer,answer\na,m,x,y\n",
            "the header names a column more than once",
        ),
        ("a.csv", 'triplet_id,model,answer\na,m,"x\n', "is not CSV"),
    ],
)
def test_bad_answers_get_one_clear_line(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with refused(says):
        load_answers(tmp_path / name)


def test_the_join_names_gaps_and_refuses_strangers(capsys):
    triplets = [Triplet(i, "g", "q", "r") for i in "abc"]
    done = [Answer(i, "m", "x") for i in "abc"]
    notify_unanswered(triplets, done)
    assert capsys.readouterr().err == ""
    notify_unanswered(triplets, [*done, Answer("b", "n", "")])
    assert capsys.readouterr().err == "ems: n left 2 of 3 triplets unanswered, e.g. a\n"
    with refused("2 unknown triplets: 'x', 'y'; there are 3: 'a'"):
        notify_unanswered(triplets, [Answer("y", "m", ""), Answer("x", "m", ""), *done])


# --- results

SIGNED = {"signature": {"ems": "0", "score": "llm:kit"}, "question": "q", "group": "g"}
EMS = EMSResult(
    "t1",
    "m",
    ("a", "b", "c"),
    ("x", "y"),
    (0, -1, None),
    (0.8, 0.0, None),
    recall=0.4,
    precision=0.4,
    f1=0.4,
    ref_weights=(1.0, 2.0, 1.0),
    unscored=1,
    support=(Support("silent"), Support(None, reason="timeout")),
    figures=Figures(SideFigures(3, 1, ((0, 0, 1), (2, 0, 1))), SideFigures(0, 0), ()),
    **SIGNED,
)
LOST = EMSResult("t2", "m", ("a",), (), (None,), (None,), unscored=1, reason="lost", **SIGNED)
COVERAGE = CoverageResult(
    "t1",
    "m",
    ("a",),
    ("x", "y"),
    (0.5,),
    (1.0, None),
    ans_weights=(1.0, 2.0),
    nearest=(1,),
    contradicted=(0,),
    recall=0.5,
    precision=1.0,
    f1=2 / 3,
    unscored=1,
    signature={"coverage": "llm:kit"},
)
SCORE = ScoreResult("t1", "m", math.nan, unscored=1, reason="no reply", signature={"judge": "j"})
CLAIMS = Claims("t1", "m", ("x",), None, ("Neutral",), (), unscored=2, signature={"judge": "j"})


def test_every_kind_of_result_comes_back_as_it_was_written(tmp_path):
    results = [EMS, LOST, COVERAGE, SCORE, CLAIMS]
    by_metric = load_results(write_jsonl(tmp_path / "r.jsonl", [r.to_dict() for r in results]))
    assert list(by_metric) == ["EMS(LLM)", "Coverage(LLM)", "Judge alone", "RAGChecker"]
    # Texts are compared, since nan is not equal to itself.
    assert repr(list(chain(*by_metric.values()))) == repr(results)


def test_results_of_older_versions_have_no_figures_and_what_they_say_of_numbers_is_left_out(
    tmp_path,
):
    old = EMS.to_dict()
    del old["figures"]
    old["support"] = [{"label": None, "missing": ["9"], "reason": "1 of 2 numbers found"}] * 2
    (result,) = load_results(saved(tmp_path, old))["EMS(LLM)"]
    assert result.figures is None
    assert result.support == (Support(None, reason="1 of 2 numbers found"),) * 2


def test_results_are_read_one_at_a_time(tmp_path):
    results = iter_results(saved(tmp_path, EMS.to_dict(), "broken"))
    assert next(results) == ("EMS(LLM)", EMS)
    with refused("line 2 is not JSON"):
        next(results)


def test_the_worst_results_of_each_model_are_kept_and_the_values_of_all(tmp_path):
    results = []
    for model in "mn":
        for i, value in enumerate((0.5, math.nan, 0.1, 0.9, 0.1)):
            results.append(ScoreResult(f"t{i}", model, value))
    path = saved(tmp_path, *(result.to_dict() for result in results))
    # An answer without a value stands last.
    for most, kept in ((2, ["t2", "t4"]), (9, ["t2", "t4", "t0", "t3", "t1"])):
        worst, rows = worst_results(path, most)
        assert [r.model for r in worst["Judge alone"]] == ["m"] * len(kept) + ["n"] * len(kept)
        assert [r.triplet_id for r in worst["Judge alone"]] == kept * 2
        assert len(rows) == len(results)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([A], "line 1: not a result of ems evaluate, got"),
        (["[]"], "not a result of ems evaluate, got '[]'"),
        ([EMS.to_dict(), EMS.to_dict()], "line 2: a second result of ('EMS(LLM)', 't1', 'm')"),
        *(
            ([{**EMS.to_dict(), **change}], says)
            for change, says in (
                ({"match": [0, -1]}, "line 1: match, score and ref_weights must"),
                ({"match": [0, 5, None]}, "line 1: match[1] must"),
                ({"match": [0, "one", None]}, "'match.1'"),
                ({"score": [0.8, 2, None]}, "line 1: score[1] must"),
                ({"ref_points": "abc"}, "'ref_points': Input should be a valid tuple"),
                ({"triplet_id": None}, "'triplet_id': Input should be a valid string"),
                ({"signature": "ems:0"}, "'signature': Input should be a valid dictionary"),
            )
        ),
    ],
)
def test_what_is_no_result_gets_one_clear_line(tmp_path, rows, says):
    with refused(says):
        load_results(saved(tmp_path, *rows))


def saved_scores(path, value, *models, judge="j"):
    """A file in which the judge alone gives each model this value for question t1."""
    rows = []
    for model in models:
        rows.append(ScoreResult("t1", model, value, signature={"judge": judge}).to_dict())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("model", "judge", "is_joined"), [("n", "j", True), ("m", "j", False), ("n", "k", False)]
)
def test_a_metric_of_several_files_is_one_unless_models_repeat_or_settings_differ(
    tmp_path, model, judge, is_joined
):
    first = saved_scores(tmp_path / "a.jsonl", 0.5, "m")
    second = saved_scores(tmp_path / "b.jsonl", 0.7, model, judge=judge)
    results, values = read_results([first, second])
    names = ["Judge alone"]
    if not is_joined:
        names = [f"Judge alone, {first}", f"Judge alone, {second}"]
    assert list(results) == names
    assert values[["metric", "value"]].to_numpy().tolist() == [[names[0], 0.5], [names[-1], 0.7]]
    assert list(read_results([first])[0]) == ["Judge alone"]
