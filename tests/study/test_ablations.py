"""What a change does to the means: a table by hand, and what is said about several tables."""

import ast
import json
from math import isnan
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


def test_other_answers_have_a_difference_of_means_without_an_interval():
    table = change_table(frame({"s": 0.2}), frame({"s": 0.2}, groups=range(7)), NAMES)
    (row,) = table.itertuples()
    assert row.difference == pytest.approx(0.203 - 0.2035)
    assert isnan(row.ci_low)
    assert isnan(row.ci_high)
    assert not row.clear


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
        "The order of the systems' means stays the same in 3 of 3 changes.",
    ]
    tables["Turned"] = change_table(before, frame({"s": 0.6, "l": 0.5}), NAMES)
    assert change_findings(tables)[-1].endswith("stays the same in 3 of 4 changes.")


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
    assert pairs == [(0.311, 0.2), (0.247, 0.123), (0.247, 0.199), (0.524, 0.517), (0.623, 0.622)]
    assert large.ci_low.isna().tolist() == [False, False, False, True, False]
    findings = (tmp_path / "findings" / f"{NOTEBOOK}.md").read_text(encoding="utf-8")
    assert "ROUGE-2 in the place of ROUGE-L: the mean changes clearly for " in findings
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
