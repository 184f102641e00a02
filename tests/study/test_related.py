"""The tables of FinDVer and FinanceBench: cells by hand, and the committed ones from the files."""

import pandas as pd
import pytest
from study import ROOT, related, upstream
from study.datasets import FINANCEBENCH_QUESTIONS, FINDVER_CLAIMS

PRINTED = ROOT / "data" / "paper" / "related_tables.csv"
STORED = ROOT / "data" / "human" / "related_tables.csv"
FILES = {
    FINANCEBENCH_QUESTIONS: [
        {"financebench_id": i, "company": f"c{i % 7}", "question_type": ["metrics", "novel"][i % 2]}
        for i in range(14)
    ],
    "marked": [
        {"financebench_id": i, "label": "Correct answer" if i < 6 else "Refusal"} for i in range(14)
    ],
    FINDVER_CLAIMS: [{"example_id": f"e{i}", "relevant_context": [1, 2]} for i in range(8)],
    # One of the two relevant paragraphs is among the first two, the other one is not found.
    "top2": [
        {"example_id": f"e{i}", "report": f"r{i}", "retrieved_context": [1, 5]} for i in range(8)
    ],
    "top4": [
        {"example_id": f"e{i}", "report": f"r{i}", "retrieved_context": [0, 1, 5, 9]}
        for i in range(8)
    ],
    "judged": [
        {
            "example_id": f"e{i}",
            "report": f"r{i}",
            "result": i < 6,
            "subset": "ie" if i < 4 else "math",
            "retrieved_context": [1, 5] if i % 2 else [2, 1],
        }
        for i in range(8)
    ],
}


@pytest.mark.parametrize(
    ("paper", "measure", "file", "subset", "expected"),
    [
        ("FinanceBench", "count", "marked", "correct", [(6, 14)]),
        ("FinanceBench", "percent", "marked", "correct", [(43, 14)]),
        ("FinanceBench", "count", "marked", "refusal, novel", [(4, 7)]),
        ("FinanceBench", "count", "marked marked", "correct", [(12, 28)]),
        ("FinDVer", "accuracy", "judged", "all", [(75.0, 8)]),
        ("FinDVer", "accuracy", "judged", "math", [(50.0, 4)]),
        ("FinDVer", "recall", "judged", "all", [(75.0, 8)]),
        ("FinDVer", "recall", "top4", "all", [(50.0, 8)]),
        ("FinDVer", "MRR", "top4", "highest", [(100.0, 8)]),
        ("FinDVer", "MRR", "top4", "lowest", [(25.0, 8)]),
        ("FinDVer", "MRR", "top2 top4", "highest", [(100.0, 8)]),
        ("FinDVer", "MRR", "top2 top4", "lowest", [(50.0, 8)]),
        ("FinDVer", "MAP", "top2 top4", "highest", [(50.0, 8)]),
        ("FinDVer", "MAP", "top2 top4", "lowest", [(25.0, 8)]),
        ("FinDVer", "accuracy", "unpinned", "all", []),
    ],
)
def test_every_kind_of_cell_by_hand(monkeypatch, paper, measure, file, subset, expected):
    monkeypatch.setattr(upstream, "pinned_rows", FILES.__getitem__)
    monkeypatch.setattr(upstream, "pins", lambda: FILES)
    cell = {
        **dict.fromkeys(related.CELL_KEYS, "x"),
        "paper": paper,
        "measure": measure,
        "file": file,
        "subset": subset,
    }
    rows = related.counted(pd.DataFrame([cell])).to_dict("records")
    assert [(row["ours"], row["n"]) for row in rows] == expected


def test_the_committed_cells_beside_the_printed_ones():
    counted = related.compared(related.tables(PRINTED, STORED))
    assert counted["equal"].to_list() == [59, 0, 7, 23, 26, 21, 5]


def test_findings_count_the_cells_of_each_paper_and_name_a_table_without_an_equal_cell():
    cells = pd.DataFrame(
        [
            ("A", "Table 1", 5.0, 5.0),
            ("A", "Table 1", 5.0, 6.0),
            ("A", "Table 2", 5.0, 6.0),
            ("A", "Table 2", 7.0, None),
            ("B", "Table 1", 1.0, 1.0),
        ],
        columns=["paper", "table", "printed", "ours"],
    )
    assert related.cell_findings(cells.assign(gap=cells["ours"] - cells["printed"])) == [
        "A prints 4 cells in these tables; 3 can be counted from the released files, and 1 of "
        "these are equal. No cell is equal in Table 2.",
        "B prints 1 cells in these tables; 1 can be counted from the released files, and 1 of "
        "these are equal.",
    ]


def test_what_notebook_10_says_about_the_retrievers_is_what_is_committed():
    notebook = (ROOT / "notebooks" / "10_related_tables.ipynb").read_text(encoding="utf-8")
    cells = pd.read_csv(STORED)
    precision = cells[cells["column"].str.startswith("MAP@10")].set_index(["row", "column"])
    contriever, bm25, embedding = (
        precision.loc[(f"{name}, k = 10", f"MAP@10, at {end}")]
        for name, end in [("Contriever", "most"), ("BM25", "least"), ("OAI-Large", "least")]
    )
    assert contriever["ci_high"] < min(bm25["ci_low"], embedding["ci_low"])
    for cell in (contriever, bm25, embedding):
        assert f"{cell['ours']:.1f} %" in notebook
    ends = precision.loc[["BM25, k = 10", "OAI-Large, k = 10"]]["ours"].unstack()
    assert ends["MAP@10, at least"].max() < ends["MAP@10, at most"].min()  # not clear


def test_the_lists_are_in_the_order_of_the_filing_and_contain_each_other(mirror):
    folder = "findver/outputs/testmini_outputs/retriever_output"
    for name in ("bm25", "contriever-msmarco", "text-embedding-3-large"):
        shorter = {}
        for length in (3, 5, 10):
            for row in upstream.pinned_rows(f"{folder}/top_{length}/{name}.json"):
                paragraphs = row["retrieved_context"]
                assert paragraphs == sorted(set(paragraphs))
                assert len(paragraphs) == length
                assert shorter.get(row["example_id"], set()) <= set(paragraphs)
                shorter[row["example_id"]] = set(paragraphs)


@pytest.mark.slow
def test_the_committed_cells_come_out_of_the_released_files(mirror, tmp_path):
    related.tables(PRINTED, tmp_path / "counted.csv", recompute=True)
    assert (tmp_path / "counted.csv").read_bytes() == STORED.read_bytes()
