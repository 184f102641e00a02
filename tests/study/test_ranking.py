"""Which metric orders systems as people do: by hand."""

import numpy as np
import pandas as pd
import pytest
from study import ROOT, agreement, ranking

from ems.types import InputError


def table(means, noise=0.0):
    """Scores of systems with these means over twelve groups, and labels.

    Shares of right answers rise by the systems' names.
    """
    rng = np.random.default_rng(1)
    names = sorted(means)
    scores, labels = [], []
    for g in range(12):
        for name, mean in means.items():
            key = (f"t{g}", name, f"g{g}")
            scores.append((*key, mean + noise * rng.normal()))
            labels.append((*key, g < 3 * names.index(name)))
    columns = ["triplet_id", "model", "group"]
    return (
        pd.DataFrame(scores, columns=[*columns, "M"]),
        pd.DataFrame(labels, columns=[*columns, "correct"]),
    )


@pytest.mark.parametrize(
    ("means", "noise", "expected"),
    [
        ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.001, [1.0, 3]),
        ({"a": 0.3, "b": 0.2, "c": 0.1}, 0.001, [0.0, 3]),
        ({"a": 0.1, "b": 0.3, "c": 0.2}, 0.001, [2 / 3, 3]),
        ({"a": 0.2, "b": 0.2, "c": 0.3}, 0.0, [2.5 / 3, 3]),  # a tie counts half
    ],
)
def test_orders_by_hand(means, noise, expected):
    row = ranking.ranking(*table(means, noise), {"M": "M"}, resamples=50).loc["M"]
    assert row[["pairs", "of"]].to_list() == pytest.approx(expected)
    assert row["ci_low"] == row["ci_high"] == row["pairs"]


def test_a_ranking_does_not_depend_on_the_order_of_rows():
    scores, labels = table({"a": 0.10, "b": 0.11}, noise=0.02)
    scores.loc[0, "M"] = np.nan  # a group without a value for one system
    row = ranking.ranking(scores, labels, {"M": "M"}, resamples=200).loc["M"]
    assert row["ci_low"] <= row["pairs"] <= row["ci_high"]
    pd.testing.assert_series_equal(
        row, ranking.ranking(scores[::-1], labels[::-1], {"M": "M"}, resamples=200).loc["M"]
    )
    with pytest.raises(InputError, match="nothing to rank"):
        ranking.ranking(scores, labels.assign(correct=True), {"M": "M"})


@pytest.fixture
def three_metrics():
    """Scores, labels and the metrics M, the same as M, and noise that runs against M."""
    scores, labels = table({name: i / 10 for i, name in enumerate("abcdef")}, 0.02)
    noise = np.random.default_rng(3).normal(size=len(scores)) - scores["M"]
    scores = scores.assign(same=scores["M"] * 2 + 1, noise=noise)
    return scores, labels, {"M": "M", "same": "same", "noise": "noise"}


def test_a_difference_between_two_metrics_is_clear_only_where_they_order_systems_differently(
    three_metrics,
):
    gaps = ranking.differences(*three_metrics, ["M"], resamples=500)
    assert list(gaps.index) == ["same", "noise"]
    assert gaps.loc["same", ["difference", "ci_low", "ci_high", "p"]].to_list() == [0, 0, 0, 1]
    assert gaps.loc["noise", "difference"] < 0
    assert gaps.loc["noise", "p"] < 0.05
    assert gaps.loc["noise", "ci_high"] < 0
    assert gaps["clear"].to_list() == [False, True]


def test_a_difference_does_not_depend_on_which_other_metrics_there_are(three_metrics):
    scores, labels, metrics = three_metrics
    rng = np.random.default_rng(4)
    for name in ("same", "noise"):  # so much noise that p is neither 1 nor the least possible
        scores[name] = scores["M"] + rng.normal(scale=0.3, size=len(scores))
    gaps = ranking.differences(scores, labels, metrics, ["M"]).drop(columns="p_holm")
    for name in ("same", "noise"):
        alone = ranking.differences(scores, labels, {name: name, "M": "M"}, ["M"])
        assert 0.01 < gaps.loc[name, "p"] < 0.99
        pd.testing.assert_frame_equal(alone.drop(columns="p_holm"), gaps.loc[[name]])


def test_two_metrics_are_compared_once_and_corrected_over_those_compared_with_one(three_metrics):
    gaps = ranking.differences(*three_metrics, ["M", "same"], resamples=100)
    assert list(gaps.index) == ["same", "noise", "noise"]
    assert gaps["against"].to_list() == ["M", "M", "same"]
    assert gaps["p_holm"].to_list() == [1, 2 * gaps["p"].iloc[1], gaps["p"].iloc[2]]


def test_a_resample_of_systems_has_no_pair_of_a_system_with_itself_and_repeats_pairs():
    """Of the systems a, b and c only the pair a, c is in order; the metric's order is b, a, c."""
    scores, labels = table({"a": 0.2, "b": 0.1, "c": 0.3}, 0.001)
    row = ranking.ranking(scores, labels, {"M": "M"}, resamples=500).loc["M"]
    assert row["pairs"] == pytest.approx(2 / 3)
    assert (row["systems_low"], row["systems_high"]) == (0, 1)  # a and b alone; a and c, or b and c
    right = ranking.ranking(*table({"a": 0.1, "b": 0.2}, 0.001), {"M": "M"}, resamples=20).loc["M"]
    assert (right["systems_low"], right["systems_high"]) == (1, 1)


def test_distinct_pairs_are_those_whose_labels_differ_by_more_than_their_interval():
    scores, labels = table({"a": 0.1, "b": 0.3, "c": 0.2}, 0.001)
    is_new = (labels["model"] == "b") & (labels["group"] == "g3")
    # a: 0, b: 1 and c: 6 of 12 groups. Only c is distinct, and the metric puts it above a alone.
    labels["correct"] = labels["correct"] & (labels["model"] == "c") | is_new
    row = ranking.ranking(scores, labels, {"M": "M"}, resamples=20).loc["M"]
    assert (row["of"], row["of_distinct"]) == (3, 2)
    assert (row["pairs"], row["distinct"]) == (pytest.approx(2 / 3), 0.5)


def test_accuracy_is_counted_over_claims_of_the_kinds_that_were_drawn():
    labels = pd.DataFrame({"triplet_id": ["ie-1", "ie-2", "know-1", "know-2", "sum-1"]})
    claims = ranking.populations(labels, pd.DataFrame({"triplet_id": ["ie-1", "know-2"]}))
    assert {name: list(table["triplet_id"]) for name, table in claims.items()} == {
        "drawn from": ["ie-1", "ie-2", "know-1", "know-2"],
        "all": ["ie-1", "ie-2", "know-1", "know-2", "sum-1"],
        "unread": ["ie-2", "know-1"],
    }


def test_pairs_of_another_population_are_those_of_the_ranking():
    scores, labels = table({"a": 0.1, "b": 0.3, "c": 0.2}, 0.001)
    metrics = {"metric": "M"}
    shares = ranking.pairs_in_order(scores, labels, metrics)
    assert shares.to_dict() == {"metric": pytest.approx(2 / 3)}
    assert ranking.ranking(scores, labels, metrics, resamples=5)["pairs"].equals(shares)


def test_labels_of_random_claims_order_all_pairs_when_all_claims_are_drawn():
    _, labels = table(dict.fromkeys("abc", 0.0))
    assert ranking.random_labels(labels, 12, resamples=5) == {
        "pairs": 1,
        "ci_low": 1,
        "ci_high": 1,
    }
    # Of one claim: 3 of 12 claims tell b and c from a, 3 tell c from both; equal labels count half.
    one = ranking.random_labels(labels, 1, resamples=4000)
    assert one["pairs"] == pytest.approx((3 * 2.5 + 3 * 2.5 + 6 * 1.5) / 36, abs=0.01)
    assert (one["ci_low"], one["ci_high"]) == (0.5, pytest.approx(2.5 / 3))


def test_findings_name_what_is_clear_and_say_that_nothing_is():
    ranked = pd.DataFrame(
        {"pairs": [0.9, 0.5], "ci_low": [0.8, 0.4], "ci_high": [0.95, 0.6], "of": 10},
        index=["A", "B"],
    )
    compared = pd.DataFrame(
        {"against": "A", "difference": [-0.4, 0.05, -0.3], "clear": [True, False, True]},
        index=["B", "C", "D"],
    )
    shares, *others = ranking.findings(ranked, compared)
    assert shares.startswith("Of 10 pairs of systems a metric's means put this share in the right ")
    assert "A 0.90 [0.80, 0.95]. Guessing" in shares
    assert others == ["A puts clearly more pairs in the right order than B and D."]
    above = compared.assign(difference=0.1)
    assert ranking.findings(ranked, above)[1:] == [
        "A puts clearly fewer pairs in the right order than B and D."
    ]
    assert ranking.findings(ranked, compared.assign(clear=False))[1:] == [
        "No difference between two metrics is clear."
    ]


@pytest.mark.parametrize(
    ("name", "metric", "least"),
    [
        ("systems", "Coverage(local) Recall", 0.78),
        ("systems", "Coverage(local) F1", 0.76),
        ("systems", "Figures Recall", 0.80),
        ("financebench", "Coverage(local) Recall", 0.80),
    ],
)
def test_how_well_systems_are_ordered_without_a_judge(name, metric, least):
    labels, scores = agreement.stored(name, ROOT / "data" / "human")
    labels = agreement.without_refusals(labels)
    scores = scores.merge(labels[["triplet_id", "model", "group"]])
    assert ranking.pairs_in_order(scores, labels, {metric: metric})[metric] >= least
