"""Sentences about means say what is clear, with its numbers, and are silent otherwise."""

import pandas as pd
import pytest
from study import means

import ems
from ems.analysis.frames import of_rows

NAMES = {"s": "Small", "m": "Medium", "l": "Large"}
GROUPS = range(8)


def frame(metric, level_of, part="F1", signature="judge:j", units=10, unscored=0):
    """Values that differ from the model's level by the same amount for each group."""
    rows = []
    for model, level in level_of.items():
        for g in GROUPS:
            value = level + (g - 3.5) / 1000
            names = (metric, part, model, f"g{g}-Q1", f"g{g}")
            rows.append((*names, value, value, 1.0, units, unscored, signature))
    return of_rows(rows)


def crossed(metric):
    """Values of which no difference is clear: each system is the best in some groups."""
    rows = []
    for place, model in enumerate(NAMES):
        for g in GROUPS:
            value = ((g + place) % 3) / 10
            names = (metric, "F1", model, f"g{g}-Q1", f"g{g}")
            rows.append((*names, value, value, 1.0, 10, 0, "judge:j"))
    return of_rows(rows)


ORDERED = {"s": 0.1, "m": 0.2, "l": 0.5}


def test_metrics_with_the_same_clear_order_share_a_sentence():
    values = pd.concat([frame("EMS(LLM)", ORDERED), frame("BLEU", ORDERED, part="Score")])
    assert means.order_findings(values, NAMES) == [
        "These steps between systems are clear by BLEU (0.100 to 0.500) and EMS(LLM) (0.100 to 0.500): "
        "Large > Medium > Small."
    ]
    two = {"l": "Large", "m": "Medium"}
    (sentence,) = means.order_findings(frame("BLEU", ORDERED), two)
    assert sentence.endswith("by BLEU (0.200 to 0.500): Large > Medium.")


def test_below_the_last_clear_step_systems_are_not_ordered():
    tied = crossed("BLEU")
    tied.loc[tied["model"] == "l", "value"] = 0.9
    assert means.order_findings(tied, NAMES) == [
        "These steps between systems are clear by BLEU (0.088 to 0.900): Large > the others."
    ]


def partial():
    """Small answers three questions only, and its mean over these is the lowest."""
    values = frame("BLEU", ORDERED)
    return values[(values["model"] != "s") | values["group"].isin(["g0", "g1", "g2"])]


def test_the_others_are_not_named_where_one_of_them_is_not_clearly_lower():
    assert means.order_findings(partial(), NAMES) == [
        "These steps between systems are clear by BLEU (0.097 to 0.500): Large > Medium."
    ]


def test_a_mean_over_other_answers_turns_no_clear_difference():
    # Large is the better one in each of the six questions that Small answers, and has the lower
    # mean because of two more questions.
    values = frame("BLEU", {"s": 0.35, "l": 0.4})
    hard = values["group"] > "g5"
    values = values[(values["model"] == "l") | ~hard]
    assert len(means.order_findings(values, NAMES)) == 1
    values.loc[hard, "value"] = 0.0
    assert ems.paired_table(values)["clear"].item()
    assert means.order_findings(values, NAMES) == []


def test_systems_that_answer_fewer_questions_are_named():
    (sentence,) = means.partial_findings(partial(), NAMES, 8)
    assert sentence.startswith("Small answers 3 of 8 questions: its means are over these alone")
    assert means.partial_findings(frame("BLEU", ORDERED), NAMES, 8) == []


def test_nothing_is_said_where_nothing_is_clear_or_to_compare():
    assert means.order_findings(crossed("BLEU"), NAMES) == []
    assert means.order_findings(frame("BLEU", ORDERED), {"l": "Large"}) == []
    assert means.order_findings(frame("BLEU", ORDERED, part="Recall"), NAMES) == []
    few = frame("BLEU", ORDERED)
    assert means.order_findings(few[few["group"].isin(["g0", "g1"])], NAMES) == []


def test_the_system_that_contradicts_most_is_named_where_it_is_clear():
    shares = {"s": 0.01, "m": 0.05, "l": 0.0}
    values = frame("Coverage(LLM)", shares, part="Contradicted")
    assert means.contradiction_findings(values, NAMES) == [
        "An answer of Medium contradicts on average 5.0 % of the points of its reference, clearly "
        "more than one of Small, which comes next with 1.0 %."
    ]
    assert means.contradiction_findings(frame("Coverage(LLM)", shares), NAMES) == []
    unclear = crossed("Coverage(LLM)").assign(part="Contradicted")
    assert means.contradiction_findings(unclear, NAMES) == []


def test_unscored_judgements_are_counted_once():
    parts = [frame("EMS(LLM)", ORDERED, part=part, unscored=2) for part in ("Recall", "F1")]
    parts.append(frame("BLEU", ORDERED))
    assert means.unscored_findings(ems.summarise(pd.concat(parts))) == [
        "EMS(LLM) lacks 48 of 240 judgements: its means leave them out, and its bounds say what "
        "they could change."
    ]


PAPER = pd.DataFrame(
    [
        ("BLEU", "Score", "p1", 0.02),
        ("BLEU", "Score", "p2", 0.04),
        ("EMS(LLM)", "F1", "p1", 0.2),
        ("EMS(LLM)", "F1", "p2", 0.4),
        ("EMS(LLM)", "Recall", "p2", 0.9),
    ],
    columns=["metric", "part", "model", "value"],
)


def test_the_spread_of_systems_is_told_of_both_tables():
    values = pd.concat([frame("EMS(LLM)", ORDERED), frame("BLEU", {"s": 0.1, "l": 0.9}, "Score")])
    other = frame("Coverage(LLM)", {"s": 0.0, "l": 1.0})
    assert means.paper_findings(ems.summarise(pd.concat([values, other])), PAPER) == [
        "In the paper the means differ most by EMS(LLM) (0.20 to 0.40) and least by BLEU "
        "(0.02 to 0.04).",
        "Here, of the paper's metrics, they differ most by BLEU (0.100 to 0.900) and least by "
        "EMS(LLM) (0.100 to 0.500).",
    ]


def test_values_of_the_papers_models_are_compared_with_the_papers():
    summary = PAPER.assign(value=PAPER["value"] + [0.01, 0.03, 0.0, 0.0, 0.06])
    assert means.paper_findings(summary, PAPER)[-1] == (
        "In the 5 cells that both tables have, our value and the paper's are 0.020 apart on average "
        "and 0.060 at most."
    )


@pytest.mark.parametrize("models", [{"s": 0.1}, {}])
def test_a_run_of_one_system_has_no_shape(models):
    summary = PAPER.iloc[:0] if not models else ems.summarise(frame("EMS(LLM)", models))
    assert means.paper_findings(summary, PAPER) == []
