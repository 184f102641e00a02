"""Python orders a set of texts by a hash that differs from run to run; no file may depend on it.

Run as a script, this file writes what the test compares: `python test_hash_seed.py FOLDER`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from study import (
    ROOT,
    agreement,
    datasets,
    ranking,
    read_answers,
    read_triplets,
    systems,
    write_csv,
)

import ems
from ems.analysis.report import save_report
from ems.io import write_jsonl

HUMAN = ROOT / "data" / "human"
FEW = {"resamples": 50, "seed": 7}


def write_results(folder):
    """What `ems` makes of a few committed answers: results, values, tables and a report."""
    triplets, answers = read_triplets(folder), read_answers(folder)[::10]
    results = {
        "EMS(ROUGE)": ems.build(scorer="rouge").evaluate(triplets, answers),
        "Coverage(local)": ems.build().evaluate(triplets, answers),
    }
    values = ems.to_frame(results)
    write_csv(folder / "values.csv", values)
    write_csv(folder / "means.csv", ems.summarise(values))
    write_csv(folder / "paired.csv", ems.paired_table(values))
    save_report(results, folder / "report.html")
    for metric, of_metric in results.items():
        write_jsonl(folder / f"{metric}.jsonl", (result.to_dict() for result in of_metric))


def write_agreement(folder):
    """How the committed scores agree with people."""
    for name, labelled_set in datasets.SETS.items():
        labels, scores = agreement.stored(name, HUMAN)
        if labelled_set.about == "pairs":
            table = agreement.pair_agreement(labels, scores, **FEW)
        elif labelled_set.about == "points":
            table = agreement.point_agreement(labels, scores, **FEW)
        else:
            table = agreement.answer_agreement(labels, scores, **FEW)
        write_csv(folder / f"agreement_{name}.csv", table)


def write_systems(folder):
    """How the committed scores order the sixteen systems."""
    labels, scores = agreement.stored("systems", HUMAN)
    scores = scores.merge(labels)
    metrics = {name: name for name in scores if name.endswith((" F1", " Recall"))}
    base = f"{agreement.EMS_JUDGED} F1"
    gaps = ranking.differences(scores, labels, metrics, [base], **FEW)
    write_csv(folder / "systems.csv", ranking.ranking(scores, labels, metrics, **FEW))
    write_csv(folder / "differences.csv", gaps.reset_index())
    means, steps = systems.families(scores, metrics, datasets.FINDVER_SYSTEMS)
    write_csv(folder / "families.csv", means)
    write_csv(folder / "family_steps.csv", steps)


@pytest.mark.slow
def test_two_runs_with_different_hash_seeds_write_equal_files(tmp_path):
    files = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "notebooks")]),
        }
        subprocess.run([sys.executable, __file__, folder], env=environment, check=True)
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    first, second = files
    assert len(first) == 16
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


if __name__ == "__main__":
    write_results(Path(sys.argv[1]))
    write_agreement(Path(sys.argv[1]))
    write_systems(Path(sys.argv[1]))
