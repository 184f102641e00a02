"""Figures show what their tables hold: texts, marks, positions; equal input gives equal bytes."""

import pandas as pd
import pytest
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


def test_equal_figures_are_written_as_equal_bytes(tmp_path):
    first = plots.save(plots.heatmap(VALUES, "EMS(LLM)", SIZES), tmp_path / "a.png")
    second = plots.save(plots.heatmap(VALUES, "EMS(LLM)", SIZES), tmp_path / "b.png")
    assert first.read_bytes() == second.read_bytes()


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


def test_an_alignment_says_how_many_boxes_are_not_drawn():
    # Drawn are 0 to 11 on the left; 0 to 10 and 15 on the right.
    match = (*[-1] * 11, 15, *[-1] * 6, 3, 19)
    score = (*[0.0] * 11, 1.0, *[0.0] * 6, 0.8, 0.8)
    figure = alignment_figure(("ref",) * 20, ("ans",) * 20, match, score, f1=0.1)
    assert [text for text in texts(figure) if "…" in text] == [
        "… 8 more, not drawn",
        "… 4 more, not drawn",
        "… 4 more, not drawn",
    ]
    to_15, from_18 = (line.get_ydata() for line in figure.axes[0].lines)
    # Reference point 18 is not drawn: its line begins at the foot of the column.
    assert to_15[0] < from_18[0] > from_18[1] < to_15[1]


def test_long_points_are_cut_and_a_missing_value_is_a_dash():
    points = tuple(f"point {i} " + "word " * 200 for i in range(30))
    written = texts(alignment_figure(points, points, tuple(range(30)), (1.0,) * 30))
    assert written.count("… 18 more, not drawn") == 2
    assert all(text.endswith("…") for text in written if text.startswith("0: point"))
    assert any("F1 –" in text for text in written)


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
            "change": [0.0, 0.1, 0.2],
            "change_low": 0.1,
            "change_high": 0.3,
            "clear": ["", "no", "above"],
            "gap": 0.4,
            "gap_low": 0.3,
            "gap_high": 0.5,
        },
        index=[f"EMS(ROUGE): {choice}" for choice in "abc"],
    )
    marks = dots(plots.choices_figure(table).axes[0])
    assert [mark.get_marker() for mark in marks] == ["D", "o", "o"]
    assert [mark.get_markerfacecolor() for mark in marks] == [BLUE, "white", BLUE]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [0.0, 0.1, 0.2]


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


def test_support_shows_systems_in_the_order_of_the_table_of_points():
    points = pd.DataFrame(
        [("m2 (whole)", 0.6, 0.2, 0.3, 0.1), ("m1", 0.4, 0.2, 0.5, 0.1)],
        columns=["model", "supported", "supported but unmatched", "silent", "contradicted"],
    )
    summary = pd.DataFrame(
        [("m1", 0.4, 0.3, 0.5), ("m2 (whole)", 0.6, 0.5, 0.7)],
        columns=["model", "value", "ci_low", "ci_high"],
    )
    figure = plots.support_figure(summary, points)
    left, right = figure.axes
    assert {"m2\n(whole)", "m1"} <= set(texts(figure))
    assert tick_labels(left.yaxis) == ["m2\n(whole)", "m1"]
    assert [float(dot.get_xdata()[0]) for dot in dots(left)] == [0.6, 0.4]
    assert [bar.get_width() for bar in right.patches[:2]] == pytest.approx([0.4, 0.2])


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


def test_ragchecker_has_the_mark_of_its_authors_judge_or_of_ours():
    columns = ["metric", "value", "ci_low", "ci_high", "n"]
    for metric, marker in (("RAGChecker", "^"), ("RAGChecker F1", "o")):
        table = pd.DataFrame([(metric, 0.9, 0.8, 0.95, 160)], columns=columns)
        (ax,) = plots.area_figure({"edits": table}).axes
        assert dots(ax)[0].get_marker() == marker
