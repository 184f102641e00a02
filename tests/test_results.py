"""What users do with results: read them back, send them as a page, compare two sets of them."""

import base64
import gzip
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import ems
from ems.baselines import LABELS
from ems.cli import main
from ems.io import write_jsonl
from ems.judge.unread import is_readable
from ems.reading import read_word
from ems.results.alignment import alignment_rows
from ems.results.page import kind_of, report_html
from ems.results.saved import load_results
from ems.types import EMSResult, InputError, Triplet

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e${1+1}"


def result(model="m", triplet="t1", match=(0, -1, None), score=(0.8, 0.0, None), **more):
    """Three reference points (matched, missing, unscored) and two answer points, of which one is unmatched."""
    from ems.pipeline import with_metrics

    points = {"ref_points": ("Revenue rose 6%.", "Margin was 46%.", "Cash fell."), "ans_points": ("Up 6%.", "Fine.")}
    return with_metrics(EMSResult(triplet, model, match=match, score=score, signature="s", **{**points, **more}))


def packed(page):
    return json.loads(gzip.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', page)[1])))


# ---- read back -----------------------------------------------------------------------------------

def test_results_come_back_as_they_were_written(tmp_path):
    should_not_be_said = result("n", "t2", ref_weights=(2.0, -1.0, 1.0), given=("vital", "harm", "vital"))
    results = [result(), result("n"), result(triplet="t2", ref_points=("a",), match=(-1,), score=(0.0,)),
               should_not_be_said]
    path = write_jsonl(tmp_path / "r.jsonl", results)
    assert load_results(path) == {"EMS": results}


def test_a_runs_alignments_are_read_by_metric(tmp_path):
    rows = [{"metric": name, **result().to_dict()} for name in ("EMS(LLM)", "EMS(local)")]
    assert load_results(write_jsonl(tmp_path / "r.jsonl", rows)) == {
        "EMS(LLM)": [result()], "EMS(local)": [result()]}


@pytest.mark.parametrize(("change", "says"), [
    ({"f1": 2}, "line 1: 'f1'"),
    ({"model": ""}, "'model' is empty"),
    ({"match": [0, -1]}, "'match' must have an entry per point, 3, got 2"),
    ({"match": [0, 5, None]}, "'match' names point 5 of 2, counted from 0"),
    ({"match": [0, -2, None]}, "'match[1]'"),
    ({"score": [0.8, math.inf, None]}, "'score[1]'"),
    ({"ans_score": [0.5]}, "'ans_score' must have an entry per point, 2, got 1"),
    ({"ref_points": "abc"}, "'ref_points' must be a list"),
    ({"support": 5}, "'support' must be a list"),
    ({"support": [{"label": "silent"}]}, "'support' must have an entry per point, 2, got 1"),
    ({"given": ["vital"]}, "'given' must have an entry per point, 3, got 1"),
    ({"ans_score": [], "ans_weights": [1.0, 1.0]}, "'ans_weights' must have an entry per point, 0, got 2"),
    ({"other": 1}, "not a result of ems evaluate"),
])
def test_what_is_no_result_is_one_clear_line(tmp_path, change, says):
    (tmp_path / "r.jsonl").write_text(json.dumps({**result().to_dict(), **change}) + "\n")
    with pytest.raises(InputError) as error:
        load_results(tmp_path / "r.jsonl")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_second_result_of_an_answer_is_refused(tmp_path):
    with pytest.raises(InputError, match="line 2: EMS of 't1' by 'm' stands already on line 1"):
        load_results(write_jsonl(tmp_path / "r.jsonl", [result(), result()]))


# ---- one page ------------------------------------------------------------------------------------

class Page(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def test_every_kind_of_point_is_named():
    kinds = [kind_of(row) for row in alignment_rows(result())]
    assert kinds == ["covered", "missing", "unscored", "unmatched"]
    whole = EMSResult("t", "m", ("a", "b"), ("x", "y"), (0, -1), (1.0, 0.0), ans_score=(0.3, 0.0),
                      ans_match=(0, -1), whole_sides=True)
    assert [kind_of(row) for row in alignment_rows(whole)] == ["covered", "missing", "partly", "unmatched"]


def test_the_page_holds_every_answer_and_the_same_rows_as_the_other_views():
    results = [result(), result("n", score=(0.3, 0.0, None))]
    page = report_html(results, triplets=[Triplet("t1", "Apple", "How was the quarter?", "r")])
    data = packed(page)
    assert [data["models"][a["model"]] for a in data["answers"]] == ["m", "n"]
    assert data["questions"] == [{"id": "t1", "group": "Apple", "text": "How was the quarter?"}]
    assert [row[0] for row in data["answers"][1]["rows"]] == ["partly", "missing", "unscored", "unmatched"]
    assert data["answers"][0]["recall"] == 0.4                     # 0.8 and 0 over the two that are scored
    assert data["answers"][0]["unscored"] == 1
    assert data["texts"].count("Revenue rose 6%.") == 1            # a text is stored once


def test_the_summary_is_there_without_a_script():
    page = report_html([result(), result("n")])
    table = page[page.index('class="summary"'):page.index('id="answers"')]
    assert "0.400" in table
    assert "66.6 % †" in table                                     # two of three points are scored
    assert "No interval where there are fewer than 6" in page


def test_hostile_texts_stay_text_and_nothing_is_loaded(tmp_path):
    bad = result(HOSTILE, HOSTILE, ref_points=(HOSTILE, "b", "c"), ans_points=(HOSTILE, "d"), reason=HOSTILE)
    bad = replace(bad, signature=HOSTILE)
    triplets = [Triplet(HOSTILE, HOSTILE, HOSTILE, "r")]
    page = report_html({HOSTILE: [bad]}, triplets=triplets, title=HOSTILE, unread=[(HOSTILE, HOSTILE)])
    seen = Page(page)
    assert seen.tags.count("script") == 2                          # the data and the page's own
    assert "img" not in seen.tags
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href", "style")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    data = json.dumps(packed(page))
    assert "\\u001b" not in data
    assert "\\u202e" not in data


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else():
    page = report_html([result()])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        source = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert parts[directive] == f"'sha256-{digest}'"


def test_equal_results_make_equal_files():
    assert report_html([result()]) == report_html([result()])


def test_five_hundred_answers_make_a_small_page():
    reference = tuple(f"Revenue of segment {i} rose {i}% to ${i}.5 billion in the quarter." for i in range(30))
    results = [EMSResult(f"t{i}", "m", reference, tuple(f"Segment {i + k}: ${k}.5 billion." for k in range(30)),
                         (-1,) * 30, (0.0,) * 30, 0.0, 0.0, 0.0, 0, "s", ans_score=(0.0,) * 30) for i in range(500)]
    page = report_html(results)
    assert len(packed(page)["answers"]) == 500
    assert len(page) < 400_000


def test_the_command_writes_the_page(tmp_path, capsys):
    path = write_jsonl(tmp_path / "r.jsonl", [result()])
    out = tmp_path / "report.html"
    assert main(["report", str(path), "-o", str(out), "--title", "My systems"]) == 0
    assert "1 results in" in capsys.readouterr().out
    assert "<h1>My systems</h1>" in out.read_text(encoding="utf-8")
    assert main(["report", str(path), "-o", str(path)]) == 2
    assert "would be lost" in capsys.readouterr().err
    assert load_results(path)


def test_replies_that_could_not_be_read_are_quoted(tmp_path, capsys):
    from ems.judge.store import Record, Replies

    store = Replies(tmp_path / "s.sqlite")
    for key, task, text, finish in (("a", "match", "I think both fit", "stop"), ("b", "match", "Answer: 2", "stop"),
                                    ("c", "extract", '{"points": ["cut', "length"), ("d", "score", "7/10", "stop"),
                                    ("e", "score", '{"scores": [1, 2]}', "stop"), ("f", "entail", "Neutral", "stop")):
        store.put(Record(key=key * 64, task=task, model="j", text=text, finish_reason=finish))
    assert main(["replies", "show", "--unread", "--store", str(tmp_path / "s.sqlite")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert 'cccccccccccc  extract  j  length: {"points": ["cut' in lines
    assert any("unreadable: I think both fit" in line for line in lines)
    path, out = write_jsonl(tmp_path / "r.jsonl", [result()]), tmp_path / "o.html"
    assert main(["report", str(path), "-o", str(out), "--store", str(tmp_path / "s.sqlite")]) == 0
    page = out.read_text(encoding="utf-8")
    assert "Replies that could not be read: 2" in page
    assert "I think both fit" in page


@pytest.mark.parametrize(("reply", "readable"), [
    ("Label: Entailment", True), ("neutral.", True), ('{"labels": ["Neutral"]}', True), ("Perhaps", False)])
def test_a_label_is_readable_when_the_check_of_claims_can_read_it(reply, readable):
    assert is_readable("entail", reply) is readable
    if not reply.startswith("{"):
        assert (read_word(reply, LABELS) is not None) is readable


# ---- two sets compared ---------------------------------------------------------------------------

def many(model, gain=0.0, n=8):
    """An answer to each of n questions: one matched point of score 0.2 and one of 0.4, each plus the gain."""
    return [EMSResult(f"t{i}", model, ("a", "b"), ("x", "y"), (0, 1), (0.2 + gain, 0.4 + gain), 0.3 + gain, 0.3 + gain,
                      0.3 + gain, 0, "s", ans_score=(0.2 + gain, 0.4 + gain)) for i in range(n)]


def test_a_known_difference_comes_out_with_its_exact_p():
    found = ems.compare(many("m"), many("m", 0.5))
    f1 = found.parts.set_index("part").loc["F1"]
    assert f1["difference"] == pytest.approx(0.5)
    assert (f1["a"], f1["b"]) == (pytest.approx(0.3), pytest.approx(0.8))
    assert f1["p"] == pytest.approx(2 / 2**8)             # all eight signs alike, and their mirror image
    assert (f1["n"], f1["clusters"], f1["only_a"], f1["only_b"]) == (8, 8, 0, 0)
    assert list(found.points["change"]) == pytest.approx([0.5] * 16)


def test_results_are_joined_by_id_whatever_their_order():
    a, b = many("m"), many("m", 0.1)
    turned = ems.compare(a, b[::-1])
    straight = ems.compare(a, b)
    assert turned.parts.equals(straight.parts)
    assert turned.answers.equals(straight.answers)


def test_two_models_are_compared_by_question_and_what_one_side_lacks_is_counted():
    found = ems.compare(many("small")[:7], many("large", 0.5)[1:])
    row = found.parts.iloc[0]
    assert row["model"] == "small → large"
    assert (row["n"], row["only_a"], row["only_b"]) == (6, 1, 1)


def test_several_models_are_joined_by_name_and_the_others_named():
    found = ems.compare(many("m") + many("n"), many("m", 0.1) + many("k"))
    assert list(found.parts["model"].unique()) == ["m"]
    assert found.left_out == ("k", "n")


def test_points_are_joined_by_their_text():
    a = [replace(r, ref_points=("b", "a"), score=(0.9, 0.1)) for r in many("m", n=1)]
    b = many("m", n=1)                                     # "a" scores 0.2 and "b" 0.4 here
    found = ems.compare(a, b)
    assert {row.point: (row.a, row.b) for row in found.points.itertuples()} == {"b": (0.9, 0.4), "a": (0.1, 0.2)}
    assert (found.ref_points, found.shared_points) == (2, 2)
    other = ems.compare(a, [replace(r, ref_points=("c", "a")) for r in b])
    assert other.shared_points == 1


def test_an_unscored_answer_is_no_zero():
    lost = replace(many("m")[0], recall=math.nan, precision=math.nan, f1=math.nan, score=(None, None), unscored=2)
    found = ems.compare([lost, *many("m")[1:]], many("m", 0.1))
    row = found.parts.set_index("part").loc["F1"]
    assert (row["n"], row["unscored"]) == (7, 1)
    assert row["difference"] == pytest.approx(0.1)


def test_nothing_to_compare_says_what_both_have():
    with pytest.raises(InputError, match="nothing to compare: A has answers of 'm' to 't0'"):
        ems.compare(many("m", n=1), [replace(r, triplet_id="u") for r in many("m", n=1)])


def test_the_command_compares_two_files(tmp_path, capsys):
    paths = [str(write_jsonl(tmp_path / name, rows))
             for name, rows in (("a.jsonl", many("m")), ("b.jsonl", many("m\x1b[31m", 0.25)))]
    assert main(["compare", *paths, "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "+0.250" in shown
    assert "0.30 → 0.55 (+0.25)  t0" in shown
    assert "\x1b" not in shown
    assert main(["compare", *paths, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["part"] for row in data["parts"]} == {"Recall", "Precision", "F1"}
    assert data["shared_points"] == 16


def test_a_file_of_several_metrics_needs_one_named(tmp_path, capsys):
    rows = [{"metric": name, **r.to_dict()} for name in ("EMS(LLM)", "EMS(local)") for r in many("m")]
    path = str(write_jsonl(tmp_path / "a.jsonl", rows))
    assert main(["compare", path, path]) == 2
    assert "name one with --metric" in capsys.readouterr().err
    assert main(["compare", path, path, "--metric", "EMS(LM)"]) == 2
    assert "did you mean 'EMS(LLM)'?" in capsys.readouterr().err
    assert main(["compare", path, path, "--metric", "EMS(LLM)"]) == 0
