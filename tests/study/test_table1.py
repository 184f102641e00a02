"""Table 1 as files, to the letter, in the three formats; names from outside stay text in each."""

import os
import re

import pandas as pd
import pytest
from doubles import Tags
from study import ROOT, read_frames
from study.table1 import beside_paper, save_table1
from test_tables import LARGE, OURS, SMALL

from ems.analysis.tables import table1

HOSTILE = [
    "<script>alert('x')</script> & \"$5\" to $6 \x1b[31mred\x00 \u202eevil | end",
    "=cmd|' /C calc'!A0",
    "m\n\\input{x}\r| a | b |",
    "[x](javascript:alert(1)) ![y](z) `code` *b* _i_ ~s~",
    "\\end{table}%$#&^{}~",
    "[a][b]",
]


def test_the_csv_follows_the_contract(tmp_path):
    paths = save_table1(OURS, tmp_path / "new", absent={"RAGChecker": "no judge"})
    names = ["table1.csv", "table1.md", "table1.tex", "table1_signatures.csv"]
    assert [path.name for path in paths] == names
    assert sorted(os.listdir(tmp_path / "new")) == names
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
    paths = save_table1(rows, tmp_path, absent={"RAGChecker": "no judge: 100%_off"})
    _, md, tex, signatures = (path.read_text() for path in paths)
    table = [line for line in md.splitlines() if line.startswith("|")]
    assert len(table) == 4
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 7  # six columns
    assert "a\\_b\\|c &amp; 50%" in table[0]
    assert "- Absent: RAGChecker (no judge: 100%\\_off)" in md
    assert "EMS(LLM),EMS(LLM)|judge:none|pool:macro|interval:t over group\n" in signatures
    assert "judge:none" not in md + tex
    for wanted in (
        r"\caption{",
        r"\label{tab:ems}",
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
    paths = save_table1(rows, tmp_path, absent={name: name})
    csv, md, tex, signatures = (path.read_text(encoding="utf-8") for path in paths)
    csv += signatures
    assert not Tags(md).tags
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", csv + md + tex)
    assert not re.search(r"(?<!\\)\](?=[(\[])|(?<!\\)`", md)  # no link, image or code
    assert all(line.startswith(("|", "- ")) for line in md.splitlines() if line)
    assert not re.search(r"(?m)^\\(input|end\{table\}%)", tex)
    assert not re.search(r"(^|,)\"?[=+@-](?=[^0-9])", csv)


def test_a_long_name_is_cut_in_the_table_and_whole_in_the_csv(tmp_path):
    long = "model-" + "x" * 5000 + "-70B"
    csv, md, *_ = (path.read_text() for path in save_table1(OURS.replace({LARGE: long}), tmp_path))
    assert long in csv
    assert max(len(line) for line in md.splitlines() if line.startswith("|")) < 300


def test_beside_the_paper():
    paper = pd.read_csv(ROOT / "data" / "paper" / "table1.csv")
    assert len(paper) == 17 * 3 == len(paper.drop_duplicates(["metric", "part", "model"]))
    table = beside_paper(table1(OURS), OURS, paper).set_index("metric")
    assert list(table[SMALL]) == [
        "0.333 [0.300, 0.400]; paper 0.02 (+0.313)",
        "0.250 [0.200, 0.300]; paper 0.21 (+0.040)",
    ]
    other = OURS.replace({SMALL: "mine", LARGE: "yours"})
    assert beside_paper(table1(other), other, paper).equals(table1(other))
