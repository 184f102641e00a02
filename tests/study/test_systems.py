"""Systems of a run and families of systems: order, differences, committed values."""

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


def test_the_models_of_a_run_keep_the_order_of_sizes_or_come_by_size(capsys):
    assert systems.labelled({"b": 2, "a": 1}, ["a", "b", "c"]) == {"b": 2, "a": 1}
    assert list(systems.labelled({"z": 3}, ["llama-70B", "llama-8B", "own"])) == [
        "llama-8B",
        "llama-70B",
        "own",
    ]
    assert not capsys.readouterr().err
    assert systems.labelled({"b": 2, "z": 3}, ["a", "b"]) == {"b": 2}
    assert capsys.readouterr().err == "no answers of 'z' in this run; there are 'a', 'b'\n"
