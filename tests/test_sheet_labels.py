"""`ems agree` with files of `ems label`: by hand, against nltk, and what is refused."""

import math
import os
import re

import numpy as np
import pandas as pd
import pytest
from doubles import refused
from nltk.metrics.agreement import AnnotationTask
from scipy.stats import binomtest
from test_sheet import QUESTIONS, result, results

from ems.analysis.frames import to_frame
from ems.analysis.labels import kappa, people_table, recall_table, sheets_text, words_table
from ems.analysis.sheet import pair_items, point_items
from ems.analysis.stats import mean_over, summarise
from ems.cli import main
from ems.io import write_jsonl
from ems.types import WITHOUT_JUDGE

STATED = {"stated": 1.0, "in part": 0.5, "not stated": 0.0, "contradicted": 0.0}


def points_of(given):
    return pd.DataFrame({"metric": "M", **item} for item in point_items(given))


def labelled(points, label_of, strata=("word", "models")):
    """The labels of points, as a page of them all saves these; `label_of` may give None."""
    groups = points.groupby(list(strata))
    labels = pd.DataFrame(
        {"id": points["id"], "stratum": groups.ngroup(), "size": groups["id"].transform("size")}
    )
    labels["label"] = [label_of(point) for point in points.itertuples()]
    return labels.dropna()


def by_word(point):
    """A person who says what the metric says."""
    return {"covered": "stated", "not covered": "not stated"}.get(point.word, point.word)


# --- recall ---


def test_recall_is_that_of_the_table_of_means():
    given = results("a", "b")
    points = points_of(given)
    table = recall_table(points, labelled(points, by_word)).set_index("model")
    summary = summarise(to_frame(given)).query("part == 'Recall'").set_index("model")
    assert table["recall"].to_dict() == pytest.approx(summary["value"].to_dict())


def test_labels_of_all_points_take_the_place_of_the_scores():
    points = points_of(results("a"))
    rng = np.random.default_rng(0)
    labels = labelled(points, lambda _: rng.choice(list(STATED)))
    (row,) = recall_table(points, labels).itertuples()
    values = points.merge(labels)["label"].map(STATED)
    truth = mean_over(values, points["group"])
    assert (row.corrected, row.ci_low, row.ci_high) == pytest.approx(np.clip(truth[:3], 0, 1))
    assert row.clusters == QUESTIONS


def test_a_sample_corrects_by_word_and_with_its_weights():
    """Six of eight covered points are labelled, three as stated, three as contradicted."""
    points = points_of(results("a"))
    covered = points["id"][points["word"] == "covered"][:6]
    said = dict(zip(covered, ["stated", "contradicted"] * 3, strict=True))
    for word in ("in part", "not covered"):
        for point in points["id"][points["word"] == word][:2]:
            said[point] = "in part"
    labels = labelled(points, lambda point: said.get(point.id))
    (row,) = recall_table(points, labels).itertuples()
    assert row.recall == pytest.approx((0.9 + 0.4 + 0) / 3)
    assert row.corrected == pytest.approx((0.5 + 0.5 + 0.5) / 3)
    assert row.ci_low < row.corrected < row.ci_high  # covered points differ: the labels are few
    alike = labelled(points, by_word)
    (sure,) = recall_table(points, alike).itertuples()
    assert sure.ci_high - sure.ci_low == pytest.approx(0, abs=1e-9)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """2,000 points of 40 questions, a judge that is wrong about a third of them, 60 labels."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        truth = rng.random(400) < np.repeat(rng.beta(4, 2, 40), 10)
        score = np.where(rng.random(400) < 0.3, 1 - truth, truth).astype(float)
        points = pd.DataFrame(
            {
                "metric": "M",
                "id": [f"x{i}" for i in range(400)],
                "word": np.where(score == 1, "covered", "not covered"),
                "models": [("a",)] * 400,
                "group": np.repeat(np.arange(40), 10),
                "score": score,
                "share": 0.1,
            }
        )
        turn = points.sample(frac=1, random_state=rng).groupby("word").cumcount()
        drawn = set(points["id"][turn < 30])
        said = dict(zip(points["id"], np.where(truth, "stated", "not stated"), strict=True))
        labels = labelled(
            points, lambda point, of=said, ids=drawn: of[point.id] if point.id in ids else None
        )
        (row,) = recall_table(points, labels).itertuples()
        held += row.ci_low <= 4 / 6 <= row.ci_high
    assert held / 200 >= 0.92


def test_a_model_with_a_word_without_label_has_no_corrected_recall():
    points = points_of([*results("a"), result(50, "b", (0.9, 0.9, 0.9), contradicted=(1,))])
    labels = labelled(points, lambda p: None if p.word == "contradicted" else by_word(p))
    labels = labels[labels["id"].isin(points["id"][:22])]
    table = recall_table(points, labels)
    assert table.dropna(subset="corrected")["model"].tolist() == ["a"]


def sample_of(generator, right, n_labels):
    """Points of 12 questions of which the share `right` is stated, and labels of a few of them.

    Scores are 0.2 to 1. The third value is the share of the points that is stated.
    """
    score = generator.choice([0.2, 0.4, 0.6, 0.8, 1.0], 60)
    words = {0.2: "not covered", 0.4: "in part", 0.6: "in part", 0.8: "covered", 1.0: "covered"}
    points = pd.DataFrame(
        {
            "metric": "M",
            "id": [f"x{i}" for i in range(60)],
            "word": [words[one] for one in score],
            "models": [("a",)] * 60,
            "group": np.repeat(np.arange(12), 5),
            "score": score,
            "share": 0.2,
        }
    )
    points["truth"] = np.where(generator.random(60) < right, "stated", "not stated")
    turn = points.sample(frac=1, random_state=generator).groupby("word").cumcount()
    drawn = turn.sort_values(kind="stable").index[:n_labels]
    labels = labelled(points, lambda point: point.truth if point.Index in drawn else None)
    return points, labels, (points["truth"] == "stated").mean()


@pytest.mark.parametrize(("right", "n_labels"), [(0.5, 12), (0.8, 10), (0.95, 20), (1.0, 10)])
def test_few_labels_never_look_sure(right, n_labels):
    """The interval holds the truth of the points, and the rate from which they were drawn."""
    generator = np.random.default_rng(11)
    holds_truth, holds_rate = [], []
    while len(holds_truth) < 300:
        points, labels, truth = sample_of(generator, right, n_labels)
        (row,) = recall_table(points, labels).itertuples()
        if math.isnan(row.corrected):  # the labels are of fewer than six questions
            continue
        low, high = row.ci_low - 1e-9, row.ci_high + 1e-9
        holds_truth.append(low <= truth <= high)
        holds_rate.append(low <= right <= high)
        assert high - low > 0.05  # also where all labels are equal
    assert np.mean(holds_truth) >= 0.92
    assert np.mean(holds_rate) >= 0.92


def test_a_correction_needs_labels_of_the_model_itself(files, capsys):
    """Five labels of `b` alone: neither model has a corrected recall, and both have a line."""
    path, labels = files
    said = pd.read_csv(labels)
    points = points_of(results("a", "b"))
    of_b = points["id"][points["models"] == ("b",)]
    said[said["id"].isin(of_b.iloc[:5])].to_csv(labels, index=False)
    assert main(["agree", path, labels]) == 0
    printed = capsys.readouterr().out
    needs = "10 labels or more of its points in 6 clusters or more are needed, and a label for"
    assert printed.count(needs) == 1
    table = recall_table(points, pd.read_csv(labels))
    assert table[["model", "labels", "clusters"]].to_numpy().tolist() == [["a", 0, 0], ["b", 5, 2]]
    assert "is outside" not in printed
    # With nothing corrected a table of recall would have no more than that of means.
    assert "when the labels correct it" not in printed
    assert len(re.findall("ci_low", printed)) == 1


# --- words ---


def test_words_are_confirmed_by_their_labels():
    points = points_of([*results("a"), result(50, "a", (0.9, 0.9, 0.9), contradicted=(1,))])
    points.loc[points["point"] == "point 2 of t3", "word"] = "figure not in the answer"
    said = {"point 0 of t0": "in part", "point 1 of t50": "stated"}
    labels = labelled(points, lambda point: said.get(point.point, by_word(point)))
    labels.loc[labels["label"] == "figure not in the answer", "label"] = "contradicted"
    table = words_table(points.merge(labels)).set_index("word")
    assert table["confirmed"].to_dict() == pytest.approx(
        {
            "contradicted": 0,
            "covered": 0.9,
            "figure not in the answer": math.nan,
            "in part": 1,
            "not covered": 1,
        },
        nan_ok=True,
    )
    interval = binomtest(9, 10).proportion_ci()
    assert tuple(table.loc["covered", ["ci_low", "ci_high"]]) == pytest.approx(interval)
    assert table.loc["covered", ["stated", "in part"]].tolist() == [9, 1]


def test_pairs_are_counted_by_the_model_that_is_better():
    given = [result(i, "a", (1, 1, 1)) for i in range(8)]
    given += [result(i, "b", (0, 0, 0)) for i in range(8)]
    pairs = pd.DataFrame({"metric": "M", **item} for item in pair_items(given))
    prefers_b = [
        "second better" if models[1] == "b" else "first better" for models in pairs["models"]
    ]
    labels = pairs[["id"]].assign(label=[*prefers_b[:6], "equal", "equal"])
    (row,) = words_table(pairs.merge(labels)).to_dict("records")
    assert (row["word"], row["b"], row["equal"], row["confirmed"]) == ("a", 6, 2, 0)


def test_labels_of_pairs_have_one_table(files, tmp_path):
    path, _ = files
    pairs = pd.DataFrame(pair_items(results("a", "b")))[["id"]]
    pairs.assign(stratum=0, size=len(pairs), label="equal").to_csv(tmp_path / "pairs.csv")
    printed = sheets_text([path], [str(tmp_path / "pairs.csv")])
    assert "How often the labels confirm" in printed
    assert "ecall" not in printed


# --- people ---


def test_kappa_is_that_of_nltk():
    rng = np.random.default_rng(3)
    x, y = rng.integers(4, size=(2, 50))
    y[:25] = x[:25]
    rows = [("x", i, label) for i, label in enumerate(x)] + [
        ("y", i, label) for i, label in enumerate(y)
    ]
    assert kappa(x, y) == pytest.approx(AnnotationTask(rows).kappa())
    assert math.isnan(kappa(np.ones(3), np.ones(3)))


def test_two_people_agree_on_what_both_have_labelled():
    words = ["stated", "not stated"] * 4
    people = pd.DataFrame({"id": [f"x{i}" for i in range(8)], "label": words, "person": "A"})
    other = people.assign(person="B", label=["not stated", *words[1:]]).iloc[:7]
    group = pd.Series(range(8), people["id"])
    (row,) = people_table(pd.concat([people, other]), group).to_dict("records")
    assert (row["a"], row["b"], row["n"], row["clusters"]) == ("A", "B", 7, 7)
    assert row["equal"] == pytest.approx(6 / 7)
    assert row["ci_low"] <= row["kappa"] <= row["ci_high"]
    assert row["kappa"] == pytest.approx(
        (6 / 7 - (4 * 3 + 3 * 4) / 49) / (1 - (4 * 3 + 3 * 4) / 49)
    )


# --- the command ---


@pytest.fixture
def files(tmp_path):
    """Results, and the labels of a person who says what the metric says, as the page saves them."""
    given = results("a", "b")
    path = write_jsonl(tmp_path / "results.jsonl", [one.to_dict() for one in given])
    labels = labelled(points_of(given), by_word).assign(by="A")
    labels.to_csv(tmp_path / "labels.csv", index=False)
    return str(path), str(tmp_path / "labels.csv")


def test_the_command_prints_words_recall_and_people(files, tmp_path, capsys):
    path, labels = files
    other = tmp_path / "other.csv"
    other.write_text(open(labels).read().replace(",stated,", ",contradicted,"))
    assert main(["agree", path, labels, str(other)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Coverage\(LLM\) +covered +0 +0 +16 +1.000 +0.794 +1.000", printed)
    for model in "ab":
        assert printed.count(f"{model}: the recall of Coverage(LLM) is outside") == 2
    assert printed.count("when the labels correct it") == 2
    assert "are needed" not in printed
    assert re.search(r"other.csv +0.667 +0.571 +0.571 +0.571 48 +8", printed)
    assert WITHOUT_JUDGE not in printed
    without = write_jsonl(
        tmp_path / "w.jsonl", [one.to_dict() | {"signature": {}} for one in results("a", "b")]
    )
    assert main(["agree", path, str(without), labels]) == 0
    assert "w.jsonl: Coverage(local)" in capsys.readouterr().out
    assert sheets_text([without], [labels]).endswith(WITHOUT_JUDGE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace(",stated,", ",good,", 1), "'label': Input should be 'stated'"),
        (lambda text: text.replace("x", "y"), "48 labelled items are not among the results"),
        (lambda text: text.replace(",stated,", ",cannot tell,").split("\n")[0] + "\n", "no rows"),
        (lambda text: re.sub(",[a-z ]+,A", ",cannot tell,A", text), "is 'cannot tell'; label more"),
        (lambda text: text + text.splitlines()[1], "a second row of"),
        (lambda text: text.replace(",8,", ",many,", 1), "'size': Input should be a valid integer"),
    ],
)
def test_bad_files_get_one_clear_line(files, capsys, change, says):
    path, labels = files
    text = change(open(labels).read())
    with open(labels, "w") as file:
        file.write(text)
    assert main(["agree", path, labels]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_labels_of_one_person_in_two_files_are_refused(files, tmp_path, capsys):
    """The same file twice, a copy, a part of it, and a copy without the names of people."""
    path, labels = files
    lines = open(labels).read().splitlines()
    copies = {"copy.csv": lines, "part.csv": lines[:20]}
    for name, rows in copies.items():
        (tmp_path / name).write_text("\n".join(rows))
    copy, part = (str(tmp_path / name) for name in copies)
    for other in (labels, os.path.relpath(labels), copy, part):
        assert main(["agree", path, labels, other]) == 2
        assert capsys.readouterr() == (
            "",
            f"ems: {labels} and {other} hold the same labels of one person, 'A'; name each "
            "person's file once\n",
        )
    for name in (labels, copy):
        pd.read_csv(name).drop(columns="by").to_csv(name, index=False)
    with refused(f"{labels} and {copy} hold the same labels"):
        sheets_text([path], [labels, copy])


def test_equal_labels_of_two_people_and_labels_given_again_are_compared(files, tmp_path):
    path, labels = files
    other = tmp_path / "other.csv"
    text = open(labels).read()
    for changed in (text.replace(",A\n", ",B\n"), text.replace(",stated,", ",in part,", 1)):
        other.write_text(changed)
        assert "Agreement of the people" in sheets_text([path], [labels, other])


def test_labels_without_results_are_refused(files):
    with refused("not among the results"):
        sheets_text([], [files[1]])
