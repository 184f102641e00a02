"""Agreement with people, on tables small enough to work out by hand, and the published rows."""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from doubles import covered

from ems import data as frames
from ems.batches import MissingReplies
from ems.io import data_path
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.local.scorers import LocalScorer, PairScorer, SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.pipeline import EMS
from ems.presets import build
from ems.study.ablations import ablation, edits
from ems.study.findings import people_figures
from ems.study.people import agreement, human
from ems.study.people import upstream as datasets
from ems.types import Answer, InputError, Triplet

MIRROR = Path(os.environ.get("EMS_DATA_MIRROR") or Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture
def meta(monkeypatch):
    if not (MIRROR / "ragchecker/data/meta_evaluation").is_dir():
        pytest.skip("needs RAGChecker's meta-evaluation; point EMS_DATA_MIRROR at a folder that has it")
    monkeypatch.setenv("EMS_DATA_MIRROR", str(MIRROR))
    return datasets.ragchecker()


# --- score tables

@pytest.mark.parametrize(("ref", "ans", "expected"), [
    ("a b c d", "a b e", (2 / 3, 2 / 4, 2 * 2 / 7)),
    ("a a b", "a", (1 / 1, 1 / 3, 2 * 1 / 4)),            # counts, not sets
    ("Up 6%.", "up, 6", (1, 1, 1)),                       # case and signs are left out
    ("a b", "", (0, 0, 0)), ("", "a", (0, 0, 0)), ("中文", "中文", (0, 0, 0)),
])
def test_unigram(ref, ans, expected):
    assert agreement.unigram([ref], [ans])[0] == pytest.approx(expected)


TRIPLETS = [Triplet("t1", "A", "q", "Revenue rose 6% to $94.9 billion. Costs were flat."),
            Triplet("t2", "B", "q", "The dividend is $0.25 a share. Debt fell by half.")]
ANSWERS = [Answer("t1", "x", "Revenue rose 6% to $94.9 billion."), Answer("t1", "y", ""),
           Answer("t2", "x", TRIPLETS[1].reference), Answer("t2", "y", "Nothing was said about Mars.")]


def test_score_table_has_a_row_per_answer_and_a_column_per_part():
    table = agreement.score_table(TRIPLETS, ANSWERS)
    assert list(zip(table.triplet_id, table.model, strict=True)) == [(a.triplet_id, a.model) for a in ANSWERS]
    by_metric = agreement.metrics_of(table)
    assert list(by_metric) == ["length", "unigram", "BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L", "EMS(local)",
                               "EMS(local-pair)", "EMS(ROUGE)"]
    assert by_metric["BLEU"] == "BLEU Score"
    assert by_metric["EMS(local)"] == "EMS(local) F1"
    assert agreement.metrics_of(table, "Recall")["unigram"] == "unigram Recall"
    values = table.drop(columns=["triplet_id", "model", "length Score"])
    assert ((values >= 0) & (values <= 1)).all(axis=None)
    assert (values.iloc[1] == 0).all()                     # a refusal scores 0 on everything
    assert (values.iloc[2].drop("BLEU Score") == 1).all()  # the reference itself scores 1
    assert table["length Score"].tolist() == [6, 0, 10, 5]


def test_a_runs_values_become_a_score_table():
    values = pd.DataFrame({"metric": ["M", "M", "N"], "part": ["F1", "F1", "Score"], "model": ["x", "y", "x"],
                           "triplet_id": ["1", "1", "1"], "value": [0.1, 0.2, 0.3]})
    wide = agreement.of_values(values).set_index("model")
    assert wide.loc["x", "M F1"] == 0.1
    assert wide.loc["x", "N Score"] == 0.3
    assert math.isnan(wide.loc["y", "N Score"])


# --- people

LABELS = pd.DataFrame({"instance_id": ["1", "1", "2", "2", "3", "3"], "annotator": [0, 1] * 3, "dataset": "d",
                       "overall": [2, 1, -1, -2, 0, 1], "completeness": [1, 1, 0, 0, -1, -2],
                       "correctness": [0, 1, 1, 2, -1, -1]})


def pair_scores(gaps, metric="M"):
    """A score table in which answer 2 of pair i beats answer 1 by gaps[i], in every part."""
    rows = [
        (str(i), model, *(value,) * 3)
        for i, gap in enumerate(gaps, 1)
        for model, value in (("1", 0.5), ("2", 0.5 + gap))
    ]
    return pd.DataFrame(
        rows, columns=["triplet_id", "model", f"{metric} Precision", f"{metric} Recall", f"{metric} F1"]
    )


def test_the_published_procedure_by_hand():
    found = agreement.human_agreement(LABELS, pair_scores([0.3, -0.2, 0.1]), resamples=50)
    row = found[(found.asked == "overall") & (found.metric == "M")].set_index("measure")
    x = [0.3, 0.3, -0.2, -0.2, 0.1, 0.1]                   # second answer less first, once per annotator
    y = [2, 1, -1, -2, 0, 1]
    assert row.value["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert row.value["spearman"] == pytest.approx(scipy.stats.spearmanr(x, y)[0])
    assert row.value["sign accuracy"] == 5 / 5             # the label 0 has no side
    assert row.n["pearson"] == 6


def test_each_question_is_answered_by_its_part():
    scores = pair_scores([0.3, -0.2, 0.1]).assign(**{"M Precision": [0, 1, 0, 2, 1, 0]})
    found = (
        agreement.human_agreement(LABELS, scores, resamples=50)
        .set_index(["asked", "metric", "measure"])
        .value
    )
    gaps = [1, 1, 2, 2, -1, -1]
    assert found["correctness", "M", "pearson"] == pytest.approx(np.corrcoef(gaps, LABELS.correctness)[0, 1])


def test_the_other_annotator_is_one_observation_per_pair():
    found = agreement.human_agreement(LABELS, pair_scores([0.3, -0.2, 0.1]), resamples=50)
    row = found[(found.asked == "overall") & (found.metric == agreement.PEOPLE)].set_index("measure")
    assert row.value["pearson"] == pytest.approx(np.corrcoef([2, -1, 0], [1, -2, 1])[0, 1])
    assert row.n["pearson"] == 3
    assert row.value["sign accuracy"] == (1 + 1 + 0.5) / 3    # the first annotator's 0 is half right


def test_a_missing_difference_becomes_the_median_as_published():
    labels = pd.concat([LABELS, LABELS.iloc[:2].assign(instance_id="4")])
    found = agreement.human_agreement(labels, pair_scores([0.3, -0.2, 0.1, np.nan]), resamples=50)
    whole = agreement.human_agreement(labels, pair_scores([0.3, -0.2, 0.1, 0.1]), resamples=50)
    pd.testing.assert_frame_equal(found, whole)


def test_differences_to_other_metrics_are_paired():
    scores = pair_scores([0.3, -0.2, 0.1]).merge(pair_scores([0.1, 0.2, 0.3], "unigram"), on=agreement.KEYS)
    found = agreement.human_agreement(LABELS, scores, resamples=50).set_index(["asked", "metric", "measure"])
    value = found.value["overall"]
    assert found["vs unigram"]["overall", "M", "pearson"] == pytest.approx(
        value["M", "pearson"] - value["unigram", "pearson"]
    )
    assert math.isnan(found["vs unigram"]["overall", "unigram", "pearson"])
    assert "vs RAGChecker" not in found                     # it has no scores here


def test_order_of_rows_does_not_matter():
    scores = pair_scores([0.3, -0.2, 0.1])
    one = agreement.human_agreement(LABELS, scores, resamples=50)
    other = agreement.human_agreement(LABELS.sample(frac=1, random_state=2),
                                      scores.sample(frac=1, random_state=1), resamples=50)
    pd.testing.assert_frame_equal(one, other)


RIGHT = pd.DataFrame({"triplet_id": ["1", "2", "3", "4"], "model": "x", "group": ["a", "a", "b", "b"],
                      "correct": [True, False, True, False], "kind": ["k", "k", "l", "l"]})


def test_right_and_wrong_by_hand():
    scores = pd.DataFrame({"triplet_id": ["4", "3", "2", "1"], "model": "x", "M F1": [0.2, 0.9, 0.8, 0.6]})
    found = (
        agreement.label_agreement(RIGHT, scores, by="kind", resamples=50)
        .set_index(["subset", "measure"])
        .value
    )
    # right 0.6, 0.9; wrong 0.8, 0.2: of four comparisons right wins 0.6 > 0.2, 0.9 > 0.8, 0.9 > 0.2
    assert found["all", "AUC"] == 3 / 4
    assert found["k", "AUC"] == 0.0
    assert found["l", "AUC"] == 1.0
    assert found["all", "pearson"] == pytest.approx(np.corrcoef([0.6, 0.8, 0.9, 0.2], [1, 0, 1, 0])[0, 1])
    assert found["all", "kendall"] == pytest.approx(
        scipy.stats.kendalltau([0.6, 0.8, 0.9, 0.2], [1, 0, 1, 0])[0]
    )


def test_measures_that_are_not_asked_for_are_left_out():
    scores = RIGHT[agreement.KEYS].assign(**{"M F1": [0.6, 0.8, 0.9, 0.2], "N F1": [0.1, 0.2, 0.1, 0.4]})
    whole = agreement.label_agreement(RIGHT, scores, against=["N"], resamples=50)
    for one in agreement.LABEL_MEASURES:
        found = agreement.label_agreement(RIGHT, scores, against=["N"], measures=[one], resamples=50)
        pd.testing.assert_frame_equal(found, whole[whole["measure"] == one].reset_index(drop=True))


def test_within_systems_by_hand():
    labels = pd.DataFrame({"triplet_id": list("123456"), "model": list("xxxyyz"), "group": list("abcabc"),
                           "correct": [True, False, False, True, False, True]})
    scores = labels[agreement.KEYS].assign(**{"M F1": [0.5, 0.5, 0.2, 0.1, 0.9, 0.0], "N F1": [1, 0, math.nan, 1, 0, 0]})
    found = agreement.within_systems(labels, scores.sample(frac=1, random_state=3),
                                     {"x": 1 / 3, "y": 1 / 2, "z": 1}, resamples=50).set_index("metric")
    # Shares: 1 against 2, 3 ties and loses to 5; 4 beats 2, 3 and ties with 5; 6 beats all
    # M: x has a tie and a pair in order, y a pair out of order, z has no incorrect answer; N: one pair is unscored
    assert found["value"].to_dict() == {"M": 1.5 / 3, "N": 1.0, agreement.SYSTEM: 6.5 / 9}
    assert found["n"].to_dict() == {"M": 3, "N": 2, agreement.SYSTEM: 9}
    assert found["ci_low"].isna().all()                          # three groups are too few
    nothing = agreement.within_systems(labels[2:4], scores[2:4], {"x": 0, "y": 1}).set_index("metric")
    assert math.isnan(nothing.loc["M", "value"])                 # no system has both


def test_a_pair_within_systems_counts_as_often_as_both_groups_are_drawn():
    labels = pd.DataFrame({"triplet_id": [f"{i}" for i in range(12)], "model": "x", "group": [*"abcdef"] * 2,
                           "correct": [True] * 6 + [False] * 6})
    scores = labels[agreement.KEYS].assign(**{"M F1": [0.9, 0.3, 0.7, 0.2, 0.8, 0.6, 0.1, 0.5, 0.7, 0.4, 0.6, 0.3]})
    found = agreement.within_systems(labels, scores, {"x": 0.5}, resamples=300, seed=5).set_index("metric").loc["M"]
    # one system only: the pairs, and so the area and its interval, are those of all answers
    whole = agreement.label_agreement(labels, scores, resamples=300, seed=5).set_index("measure").loc["AUC"]
    assert found[["value", "ci_low", "ci_high"]].tolist() == pytest.approx(whole[["value", "ci_low", "ci_high"]].tolist())
    assert found["ci_low"] < found["value"] < found["ci_high"]


@pytest.mark.parametrize("ids", [["1", "2", "3"], ["1", "2", "3", "4", "5"], ["1", "2", "3", "9"]])
def test_scores_and_labels_must_be_of_one_run(ids):
    scores = pd.DataFrame({"triplet_id": ids, "model": "x", "M F1": 0.5})
    with pytest.raises(InputError, match="of one run"):
        agreement.label_agreement(RIGHT, scores)


def test_ragcheckers_own_row_comes_out_as_published(meta):
    """On all 280 pairs as printed in its paper; on the half that holds the even instances as below."""
    _, _, labels, own = meta
    found = agreement.human_agreement(labels, own, resamples=20).query("metric == 'RAGChecker'")
    found = found.set_index(["asked", "measure"]).value * 100
    pairs = labels.instance_id.nunique()
    if pairs == 280:
        printed = {"overall": (61.93, 60.90), "completeness": (60.67, 58.11), "correctness": (49.66, 46.95)}
        for ask, (pearson, spearman) in printed.items():
            assert (round(found[ask, "pearson"], 2), round(found[ask, "spearman"], 2)) == (pearson, spearman)
    else:
        assert pairs == 140
        assert (round(found["overall", "pearson"], 1), round(found["overall", "spearman"], 1)) == (66.7, 68.0)


def test_unigram_f1_is_the_bar_to_clear(meta):
    triplets, answers, labels, _ = meta
    if len(triplets) != 140:
        pytest.skip("the numbers below are those of the half in the mirror")
    reference = {t.id: t.reference for t in triplets}
    scores = agreement.unigram([reference[a.triplet_id] for a in answers], [a.answer for a in answers])
    table = pd.DataFrame([(a.triplet_id, a.model, *s) for a, s in zip(answers, scores, strict=True)],
                         columns=[*agreement.KEYS, "unigram Precision", "unigram Recall", "unigram F1"])
    found = (
        agreement.human_agreement(labels, table, resamples=20).set_index(["asked", "metric", "measure"]).value
        * 100
    )
    assert round(found["overall", "unigram", "pearson"], 1) == 58.0
    assert round(found["overall", "unigram", "spearman"], 1) == 64.4


# --- choices and edits

def test_matched_both_ways_precision_is_recall_with_the_sides_exchanged():
    matcher, scorer = SimilarityMatcher(), PairScorer()
    ref, ans = (
        ("Revenue rose to $5 billion.", "Costs were flat."),
        ("Revenue rose to $5 billion.", "It rained on Mars."),
    )
    sides = covered(ablation.TwoWay(matcher, scorer), ref, ans)
    assert sides.match == (0, -1)
    assert (sides.score, sides.ans_score) == ((1.0, 0.0), (1.0, 0.0))
    # An answer point that nobody chose, yet says what a reference point says, counts from its own side only.
    twice = ("Revenue rose to $5 billion.", "Revenue rose to $5 billion.")
    one_way = EMS(SentenceExtractor(), matcher, scorer).score(ref[0], " ".join(twice))
    both_ways = EMS(SentenceExtractor(), matcher, ablation.TwoWay(matcher, scorer)).score(
        ref[0], " ".join(twice)
    )
    assert (one_way.precision, both_ways.precision) == (1 / 2, 2 / 2)


def test_all_or_nothing():
    class Fixed:
        name = signature = "fixed"

        def __call__(self, pairs):
            return [0.49, 0.5, None]

    assert ablation.AllOrNothing(Fixed())([("a", "b")] * 3) == [0.0, 1.0, None]
    cut = covered(ablation.AllOrNothingSides(LocalScorer()), ("Costs were flat.",),
                  ("Costs were flat.", "It rained on Mars."))
    assert (cut.score, cut.ans_score) == ((1.0,), (1.0, 0.0))


@pytest.mark.parametrize("form", ["pair", "local"])
def test_every_variant_differs_from_the_paper_in_one_choice(form):
    made = ablation.variants(form)
    assert next(iter(made)) == ablation.BASE
    signatures = [pipeline.signature for pipeline in made.values()]
    assert len(set(signatures)) == len(signatures)
    base = signatures[0].split("|")
    changed = {name: sum(a != b for a, b in zip(base, pipeline.signature.split("|"), strict=True))
               for name, pipeline in made.items()}
    both_ways = changed.pop("matched both ways", 2)       # its scorer matches, so no matcher is named
    assert (changed.pop(ablation.BASE), both_ways) == (0, 2)
    assert set(changed.values()) == {1}
    for pipeline in made.values():
        assert pipeline.score("Costs were flat. Sales rose 5%.",
                              "Costs were flat. Sales rose 5%.").f1 == pytest.approx(1)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="pair"):
        ablation.variants("rouge")


def test_separation_by_hand():
    rows = [("M", "F1", model, f"t{i}", f"g{i}", value) for model, values in
            (("m-1b", [0.1, 0.2, 0.3]), ("m-8b", [0.3, 0.5, 0.4])) for i, value in enumerate(values)]
    values = pd.DataFrame(rows, columns=["metric", "part", "model", "triplet_id", "group", "value"])
    values = values.assign(num=np.nan, den=np.nan, units=1, unscored=0, signature="s")
    row = ablation.separation(values, resamples=200).iloc[0]
    gaps = [0.2, 0.3, 0.1]
    assert row.gap == pytest.approx(np.mean(gaps) / np.std(gaps, ddof=1))
    assert row.order == "m-1b < m-8b"
    assert row.order_kept == 1.0                            # every resample has the larger model ahead
    one_group = ablation.separation(values.assign(group="g"), resamples=20).iloc[0]
    assert math.isnan(one_group.order_kept)                 # nothing to draw again
    assert math.isnan(one_group.gap_low)
    assert (
        ablation.separation(values.assign(group="g"), cluster="triplet_id", resamples=20).iloc[0].order_kept
        == 1.0
    )


def by_model(**scores):
    """A values frame of one metric: per model its F1 on triplets t0, t1, ..., each in a group of its own."""
    rows = [
        ("M", "F1", model, f"t{i}", f"g{i}", v, v, 1.0, 1, 0, "s")
        for model, vs in scores.items()
        for i, v in enumerate(vs)
    ]
    return pd.DataFrame(rows, columns=frames.COLUMNS)


def test_the_gap_is_between_the_first_and_the_last_model_given():
    # The same size in two names: by name the one without the call is last.
    values = by_model(
        **{"q-1b (closed book)": [0.2, 0.3, 0.4], "q-1b": [0.6, 0.5, 0.7], "s-0.1b": [0.1, 0.1, 0.1]}
    )
    assert ablation.separation(values, resamples=20).iloc[0]["last"] == "q-1b (closed book)"
    row = ablation.separation(values, models=["s-0.1b", "q-1b (closed book)", "q-1b"], resamples=20).iloc[0]
    gaps = [0.5, 0.4, 0.6]
    assert (row["first"], row["last"]) == ("s-0.1b", "q-1b")
    assert row.gap == pytest.approx(np.mean(gaps) / np.std(gaps, ddof=1))
    with pytest.raises(InputError, match="no model 'q-7b' among the values"):
        ablation.separation(values, models=["s-0.1b", "q-7b"])


def test_a_tie_is_no_order():
    flat = ablation.separation(by_model(a=[0.0] * 3, b=[0.0] * 3), resamples=50).iloc[0]
    assert (flat.order, flat.order_kept) == ("a = b", 0.0)
    # b is ahead on t0 alone: in the resamples without t0, (2/3)^3 = 0.30 of them, the two are level.
    some = ablation.separation(by_model(a=[0.1, 0.2, 0.3], b=[0.2, 0.2, 0.3]), resamples=4000).iloc[0]
    assert some.order == "a < b"
    assert some.order_kept == pytest.approx(1 - (2 / 3) ** 3, abs=0.03)


def test_one_model_has_no_gap_and_no_order():
    row = ablation.separation(by_model(a=[0.1, 0.2, 0.3]), resamples=20).iloc[0]
    assert (row.order, row.n) == ("a", 3)
    assert math.isnan(row.gap)
    assert math.isnan(row.gap_high)
    assert math.isnan(row.order_kept)


def fake_scores(about, loss):
    """A score table in which an edit costs loss(edit, dose)."""
    rows = [
        (b["triplet_id"], b["model"], 1.0 - (loss(b["edit"], b["dose"]) if b["edit"] else 0.0)) for b in about
    ]
    return pd.DataFrame(rows, columns=["triplet_id", "model", "M Score"])


@pytest.mark.parametrize(
    ("loss", "failing"),
    [
        (
            lambda edit, dose: 0.0,
            {"delete points", "change numbers", "change units, periods", "negate", "swap names",
             "repeat points", "pad with other facts", "add an empty summary", "shuffle sentences",
             "restate numbers", "paraphrase lightly", "change stop words"},
        ),
        (lambda edit, dose: dose if BY_HARM[edit] in ("worse", "excess") else 0.49 * dose, set()),
        (
            lambda edit, dose: dose if BY_HARM[edit] in ("worse", "excess") else 0.51 * dose,
            {e.name for e in edits.EDITS if e.harm in ("none", "control")},
        ),  # less than a number, but over half
        (
            lambda edit, dose: (
                0.3 if edit == "negate" else dose if BY_HARM[edit] in ("worse", "excess") else 0.0
            ),
            {"negate"},
        ),
        (
            lambda edit, dose: (
                -dose if edit == "repeat points" else dose if BY_HARM[edit] in ("worse", "excess") else 0.0
            ),
            {"repeat points"},
        ),
    ],
)
def test_verdicts(loss, failing):
    text = (
        "Revenue was $94.9 billion, which the company said in India. "
        "Costs of Apple rose 6% to $5 million in the third "
        "quarter."
    )
    triplets = [Triplet(i, i, "q", text) for i in "123456"]
    _, about = edits.edited_answers(triplets)
    lost = ablation.losses(fake_scores(about, loss), about)
    assert set(lost.edit) == {e.name for e in edits.EDITS}
    found = ablation.verdicts(lost).set_index("edit")
    assert set(found.index[~found.passes]) == failing


def test_a_text_without_a_value_leaves_the_mean_and_n_and_fails_nothing():
    triplets = [Triplet(i, i, "q", "Revenue rose 6% to $5 million.") for i in "1234567"]
    _, about = edits.edited_answers(triplets)
    scores = fake_scores(about, lambda edit, dose: dose)
    value = scores.columns.drop(agreement.KEYS)
    scores.loc[(scores["triplet_id"] == "3") & (scores["model"] == "change numbers@0.25"), value] = float("nan")
    found = ablation.verdicts(ablation.losses(scores, about)).set_index("edit").loc["change numbers"]
    assert (found.n, found.loss, found.noticed, found.passes) == (6, 0.75, 1, True)


def test_under_six_texts_nothing_says_that_a_loss_is_one():
    triplets = [Triplet(i, i, "q", "Revenue rose 6% to $5 million.") for i in "12345"]
    _, about = edits.edited_answers(triplets)
    found = ablation.verdicts(ablation.losses(fake_scores(about, lambda edit, dose: dose), about))
    assert found.set_index("edit").passes.isna()["change numbers"]


def test_without_a_number_to_change_what_should_cost_little_has_no_verdict():
    triplets = [
        Triplet(i, i, "q", "The company expects strong demand for it. Management remains confident in it.")
        for i in "123456"
    ]
    _, about = edits.edited_answers(triplets)
    lost = ablation.losses(fake_scores(about, lambda edit, dose: dose), about)
    found = ablation.verdicts(lost).set_index("edit")
    assert "change numbers" not in found.index
    assert found.passes["delete points"]
    assert pd.isna(found.passes["change stop words"])
    pytest.importorskip("matplotlib")
    assert "75.0 ?" in [t.get_text() for t in people_figures.notice_figure(found.reset_index()).axes[0].texts]


def test_intervals_of_losses_are_over_groups():
    """Nine texts of seven groups: Student's t over the groups, by hand; under six groups neither interval nor
    verdict on harm.
    """
    groups, loss = list("AAABCDEFG"), np.array([0.3, 0.3, 0.3, 0.5, 0.2, 0.4, 0.1, 0.6, 0.3])
    lost = pd.DataFrame({"triplet_id": range(9), "group": groups, "edit": "cut", "harm": "worse", "dose": 1.0,
                         "changes": 1, "touched": 0.5, "metric": "M", "part": "F1", "loss": loss})
    found = ablation.verdicts(pd.concat([lost.assign(dose=0.5, loss=0.1), lost])).iloc[0]
    without = [loss[[g != left_out for g in groups]].mean() for left_out in "ABCDEFG"]
    reach = 2.4469 * np.sqrt(6 / 7 * ((without - np.mean(without)) ** 2).sum())      # t with 6 degrees
    assert (found.n, found.clusters) == (9, 7)
    assert (found.ci_low, found.ci_high) == pytest.approx((loss.mean() - reach, loss.mean() + reach), abs=1e-4)
    assert found.passes
    few = ablation.verdicts(pd.concat([lost.assign(dose=0.5, loss=0.1), lost]).query("group < 'F'")).iloc[0]
    assert few[["ci_low", "direction", "passes"]].isna().all()
    pytest.importorskip("matplotlib")
    for row, words in ((found, {"33.3", f"± {100 * reach:.1f}"}), (few, {"30.0 ?"})):
        figure = people_figures.notice_figure(pd.DataFrame([row]).astype({"passes": "boolean"}))
        assert words <= {t.get_text() for t in figure.axes[0].texts}


BY_HARM = {e.name: e.harm for e in edits.EDITS}


def test_losses_look_at_precision_where_more_was_said_than_asked():
    about = [
        {"triplet_id": "1", "group": "g", "model": "unedited", "edit": "", "harm": "", "dose": 0.0,
         "changes": 0, "touched": 0.0},
        {"triplet_id": "1", "group": "g", "model": "a", "edit": "pad", "harm": "excess", "dose": 1.0,
         "changes": 1, "touched": 0.5},
        {"triplet_id": "1", "group": "g", "model": "b", "edit": "cut", "harm": "worse", "dose": 1.0,
         "changes": 1, "touched": 0.5},
    ]
    scores = pd.DataFrame(
        {"triplet_id": "1", "model": ["unedited", "a", "b"], "length Score": 1, "M Precision": [1, 0.6, 0.9],
         "M Recall": [1, 1, 0.5], "M F1": [1, 0.75, 0.7]}
    )
    lost = ablation.losses(scores, about).set_index("edit")
    assert (lost.part["pad"], lost.loss["pad"]) == ("Precision", pytest.approx(0.4))
    assert (lost.part["cut"], lost.loss["cut"]) == ("F1", pytest.approx(0.3))
    assert set(lost.metric) == {"M"}


def test_the_local_evaluator_passes_every_edit():
    """On six real references: every edit in the right direction, and a number over a stop word."""
    from ems.study.dataset import calls as transcripts

    companies = [
        c for c in transcripts.load_companies(data_path("companies.csv"))
        if c["ticker"] in ("AAPL", "JPM", "AMZN", "NVDA", "META", "TSLA")
    ]
    triplets = transcripts.build_triplets(companies, data_path("questions.yaml"),
                                          data_path("q3-2024/references"), None)
    triplets = [t for t in triplets if t.id.endswith("-Q1")]
    answers, about = edits.edited_answers(triplets, (0.25, 0.75))
    results = build(None, "local").evaluate(triplets, answers)
    table = pd.DataFrame(
        [(r.triplet_id, r.model, r.precision, r.recall, r.f1) for r in results],
        columns=[*agreement.KEYS, "EMS(local) Precision", "EMS(local) Recall", "EMS(local) F1"],
    )
    found = ablation.verdicts(ablation.losses(table, about)).set_index("edit")
    assert found.direction.all(), found[~found.direction]
    assert found.loss["change numbers"] > found.loss["change stop words"]
    assert found.loss["repeat points"] > 0.1


# --- figures

def test_metrics_are_ordered_by_what_people_prefer():
    pytest.importorskip("matplotlib")
    scores = pair_scores([0.3, -0.2, 0.1], "good").merge(pair_scores([-0.3, 0.2, -0.1], "bad"),
                                                         on=agreement.KEYS)
    figure = people_figures.forest_figure(agreement.human_agreement(LABELS, scores, resamples=20))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["bad", "good"]       # the best on top
    assert len(figure.axes) == 3


def test_every_failure_has_a_cross():
    pytest.importorskip("matplotlib")
    verdicts = pd.DataFrame(
        [
            ("M", "cut", "worse", 0.5, True),
            ("M", "turn", "none", 0.1, False),
            ("N", "cut", "worse", 0.0, False),
            ("N", "turn", "none", 0.0, True),
        ],
        columns=["metric", "edit", "harm", "loss", "passes"],
    )
    verdicts = verdicts.assign(ci_low=np.nan, ci_high=np.nan, n=2, clusters=2)
    axes = people_figures.notice_figure(verdicts).axes[0]
    said = [t.get_text() for t in axes.texts]
    assert [s for s in said if "✗" in s] == ["10.0 ✗", "0.0 ✗"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["M   1/2", "N   1/2"]


def test_choices_are_compared_with_their_own_form():
    pytest.importorskip("matplotlib")
    metrics = [f"{form}: {choice}" for form in ("pair", "local") for choice in (ablation.BASE, "clauses")]
    people = pd.DataFrame({"value": [0.5, 0.4, 0.6, 0.7], "ci_low": 0.3, "ci_high": 0.8}, index=metrics)
    for form, low, high in (("pair", -0.2, -0.05), ("local", -0.1, 0.3)):
        people[f"vs {form}: {ablation.BASE}"] = 0.1
        people[f"vs {form}: {ablation.BASE} low"], people[f"vs {form}: {ablation.BASE} high"] = low, high
    apart = pd.DataFrame(
        {"gap": 1.0, "gap_low": 0.5, "gap_high": 1.5, "first": "small", "last": "large", "order_kept": 0.9},
        index=metrics,
    )
    choices = ablation.compare(people, apart)
    assert list(choices["verdict"]) == ["", "harms", "", "no clear difference"]
    axes = people_figures.choices_figure(choices).axes
    assert {t.get_text().strip() for t in axes[0].texts} == {"0.50", "0.60"}
    assert axes[1].get_xlabel() == "large\nless small, in standard deviations"
    alone = people_figures.choices_figure(
        choices.assign(last="small", gap=np.nan, gap_low=np.nan, gap_high=np.nan, order_kept=np.nan)
    )
    assert alone.axes[1].get_xlabel() == "one model alone: no gap"


# --- the committed numbers

HUMAN = data_path("human")
IDS = {"triplet_id": str, "instance_id": str, "model": str, "group": str}


def committed(name):
    return pd.read_csv(HUMAN / f"{name}.csv", dtype=IDS)


def test_committed_files_hold_no_text_and_scores_in_range():
    for path in HUMAN.glob("*.csv"):
        frame = pd.read_csv(path, dtype=IDS)
        words = frame.select_dtypes("str").drop(columns="signature", errors="ignore")
        assert words.apply(lambda c: c.str.len().max()).max() <= 60, path.name
        numbers = frame[[c for c in frame if c.endswith(agreement.PARTS)]]
        assert numbers.empty or (numbers.min().min() >= 0 and numbers.max().max() <= 1), path.name
        assert path.stat().st_size < 1_000_000


@pytest.mark.slow
def test_published_rows_come_out_of_the_committed_numbers():
    found = agreement.human_agreement(committed("ragchecker_labels"), committed("ragchecker_scores"),
                                      resamples=20)
    value = found.set_index(["asked", "metric", "measure"]).value["overall"] * 100
    assert [round(value["RAGChecker", m], 1) for m in agreement.CORRELATIONS] == [66.7, 68.0]
    assert [round(value["unigram", m], 1) for m in agreement.CORRELATIONS] == [58.0, 64.4]


@pytest.mark.slow
def test_the_local_evaluator_is_at_least_level_with_unigrams():
    found = agreement.human_agreement(committed("ragchecker_labels"), committed("ragchecker_scores"),
                                      resamples=20)
    value = found.set_index(["asked", "metric", "measure"]).value * 100
    for measure, bar in (("pearson", 58.0), ("spearman", 64.4)):
        assert value["overall", "EMS(local)", measure] >= bar - 1      # its interval is 10 points wide
        assert value["completeness", "EMS(local)", measure] >= 61.5


def test_financebench_counts_are_the_papers():
    """Its table 2: correct, incorrect, refused. The closed book's 126 failures are 131 in the labels."""
    labels = committed("financebench_labels")
    counts = pd.crosstab(labels["model"], labels["label"])
    assert {m: tuple(row) for m, row in zip(counts.index, counts.to_numpy(), strict=True)} == {
        "gpt-4-1106-preview_closedBook": (14, 5, 131), "llama2_sharedStore": (29, 104, 17),
        "gpt-4-1106-preview_sharedStore": (29, 20, 101), "llama2_singleStore": (62, 81, 7),
        "gpt-4-1106-preview_singleStore": (75, 17, 58), "claude-2_inContext_reverse": (114, 32, 4),
        "gpt-4-1106-preview_inContext_reverse": (118, 26, 6), "gpt-4-1106-preview_oracle": (128, 22, 0)}


def test_findver_accuracy_is_the_papers():
    """Its table 5, retrieval setting, with and without chain of thought; the 70B model is not in it."""
    means = (
        committed("findver_labels")
        .groupby("model")[["correct", "correct_without_cot"]]
        .mean()
        .mul(100)
        .round(1)
    )
    assert tuple(means.loc["Llama-3.1-8B"]) == (66.4, 61.6)
    assert tuple(means.loc["Llama-3.2-3B"]) == (58.4, 50.6)
    assert tuple(means.loc["Llama-3.1-70B"]) == (75.0, 69.3)


def test_committed_scores_are_this_codes(meta):
    """Refresh them with: ems reproduce --profile findver -p RECOMPUTE yes -p SAVE data/human"""
    triplets, answers, _, _ = meta
    some = answers[::40]
    expected = committed("ragchecker_scores").set_index(agreement.KEYS)
    for result in build(None, "local").evaluate(triplets, some):
        row = expected.loc[(result.triplet_id, result.model)]
        assert [row[f"EMS(local) {p}"] for p in agreement.PARTS] == pytest.approx(
            [result.precision, result.recall, result.f1], abs=1e-5), "data/human is older than the evaluator"


def test_beside_table_1_each_part_has_the_question_that_it_answers():
    asked = {"overall": 0.1, "completeness": 0.2, "correctness": 0.3}
    people = pd.DataFrame([{"asked": ask, "metric": metric, "measure": measure, "value": value, "ci_low": 0.0,
                            "ci_high": 1.0} for ask, value in asked.items()
                           for metric in ("BLEU", "ROUGE-1", "ROUGE-L", "EMS(LLM)", "EMS(ROUGE)")
                           for measure in ("spearman", "pearson")])
    beside = agreement.beside_table1(people).set_index(["metric", "part"])["value"].to_dict()
    assert beside["BLEU", "Score"] == beside["ROUGE", "F1"] == beside["EMS(LLM)", "F1"] == 0.1
    assert (beside["EMS(LLM)", "Recall"], beside["EMS(LLM)", "Precision"]) == (0.2, 0.3)
    assert "EMS(ROUGE)" not in {metric for metric, _ in beside}


def test_saved_scores_keep_the_columns_that_were_not_computed_again(tmp_path):
    keys = {"triplet_id": ["1.10", "b"], "model": ["m", "m"]}
    labels, rows = pd.DataFrame(keys | {"label": [1, 0]}), pd.DataFrame(keys | {"EMS(LLM) F1": [0.5, 0.25]})
    human.LabelSet(labels, rows.assign(**{"BLEU Score": [0.1, 0.2]}), "").save(tmp_path, "set")
    human.LabelSet(labels, pd.DataFrame(keys | {"BLEU Score": [0.4, 0.3]})[::-1], "").save(tmp_path, "set")
    saved = frames.read_frames(tmp_path / "set_scores.csv").set_index("triplet_id")
    assert saved.loc["1.10"].tolist() == ["m", 0.4, 0.5]
    assert saved.loc["b"].tolist() == ["m", 0.3, 0.25]


def test_a_judge_of_the_pairs_is_replayed_from_the_committed_replies_and_left_out_where_they_lack():
    mirror = Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere")
    if not (mirror / "ragchecker").is_dir():
        pytest.skip("RAGChecker's file is not here: set EMS_DATA_MIRROR to a folder that has ragchecker/")
    triplets, answers, *_ = datasets.ragchecker()
    triplets, answers = triplets[:2], answers[:4]
    settings = {"mode": "replay", "temperature": None, "seed": None}
    judge = LLMJudge("large-llm-2026-11", store=Replies(data_path("human/replies.jsonl")), **settings)
    table = agreement.judged_table(triplets, answers, judge)
    saved = frames.read_frames(data_path("human/ragchecker_scores.csv"))
    both = table.merge(saved, on=agreement.KEYS, suffixes=("", " saved"))
    assert len(both) == 4
    for name in ("EMS(LLM) F1", "EMS(LLM, sides) Recall", "EMS(LLM, all or nothing) Precision"):
        assert both[name].round(5).tolist() == both[f"{name} saved"].tolist()
    with pytest.raises(MissingReplies):
        agreement.judged_table(triplets, answers, LLMJudge("large-llm-2026-11", store=Replies(), **settings))


def test_agreement_by_domain_is_that_of_its_pairs_alone():
    labels, scores = (frames.read_frames(data_path(f"human/ragchecker_{kind}.csv")) for kind in ("labels", "scores"))
    found = agreement.by_domain(labels, scores, ["EMS(local)"], resamples=50).set_index(["domain", "metric"])
    assert list(found.index.unique("metric")) == ["EMS(local)", agreement.PEOPLE]
    assert set(found.pairs) == {14}
    assert set(found.index.unique("domain")) == set(labels["dataset"])
    here = labels[labels["dataset"] == "kiwi"]
    gap = scores.pivot(index="triplet_id", columns="model", values="EMS(local) F1")
    gap = gap[gap.columns[1]] - gap[gap.columns[0]]
    expected = scipy.stats.spearmanr(gap[here["instance_id"]], here["overall"]).statistic
    assert found.value["kiwi", "EMS(local)"] == pytest.approx(expected)
