"""The default run: every recorded reply still answers, reads as it did, and gives its values.

frozen.json holds what the committed replies give, a row each (see freeze.py). A prompt, a schema
or a cleaning rule that changes a reply's key shows here, and so does a change of arithmetic. A
test that fails lists the rows that changed; where the change is wanted, remake the file with
`PYTHONPATH=notebooks python tests/freeze.py --write`.
"""

from importlib.util import find_spec

import freeze
import pytest

CASES = []
for kind, (_, metrics) in freeze.ROWS.items():
    CASES += [(kind, metric) for metric in metrics]


def case(kind, metric):
    marks = []
    if "BERTScore" in metric:
        absent = find_spec("bert_score") is None
        reason = "BERTScore needs the extra 'encoder'"
        marks = [pytest.mark.slow, pytest.mark.skipif(absent, reason=reason)]
    return pytest.param(kind, metric, marks=marks, id=f"{kind}, {metric}")


@pytest.mark.parametrize(("kind", "metric"), [case(*names) for names in CASES])
def test_the_committed_replies_give_what_they_gave(kind, metric):
    make, _ = freeze.ROWS[kind]
    # An encoder's sums end in another digit on another processor; all else is the same everywhere.
    tolerance = 2e-6 if "BERTScore" in metric else 6e-7
    rows = make(metric)
    assert rows
    assert freeze.differences(freeze.frozen_rows(kind, metric), rows, tolerance) == []


def test_every_frozen_row_is_tested():
    tested = {f"{kind}: {metric}" for kind, metric in CASES}
    frozen = {label.rpartition(": ")[0] for label in freeze.frozen_rows()}
    assert frozen == tested


# --- the list of what changed, and the file ---


OLD = {"keys: A: match": [2, "aa"], "answers: A: Q1, m": [0.5, 3], "table1: A: F1, m": [0.1]}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"answers: A: Q1, m": [0.5 + 1e-7, 3]}, []),
        ({"answers: A: Q1, m": [0.6, 3]}, ["answers: A: Q1, m: was [0.5, 3], is [0.6, 3]"]),
        ({"answers: A: Q1, m": [0.5, 4]}, ["answers: A: Q1, m: was [0.5, 3], is [0.5, 4]"]),
        ({"keys: A: match": [2, "ab"]}, ["keys: A: match: was [2, 'aa'], is [2, 'ab']"]),
        ({"keys: A: score": [1, "cc"]}, ["keys: A: score: was None, is [1, 'cc']"]),
        ({"table1: A: F1, m": [0.1, 7]}, ["table1: A: F1, m: was [0.1], is [0.1, 7]"]),
    ],
)
def test_what_changed_is_listed_old_and_new(changes, lines):
    assert freeze.differences(OLD, {**OLD, **changes}) == lines


def test_a_row_that_is_gone_is_listed():
    rows = {label: row for label, row in OLD.items() if label != "keys: A: match"}
    assert freeze.differences(OLD, rows) == ["keys: A: match: was [2, 'aa'], is None"]


def test_the_file_is_written_a_row_a_line_only_where_this_is_asked(tmp_path, monkeypatch, capsys):
    file = tmp_path / "frozen.json"
    freeze.write(OLD, file)
    assert len(file.read_text().splitlines()) == len(OLD) + 2
    monkeypatch.setattr(freeze, "FILE", file)
    new = {**OLD, "table1: A: F1, m": [0.2]}
    monkeypatch.setattr(freeze, "rows_now", lambda: new)
    freeze.main([])
    assert freeze.frozen_rows() == OLD
    freeze.main(["--write"])
    assert freeze.frozen_rows() == new
    assert "table1: A: F1, m: was [0.1], is [0.2]" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        freeze.main(["--wirte"])
