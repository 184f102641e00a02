"""The report: one page with every answer, which runs nothing but its own script.

It says what its words mean.
"""

import base64
import gzip
import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from pages import assert_runs_only_its_own

from ems.analysis.frames import to_frame
from ems.analysis.report import save_report
from ems.metrics import ems_scores
from ems.results import CoverageResult, EMSResult, Figures, ScoreResult, SideFigures, Support
from ems.types import WITHOUT_JUDGE, Answer, InputError, Triplet

HOSTILE = (
    "</script><script>document.title='broken'</script><img src=x onerror=alert(2)>"
    "\x1b[31m\u202e${1+1}"
)
SUPPORT = (Support("contradicted", 4, "Revenue fell."), Support("supported", 5, "All is fine."))
# "6%" in "Revenue rose 6%.", and "6%" in "Up 6%."
FIGURES = Figures(SideFigures(4, 3, ((0, 13, 15),)), SideFigures(5, 3, ((0, 3, 5),)), ((0, 3, 5),))


def result(model="m", triplet="t1", match=(0, -1, None), score=(0.8, 0.0, None), **more):
    """Three reference points (matched, not covered, unscored), two answer points."""
    m = ems_scores(match, score, 2)
    fields = {
        "ref_points": ("Revenue rose 6%.", "Margin was 46%.", "Cash fell."),
        "ans_points": ("Up 6%.", "Fine."),
        "signature": {"judge": "j"},
        "question": f"How was {triplet}?",
        "group": "Apple",
    } | more
    return EMSResult(
        triplet,
        model,
        match=match,
        score=score,
        recall=m.recall,
        precision=m.precision,
        f1=m.f1,
        unscored=m.unscored,
        reason=m.reason,
        **fields,
    )


@pytest.fixture
def page_of(tmp_path):
    def write(results):
        results = results if isinstance(results, dict) else {"EMS(LLM)": results}
        return save_report(results, tmp_path / "report.html").read_text(encoding="utf-8")

    return write


def packed(page):
    """What the script reads: names and texts in one dictionary, with the answers."""
    data = base64.b64decode(re.search(r'id="data">([^<]*)<', page)[1])
    *answers, names = [json.loads(line) for line in gzip.decompress(data).decode().split("\n")]
    return {**names, "answers": answers}


def visible_text(page):
    main = page[page.index("<main>") : page.index('id="data"')]
    shown = re.sub(r"<(p|section|details|div)[^>]* hidden>.*?</\1>", "", main, flags=re.S)
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", shown))


# --- what the page holds ---


def test_every_answer_is_there_with_its_rows_and_a_text_only_once(page_of):
    data = packed(
        page_of([result(support=SUPPORT), result("n", score=(0.3, 0.0, None), support=SUPPORT)])
    )
    assert data["models"] == ["m", "n"]
    assert data["questions"] == [["t1", "Apple", "How was t1?"]]
    assert list(data["answers"][0]["values"]) == ["recall", "precision", "f1"]
    first, second = data["answers"]
    assert [row[:4] for row in second["rows"]] == [
        [0, 0, "in part", 0.3],
        [1, None, "not covered", 0.0],
        [2, None, "unscored", None],
        [None, 1, "not in the reference", 0.0],
    ]
    assert (first["values"]["recall"], first["unscored"]) == (0.4, 1)
    assert first["support"][0] == [
        "contradicted",
        data["texts"].index("document: contradicted; passage 4: Revenue fell."),
    ]
    assert data["texts"].count("Revenue rose 6%.") == 1


def test_the_summary_needs_no_script(page_of):
    answers = [result(triplet=f"t{i}", group=f"g{i}", support=SUPPORT) for i in range(6)]
    text = visible_text(page_of(answers))
    assert "0.400 [0.400, 0.400]" in text
    assert "66.6 % †" in text  # of three reference points two have a score
    assert "over groups (6 groups;" in text
    assert text.startswith(" “m” states 40 % of what the references say (recall 0.400 [0.400, ")
    # Points, unscored, supported, contradicted, silent, unmatched.
    assert "m 12 0 0.500 0.500 0.000 0.500 EMS(LLM)" in text


def test_models_are_compared_two_by_two_where_a_page_can_show_it(page_of):
    def page(*models):
        answers = []
        for model in models:
            score = (0.3 if model == "m0" else 0.2, 0.0, 0.0)
            for i in range(6):
                answers.append(
                    result(model, f"t{i}", group=f"g{i}", match=(0, -1, -1), score=score)
                )
        return visible_text(page_of(answers))

    assert "m1 m0 EMS(LLM) F1 m0 -0.040 [-0.040, -0.040] 0.031" in page("m0", "m1")
    assert "m1 m0" not in page("m0", *(f"m{i}" for i in range(1, 6)))
    assert "Differences between" not in page("m0")


def test_with_the_worst_answers_alone_the_summary_is_of_all_and_says_so(tmp_path):
    values = to_frame({"EMS(LLM)": [result(triplet=f"t{i}") for i in range(1, 8)]})

    def text(*values):
        path = save_report({"EMS(LLM)": [result()]}, tmp_path / "r.html", *values)
        return visible_text(path.read_text(encoding="utf-8"))

    page = text(values)
    assert "m EMS(LLM) 0.400 0.400 0.400 0.500 0.000 7 66.6 % †" in page
    assert "model answers m 7 A dot is" in page  # the points of the rest are not known
    assert "The tables are of all answers. The lists below show some only" in page
    assert "The lists below show some only" not in text()


def test_all_kinds_of_results_stand_in_one_page(page_of):
    values = {"recall": 0.5, "precision": 0.4, "f1": 0.44}
    local = CoverageResult(
        "t1", "m", ("a", "b"), ("x",), (1.0, 0.1), (0.4,), **values, group="Apple"
    )
    alone = ScoreResult("t1", "m", value=math.nan, unscored=1, reason="timeout", group="Apple")
    alone = replace(alone, signature={"judge": "j"})
    page = page_of({"EMS(LLM)": [result()], "Coverage(local)": [local], "Judge alone": [alone]})
    data = packed(page)
    assert data["metrics"] == ["EMS(LLM)", "Judge alone", "Coverage(local)"]  # words stand last
    assert list(data["answers"][2]["values"]) == ["recall", "precision", "f1"]
    assert (data["answers"][1]["values"], data["answers"][1]["rows"]) == ({"value": None}, [])
    assert [row[2] for row in data["answers"][2]["rows"]] == ["covered", "not covered", "in part"]
    text = visible_text(page)
    assert text.startswith(" “m” states")
    places = [text.index(f" {name} Model ") for name in data["metrics"]]
    assert places == sorted(places)
    warning = text.index(f" {WITHOUT_JUDGE} This is said of Coverage(local). ")
    assert warning < places[0]  # before the first plot, and after what a judge found
    assert text.count(WITHOUT_JUDGE) == 1


def test_what_a_judge_scored_stands_before_what_it_prepared(page_of):
    rouge = result(signature={"judge": "j", "score": "rouge:rougeL"})
    page = page_of({"EMS(ROUGE)": [rouge], "EMS(LLM)": [result()]})
    assert packed(page)["metrics"] == ["EMS(LLM)", "EMS(ROUGE)"]
    assert visible_text(page).startswith(" EMS(LLM): “m” states")


def test_the_warning_of_values_without_a_judge_is_read_before_them(page_of):
    judged, local = result(), result(signature={"match": "words#1"})
    text = visible_text(page_of([local]))
    assert text.startswith(" Only words and figures were compared, not meaning. ")
    assert f" {WITHOUT_JUDGE} This is said of EMS(LLM). Summary " in text
    assert WITHOUT_JUDGE not in visible_text(page_of([judged]))
    # One model's results are enough.
    assert WITHOUT_JUDGE in visible_text(page_of([judged, replace(local, model="n")]))


def test_figures_that_other_texts_lack_are_marked_in_the_points(page_of):
    data = packed(page_of([replace(result(), figures=FIGURES)]))
    answer = data["answers"][0]
    first = data["texts"][answer["ref"][0]], data["texts"][answer["ans"][0]]
    assert first == (
        "Revenue rose [6%: not in the answer].",
        "Up [6%: not in the reference or the document].",
    )


def test_long_names_lose_their_middle_and_stay_apart(page_of):
    models = [f"/checkpoints/{'x' * 5000}/step-{step}" for step in (100, 200)]
    data = packed(page_of([result(model) for model in models]))
    assert [model[-8:] for model in data["models"]] == ["step-100", "step-200"]
    assert max(map(len, data["models"])) <= 80


def test_equal_results_make_equal_files_and_no_results_are_refused(page_of):
    assert page_of([result()]) == page_of([result()])
    for nothing in ({}, {"EMS(LLM)": []}):
        with pytest.raises(InputError, match="no results to report"):
            page_of(nothing)


def test_a_thousand_answers_make_a_small_page(page_of):
    reference = tuple(
        f"Revenue of segment {i} rose {i}% to ${i}.5 billion in the quarter." for i in range(30)
    )
    answers = [
        result(triplet=f"t{i}", ref_points=reference, match=(-1,) * 30, score=(0.0,) * 30)
        for i in range(1000)
    ]
    assert len(page_of(answers)) < 200_000


def test_the_head_says_what_was_evaluated_and_of_which_day_a_file_is(tmp_path):
    answers = []
    for i in range(3):
        answers += [result("a", f"t{i}", group=f"g{i}"), result("b", f"t{i}", group=f"g{i}")]
    path = tmp_path / "r.html"
    save_report({"EMS(LLM)": answers}, path, sources=["old.jsonl", "new.jsonl"])
    page = path.read_text(encoding="utf-8")
    assert "<h1>EMS report: a and b</h1>" in page
    assert "answers: 6 · models: 2 · questions: 3 · groups: 3 · judge: j · " in page
    assert "from old.jsonl and new.jsonl</p>" in page
    assert "confidential" in page
    source = tmp_path / "new.jsonl"
    source.write_text("")
    os.utime(source, (0, 1_795_500_000))  # read and written
    save_report({"EMS(LLM)": answers}, path, sources=[source])
    dated = path.read_text(encoding="utf-8")
    assert "new.jsonl (written on 24 November 2026)</p>" in dated
    os.utime(source, (1_800_000_000, 1_795_500_000))  # read later
    save_report({"EMS(LLM)": answers}, path, sources=[source])
    assert path.read_text(encoding="utf-8") == dated
    save_report({"EMS(LLM)": answers}, path, title="Q3 <b>")
    page = path.read_text(encoding="utf-8")
    assert page.count("Q3 &lt;b&gt;") == 2  # the heading and the title of the window


def test_means_are_dots_with_intervals_that_end_at_0_and_1(page_of):
    recalls = [1.0] * 7 + [0.6]
    answers = []
    for i, recall in enumerate(recalls):
        answers.append(ScoreResult(f"t{i}", "m", value=recall, group=f"g{i}"))
    page = page_of({"Judge alone": answers})
    assert '<path class="interval" d="M83.2 5H100.0"/>' in page  # 0.95 minus 0.118, and plus
    assert '<path class="mean" d="M95.0 5h0"/>' in page
    assert "0.950 [0.832, 1.000]" in visible_text(page)
    few = page_of({"Judge alone": answers[:5]})
    assert 'class="mean"' in few
    assert 'class="interval"' not in few


def test_points_are_counted_by_what_is_said_of_them(page_of):
    refusal = result(triplet="t2", match=(-1,) * 3, score=(0.0,) * 3, ans_points=())
    text = visible_text(page_of([result(), refusal]))
    assert "model answers refused covered not covered unscored m 2 1 1 4 1 " in text


def test_a_long_table_of_counts_is_folded(page_of):
    page = page_of([result(f"m{i}") for i in range(11)])
    assert "<summary>Counts of points</summary>" in page
    assert "Counts of points" not in page_of([result(f"m{i}") for i in range(10)])


def test_whole_texts_stand_beside_the_points_where_they_are_given(tmp_path):
    answered = [Answer("t1", "m", "Up 6%.\n\nFine.\x1b[2J"), Answer("t9", "m", "Not scored.")]
    triplets = [Triplet("t1", "Apple", "How?", "Revenue rose 6%."), Triplet("t9", "g", "?", "r")]
    alone = ScoreResult("t1", "n", value=0.5)
    path = tmp_path / "r.html"
    results = {"EMS(LLM)": [result()], "Judge alone": [alone]}
    save_report(results, path, triplets=triplets, answers=answered)
    data = packed(path.read_text(encoding="utf-8"))
    first, second = data["answers"]
    whole = [data["texts"][place] for place in first["whole"]]
    assert whole == ["Revenue rose 6%.", "Up 6%.\n\nFine.\ufffd[2J"]
    assert second["whole"] == []
    assert "Not scored." not in data["texts"]


def test_a_column_without_a_value_is_left_out(page_of):
    scores = [ScoreResult(f"t{i}", "m", value=0.5, group=f"g{i}") for i in range(6)]
    alone = visible_text(page_of({"Judge alone": scores}))
    assert " model metric Score n scored m Judge alone 0.500 [0.500, 0.500] 6 " in alone
    assert " – " not in alone.split("what they mean")[1].split("Means over answers")[0]


def test_the_page_knows_of_each_answer_its_figures_and_whether_a_judge_was_asked(page_of):
    with_figures = replace(result(signature={"match": "words#1"}), figures=FIGURES)
    answers = packed(page_of([with_figures, result("n")]))["answers"]
    known = [(answer["judged"], answer["figures"]) for answer in answers]
    assert known == [(False, [3, 5]), (True, None)]


# --- what comes from outside ---


def hostile():
    return result(
        HOSTILE,
        HOSTILE,
        ref_points=(HOSTILE, "b", "c"),
        ans_points=(HOSTILE, "d"),
        signature={HOSTILE: HOSTILE},
        question=HOSTILE,
        group=HOSTILE,
        support=(Support("silent", 0, HOSTILE), Support(None, reason=HOSTILE)),
    )


def test_hostile_texts_stay_text_and_nothing_is_loaded(page_of):
    page = page_of({HOSTILE: [hostile()]})
    assert page.count("<script") == page.count("</script>") == 2  # the data and the page's own
    assert "<img" not in page
    assert not re.search(r"<[^>]*\s(on\w+|src|href|style)=", page)
    everything = page + json.dumps(packed(page), ensure_ascii=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", everything)


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(page_of):
    assert_runs_only_its_own(page_of([result()]))


@pytest.mark.slow
def test_a_browser_draws_the_worst_answer_first_and_opens_the_one_in_its_address(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no browser here")
    good = result("good", score=(0.9, 0.0, None))
    bad = result("bad", score=(0.1, 0.0, None), support=SUPPORT)
    bad = replace(bad, figures=FIGURES)
    path = save_report({"EMS(LLM)": [good, bad, hostile()]}, tmp_path / "report.html")
    options = "--headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom"

    def drawn(address):
        command = [browser, *options.split(), f"file://{path}{address}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    page = drawn("")
    if "<html" not in page:
        pytest.skip("the browser does not start here")
    rows = re.findall(r'<tr class="answer.*?</tr>', page, re.S)
    for name, row in zip(("bad", "&lt;/script&gt;", "good"), rows, strict=True):
        assert name in row
    assert "<td>2 of 2</td><td>Margin was 46%.</td>" in page  # what most answers miss
    assert (
        "3 of 3 answers. Reference points: 2 covered, 1 in part, 3 not covered, 3 unscored." in page
    )
    assert "<small>t1 · Apple</small> How was t1? " in page
    assert re.search("<title>EMS report: good, bad and &lt;/script&gt;[^<]*</title>", page)
    assert "<img" not in page
    opened = drawn("#t1/bad")
    start = opened.index('<tr class="alignment">')
    assert opened.index('class="answer is-open"') < start < opened.index("good</button>")
    alignment = opened[start:]
    assert "document: contradicted; passage 4: Revenue fell." in alignment
    assert 'href="#t1/bad/EMS(LLM)"' in alignment
    title = "6% is not in the reference or the document"
    assert f'Up <span class="figure not-in-document" title="{title}">6%</span>.' in alignment
    assert "<td>2 of 2</td><td>Margin was 46%.</td>" in page


def drawn_after(action, path):
    """What a browser shows of a page after a statement of the test was run in it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no browser here")
    # The page's own policy lets no other script in: the copy has none, and the statement.
    page = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text("utf-8"))
    script = f"<script>setTimeout(() => {{ {action} }}, 1000)</script>"
    path.write_text(page.replace("</body>", f"{script}</body>"), "utf-8")
    options = "--headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom"
    command = [browser, *options.split(), f"file://{path}"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    if "<html" not in drawn:
        pytest.skip("the browser does not start here")
    return drawn


@pytest.mark.slow
def test_the_grid_opens_the_answers_to_a_question_side_by_side(tmp_path):
    answered = [Answer("t1", "good", "Up 6%. Fine."), Answer("t1", "bad", "Down 6%.")]
    results = [result("good"), replace(result("bad"), figures=FIGURES)]
    path = tmp_path / "report.html"
    triplets = [Triplet("t1", "Apple", "How?", "Revenue rose 6%. All.")]
    save_report({"EMS(LLM)": results}, path, triplets=triplets, answers=answered)
    drawn = drawn_after("document.querySelectorAll('.value')[1].click()", path)
    side = re.search(r'<table class="points side">.*?</table>', drawn, re.S)[0]
    assert "<th>Reference</th><th>bad</th><th>good</th>" in side  # the one clicked at is first
    assert "<td>Margin was 46%.</td>" in side
    assert side.count("</span> not covered</td>") == 2
    assert '<td class="whole">Revenue rose 6%. All.</td>' in side
    assert re.search(r'<td class="whole">Down <span class="figure[^>]*>6%</span>.</td>', side)
    assert '<td class="whole">Up 6%. Fine.</td>' in side


@pytest.mark.slow
@pytest.mark.parametrize("is_judged", [False, True])
def test_without_a_judge_the_grid_shows_figures_and_no_contradictions(tmp_path, is_judged):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no browser here")
    signature = {"judge": "j"} if is_judged else {"match": "words#1"}
    answers = [replace(result(m, signature=signature), figures=FIGURES) for m in "ab"]
    silent = replace(
        answers[0], triplet_id="t0", figures=Figures(SideFigures(0, 0), SideFigures(0, 0), None)
    )
    path = save_report({"EMS(LLM)": [silent, *answers]}, tmp_path / "report.html")
    options = "--headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom"
    command = [browser, *options.split(), f"file://{path}"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    if "<html" not in drawn:
        pytest.skip("the browser does not start here")
    cells = re.findall(r'<button class="value"[^>]*>([^<]*)<', drawn)
    f1 = f"{answers[0].f1:.2f}"
    assert cells == ([f1] * 3 if is_judged else ["0.60", "0.60", "no figures"])
    assert ("(Figures Precision)</span> of one answer" in drawn) != is_judged
    assert ('<span id="grid-against">' in drawn) == is_judged  # else it is hidden


@pytest.mark.slow
@pytest.mark.parametrize("word", ["figure not in the answer", "figure not in the reference"])
@pytest.mark.parametrize("is_coverage", [False, True])
def test_a_judged_report_offers_the_points_with_a_figure_that_the_other_side_lacks(
    tmp_path, word, is_coverage
):
    right = result("right")
    if is_coverage:
        texts = {"ref_points": right.ref_points, "ans_points": right.ans_points}
        scores = {"ref_score": (0.8, 0.1, 0.6), "ans_score": (0.8, 0.1), "nearest": (1, 0, 0)}
        signature = {"coverage": "llm:kit#1,max=10", "judge": "j"}
        values = {"recall": 0.5, "precision": 0.5, "f1": 0.5}
        right = CoverageResult("t1", "right", **texts, **scores, **values, signature=signature)
    wrong = replace(right, model="wrong", figures=FIGURES)
    path = save_report([right, wrong], tmp_path / "report.html")
    choice = f"$('word').value = '{word}'; changed(); "
    drawn = drawn_after(choice + "document.querySelector('tr.answer').click()", path)
    assert f'<option value="{word}">' in drawn
    assert "1 of 2 answers." in drawn
    assert re.findall('class="answer[^"]*"><td><button class="open"[^>]*>([^<]*)<', drawn) == [
        "wrong"
    ]
    first = re.search('class="points one-answer">.*?<tbody>(<tr.*?</tr>)', drawn, re.S)[1]
    in_first = "Revenue rose" if word.endswith("answer") or not is_coverage else ">Up <"
    assert in_first in re.sub('<td class="hint">.*?</td>', "", first)
