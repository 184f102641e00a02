"""Frames of values: a row per metric, part, model and triplet, from every kind of result."""

import math
import re
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path

import pandas as pd
import pytest
from study import read_frames, values_frame, write_csv
from test_data import CLAIMS, COVERAGE, EMS, LOST, SCORE

from ems.analysis.frames import COLUMNS, in_order, metric_of, to_frame
from ems.analysis.stats import summarise
from ems.baselines import Claims
from ems.local.figures import FIGURES_RULE
from ems.results import CoverageResult, EMSResult, Figures, ScoreResult, SideFigures
from ems.types import Answer, InputError, Triplet

NAN = math.nan


def test_a_row_says_whose_it_is():
    frame = to_frame([EMS])
    assert list(frame.columns) == list(to_frame([]).columns) == COLUMNS
    names = frame[["metric", "model", "triplet_id", "group", "signature"]].drop_duplicates()
    assert names.to_numpy().tolist() == [
        ["Figures", "m", "t1", "g", f"ems:0|figures:{FIGURES_RULE}"],
        ["EMS(LLM)", "m", "t1", "g", "ems:0|score:llm:kit"],
    ]
    without_a_group = to_frame([replace(EMS, group="")])
    assert set(without_a_group["group"]) == {"t1"}
    assert set(to_frame({"mine": [LOST]})["metric"]) == {"mine"}
    assert list(to_frame({"one": [LOST], "two": [SCORE]})["metric"]) == ["one"] * 5 + ["two"]


def test_figures_have_a_row_for_each_side_that_has_some_once_for_all_results_of_an_answer():
    frame = to_frame({"one": [EMS], "two": [EMS], "three": [replace(EMS, model="n")]})
    figures = frame[frame["metric"] == "Figures"]
    assert figures[
        ["part", "model", "value", "num", "den", "units", "unscored"]
    ].to_numpy().tolist() == [["Recall", model, pytest.approx(1 / 3), 1, 3, 3, 0] for model in "mn"]
    joined = pd.concat([to_frame({"one": [EMS]}), to_frame({"two": [EMS]})])
    assert len(summarise(joined).query("metric == 'Figures'")) == 1
    other = replace(EMS, figures=Figures(SideFigures(2, 1), SideFigures(2, 1)))
    with pytest.raises(InputError, match="more than one row for .'Figures', 'Recall'"):
        summarise(to_frame({"one": [EMS], "two": [other]}))


def test_the_rows_of_a_part_stand_in_the_order_of_the_results():
    names = [("n", "b"), ("n", "a"), ("m", "b"), ("m", "a")]
    results = [replace(EMS, model=model, triplet_id=triplet_id) for model, triplet_id in names]
    frame = to_frame(results)
    recall = frame[(frame["part"] == "Recall") & (frame["metric"] == "EMS(LLM)")]
    assert list(zip(recall["model"], recall["triplet_id"], strict=True)) == names


def listed(section):
    """The names in backticks of each line of each list in a section of a page."""
    lists = []
    for block in section.split("\n\n"):
        if block.startswith("- "):
            lists.append([re.findall("`([A-Za-z_0-9]+)`", line) for line in block.splitlines()])
    return lists


def test_the_documentation_lists_the_columns_of_a_frame_and_the_fields_of_results():
    page = (Path(__file__).parents[1] / "docs" / "usage.md").read_text(encoding="utf-8")
    columns, of_results = listed(page.partition("## Frames and fields")[2].partition("\n## ")[0])
    assert [name for name in chain(*columns) if name != "NaN"] == COLUMNS
    of_any, of_points, of_ems, of_coverage, of_score = of_results
    assert of_points[:2] == ["EMSResult", "CoverageResult"]
    documented = {
        EMSResult: [*of_any, *of_points[2:], *of_ems],
        CoverageResult: [*of_any, *of_points[2:], *of_coverage],
        ScoreResult: [*of_any, *of_score],
    }
    for kind, names in documented.items():
        assert sorted(names) == sorted([kind.__name__, *(field.name for field in fields(kind))])


LABELLED = Claims(
    "t",
    "m",
    ("a", "b", "c"),
    ("d", "e"),
    ("Entailment", "Neutral", None),
    ("Entailment",) * 2,
    recall=1.0,
    precision=0.5,
    f1=2 / 3,
    unscored=1,
)
NONE = CoverageResult("t", "m", (), (), (), (), reason="the reference has no points", signature={})


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        # Scores 0.8 and 0 of weights 1 and 2; the third point is unscored. Of two answer points
        # one was chosen.
        (
            EMS,
            {
                "Refused": (0, 0, 1, 3, 0),
                "Missing": (0.5, 1, 2, 3, 1),
                "Precision": (0.4, 0.8, 2.0, 3, 1),
                "Recall": (0.4, 0.8, 3.0, 3, 1),
                "F1": (0.4, NAN, NAN, 3, 1),
            },
        ),
        (
            LOST,
            {"Refused": (NAN, NAN, NAN, 1, 0)}
            | dict.fromkeys(["Missing", "Precision", "Recall", "F1"], (NAN, NAN, NAN, 1, 1)),
        ),
        # The unscored answer point weighs 2 and is left out. The only reference point is contradicted.
        (
            COVERAGE,
            {
                "Refused": (0, 0, 1, 3, 0),
                "Missing": (0, 0, 1, 3, 1),
                "Contradicted": (1, 1, 1, 3, 1),
                "Recall uncontradicted": (0, 0, 1, 3, 1),
                "Precision": (1.0, 1.0, 1.0, 3, 1),
                "Recall": (0.5, 0.5, 1.0, 3, 1),
                "F1": (2 / 3, NAN, NAN, 3, 1),
            },
        ),
        (
            LABELLED,
            {
                "Refused": (0, 0, 1, 5, 0),
                "Missing": (0, 0, 2, 5, 1),
                "Precision": (0.5, 1, 2, 5, 1),
                "Recall": (1.0, 2, 2, 5, 1),
                "F1": (2 / 3, NAN, NAN, 5, 1),
            },
        ),
        # A side that could not be read counts as one.
        (
            CLAIMS,
            {"Refused": (0, 0, 1, 2, 0)}
            | dict.fromkeys(["Missing", "Precision", "Recall", "F1"], (NAN, NAN, NAN, 2, 2)),
        ),
        # A contradicted claim is not missing.
        (
            replace(LABELLED, response_claims=(), response2answer=("Contradiction", "Neutral")),
            {
                "Refused": (1, 1, 1, 5, 0),
                "Missing": (0.5, 1, 2, 5, 1),
                "Precision": (0.5, 1, 2, 5, 1),
                "Recall": (1.0, 0, 2, 5, 1),
                "F1": (2 / 3, NAN, NAN, 5, 1),
            },
        ),
        (replace(SCORE, value=0.7, unscored=0), {"Score": (0.7, 0.7, 1.0, 1, 0)}),
        # Nothing to judge.
        (
            NONE,
            {"Refused": (1, 1, 1, 0, 0)}
            | dict.fromkeys(["Missing", "Precision", "Recall", "F1"], (NAN, NAN, NAN, 0, 0)),
        ),
    ],
)
def test_values_and_the_sums_behind_them(result, rows):
    frame = to_frame([replace(result, figures=None) if hasattr(result, "figures") else result])
    frame = frame.set_index("part")[["value", "num", "den", "units", "unscored"]]
    assert list(frame.index) == list(rows)
    for part, expected in rows.items():
        assert tuple(frame.loc[part]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("result", "metric"),
    [
        (EMS, "EMS(LLM)"),
        (SCORE, "Judge alone"),
        (CLAIMS, "RAGChecker"),
        (COVERAGE, "Coverage(LLM)"),
        (
            replace(COVERAGE, signature={"coverage": "words:1", "judge": "one that extracts"}),
            "Coverage(local)",
        ),
        (replace(EMS, signature={"score": "rouge:rougeL"}), "EMS(ROUGE)"),
        (replace(EMS, signature={"score": "bertscore:mini"}), "EMS(BERTScore)"),
        (replace(EMS, signature={"score": "mine.words:1a2b"}), "EMS(mine.words)"),
        (replace(SCORE, signature={"metric": "mine.length:1a2b"}), "mine.length"),
    ],
)
def test_a_metric_is_named_by_its_result(result, metric):
    assert metric_of(result) == metric
    assert set(to_frame([result])["metric"]) - {"Figures"} == {metric}


def test_values_of_whole_answers():
    answers = [Answer("a", "m", "x"), Answer("b", "m", "y")]
    frame = values_frame(
        answers, [0.25, NAN], "BLEU", "Score", {"bleu": "1"}, [Triplet("a", "g", "q", "r")]
    )
    expected = [
        ("BLEU", "Score", "m", "a", "g", 0.25, 0.25, 1.0, 1, 0, "bleu:1"),
        ("BLEU", "Score", "m", "b", "b", NAN, NAN, 1.0, 1, 1, "bleu:1"),
    ]
    pd.testing.assert_frame_equal(frame, pd.DataFrame(expected, columns=COLUMNS))
    with pytest.raises(ValueError, match="zip"):
        values_frame(answers, [0.25], "BLEU", "Score", {})


def test_texts_come_back_from_a_table_as_they_were(tmp_path):
    cells = ["@cf/meta/llama", "-x", "=1", "a\rb", "", "1.10", "a\nb", 'a"b,c']
    frame = pd.DataFrame({"model": cells, "value": [-0.5] * len(cells)})
    back = read_frames(write_csv(tmp_path / "t.csv", frame))
    assert list(back["model"]) == [cell.replace("\r", "\n") for cell in cells]
    assert list(back["value"]) == [-0.5] * len(cells)
    assert list(frame["model"]) == cells  # the caller's table is as it was


def test_names_are_read_back_as_text(tmp_path):
    """What pandas would take for a number or for missing is a name, in ids, groups and models."""
    names, groups = ["1.10", "007", "N/A", "None"], ["nan", "", "1e5", "1-1"]
    answers = [Answer(name, "7", "x") for name in names]
    triplets = [Triplet(name, group, "q", "r") for name, group in zip(names, groups, strict=True)]
    frame = values_frame(answers, [0.25, NAN, 1 / 3, 1.0], "BLEU", "Score", {}, triplets)
    back = read_frames(write_csv(tmp_path / "a.csv", frame), write_csv(tmp_path / "b.csv", frame))
    assert list(back["triplet_id"]) == names * 2
    assert list(back["group"]) == groups * 2
    assert set(back["model"]) == {"7"}
    assert list(back["value"].fillna(-1)) == [0.25, -1, 1 / 3, 1.0] * 2
    with pytest.raises(InputError, match="none.csv cannot be read"):
        read_frames(tmp_path / "none.csv")


def test_rows_stand_in_the_order_of_table_1():
    rows = [
        ("own", "Score"),
        ("Figures", "Recall"),
        ("ROUGE", "Refused"),
        ("Coverage(local)", "F1"),
        ("ROUGE", "F1"),
        ("Judge alone", "Score"),
        ("ROUGE", "Recall"),
        ("EMS(LLM)", "F1"),
        ("BLEU", "Score"),
        ("ROUGE", "Precision"),
    ]
    ordered = in_order(pd.DataFrame(rows, columns=["metric", "part"]))
    assert list(ordered.itertuples(index=False, name=None)) == [
        ("BLEU", "Score"),
        ("ROUGE", "Precision"),
        ("ROUGE", "Recall"),
        ("ROUGE", "F1"),
        ("ROUGE", "Refused"),
        ("EMS(LLM)", "F1"),
        ("Judge alone", "Score"),
        ("Coverage(local)", "F1"),
        ("Figures", "Recall"),
        ("own", "Score"),
    ]


def test_rows_without_a_part_stand_in_the_order_of_metrics_and_models():
    """As in the report's table of support."""
    rows = [("EMS(LLM)", "small"), ("EMS(LLM)", "large"), ("BLEU", "large"), ("BLEU", "small")]
    ordered = in_order(pd.DataFrame(rows, columns=["metric", "model"]))
    assert list(ordered.itertuples(index=False, name=None)) == [rows[3], rows[2], *rows[:2]]


def test_models_keep_the_order_in_which_they_first_come():
    """Also where the first of them has no row of the first metric, or of a part of it."""
    rows = [
        ("EMS(LLM)", "F1", "small-1B"),
        ("EMS(LLM)", "F1", "large"),
        ("EMS(LLM)", "F1", "baseline-70B"),
        ("BLEU", "Score", "baseline-70B"),
        ("BLEU", "Score", "large"),
    ]
    ordered = in_order(pd.DataFrame(rows, columns=["metric", "part", "model"]))
    assert list(ordered.itertuples(index=False, name=None)) == [rows[4], rows[3], *rows[:3]]
