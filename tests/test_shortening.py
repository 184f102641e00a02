"""Shortened answers beside the detailed ones they were made from."""

from math import isclose, nan
from pathlib import Path

import pytest

from ems import Answer, Triplet, build, load_answers
from ems.study.ablations import shortening

ROOT = Path(__file__).parents[1]
REFERENCE = ("Revenue rose 6% to $94.9 billion in Q4 2024. Services revenue was $25 billion, up 12%. "
             "Gross margin was 46.2%. Operating cash flow was $26.8 billion.")
TRIPLETS = [Triplet(f"C{k}-Q1", f"C{k}", "How were results?", REFERENCE) for k in range(7)]
LONG = [Answer(t.id, "m", REFERENCE) for t in TRIPLETS]
SHORT = [Answer(t.id, "m" + shortening.SUFFIX, "Revenue rose. Gross margin was 46.2%.") for t in TRIPLETS]


def test_a_shortened_answer_loses_what_was_left_out():
    values, aligned = shortening.study(TRIPLETS, LONG, SHORT[::-1], build(None, "local-pair"))
    kept = shortening.kept(values)
    assert kept.loc[("EMS(LLM)", "Recall"), "detailed"] == 1.0
    row = kept.loc[("ROUGE", "F1")]
    assert row["n"] == 7
    assert row["shortened"] < row["detailed"] == 1.0
    assert isclose(row["lost"], row["detailed"] - row["shortened"])
    assert isclose(row["share"], row["shortened"] / row["detailed"])
    assert row["ci_low"] <= row["lost"] <= row["ci_high"]
    assert len(aligned) == 7
    assert (len(aligned[0].ref_points), len(aligned[0].ans_points)) == (4, 2)   # the detailed one is the reference
    assert aligned[0].recall < 1


def test_answers_of_several_models_are_compared_with_their_own_originals():
    long = [*LONG, *(Answer(a.triplet_id, "m2", a.answer) for a in LONG)]
    short = [*SHORT, *(Answer(a.triplet_id, "m2" + shortening.SUFFIX, a.answer) for a in LONG)]     # all of it
    values, _ = shortening.study(TRIPLETS, long, short, build(None, "local-pair"))
    row = shortening.kept(values).loc[("ROUGE", "F1")]
    one = shortening.kept(values[~values["model"].str.startswith("m2")]).loc[("ROUGE", "F1")]
    assert (row["n"], row["lost"]) == (14, pytest.approx(one["lost"] / 2))


def test_a_pair_without_a_value_on_one_side_leaves_both_means():
    values, _ = shortening.study(TRIPLETS, LONG, SHORT, build(None, "local-pair"))
    first = values["triplet_id"] == "C0-Q1"
    values.loc[first, "value"] = values.loc[first, "model"].map({"m": nan, "m" + shortening.SUFFIX: 0.0})
    row = shortening.kept(values).loc[("ROUGE", "F1")]
    assert (row["n"], row["lost"]) == (6, pytest.approx(row["detailed"] - row["shortened"], abs=1e-12))


def test_without_an_original_there_is_nothing_to_compare():
    values, aligned = shortening.study(TRIPLETS, [Answer("C0-Q1", "other", "x")], SHORT, build(None, "local-pair"))
    assert values.empty
    assert aligned == []


def test_the_committed_copies_have_originals_and_are_a_third_as_long():
    answers = load_answers(ROOT / "data/q3-2024/answers.jsonl")
    short = load_answers(ROOT / "data/q3-2024/shortened.jsonl")
    pairs = shortening.beside_originals(answers, short)
    assert len(pairs) == len(short) == 10
    assert len({a.triplet_id.split("-")[0] for a, _ in pairs}) == 10
    lengths = [len(s.answer.split()) / len(a.answer.split()) for a, s in pairs]
    assert max(lengths) < 0.4
    assert sum(lengths) / 10 == pytest.approx(1 / 3, abs=0.05)
