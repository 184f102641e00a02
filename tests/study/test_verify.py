"""`make verify`: what counts as held, and every decimal of the documentation altered in turn."""

import re

import pandas as pd
import pytest
from study import ROOT, verify

DECIMAL = re.compile(r"\d+\.\d+")
CLAIM = {
    "rows": {"a": ["t.csv", "metric == '{metric}'"]},
    "words": "{metric} is {a[value]:.2f} here",
    "each": [{"metric": "A"}, {"metric": "B"}],
}
CLAIMS = {"settings": {"a version": ["Python 3.11"]}, "claims": [CLAIM]}
TEXT = "A is 0.12 here, and B is 0.50 here, with Python 3.11."
DEFAULT_RUN = ROOT / "runs" / "default"


def needs_a_run(test):
    """Marks a slow test that reads runs/default; it is skipped where there is no such run."""
    absent = not (DEFAULT_RUN / "manifest.json").is_file()
    return pytest.mark.slow(pytest.mark.skipif(absent, reason="needs `make reproduce`")(test))


@pytest.fixture
def run(tmp_path):
    table = pd.DataFrame({"metric": ["A", "B"], "value": [0.1234, 0.5]})
    table.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def altered(text, number):
    """The text with another last digit of a number, which a match shows."""
    other = str((int(text[number.end() - 1]) + 1) % 10)
    return text[: number.end() - 1] + other + text[number.end() :]


def test_a_claim_stands_in_the_document_with_the_runs_numbers(run):
    words, problems = verify.expected_words(CLAIMS, run)
    assert problems == []
    assert words == ["Python 3.11", "A is 0.12 here", "B is 0.50 here"]
    assert verify.problems_of(TEXT, words) == []


def test_words_must_stand_there_once(run):
    words, _ = verify.expected_words(CLAIMS, run)
    (problem,) = verify.problems_of(f"{TEXT} B is 0.50 here.", words)
    assert "2 times, not once: 'B is 0.50 here'" in problem
    (problem,) = verify.problems_of(TEXT, [*words, "C is 0.1 here"])
    assert "0 times, not once: 'C is 0.1 here'" in problem


def test_a_decimal_that_no_claim_holds_is_a_problem(run):
    words, _ = verify.expected_words(CLAIMS, run)
    (problem,) = verify.problems_of(f"{TEXT} C is 0.7.", words)
    assert problem.startswith("no claim holds 0.7 in ")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["t.csv", "metric == 'C'"], "t.csv has 0 rows where metric == 'C', not one"),
        (["t.csv", "value > 0"], "t.csv has 2 rows where value > 0, not one"),
        (["other.csv", "value > 0"], "No such file"),
    ],
)
def test_a_claim_that_cannot_be_looked_up_is_a_problem(run, rows, words):
    claim = {"rows": {"a": rows}, "words": "{a[value]}"}
    found, problems = verify.expected_words({"claims": [claim]}, run)
    assert found == []
    assert len(problems) == 1
    assert words in problems[0]


def test_the_whole_project_is_read_and_reported(run, capsys):
    (run / "docs").mkdir()
    (run / "docs" / "claims.yaml").write_text(
        "page.md:\n  claims:\n    - rows: {a: [t.csv, \"metric == 'A'\"]}\n"
        '      words: "A is {a[value]:.2f}"\n'
    )
    (run / "page.md").write_text("A is\n0.12, and B is 0.3.\n")
    n_decimals, problems = verify.verify(run, project=run)
    assert n_decimals == 2
    assert problems == ["page.md: no claim holds 0.3 in 'A is 0.12, and B is 0.3.'"]
    assert verify.main(run, project=run) == 1
    assert "2 decimals of the documentation, 1 problems" in capsys.readouterr().out


@needs_a_run
def test_every_decimal_of_the_documentation_is_held_against_the_default_run():
    assert verify.verify(DEFAULT_RUN)[1] == []


@needs_a_run
@pytest.mark.parametrize("document", verify.claims_of(ROOT))
def test_an_altered_decimal_is_noticed(document):
    words, _ = verify.expected_words(verify.claims_of(ROOT)[document], DEFAULT_RUN)
    text = verify.text_of(ROOT / document)
    numbers = list(DECIMAL.finditer(text))
    unnoticed = [n[0] for n in numbers if not verify.problems_of(altered(text, n), words)]
    assert unnoticed == []
    print(f"{document}: {len(numbers)} decimals altered in turn, all noticed")
