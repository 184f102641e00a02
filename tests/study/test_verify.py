"""Claims of the documents: what counts as held, and that the committed list is well formed."""

import pandas as pd
import pytest
from study import verify


@pytest.fixture
def run(tmp_path):
    pd.DataFrame({"metric": ["A", "B"], "value": [0.1234, 0.5]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    return tmp_path


def claim(**changes):
    return {
        "document": "README.md",
        "file": "t.csv",
        "where": "metric == 'A'",
        "words": "{value:.2f}",
        **changes,
    }


def test_a_claim_holds_where_the_document_has_the_runs_number(run, monkeypatch, tmp_path):
    (tmp_path / "README.md").write_text("A is\n0.12 here.")
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    assert verify.check(claim(words="A is {value:.2f} here"), run) == ""
    assert "does not say 'A is 0.123'" in verify.check(claim(words="A is {value:.3f}"), run)
    assert "0 rows" in verify.check(claim(where="metric == 'C'"), run)
    assert "no other.csv" in verify.check(claim(file="other.csv"), run)


def test_every_committed_claim_names_a_document_and_a_column():
    for row in verify.claims():
        assert (verify.ROOT / row["document"]).is_file()
        assert "{" in row["words"]
        assert row["file"].endswith(".csv")
