"""`ems agree`, what a design can see, and bounds: by hand, by simulation, and on labels that are none."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from scipy.stats import t as student
from test_stats import NAN, family, frame

from ems import stats
from ems.cli import main
from ems.data import read_frames
from ems.io import data_path, write_jsonl
from ems.study.people import own_labels
from ems.types import EMSResult, InputError


def results(tmp_path, values, name="results"):
    """A file as `ems evaluate` writes it, from (triplet, model, f1)."""
    return write_jsonl(tmp_path / f"{name}.jsonl", [
        EMSResult(triplet, model, ("r",), ("a",), (0,), (f1,), f1, f1, f1, 0, "sig") for triplet, model, f1 in values])


def labels(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    return path


VALUES = [(f"t{i}", "m", i / 10) for i in range(10)]


def test_agree_on_the_command_line(tmp_path, capsys):
    path = labels(tmp_path, "triplet_id,model,label\n" + "".join(f"t{i},m,{int(i >= 6)}\n" for i in range(3, 10)))
    assert main(["agree", str(results(tmp_path, VALUES)), str(path)]) == 0
    said = capsys.readouterr().out
    assert "one person labelled" in said
    assert "AUC 1.000" in " ".join(said.split())


def test_pairs_and_two_raters(tmp_path):
    both = [*VALUES, *((f"t{i}", "n", 0.5) for i in range(10))]
    rows = [f"t{i},m,n,{1 if i < 4 else -1},{rater}" for i in range(10) if i != 5 for rater in "ab"]
    read = own_labels.read_labels(labels(tmp_path, "triplet_id,model_a,model_b,preference,rater\n" + "\n".join(rows)))
    assert own_labels.raters(read) == (2, pytest.approx(1.0))
    found = own_labels.agreement(own_labels.own_results([results(tmp_path, both)]), read, resamples=100)
    right = found[(found.measure == "right side") & (found.part == "f1")].iloc[0]
    assert (right.value, right.n) == (8 / 9, 9)                    # t4 is 0.4 against 0.5, and m is liked


def test_results_are_named_by_file_or_by_metric(tmp_path):
    plain, again = results(tmp_path, VALUES), results(tmp_path, VALUES[:1], "alignments")
    rows = [{"metric": "EMS(LLM)", **json.loads(line)} for line in again.read_text().splitlines()]
    found = own_labels.own_results([plain, write_jsonl(again, rows)])
    assert {name: len(table) for name, table in found.items()} == {"results": 10, "EMS(LLM)": 1}
    with pytest.raises(InputError, match="two of the files hold results called results; rename a file"):
        own_labels.own_results([plain, plain])


def test_a_real_set_agrees_with_the_notebook(tmp_path):
    """FinanceBench's own labels as a user would give them: the AUC of the table of people."""
    scores, given = (read_frames(data_path(f"human/financebench_{kind}.csv")) for kind in ("scores", "labels"))
    table = scores.rename(columns={f"EMS(local) {part.title()}": part for part in ("recall", "precision")}
                          | {"EMS(local) F1": "f1"})[[*own_labels.KEY, *own_labels.PARTS]]
    rows = given.assign(label=given.correct.astype(int))[["triplet_id", "model", "label", "group"]]
    path = tmp_path / "labels.csv"
    rows.to_csv(path, index=False)
    found = own_labels.agreement({"EMS(local)": table}, own_labels.read_labels(path), resamples=200)
    area = found[(found.measure == "AUC") & (found.part == "f1")].value.item()
    both = rows.merge(scores, on=own_labels.KEY)
    assert area == pytest.approx(stats.auc(both["EMS(local) F1"], both.label, resamples=10).value)


@pytest.mark.parametrize(("text", "said"), [
    ("triplet_id,model,label\nt1,m,1\nt99,m,0\n", "1 of 2 labelled answers are not among the results"),
    ("triplet_id,model,label\nt1,m,good\n", "label must be a number, got 'good'"),
    ("triplet_id,model,label\nt1,m,1\nt2,m,1\nt3,m,\n", "every label is 1"),
    ("triplet_id,model,label\nt1,m,\n", "no row has a label"),
    ("triplet_id,model,label\nt1,m,1\nt1,m,0\n", "need a column rater"),
    ("triplet_id,model,label\nt1,,1\n", "row 2: model is empty"),
    ("id,label\nt1,1\n", "needs the columns triplet_id, model, label or"),
    ("", "got nothing"),
])
def test_bad_labels_get_one_clear_line(tmp_path, capsys, text, said):
    assert main(["agree", str(results(tmp_path, VALUES)), str(labels(tmp_path, text))]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def drawn(rng, groups, noise):
    """Answers of a model in groups of four: the metric, and labels that follow it up to noise."""
    metric = rng.normal(size=(groups, 1)) + rng.normal(size=(groups, 4))
    label = metric + noise * rng.normal(size=metric.shape)
    ids = [f"g{g}-{i}" for g in range(groups) for i in range(4)]
    table = pd.DataFrame(
        {"triplet_id": ids, "model": "m", **dict.fromkeys(own_labels.PARTS, metric.ravel()),
         "group": np.repeat(range(groups), 4).astype(str)})
    return table, label.ravel()


def test_a_corrected_mean_covers_and_is_shorter_where_the_metric_is_good():
    rng, covered, shorter = np.random.default_rng(5), 0, 0
    for _ in range(60):
        table, label = drawn(rng, 60, 0.3)
        known = table.assign(label=np.where(np.arange(240) < 80, label, NAN))      # twenty whole groups
        row = own_labels._corrected(known)
        covered += row["ci_low"] <= 0 <= row["ci_high"]
        shorter += row["ci_high"] - row["ci_low"] < row["labels_high"] - row["labels_low"]
    assert covered / 60 >= 0.88
    assert shorter / 60 >= 0.90


def test_a_useless_metric_is_worth_no_label():
    rng = np.random.default_rng(6)
    table, _ = drawn(rng, 60, 0)
    known = table.assign(label=np.where(np.arange(240) < 80, rng.normal(size=240), NAN))
    row = own_labels.corrected_means(table.drop(columns="group"), known).iloc[0]
    assert row.lam < 0.25
    assert row.worth == pytest.approx(80, rel=0.2)
    assert "hardly any label" in own_labels._worth(pd.DataFrame([row]).assign(worth=row.labelled))


def test_a_model_whose_labels_are_all_alike_needs_no_metric():
    keys = [(f"t{i}", f"g{i % 8}") for i in range(24)]
    table = pd.DataFrame([(t, m, i / 24) for i, (t, _) in enumerate(keys) for m in "ab"],
                         columns=["triplet_id", "model", "f1"]).assign(recall=0.5, precision=0.5)
    known = pd.DataFrame([(t, m, g, float(m == "a" or i % 3 == 0)) for i, (t, g) in enumerate(keys[:16])
                          for m in "ab"], columns=["triplet_id", "model", "group", "label"])
    row = own_labels.corrected_means(table, known).set_index("model").loc["a"]
    assert (row["mean"], row.ci_low, row.ci_high, row.lam, row.worth) == (1, 1, 1, 0, 16)


def test_an_empty_group_is_one_of_its_own(tmp_path):
    read = own_labels.read_labels(labels(tmp_path, "triplet_id,model,label,group\nt1,m,0,\nt2,m,1, \nt3,m,1,C\n"))
    assert list(read["group"]) == ["t1", "t2", "C"]


def test_the_smallest_difference_by_hand():
    values = family({"a-1b": [0.0] * 8, "b-2b": [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4]})
    table = stats.resolution(stats.paired_table(values), difference=0.05)
    error = np.std([0.1, 0.2, 0.3, 0.4] * 2, ddof=1) / math.sqrt(8)
    assert table.smallest[0] == pytest.approx(error * (student.ppf(0.975, 7) + student.ppf(0.8, 7)))
    needed = table.clusters_needed[0]
    at = [error * math.sqrt(8 / k) * (student.ppf(0.975, k - 1) + student.ppf(0.8, k - 1)) for k in (needed - 1, needed)]
    assert at[0] > 0.05 >= at[1]
    assert table.questions_needed[0] == needed
    with pytest.raises(InputError, match="power from 0.5 to 1"):
        stats.resolution(table, power=0.4)


def test_bounds_by_hand():
    # Four points, one unscored, the others sum to 2; a second answer without a value.
    recall = frame([("m", "a", "A", 2 / 3, 2, 3, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)], part="Recall")
    precision = frame([("m", "a", "A", 0.5, 1, 2, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)], part="Precision")
    f1 = frame([("m", "a", "A", 4 / 7, NAN, NAN, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)])
    table = stats.bounds(pd.concat([recall, precision, f1])).set_index("part")
    assert (table.low["Recall"], table.high["Recall"]) == ((2 / 4 + 0) / 2, (3 / 4 + 1) / 2)
    assert (table.low["Precision"], table.high["Precision"]) == ((1 / 3 + 0) / 2, (2 / 3 + 1) / 2)
    low, high = (2 * p * r / (p + r) for p, r in ((1 / 3, 2 / 4), (2 / 3, 3 / 4)))
    assert table.low["F1"] == pytest.approx(low / 2)
    assert table.high["F1"] == pytest.approx((high + 1) / 2)


def test_a_mean_with_all_points_scored_has_no_bounds_around_it():
    table = stats.bounds(family({"m": [0.2, 0.4]}))
    assert (table.low[0], table.high[0]) == (table.value[0], table.value[0])


def test_preferences_of_real_annotators(tmp_path):
    """RAGChecker's pairs as a user's preference file: two raters, and the correlation that scipy gives."""
    given, scores = (read_frames(data_path(f"human/ragchecker_{kind}.csv")) for kind in ("labels", "scores"))
    rows = given.rename(columns={"instance_id": "triplet_id", "overall": "preference", "annotator": "rater"})
    path = tmp_path / "labels.csv"
    rows.assign(model_a="1", model_b="2")[["triplet_id", "model_a", "model_b", "preference", "rater"]].to_csv(
        path, index=False)
    read = own_labels.read_labels(path)
    table = scores.rename(columns={f"EMS(local) {part.title()}": part for part in ("precision", "recall")}
                          | {"EMS(local) F1": "f1"})
    found = own_labels.agreement({"EMS(local)": table}, read, resamples=100).set_index(["part", "measure"])
    gaps = scores.astype({"model": str}).pivot(index="triplet_id", columns="model", values="EMS(local) F1")
    people = rows.groupby("triplet_id").preference.mean()
    gap = (gaps["2"] - gaps["1"]).rename(index=str)
    expected = spearmanr(gap[people.index.astype(str)], people).statistic
    assert found.value["f1", "spearman"] == pytest.approx(expected)
    assert own_labels.raters(read)[0] == 2
    assert "2 people labelled" in own_labels.as_text({"EMS(local)": table}, read)[0]
    with pytest.raises(InputError, match="labelled answers are not among the results"):
        own_labels.agreement({"EMS(local)": table.iloc[4:]}, read)


def test_few_labels_have_no_intervals_and_the_text_says_so(tmp_path):
    table = pd.DataFrame({"triplet_id": list("abcd"), "model": "m", "recall": [0.9, 0.2, 0.8, 0.3]})
    table.assign(label=[1, 0, 1, 0])[["triplet_id", "model", "label"]].to_csv(tmp_path / "labels.csv", index=False)
    labels = own_labels.read_labels(tmp_path / "labels.csv")
    text = "\n".join(own_labels.as_text({"EMS": table.assign(precision=table.recall, f1=table.recall)}, labels))
    assert "0.894       –        –  4" in text
    assert text.endswith("No interval with fewer than 6 labelled groups: they are too few.")


def test_labels_with_any_line_ends_and_long_cells_are_read(tmp_path):
    lines = ["triplet_id,model,label,note", "q1,m,1," + "x" * 140_000, "q2,m,0,"]
    for end in ("\r", "\r\n", "\n"):
        (tmp_path / "l.csv").write_bytes(end.join(lines).encode())
        assert own_labels.read_labels(tmp_path / "l.csv")["label"].tolist() == [1, 0]
