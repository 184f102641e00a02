"""Which metric orders systems as people do: by hand, and against scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from study import ROOT, agreement, read_answers, read_triplets, read_values, systems

import ems
from ems.analysis.frames import METRIC_ORDER, to_frame
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
        ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.001, [1.0, 1.0, 3, 0, 3]),
        ({"a": 0.3, "b": 0.2, "c": 0.1}, 0.001, [-1.0, 0.0, 0, 3, 3]),
        ({"a": 0.1, "b": 0.3, "c": 0.2}, 0.001, [1 / 3, 2 / 3, 2, 1, 3]),
        # A tie counts half; without spread there is no test.
        ({"a": 0.2, "b": 0.2, "c": 0.3}, 0.0, [0.816497, 2.5 / 3, 0, 0, 3]),
    ],
)
def test_orders_by_hand(means, noise, expected):
    row = systems.ranking(*table(means, noise), {"M": "M"}, resamples=50).loc["M"]
    assert row[["kendall", "pairs", "apart_right", "apart_wrong", "of"]].to_list() == pytest.approx(
        expected
    )
    assert row["ci_low"] == row["ci_high"] == row["pairs"]


def test_systems_are_told_apart_by_a_paired_t_test_over_groups_whatever_the_order_of_rows():
    scores, labels = table({"a": 0.10, "b": 0.11}, noise=0.02)
    scores.loc[0, "M"] = np.nan  # a group without a value for one system
    wide = scores.pivot(index="group", columns="model", values="M").dropna()
    row = systems.ranking(scores, labels, {"M": "M"}, resamples=200).loc["M"]
    assert row["apart_right"] + row["apart_wrong"] == (
        stats.ttest_rel(wide["b"], wide["a"]).pvalue < systems.ALPHA
    )
    assert row["ci_low"] <= row["pairs"] <= row["ci_high"]
    pd.testing.assert_series_equal(
        row, systems.ranking(scores[::-1], labels[::-1], {"M": "M"}, resamples=200).loc["M"]
    )
    with pytest.raises(InputError, match="nothing to rank"):
        systems.ranking(scores, labels.assign(correct=True), {"M": "M"})


def test_soft_pairwise_accuracy_is_1_for_the_labels_and_low_for_a_metric_that_is_sure_and_wrong():
    wrong, labels = table({"a": 0.3, "b": 0.2, "c": 0.1}, 0.001)
    scores = wrong.merge(labels).rename(columns={"correct": "right"})
    soft = systems.ranking(scores, labels, {"M": "M", "right": "right"}, resamples=500)["soft"]
    assert soft["right"] == 1
    assert soft["M"] < 0.2


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
    gaps = systems.differences(*three_metrics, "M", resamples=500)
    assert list(gaps.index) == ["same", "noise"]
    assert gaps.loc["same", ["difference", "ci_low", "ci_high", "p"]].to_list() == [0, 0, 0, 1]
    assert gaps.loc["noise", "difference"] < 0
    assert gaps.loc["noise", "p"] < 0.05
    assert gaps.loc["noise", "ci_high"] < 0


def test_a_difference_does_not_depend_on_which_other_metrics_there_are(three_metrics):
    scores, labels, metrics = three_metrics
    rng = np.random.default_rng(4)
    for name in ("same", "noise"):  # so much noise that p is neither 1 nor the least possible
        scores[name] = scores["M"] + rng.normal(scale=0.3, size=len(scores))
    gaps = systems.differences(scores, labels, metrics, "M")
    for name in ("same", "noise"):
        alone = systems.differences(scores, labels, {name: name, "M": "M"}, "M")
        assert 0.01 < gaps.loc[name, "p"] < 0.99
        pd.testing.assert_frame_equal(alone, gaps.loc[[name]])


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
    ranked = systems.ranking(scores, labels, {metric: metric}, resamples=50)
    assert ranked.loc[metric, "pairs"] >= least


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
