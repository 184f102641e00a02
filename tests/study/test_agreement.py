"""Agreement with people: arithmetic on small tables, and what the committed scores say."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from doubles import recorded
from study import ROOT, agreement, datasets, read_frames

from ems.analysis.stats import bootstrap, spearman
from ems.types import Answer, GivenPoint, InputError, Triplet

HUMAN = ROOT / "data" / "human"
FEW = {"resamples": 50, "seed": 7}


def committed(name):
    return agreement.stored(name, HUMAN)


# --- scores ---

TRIPLETS = [
    Triplet("t1", "A", "q", "Revenue rose 6% to $94.9 billion. Costs were flat."),
    Triplet("t2", "B", "q", "The dividend is $0.25 a share. Debt fell by half."),
]
ANSWERS = [
    Answer("t1", "x", "Revenue rose 6% to $94.9 billion."),
    Answer("t1", "y", ""),
    Answer("t2", "x", TRIPLETS[1].reference),
    Answer("t2", "y", "Nothing was said about Mars."),
]


def test_a_table_of_scores_has_a_row_per_answer_and_a_column_per_part():
    table = agreement.answer_scores(TRIPLETS, ANSWERS)
    assert list(zip(table["triplet_id"], table["model"], strict=True)) == [
        (a.triplet_id, a.model) for a in ANSWERS
    ]
    f1 = agreement.metrics_of(table, "F1")
    assert set(f1) == {
        "length",
        "BLEU",
        "ROUGE-1",
        "ROUGE-2",
        "ROUGE-L",
        "Coverage(local)",
        agreement.EMS_ROUGE,
    }
    assert f1["ROUGE-L"].tolist() == table["ROUGE-L F1"].tolist()
    assert table["length Score"].tolist() == [6, 0, 10, 5]
    values = table.drop(columns=["triplet_id", "model", "length Score"])
    assert ((values >= 0) & (values <= 1)).all(axis=None)
    assert (values.iloc[1] == 0).all()  # a refusal scores 0
    assert values.iloc[2].drop("BLEU Score").tolist() == pytest.approx(
        [1.0] * (values.shape[1] - 1)
    )


def test_points_are_scored_one_by_one_in_their_own_order():
    claims = ("Drink water.", "Call the surgeon on Monday.")
    triplets = [Triplet("k", "k", "q", "", points=tuple(map(GivenPoint, claims)))]
    table = agreement.point_scores(
        triplets, [Answer("k", "m", "You should drink water. Rest helps.")]
    )
    assert table[datasets.POINT_KEYS].to_numpy().tolist() == [["k", "m", 0], ["k", "m", 1]]
    assert table[f"{agreement.EMS_ROUGE} Score"].tolist() == [pytest.approx(2 / 3), 0.0]
    assert table["Coverage(local) Score"][0] == pytest.approx(1.0)
    assert table["Coverage(local) Score"][1] < 0.5


def test_the_judges_sample_is_drawn_by_hash_without_refusals_and_one_a_question_and_label():
    labels = pd.DataFrame(
        [
            (f"t{i}", model, label, label == "correct")
            for i in range(9)
            for model, label in (
                ("a", "correct"),
                ("b", "correct"),
                ("c", "incorrect"),
                ("d", "refusal"),
            )
        ],
        columns=["triplet_id", "model", "label", "correct"],
    )
    drawn = pd.DataFrame(agreement.sample(labels, 4), columns=datasets.KEYS).merge(labels)
    assert drawn["label"].value_counts().to_dict() == {"correct": 4, "incorrect": 4}
    assert not drawn.duplicated(["triplet_id", "label"]).any()
    assert agreement.sample(labels.sample(frac=1, random_state=3), 4) == agreement.sample(labels, 4)


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
    rows = [
        (str(i), model, *(value,) * 3)
        for i, gap in enumerate(gaps, 1)
        for model, value in (("1", 0.5), ("2", 0.5 + gap))
    ]
    return pd.DataFrame(
        rows, columns=["triplet_id", "model", *(f"{metric} {part}" for part in agreement.PARTS)]
    )


def values_of(table, *keys):
    return table.set_index(["asked", "metric", "measure"])["value"].sort_index().loc[keys]


def test_ragcheckers_procedure_by_hand():
    table = agreement.pair_agreement(LABELS, pair_scores([0.3, -0.2, 0.1]), **FEW)
    found = values_of(table, "overall", "M")
    gaps, said = (
        [0.3, 0.3, -0.2, -0.2, 0.1, 0.1],
        [2, 1, -1, -2, 0, 1],
    )  # second less first, once an annotator
    assert found["Pearson"] == pytest.approx(np.corrcoef(gaps, said)[0, 1])
    assert found["Spearman"] == pytest.approx(scipy.stats.spearmanr(gaps, said)[0])
    # One annotator against the other: one observation a pair.
    people = values_of(table, "overall", agreement.ANNOTATOR)
    assert people["Pearson"] == pytest.approx(np.corrcoef([2, -1, 0], [1, -2, 1])[0, 1])
    assert set(table.loc[table["metric"] == agreement.ANNOTATOR, "n"]) == {3}


def test_each_question_is_compared_with_its_part():
    scores = pair_scores([0.3, -0.2, 0.1]).assign(**{"M Precision": [0, 1, 0, 2, 1, 0]})
    found = agreement.pair_agreement(LABELS, scores, **FEW)
    expected = np.corrcoef([1, 1, 2, 2, -1, -1], LABELS["correctness"])[0, 1]
    assert values_of(found, "correctness", "M")["Pearson"] == pytest.approx(expected)
    assert found.groupby("asked")["part"].first().to_dict() == agreement.PART_OF


def test_a_missing_difference_is_the_median_as_published():
    labels = pd.concat([LABELS, LABELS.iloc[:2].assign(instance_id="4")])
    found, whole = (
        agreement.pair_agreement(labels, pair_scores([0.3, -0.2, 0.1, last]), **FEW)
        for last in (math.nan, 0.1)
    )
    pd.testing.assert_frame_equal(found, whole)


def test_differences_are_paired_and_intervals_are_those_of_ems_stats():
    rng = np.random.default_rng(1)
    labels = pd.DataFrame(
        {
            "instance_id": [f"{i}" for i in range(12) for _ in "ab"],
            "annotator": [0, 1] * 12,
            **{asked: rng.integers(-2, 3, 24) for asked in datasets.ASKED},
        }
    )
    one, other = (
        pd.DataFrame(
            {
                "triplet_id": [f"{i}" for i in range(12) for _ in "ab"],
                "model": ["1", "2"] * 12,
                **{f"{name} {part}": rng.random(24) for part in agreement.PARTS},
            }
        )
        for name in ("M", "N")
    )
    scores = one.merge(other).sample(frac=1, random_state=3)
    found = agreement.pair_agreement(
        labels.sample(frac=1, random_state=2), scores, against="N", resamples=200, seed=5
    )
    row = found.set_index(["asked", "metric", "measure"]).loc[("completeness", "M", "Spearman")]
    wide = scores.pivot(index="triplet_id", columns="model")
    gaps = [
        (wide[f"{name} Recall"]["2"] - wide[f"{name} Recall"]["1"])[labels["instance_id"]]
        for name in ("M", "N")
    ]
    alone = bootstrap(
        spearman, (gaps[0], labels["completeness"]), labels["instance_id"], resamples=200, seed=5
    )
    gap = bootstrap(
        lambda a, b, y: spearman(a, y) - spearman(b, y),
        (*gaps, labels["completeness"]),
        labels["instance_id"],
        resamples=200,
        seed=5,
    )
    assert row[["value", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [alone.value, alone.ci_low, alone.ci_high]
    )
    assert row[["difference", "difference_low", "difference_high"]].tolist() == pytest.approx(
        [gap.value, gap.ci_low, gap.ci_high]
    )
    assert row["clear"] == "no"


# --- single answers ---

RIGHT = pd.DataFrame(
    {
        "triplet_id": list("123456"),
        "model": list("xxxyyz"),
        "group": list("abcabc"),
        "correct": [True, False, False, True, False, True],
    }
)


def scored(**columns):
    return RIGHT[datasets.KEYS].assign(**{f"{name} F1": values for name, values in columns.items()})


def test_right_and_wrong_over_all_answers_and_within_systems_by_hand():
    scores = scored(M=[0.5, 0.5, 0.2, 0.1, 0.9, 0.0]).sample(frac=1, random_state=3)
    found = agreement.answer_agreement(RIGHT, scores, **FEW).set_index(["metric", "measure"])[
        "value"
    ]
    # right 0.5, 0.1, 0.0 against wrong 0.5, 0.2, 0.9: one win and one tie of nine pairs
    assert found["M", "AUC"] == 1.5 / 9
    # x has a tie and a pair in order, y a pair out of order, z has no incorrect answer
    assert found["M", agreement.WITHIN] == 1.5 / 3
    # shares of right answers: x 1/3, y 1/2, z 1. Answer 1 ties with 2 and 3, 4 beats 2 and 3 and ties with 5, 6 beats all
    assert found[agreement.SYSTEM, "AUC"] == (1 + 2.5 + 3) / 9
    assert found[agreement.SYSTEM, agreement.WITHIN] == 0.5


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
    of_all, read = (
        agreement.answer_agreement(labels, scores, judged=judged, **FEW) for judged in (False, True)
    )
    assert set(of_all["metric"]) == {"ROUGE-L", agreement.SYSTEM}
    assert (set(of_all["n"]), set(read["n"])) == ({5}, {4})
    row = read[(read["metric"] == agreement.EMS_JUDGED) & (read["measure"] == "AUC")].iloc[0]
    assert (row["value"], row["difference"]) == (1.0, 1.0 - 0.25)


def test_a_labelled_answer_without_scores_is_an_error():
    scores = pd.DataFrame({"triplet_id": list("12345"), "model": list("xxxyz"), "M F1": 0.5})
    with pytest.raises(InputError, match="of one set"):
        agreement.answer_agreement(RIGHT, scores)


# --- the committed scores ---


def test_committed_files_hold_no_text_and_scores_in_range():
    for name in datasets.SETS:
        labels, scores = committed(name)
        for frame in (labels, scores):
            assert (
                frame.select_dtypes("object").map(lambda cell: len(str(cell))).max(axis=None) <= 60
            )
        numbers = scores[
            [c for c in scores if c.endswith((*agreement.PARTS, " Score")) and c != "length Score"]
        ]
        assert (numbers.min().min(), numbers.max().max()) >= (0, 0)
        assert numbers.max().max() <= 1
    assert not [path.name for path in HUMAN.iterdir() if "realsumm" in path.name]


def test_financebench_counts_are_those_of_its_paper():
    """Its Table 2: correct, incorrect, refused. The closed book's 126 failures are 131 in the labels."""
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
    """RAGChecker's correlations on the half of its pairs that is committed; 14 pairs of 140 are financial."""
    labels, scores = committed("ragchecker")
    assert labels.groupby("dataset")["instance_id"].nunique().to_dict()["robustqa/fiqa"] == 14
    found = agreement.pair_agreement(labels, scores, **FEW)
    value = found.set_index(["asked", "metric", "measure"])["value"].mul(100).round(1)["overall"]
    assert value["RAGChecker"][["Pearson", "Spearman"]].tolist() == [66.7, 68.0]
    assert value["ROUGE-L", "Spearman"] == 60.4
    assert value[agreement.EMS_JUDGED, "Spearman"] == 64.0
    assert value["Coverage(local)", "Spearman"] >= 64.4  # not below the overlap of single words


def test_within_systems_the_judge_ranks_as_well_and_knowing_the_system_does_not_help():
    for name, expected in {
        "financebench": (0.94, 0.72, 0.83),
        "findver": (0.74, 0.56, 0.56),
    }.items():
        found = agreement.answer_agreement(*committed(name), judged=True, **FEW)
        area = found.set_index(["metric", "measure"])["value"].round(2)
        assert (
            area[agreement.EMS_JUDGED, agreement.WITHIN],
            area["ROUGE-L", agreement.WITHIN],
            area[agreement.SYSTEM, "AUC"],
        ) == expected
        assert set(found["n"]) == {200}


# --- from texts to the committed scores ---


@pytest.fixture
def texts(mirror):
    folders = {name.split("/")[0] for name in datasets.pins()}
    if not all((mirror / folder).is_dir() for folder in folders):
        pytest.skip(f"{mirror} has not all of {', '.join(sorted(folders))}")
    return {name: one.load() for name, one in datasets.SETS.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_every_recorded_reply_answers_and_gives_the_committed_scores(texts):
    files = ("replies.jsonl", "label_replies.jsonl", "systems_replies.jsonl")
    judge = recorded(*(f"human/{file}" for file in files))
    for name, (triplets, answers, labels) in texts.items():
        one = datasets.SETS[name]
        drawn = (
            agreement.sample(labels, one.judged)
            if one.judged
            else {(a.triplet_id, a.model) for a in answers}
        )
        read = [a for a in answers if (a.triplet_id, a.model) in drawn]
        found = agreement.judged_scores(triplets, read, judge, one.about).round(5)
        keys = datasets.POINT_KEYS if one.about == "points" else datasets.KEYS
        known = committed(name)[1].set_index(keys).loc[found.set_index(keys).index].reset_index()
        assert f"{agreement.EMS_JUDGED} F1" in found or one.about == "points"
        pd.testing.assert_frame_equal(found, known[list(found)], check_dtype=False)
    kept = {
        json.loads(line)["key"]
        for file in files
        for line in (HUMAN / file).read_text().splitlines()
    }
    assert kept <= judge.keys


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
@pytest.mark.parametrize("name", ["ragchecker", "financebench", "findver"])
def test_metrics_without_a_judge_give_the_committed_scores(texts, name):
    triplets, answers, _ = texts[name]
    found = agreement.answer_scores(triplets, answers[::60]).round(5)
    known = committed(name)[1].merge(found[datasets.KEYS], on=datasets.KEYS)
    pd.testing.assert_frame_equal(
        found.sort_values(datasets.KEYS, ignore_index=True),
        known[list(found)].sort_values(datasets.KEYS, ignore_index=True),
        check_dtype=False,
    )


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_what_is_not_computed_again_is_carried_over_by_id(texts, tmp_path):
    agreement.rescore("kqa", HUMAN, tmp_path)
    for kind in ("labels", "scores"):
        path = f"kqa_{kind}.csv"
        pd.testing.assert_frame_equal(read_frames(tmp_path / path), read_frames(HUMAN / path))
