"""The edited texts are what data/README.md says; losses by hand; what the findings say."""

import re
from collections import Counter

import pandas as pd
import pytest
from doubles import recorded
from study import COMMITTED, sensitivity, values_frame

from ems.io import parse_jsonl, read_lines
from ems.local.sentences import SentenceExtractor
from ems.types import Answer, Triplet

TRIPLETS, ANSWERS = sensitivity.edited_texts(COMMITTED / "dose_answers.jsonl")
NAMES = [sensitivity.UNEDITED, *sensitivity.VARIANTS]


# --- the edited texts ---


def texts_of(variant):
    """Each reference with its text of a variant."""
    by_id = {a.triplet_id: a.answer for a in ANSWERS if a.model == variant}
    return [(t.reference, by_id[t.id]) for t in TRIPLETS]


def sentences_of(text):
    return SentenceExtractor(keep_summaries=True)([text])[0]


def figures_of(text):
    return re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?", text)


def words_of(text):
    """The words of a text, without the marks of its lists."""
    return re.sub(r"^- ", "", text, flags=re.MULTILINE).split()


def test_ten_references_one_a_company_have_every_variant():
    assert len({t.group for t in TRIPLETS}) == len(TRIPLETS) == 10
    assert Counter(a.model for a in ANSWERS) == dict.fromkeys(NAMES, 10)
    assert all(text == reference for reference, text in texts_of(sensitivity.UNEDITED))
    triplets, answers = sensitivity.edited_texts(COMMITTED / "dose_answers.jsonl", 2)
    assert {a.triplet_id for a in answers} == {t.id for t in triplets}
    assert (len(triplets), len(answers)) == (2, 18)


def test_half_of_the_points_are_deleted_and_those_left_are_as_they_were():
    for reference, text in texts_of("half of the points deleted"):
        before, after = sentences_of(reference), sentences_of(text)
        assert set(after) < set(before)
        assert len(after) == pytest.approx(len(before) / 2, abs=1)


@pytest.mark.parametrize(
    ("variant", "least", "most"),
    [("a third of the figures changed", 0.2, 0.5), ("all figures changed", 0.95, 1)],
)
def test_figures_are_changed_and_nothing_else(variant, least, most):
    for reference, text in texts_of(variant):
        assert words_of(re.sub(r"\d", "0", text)) == words_of(re.sub(r"\d", "0", reference))
        pairs = list(zip(figures_of(reference), figures_of(text), strict=True))
        changed = sum(before != after for before, after in pairs) / len(pairs)
        assert least <= changed <= most


def test_directions_and_names_are_swapped_and_figures_stay():
    for reference, text in texts_of("directions and names swapped"):
        assert figures_of(text) == figures_of(reference)
        assert text != reference
        before, after = Counter(reference.lower().split()), Counter(text.lower().split())
        assert (before - after).keys() & {"rose", "grew", "fell", "up", "down", "growth", "higher"}


def test_negated_texts_have_a_not_or_never_in_most_sentences():
    for reference, text in texts_of("negated"):
        count = len(re.findall(r"\bnot\b|\bnever\b", text))
        assert count >= len(sentences_of(reference)) / 2
        assert without_negation(text) == without_negation(reference)


def without_negation(text):
    return words_of(re.sub(r" not\b|\bnever ", "", text))


def test_padding_adds_sentences_and_shuffling_moves_them():
    for reference, text in texts_of("padded"):
        assert all(sentence in text for sentence in sentences_of(reference))
        assert len(text.split()) > 1.5 * len(reference.split())
    for reference, text in texts_of("shuffled"):
        assert sorted(sentences_of(text)) == sorted(sentences_of(reference))
        assert sentences_of(text) != sentences_of(reference)


def test_reworded_texts_have_every_figure_and_no_six_words_in_a_row():
    for reference, text in texts_of(sensitivity.REWORDED):
        assert set(figures_of(text)) == set(figures_of(reference))
        assert runs_of_words(text, 6).isdisjoint(runs_of_words(reference, 6))
        assert not runs_of_words(text, 2).isdisjoint(runs_of_words(reference, 2))


def runs_of_words(text, length):
    words = re.findall(r"[\w$%.,'-]+", text.lower())
    words = [word.strip(".,'") for word in words]
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


# --- losses ---


def values_of(metric, by_variant, groups=10):
    """Values of a metric on variants: the same ones in each company."""
    triplets = [Triplet(f"t{i}", f"g{i}", "q", "Sales rose.") for i in range(groups)]
    answers = []
    for triplet in triplets:
        answers += [Answer(triplet.id, name, "Sales rose.") for name in NAMES]
    values = [by_variant.get(a.model, 1.0) for a in answers]
    return values_frame(answers, values, metric, "F1", {}, triplets)


WORDS = values_of("ROUGE-L", {"reworded": 0.25, "negated": 0.75})
JUDGED = values_of("EMS(LLM)", {"negated": 0.5, **dict.fromkeys(sensitivity.WRONG[:3], 0.25)})


def test_losses_by_hand():
    losses = sensitivity.losses(pd.concat([JUDGED, WORDS]))
    assert list(losses["metric"].unique()) == ["ROUGE-L", "EMS(LLM)"]  # the order of METRICS
    assert list(losses["variant"][:8]) == list(sensitivity.VARIANTS)
    row = losses.set_index(["metric", "variant"]).loc["ROUGE-L", "reworded"]
    assert row[["loss", "ci_low", "ci_high"]].to_list() == pytest.approx([75, 75, 75])
    assert (row["text"], row["n"]) == ("75.0 ± 0.0", 10)
    assert row["clear"]
    assert row["should"].endswith("nothing may fall")
    unchanged = losses.set_index(["metric", "variant"]).loc["ROUGE-L", "shuffled"]
    assert (unchanged["text"], unchanged["clear"]) == ("0.0 ± 0.0", False)


def test_few_companies_give_no_interval():
    losses = sensitivity.losses(values_of("BLEU", {"reworded": 0.25}, groups=2))
    assert losses["text"].iloc[-1] == "75.0"
    assert not losses["clear"].any()


def test_the_right_text_in_other_words_is_compared_with_each_wrong_text():
    table = sensitivity.reworded_minus_wrong(pd.concat([WORDS, JUDGED]))
    cells = table.pivot(index="metric", columns="variant", values="difference")
    assert cells.loc["ROUGE-L", "negated"] == pytest.approx(-50)
    assert cells.loc["EMS(LLM)"].to_dict() == pytest.approx(
        {**dict.fromkeys(sensitivity.WRONG[:3], 75), "negated": 50}
    )


def findings(*frames):
    values = pd.concat(frames)
    return sensitivity.loss_findings(
        sensitivity.losses(values), sensitivity.reworded_minus_wrong(values)
    )


def test_findings_name_the_metrics_that_prefer_the_right_text_and_those_that_do_not():
    above, below, numbers = findings(WORDS, JUDGED)
    assert above.endswith("clearly above each of the four wrong texts: EMS(LLM).")
    assert below.endswith("clearly below each of the four wrong texts: ROUGE-L.")
    assert numbers == (
        "EMS(LLM) loses 0.0 ± 0.0 points of 100 to other words, "
        "and 75.0 ± 0.0 where all figures are wrong."
    )


def test_findings_are_silent_where_nothing_is_clear():
    assert findings(values_of("ROUGE-L", {})) == []
    partly = values_of("ROUGE-L", dict.fromkeys(sensitivity.WRONG[:3], 0.5))
    assert findings(partly) == []


def test_without_a_judge_and_an_encoder_their_metrics_are_left_out():
    answers = [a for a in ANSWERS if a.triplet_id == TRIPLETS[0].id]
    values = sensitivity.variant_values(TRIPLETS[:1], answers)
    table = values.pivot(index="metric", columns="model", values="value")
    assert set(table.index) == {"BLEU", "ROUGE-L", "EMS(ROUGE)", "Coverage(local)", "Figures"}
    assert table["unedited"].to_list() == pytest.approx([1] * 5)
    assert table.loc["Figures", "all figures changed"] < 0.5
    assert table.loc["Figures", "reworded"] == 1


def test_the_recorded_judge_notices_wrong_content_and_forgives_other_words():
    judge = recorded("q3-2024/replies.jsonl", "q3-2024/dose_replies.jsonl")
    values = sensitivity.variant_values(TRIPLETS, ANSWERS, judge)
    table = sensitivity.reworded_minus_wrong(values).set_index("metric")
    for metric in ("RAGChecker", "EMS(LLM)", "Coverage(LLM)", "Judge alone"):
        assert table.loc[metric, "clear"].all()
        assert (table.loc[metric, "difference"] > 10).all()
    assert (table.loc["ROUGE-L", "difference"] < -40).all()
    assert values["unscored"].sum() == 0
    rows = parse_jsonl(read_lines(COMMITTED / "dose_replies.jsonl"), "dose_replies.jsonl")
    assert {row["key"] for _, row in rows} <= judge.keys.keys()  # no reply is left over
