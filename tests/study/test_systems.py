"""Systems of a run and families of systems: order, differences, committed values."""

import math
from statistics import mean, stdev

import numpy as np
import pandas as pd
import pytest
from study import read_answers, read_triplets, read_values, systems

import ems
from ems.analysis.frames import METRIC_ORDER, to_frame


def test_the_area_between_two_systems_by_hand():
    values = pd.DataFrame(
        {"metric": "M", "part": "F1", "model": list("aabbb"), "value": [0.5, 0.9, 0.5, 0.1, np.nan]}
    )
    pairs = pd.DataFrame({"metric": ["M"], "part": ["F1"], "a": ["a"], "b": ["b"]})
    assert systems.areas(values, pairs) == [(0.5 + 1 + 1 + 1) / 4]


def values_of(differences):
    """Values of the models b, which are 0, and a; each triplet is a group."""
    rows = []
    for model, values in (("a", differences), ("b", [0.0] * len(differences))):
        for i, value in enumerate(values):
            row = {"metric": "M", "part": "F1", "model": model, "triplet_id": f"t-{i}", "group": i}
            rows.append({**row, "value": value})
    table = pd.DataFrame(rows)
    return table.assign(num=math.nan, den=math.nan, units=1, unscored=0, signature="")


def sizes_of(differences, models=("b", "a")):
    values = values_of(differences)
    pairs = ems.paired_table(values, models=models)
    return systems.effect_sizes(values, pairs).iloc[0]


def test_the_size_of_a_difference_by_hand():
    differences = [0.1, 0.2, 0.3, 0.0, -0.1, 0.1, 0.2]
    small_sample = 1 - 3 / (4 * 6 - 1)  # six degrees of freedom
    g = small_sample * mean(differences) / stdev(differences)
    row = sizes_of(differences)
    assert (row.g, row.ordered) == (pytest.approx(g), (5 + 1 / 2) / 7)
    d = mean(differences) / stdev(differences)
    reach = 1.96 * small_sample * math.sqrt(1 / 7 + d**2 / 14)
    assert (row.g_low, row.g_high) == pytest.approx((g - reach, g + reach))
    row = sizes_of(differences, models=("a", "b"))
    assert (row.g, row.ordered) == (pytest.approx(-g), (1 + 1 / 2) / 7)


def test_few_clusters_and_equal_differences_have_no_size():
    few = sizes_of([0.3, 0.2, -0.1])
    assert math.isnan(few.g)  # as the interval
    assert math.isnan(few.g_low)
    assert few.ordered == 2 / 3
    assert math.isnan(sizes_of([0.5] * 7).g)


def test_the_committed_values_are_those_of_this_code(tmp_path):
    stored, answers = read_values(tmp_path), read_answers(tmp_path)[::10]
    made = to_frame(ems.build().evaluate(read_triplets(tmp_path), answers))
    both = made.merge(
        stored, on=["metric", "part", "model", "triplet_id"], suffixes=("", "_stored")
    )
    assert len(both) == len(made) >= 20 * 5  # Figures have no row where a side has no figure
    assert stored["metric"].nunique() == len(METRIC_ORDER)
    assert both["value"].to_list() == pytest.approx(both["value_stored"].to_list())
    assert (both["signature"] == both["signature_stored"]).all()


def test_the_models_of_a_run_keep_the_order_of_labels_or_that_of_the_answers(capsys):
    # A label that is no text, such as a number of parameters, gives way to the short name.
    labels = {"b-Instruct": 2, "a": "smallest"}
    assert systems.labelled(labels, ["a", "b-Instruct", "c"]) == {
        "b-Instruct": "b",
        "a": "smallest",
    }
    assert list(systems.labelled(labels, ["a", "b-Instruct", "c"])) == ["b-Instruct", "a"]
    as_they_come = ["llama-70B", "own", "llama-8B"]
    assert list(systems.labelled({}, [*as_they_come, "own"])) == as_they_come
    assert list(systems.labelled({"z": 3}, as_they_come)) == as_they_come
    assert not capsys.readouterr().err
    assert systems.labelled({"b": 2, "z": 3}, ["a", "b"]) == {"b": "b"}
    assert capsys.readouterr().err == "no answers of 'z' in this run; there are 'a', 'b'\n"


def test_findings_about_steps_name_the_metrics_that_rise_where_accuracy_does():
    rows = [("accuracy", "a2", True, 0.1), ("accuracy", "a3", False, 0.1)]
    rows += [("same", "a2", True, 0.2), ("same", "a3", True, -0.2)]
    rows += [("more", "a2", True, 0.2), ("more", "a3", True, 0.2)]
    rows += [("none", "a2", False, 0.2), ("none", "a3", True, 0.2)]
    steps = pd.DataFrame(rows, columns=["metric", "a", "clear", "difference"])
    assert systems.step_findings(steps, "accuracy", ["same", "more", "none"]) == [
        "Accuracy over all claims rises clearly in 1 of 2 steps to a larger model of the same "
        "family. In exactly these steps rise clearly: same."
    ]
    (alone,) = systems.step_findings(steps, "accuracy", ["none"])
    assert alone.endswith("In exactly these steps rise clearly: no metric.")
    assert systems.step_findings(steps.assign(clear=False), "accuracy", ["same"]) == []
