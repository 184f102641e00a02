"""Figures say what is in their tables: texts, marks and positions, and equal input gives equal bytes."""

import pandas as pd
import pytest
from matplotlib.text import Text
from study import plots

from ems.analysis.frames import to_frame
from ems.analysis.stats import paired_table, summarise
from ems.results import EMSResult

VALUES = to_frame(
    [
        EMSResult(f"g{g}-Q{q}", model, (), (), (), recall=f1, precision=f1, f1=f1, group=f"g{g}")
        for g in range(8)
        for q in (1, 2)
        for model, f1 in (("m1", 0.1 + g / 100), ("m2", 0.5 + g / 100))
    ],
    "EMS(LLM)",
)
SIZES = {"m1": "Small (part)", "m2": "Large (whole)"}


def texts(figure):
    """What is written in a figure, where all is large enough to read and inside the page."""
    figure.canvas.draw()
    found, box = [text for text in figure.findobj(Text) if text.get_text()], figure.get_tightbbox()
    assert min(text.get_fontsize() for text in found) >= 8
    edges = box.x0, box.y0, plots.WIDTH - box.x1, figure.get_figheight() - box.y1
    assert min(edges) >= -0.001, edges  # inches
    return [text.get_text() for text in found]


@pytest.mark.parametrize(
    ("sizes", "ticks"),
    [(SIZES, ["Small\n(part)", "Large\n(whole)"]), ({"m1": 1, "m2": 70}, ["1 B", "70 B"])],
)
def test_scaling_shows_each_systems_mean_on_a_scale_from_0(sizes, ticks):
    summary, paired = summarise(VALUES), paired_table(VALUES)
    figure = plots.scaling_figure(summary, sizes, paired)
    assert {
        "EMS(LLM) F1",
        "0.135",
        "0.535",
        *ticks,
        f"last against first: p (Holm) = {paired['p_holm'].iloc[0]:.2g}",
    } <= set(texts(figure))
    assert (
        figure.axes[0].get_ylim()[0] == 0 < summary["ci_high"].max() < figure.axes[0].get_ylim()[1]
    )


def test_families_have_one_axis_of_models_and_a_panel_says_which_families_it_lacks():
    models = (("B-7B", "B", 7.0), ("A-8B", "A", 8.0), ("A-3B", "A", 3.0))
    rows = [("BLEU", *model, 0.5, 0.4, 0.6) for model in models] + [
        ("Judge alone", *models[2], 0.5, 0.4, 0.6)
    ]
    figure = plots.families_figure(
        pd.DataFrame(
            rows, columns=["metric", "model", "family", "size", "value", "ci_low", "ci_high"]
        )
    )
    assert texts(figure).count("computed for A only") == 1
    whole, part = figure.axes[:2]
    assert [tick.get_text() for tick in part.get_xticklabels()] == [
        "A-3B (3)",
        "A-8B (8)",
        "B-7B (7)",
    ]
    assert whole.get_xlim() == part.get_xlim()
    assert part.lines[0].get_xdata().tolist() == [0]  # A-8B has no value here
    assert whole.lines[0].get_xdata().tolist() == [0, 1]


def test_the_heatmap_has_a_cell_a_group_and_question_on_one_scale_and_the_same_bytes_each_time(
    tmp_path,
):
    figure = plots.heatmap(VALUES, "EMS(LLM)", SIZES)
    shown = {
        "0.10",
        "0.57",
        "g0",
        "g7",
        "Q1",
        "Q2",
        "Large\n(whole)",
        "EMS(LLM) F1",
        "company or document",
    }
    assert shown <= set(texts(figure))
    assert {ax.collections[0].get_clim() for ax in figure.axes[:2]} == {(0, 1)}
    first, second = (
        plots.save(plots.heatmap(VALUES, "EMS(LLM)", SIZES), tmp_path / name)
        for name in ("a.png", "b.png")
    )
    assert first.read_bytes() == second.read_bytes()


def test_an_alignment_shows_scores_misses_what_is_unscored_and_how_much_is_not_drawn():
    result = EMSResult(
        "t",
        "m",
        ("ref zero", "ref one", "ref two"),
        ("ans zero", "ans one"),
        (1, -1, None),
        (0.7, 0.0, None),
        0.35,
        0.35,
        0.35,
    )
    figure = plots.alignment_figure(result.to_dict())
    shown = texts(figure)
    assert {
        "0.70",
        "0.00",
        "?",
        "Reference: 3 points",
        "Answer of m: 2 points",
        "0: ref zero",
    } <= set(shown)
    assert (any("F1 0.350" in text for text in shown), len(figure.axes[0].lines)) == (True, 1)
    many = EMSResult(
        "t",
        "m",
        ("ref",) * 20,
        ("ans",) * 20,
        (*[-1] * 11, 15, *[-1] * 6, 3, 19),
        (*[0.0] * 11, 1.0, *[0.0] * 6, 0.8, 0.8),
        0.1,
        0.1,
        0.1,
    )
    figure = plots.alignment_figure(many.to_dict())  # drawn: 0 to 11 left; 0 to 10 and 15 right
    assert ["… 8 more, not drawn", "… 4 more, not drawn", "… 4 more, not drawn"] == [
        text for text in texts(figure) if "…" in text
    ]
    to_15, from_18 = (line.get_ydata() for line in figure.axes[0].lines)
    assert (
        to_15[0] < from_18[0] > from_18[1] < to_15[1]
    )  # reference point 18 is left out: its line begins at the foot
    points = tuple(f"point {i} " + "word " * 200 for i in range(30))
    shown = texts(
        plots.alignment_figure(
            EMSResult("t", "m", points, points, tuple(range(30)), (1.0,) * 30).to_dict()
        )
    )
    assert shown.count("… 18 more, not drawn") == 2
    assert all(text.endswith("…") for text in shown if text.startswith("0: point"))
    assert any("F1 –" in text for text in shown)


def test_a_point_is_joined_to_the_passage_with_most_of_its_words():
    answer = "# Heading\n\nSales rose in India and in China.\n\nCosts fell."
    figure = plots.extraction_figure(
        answer, ["Sales rose in China.", "Sales rose in India.", "Costs fell."]
    )
    assert {"The answer: 11 words", "Its points: 3", "Heading", "2: Costs fell."} <= set(
        texts(figure)
    )
    first, second, third = (line.get_ydata()[0] for line in figure.axes[0].lines)
    assert first == second != third


def test_choices_losses_and_support_show_their_tables():
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
    marks = [
        line for line in plots.choices_figure(table).axes[0].lines if line.get_marker() != "None"
    ]
    assert [
        (mark.get_marker(), mark.get_markerfacecolor(), float(mark.get_xdata()[0]))
        for mark in marks
    ] == [("D", plots.BLUE, 0.0), ("o", "white", 0.1), ("o", plots.BLUE, 0.2)]
    rows = [
        ("M", "negate", dose, loss, loss - 0.01, loss + 0.01, "F1 falls")
        for dose, loss in ((0.25, 0.1), (0.75, 0.3))
    ]
    lost = pd.DataFrame(
        rows, columns=["metric", "edit", "dose", "loss", "ci_low", "ci_high", "should"]
    )
    assert {"30.0\n± 1.0", "negate\nF1 falls", "M"} <= set(texts(plots.losses_figure(lost)))
    assert "30.0" in texts(
        plots.losses_figure(lost.assign(ci_low=float("nan")))
    )  # few groups give no interval
    points = pd.DataFrame(
        [("m2", 0.6, 0.2, 0.3, 0.1), ("m1", 0.4, 0.2, 0.5, 0.1)],
        columns=["model", "supported", "supported but unmatched", "silent", "contradicted"],
    )
    summary = pd.DataFrame(
        [("m1", 0.4, 0.3, 0.5), ("m2", 0.6, 0.5, 0.7)],
        columns=["model", "value", "ci_low", "ci_high"],
    )
    for sizes, ticks, values, matched in (
        (None, ["m2", "m1"], [0.6, 0.4], [0.4, 0.2]),
        (SIZES, ["Small\n(part)", "Large\n(whole)"], [0.4, 0.6], [0.2, 0.4]),
    ):
        figure = plots.support_figure(summary, points, sizes)
        left, right = figure.axes
        assert set(ticks) <= set(texts(figure))
        assert [tick.get_text() for tick in left.get_yticklabels()] == ticks
        assert [
            float(line.get_xdata()[0]) for line in left.lines if line.get_marker() == "o"
        ] == values
        assert [bar.get_width() for bar in right.patches[:2]] == pytest.approx(matched)


def test_the_figure_of_areas_has_one_scale_and_says_what_was_not_computed():
    rows = [
        ("all", "BLEU", 0.7, 0.6, 0.8),
        ("judged", "BLEU", 0.6, 0.5, 0.7),
        ("judged", "Judge alone", 0.9, 0.8, 0.95),
    ]
    table = pd.DataFrame(rows, columns=["title", "metric", "value", "ci_low", "ci_high"]).assign(
        n=[1663, 200, 200]
    )
    figure = plots.area_figure(dict(list(table.groupby("title"))))
    shown = texts(figure)
    assert {
        "all, n\u00a0=\u00a01,663",
        "0.70",
        "0.90",
        "by a judge's replies",
        "whole texts compared",
    } <= set(shown)
    assert shown.count("not computed") == 1
    assert len({ax.get_xlim() for ax in figure.axes}) == 1
