"""What a change does to the means: a table by hand, and what is said about several tables."""

import ast
import json
import re
from math import isnan, nan
from types import SimpleNamespace

import own_metric
import pandas as pd
import pytest
import run as runner
from doubles import refused
from marks import runs_notebooks
from study import ROOT
from study.ablations import change_findings, change_table

from ems.analysis.frames import of_rows

NAMES = {"s": "Small", "l": "Large"}
GROUPS = range(8)
NOTEBOOK = "11_ablations"


def frame(level_of, part="F1", metric="EMS(LLM)", groups=GROUPS):
    """Values that differ from the model's level by the same amount for each group."""
    rows = []
    for model, level in level_of.items():
        for g in groups:
            value = level + g / 1000
            names = (metric, part, model, f"g{g}-Q1", f"g{g}")
            rows.append((*names, value, value, 1.0, 10, 0, "judge:j"))
    return of_rows(rows)


def test_a_change_of_the_same_answers_has_a_paired_difference():
    before = pd.concat([frame({"l": 0.5, "s": 0.2}), frame({"l": 0.9, "s": 0.9}, part="Recall")])
    after = frame({"s": 0.2, "l": 0.4}, metric="EMS(other)")
    table = change_table(before, after, NAMES)
    assert list(table.index) == ["Small", "Large"]
    small, large = table.loc["Small"], table.loc["Large"]
    assert (small.before, small.after) == pytest.approx((0.2035, 0.2035))
    assert (small.difference, bool(small.clear)) == (0, False)
    assert (large.before, large.after) == pytest.approx((0.5035, 0.4035))
    assert (large.difference, large.ci_low, large.ci_high) == pytest.approx((-0.1, -0.1, -0.1))
    assert large.clear


def test_a_part_of_one_s_own_is_compared_with_another_part():
    figures = frame({"s": 1.0, "l": 1.0}, metric="Figures", part="Recall")
    recall = pd.concat([figures, frame({"s": 0.2, "l": 0.5}, part="Recall")])
    table = change_table(recall, frame({"s": 0.3, "l": 0.5}, part="Own"), NAMES)
    assert table.difference.tolist() == pytest.approx([0.1, 0])


def test_a_part_of_the_answers_is_compared_with_the_same_part():
    # The three answers left are better than the mean before, and worse than the same three before.
    before = frame({"s": 0.2, "l": 0.5})
    before.loc[before["triplet_id"].isin(["g5-Q1", "g6-Q1", "g7-Q1"]), "value"] += 0.3
    after = before.assign(value=before["value"] - 0.1)
    after = after[(after["model"] == "l") | (after["triplet_id"] >= "g5-Q1")]
    table = change_table(before, after, NAMES)
    small = table.loc["Small"]
    assert (small.before, small.after) == pytest.approx((0.506, 0.406))
    assert small.difference == pytest.approx(-0.1)
    assert isnan(small.ci_low)
    assert not small.clear
    assert (table.n.tolist(), table.of.tolist()) == ([3, 8], [8, 8])
    assert change_findings({"Mine": table}) == [
        "Mine: the mean changes clearly for Large (-0.100).",
        "Mine: 3 of 8 questions count for Small.",
        "The order of the systems' means stays the same in 1 of the 1 changes with more than one system.",
    ]


def test_an_unscored_answer_is_in_neither_mean():
    before, after = frame({"s": 0.2}), frame({"s": 0.3})
    after.loc[0, "value"] = nan
    (row,) = change_table(before, after, NAMES).itertuples()
    assert (row.before, row.after) == pytest.approx((0.204, 0.304))
    assert (row.n, row.of) == (7, 8)


def test_answers_left_out_give_a_difference_of_means_without_an_interval():
    fewer = frame({"s": 0.2}, groups=range(7))
    (row,) = change_table(frame({"s": 0.2, "l": 0.5}), fewer, NAMES, paired=False).itertuples()
    assert (row.before, row.after) == pytest.approx((0.2035, 0.203))
    assert row.difference == pytest.approx(0.203 - 0.2035)
    assert isnan(row.ci_low)
    assert isnan(row.ci_high)
    assert not row.clear
    assert (row.n, row.of) == (7, 8)


def test_a_model_on_one_side_of_a_change_is_left_out(capsys):
    table = change_table(frame({"s": 0.2, "l": 0.5}), frame({"s": 0.3}), NAMES)
    assert list(table.index) == ["Small"]
    said = "left out, without values before or after the change: Large\n"
    assert "".join(capsys.readouterr()) == said


def test_frames_without_a_common_model_are_refused():
    with refused("no model has values before and after the change; notebook 12"):
        change_table(frame({"s": 0.2}), frame({"mine": 0.2}), {**NAMES, "mine": "Mine"})


def test_findings_say_which_means_move_clearly_and_whether_the_order_stays():
    before = frame({"s": 0.2, "l": 0.5})
    tables = {
        "Lower": change_table(before, frame({"s": 0.1, "l": 0.3}), NAMES),
        "Mixed": change_table(before, frame({"s": 0.3, "l": 0.4}), NAMES),
        "Same": change_table(before, before, NAMES),
    }
    assert change_findings(tables) == [
        "Lower: the mean changes clearly for Small (-0.100) and Large (-0.200).",
        "Mixed: the mean changes clearly for Small (+0.100) and Large (-0.100).",
        "Same: no mean changes clearly, and none by more than 0.000.",
        "The order of the systems' means stays the same in 3 of the 3 changes with more than one system.",
    ]
    tables["Turned"] = change_table(before, frame({"s": 0.6, "l": 0.5}), NAMES)
    assert change_findings(tables)[-1].endswith(
        "stays the same in 3 of the 4 changes with more than one system."
    )


def test_a_table_of_one_system_has_no_order():
    before = frame({"s": 0.2, "l": 0.5})
    one = change_table(before, frame({"s": 0.1}), NAMES)
    assert change_findings({"One": one}) == ["One: the mean changes clearly for Small (-0.100)."]
    both = {"One": one, "Same": change_table(before, before, NAMES)}
    assert change_findings(both)[-1].endswith(
        "stays the same in 1 of the 1 changes with more than one system."
    )


def test_without_an_interval_the_largest_change_is_said():
    before = frame({"s": 0.2, "l": 0.5})
    few = change_table(before, frame({"s": 0.19, "l": 0.2}, groups=range(3)), NAMES)
    left_out = change_table(before, before[before["group"] != "g0"], NAMES, paired=False)
    findings = change_findings({"Mine": few, "Fewer": left_out})
    assert findings[0] == ("Mine: the mean of Large changes most (-0.300), without an interval.")
    assert findings[2].endswith("changes most (+0.001), without an interval.")


def test_recall_by_length_by_hand():
    result = SimpleNamespace(ref_points=("one", "one two three", "lost"), score=(1.0, 0.5, None))
    assert own_metric.recall_by_length(result) == (1 * 1.0 + 3 * 0.5) / 4


# --- the notebook ---


def cells():
    notebook = ROOT / "notebooks" / f"{NOTEBOOK}.ipynb"
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def test_each_change_has_five_lines_of_code_at_most_and_a_sentence_before():
    for change in range(1, 6):
        sources = ["".join(cell["source"]) for cell in cells()]
        (place,) = [n for n, text in enumerate(sources) if text.startswith(f"## {change}. ")]
        assert ". " in sources[place].partition("\n\n")[2]
        tree = ast.parse(sources[place + 1])
        assert sum(node.end_lineno - node.lineno + 1 for node in tree.body) <= 5


@runs_notebooks
def test_the_five_changes_in_a_replay(tmp_path):
    path = ROOT / "notebooks" / f"{NOTEBOOK}.ipynb"
    runner._execute(path, tmp_path / path.name, {"RUN": str(tmp_path)})
    table = pd.read_csv(tmp_path / "ablations.csv")
    assert table.groupby("change", sort=False).size().tolist() == [4] * 5
    large = table[table.model == "Large LLM"].round(3)
    pairs = [tuple(row) for row in large[["before", "after"]].itertuples(index=False)]
    assert pairs == [(0.311, 0.2), (0.247, 0.121), (0.247, 0.199), (0.524, 0.52), (0.623, 0.622)]
    assert large.ci_low.isna().tolist() == [False, False, False, True, False]
    assert large.n.tolist() == [50, 50, 50, 45, 50]
    assert set(table.of) == {50}
    findings = (tmp_path / "findings" / f"{NOTEBOOK}.md").read_text(encoding="utf-8")
    for name in (
        "Scorer rouge2:stemmed",
        "Answers of 100 words at most",
        "Points by rules:sentence,2 a point",
        "Recall by recall_by_length",
    ):
        assert re.search(f"- {name}: (the|no) mean changes clearly", findings)
    assert "- Without AAPL: the mean of Large LLM changes most (-0.003), without an int" in findings
    assert "Without AAPL: 45 of 50 questions count for SmolLM2 135M, " in findings
    executed = json.loads((tmp_path / path.name).read_text(encoding="utf-8"))["cells"]
    first = next(cell["outputs"][0] for cell in executed if cell.get("outputs"))
    assert "".join(first["data"]["text/markdown"]) == findings  # filled in by the last cell


@runs_notebooks
def test_table_1_names_what_was_left_out(tmp_path):
    path = ROOT / "notebooks" / "09_table1.ipynb"
    runner._execute(path, None, {"RUN": str(tmp_path), "EXCLUDE": ["AVGO"]})
    assert "Absent: AVGO (left out by EXCLUDE)" in (tmp_path / "table1.md").read_text()
    table = pd.read_csv(tmp_path / "table1.csv")
    row = table.query("metric == 'EMS(LLM)' and part == 'F1' and model.str.startswith('Large')")
    assert (row.n.item(), round(row.value.item(), 3)) == (45, 0.517)
