"""Labels of points: stored by hash, counted by hand, and all recorded ones made again."""

import math

import pandas as pd
import pytest
from doubles import recorded
from study import ROOT, alignments_of, dataset, document, write_csv

from ems.results import EMSResult, Support

DATA, CLAIMS = ROOT / "data" / "q3-2024", ROOT / "data" / "human" / "findver_judged.csv"


def result(model, points, labels):
    return EMSResult(
        "t1",
        model,
        (),
        points,
        (),
        group="g1",
        support=tuple(Support(label, reason="" if label else "unreadable") for label in labels),
    )


FIRST = [
    result("x", ("a", "b", "b", "c"), ["supported", "silent", "silent", None]),
    result("y", ("d",), ["supported"]),
]


def test_labels_are_stored_without_texts_and_joined_again(tmp_path):
    path = write_csv(tmp_path / "labels.csv", document.label_table(FIRST))
    table = pd.read_csv(path)
    assert list(table.columns) == document.LABEL_COLUMNS
    # A repeated point has one row.
    assert table["point"].str.fullmatch("[0-9a-f]{12}").to_list() == [True] * 4
    unlabelled = [result("x", ("c", "a", "new", "b"), []), result("z", ("a",), [])]
    # The file has no label for z, which is left out.
    (labelled,) = document.with_stored_labels(unlabelled, path)
    assert [(s.label, s.reason) for s in labelled.support] == [
        (None, "unreadable"),
        ("supported", ""),
        (None, "no label is stored"),
        ("silent", ""),
    ]


def test_shares_of_supported_points_by_hand():
    without_labels = [result("z", ("e",), [None]), result("w", (), [])]
    values = document.by_model([*FIRST, *without_labels], "supported").set_index("model")
    assert values["value"].to_dict() == {"x": pytest.approx(1 / 3), "y": 1.0}  # no label, no value
    assert values["unscored"].to_dict() == {"x": 1, "y": 0}


def test_findings_about_support_give_shares_with_intervals_and_name_systems():
    columns = ["model", "value", "ci_low", "ci_high"]
    summary = pd.DataFrame([("x", 0.5, 0.4, 0.6), ("y", 0.1, math.nan, math.nan)], columns=columns)
    points = pd.DataFrame({"model": ["x", "y"], "supported": [0.55, 0.1]})
    points["supported but unmatched"] = [0.25, 0.0]
    assert document.support_findings(summary, points, {"y": "Y", "x": "X"}) == [
        "Of the points of an answer the call supports, on average, 0.100 for Y and 0.500 [0.400, "
        "0.600] for X.",
        "Over the points of all answers together, where a long answer weighs more, the supported "
        "share is 0.10 (0.00 unmatched) for Y and 0.55 (0.25 unmatched) for X. Unmatched means "
        "that no reference point chose the point, so that precision gives it nothing.",
    ]


def test_agreement_of_two_readings_by_hand():
    same = result("v", ("a",), ["silent"])
    again = result("x", ("a", "b", "b", "c"), ["supported"] * 3 + ["silent"])
    row = document.agreement_of_readings([*FIRST, same], [again, same]).iloc[0]
    # a: the same, b: not, c: unscored at first, a of v: the same.
    # By chance: 1/3 * 2/3 (supported) + 2/3 * 1/3 (silent).
    assert (row["answers"], row["points"], row["same label"]) == (2, 3, pytest.approx(2 / 3))
    assert row["kappa"] == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))


def test_names_of_the_own_company_are_removed_and_others_stay():
    points = (
        "Google Cloud of Alphabet grew 35%.",
        "GOOGL's TPUs and NVIDIA's GPUs.",
        "Metadata rose.",
    )
    alphabet = EMSResult("t", "m", (), points, (), group="GOOGL")
    unknown = EMSResult("u", "m", (), points, (), group="?")
    (renamed,) = document.without_company_names([alphabet, unknown])
    assert renamed.ans_points == (
        "the company Cloud of the company grew 35%.",
        "the company's TPUs and NVIDIA's GPUs.",
        "Metadata rose.",
    )


def test_the_committed_labels_fit_the_committed_alignments(tmp_path):
    results = alignments_of(tmp_path, recorded("q3-2024/replies.jsonl"))
    judged = document.with_stored_labels(results, DATA / "support_judged.csv")
    again = document.with_stored_labels(results, DATA / "support_again.csv")
    for result in (*judged, *again):
        assert all(support.label for support in result.support)
    assert sum(len(r.support) for r in judged) == sum(len(r.ans_points) for r in results) == 3758
    row = document.agreement_of_readings(judged, again).round(3).iloc[0]
    assert row.to_list() == [16, 257, 0.953, 0.908]
    accuracy = document.claim_accuracy(document.findver_labels(CLAIMS))
    assert accuracy.round(3)[["claims", "right"]].to_numpy().tolist() == [
        [128, 0.781],
        [66, 0.636],
        [62, 0.935],
    ]


@pytest.mark.slow
def test_the_recorded_replies_give_the_committed_labels(mirror, tmp_path):
    """Those of every answer, of some beside another company's call, of some a second time.

    And those of 128 claims.
    """
    results = alignments_of(tmp_path, recorded("q3-2024/replies.jsonl"))
    calls = dataset.call_triplets(ROOT / "data", transcripts=mirror / "transcripts")
    judges = [recorded("q3-2024/support_replies.jsonl", sample=sample) for sample in (0, 1)]
    for name, made in document.label_sets(results, calls, *judges).items():
        path = write_csv(tmp_path / f"{name}.csv", document.label_table(made))
        assert path.read_bytes() == (DATA / f"support_{name}.csv").read_bytes()
    assert sum(judge.usage()["support"].stored for judge in judges) == 603  # 584 different prompts
    of_claims = recorded("human/support_replies.jsonl")
    claims = document.findver_labels(tmp_path / "claims.csv", of_claims)
    assert of_claims.usage()["support"].stored == len(claims) == 128
    pd.testing.assert_frame_equal(claims, document.findver_labels(CLAIMS))
