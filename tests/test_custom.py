"""Stages and metrics of one's own: import paths and functions, signed by their source."""

from math import nan

import numpy as np
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


@pytest.mark.parametrize(("kind", "entry", "gives"), [
    *(("scorer", entry, "a number in [0, 1]") for entry in (1.5, -0.1, "high", {"score": 0.5}, np.array([0.5, 1]))),
    ("extractor", "one text", "a list of texts"), ("extractor", [1], "a list of texts"), ("extractor", 3, "a list of texts"),
    ("matcher", 0, "an index or -1"), ("matcher", ["one"], "an index or -1")])
def test_an_entry_of_another_kind_is_refused_with_what_is_wanted(kind, entry, gives):
    with pytest.raises(InputError) as error:
        as_stage(lambda items: [entry for _ in items], kind)([[("a", "b")]])
    assert f"1 here, and must return {gives}" in str(error.value)
    assert "; got [" in str(error.value)


def test_a_scorer_gets_all_pairs_at_once_and_its_scores_stay_with_their_answer():
    seen = []

    def scorer(pairs):
        seen.append(list(pairs))
        return [None if ref == ans else len(ref) / 10 for ref, ans in pairs]

    groups = [[("a", "b"), ("same", "same")], [], [("ccc", "d")]]
    assert as_stage(scorer, "scorer")(groups) == [[0.1, None], [], [0.3]]
    assert seen == [[("a", "b"), ("same", "same"), ("ccc", "d")]]


def test_a_wrong_number_of_entries_is_refused_and_own_errors_pass_through():
    for given, got in (([0.5], "1"), (None, "None"), (0.5, "0.5")):
        with pytest.raises(InputError, match=f"takes references and answers, 2 here, .* for each; got {got}"):
            as_stage(lambda items, given=given: given, "metric")(["a", "b"])

    def broken(items):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine") as error:
        as_stage(broken, "metric")(["a"])
    assert "must return a number" in error.value.__notes__[0]
    with pytest.raises(InputError, match="a metric is a function"):
        as_stage(dict, "metric")                               # a class, not an object that can be called
