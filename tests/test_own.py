"""A user's own metrics and stages by import path: from a module in the project's folder to tables and runs."""

import math
from pathlib import Path

import pytest
from tiny import project

import ems
from ems.study import own
from ems.study.people import agreement
from ems.study.run.runner import Run, Step, chosen_notebooks, declared, load_profile
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parent.parent
MODULE = '''
def share(references, answers):
    return [0.25 for _ in answers]

def three(references, answers):
    return [(0.1, 0.2, 0.3) for _ in answers]

def gaps(references, answers):
    return [None, float("nan")]

def gaps_of_three(references, answers):
    return [None, (0.1, None, 0.3)]

def short(references, answers):
    return [0.5]

def large(references, answers):
    return [0.5, 7]

def half(pairs):
    return [0.5 for _ in pairs]

def lines(texts):
    return [text.splitlines() for text in texts]

def first(pairs):
    return [[0 if answer else -1] * len(reference) for reference, answer in pairs]

def off(pairs):
    return [[9] * len(reference) for reference, _ in pairs]

class Named:
    name, signature = "named", "named:v1"
    def __call__(self, pairs):
        return [1.0 for _ in pairs]

number = 3
'''
TRIPLETS = [Triplet("t1", "g", "q", "one\ntwo"), Triplet("t2", "g", "q", "three")]
ANSWERS = [Answer("t2", "m", "three"), Answer("t1", "m", "one\nother")]


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """A project with `mine_<n>.py`, a module of a new name for every test: Python loads a name once."""
    project(tmp_path, "common: {}", _01_first=["A = 1  # a"])
    name = f"mine_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_metric_becomes_rows_with_its_values_and_signature(module):
    values = own.metric_frames({"Share": f"{module}:share", "Three": f"{module}:three"}, TRIPLETS, ANSWERS)
    rows = {(row.metric, row.part, row.triplet_id): row for frame in values for row in frame.itertuples()}
    assert rows["Share", "Score", "t1"].value == 0.25
    assert [rows["Three", part, "t2"].value for part in ("Precision", "Recall", "F1")] == [0.1, 0.2, 0.3]
    assert rows["Share", "Score", "t1"].signature.startswith(f"own:{module}:share#")
    assert rows["Share", "Score", "t1"].group == "g"


def test_what_a_metric_cannot_score_is_unscored(module):
    frame, = own.metric_frames({"Gaps": f"{module}:gaps"}, TRIPLETS, ANSWERS)
    assert frame["value"].isna().all()
    assert list(frame["unscored"]) == [1, 1]


def test_an_answer_without_any_of_three_values_is_unscored_wherever_it_stands(module):
    frame, *_ = frames = own.metric_frames({"Mine": f"{module}:gaps_of_three"}, TRIPLETS, ANSWERS)
    assert [str(f.part[0]) for f in frames] == list(own.PARTS)
    assert frame.unscored.tolist() == [1, 0]
    assert frame.value.iloc[1] == 0.1


def test_own_stages_make_an_ems_of_ones_own(module):
    pipeline = own.pipeline_with(ems.build(None, "local-pair"), f"{module}:lines", f"{module}:first")
    results = pipeline.evaluate(TRIPLETS, ANSWERS)
    assert [r.ref_points for r in results] == [("three",), ("one", "two")]
    assert results[1].match == (0, 0)
    assert f"extract:own:{module}:lines#" in results[0].signature
    again = own.rescored_by({"EMS(half)": f"{module}:half", "EMS(named)": f"{module}:Named"}, results, pipeline)
    assert [r.recall for r in again["EMS(half)"]] == [0.5, 0.5]
    assert [r.precision for r in again["EMS(half)"]] == [0.5, 0.25]       # one of two answer points is chosen
    assert "score:named:v1" in again["EMS(named)"][0].signature


def test_own_metrics_stand_in_score_tables_beside_the_kits(module):
    table = agreement.score_table(TRIPLETS, ANSWERS, metrics={"Share": f"{module}:share"},
                                  scorers={"EMS(half)": f"{module}:half"})
    assert list(table["Share Score"]) == [0.25, 0.25]
    assert {"EMS(half) Precision", "EMS(half) Recall", "EMS(half) F1"} <= set(table)
    assert agreement.metrics_of(table)["Share"] == "Share Score"


@pytest.mark.parametrize(("path", "says"), [
    ("jaccard", "must read module:name"),
    ("no_such_module:jaccard", "no module 'no_such_module'; put no_such_module.py into"),
    ("{module}:shar", "did you mean 'share'?"),
    ("{module}:short", "must return an entry for each of 2 answers, got 1"),
    ("{module}:large", "must return numbers in [0, 1], or None for what cannot be scored; got 7"),
])
def test_a_wrong_metric_is_one_clear_line(module, path, says):
    with pytest.raises(InputError) as error:
        own.metric_frames({"M": path.format(module=module)}, TRIPLETS, ANSWERS)
    assert says in str(error.value)


def test_a_wrong_stage_is_one_clear_line(module):
    with pytest.raises(InputError, match="must be a scorer: a function, or an object with a signature; got int"):
        own.stage(f"{module}:number", "scorer")
    pipeline = own.pipeline_with(ems.build(None, "local-pair"), "", f"{module}:off")
    with pytest.raises(InputError, match="must return an index from -1 to 0, or None, for each of 1 reference"):
        pipeline.score("Revenue rose 5%.", "Revenue rose.")


def test_the_example_metric_of_notebook_9_is_the_jaccard_index(monkeypatch):
    monkeypatch.chdir(ROOT)
    jaccard = own.load("notebooks.own_metric:jaccard")
    assert jaccard(["a b c", ""], ["B c d", ""]) == [2 / 4, 0.0]
    assert own.source_of("notebooks.own_metric:jaccard") == ROOT / "notebooks" / "own_metric.py"


def test_no_text_that_is_no_import_path_names_a_module():
    for text in ("", "https://x.org:8000/v1", "data/a.csv", "a:b:c", "c: d", "none:such"):
        assert own.source_of(text) is None


def test_a_notebook_runs_again_when_the_module_changes(module, tmp_path):
    step = Step(tmp_path / "notebooks" / "01_first.ipynb", {"METRICS": {"Share": f"{module}:share"}}, (), ())
    run = Run(tmp_path, tmp_path / "runs", (step,), "code")
    before = run.fingerprint(step)
    assert run.fingerprint(step) == before
    (tmp_path / f"{module}.py").write_text(MODULE + "\nmore = 1\n")
    assert run.fingerprint(step) != before


def test_an_optional_notebook_runs_only_where_it_is_named():
    def stems(*asked):
        return {p.stem for p in chosen_notebooks(ROOT, *asked)}
    assert "09_own_metric" not in stems(load_profile(ROOT, "default"))
    assert "09_own_metric" in stems(load_profile(ROOT, "smoke"))
    assert stems({}, ["09"]) == {"09_own_metric"}


@pytest.mark.parametrize(("number", "names"), [
    ("02_baselines", {"METRICS"}), ("03_ems_variants", {"SCORERS", "EXTRACTOR", "MATCHER"}),
    ("05_granularity", {"METRICS", "SCORERS"}), ("06_human_correlation", {"METRICS", "SCORERS"}),
])
def test_notebooks_take_own_parts_as_parameters(number, names):
    assert names <= declared(ROOT / "notebooks" / f"{number}.ipynb").keys()


def test_agreement_with_people_of_a_metric_of_one_value_stands_under_score():
    import pandas as pd

    people = pd.DataFrame([{"asked": "overall", "metric": "Share", "measure": "spearman", "value": 0.4,
                            "ci_low": 0.3, "ci_high": 0.5}])
    beside = agreement.beside_table1(people).set_index(["metric", "part"])["value"]
    assert beside["Share", "Score"] == 0.4
    assert not math.isnan(beside["Share", "F1"])
