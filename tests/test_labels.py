"""Results beside labels: by hand, against scipy, and what is refused."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from doubles import refused
from scipy.stats import spearmanr

from ems.analysis.frames import to_frame
from ems.analysis.labels import agreement, agreement_text, read_labels
from ems.io import write_jsonl
from ems.results import ScoreResult
from ems.types import WITHOUT_JUDGE


def results(values):
    """A result per (triplet, model, value)."""
    return [ScoreResult(*value) for value in values]


VALUES = [(f"t{i}", "m", i / 10) for i in range(10)]


def test_graded_labels_by_scipy():
    grades = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    labels = []
    for (triplet_id, model, _), grade in zip(VALUES, grades, strict=True):
        labels.append({"triplet_id": triplet_id, "model": model, "label": grade})
    values = to_frame(results(VALUES))
    values = pd.concat([values, values.assign(part="F1", value=0.0)])
    table = agreement(values, read_labels(labels))
    agreements = table[table["part"] == "Score"].set_index("measure")
    assert list(agreements.index) == ["spearman", "pearson"]  # labels other than 0 and 1: no AUC
    assert agreements.value["spearman"] == pytest.approx(spearmanr(range(10), grades).statistic)
    assert (
        agreements.ci_low["spearman"]
        < agreements.value["spearman"]
        < agreements.ci_high["spearman"]
    )
    assert (agreements.n["spearman"], agreements.clusters["spearman"]) == (10, 10)


def test_zero_or_one_by_hand():
    values = [
        ("t1", "a", 0.9),
        ("t1", "b", 0.2),
        ("t1", "c", 0.2),
        ("t2", "a", 0.1),
        ("t2", "b", 0.3),
        ("t3", "a", math.nan),
    ]
    labels = read_labels(
        pd.DataFrame(
            [
                ("t1", "a", 1),
                ("t1", "b", 0),
                ("t1", "c", 1),
                ("t2", "a", True),
                ("t2", "b", False),
                ("t3", "a", 0),
            ],
            columns=["triplet_id", "model", "label"],
        )
    )
    agreements = agreement(to_frame(results(values)), labels).set_index("measure")
    # Right answers have 0.9, 0.2 and 0.1, wrong ones 0.2 and 0.3: of six pairs two wins and a tie.
    assert agreements.value["auc"] == (2 + 1 / 2) / 6
    assert (agreements.n["auc"], agreements.left_out["auc"]) == (5, 1)


def test_the_text_tells_files_apart_and_leaves_out_what_has_no_label(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "triplet_id;model;label\n"
        + "".join(f"t{i};m;{i % 2 if i < 8 else ''}\n" for i in range(10))
    )
    rows = [result.to_dict() for result in results(VALUES)]
    files = [write_jsonl(tmp_path / name, rows) for name in ("first", "second")]
    shown = agreement_text(files[:1], path)
    assert re.search("^ *Judge alone +Score +auc .* 8 +8 +0$", shown, re.MULTILINE)
    shown = agreement_text(files, path)
    assert "No interval" not in shown
    assert "first: Judge alone" in shown
    assert "second: Judge alone" in shown


def test_labels_of_one_group_get_no_interval_and_the_reason(tmp_path):
    (tmp_path / "labels.csv").write_text(
        "triplet_id,model,label\n" + "".join(f"t{i},m,{i}\n" for i in range(10))
    )
    rows = [replace(result, group="Apple").to_dict() for result in results(VALUES)]
    path = write_jsonl(tmp_path / "one.jsonl", rows)
    shown = agreement_text([path], tmp_path / "labels.csv")
    assert re.search(r"Score +spearman +1.000 +– +– +10 +1 +0$", shown, re.MULTILINE)
    assert "\nNo interval over fewer than 6 clusters.\n" in shown
    assert shown.endswith(WITHOUT_JUDGE)  # no result's signature has a judge
    judged = [row | {"signature": {"judge": "j"}} for row in rows]
    shown = agreement_text([write_jsonl(path, judged)], tmp_path / "labels.csv")
    assert shown.endswith("No interval over fewer than 6 clusters.")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("triplet_id,model,label\nt1,m,good\n", "line 2: 'label': Input should be a valid number"),
        (
            "triplet_id,model,label\nt1,m,1\nt2,m,1\nt3,m,\n",
            "two or more different numbers, got 1.0",
        ),
        (
            "triplet_id,model,grade\nt1,m,1\nt2,m,0\n",
            "two or more different numbers, got none",
        ),  # no such column
        ("triplet_id,model,label\nt1,m,inf\nt2,m,0\n", "two or more different numbers"),
        ("triplet_id,model,label\nt1,m,1\nt1,m,0\n", "line 3: a second row of ('t1', 'm')"),
    ],
)
def test_bad_labels_get_one_clear_line(tmp_path, text, says):
    (tmp_path / "labels.csv").write_text(text)
    with refused(says):
        read_labels(tmp_path / "labels.csv")


def test_labels_of_other_answers_are_refused():
    labels = read_labels(
        [
            {"triplet_id": "t1", "model": "m", "label": 1},
            {"triplet_id": "t1", "model": "n", "label": 0},
        ]
    )
    with refused("1 labelled answers are not among the results: ('t1', 'n')"):
        agreement(to_frame(results(VALUES)), labels)
