"""Grains against people: points and calls by hand, the committed scores, agreement."""

import json
from collections import Counter

import pandas as pd
import pytest
from doubles import ScriptedJudge, recorded
from study import agreement, datasets, grain, plots, read_frames
from study.rescoring import HUMAN

from ems.io import parse_jsonl, read_lines
from ems.judge.cost import Usage
from ems.types import Answer, Triplet

TRIPLET = Triplet("p", "p", "q", "Sales rose 6%. Costs fell.")
ANSWERS = [Answer("p", "1", "Sales rose 6%. Debt is flat."), Answer("p", "2", "Sales rose 6%.")]
FILES = ("human/replies.jsonl", "human/grain_replies.jsonl")


class Counting(ScriptedJudge):
    """A scripted judge that says how much it was asked."""

    def usage(self):
        return {"all": Usage(requests=len(self.requests))}


def reply(request):
    """A judge that lists the same of every text, and matches the first point of each reference."""
    if request.task == "match":
        return json.dumps({"matches": [0] + [-1] * (request.entries - 1)})
    replies = {
        "claims": json.dumps({"claims": ["Sales rose.", "By 6%.", "Costs fell."]}),
        "extract": json.dumps({"points": ["Sales rose 6%.", "Costs fell."]}),
        "score": json.dumps({"scores": [10]}),
    }
    return replies[request.task]


def test_points_and_calls_of_each_grain_by_hand():
    judge = Counting(reply)
    table = grain.grain_scores([TRIPLET], ANSWERS, judge)
    by_grain = table.set_index(["grain", "model"])
    assert list(table["grain"].unique()) == list(grain.GRAINS)
    points = by_grain["points"].unstack().loc[list(grain.GRAINS)]
    assert points.to_numpy().tolist() == [[3, 3], [2, 1], [2, 2], [1, 1]]
    # Three texts are listed by the judge; each answer is matched and scored.
    calls = by_grain["calls"].unstack().loc[list(grain.GRAINS), "1"].to_list()
    assert calls == [(3 + 4) / 2, 4 / 2, (3 + 4) / 2, 4 / 2]
    assert by_grain.loc[("sentences", "1"), "f1"] == 0.5
    assert by_grain.loc[("paragraphs", "2"), "f1"] == 1


def test_facts_are_listed_by_the_prompt_for_claims_whatever_the_text_answers():
    judge = ScriptedJudge({"claims": ['{"claims": ["Sales rose.", "By 6%."]}', None]})
    facts = grain.SingleFacts(judge)
    assert facts(["Sales rose 6%.", " ", "Costs fell."]) == [("Sales rose.", "By 6%."), (), None]
    assert "What does the text say?" in judge.seen[0]
    assert facts.signature.startswith("llm facts:")


# --- the committed scores ---


def committed():
    return read_frames(HUMAN / "grain_scores.csv")


def test_seventy_pairs_have_scores_in_each_grain():
    scores = committed()
    assert Counter(scores["grain"]) == dict.fromkeys(grain.GRAINS, 2 * grain.PAIRS)
    labels, stored = agreement.stored("ragchecker", HUMAN)
    assert set(scores["triplet_id"]) <= set(labels["instance_id"])
    sentences = scores.query("grain == 'sentences'").merge(stored, on=datasets.KEYS)
    known = sentences[f"{agreement.EMS_JUDGED} F1"]
    assert sentences["f1"].to_list() == pytest.approx(known.to_list(), abs=2e-5)


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_every_recorded_reply_answers_and_gives_the_committed_scores(mirror):
    if not (mirror / "ragchecker").is_dir():
        pytest.skip("the mirror has not RAGChecker's pairs")
    triplets, answers, _ = datasets.ragchecker()
    judge = recorded(*FILES)
    made = grain.grain_scores(triplets, answers, judge)
    pd.testing.assert_frame_equal(made, committed(), check_dtype=False)
    path = HUMAN / "grain_replies.jsonl"
    keys = {row["key"] for _, row in parse_jsonl(read_lines(path), path)}
    assert keys <= judge.keys.keys()  # no reply is left over


# --- agreement ---


def tables(n_pairs=12):
    """Labels by two annotators who agree, and scores: sentences follow them, facts oppose them."""
    labels, scores, stored = [], [], []
    for i in range(n_pairs):
        better = 1 if i % 2 else -1
        for annotator in (0, 1):
            label = dict.fromkeys(datasets.PART_OF, better * (1 + i % 3 // 2))
            labels.append({"instance_id": f"p{i}", "annotator": annotator, **label})
        for model, side in (("1", -1), ("2", 1)):
            follows = 0.5 + side * better * (1 + i / 100) / 10
            stored.append((f"p{i}", model, follows, follows))
            for name in grain.GRAINS:
                f1 = 1 - follows if name == "single facts" else follows
                scores.append((f"p{i}", model, name, f1, 4, 2.0))
    columns = [*datasets.KEYS, "grain", "f1", "points", "calls"]
    stored = pd.DataFrame(stored, columns=[*datasets.KEYS, *grain.BESIDE])
    return pd.DataFrame(labels), pd.DataFrame(scores, columns=columns), stored


def test_a_grain_that_opposes_people_stands_below_sentences():
    table = grain.grain_agreement(*tables(), resamples=500)
    assert list(table.index) == [*grain.GRAINS, "Judge alone", "ROUGE-L", agreement.ANNOTATOR]
    assert table.loc["sentences", "spearman"] > 0.8
    assert table.loc["single facts", "spearman"] == pytest.approx(
        -table.loc["sentences", "spearman"]
    )
    assert table.loc["single facts", "clear"] == "below"
    assert table.loc["paragraphs", ["points", "calls", "clear"]].to_list() == [4, 2, "no"]
    assert table["points"].isna().to_list() == [False] * 4 + [True] * 3


def test_pairs_without_scores_are_left_out():
    labels, scores, stored = tables()
    few = scores[scores["triplet_id"] != "p0"]
    table = grain.grain_agreement(labels, few, stored, resamples=20)
    assert (table["clusters"] == 11).all()


def test_findings_say_what_a_grain_costs_and_which_grain_differs_clearly():
    table = grain.grain_agreement(*tables(), resamples=500)
    first, second = grain.preference_findings(table)
    assert first.count("(4.0 points and 2.0 calls an answer)") == 4
    assert "] on single facts (" in first
    assert second == "Agreement is clearly worse on single facts than on sentences."
    same = grain.preference_findings(table.assign(clear="no"))[1]
    assert same == "No other grain differs clearly from sentences."
    higher = grain.preference_findings(table.assign(clear=["above", *[""] * 6]))[1]
    assert higher == "Agreement is clearly better on single facts than on sentences."


def test_the_figure_has_a_row_for_each_grain_and_metric():
    table = grain.grain_agreement(*tables(), resamples=50)
    left, right = plots.grain_figure(table).axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == list(table.index)
    assert "difference to sentences" in right.get_xlabel()
