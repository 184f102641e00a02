"""The ladder: what the prompts show, the written answers, their scores, steps by hand."""

from collections import Counter

import pandas as pd
import pytest
from doubles import recorded
from study import COMMITTED, ROOT, dataset, ladder, plots, read_frames, read_values
from study.sensitivity import main_values, point_evaluators, whole_text_values

import ems
from ems.analysis.frames import METRIC_ORDER, to_frame
from ems.io import parse_jsonl, read_lines
from ems.types import Answer, Triplet

BEST = "Large LLM (closed weights)"  # who wrote all answers
SCORES = COMMITTED / "ladder_scores.csv"
REPLIES = "q3-2024/ladder_replies.jsonl"
N_ANSWERS = {"no call": 50, "a quarter": 50, "a half": 50, "whole": 50, "again": 10}


# --- prompts and answers ---


def ladder_texts():
    """The fifty triplets, and all answers; a model is the name of a rung, or "again"."""
    answers = ems.load_answers(COMMITTED / "ladder_answers.jsonl")
    for a in ems.load_answers(COMMITTED / "answers.jsonl"):
        if a.model == BEST:
            answers.append(Answer(a.triplet_id, "whole", a.answer))
    return ems.load_triplets(COMMITTED / "triplets.jsonl"), answers


def call_of(company):
    """A call of forty paragraphs, each of which is a passage."""
    return "\n\n".join(f"{company} says {i}. {'Sales rose. ' * 80}".strip() for i in range(40))


CALLS = [
    Triplet(id_, id_[0], "What of it?", "R.", call_of(id_[0]))
    for id_ in ("A-Q1", "A-Q2", "B-Q1", "B-Q2")
]
WHOLE_ANSWERS = [Answer(t.id, "any", "word " * 300) for t in CALLS]


def test_the_parts_of_a_call_are_nested_and_in_order():
    quarter, half = (ladder.part_of_call(call_of("A"), "A", share) for share in (0.25, 0.5))
    assert ladder.part_of_call(call_of("A"), "A", 0) == ""
    starts = [line.split(".")[0] for line in half.splitlines()]
    numbers = [int(start.rpartition(" ")[2]) for start in starts]
    assert numbers == sorted(numbers)
    assert len(numbers) == 20
    assert set(quarter.splitlines()) < set(half.splitlines())
    assert len(quarter.splitlines()) == 10
    assert half != ladder.part_of_call(call_of("A"), "B", 0.5)  # another call, another draw


def test_a_prompt_shows_its_part_of_the_call_and_asks_for_the_length_of_the_whole_call_answer():
    rows = list(ladder.writing_prompts(CALLS, WHOLE_ANSWERS))
    models = Counter(row["model"] for row in rows)
    assert models == {"no call": 4, "a quarter": 4, "a half": 4, "again": 2}
    assert {row["triplet_id"][0] for row in rows if row["model"] == "again"} == {"A", "B"}
    for row in rows:
        assert "Write between 270 and 330 words." in row["prompt"]
        assert row["text"] in row["prompt"]
        assert ("<text>" in row["prompt"]) == (row["model"] != "no call")
        if row["model"] == "again":
            assert row["text"] == call_of(row["triplet_id"][0])


def test_every_rung_has_an_answer_to_each_question_as_long_as_the_whole_call_answer():
    triplets, answers = ladder_texts()
    assert Counter(a.model for a in answers) == N_ANSWERS
    groups = {t.id: t.group for t in triplets}
    assert len({groups[a.triplet_id] for a in answers if a.model == "again"}) == 10
    words = {(a.triplet_id, a.model): len(a.answer.split()) for a in answers}
    for (id_, model), n in words.items():
        whole = words[id_, "whole"]
        assert round(0.9 * whole) <= n <= round(1.1 * whole), (id_, model)


def test_the_answers_were_written_from_these_parts_of_the_calls(mirror):
    if not (mirror / "transcripts").is_dir():
        pytest.skip("the mirror has no transcripts")
    triplets = dataset.call_triplets(ROOT / "data", transcripts=mirror / "transcripts")
    whole = [a for a in ladder_texts()[1] if a.model == "whole"]
    shown = {}
    for row in ladder.writing_prompts(triplets, whole):
        shown[row["triplet_id"], row["model"]] = len(row["text"].split())
    path = COMMITTED / "ladder_answers.jsonl"
    rows = [row for _, row in parse_jsonl(read_lines(path), path)]
    assert {(row["triplet_id"], row["model"]): row["words_shown"] for row in rows} == shown


# --- scores ---


def ladder_scores(triplets, answers, judge, encoder=None):
    """How ladder_scores.csv is made: a row an answer, a column a metric.

    A metric has its F1, its only value, or the recall of figures. EMS has the judge's points and
    matches with every scorer. Without an encoder BERTScore and EMS(BERTScore) are left out.
    """
    evaluators = point_evaluators(judge)
    evaluators["RAGChecker"] = ems.build(judge, "ragchecker")
    if encoder is not None:
        evaluators["EMS(BERTScore)"] = ems.build(judge, "bertscore", joint=True, encoder=encoder)
    results = {metric: one.evaluate(triplets, answers) for metric, one in evaluators.items()}
    frames = [whole_text_values(triplets, answers, encoder), to_frame(results)]
    values = main_values(pd.concat(frames, ignore_index=True))
    values = values.replace({"metric": {"ROUGE-L": "ROUGE"}})  # as in Table 1
    table = values.pivot(index=ladder.ROW, columns="metric", values="value").round(6)
    return table.reindex(columns=METRIC_ORDER).dropna(axis=1, how="all").reset_index()


def assert_as_committed(scores, columns):
    committed = read_frames(SCORES).set_index(ladder.ROW)
    made = scores.set_index(ladder.ROW)
    pd.testing.assert_frame_equal(
        made[columns], committed.loc[made.index, columns], check_names=False, atol=2e-6
    )


def test_every_recorded_reply_answers_and_gives_the_committed_scores():
    judge = recorded("q3-2024/replies.jsonl", REPLIES)
    triplets, answers = ladder_texts()
    scores = ladder_scores(triplets, answers, judge)
    assert scores["model"].value_counts().to_dict() == N_ANSWERS
    expected = set(METRIC_ORDER) - {"BERTScore", "EMS(BERTScore)"}
    assert set(scores.columns) == expected | set(ladder.ROW)
    assert scores.notna().all(axis=None)
    assert_as_committed(scores, sorted(expected))
    keys = {row["key"] for _, row in parse_jsonl(read_lines(ROOT / "data" / REPLIES), REPLIES)}
    assert keys <= judge.keys.keys()  # no reply is left over


@pytest.mark.slow
def test_the_encoder_gives_the_committed_scores():
    pytest.importorskip("bert_score")
    from ems.local.encoder import Encoder

    triplets, answers = ladder_texts()
    judge = recorded("q3-2024/replies.jsonl", REPLIES)
    some = answers[::20]
    scores = ladder_scores(triplets, some, judge, Encoder("all-MiniLM-L6-v2"))
    assert_as_committed(scores, ["BERTScore", "EMS(BERTScore)"])


def test_the_whole_call_has_the_values_of_table_1(tmp_path):
    values = read_values(tmp_path / "none")
    values = values[(values["model"] == BEST) & values["part"].isin(["F1", "Score"])]
    in_table1 = values.pivot(index="triplet_id", columns="metric", values="value")
    scores = read_frames(SCORES).query("model == 'whole'").set_index("triplet_id")
    metrics = scores.columns.intersection(in_table1.columns).difference(["Figures"])
    assert len(metrics) == 10
    expected = in_table1.loc[scores.index, metrics]
    pd.testing.assert_frame_equal(scores[metrics], expected, check_names=False, atol=2e-6)


# --- steps ---


def scores_of(by_model, groups=10, again=()):
    """Scores of one question a group; `by_model` has the value of each rung, by metric."""
    rows = []
    for g in range(groups):
        for model in [*ladder.RUNGS, *again]:
            noise = g / 1000 * list(N_ANSWERS).index(model)  # so that differences have a spread
            row = {"triplet_id": f"g{g}-Q1", "model": model, "group": f"g{g}"}
            for name, values in by_model.items():
                row[name] = values[model] + noise
            rows.append(row)
    return pd.DataFrame(rows)


RISING = {"no call": 0.1, "a quarter": 0.2, "a half": 0.4, "whole": 0.7, "again": 0.7 - 9 / 2000}
FLAT = {"no call": 0.1, "a quarter": 0.2, "a half": 0.2 - 9 / 2000, "whole": 0.5, "again": 0.9}
TABLE = scores_of({"BLEU": FLAT, "EMS(LLM)": RISING}, again=["again"])


def test_steps_by_hand():
    means, steps = ladder.ladder_steps(TABLE)
    mean_of = means.set_index(["metric", "model"])["value"]
    assert mean_of["EMS(LLM)", "a quarter"] == pytest.approx(0.2 + 0.0045)
    assert "again" not in set(means["model"])
    step_of = steps.set_index(["metric", "b", "a"])
    assert list(step_of.index[:3]) == [
        ("BLEU", "no call", "a quarter"),
        ("BLEU", "a quarter", "a half"),
        ("BLEU", "a half", "whole"),
    ]
    row = step_of.loc["EMS(LLM)", "a half", "whole"]
    assert row["difference"] == pytest.approx(0.3 + 0.0045)
    assert row["p_holm"] == pytest.approx(3 * 2 / 2**10)  # the least that ten groups can have
    assert (row["clear"], row["n"], row["ordered"]) == (True, 10, 1)
    assert not step_of.loc[("BLEU", "a quarter", "a half"), "clear"]


def test_what_was_written_again_is_compared_on_its_own_questions():
    scores = TABLE[(TABLE["model"] != "again") | (TABLE["group"] != "g9")]
    table = ladder.written_again(scores).set_index(["metric", "b", "a"])
    assert (table["n"] == 9).all()
    assert len(table) == 4  # two metrics and two steps
    assert table.loc[("BLEU", "again", "whole"), "difference"] == pytest.approx(-0.4 - 0.004)
    assert table.loc[("EMS(LLM)", "a half", "again"), "difference"] == pytest.approx(
        0.3 - 0.0045 + 0.008
    )


def test_findings_name_what_rises_and_what_falls_clearly_at_each_step():
    falling = {**RISING, "a quarter": 0.05, "again": 0.9}
    table = scores_of({"BLEU": FLAT, "EMS(LLM)": RISING, "Judge alone": falling}, again=["again"])
    assert ladder.ladder_findings(ladder.ladder_steps(table)[1]) == [
        "Answers from a quarter of the call score clearly higher than answers from memory by BLEU "
        "and EMS(LLM).",
        "Answers from a quarter of the call score clearly lower than answers from memory by Judge "
        "alone.",
        "Answers from a half of the call score clearly higher than answers from a quarter of the "
        "call by EMS(LLM) and Judge alone.",
        "Answers from the whole call score clearly higher than answers from a half of the call by "
        "all 3 metrics.",
    ]
    sentences = ladder.ladder_findings(ladder.written_again(table), "Ten were written again. ")
    assert sentences[-1] == (
        "Ten were written again. Answers from the whole call score clearly lower than answers "
        "written again from the whole call by BLEU and Judge alone."
    )


def test_findings_say_where_no_metric_changes_clearly():
    table = ladder.written_again(TABLE)
    table.loc[table["a"] == "whole", "clear"] = False
    assert ladder.ladder_findings(table)[-1] == (
        "Answers from the whole call and answers written again from the whole call differ clearly "
        "by no metric."
    )


def test_the_figure_has_a_panel_a_metric_and_dotted_lines_where_a_step_is_not_clear():
    figure = plots.ladder_figure(*ladder.ladder_steps(TABLE))
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes if ax.get_visible()}
    assert set(panels) == {"BLEU", "EMS(LLM)"}
    assert styles_of_steps(panels["BLEU"]) == ["-", ":", "-"]
    assert styles_of_steps(panels["EMS(LLM)"]) == ["-"] * 3
    ticks = panels["BLEU"].get_xticklabels()
    places = {tick.get_text().replace("\n", " "): tick.get_position()[0] for tick in ticks}
    assert places == ladder.RUNGS


def styles_of_steps(ax):
    """The style of each line between two rungs, from the left."""
    lines = [line for line in ax.lines if len(line.get_xdata()) == 2]
    return [line.get_linestyle() for line in sorted(lines, key=lambda line: line.get_xdata()[0])]
