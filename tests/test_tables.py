"""Table 1 to the letter, in the three formats; names from outside stay text in each."""

import math
import os
import re
from pathlib import Path

import pandas as pd
import pytest
from doubles import Tags
from study import read_frames

from ems.analysis import tables
from ems.analysis.tables import percent, save_table1, shortened, table1, with_interval

NAN = math.nan
ROOT = Path(__file__).parent.parent
SMALL, LARGE = "llama3.2_1b_instruct", "llama3.2_90b_vision_instruct"
HOSTILE = [
    "<script>alert('x')</script> & \"$5\" to $6 \x1b[31mred\x00 \u202eevil | end",
    "=cmd|' /C calc'!A0",
    "m\n\\input{x}\r| a | b |",
    "[x](javascript:alert(1)) ![y](z) `code` *b* _i_ ~s~",
    "\\end{table}%$#&^{}~",
    "[a][b]",
]


def summary(rows):
    """A summary from (metric, part, model, value, low end, high end, n, unscored points of 1000)."""
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


OURS = summary(
    [
        ("EMS(LLM)", "F1", LARGE, 0.5, 0.45, 0.55, 48, 60),
        ("EMS(LLM)", "F1", SMALL, 0.25, 0.2, 0.3, 50, 0),
        ("BLEU", "Score", SMALL, 1 / 3, 0.3, 0.4, 50, 0),
        ("BLEU", "Score", LARGE, 0.0301, NAN, NAN, 50, 0),
    ]
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
    assert percent(0.99999) == "99.9 %"  # rounded down: only what is complete is 100 %
    assert (with_interval(OURS.iloc[2].replace(1 / 3, NAN)), with_interval(None), percent(NAN)) == (
        "–",
        "–",
        "–",
    )


def test_models_may_be_chosen_and_have_a_dash_without_a_row():
    table = table1(OURS.iloc[1:], models=[LARGE, SMALL, "theirs"])
    assert list(table.columns) == ["metric", "part", LARGE, SMALL, "theirs", "n", "scored"]
    assert (list(table[LARGE]), list(table["theirs"])) == (["0.030", "–"], ["–", "–"])


def test_beside_the_paper():
    paper = pd.read_csv(ROOT / "data" / "paper" / "table1.csv")
    assert len(paper) == 17 * 3 == len(paper.drop_duplicates(["metric", "part", "model"]))
    table = table1(OURS, paper).set_index("metric")
    assert list(table[SMALL]) == [
        "0.333 [0.300, 0.400]; paper 0.02 (+0.313)",
        "0.250 [0.200, 0.300]; paper 0.21 (+0.040)",
    ]
    other = OURS.replace({SMALL: "mine", LARGE: "yours"})
    assert table1(other, paper).equals(table1(other))


def test_the_csv_follows_the_contract(tmp_path):
    paths = save_table1(OURS, tmp_path / "new", absent={"RAGChecker": "no judge"})
    assert (
        [path.name for path in paths]
        == ["table1.csv", "table1.md", "table1.tex"]
        == sorted(os.listdir(tmp_path / "new"))
    )
    lines = paths[0].read_text().splitlines()
    assert lines[0] == "metric,part,model,value,ci_low,ci_high,n,unscored,signature"
    assert lines[1] == (
        f"BLEU,Score,{SMALL},0.333333,0.3,0.4,50,0,BLEU|judge:none|pool:macro|interval:t over group|"
        "n:50|unscored:0|clusters:10"
    )
    assert lines[2].split(",")[4:6] == ["", ""]  # no interval is an empty cell
    assert read_frames(paths[0]).value.tolist() == [0.333333, 0.0301, 0.25, 0.5]


def test_markdown_and_latex(tmp_path):
    rows = OURS.replace({SMALL: "a_b|c & 50%", LARGE: "~^\\#{}$<b>"})
    _, md, tex = (
        path.read_text()
        for path in save_table1(rows, tmp_path, absent={"RAGChecker": "no judge: 100%_off"})
    )
    table = [line for line in md.splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table] == [
        7
    ] * 4  # six columns, four rows
    assert "a\\_b\\|c &amp; 50%" in table[0]
    assert "- Absent: RAGChecker (no judge: 100%\\_off)" in md
    assert (
        "- Settings of EMS(LLM): EMS(LLM)\\|judge:none\\|pool:macro\\|interval:t over group" in md
    )
    for wanted in (
        r"\toprule",
        r"\bottomrule",
        r"a\_b\textbar{}c \& 50\%",
        r"100\%\_off",
        r"$^{\dagger}$",
        r"\textasciitilde{}\textasciicircum{}\textbackslash{}\#\{\}\$\textless{}b\textgreater{}",
    ):
        assert wanted in tex
    assert tex.count(r" \\") == 3  # a header and two rows


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_every_file(name, tmp_path):
    rows = OURS.replace({SMALL: name}).assign(metric=name, signature=name)
    rows["part"] = ["Recall", "F1", "F1", "Recall"]
    csv, md, tex = (
        path.read_text(encoding="utf-8")
        for path in save_table1(rows, tmp_path, absent={name: name})
    )
    assert not Tags(md).tags
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", csv + md + tex)
    assert not re.search(r"(?<!\\)\](?=[(\[])|(?<!\\)`", md)  # no link, image or code
    assert all(line.startswith(("|", "- ")) for line in md.splitlines() if line)
    assert not re.search(r"(?m)^\\(input|end\{table\}%)", tex)
    assert not re.search(r"(^|,)\"?[=+@-](?=[^0-9])", csv)


def test_a_long_name_loses_its_middle_where_it_is_shown(tmp_path):
    long = "model-" + "x" * 5000 + "-70B"
    assert len(shortened(long)) == tables.NAME_LIMIT
    assert shortened(long).startswith("model-xxx")
    assert shortened(long).endswith("xxx-70B")
    assert shortened("short") == "short"
    csv, md, _ = (path.read_text() for path in save_table1(OURS.replace({LARGE: long}), tmp_path))
    assert long in csv
    assert max(map(len, (line for line in md.splitlines() if line.startswith("|")))) < 300
