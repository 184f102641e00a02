"""Two judgements of the same points, by hand."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
from scipy.stats import spearmanr
from study.reliability import (
    agreement_of_results,
    agreement_table,
    changes,
    repeat_findings,
    second_readings,
)

from ems.analysis.frames import to_frame
from ems.io import write_jsonl
from ems.results import EMSResult
from ems.types import InputError

FIRST = [
    EMSResult(
        "t1", "m", ("a", "b", "c", "d"), ("x", "y"), (0, 1, -1, 0), (0.5, 1.0, 0.0, 0.2), f1=0.5
    ),
    EMSResult("t2", "m", ("a", "b"), ("x",), (0, -1), (0.9, 0.0), f1=0.6),
    EMSResult("t3", "m", ("a",), (), (-1,), (0.0,), f1=0.0),
    EMSResult("t4", "m", ("a",), ("x",), (0,), (1.0,), f1=1.0),
]
OTHER = [
    EMSResult("t2", "m", ("a", "b"), ("x",), (0, None), (0.7, None), f1=0.4),
    replace(FIRST[2]),
    EMSResult(
        "t1", "m", ("a", "b", "c", "d"), ("x", "y"), (0, 0, -1, 0), (0.6, 0.8, 0.0, 0.4), f1=0.3
    ),
]


def test_two_judgements_by_hand():
    agreement = agreement_of_results(FIRST, OTHER)
    # Without the answer that has no points and the one that only the first judged: t1 and t2.
    assert agreement["answers"] == 2
    assert agreement["points"] == 5
    assert agreement["scored"] == 5 / 6
    assert agreement["same choice"] == 4 / 5
    assert agreement["same partner"] == 3 / 4  # the third point of t1 has no partner
    # By chance in t1: the judges name index 0 twice and three times of four, index 1 once and
    # never, -1 once and once. In t2 both name index 0 once of once.
    chance = (4 * (2 / 4 * 3 / 4 + 1 / 4 * 0 + 1 / 4 * 1 / 4) + 1 * 1) / 5
    assert agreement["kappa"] == pytest.approx((4 / 5 - chance) / (1 - chance))
    # Three points have the same partner in both judgements.
    assert agreement["score difference"] == pytest.approx((0.1 + 0.2 - 0.2) / 3)
    correlation = spearmanr([0.5, 0.2, 0.9], [0.6, 0.4, 0.7]).statistic
    assert agreement["score correlation"] == pytest.approx(correlation)


def test_a_judge_agrees_with_itself_and_with_nobody():
    same = agreement_of_results(FIRST, FIRST)
    assert same["same choice"] == 1
    assert same["kappa"] == pytest.approx(1)
    assert same["score difference"] == pytest.approx(0)
    nothing = agreement_of_results(FIRST, [])
    assert nothing.pop("answers") == 0
    assert nothing.pop("points") == 0
    assert all(math.isnan(value) for value in nothing.values())


def test_other_points_are_refused():
    with pytest.raises(InputError, match="the points of m on t4 differ: both must judge the same"):
        agreement_of_results(FIRST, [replace(FIRST[3], ref_points=("other",))])


def values_of(f1, model="m"):
    """The values of results with these F1, by triplet; each triplet is a group."""
    result = replace(FIRST[0], model=model, recall=0.5, precision=0.5)
    results = [replace(result, triplet_id=name, group=name, f1=f1[name]) for name in f1]
    return to_frame(results)


def test_the_judges_share_of_the_spread_by_hand():
    first = values_of({"t1": 0.2, "t2": 0.4, "t3": 0.6, "t4": 0.9})
    again = values_of({"t1": 0.3, "t2": 0.3, "t3": 0.6})
    row = changes(first, again, "part").loc["F1"]
    assert row["n"] == 3
    assert row["first"] == pytest.approx(0.4)
    assert row["again"] == pytest.approx(0.4)
    assert row["sd"] == pytest.approx(0.1 / 2**0.5)  # differences 0.1, -0.1 and 0
    assert row["share"] == pytest.approx(0.005 / 0.04)
    assert row["spearman"] == pytest.approx(spearmanr([2, 4, 6], [3, 3, 6]).statistic)
    assert math.isnan(row["ci_low"])  # three groups are too few


def test_a_change_has_an_interval_over_groups_and_the_order_of_models():
    scores = {"t1": 0.1, "t2": 0.2, "t3": 0.3, "t4": 0.4, "t5": 0.5, "t6": 0.6}
    by_model = {"a": (0.0, 0.0), "b": (0.1, 0.3), "c": (0.2, 0.1)}  # b passes c
    first, again = [], []
    for model, (before, after) in by_model.items():
        first.append(values_of({name: value + before for name, value in scores.items()}, model))
        again.append(values_of({name: value + after for name, value in scores.items()}, model))
    table = changes(pd.concat(first), pd.concat(again), ["part", "model"])
    row = table.loc["F1", "b"]
    assert row[["difference", "ci_low", "ci_high"]].to_list() == pytest.approx([0.2] * 3)
    of_parts = changes(pd.concat(first), pd.concat(again), "part")
    assert of_parts.loc["F1", "order"] == pytest.approx(2 / 3)  # a < b and a < c stay
    # The reference has four points, and the answer has two.
    assert of_parts.loc[["Recall", "Precision"], "points"].to_list() == [4, 2]


def test_nothing_changes_where_no_answer_was_judged_again():
    first = values_of({"t1": 0.2})
    assert len(changes(first, values_of({}), "part")) == 0
    assert len(changes(first, values_of({"t9": 0.2}), ["part", "model"])) == 0


def test_repeated_choices_are_told_by_form_and_systems_alone_are_not():
    opinions = {"again": OTHER, "one by one": FIRST, "again: m": OTHER, "other-judge": FIRST}
    assert repeat_findings(agreement_table(FIRST, opinions)) == [
        "Asked again, the judge makes the same choice for 0.800 of 5 points, and for 0.750 of those "
        "that either judgement matches.",
        "Asked one question a point, the judge makes the same choice for 1.000 of 7 points, and for "
        "1.000 of those that either judgement matches.",
        "other-judge makes the same choice for 1.000 of 7 points, and for 1.000 of those that either "
        "judgement matches.",
    ]


def test_nothing_is_told_where_nothing_was_judged_again():
    table = agreement_table(FIRST, {})
    assert len(table) == 0
    assert "same choice" in table
    assert repeat_findings(table) == []
    assert repeat_findings(agreement_table(FIRST, {"again": []})) == []


def second_reading_of(tmp_path, first, second):
    """The table of `second_readings` of replies by key and task."""
    for name, replies in (("first.jsonl", first), ("second.jsonl", second)):
        rows = [
            {"key": key, "task": task, "text": text if isinstance(text, str) else json.dumps(text)}
            for key, task, text in replies
        ]
        write_jsonl(tmp_path / name, rows)
    return second_readings([tmp_path / "first.jsonl"], tmp_path / "second.jsonl").set_index("what")


def test_two_readings_are_compared_by_what_was_asked(tmp_path):
    first = [
        ("m", "match", {"matches": [0, -1, 2, 1]}),
        ("s", "score", {"scores": [10, 4, 7]}),
        ("c", "coverage", {"scores": [0, 9], "contradicted": [0, 1]}),
        ("j", "judge", "40"),
        ("unread", "judge", "99"),
    ]
    second = [
        ("m", "match", {"matches": [0, -1, -1, 1]}),
        ("s", "score", {"scores": [9, 4, 3]}),
        ("c", "coverage", {"scores": [0, 9], "contradicted": [1]}),
        ("j", "judge", "46"),
    ]
    table = second_reading_of(tmp_path, first, second)
    assert table["n"].to_dict() == {
        "matches": 3,
        "scores of pairs": 3,
        "scores of coverage": 2,
        "contradicted points": 2,
        "numbers of whole answers": 1,
    }
    assert table.loc["matches", "same"] == pytest.approx(2 / 3)
    assert table.loc["scores of pairs", ["same", "near"]].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert table.loc["contradicted points", "same"] == 0.5
    assert table.loc["numbers of whole answers", "near"] == 0


def test_a_second_reading_of_an_unknown_prompt_is_an_error(tmp_path):
    with pytest.raises(InputError, match="second.jsonl, line 1: no recorded reply has this key"):
        second_reading_of(tmp_path, [("j", "judge", "40")], [("k", "judge", "40")])
