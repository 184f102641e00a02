"""`make verify`: every number that README and docs/replication.md print, looked up in a run's files.

A row of docs/claims.csv names a document, a CSV file of the run, a query that finds one row of it, and the
words that the document must hold, with the row's columns in braces: "g {g:.2f}".
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]


def check(claim: dict[str, str], run: Path) -> str:
    """What is wrong with a claim; "" when the document has the words with the run's numbers in them."""
    table = run / claim["file"] if (run / claim["file"]).is_file() else ROOT / claim["file"]
    if not table.is_file():
        return f"no {claim['file']} in {run}: run the profile that writes it"
    rows = pd.read_csv(table).query(claim["where"])
    if len(rows) != 1:
        return f"{claim['file']}: {len(rows)} rows for {claim['where']}, one is needed"
    words = claim["words"].format(**rows.iloc[0].to_dict())
    text = " ".join((ROOT / claim["document"]).read_text(encoding="utf-8").split())
    return "" if words in text else f"{claim['document']} does not say {words!r}"


def claims() -> list[dict[str, str]]:
    """The rows of docs/claims.csv."""
    with open(ROOT / "docs" / "claims.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(run: Path) -> int:
    """Print what does not hold, and how much does; the exit status."""
    problems = [problem for claim in claims() if (problem := check(claim, run))]
    held = f"{len(claims()) - len(problems)} of {len(claims())} claims hold in {run.name}"
    print("\n".join([*problems, held]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(ROOT / (sys.argv[1] if len(sys.argv) > 1 else "runs/default")))
