"""Figures show what their tables hold: texts, marks, positions; equal input gives equal bytes."""

import math
import re

import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.text import Text
from study import plots
from study.plots.panels import BLUE, WIDTH

from ems.analysis.frames import to_frame
from ems.results import EMSResult

SIZES = {"m1": "Small (part)", "m2": "Large (whole)"}


def values_of_two_models():
    results = []
    for g in range(8):
        for name in (f"g{g}-Q1", f"g{g}-Q2"):
            for model, f1 in (("m1", 0.1 + g / 100), ("m2", 0.5 + g / 100)):
                result = EMSResult(
                    name, model, (), (), (), recall=f1, precision=f1, f1=f1, group=f"g{g}"
                )
                results.append(result)
    return to_frame({"EMS(LLM)": results})


VALUES = values_of_two_models()


def texts(figure):
    """What is written in a figure, where all is large enough to read and inside the page."""
    figure.canvas.draw()
    written = [text for text in figure.findobj(Text) if text.get_text()]
    assert min(text.get_fontsize() for text in written) >= 8
    box = figure.get_tightbbox()
    edges = box.x0, box.y0, WIDTH - box.x1, figure.get_figheight() - box.y1
    assert min(edges) >= -0.001, edges  # inches
    return [text.get_text() for text in written]


def tick_labels(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def families_tables():
    columns = ["metric", "model", "family", "size", "value"]
    rows = [
        ("accuracy", "B-7B", "B", 7.0, 0.5),
        ("accuracy", "A-8B", "A", 8.0, 0.7),
        ("accuracy", "A-3B", "A", 3.0, 0.6),
        ("accuracy", "B-9B", "B", 9.0, 0.4),
        ("M", "A-3B", "A", 3.0, 0.1),
        ("M", "A-8B", "A", 8.0, 0.2),
        ("M", "B-7B", "B", 7.0, 0.3),
        ("M", "B-9B", "B", 9.0, 0.25),
    ]
    means = pd.DataFrame(rows, columns=columns)
    means = means.assign(ci_low=means["value"] - 0.1, ci_high=means["value"] + 0.1)
    steps = [
        ("accuracy", "A-8B", "A-3B", "A", True),
        ("accuracy", "B-9B", "B-7B", "B", False),
        ("M", "A-8B", "A-3B", "A", False),
        ("M", "B-9B", "B-7B", "B", True),
    ]
    return means, pd.DataFrame(steps, columns=["metric", "a", "b", "family", "clear"])


def lines_of_steps(ax):
    """Of each line that joins two models: its ends and its style."""
    lines = [
        line for line in ax.lines if line.get_linestyle() in "-:" and len(line.get_xdata()) == 2
    ]
    joins = []
    for line in lines:
        if line.get_ydata()[0] != line.get_ydata()[1]:  # not an interval
            joins.append((list(line.get_xdata()), list(line.get_ydata()), line.get_linestyle()))
    return joins


def test_families_have_metrics_over_accuracy_and_solid_lines_where_a_step_is_clear():
    figure = plots.families_figure(*families_tables(), ["accuracy", "M"])
    assert {"A", "B", "the step is clear", "the step is not clear"} <= set(texts(figure))
    accuracy, metric, _ = [ax for ax in figure.axes if ax.get_visible()]
    assert tick_labels(accuracy.yaxis) == ["A-3B", "A-8B", "B-7B", "B-9B"]
    assert lines_of_steps(accuracy) == [([0.6, 0.7], [0, 1], "-"), ([0.5, 0.4], [2, 3], ":")]
    assert lines_of_steps(metric) == [([0.6, 0.7], [0.1, 0.2], ":"), ([0.5, 0.4], [0.3, 0.25], "-")]


def test_pairs_stand_from_the_best_metric_with_both_intervals_and_the_band_of_random_labels():
    ranked = pd.DataFrame(
        {
            "pairs": [0.6, 0.9],
            "ci_low": [0.5, 0.8],
            "ci_high": [0.7, 0.95],
            "systems_low": [0.4, 0.7],
            "systems_high": [0.8, 1.0],
            "of": 119,
        },
        index=["BLEU", "Judge alone"],
    )
    figure = plots.pairs_figure(ranked, {"pairs": 0.75, "ci_low": 0.55, "ci_high": 0.88})
    written = texts(figure)
    (ax,) = figure.axes
    assert tick_labels(ax.yaxis) == ["Judge alone", "BLEU"]
    assert {"0.90", "0.60", "by a judge's replies", "whole texts compared"} <= set(written)
    assert any("119 pairs" in text for text in written)
    assert [list(dot.get_xdata()) for dot in dots(ax)[:2]] == [[0.9], [0.6]]
    thick = [list(line.get_xdata()) for line in ax.lines if line.get_linewidth() == 4]
    assert thick == [[0.8, 0.95], [0.5, 0.7]]
    assert [0.7, 1.0] in [list(line.get_xdata()) for line in ax.lines]
    band = ax.patches[0]
    assert (band.get_x(), band.get_x() + band.get_width()) == (0.55, pytest.approx(0.88))


def test_the_heatmap_has_a_cell_for_each_group_and_question_on_one_scale():
    figure = plots.heatmap(VALUES, "EMS(LLM)", SIZES)
    written = set(texts(figure))
    assert {"0.10", "0.57", "g0", "g7", "Q1", "Q2", "Large\n(whole)"} <= written
    assert {"EMS(LLM) F1", "company or document"} <= written
    assert {ax.collections[0].get_clim() for ax in figure.axes[:2]} == {(0, 1)}


def test_a_system_of_zeros_is_named_and_not_drawn_on_the_heatmap():
    values = VALUES.assign(value=VALUES["value"].where(VALUES["model"] == "m2", 0.004))
    figure = plots.heatmap(values, "EMS(LLM)", SIZES)
    written = texts(figure)
    assert any("not drawn, with a mean of 0.00: Small (part)" in text for text in written)
    assert "Large\n(whole)" in written
    assert "Small\n(part)" not in written
    zeros = plots.heatmap(values.assign(value=0.0), "EMS(LLM)", SIZES)
    assert {"Small\n(part)", "Large\n(whole)"} <= set(texts(zeros))


def test_equal_figures_are_written_as_equal_bytes(tmp_path):
    first = plots.save(plots.heatmap(VALUES, "EMS(LLM)", SIZES), tmp_path / "a.png")
    second = plots.save(plots.heatmap(VALUES, "EMS(LLM)", SIZES), tmp_path / "b.png")
    assert first.read_bytes() == second.read_bytes()
    pdf = first.with_suffix(".pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf == second.with_suffix(".pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b"/CIDFontType2" in pdf or b"/TrueType" in pdf  # type 42, not matplotlib's type 3


def alignment_figure(ref_points, ans_points, match, score, **metrics):
    result = EMSResult("t", "m", ref_points, ans_points, match, score, **metrics)
    return plots.alignment_figure(result.to_dict())


def test_an_alignment_shows_scores_and_points_without_a_match_or_a_score():
    figure = alignment_figure(
        ("ref zero", "ref one", "ref two"),
        ("ans zero", "ans one"),
        (1, -1, None),
        (0.7, 0.0, None),
        recall=0.35,
        precision=0.35,
        f1=0.35,
    )
    written = texts(figure)
    titles = {"Reference: 3 points", "Answer of m: 2 points"}
    assert titles | {"0: ref zero", "0.70", "0.00", "?"} <= set(written)
    assert any("F1 0.350" in text for text in written)
    assert len(figure.axes[0].lines) == 1


def boxes(figure):
    """The texts of an alignment's boxes, left ones and right ones, from the top."""
    figure.canvas.draw()
    sides = {"left": [], "right": []}
    for text in figure.findobj(Text):
        if re.match(r"\d+: ", text.get_text()):
            side = "left" if text.get_position()[0] < WIDTH / 2 else "right"
            sides[side].append(text.get_text())
    return sides["left"], sides["right"]


def test_an_alignment_draws_evenly_spaced_points_with_their_matches_in_their_order():
    # Of the 26 reference points 0, 5, 10, 15, 20 and 25 are drawn, whatever they match.
    match = [-1] * 26
    match[0], match[5], match[15], match[25] = 7, 3, 7, 1
    match[1], match[2] = 0, 2  # are not drawn
    ref_points = tuple(f"ref{i}" for i in range(26))
    ans_points = tuple(f"ans{j}" for j in range(10))
    score = tuple(0.5 if j >= 0 else 0.0 for j in match)
    figure = alignment_figure(ref_points, ans_points, tuple(match), score, f1=0.1)
    left, right = boxes(figure)
    assert left == [f"{i}: ref{i}" for i in (0, 5, 10, 15, 20, 25)]
    # Half of the ten answer points have no match: 4, 5, 6, 8 and 9. So three of them are drawn
    # with the three matches.
    assert right == [f"{j}: ans{j}" for j in (7, 3, 1, 4, 6, 9)]
    written = texts(figure)
    assert {"Reference: 6 of 26 points", "Answer of m: 6 of 10 points"} <= set(written)
    (note,) = [text for text in written if text.startswith("Without a match")]
    assert "20 of 26 reference points, 5 of 10 answer points." in note
    assert len(figure.axes[0].lines) == 4


def test_an_answer_without_a_match_has_a_sample_of_its_points():
    figure = alignment_figure(("ref",) * 3, ("ans",) * 11, (-1,) * 3, (0.0,) * 3, f1=0.0)
    left, right = boxes(figure)
    assert len(left) == 3
    assert [text.partition(":")[0] for text in right] == ["0", "2", "4", "6", "8", "10"]
    empty = alignment_figure(("ref",), (), (-1,), (0.0,), f1=0.0)
    assert "Answer of m: 0 points" in texts(empty)


def test_long_points_are_cut_and_a_missing_value_is_a_dash():
    points = tuple(f"point {i} " + "word " * 200 for i in range(30))
    written = texts(alignment_figure(points, points, tuple(range(30)), (1.0,) * 30))
    assert {"Reference: 6 of 30 points", "Answer of m: 6 of 30 points"} <= set(written)
    assert all(text.endswith("…") for text in written if text.startswith("0: point"))
    assert any("F1 –" in text for text in written)


def test_an_extraction_says_how_many_boxes_are_not_drawn():
    answer = "\n".join(f"passage {i}" for i in range(20))
    points = [f"passage {i}" for i in (*range(11), 15, 15, 15, 15)]
    figure = plots.extraction_figure(answer, points)
    assert [text for text in texts(figure) if "…" in text] == [
        "… 8 more, not drawn",
        "… 3 more, not drawn",
    ]


def test_a_point_is_joined_to_the_passage_with_most_of_its_words():
    answer = "# Heading\n\nSales rose in India and in China.\n\nCosts fell."
    points = ["Sales rose in China.", "Sales rose in India.", "Costs fell."]
    figure = plots.extraction_figure(answer, points)
    written = set(texts(figure))
    assert {"The answer: 11 words", "Its points: 3", "Heading", "2: Costs fell."} <= written
    first, second, third = (line.get_ydata()[0] for line in figure.axes[0].lines)
    assert first == second != third


def dots(ax):
    return [line for line in ax.lines if line.get_marker() != "None" and len(line.get_xdata())]


def test_choices_are_hollow_where_not_clear_and_the_baseline_is_a_diamond():
    table = pd.DataFrame(
        {
            "change": [0.0, 0.1, 0.2, math.nan],
            "change_low": 0.1,
            "change_high": 0.3,
            "clear": ["", "no", "above", math.nan],
            "gap": 0.4,
            "gap_low": 0.3,
            "gap_high": 0.5,
        },
        index=[f"EMS(ROUGE): {choice}" for choice in "abcd"],
    )
    figure = plots.choices_figure(table, "Large", "Small")
    left, right = figure.axes
    marks = dots(left)[:3]
    assert [mark.get_marker() for mark in marks] == ["D", "o", "o"]
    assert [mark.get_markerfacecolor() for mark in marks] == [BLUE, "white", BLUE]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [0.0, 0.1, 0.2]
    assert right.get_xlabel() == "F1 of Large minus that of Small"
    # A choice of the user's own has no labels of people, and keeps its place and its difference.
    assert texts(figure).count(" no labels for it") == 1
    assert tick_labels(left.yaxis)[3] == "EMS(ROUGE): d"
    assert len(dots(right)) == 4


def test_losses_stand_in_cells_and_a_line_before_the_variants_that_cost_nothing():
    columns = ["metric", "variant", "loss", "text", "should"]
    rows = [
        ("M", "negated", 30.0, "30.0 ± 1.0", "wrong: falls"),
        ("M", "shuffled", 0.0, "0.0", "nothing may fall"),
        ("A", "negated", 20.0, "20.0 ± 2.0", "wrong: falls"),
        ("A", "shuffled", 50.0, "50.0 ± 3.0", "nothing may fall"),
    ]
    figure = plots.losses_figure(pd.DataFrame(rows, columns=columns))
    ax = figure.axes[0]
    assert {"30.0 ± 1.0", "0.0", "negated\n\n\nwrong: falls"} <= set(texts(figure))
    assert tick_labels(ax.yaxis) == ["M", "A"]
    assert list(ax.lines[0].get_xdata()) == [1, 1]


def test_support_shows_systems_in_the_given_order_and_a_colour_has_one_meaning():
    points = pd.DataFrame(
        [("m2 (whole)", 0.6, 0.2, 0.3, 0.1), ("m1", 0.4, 0.2, 0.5, 0.1)],
        columns=["model", "supported", "supported but unmatched", "silent", "contradicted"],
    )
    summary = pd.DataFrame(
        [("m1", 0.4, 0.3, 0.5), ("m2 (whole)", 0.6, 0.5, 0.7)],
        columns=["model", "value", "ci_low", "ci_high"],
    )
    names = {"m2 (whole)": "Second (whole)", "m1": "First"}
    figure = plots.support_figure(summary, points[::-1], names)
    left, right = figure.axes
    assert {"supported, matched", "silent"} <= set(texts(figure))
    assert tick_labels(left.yaxis) == ["Second\n(whole)", "First"]
    assert [float(dot.get_xdata()[0]) for dot in dots(left)] == [0.6, 0.4]
    assert [bar.get_width() for bar in right.patches[:2]] == pytest.approx([0.4, 0.2])
    # A colour has one meaning: that of the dots is of no bar.
    assert to_rgba(dots(left)[0].get_color()) not in {bar.get_facecolor() for bar in right.patches}


def test_the_figure_of_areas_has_one_scale_and_says_what_was_not_computed():
    columns = ["title", "metric", "value", "ci_low", "ci_high", "n"]
    rows = [
        ("all", "BLEU", 0.7, 0.6, 0.8, 1663),
        ("judged", "BLEU", 0.6, 0.5, 0.7, 200),
        ("judged", "Judge alone", 0.9, 0.8, 0.95, 200),
    ]
    table = pd.DataFrame(rows, columns=columns)
    figure = plots.area_figure(dict(list(table.groupby("title"))))
    written = texts(figure)
    families = {"by a judge's replies", "whole texts compared"}
    assert families | {"all, n\u00a0=\u00a01,663", "0.70", "0.90"} <= set(written)
    assert written.count("not computed") == 1
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_areas_stand_in_the_order_of_the_first_panel_and_a_metric_with_fewer_answers_is_named():
    columns = ["title", "metric", "value", "ci_low", "ci_high", "n"]
    rows = [
        ("a", "BLEU", 0.6, 0.5, 0.7, 200),
        ("a", "Figures", 0.7, 0.6, 0.8, 157),
        ("a", "the system alone", 0.65, 0.6, 0.7, 200),
        ("b", "BLEU", 0.9, 0.8, 0.95, 200),
        ("b", "Judge alone", 0.8, 0.7, 0.9, 200),
    ]
    table = pd.DataFrame(rows, columns=columns)
    figure = plots.area_figure(dict(list(table.groupby("title"))))
    written = texts(figure)
    first = figure.axes[0]
    assert tick_labels(first.yaxis) == ["Figures", "the system alone", "BLEU", "Judge alone"]
    assert "a, n\u00a0=\u00a0200, Figures 157" in written
    assert any("the system alone: every answer has" in text for text in written)
    without = plots.area_figure({"b": table[table["title"] == "b"]})
    assert not any("the system alone" in text for text in texts(without))


def test_a_contrast_has_a_panel_for_each_step_with_the_interval_of_each_metric():
    rows = [
        ("BLEU", "m2", "m1", 0.5, 0.2, 0.8),
        ("EMS(LLM)", "m2", "m1", 1.5, 1.0, 2.0),
        ("EMS(LLM)", "m3", "m2", 2.5, 2.0, 3.0),
    ]
    steps = pd.DataFrame(rows, columns=["metric", "a", "b", "g", "g_low", "g_high"])
    figure = plots.contrast_figure(steps, {"m1": "First", "m2": "Second", "m3": "Third"})
    assert {"Second\nminus First", "Third\nminus Second"} <= set(texts(figure))
    left, right = figure.axes
    assert tick_labels(left.yaxis) == ["BLEU", "EMS(LLM)"]
    assert [list(dot.get_xdata()) for dot in dots(left)] == [[0.5], [1.5]]
    assert [1.0, 2.0] in [list(line.get_xdata()) for line in left.lines]
    assert [float(dot.get_xdata()[0]) for dot in dots(right)][1] == 2.5  # BLEU has no value there


def test_ragchecker_has_the_mark_of_its_authors_judge_or_of_ours():
    columns = ["metric", "value", "ci_low", "ci_high", "n"]
    for metric, marker in (("RAGChecker", "^"), ("RAGChecker F1", "o")):
        table = pd.DataFrame([(metric, 0.9, 0.8, 0.95, 160)], columns=columns)
        (ax,) = plots.area_figure({"edits": table}).axes
        assert dots(ax)[0].get_marker() == marker


MEANS = pd.DataFrame(
    [
        ("BLEU", "Score", "m1", 0.1, 0.05, 0.15),
        ("BLEU", "Score", "m2", 0.2, 0.15, 0.25),
        ("EMS(LLM)", "Recall", "m1", 0.9, 0.8, 1.0),
        ("EMS(LLM)", "F1", "m1", 0.3, 0.25, 0.35),
    ],
    columns=["metric", "part", "model", "value", "ci_low", "ci_high"],
)
PAPER = pd.DataFrame(
    [("BLEU", "Score", "p", 0.02), ("EMS(LLM)", "F1", "p", 0.4)],
    columns=["metric", "part", "model", "value"],
)


def test_means_have_a_panel_for_each_metric_and_systems_in_the_given_order():
    figure = plots.means_figure(MEANS, {"m2": "Second", "m1": "First"})
    assert {"0.10", "0.20", "0.30"} <= set(texts(figure))
    bleu, ems = figure.axes
    assert tick_labels(bleu.yaxis) == ["Second", "First"]
    assert (bleu.get_title("left"), ems.get_title("left")) == ("BLEU", "EMS(LLM)")
    assert [list(line.get_xdata()) for line in dots(bleu) if line.get_marker() == "o"] == [
        [0.2],
        [0.1],
    ]
    assert [0.15, 0.25] in [list(line.get_xdata()) for line in bleu.lines]  # the interval


def test_the_papers_means_stand_above_ours_on_one_scale():
    names = {"m1": "First", "m2": "Second", "p": "Theirs"}
    figure = plots.paper_figure(MEANS, PAPER, names)
    assert {"the paper", "this run", "0.02", "0.40", "0.30"} <= set(texts(figure))
    above, above_2, below, below_2 = figure.axes
    assert tick_labels(above.yaxis) == ["Theirs"]
    assert tick_labels(below.yaxis) == ["First", "Second"]
    assert above.get_xlim() == below.get_xlim()
    assert above_2.get_xlim() == below_2.get_xlim() != below.get_xlim()
    assert [above.get_title("left"), above_2.get_title("left")] == ["BLEU", "EMS(LLM)"]
