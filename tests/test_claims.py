"""The list of claims and the check behind `make verify`."""

import math
import sys
from pathlib import Path

import pytest

from ems.study.verify import CLAIMS, Claim, Outcome, check, found, read_claims, run
from ems.types import InputError

ROOT = Path(__file__).parent.parent
TABLE = "metric,part,model,triplet_id,value\nB,F1,m,1,0.4\nB,F1,m,2,0.6\nB,F1,n,1,0.1\nC,F1,m,1,0.25\n"


def claim(cell, value=0.0, tolerance=0.0, file="t.csv"):
    return Claim("c", "says so", file, cell, value, tolerance)


def test_the_committed_claims_are_read_and_name_commands():
    claims = read_claims((ROOT / CLAIMS).read_text(encoding="utf-8"))
    assert len(claims) >= 20
    assert next(iter(claims)).command == "ems reproduce"
    assert all(c.file or c.cell == "exit status" for c in claims)


def test_a_row_that_is_no_claim_is_named():
    with pytest.raises(InputError, match="line 2: a row needs claim, file, cell, value, tolerance"):
        read_claims("## `ems`\n| claim | file | cell | many | 0 |")


def test_a_number_is_looked_up_by_its_cell(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    assert found(claim("metric=C; value"), tmp_path) == 0.25
    assert found(claim("rows"), tmp_path) == 5
    assert found(claim("exit status", file=""), tmp_path, 3) == 3
    assert found(claim("metric=B; model=m; over=n; value"), tmp_path) == 0.4 / 0.1     # on triplet 1, which both have
    assert math.isnan(found(claim("rows", file="absent.csv"), tmp_path))


@pytest.mark.parametrize(("cell", "says"), [
    ("metric=B; value", "must name one row, got 3"),
    ("metrc=B; value", "has no column 'metrc'"),
    ("metric=C; values", "has no column 'values'"),
    ("metric=C; metric", "must be a number, got 'C'"),
    ("metric=B; model=m; over=absent; value", "needs rows of 'absent', there are none"),
])
def test_a_cell_that_names_no_number_is_refused(tmp_path, cell, says):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(InputError, match=says):
        found(claim(cell), tmp_path)


def test_claims_hold_within_their_tolerance_only(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    claims = [claim("metric=C; value", 0.3, 0.05), claim("metric=C; value", 0.3, 0.04), claim("rows", 1, 9, "absent"),
              claim("metric=B; value", 0.4)]
    checked = check(claims, {"c": Outcome(0, 1.0, 0.1)}, tmp_path)
    assert list(checked["holds"]) == [True, False, False, False]
    assert "must name one row, got 3" in checked["claim"].iloc[3]


def test_a_command_is_measured(tmp_path):
    outcome = run(f"{sys.executable} -c 'raise SystemExit(3)'", tmp_path)
    assert outcome.status == 3
    assert 0 < outcome.seconds < 60
    assert 0.001 < outcome.gigabytes < 10
