"""Tables to the letter, hostile text made harmless, figures that draw every case and cut long lists."""

import html.parser
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import ems
from ems import report, stats
from ems.metrics import ems_scores
from ems.pipeline import with_metrics
from ems.presets import build
from ems.results import alignment, display
from ems.study.findings import figures, point_figures
from ems.types import EMSResult, InputError

NAN = math.nan
ROOT = Path(__file__).parent.parent
PAPER = ROOT / "data/paper/table1.csv"
SMALL, LARGE = "llama3.2_1b_instruct", "llama3.2_90b_vision_instruct"
HOSTILE = "<script>alert('x')</script> & \"$5\" to $6 \x1b[31mred\x00 \u202eevil \ud800 | end"


def summary(rows):
    """A summary frame from (metric, part, model, value, low, high, n, unscored, units)."""
    out = []
    for metric, part, model, value, low, high, n, unscored, units in rows:
        coverage = 1 - unscored / units
        signature = f"{metric}|judge:none|n:{n}|unscored:{unscored}|seed:7"
        out.append((metric, part, model, value, low, high, n, unscored, signature,
                    coverage, units, coverage < 0.95, 10))
    return pd.DataFrame(out, columns=[*stats.COLUMNS, "coverage", "units", "flagged", "clusters"])


OURS = summary([
    ("EMS(LLM)", "F1", LARGE, 0.5, 0.45, 0.55, 48, 60, 1000),
    ("EMS(LLM)", "F1", SMALL, 0.25, 0.2, 0.3, 50, 0, 1000),
    ("BLEU", "Score", SMALL, 1 / 3, 0.3, 0.4, 50, 0, 50),
    ("BLEU", "Score", LARGE, 0.0301, NAN, NAN, 50, 0, 50),
])


def result(ref=("r0", "r1", "r2", "r3"), ans=("a0", "a1", "a2"), match=(0, -1, None, 0),
           score=(0.9, 0.0, None, 0.4), **more):
    scores = ems_scores(match, score, len(ans))
    fields = {"triplet_id": "T-Q1", "model": "m", "signature": "sig", "reason": scores.reason} | more
    return EMSResult(ref_points=tuple(ref), ans_points=tuple(ans), match=tuple(match), score=tuple(score),
                     recall=scores.recall, precision=scores.precision, f1=scores.f1,
                     unscored=scores.unscored, ans_score=scores.ans_score, **fields)


# --- tables

def test_the_papers_table_is_complete():
    paper = pd.read_csv(PAPER)
    assert list(paper.columns) == ["metric", "part", "model", "value"]
    assert len(paper) == 17 * 3 == len(paper.drop_duplicates(["metric", "part", "model"]))
    value = paper.set_index(["metric", "part", "model"]).value.sort_index(level=[0, 1], sort_remaining=False)
    assert value["BLEU", "Score", SMALL] == 0.02
    assert value["EMS(LLM)", "F1"].tolist() == [0.21, 0.35, 0.40]
    assert value["RAGChecker", "Recall"].tolist() == [0.15, 0.31, 0.35]


def test_table1_cells():
    table = report.table1(OURS)
    assert table.to_dict("records") == [
        {"metric": "BLEU", "part": "Score", SMALL: "0.333 [0.300, 0.400]", LARGE: "0.030",
         "n": "50", "coverage": "100 %"},
        {"metric": "EMS(LLM)", "part": "F1", SMALL: "0.250 [0.200, 0.300]", LARGE: "0.500 [0.450, 0.550] †",
         "n": "50 / 48", "coverage": "100 % / 94.0 %"},
    ]


def test_table1_beside_the_paper():
    table = report.table1(OURS, pd.read_csv(PAPER)).set_index("metric")
    assert table[f"paper: {SMALL}"].tolist() == ["0.02 (+0.313, out)", "0.21 (+0.040, in)"]
    assert table[f"paper: {LARGE}"].tolist() == ["0.03 (+0.000, no interval)", "0.40 (+0.100, out)"]


def test_other_models_get_no_paper_column():
    other = OURS.replace({SMALL: "mine", LARGE: "yours"})
    table = report.table1(other, pd.read_csv(PAPER))
    assert list(table.columns) == ["metric", "part", "mine", "yours", "n", "coverage"]
    with pytest.raises(InputError, match="no model 'theirs' in the summary"):
        report.table1(other, models=["theirs"])


def test_signatures_that_differ_in_the_number_of_clusters_alone_are_one_line(tmp_path):
    few = [f"sig|n:{n}|unscored:0|interval:t,cluster=group,clusters={clusters}" for n, clusters in ((50, 10), (8, 6))]
    rows = OURS[OURS["metric"] == "BLEU"].iloc[:1]
    rows = pd.concat([rows.assign(model=model, signature=one) for model, one in zip("ab", few, strict=True)])
    _, md, _ = report.save_table1(rows, tmp_path)
    assert "- `BLEU: sig|interval:t,cluster=group,clusters=6 or 10`" in md.read_text()


def test_agreement_with_people_stands_beside_each_metric(tmp_path):
    people = pd.DataFrame([("BLEU", "Score", 0.529, 0.403, 0.638), ("EMS(LLM)", "Recall", 0.7, 0.6, 0.8)],
                          columns=["metric", "part", "value", "ci_low", "ci_high"])
    assert report.table1(OURS, people=people)["people"].tolist() == ["0.53 [0.40, 0.64]", "–"]
    csv, md, _ = report.save_table1(OURS, tmp_path, people=people, about_people="pairs of answers elsewhere")
    assert "| people |" in md.read_text()
    assert "- people: pairs of answers elsewhere" in md.read_text()
    assert csv.read_text() == report.save_table1(OURS, tmp_path)[0].read_text()


def test_coverage_is_rounded_down():
    rows = summary([("BLEU", "Score", "m", 0.5, 0.4, 0.6, 9999, 1, 10_000)])
    assert report.table1(rows).coverage[0] == "99.9 %"


def test_saved_csv_follows_the_contract(tmp_path):
    paths = report.save_table1(OURS, tmp_path / "new", absent={"RAGChecker": "no judge"})
    assert ([p.name for p in paths] == ["table1.csv", "table1.md", "table1.tex"]
            == sorted(os.listdir(tmp_path / "new")))
    lines = paths[0].read_text().splitlines()
    assert lines[0] == "metric,part,model,value,ci_low,ci_high,n,unscored,signature"
    assert lines[1] == f"BLEU,Score,{SMALL},0.333333,0.3,0.4,50,0,BLEU|judge:none|n:50|unscored:0|seed:7"
    assert pd.read_csv(paths[0]).value.tolist() == [0.333333, 0.0301, 0.25, 0.5]
    assert lines[2].split(",")[4:6] == ["", ""]                    # no interval is an empty cell


def test_saved_markdown_and_latex(tmp_path):
    rows = OURS.replace({SMALL: "a_b|c & 50%", LARGE: "~^\\#{}$<b>"})
    paths = report.save_table1(rows, tmp_path, absent={"RAGChecker": "no judge: 100%_off"})
    _, md, tex = (path.read_text() for path in paths)
    table = [line for line in md.splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table] == [7] * 4  # six columns, four rows
    assert "a_b\\|c" in table[0]
    assert "<b>" not in md
    assert "- Absent: RAGChecker (no judge: 100%\\_off)" in md
    assert "- `EMS(LLM): EMS(LLM)|judge:none|seed:7`" in md
    for wanted in (r"\toprule", r"\midrule", r"\bottomrule",
                   r"a\_b\textbar{}c \& 50\%", r"100\%\_off", r"$^{\dagger}$",
                   r"\textasciitilde{}\textasciicircum{}\textbackslash{}\#\{\}\$\textless{}b\textgreater{}"):
        assert wanted in tex
    assert tex.count(r" \\") == 3                                  # a header and two rows


def test_a_metric_s_name_ends_no_line_of_the_settings(tmp_path):
    rows = OURS.assign(metric="BLEU\n\\input{x}\n<b>")
    _, md, tex = (path.read_text() for path in report.save_table1(rows, tmp_path))
    assert [line for line in (md + tex).splitlines() if line.startswith(("\\input", "<b>"))] == []


def test_a_failed_write_leaves_the_old_table(tmp_path, monkeypatch):
    report.save_table1(OURS, tmp_path)
    before = (tmp_path / "table1.csv").read_bytes()

    def full(part, target):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="table1.csv cannot be written: No space left on device"):
        report.save_table1(OURS.assign(value=0.9), tmp_path)
    assert (tmp_path / "table1.csv").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["table1.csv", "table1.md", "table1.tex"]


# --- text from outside

class Tags(html.parser.HTMLParser):
    """Collects the tags and attributes a browser would see."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("br", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_of_hostile_text_is_only_text():
    page = alignment.alignment_html(result(
        ref=[HOSTILE] * 4, ans=[HOSTILE, "a1", HOSTILE], model=HOSTILE, triplet_id=HOSTILE, signature=HOSTILE,
        reason=HOSTILE))
    seen = Tags(page)
    assert seen.tags == {"div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td", "small",
                         "colgroup", "col"}
    assert seen.attributes == {"style"}
    assert seen.open == []
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp;" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page)
    page.encode("utf-8")                                            # a lone surrogate would not encode


def test_html_shows_every_state():
    page = alignment.alignment_html(result(ans=["a0", "a1", "a1"]))
    rows = re.findall(r"<tr>(.*?)</tr>", page)[1:]
    assert ["no match" in r for r in rows] == [False, True, False, False, True, True]      # r1 and both a1
    assert ["unscored" in r for r in rows] == [False, False, True, False, False, False]
    assert "r0" in rows[0]
    assert "a0" in rows[0]
    assert "<b>0.90</b>" in rows[0]
    assert "a0" in rows[3]                                          # chosen twice, shown twice
    assert page.count("<b>[repeated]</b>") == 2
    assert "script" not in page
    assert "http" not in page


def test_html_is_tinted_by_score():
    tint = {tag: float(alpha) for alpha, tag in re.findall(
        r"rgba\(0,114,178,([0-9.]+)\)\"><b>([0-9.]+)</b>", alignment.alignment_html(result()))}
    assert tint["0.90"] > tint["0.40"]


def test_views_cut_long_lists_with_a_count():
    long = result(ref=["r"] * 500, ans=["a"] * 500, match=[-1] * 500, score=[0.0] * 500)
    assert "… and 800 more rows" in alignment.alignment_html(long)
    assert "… and 940 more rows" in alignment.alignment_text(long)
    assert len(alignment.alignment_text(result(ref=["x" * 5_000_000] * 4))) < 10_000


def test_text_by_eye():
    assert alignment.alignment_text(result()).splitlines() == [
        "m on T-Q1",
        "",
        "     reference: 4 points                        score         answer: 3 points",
        "-" * 100,
        "  0  r0                                          0.90      0  a0",
        "  1  r1                                        no match       –",
        "  2  r2                                        unscored       –",
        "  3  r3                                          0.40      0  a0",
        "     –                                         no match    1  a1",
        "     –                                         no match    2  a2",
        "-" * 100,
        "EMS-Recall = (0.90 + 0.00 + 0.40) / 3 = 1.30 / 3 = 0.433",
        "EMS-Precision = (0.90 + 0.00 + 0.00) / 3 = 0.90 / 3 = 0.300",
        "EMS-F1 = 2 × 0.300 × 0.433 / (0.300 + 0.433) = 0.355",
        "unscored reference points: 1.",
        "sig",
    ]


def test_text_fits_a_terminal_and_cannot_command_it():
    hostile = result(ref=[HOSTILE * 20] * 4, ans=["word " * 90] * 3, signature="x" * 400)
    lines = alignment.alignment_text(hostile).splitlines()
    assert max(map(len, lines)) == 100
    assert not any(re.search("[\x00-\x1f\x7f]", line) for line in lines)


@pytest.mark.parametrize(("given", "says"), [
    (result(ans=[], match=[-1] * 4, score=[0.0] * 4),
     ["EMS-Precision = 0.000 (no scored points to divide by)", "EMS-F1 = 0.000"]),
    (result(ref=[], match=[], score=[]),
     ["EMS-Recall: no value (no scored points to divide by)", "the reference has no points"]),
    (result(match=[None] * 4, score=[None] * 4),
     ["EMS-F1: no value", "unscored reference points: 4. no point could be scored"]),
])
def test_the_empty_cases_say_why(given, says):
    text = alignment.alignment_text(given)
    assert all(part in text for part in says)


def test_weighted_sums_say_so():
    scores = ems_scores([0, -1], [0.5, 0.0], 1, ref_weights=[3.0, 1.0])
    weighted = EMSResult("T", "m", ("r0", "r1"), ("a0",), (0, -1), (0.5, 0.0), scores.recall, scores.precision,
                         scores.f1, 0, "sig", ans_score=scores.ans_score, ref_weights=(3.0, 1.0))
    assert "EMS-Recall = 1.50 / 4.00 (weighted) = 0.375" in alignment.alignment_text(weighted)


# --- whole sides: what made the number

def whole(ref_score=(0.85, 0.0, None), ans_score=(0.62, 0.0), match=(1, -1, 0), ans_match=(0, -1), **more):
    """A scorer of whole sides; the nearest points are no pairs (a0 scores 0.62 unnamed by any)."""
    fields = {"ref_weights": (3.0, 1.0, 2.0), "ans_weights": (1.0, 1.0), "signature": "sig"} | more
    return with_metrics(EMSResult(
        "T", "m", ("r0", "r1", "r2")[: len(match)], ("a0", "a1")[: len(ans_score)], match, ref_score,
        whole_sides=True, ans_score=ans_score, ans_match=ans_match, **fields))


def test_rows_of_whole_sides_hold_what_made_the_number():
    given = whole()
    rows = alignment.alignment_rows(given)
    assert [(r.tag, r.ref, r.ans, r.weight, r.hint) for r in rows] == [
        ("covered 0.85", 0, 1, 3.0, "answer"), ("covered 0.00", 1, None, 1.0, "answer"),
        ("unscored", 2, 0, 2.0, "answer"),
        ("covered 0.62", 0, 0, None, "reference"), ("covered 0.00", None, 1, None, "reference")]
    scored = [r for r in rows if r.hint == "answer" and r.score is not None]
    assert given.recall == sum(r.score * r.weight for r in scored) / sum(r.weight for r in scored) == 2.55 / 4
    assert given.precision == sum(r.score for r in rows if r.hint == "reference") / 2 == 0.31


def test_rows_of_pairs_show_the_weights_of_given_points():
    given = with_metrics(EMSResult("T", "m", ("r0", "r1"), ("a0", "a1"), (0, -1), (0.5, 0.0), given=("vital", "wrong"),
                                   ref_weights=(2.0, -1.0)))
    assert [(row.ref, row.weight) for row in alignment.alignment_rows(given)] == [(0, 2.0), (1, -1.0), (None, None)]
    assert "weight 2.0" in alignment.alignment_text(given)


def test_without_a_readable_choice_no_answer_point_is_unmatched():
    given = with_metrics(EMSResult("T", "m", ("r0", "r1"), ("a0",), (None, None), (None, None)))
    assert given.ans_score == (None,)
    assert [row.tag for row in alignment.alignment_rows(given)] == ["unscored"] * 3


def test_whole_sides_without_nearest_points_show_their_scores():
    given = whole(match=(None, None, None), ref_weights=(), ans_match=())
    assert [r.tag for r in alignment.alignment_rows(given)] == [
        "covered 0.85", "covered 0.00", "unscored", "covered 0.62", "covered 0.00"]
    assert "EMS-Recall = (0.85 + 0.00) / 2 = 0.85 / 2 = 0.425" in alignment.alignment_text(given)


def test_rows_of_pairs_are_matches_then_what_nothing_matched():
    assert [(r.tag, r.ref, r.ans, r.hint) for r in alignment.alignment_rows(result())] == [
        ("0.90", 0, 0, ""), ("no match", 1, None, ""), ("unscored", 2, None, ""), ("0.40", 3, 0, ""),
        ("no match", None, 1, ""), ("no match", None, 2, "")]


@pytest.mark.parametrize("given", [
    EMSResult("T", "m", (), ("a0",), (), lost=("reference",)),
    EMSResult("T", "m", ("r0",), (), (None,), (None,), whole_sides=True, lost=("answer",)),
])
def test_a_lost_side_matched_nothing_and_missed_nothing(given):
    assert {row.tag for row in alignment.alignment_rows(given)} == {"unscored"}
    assert "unscored" in alignment.alignment_text(given)
    assert "unscored" in alignment.alignment_html(given)
    assert overlaps(point_figures.alignment_figure(given)) == []


def test_the_local_evaluator_shows_every_point_with_its_score():
    """Every answer point of EMS(local) counts, so none is shown as unmatched (it once was, beside pairs)."""
    reference = "Revenue rose 6% to $94.9 billion. Gross margin was 46.2%. Iceland was not discussed."
    answer = "Gross margin was 46.2% and revenue rose 6%. Revenue was $94.9 billion. The weather is fine."
    given = build(None, "local").score(reference, answer)
    text, page = alignment.alignment_text(given), alignment.alignment_html(given)
    for view in (text, page):
        assert "no match" not in view
        for score in given.score:
            assert f"covered {score:.2f}" in view
        for score in given.ans_score:
            assert f"covered {score:.2f}" in view
        for weight in {*given.ref_weights, *given.ans_weights}:
            assert f"weight {weight:.1f}" in view
    assert all(f"{score:.2f}" in texts(point_figures.alignment_figure(given)) for score in given.ans_score)


def test_the_nearest_point_is_only_a_hint():
    page = alignment.alignment_html(whole())
    first, *_ = re.findall(r"<tr>(.*?)</tr>", page)[1:]
    scored, tag, hint = re.findall(r'<td style="([^"]*)">(.*?)</td>', first)
    assert "rgba(0,114,178" in scored[0]
    assert "rgba(0,114,178" in tag[0]
    assert "rgba" not in hint[0]
    assert "opacity" in hint[0]
    assert hint[1].startswith("nearest: ")
    assert "a hint only" in page
    lines = alignment.alignment_text(whole()).splitlines()
    assert lines[4].split() == ["0", "r0", "covered", "0.85", "1", "(a1)"]
    assert "(r0)" in next(line for line in lines if "covered 0.62" in line)
    assert all(line.get_linestyle() == ":" for line in point_figures.alignment_figure(whole()).axes[0].lines)


def test_the_score_column_is_narrow():
    page = alignment.alignment_html(result())
    assert page.index("<colgroup>") < page.index("<thead>")
    assert re.findall(r'<col style="width:([^"]+)"', page) == ["auto", "8em", "auto"]
    assert "table-layout:fixed" in page
    assert not re.search(r"<td[^>]*width:", page)


# --- names from outside in tables and notes

NASTY = [
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "=cmd|' /C calc'!A0",
    "\x1b]0;evil\x07\x1b[31mred",
    "![x](https://evil.example/a.png)",
    "https://evil.example",
    "www.evil.example",
    "<https://evil.example>",
    "| a | b |",
    "`code` **bold** _soft_ ~~gone~~",
    "$x^2$ \\(y\\)",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "&lt;b&gt;",
    "---",
    "[x]: javascript:alert(1)",
    "a\n\n# heading",
    "\\[x](javascript:alert(1))",
    "plain_name-1.5B",
]


@pytest.mark.parametrize("text", NASTY)
def test_markdown_text_shows_the_text_and_nothing_else(text):
    mistune = pytest.importorskip("mistune")
    render = mistune.create_markdown(plugins=["url", "strikethrough", "table"], escape=False)
    seen = Literal(render(display.markdown_text(text)))
    assert seen.tags == {"p"}
    assert seen.text.strip() == display.visible(text)
    assert "$" not in display.markdown_text(text)                    # MathJax reads the page after Markdown
    table = render(f"| {display.markdown_text(text)} |\n| --- |\n| cell |\n")
    assert Literal(table).tags == {"table", "thead", "tr", "th", "tbody", "td"}


class Literal(html.parser.HTMLParser):
    """Tags and text that a browser would see."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", NASTY)
def test_saved_tables_are_harmless_whatever_a_model_is_called(name, tmp_path):
    mistune = pytest.importorskip("mistune")
    rows = OURS.replace({SMALL: name})
    rows["signature"] = "judge:" + rows["model"]
    csv_path, md_path, tex_path = report.save_table1(rows, tmp_path, absent={"RAGChecker": name})
    for path in (csv_path, md_path, tex_path):
        assert not display.UNSAFE.search(path.read_text().replace("\n", ""))
    page = Literal(
        mistune.create_markdown(plugins=["url", "strikethrough", "table"], escape=False)(md_path.read_text())
    )
    assert page.tags == {"table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "p"}
    assert display.visible(name) in page.text
    for line in tex_path.read_text().splitlines():
        if not line.startswith("%"):
            assert not re.search(r"(?<!\\)[#%]", re.sub(r"\\\\$", "", line).replace("{!}{%", ""))


@pytest.mark.parametrize(("name", "cell"), [
    ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"), ("+1", "'+1"), ("-1", "'-1"), ("@SUM(A1)", "'@SUM(A1)"),
    ("\t=1+1", "'=1+1"), ("\r\n=1+1", "'=1+1"), ("＝1+1", "'＝1+1"), ("m=1", "m=1"), ("\x1b=1", "\ufffd=1"),
])
def test_no_csv_cell_is_a_formula(name, cell, tmp_path):
    lowest = OURS.assign(value=-0.5).replace({SMALL: name})
    table = pd.read_csv(report.save_table1(lowest, tmp_path)[0])
    assert set(table.model) == {cell, LARGE}
    assert table.value.tolist() == [-0.5] * 4                       # numbers keep their sign


# --- the package's own names

def test_results_become_a_table_in_public_calls():
    values_ = values().dropna(subset="value")
    summary_ = ems.summarise(values_)
    pd.testing.assert_frame_equal(summary_, stats.summarise(values_))
    assert list(ems.table1(summary_).columns) == ["metric", "part", SMALL, LARGE, "n", "coverage"]


def test_every_public_name_can_be_used():
    """The stub, which editors and type checkers read, names nothing that is not there."""
    assert set(ems.__all__) >= {"EMS", "EMSResult", "LLMJudge", "build", "ems_scores", "score_answer", "table1"}
    for name in ems.__all__:
        assert getattr(ems, name).__name__ == name


def test_importing_the_package_loads_and_changes_nothing():
    code = (
        "import sys, warnings; before = list(warnings.filters); import ems\n"
        "heavy = {'numpy', 'pandas', 'scipy', 'matplotlib', 'openai', 'torch', 'nltk'} & set(sys.modules)\n"
        "print(sorted(heavy), warnings.filters == before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[] True"


# --- figures

def texts(fig):
    return [t.get_text() for ax in fig.axes for t in ax.texts]


def overlaps(fig):
    """Texts of a figure of boxes that cover each other, leave the page, or leave their box."""
    fig.set_dpi(figures.DPI)
    fig.canvas.draw()
    boxes = [t.get_window_extent() for ax in fig.axes for t in ax.texts if t.get_text()]
    limits = {45: 630, 980: 1565}  # where a box's text starts: where it has to end
    outside = [b for b in boxes if b.x0 < 0 or b.y0 < 0 or b.x1 > limits.get(round(b.x0), 1600)]
    return [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)] + outside


LONG = (
    "Revenue rose from $70 billion to $94.9 billion, WITH GROWTH IN EVERY SEGMENT 1,234,567,890 and more. "
    * 4
)


@pytest.mark.parametrize(
    "given",
    [
        result(),
        result(ref=[LONG] * 4, ans=[LONG, HOSTILE, "x" * 400]),
        result(ans=[], match=[-1] * 4, score=[0.0] * 4),
        result(
            ref=[LONG] * 40, ans=[LONG] * 60, match=list(range(20, 60)), score=[i / 40 for i in range(40)]
        ),
        replace(result(), model="a model of a family of long names, 1.5B, quantised, closed book"),
    ],
    ids=["small", "long", "empty", "many", "long name"],
)
def test_alignment_figure_never_overlaps(given):
    assert overlaps(point_figures.alignment_figure(given)) == []


def test_alignment_figure_draws_scores_gaps_and_sums():
    fig = point_figures.alignment_figure(result())
    shown = texts(fig)
    assert {"0.90", "0.00", "?", "0.40"} <= set(shown)
    assert len(fig.axes[0].lines) == 2                              # r0 and r3 both chose a0
    assert any("EMS-Recall = (0.90 + 0.00 + 0.40) / 3" in t for t in shown)
    many = point_figures.alignment_figure(
        result(ref=["r"] * 40, ans=["a"] * 60, match=[0] * 40, score=[1.0] * 40)
    )
    assert {"… and 26 more, not drawn", "… and 46 more, not drawn"} <= set(texts(many))


def test_extraction_figure_links_points_to_their_passages():
    body = "Revenue was $94.9 billion, up 6%.\nMargins were 46.2%."
    points = ["Revenue was $94.9 billion.", "Margins were 46.2%."]
    fig = point_figures.extraction_figure(f"## **Overview**\n{body}\n{body}", points * 2)
    assert "Overview" in texts(fig)                      # without Markdown's marks
    starts, ends = zip(*[line.get_ydata() for line in fig.axes[0].lines], strict=True)
    assert len(set(starts)) == len(set(ends)) == 4  # the repeated points lead to the repeated passages
    assert overlaps(point_figures.extraction_figure(LONG * 10, [LONG] * 30)) == []
    assert "no points" in texts(point_figures.extraction_figure("Sorry, no.", []))


def values():
    rows = [("EMS(LLM)", "F1", model, f"{group}-Q{q}", group, 0.1 * q if q < 3 else NAN, 1, 1, 1, 0, "s")
            for model in (SMALL, LARGE) for group in ("AAPL", "JPM") for q in (1, 2, 3)]
    return pd.DataFrame(
        rows,
        columns=[
            "metric", "part", "model", "triplet_id", "group", "value", "num", "den", "units", "unscored",
            "signature"],
    )


def test_heatmap_has_a_panel_per_model_on_one_scale():
    fig = figures.heatmap(values(), "EMS(LLM)")
    panels = [ax for ax in fig.axes if ax.get_title(loc="left")]
    assert [ax.get_title(loc="left") for ax in panels] == [SMALL, LARGE]
    assert [ax.collections[0].get_clim() for ax in panels] == [pytest.approx((0.1, 0.2))] * 2
    assert [t.get_text() for t in panels[0].texts] == ["0.10", "0.20"] * 2  # Q3 is unscored: no number
    assert [t.get_text() for t in panels[0].get_xticklabels()] == ["Q1", "Q2", "Q3"]
    one = figures.heatmap(values(), "EMS(LLM)", [LARGE])
    assert [ax.get_title(loc="left") for ax in one.axes if ax.get_title(loc="left")] == [LARGE]


def test_heatmap_of_many_groups_draws_them_as_one():
    many = pd.concat([values().assign(group=f"doc {i}", subset="ab"[i % 2]) for i in range(41)])
    first = figures.heatmap(many, "EMS(LLM)").axes[0]
    assert [t.get_text() for t in first.get_yticklabels()] == ["all 41"]
    assert [t.get_text() for t in first.texts] == ["0.10", "0.20"]
    assert len(figures.heatmap(many, "EMS(LLM)", rows="subset").axes) == 3
    with pytest.raises(InputError, match="no column 'sector'"):
        figures.heatmap(many, "EMS(LLM)", rows="sector")
    with pytest.raises(InputError, match=r"no values of BLEU Score to draw; there are EMS\(LLM\)"):
        figures.heatmap(many, "BLEU")


def test_heatmap_of_a_metric_with_one_value_needs_no_part():
    fig = figures.heatmap(values().assign(metric="BLEU", part="Score"), "BLEU")
    assert fig.axes[-1].get_ylabel() == "BLEU Score, colours from 0.10 to 0.20"


def test_scaling_figure_shows_values_from_0():
    fig = figures.scaling_figure(OURS, {LARGE: 90, SMALL: 1})
    bleu, ems = fig.axes
    assert [ax.get_title(loc="left") for ax in (bleu, ems)] == ["BLEU", "EMS(LLM) F1"]
    assert ems.get_xscale() == "log"
    assert [t.get_text() for t in ems.get_xticklabels()] == ["1", "90"]
    assert [0.25, 0.5] in [list(line.get_ydata()) for line in ems.lines]
    assert ems.get_ylim() == (0, pytest.approx(1.12 * 0.55))          # the upper end of the longest interval
    assert {"0.250 → 0.500, ×2.00; intervals apart", "0.250", "0.500"} <= {t.get_text() for t in ems.texts}
    assert "0.333 → 0.030, ×0.09; no interval" in texts(fig)


def test_scaling_figure_names_the_paired_p_of_last_and_first():
    rows = summary(
        [
            ("BLEU", "Score", m, v, v - 0.01, v + 0.01, 9, 0, 9)
            for m, v in (("a", 0.1), ("b", 0.2), ("c", 0.3))
        ]
        + [("ROUGE", "F1", m, 0.1, 0.09, 0.11, 9, 0, 9) for m in "abc"]
        + [("BERTScore", "Score", m, 0.1, 0.09, 0.11, 9, 0, 9) for m in "abc"]
    )
    paired = pd.DataFrame(
        [
            ("BLEU", "Score", "b", "a", 0.5),
            ("BLEU", "Score", "c", "a", 0.1251),
            ("BLEU", "Score", "c", "b", 0.9),
            ("ROUGE", "F1", "c", "a", 0.0002),
            ("ROUGE", "Recall", "c", "a", 0.7),
        ],
        columns=["metric", "part", "a", "b", "p_holm"],
    )
    said = texts(figures.scaling_figure(rows, {"a": 1, "b": 2, "c": 3}, paired=paired))
    assert {"0.100 → 0.300, ×3.00; p (Holm) = 0.13", "0.100 → 0.100, ×1.00; p (Holm) < 0.001",
            "0.100 → 0.100, ×1.00; no paired test"} <= set(said)


def test_a_metric_has_its_colour_by_what_judges_its_points():
    rows = [(metric, "Score", "a", 0.1, 0.1, 0.2, 5, 0, 5) for metric in
            ("BLEU", "RAGChecker", "EMS(ROUGE)", "EMS(LLM)", "EMS(local)", "EMS-Support", "Jaccard")]
    for table, of_rouge in ((rows, figures.BLUE), (rows[:3] + rows[4:], figures.GREEN)):
        drawn = {ax.get_title(loc="left"): ax._left_title.get_color()
                 for ax in figures.scaling_figure(summary(table), {"a": 1}).axes if ax.get_visible()}
        assert drawn.pop("EMS(LLM)", figures.BLUE) == figures.BLUE
        assert drawn == {"BLEU": figures.ORANGE, "Jaccard": figures.ORANGE, "RAGChecker": figures.PINK,
                         "EMS(ROUGE)": of_rouge, "EMS(local)": figures.GREEN, "EMS-Support": figures.GREEN}


def test_scaling_figure_with_names_for_sizes():
    fig = figures.scaling_figure(OURS, {LARGE: "with the call", SMALL: "closed book"})
    ax = fig.axes[1]
    assert ax.get_xscale() == "linear"
    assert [t.get_text().replace("\n", " ") for t in ax.get_xticklabels()] == ["with the call", "closed book"]
    assert "0.500 → 0.250, ×0.50; intervals apart" in texts(fig)
    fig = figures.heatmap(values().dropna(subset="value"), "EMS(LLM)", models={LARGE: "with the call", SMALL: 1.0})
    assert [ax.get_title(loc="left") for ax in fig.axes[:2]] == ["with the call", SMALL]


def test_scaling_figure_survives_a_metric_that_starts_at_zero_or_misses_a_model():
    rows = summary(
        [
            ("BLEU", "Score", "a", 0.0, 0.0, 0.0, 9, 0, 9),
            ("BLEU", "Score", "b", 0.1, 0.0, 0.2, 9, 0, 9),
            ("ROUGE", "F1", "a", 0.1, 0.1, 0.2, 9, 0, 9),
        ]
    )
    said = texts(figures.scaling_figure(rows, {"a": 1, "b": 2}))
    assert {"0.000 → 0.100; intervals overlap", "0.000", "nothing to compare with"} <= set(said)
    with pytest.raises(InputError, match="sizes must name models of the summary"):
        figures.scaling_figure(rows, {"c": 1})


def test_saved_figures_are_1600_wide_and_the_same_every_time(tmp_path):
    one, two = (
        figures.save(point_figures.alignment_figure(result()), tmp_path / "deep" / name)
        for name in ("1.png", "2.png")
    )
    assert one.read_bytes() == two.read_bytes()
    assert int.from_bytes(one.read_bytes()[16:20], "big") == 1600
    assert b"Software" not in one.read_bytes()


@pytest.mark.parametrize(("given", "ends"), [
    ([0.02, 0.347], (0.0, 0.35)), ([0.3, 0.3], (0.3, 0.35)), ([0.81, 0.9], (0.8, 0.9)), ([NAN], (0.0, 1.0)),
])
def test_the_heat_maps_colours_span_the_values(given, ends):
    rows = [("EMS(LLM)", "F1", SMALL, f"A-Q{i}", "A", v, 1, 1, 1, 0, "s") for i, v in enumerate(given)]
    fig = figures.heatmap(pd.DataFrame(rows, columns=values().columns), "EMS(LLM)")
    assert fig.axes[0].collections[0].get_clim() == pytest.approx(ends)
    assert f"colours from {ends[0]:.2f} to {ends[1]:.2f}" in fig.axes[-1].get_ylabel()


def test_views_of_one_answer_load_nothing_heavy():
    code = ("import sys; from ems.results import alignment; from ems.types import EMSResult\n"
            "r = EMSResult('t', 'm', ('r',), ('a',), (0,), (1.0,), 1.0, 1.0, 1.0, 0, 's')\n"
            "alignment.alignment_text(r), alignment.alignment_html(r)\n"
            "print(sorted({'numpy', 'pandas', 'matplotlib', 'scipy', 'seaborn'} & set(sys.modules)))")
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
