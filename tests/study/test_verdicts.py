"""What is masked; the committed scores of masked answers and of a second judgement."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from doubles import recorded
from study import agreement, datasets, read_frames, rescoring, verdicts
from study.rescoring import HUMAN

import ems
from ems.local.sentences import SentenceExtractor

FIRST = ("human/label_replies.jsonl", "human/systems_replies.jsonl")
MASKED, AGAIN = "human/masked_replies.jsonl", "human/again_replies.jsonl"


# --- texts ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The claim is not supported by the filing.", "The claim [...] by the filing."),
        ("Therefore, the statement is entailed.", "Therefore, the statement [...]."),
        ("This doesn't directly contradict it.", "This [...] it."),
        ("It is clearly incorrect: sales fell.", "It [...]: sales fell."),
        # As `_verdict_words` says, what stands before may begin inside a word.
        ("This is wrong. This supports it.", "This [...]. Th[...] it."),
        ("It is only true of 2023.", "It is o[...] of 2023."),
        ("Sales of non-verified users fell 6%.", "Sales of non-verified users fell 6%."),
        ("Customer support costs rose.", "Customer [...] costs rose."),  # a word is a word
    ],
)
def test_words_that_name_a_verdict_are_masked_with_their_denial(text, expected):
    assert verdicts.masked(text) == expected


def test_points_are_cut_first_and_masked_then():
    extractor = verdicts.MaskedSentences()
    assert extractor(["Sales rose 6%. The claim is refuted."]) == [
        ("Sales rose 6%.", "The claim [...].")
    ]
    assert extractor([""]) == [()]


# --- the committed scores ---


@pytest.fixture
def drawn(mirror):
    """Draws so many answers, where the texts are."""
    if not (mirror / "findver").is_dir():
        pytest.skip("the mirror has not FinDVer")
    return verdicts.drawn_answers


def masked_scores(triplets, answers, judge):
    """The table of data/human/masked_scores.csv."""
    without_verdict = (
        [replace(t, reference=verdicts.masked(t.reference)) for t in triplets],
        [replace(a, answer=verdicts.masked(a.answer)) for a in answers],
    )
    pipeline = ems.build(judge, joint=True, extractor=verdicts.MaskedSentences())
    results = {
        "Judge alone": ems.build(judge, "judge").evaluate(*without_verdict),
        agreement.EMS_JUDGED: pipeline.evaluate(triplets, answers),
    }
    return rescoring.by_answer(results).round(5)


def again_scores(triplets, answers, first, again):
    """The table of data/human/again_scores.csv.

    `matched` counts the reference points that either judgement matches, `same` those of them with
    the same match in both.
    """
    aligned = []
    for judge in (first, again):
        pipeline = ems.build(judge, joint=True, extractor=SentenceExtractor())
        aligned.append(pipeline.evaluate(triplets, answers))
    counts = []
    for a, b in zip(*aligned, strict=True):
        pairs = [pair for pair in zip(a.match, b.match, strict=True) if pair != (-1, -1)]
        counts.append((a.triplet_id, a.model, len(pairs), sum(x == y for x, y in pairs)))
    table = pd.DataFrame(counts, columns=[*datasets.KEYS, "matched", "same"])
    findver = datasets.SETS["findver"]
    for of_metric in rescoring.score_by_judge(triplets, answers, again, findver):
        table = table.merge(of_metric, on=datasets.KEYS)
    return table.round(5)


def assert_as_committed(made, name):
    committed = read_frames(HUMAN / name)
    pd.testing.assert_frame_equal(
        made.sort_values(datasets.KEYS, ignore_index=True),
        committed.sort_values(datasets.KEYS, ignore_index=True),
        check_dtype=False,
    )
    assert committed.notna().all(axis=None)


def keys_in(file):
    return {json.loads(line)["key"] for line in (HUMAN.parent / file).read_text().splitlines()}


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_every_recorded_reply_about_masked_answers_gives_the_committed_scores(drawn):
    triplets, answers = drawn(verdicts.N_MASKED)
    assert len(answers) == verdicts.N_MASKED
    judge = recorded(*FIRST, MASKED)
    assert_as_committed(masked_scores(triplets, answers, judge), "masked_scores.csv")
    assert keys_in(MASKED) <= judge.keys.keys()  # no reply is left over


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_every_reply_of_the_second_judgement_gives_the_committed_scores(drawn):
    triplets, answers = drawn(verdicts.N_AGAIN)
    again = recorded(AGAIN, sample=1)
    table = again_scores(triplets, answers, recorded(*FIRST), again)
    assert_as_committed(table, "again_scores.csv")
    assert keys_in(AGAIN) <= again.keys.keys()


def test_the_answers_judged_again_are_among_the_masked_ones_and_have_scores_as_written():
    masked, again = (read_frames(HUMAN / f"{name}_scores.csv") for name in ("masked", "again"))
    assert (len(masked), len(again)) == (verdicts.N_MASKED, verdicts.N_AGAIN)
    assert len(masked.merge(again, on=datasets.KEYS)) == len(again)
    written = agreement.stored("systems", HUMAN)[1]
    for table in (masked, again):
        assert set(table.columns) - {"matched", "same"} <= set(written.columns)
        assert len(table.merge(written, on=datasets.KEYS)) == len(table)
    assert (again["same"] <= again["matched"]).all()


# --- findings ---


def test_findings_say_whether_one_number_is_ahead():
    row = {"n": 160, "value": 0.75, "difference": 0.13}
    row |= {"difference_low": 0.05, "difference_high": 0.22}
    table = pd.DataFrame(
        [
            {"texts": "as written", "clear": "above", **row},
            {"texts": "masked", "clear": "no", **row},
        ]
    )
    first, second = verdicts.masked_findings(table)
    assert first == (
        "Of the texts as written, the judge alone tells right from wrong verdicts with an AUC of "
        "0.75, EMS(LLM) F1 with 0.62, on 160 answers: the difference of 0.13 [0.05, 0.22] is clear."
    )
    assert second.startswith("Of the texts masked,")
    assert second.endswith(" is not clear.")
