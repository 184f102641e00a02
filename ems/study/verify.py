"""`make verify`: every claim of docs/claims.md beside what its command gives here, and whether it holds.

The document is the list: each heading with a command in backquotes begins a section, and each row of the
section's table is a claim about a number in a file which that command writes, or about its exit status.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..data import read_frames
from ..io import read_text, some
from ..results.display import visible
from ..types import InputError
from .run.project import project_root

if TYPE_CHECKING:
    import pandas as pd

CLAIMS = "docs/claims.md"
COLUMNS = ["claim", "file", "cell", "value", "tolerance"]
STATUS = "exit status"         # the cell of a claim about the command itself
ROWS = "rows"                  # the cell of a claim about how many lines a file has


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of docs/claims.md."""

    command: str               # what makes the number
    text: str
    file: str                  # relative to the project; "" for the exit status
    cell: str                  # "metric=BLEU; part=Score; column", `ROWS` or `STATUS`
    value: float
    tolerance: float           # largest absolute difference at which the claim holds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did here: its exit status, wall time, and the memory of its largest process."""

    status: int
    seconds: float
    gigabytes: float


def read_claims(text: str) -> list[Claim]:
    """The claims of a document like docs/claims.md, in its order. InputError for a row that is none."""
    claims, command = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := re.match(r"#+ .*?`([^`]+)`", line):
            command = heading[1]
        if not line.startswith("|") or not command:
            continue
        row = [entry.strip().strip("`") for entry in line.strip().strip("|").split("|")]
        if row == COLUMNS or set("".join(row)) <= set("-: "):
            continue
        try:
            claim, file, cell, value, tolerance = row
            claims.append(Claim(command, claim, file, cell, float(value), float(tolerance)))
        except ValueError:
            raise InputError(f"{CLAIMS}, line {number}: a row needs {', '.join(COLUMNS)}, the last two "
                             f"numbers; got {line[:80]!r}") from None
    return claims


def found(claim: Claim, root: Path, status: int = 0) -> float:
    """The number that a claim is about, as it is here; nan where its file is absent.

    A cell names a row by columns and values, and a column. `over=` a model gives the quotient of two models'
    means over the triplets that both have a value for. InputError for a cell that is not one row's.
    """
    if claim.cell == STATUS:
        return float(status)
    path = root / claim.file
    if not path.exists():
        return math.nan
    if claim.cell == ROWS:
        return float(sum(bool(line.strip()) for line in read_text(path).split("\n")))
    *conditions, column = [piece.strip() for piece in claim.cell.split(";")]
    wanted = dict(condition.split("=", 1) for condition in conditions if "=" in condition)
    over, table = wanted.pop("over", ""), read_frames(path)
    if absent := [name for name in (*wanted, column) if name not in table]:
        raise InputError(f"{claim.file} has no column {absent[0]!r}; it has {some(list(table.columns), 20)}")
    for name, value in wanted.items():
        accepted = {value, over} if over and name == "model" else {value}
        table = table[table[name].astype(str).isin(accepted)]
    if over:
        wide = table.pivot(index="triplet_id", columns="model", values=column).dropna()
        if absent := [name for name in (wanted["model"], over) if name not in wide]:
            raise InputError(f"{claim.file}: {claim.cell!r} needs rows of {absent[0]!r}, there are none")
        return float(wide[wanted["model"]].mean() / wide[over].mean())
    if len(table) != 1:
        raise InputError(f"{claim.file}: {claim.cell!r} must name one row, got {len(table)}")
    try:
        return float(table[column].iloc[0])
    except ValueError:
        raise InputError(f"{claim.file}: {claim.cell!r} must be a number, got "
                         f"{table[column].iloc[0]!r:.40}") from None


def run(command: str, root: Path) -> Outcome:
    """Run a command in the project with this Python's commands first; its output goes to standard error."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    began = time.monotonic()
    process = subprocess.Popen(shlex.split(command), cwd=root, env={**os.environ, "PATH": path},
                               stdout=sys.stderr)
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    size = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)   # macOS counts bytes, Linux kilobytes
    return Outcome(process.returncode, time.monotonic() - began, size / 1e9)


def check(claims: Sequence[Claim], outcomes: dict[str, Outcome], root: Path) -> pd.DataFrame:
    """A row a claim: claim, expected, tolerance, found, holds. A claim without its number does not hold, and
    says why.
    """
    import pandas as pd

    rows = []
    for claim in claims:
        value, why = math.nan, ""
        try:
            value = found(claim, root, outcomes[claim.command].status)
        except InputError as error:
            why = f" ({error})"
        rows.append({"claim": claim.text + why, "expected": claim.value, "tolerance": claim.tolerance,
                     "found": value,
                     "holds": abs(value - claim.value) <= claim.tolerance + 1e-12})
    return pd.DataFrame(rows)


def main() -> int:
    """Run the commands of docs/claims.md and say which claims hold; 0 when all do, else 1."""
    root = project_root()
    claims = read_claims(read_text(root / CLAIMS))
    outcomes = {command: run(command, root) for command in dict.fromkeys(claim.command for claim in claims)}
    table = check(claims, outcomes, root)
    for command, outcome in outcomes.items():
        print(f"{command}: exit {outcome.status}, {outcome.seconds:.0f} s, {outcome.gigabytes:.1f} GB in its "
              "largest process")
    for row in table.itertuples(index=False):
        mark = "holds " if row.holds else "FAILS "
        print(f"{mark} {row.expected:>9.4g} ± {row.tolerance:<7.2g} here {row.found:<9.4g} "
              f"{visible(row.claim, 90 if row.holds else 300)}")
    print(f"{int(table['holds'].sum())} of {len(table)} claims hold")
    return 0 if table["holds"].all() else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(f"verify: {visible(str(error))}", file=sys.stderr)
        sys.exit(2)
