"""Scores of the labelled sets: of small texts by hand, of whole texts as committed."""

import json

import pandas as pd
import pytest
from doubles import ScriptedJudge, recorded
from study import ROOT, agreement, datasets, read_frames, rescoring, upstream

from ems.types import Answer, GivenPoint, Triplet

HUMAN = ROOT / "data" / "human"
JUDGED = tuple(agreement.JUDGE_METRICS)
# Where the judge extracts points: the names of Table 1.
JUDGED_WITH_EXTRACTION = ("EMS(LLM)", "Coverage(LLM)", "RAGChecker", "Judge alone")


def committed_scores(name):
    return agreement.stored(name, HUMAN)[1]


# --- small texts ---

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
    table = rescoring.score_answers(TRIPLETS, ANSWERS)
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
    figures = table[["Figures Recall", "Figures Precision"]]
    assert figures.fillna(-1).to_numpy().tolist() == [[1, 1], [0, -1], [1, 1], [0, -1]]
    assert f1["ROUGE-L"].tolist() == table["ROUGE-L F1"].tolist()
    assert table["length Score"].tolist() == [6, 0, 10, 5]
    values = table.drop(columns=["triplet_id", "model", "length Score", *figures])
    assert ((values >= 0) & (values <= 1)).all(axis=None)
    assert (values.iloc[1] == 0).all()  # a refusal scores 0
    assert values.iloc[2].drop("BLEU Score").tolist() == pytest.approx(
        [1.0] * (values.shape[1] - 1)
    )


def test_points_are_scored_one_by_one_in_their_own_order():
    claims = ("Drink water.", "Call the surgeon on Monday.")
    triplets = [Triplet("k", "k", "q", "", points=tuple(map(GivenPoint, claims)))]
    table = rescoring.score_points(
        triplets, [Answer("k", "m", "You should drink water. Rest helps.")]
    )
    assert table[datasets.POINT_KEYS].to_numpy().tolist() == [["k", "m", 0], ["k", "m", 1]]
    assert table[f"{agreement.EMS_ROUGE} Score"].tolist() == [pytest.approx(2 / 3), 0.0]
    assert table["Coverage(local) Score"][0] == pytest.approx(1.0)
    assert table["Coverage(local) Score"][1] < 0.5


def test_the_judges_sample_is_drawn_by_hash_without_refusals_and_one_a_question_and_label():
    label_of = {"a": "correct", "b": "correct", "c": "incorrect", "d": "refusal"}
    answers, rows = [], []
    for i in range(9):
        for model, label in label_of.items():
            answers.append(Answer(f"t{i}", model, "text"))
            rows.append((f"t{i}", model, label, label == "correct"))
    labels = pd.DataFrame(rows, columns=["triplet_id", "model", "label", "correct"])
    sample = rescoring.answers_to_judge(answers, labels, 4)
    keys = pd.DataFrame([(a.triplet_id, a.model) for a in sample], columns=datasets.KEYS)
    drawn = keys.merge(labels)
    assert drawn["label"].value_counts().to_dict() == {"correct": 4, "incorrect": 4}
    assert not drawn.duplicated(["triplet_id", "label"]).any()
    shuffled = labels.sample(frac=1, random_state=3)
    assert rescoring.answers_to_judge(answers, shuffled, 4) == sample
    assert rescoring.answers_to_judge(answers, labels, None) == answers


def reply_about_two_points(request):
    """A judge for whom every text has two points, of which the other text has the first."""
    points = ["Revenue rose 6%.", "Costs were flat."]
    replies = {
        "extract": json.dumps({"points": points}),
        "match": json.dumps({"matches": [0, -1]}),
        "score": json.dumps({"scores": [8]}),
        "coverage": json.dumps({"scores": [9, 2], "contradicted": [1]}),
        "claims": json.dumps({"claims": points}),
        "entail": json.dumps({"labels": ["Entailment", "Neutral"]}),
        "judge": "70",
    }
    return replies[request.task]


def test_where_the_judge_extracts_points_metrics_have_their_names_of_table_1():
    judge, edits = ScriptedJudge(reply_about_two_points), datasets.SETS["summedits"]
    row = {}
    for table in rescoring.score_by_judge(TRIPLETS[:1], ANSWERS[:1], judge, edits):
        row |= table.iloc[0].to_dict()
    expected = {"Judge alone Score": 0.7, "Coverage(LLM) contradicted Score": 1 - 1 / 2}
    for metric, value in {"EMS(LLM)": 0.8 / 2, "Coverage(LLM)": 1.1 / 2, "RAGChecker": 0.5}.items():
        expected |= {f"{metric} {part}": value for part in rescoring.THREE_PARTS}
    assert (row.pop("triplet_id"), row.pop("model")) == ("t1", "x")
    assert row == pytest.approx(expected)


# --- whole texts ---


@pytest.fixture
def texts(mirror):
    folders = {name.split("/")[0] for name in upstream.pins()}
    if not all((mirror / folder).is_dir() for folder in folders):
        pytest.skip(f"{mirror} has not all of {', '.join(sorted(folders))}")
    return {name: one.load() for name, one in datasets.SETS.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_every_recorded_reply_answers_and_gives_the_committed_scores(texts):
    sets = ("", "label_", "systems_", "summedits_")
    files = [f"{prefix}replies.jsonl" for prefix in sets]
    judge = recorded(*(f"human/{file}" for file in files))
    for name, (triplets, answers, labels) in texts.items():
        labelled_set = datasets.SETS[name]
        keys = datasets.POINT_KEYS if labelled_set.about == "points" else datasets.KEYS
        committed = committed_scores(name).set_index(keys)
        sample = rescoring.answers_to_judge(answers, labels, labelled_set.judged)
        columns = set()
        for table in rescoring.score_by_judge(triplets, sample, judge, labelled_set):
            computed = table.round(5).set_index(keys)
            columns.update(computed)
            expected = committed.loc[computed.index, list(computed)]
            pd.testing.assert_frame_equal(computed, expected, check_dtype=False)
        judged = JUDGED_WITH_EXTRACTION if labelled_set.judge_extracts else JUDGED
        assert columns == {name for name in committed if name.startswith(judged)}
    keys_of_replies = set()
    for file in files:
        for line in (HUMAN / file).read_text().splitlines():
            keys_of_replies.add(json.loads(line)["key"])
    assert keys_of_replies <= judge.keys.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
@pytest.mark.parametrize("name", ["ragchecker", "financebench", "findver"])
def test_metrics_without_a_judge_give_the_committed_scores(texts, name):
    triplets, answers, _ = texts[name]
    found = rescoring.score_answers(triplets, answers[::60]).round(5)
    known = committed_scores(name).merge(found[datasets.KEYS], on=datasets.KEYS)
    pd.testing.assert_frame_equal(
        found.sort_values(datasets.KEYS, ignore_index=True),
        known[list(found)].sort_values(datasets.KEYS, ignore_index=True),
        check_dtype=False,
    )


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_what_is_not_computed_again_is_carried_over_by_id(texts, tmp_path):
    rescoring.rescore("kqa", HUMAN, tmp_path)
    for kind in ("labels", "scores"):
        path = f"kqa_{kind}.csv"
        pd.testing.assert_frame_equal(read_frames(tmp_path / path), read_frames(HUMAN / path))


def test_a_new_set_has_no_scores_to_carry_over(monkeypatch, tmp_path):
    triplets = [Triplet("q", "g", "How was it?", "Sales rose 6%.")]
    answers = [Answer("q", "m", "Sales rose 6%.")]
    labels = pd.DataFrame({"triplet_id": ["q"], "model": ["m"], "correct": [True], "group": ["g"]})
    new = datasets.LabelledSet("New", "answers", lambda: (triplets, answers, labels))
    monkeypatch.setitem(datasets.SETS, "new", new)
    rescoring.rescore("new", tmp_path, tmp_path)
    stored_labels, scores = agreement.stored("new", tmp_path)
    assert stored_labels["correct"].tolist() == [True]
    assert scores["ROUGE-L F1"].tolist() == [1.0]
