"""Tables for people to read: cells to the letter, and names that are long or hostile."""

import math

import pandas as pd
import pytest

from ems.analysis import tables
from ems.analysis.frames import in_order
from ems.analysis.tables import percent, shortened, table1, table_text, with_interval

NAN = math.nan
SMALL, LARGE = "llama3.2_1b_instruct", "llama3.2_90b_vision_instruct"


def summary(rows):
    """A summary from (metric, part, model, value, ci_low, ci_high, n, unscored points of 1000)."""
    return pd.DataFrame(
        [
            {
                "metric": metric,
                "part": part,
                "model": model,
                "value": value,
                "ci_low": low,
                "ci_high": high,
                "n": n,
                "unscored": unscored,
                "signature": f"{metric}|judge:none",
                "low": value - 0.01,
                "high": value + 0.02,
                "scored": 1 - unscored / 1000,
                "flagged": unscored > 50,
                "units": 1000,
                "clusters": 10,
                "cluster": "group",
                "pool": "macro",
            }
            for metric, part, model, value, low, high, n, unscored in rows
        ]
    )


OURS = in_order(
    summary(
        [
            ("EMS(LLM)", "F1", SMALL, 0.25, 0.2, 0.3, 50, 0),
            ("EMS(LLM)", "F1", LARGE, 0.5, 0.45, 0.55, 48, 60),
            ("BLEU", "Score", SMALL, 1 / 3, 0.3, 0.4, 50, 0),
            ("BLEU", "Score", LARGE, 0.0301, NAN, NAN, 50, 0),
        ]
    )
)


def test_cells():
    assert table1(OURS).to_dict("records") == [
        {
            "metric": "BLEU",
            "part": "Score",
            SMALL: "0.333 [0.300, 0.400]",
            LARGE: "0.030",
            "n": "50",
            "scored": "100 %",
        },
        {
            "metric": "EMS(LLM)",
            "part": "F1",
            SMALL: "0.250 [0.200, 0.300]",
            LARGE: "0.500 [0.450, 0.550] (0.49 to 0.52) †",
            "n": "48",
            "scored": "94 %",
        },
    ]


def test_a_share_is_rounded_down_and_what_is_absent_is_a_dash():
    assert percent(0.99999) == "99.9 %"  # only what is complete is 100 %
    assert percent(NAN) == "–"
    assert with_interval(NAN, NAN, NAN) == "–"
    assert with_interval(0.5, NAN, NAN) == "0.500"
    assert with_interval(-0.00001, -0.25, 0.25) == "0.000 [-0.250, 0.250]"  # no "-0.000"


def test_models_may_be_chosen_and_have_a_dash_without_a_row():
    table = table1(OURS.iloc[:-1], models=[LARGE, SMALL, "theirs"])
    assert list(table.columns) == ["metric", "part", LARGE, SMALL, "theirs", "n", "scored"]
    assert (list(table[LARGE]), list(table["theirs"])) == (["0.030", "–"], ["–", "–"])


def test_a_long_name_loses_its_middle_where_it_is_shown():
    long = "model-" + "x" * 5000 + "-70B"
    assert len(shortened(long)) == tables.NAME_LIMIT
    assert shortened(long).startswith("model-xxx")
    assert shortened(long).endswith("xxx-70B")
    assert shortened("short") == "short"


def test_a_table_for_a_terminal_says_why_it_has_no_interval():
    table = pd.DataFrame({"metric": ["Coverage(local)", "a\x1b[31m"], "value": [0.5, NAN]})
    lines = table_text(table.assign(clusters=[6, 5])).splitlines()
    assert lines[1].split() == ["Coverage(local)", "0.500", "6"]
    assert lines[2].split() == ["a\ufffd[31m", "–", "5"]
    assert lines[3:] == ["No interval over fewer than 6 clusters."]
    assert len(table_text(table.assign(clusters=6)).splitlines()) == 3


def test_of_a_pair_only_a_clear_difference_names_the_higher_side():
    interval = {"difference": 0.1, "ci_low": 0.05, "ci_high": 0.15, "n": 9, "clusters": 9}
    up = {"metric": "M", "part": "F1", "a": "x", "b": "y", "p_holm": 0.04, "clear": True} | interval
    up["compares"] = "meaning"
    down = up | {"difference": -0.1, "ci_low": -0.15, "ci_high": -0.05, "p_holm": 0.0001}
    texts = tables.pairs_table(pd.DataFrame([up, down, up | {"clear": False}]))
    assert list(texts["higher"]) == ["x", "y", "not clear"]
    assert list(texts["p_holm"]) == ["0.040", "<0.001", "0.040"]
    assert texts["difference"].iloc[1] == "-0.100 [-0.150, -0.050]"
    means = pd.DataFrame([up | {"a": 0.6, "b": 0.5}])
    assert tables.pairs_table(means, "old.jsonl", "new.jsonl")["higher"].iloc[0] == "old.jsonl"


@pytest.mark.parametrize(
    ("part", "compares", "higher"),
    [
        ("F1", "words", "x, in words"),
        ("Recall", "figures", "x, in figures"),
        ("Contradicted", "meaning", "x (worse)"),
        ("Missing", "words", "x (worse), in words"),
        ("Refused", "words", "x (worse), in words"),
        ("Recall uncontradicted", "meaning", "x"),
    ],
)
def test_where_a_side_is_named_it_says_whether_higher_is_worse_and_what_was_compared(
    part, compares, higher
):
    row = {"metric": "M", "part": part, "a": "x", "b": "y", "difference": 0.1, "ci_low": 0.05}
    row |= {"ci_high": 0.15, "p_holm": 0.01, "clear": True, "compares": compares}
    assert tables.pairs_table(pd.DataFrame([row]))["higher"].item() == higher
    assert (
        tables.pairs_table(pd.DataFrame([row | {"clear": False}]))["higher"].item() == "not clear"
    )


def test_means_have_an_interval_in_the_parts_of_table_1_only():
    rows = [
        ("M", "Recall", SMALL, 0.5, 0.4, 0.6, 9, 0),
        ("M", "Missing", SMALL, 0.2, 0.1, 0.3, 9, 0),
    ]
    (row,) = tables.means_table(summary(rows)).to_dict("records")
    assert (row["Recall"], row["Missing"]) == ("0.500 [0.400, 0.600]", "0.200")
    assert list(table1(summary(rows))["part"]) == ["Recall"]


def test_an_interval_is_shown_within_0_and_1():
    rows = [("M", "Recall", SMALL, 0.9, 0.7, 1.04, 9, 0), ("M", "F1", SMALL, 0.1, -0.2, 0.3, 9, 0)]
    (row,) = tables.means_table(summary(rows)).to_dict("records")
    assert (row["Recall"], row["F1"]) == ("0.900 [0.700, 1.000]", "0.100 [0.000, 0.300]")
