"""Agreement with people: arithmetic on small tables, and what the committed scores say."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from study import ROOT, agreement, datasets
from study.rescoring import THREE_PARTS

from ems.analysis.stats import auc, bootstrap, spearman
from ems.types import InputError

HUMAN = ROOT / "data" / "human"
FEW = {"resamples": 50, "seed": 7}


def committed(name):
    return agreement.stored(name, HUMAN)


# --- pairs ---

LABELS = pd.DataFrame(
    {
        "instance_id": ["1", "1", "2", "2", "3", "3"],
        "annotator": [0, 1] * 3,
        "dataset": "d",
        "overall": [2, 1, -1, -2, 0, 1],
        "completeness": [1, 1, 0, 0, -1, -2],
        "correctness": [0, 1, 1, 2, -1, -1],
    }
)


def pair_scores(gaps, metric="M"):
    """A table in which answer 2 of pair i outscores answer 1 by gaps[i], in every part."""
    columns = ["triplet_id", "model", *(f"{metric} {part}" for part in THREE_PARTS)]
    rows = []
    for i, gap in enumerate(gaps, 1):
        rows.append((str(i), "1", 0.5, 0.5, 0.5))
        rows.append((str(i), "2", 0.5 + gap, 0.5 + gap, 0.5 + gap))
    return pd.DataFrame(rows, columns=columns)


def values_of(table, *keys):
    return table.set_index(["asked", "metric", "measure"])["value"].sort_index().loc[keys]


def test_ragcheckers_procedure_by_hand():
    table = agreement.pair_agreement(LABELS, pair_scores([0.3, -0.2, 0.1]), **FEW)
    measured = values_of(table, "overall", "M")
    # The score of the second answer minus that of the first, once for each annotator.
    gaps = [0.3, 0.3, -0.2, -0.2, 0.1, 0.1]
    preferences = [2, 1, -1, -2, 0, 1]
    assert measured["Pearson"] == pytest.approx(np.corrcoef(gaps, preferences)[0, 1])
    assert measured["Spearman"] == pytest.approx(scipy.stats.spearmanr(gaps, preferences)[0])
    # One annotator and the other: one observation per pair.
    people = values_of(table, "overall", agreement.ANNOTATOR)
    assert people["Pearson"] == pytest.approx(np.corrcoef([2, -1, 0], [1, -2, 1])[0, 1])
    assert set(table.loc[table["metric"] == agreement.ANNOTATOR, "n"]) == {3}


def test_each_question_is_compared_with_its_part():
    scores = pair_scores([0.3, -0.2, 0.1]).assign(**{"M Precision": [0, 1, 0, 2, 1, 0]})
    found = agreement.pair_agreement(LABELS, scores, **FEW)
    expected = np.corrcoef([1, 1, 2, 2, -1, -1], LABELS["correctness"])[0, 1]
    assert values_of(found, "correctness", "M")["Pearson"] == pytest.approx(expected)
    assert found.groupby("asked")["part"].first().to_dict() == datasets.PART_OF


def test_a_missing_difference_is_the_median_as_published():
    labels = pd.concat([LABELS, LABELS.iloc[:2].assign(instance_id="4")])
    missing = agreement.pair_agreement(labels, pair_scores([0.3, -0.2, 0.1, math.nan]), **FEW)
    median = agreement.pair_agreement(labels, pair_scores([0.3, -0.2, 0.1, 0.1]), **FEW)
    pd.testing.assert_frame_equal(missing, median)


@pytest.fixture
def twelve_pairs():
    """Labels and scores of twelve pairs by two metrics, M and N, at random."""
    rng = np.random.default_rng(1)
    ids = np.repeat([f"{i}" for i in range(12)], 2)
    labels = pd.DataFrame({"instance_id": ids, "annotator": [0, 1] * 12})
    for question in datasets.PART_OF:
        labels[question] = rng.integers(-2, 3, 24)
    scores = pd.DataFrame({"triplet_id": ids, "model": ["1", "2"] * 12})
    for metric in ("M", "N"):
        for part in THREE_PARTS:
            scores[f"{metric} {part}"] = rng.random(24)
    return labels, scores


def test_differences_are_paired_and_intervals_are_those_of_ems_stats(twelve_pairs):
    labels, scores = twelve_pairs
    shuffled = labels.sample(frac=1, random_state=2), scores.sample(frac=1, random_state=3)
    table = agreement.pair_agreement(*shuffled, against="N", resamples=200, seed=5)
    row = table.set_index(["asked", "metric", "measure"]).loc[("completeness", "M", "Spearman")]
    pairs, preferences = labels["instance_id"], labels["completeness"]
    recall = scores.pivot(index="triplet_id", columns="model")
    of_m = (recall["M Recall"]["2"] - recall["M Recall"]["1"])[pairs]
    of_n = (recall["N Recall"]["2"] - recall["N Recall"]["1"])[pairs]

    def difference(m, n, labels):
        return spearman(m, labels) - spearman(n, labels)

    settings = {"resamples": 200, "seed": 5}
    alone = bootstrap(spearman, (of_m, preferences), pairs, **settings)
    gap = bootstrap(difference, (of_m, of_n, preferences), pairs, **settings)
    assert row[["value", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [alone.value, alone.ci_low, alone.ci_high]
    )
    assert row[["difference", "difference_low", "difference_high"]].tolist() == pytest.approx(
        [gap.value, gap.ci_low, gap.ci_high]
    )
    assert row["clear"] == "no"
    of_question = table.query("asked == 'completeness' and measure == 'Spearman'")
    assert np.isnan(of_question.set_index("metric")["p"]["N"])  # it is not compared with itself
    assert of_question["p"].max() == row["p"] == of_question["p_holm"].max()


def test_p_counts_resamples_on_the_rarer_side_of_0():
    draws = np.column_stack([np.arange(19) - 3.5, np.zeros(19), np.full(19, np.nan)])
    table = pd.DataFrame(agreement._differences(draws[0], draws, list("abc"), "b"))
    # Of a minus b 4 of 19 resamples are below 0; the observed sample counts as one more.
    assert table["p"].to_list() == pytest.approx([2 * 5 / 20, math.nan, math.nan], nan_ok=True)
    equal = agreement._differences(draws[0], draws[:, [1, 1]], ["a", "b"], "b")
    assert equal["p"][0] == 1


def test_a_difference_is_clear_by_its_interval_and_by_p_after_holms_correction():
    rows = [
        ("one", 0.02, 0.1, 0.3),
        ("one", 0.03, 0.1, 0.3),
        ("two", 0.01, -0.3, -0.1),
        ("two", 0.01, -0.1, 0.1),
        ("two", math.nan, 0.0, 0.0),
    ]
    columns = ["family", "p", "difference_low", "difference_high"]
    table = agreement.with_clear(pd.DataFrame(rows, columns=columns), "family")
    assert table["p_holm"].to_list()[:4] == [0.04, 0.04, 0.02, 0.02]
    assert table["clear"].to_list() == ["above", "above", "below", "no", ""]
    together = agreement.with_clear(table.assign(family="all"), "family")
    assert together["p_holm"].to_list()[:4] == [0.04, 0.04, 0.04, 0.04]
    many = agreement.with_clear(table.assign(p=table["p"] * 2), "family")
    assert many["clear"].to_list() == ["no", "no", "below", "no", ""]


def test_without_enough_clusters_there_is_no_p_and_nothing_is_clear():
    scores = pair_scores([0.3, -0.2, 0.1]).assign(**{"N F1": [0.1, 0.5, 0.2, 0.3, 0.4, 0.9]})
    table = agreement.pair_agreement(LABELS, scores, against="M", **FEW)
    of_n = table[table["metric"] == "N"]
    assert of_n["p"].isna().all()
    assert set(of_n["clear"]) == {""}


# --- single answers ---

RIGHT = pd.DataFrame(
    {
        "triplet_id": list("123456"),
        "model": list("xxxyyz"),
        "group": list("abcabc"),
        "correct": [True, False, False, True, False, True],
    }
)


def scored(**metrics):
    """Scores of the answers of RIGHT by metrics with the one part F1."""
    scores = RIGHT[datasets.KEYS].copy()
    for metric, values in metrics.items():
        scores[f"{metric} F1"] = values
    return scores


def test_right_and_wrong_over_all_answers_and_within_systems_by_hand():
    scores = scored(M=[0.5, 0.5, 0.2, 0.1, 0.9, 0.0]).sample(frac=1, random_state=3)
    table = agreement.answer_agreement(RIGHT, scores, **FEW)
    area = table.set_index(["metric", "measure"])["value"]
    # Right 0.5, 0.1, 0.0, and wrong 0.5, 0.2, 0.9: one win and one tie of nine pairs.
    assert area["M", "AUC"] == 1.5 / 9
    # x has a tie and a pair in order, y a pair out of order, z has no incorrect answer.
    assert area["M", agreement.WITHIN] == 1.5 / 3
    # The shares of right answers are 1/3 for x, 1/2 for y, 1 for z. Answer 1 ties with 2 and 3;
    # 4 beats 2 and 3 and ties with 5; 6 beats all.
    assert area[agreement.SYSTEM, "AUC"] == (1 + 2.5 + 3) / 9
    assert area[agreement.SYSTEM, agreement.WITHIN] == 0.5


def test_refusals_are_left_out_and_a_judges_metrics_are_compared_on_the_answers_it_read():
    labels = RIGHT.assign(
        label=["correct", "incorrect", "refusal", "correct", "incorrect", "correct"]
    )
    scores = scored(
        **{
            "ROUGE-L": [0.5, 0.4, 0.9, 0.1, 0.9, 0.0],
            agreement.EMS_JUDGED: [0.9, 0.1, math.nan, 0.8, 0.2, math.nan],
        }
    )
    of_all = agreement.answer_agreement(labels, scores, judged=False, **FEW)
    read = agreement.answer_agreement(labels, scores, judged=True, **FEW)
    assert set(of_all["metric"]) == {"ROUGE-L", agreement.SYSTEM}
    assert set(of_all["n"]) == {5}
    assert set(read["n"]) == {4}
    row = read[(read["metric"] == agreement.EMS_JUDGED) & (read["measure"] == "AUC")].iloc[0]
    assert (row["value"], row["difference"]) == (1.0, 1.0 - 0.25)


def test_a_labelled_answer_without_scores_is_an_error():
    scores = pd.DataFrame({"triplet_id": list("12345"), "model": list("xxxyz"), "M F1": 0.5})
    with pytest.raises(InputError, match="of one set"):
        agreement.answer_agreement(RIGHT, scores)


# --- edits, and figures ---

EDITS = pd.DataFrame(
    {
        "triplet_id": list("1234567"),
        "model": "edit",
        "group": list("abcabcd"),
        "correct": [True, True, False, False, False, False, True],
        "kinds": ["none", "none", "number", "name+number", "name", "name", "none"],
    }
)


def scores_of_edits(**columns):
    return EDITS[datasets.KEYS].assign(**{"ROUGE-L F1": 0.5, **columns})


def area_of(table):
    return table.set_index("metric")[["value", "n"]].T.to_dict("list")


def test_consistent_edits_against_others_by_hand():
    nan = math.nan
    scores = scores_of_edits(
        **{
            "Figures Precision": [1, nan, 0, 0, 1, nan, nan],
            "Figures Recall": [1, 0.5, nan, 0, 0, nan, nan],
            "EMS(LLM) F1": [0.9, 0.8, 0.1, 0.85, nan, nan, nan],
        }
    )
    labels = EDITS.sample(frac=1, random_state=3)
    found = area_of(agreement.edit_agreement(labels, scores, **FEW))
    assert found == {
        "ROUGE-L F1": [0.5, 7],
        # Consistent 1 against 0, 0, 1: two wins and a tie of three pairs.
        "Figures Precision": [2.5 / 3, 4],
        "Figures Recall": [1, 4],
        # 1 and 0.5 against 0, 0 and 0.5: one tie of six pairs.
        "Figures mean": [5.5 / 6, 5],
    }
    read = area_of(agreement.edit_agreement(labels, scores, judged=True, **FEW))
    assert read["EMS(LLM) F1"] == [3 / 4, 4]
    assert read["ROUGE-L F1"] == [0.5, 4]
    assert read["Figures mean"] == [1, 4]


def test_each_kind_of_error_is_compared_with_all_consistent_edits():
    scores = scores_of_edits(M=0.0, **{"M F1": [5, 5, 9, 5, 1, 1, 5]})
    table = agreement.kind_agreement(EDITS, scores, **FEW).set_index(["kind", "metric"])
    found = table.loc[(slice(None), "M F1"), ["value", "n"]].droplevel("metric")
    assert found.T.to_dict("list") == {"number": [0.25, 5], "name": [2.5 / 3, 6]}


def test_findings_about_edits_say_which_metric_is_above_guessing_and_what_is_contradicted():
    shares = [1, 1, 0.5, 0.75, 1, math.nan, math.nan]
    named = agreement.contradicted_edits(
        EDITS.sample(frac=1, random_state=3), scores_of_edits(**{agreement.UNCONTRADICTED: shares})
    )
    assert named.to_numpy().tolist() == [[False, 3, 2], [True, 2, 0]]
    columns = ["metric", "value", "ci_low", "ci_high", "clusters"]
    rows = [("M", 0.55, 0.5, 0.7, 4), ("J", 0.9, 0.51, 1.0, 4)]
    found = agreement.edit_findings(pd.DataFrame(rows, columns=columns), named)
    assert found == [
        "These metrics tell consistent edits from others better than guessing (AUC, whole interval "
        "over 4 calls above 0.50): J 0.90.",
        "These do not: M 0.55.",
        "Coverage(LLM) calls a point contradicted in 0 of 2 consistent edits and in 2 of 3 others.",
    ]
    above = agreement.edit_findings(pd.DataFrame(rows[1:], columns=columns), named)
    assert above[1] == "These do not: none."


def test_findings_about_people_say_which_metric_is_highest_and_what_is_clearly_below_the_judge():
    ems = agreement.EMS_JUDGED
    rows = [(ems, "two", 0.5), ("J", "two", 0.7), (ems, "one", 0.8), ("J", "one", 0.9)]
    rows += [(ems, "three", 0.6), (agreement.SYSTEM, "one", 0.99)]
    shown = pd.DataFrame(rows, columns=["metric", "set", "value"])
    shown["measure"] = shown["set"].map({"two": "Spearman", "one": "AUC", "three": "AUC"})
    differences = pd.DataFrame(
        {
            "metric": ems,
            "set": ["two", "one"],
            "against": "J",
            "difference": [-0.2, -0.1],
            "difference_low": [-0.3, -0.2],
            "difference_high": [-0.1, 0.1],
            "clear": ["below", "no"],
        }
    )
    assert agreement.people_findings(shown, differences) == [
        "J agrees best with people on 2 of the 2 sets that it has a value for: Spearman 0.70 on "
        f"two and AUC 0.90 on one. It is clearly above {ems} on 1 of its sets.",
        f"{ems} agrees best with people on 1 of the 3 sets that it has a value for: AUC 0.60 on "
        "three.",
        f"{ems} is clearly below J by 0.20 [0.10, 0.30] on two.",
    ]
    same = differences.assign(clear="no")
    assert len(agreement.people_findings(shown, same)) == 2


def test_areas_of_resamples_are_those_of_the_rows_that_were_drawn():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 4, size=(30, 2)).astype(float)
    is_right = rng.random(30) < 0.5
    systems = rng.integers(0, 2, size=30)
    members = [np.flatnonzero(np.arange(30) % 7 == cluster) for cluster in range(7)]
    drawn = rng.integers(7, size=(5, 7))
    of_all, *found = agreement._areas(x, is_right, np.zeros(30), members, drawn)
    assert of_all.tolist() == [auc(column, is_right) for column in x.T]
    for draw, areas in zip(drawn, found, strict=True):
        rows = np.concatenate([members[cluster] for cluster in draw])
        assert areas.tolist() == [auc(column[rows], is_right[rows]) for column in x.T]
    _, *within = agreement._areas(x, is_right, systems, members, drawn)
    for draw, areas in zip(drawn, within, strict=True):
        rows = np.concatenate([members[cluster] for cluster in draw])
        wins = []
        for i, j in itertools.product(rows[is_right[rows]], rows[~is_right[rows]]):
            if systems[i] == systems[j]:
                wins.append((np.sign(x[i] - x[j]) + 1) / 2)
        assert areas == pytest.approx(np.mean(wins, axis=0))


def test_figures_are_measured_on_the_answers_that_have_some_and_change_no_other_row():
    scores = scored(M=[0.5, 0.5, 0.2, 0.1, 0.9, 0.0]).rename(columns={"M F1": "M Recall"})
    figures = scores.assign(**{"Figures Recall": [1, 0, math.nan, 0, 0, math.nan]})
    table = agreement.answer_agreement(RIGHT, figures, "Recall", against="M", **FEW)
    before = agreement.answer_agreement(RIGHT, scores, "Recall", against="M", **FEW)
    is_figures = table["metric"] == "Figures"
    pd.testing.assert_frame_equal(table[~is_figures].reset_index(drop=True), before)
    row = table[is_figures & (table["measure"] == "AUC")].iloc[0]
    # Right 1 and 0 against wrong 0 and 0; M: right 0.5 and 0.1 against 0.5 and 0.9.
    assert row[["value", "n"]].tolist() == [0.75, 4]
    assert row["difference"] == 0.75 - 0.5 / 4


def test_pairs_without_figures_are_left_out():
    scores = pair_scores([0.3, -0.2, 0.1]).assign(**{"Figures Recall": [0, 1, 0.5, 0, None, 1]})
    table = agreement.pair_agreement(LABELS, scores, **FEW)
    row = table.set_index(["asked", "metric", "measure"]).loc["completeness", "Figures", "Pearson"]
    gaps = [1, 1, -0.5, -0.5]
    assert row["value"] == pytest.approx(np.corrcoef(gaps, [1, 1, 0, 0])[0, 1])
    assert row["n"] == 4


# --- the committed scores ---


def test_committed_files_hold_no_text_and_scores_in_range():
    for name in datasets.SETS:
        labels, scores = committed(name)
        for frame in (labels.drop(columns="kinds", errors="ignore"), scores):
            lengths = frame.select_dtypes("object").map(lambda cell: len(str(cell)))
            assert lengths.max(axis=None) <= 60
        scores = scores.drop(columns="length Score", errors="ignore")
        numbers = scores[[name for name in scores if name.endswith((*THREE_PARTS, " Score"))]]
        assert numbers.min().min() >= 0
        assert numbers.max().max() <= 1
    assert not [path.name for path in HUMAN.iterdir() if "realsumm" in path.name]


def test_financebench_counts_are_those_of_its_paper():
    """Its Table 2: correct, incorrect, refused.

    The closed book's 126 failures are 131 in the labels.
    """
    labels, _ = committed("financebench")
    counts = pd.crosstab(labels["model"], labels["label"])
    printed = {
        "gpt-4-1106-preview_closedBook": (14, 5, 131),
        "llama2_sharedStore": (29, 104, 17),
        "gpt-4-1106-preview_sharedStore": (29, 20, 101),
        "llama2_singleStore": (62, 81, 7),
        "gpt-4-1106-preview_singleStore": (75, 17, 58),
        "claude-2_inContext_reverse": (114, 32, 4),
        "gpt-4-1106-preview_inContext_reverse": (118, 26, 6),
        "gpt-4-1106-preview_oracle": (128, 22, 0),
    }
    assert {model: tuple(counts.loc[model]) for model in printed} == printed
    assert len(counts) == 16


def test_findver_accuracy_is_that_of_its_paper():
    means = committed("findver")[0].groupby("model")["correct"].mean().mul(100).round(1)
    assert means.to_dict() == {"Llama-3.2-3B": 58.4, "Llama-3.1-8B": 66.4, "Llama-3.1-70B": 75.0}


def test_the_pairs_agree_with_people_as_published():
    """RAGChecker's correlations on the half of its pairs that is committed.

    14 of the 140 pairs are financial.
    """
    labels, scores = committed("ragchecker")
    assert labels.groupby("dataset")["instance_id"].nunique().to_dict()["robustqa/fiqa"] == 14
    found = agreement.pair_agreement(labels, scores, **FEW)
    value = found.set_index(["asked", "metric", "measure"])["value"].mul(100).round(1)["overall"]
    assert value["RAGChecker"][["Pearson", "Spearman"]].tolist() == [66.7, 68.0]
    assert value["ROUGE-L", "Spearman"] == 60.4
    assert value[agreement.EMS_JUDGED, "Spearman"] == 64.0
    assert value["Coverage(local)", "Spearman"] >= 64.4  # not below the overlap of single words


def test_within_systems_the_judge_ranks_as_well_and_knowing_the_system_does_not_help():
    expected = {"financebench": (0.94, 0.72, 0.83), "findver": (0.74, 0.56, 0.56)}
    for name, (judged, rouge, system) in expected.items():
        table = agreement.answer_agreement(*committed(name), judged=True, **FEW)
        area = table.set_index(["metric", "measure"])["value"].round(2)
        assert area[agreement.EMS_JUDGED, agreement.WITHIN] == judged
        assert area["ROUGE-L", agreement.WITHIN] == rouge
        assert area[agreement.SYSTEM, "AUC"] == system
        assert set(table["n"]) == {200}


def test_a_wrong_figure_shows_where_words_do_not():
    """Edits of summaries of earnings calls."""
    table = agreement.edit_agreement(*committed("summedits"), **FEW)
    area = table.set_index("metric")["value"].round(2)
    assert area["ROUGE-L F1"] < 0.5  # a consistent edit changes more words than a wrong one
    assert area["Coverage(local) F1"] >= 0.55
    assert area["Figures mean"] >= 0.70
    assert table["clusters"].max() == 11
    judged = agreement.edit_agreement(*committed("summedits"), judged=True, **FEW)
    assert set(judged.loc[~judged["metric"].str.startswith("Figures"), "n"]) == {160}
    area = judged.set_index("metric")["value"].round(3)
    expected = {"EMS(LLM) F1": 0.952, "Coverage(LLM) F1": 0.957, "RAGChecker F1": 0.945}
    expected |= {agreement.UNCONTRADICTED: 0.938, "Judge alone Score": 0.974}
    assert area[list(expected)].to_dict() == expected
    assert area["ROUGE-L F1"] < 0.5
    named = agreement.contradicted_edits(*committed("summedits")).set_index("correct")
    assert named["edits"].to_dict() == {False: 80, True: 80}
    assert named["named"].to_dict() == {False: 70, True: 0}
