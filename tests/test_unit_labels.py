"""Single points against people's labels: REALSumm's units and K-QA's claims."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ems import build
from ems.io import data_path
from ems.study.findings import verdicts
from ems.study.people import agreement, human, unit_labels, upstream
from ems.types import Answer, GivenPoint, InputError, Triplet

SETS = human.unit_sets(data_path("human"))
TRIPLET = Triplet("t", "t", "", "", points=(GivenPoint("Revenue rose 6%."), GivenPoint("Costs fell in Asia.")))


def mirrored(name):
    if not (Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere") / name).is_dir():
        pytest.skip(f"its files are not here: set EMS_DATA_MIRROR to a folder that has {name}/")


def test_a_unit_table_has_a_row_a_point():
    table = unit_labels.unit_table([TRIPLET], [Answer("t", "m", "Revenue rose 6%."), Answer("t", "n", "")])
    assert list(table.unit) == [0, 1, 0, 1]
    assert list(table["EMS(local)"][[0, 2, 3]]) == [1.0, 0.0, 0.0]
    assert list(table["matched"]) == [1.0, 0.0, 0.0, 0.0]
    assert table["words"][0] == 1.0


def test_labels_of_other_units_are_refused():
    units = unit_labels.unit_table([TRIPLET], [Answer("t", "m", "Revenue rose 6%.")])
    labels = pd.DataFrame([("t", "m", 0, True)], columns=[*upstream.UNIT_KEYS, "present"])
    with pytest.raises(InputError, match="1 units have only scores"):
        agreement.joined(labels, units, upstream.UNIT_KEYS)


def test_levels_are_scipys_on_one_small_case():
    rng = np.random.default_rng(4)
    x, y = rng.random((6, 5)), rng.random((6, 5))
    keys = [(f"t{i}", f"m{j}") for i in range(6) for j in range(5)]
    people = pd.DataFrame([(*key, v) for key, v in zip(keys, y.ravel(), strict=True)],
                          columns=["triplet_id", "model", "value"])
    scores = people.drop(columns="value").assign(**{"A Recall": x.ravel()})
    found = unit_labels.summary_agreement(people, scores, resamples=50).set_index(["level", "measure"]).value
    for measure, by in (("kendall", scipy.stats.kendalltau), ("pearson", scipy.stats.pearsonr)):
        assert found["summary", measure] == pytest.approx(np.mean([by(a, b)[0] for a, b in zip(x, y, strict=True)]))
        assert found["system", measure] == pytest.approx(by(x.mean(axis=0), y.mean(axis=0))[0])


def test_realsumm_at_system_level():
    """The bar: what a review found possible without the defect of lower-cased texts."""
    found = unit_labels.summary_agreement(SETS["pyramid"], SETS["summaries"], resamples=20)
    kendall = found[(found.level == "system") & (found.measure == "kendall")].set_index("metric").value
    assert kendall["EMS(local)"] >= 0.79
    assert kendall["ROUGE-2"] > 0.8


def test_single_points_are_told_apart():
    for name, least in (("REALSumm", 0.79), ("K-QA", 0.70)):
        found = unit_labels.unit_agreement(SETS[name], resamples=50).set_index("metric").value
        assert found["EMS(local)"] > max(least, found["EMS(local-pair)"])


def test_one_table_by_set_marks_what_was_developed():
    one = pd.DataFrame({"metric": ["EMS(local)", "words"], "value": [0.8, 0.7], "ci_low": 0.6, "ci_high": 0.9})
    table = verdicts.by_set({"A": one, "B": one[:1]}, ["EMS(local)"])
    assert table.loc["EMS(local) *", "A"] == "0.80 [0.60, 0.90]"
    assert pd.isna(table.loc["words", "B"])


@pytest.mark.parametrize(("name", "load"), [("kqa", upstream.kqa), ("realsumm", upstream.realsumm)])
def test_committed_units_are_this_codes(name, load):
    """Refresh them with: ems reproduce --profile findver -p RECOMPUTE yes -p SAVE data/human"""
    mirrored(name)
    triplets, answers, _ = load()
    answer = answers[0]
    units = SETS["K-QA" if name == "kqa" else "REALSumm"]
    saved = units[(units.triplet_id == answer.triplet_id) & (units.model == answer.model)]
    result, = build().evaluate(triplets, [answer])
    assert list(saved["EMS(local)"]) == pytest.approx(list(result.score), abs=1e-4)


def test_realsumm_is_whole():
    mirrored("realsumm")
    triplets, answers, labels = upstream.realsumm()
    assert (len(triplets), len(answers), len(labels)) == (100, 2500, 26400)
    assert labels.present.sum() == 12069
