"""Stages and metrics of one's own: import paths and functions, signed by their source."""

from math import nan

import pytest

from ems.custom import as_stage, load
from ems.types import InputError


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder to work in, and the name of a module there; a new one for every test, as Python loads a name once."""
    monkeypatch.chdir(tmp_path)
    name = f"mine_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text("def share(references, answers):\n    return [0.25 for _ in answers]\n\nnumber = 3\n")
    return name


@pytest.mark.parametrize(("path", "says"), [
    ("jaccard", "jaccard"), (":jaccard", ":jaccard"), ("../x:y", "../x:y"), ("no_such_module:jaccard", "no_such_module"),
    ("{mine}:shar", "no attribute 'shar'"), ("needs_more:f", "absent_package_of_mine")])
def test_a_path_that_leads_nowhere_is_one_clear_line(mine, path, says, tmp_path):
    (tmp_path / "needs_more.py").write_text("import absent_package_of_mine\n")
    with pytest.raises(InputError, match="module:name") as error:
        load(path.format(mine=mine))
    assert says in str(error.value)


def test_a_function_is_signed_with_its_name_and_its_source(mine, tmp_path):
    one = as_stage(f"{mine}:share", "metric")
    assert one.signature.startswith(f"{mine}.share:")
    assert one.signature == as_stage(load(f"{mine}:share"), "metric").signature
    (tmp_path / f"{mine}2.py").write_text("def share(references, answers):\n    return [0.5 for _ in answers]\n")
    other = as_stage(f"{mine}2:share", "metric")
    assert one.signature.partition(":")[2] != other.signature.partition(":")[2]
    assert as_stage(max, "scorer").signature == "builtins.max:source unknown"
    assert as_stage(one, "metric") is one                       # what has a signature is a stage already

    class Half:
        def __call__(self, pairs):
            return [0.5 for _ in pairs]

    assert "Half:" in as_stage(Half(), "scorer").signature


@pytest.mark.parametrize(("kind", "entry", "read"), [
    ("extractor", ["one", "two"], ("one", "two")), ("extractor", [], ()), ("extractor", None, None), ("matcher", [0, -1, None], (0, -1, None)),
    ("metric", 1, 1.0), ("metric", nan, None), ("metric", None, None),
])
def test_what_a_function_returns_is_read(kind, entry, read):
    assert as_stage(lambda items, *answers: [entry for _ in items], kind)(["item", "item"]) == [read, read]


@pytest.mark.parametrize("value", [1.5, -0.1])
def test_a_value_out_of_range_is_refused(value):
    with pytest.raises(InputError, match="must return numbers in"):
        as_stage(lambda pairs: [value for _ in pairs], "scorer")([[("a", "b")]])


def test_a_scorer_gets_all_pairs_at_once_and_its_scores_stay_with_their_answer():
    seen = []

    def scorer(pairs):
        seen.append(list(pairs))
        return [None if ref == ans else len(ref) / 10 for ref, ans in pairs]

    groups = [[("a", "b"), ("same", "same")], [], [("ccc", "d")]]
    assert as_stage(scorer, "scorer")(groups) == [[0.1, None], [], [0.3]]
    assert seen == [[("a", "b"), ("same", "same"), ("ccc", "d")]]


def test_a_wrong_number_of_entries_is_refused_and_own_errors_pass_through():
    with pytest.raises(InputError, match="an entry per input, 2, got 1"):
        as_stage(lambda items: [0.5], "metric")(["a", "b"])

    def broken(items):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        as_stage(broken, "metric")(["a"])
