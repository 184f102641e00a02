import hashlib
import http.server
import json
import math
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from loopback import Loopback

from ems.data import check_join, load_answers, load_triplets, read_frames, to_frame, values_frame
from ems.io import data_path, progress_bar, progress_bars, write_csv, write_jsonl, write_lines
from ems.study.people import upstream as datasets
from ems.study.people.upstream import financebench, findver, findver_claims, ragchecker, rows_of, source
from ems.types import Answer, InputError, Triplet

MIRROR = Path(os.environ.get("EMS_DATA_MIRROR") or Path(__file__).parents[2] / "shared" / "data")
needs_mirror = pytest.mark.skipif(
    not (MIRROR / "findver").is_dir(),
    reason="needs the upstream files; point EMS_DATA_MIRROR at a folder that has them",
)

T = {"id": "a", "group": "g", "question": "q?", "reference": "r"}
A = {"triplet_id": "a", "model": "m", "answer": "x"}
R = {"query_id": "1", "query": "q?", "gt_answer": "r", "response": "x"}


def lines(*rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows).encode()


def without(row, key):
    return {k: v for k, v in row.items() if k != key}


# ---- reading -------------------------------------------------------------------------------------

@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n  \n\xe2\x80\x83\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (lines(T, without(T, "question")), "line 2: 'question' missing"),
        (lines(A), "'id', 'question', 'reference' missing"),  # an answers file given for triplets
        (lines({**T, "reference": 3}), "line 1: 'reference' must be a string, got int '3'"),
        (lines({**T, "question": None}), "'question' must be a string, got NoneType"),
        (lines({**T, "reference": ["r"]}), "'reference' must be a string, got list"),
        (lines({**T, "context": {"text": "c"}}), "'context' must be a string, got dict"),
        (lines(T, {**T, "id": "b"}, T), "line 3: id 'a' occurred already on line 1"),
        (lines({**T, "id": " "}), "line 1: 'id' is empty"),
        (lines(T, {**T, "id": "b", "group": ""}), "line 2: 'group' is empty; it must name something"),
        (lines(T, '{"id": "b", '), "line 2 is not JSON"),
        (lines(T, "id,group"), "line 2 is not JSON: Expecting value at column 1"),
        (b'{"id": "a", "question": "q", "reference": "r", "reference": ""}',
         "line 1 is not JSON: the key 'reference' stands twice"),
        (b'[{"id": "a", "id": "b"}]', "the key 'id' stands twice"),
        (lines("[]"), "is empty"),
        (lines('"x"'), "line 1: an object with id, question, reference is needed, got str"),
        (lines("3"), "got int"),
        (json.dumps([T, 3], indent=1).encode(), "entry 1: an object with id, question, reference is needed"),
        (b"[" * 100_000, "begins like a JSON array and is none"),
        (lines({**without(T, "reference"), "references": []}), "'reference' missing"),
        (lines({**without(T, "reference"), "references": ["r", 3]}), "'others[0]' must be a string"),
        (lines(T) + b'{"id": "\xff"}\n', "byte 0xff at offset"),
        (b"\xef\xbb\xbf" + lines(T) + b"\n\xe9", "(line 3)"),
        ("\ufeff".encode("utf-16-le") + json.dumps(T).encode("utf-16-le"),
         "is not UTF-8: byte 0xff at offset 0 (line 1)"),
        (lines({**T, "reference": "\ud800"}), "'reference' holds half a surrogate pair"),
        (b'{"results": []}', "'results' is empty"),
        (b'{"results": [{"query_id": "1", "query": "q", "gt_answer": "r"}]}',
         "results[0]: 'response' missing"),
        (b'{"results": [3]}', "results[0]: an object with query_id"),
        (json.dumps({"results": [{**R, "query_id": ""}]}).encode(), "results[0]: 'query_id' is empty"),
        (json.dumps({"results": [{**R, "retrieved_context": 5}]}).encode(),
         "'retrieved_context' must be a list, got int '5'"),
        (json.dumps({"results": [{**R, "retrieved_context": ["d"]}]}).encode(),
         "'retrieved_context[0]' must be an object, got str 'd'"),
        (json.dumps({"results": [{**R, "retrieved_context": [{"doc": "d"}]}]}).encode(),
         "'retrieved_context[0].text' missing"),
    ],
)
def test_bad_triplets_in_one_clear_line(tmp_path, content, says):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load_triplets(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_offset_of_a_bad_byte_counts_from_the_start_of_the_file(tmp_path):
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf" + b"ab\xff")     # 3 bytes of mark, then 2 good ones
    with pytest.raises(InputError, match="byte 0xff at offset 5 "):
        load_triplets(tmp_path / "t")


@pytest.mark.parametrize(("content", "says"), [
    (lines(A, A), "line 2: triplet_id and model 'a', 'm' occurred already on line 1"),
    (lines({**A, "answer": 12}), "'answer' must be a string, got int '12'"),
    (lines({**A, "answer": None}), "'answer' must be a string, got NoneType"),
    (lines({**A, "model": ""}), "'model' is empty"),
    (lines(T), "'triplet_id', 'model', 'answer' missing"),
])
def test_bad_answers_in_one_clear_line(tmp_path, content, says):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError) as error:
        load_answers(tmp_path / "a.jsonl")
    assert says in str(error.value)


def test_no_file_and_a_directory(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_triplets(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match="cannot be read: Is a directory; give a file"):
        load_answers(tmp_path)


def test_what_is_tolerated(tmp_path):
    odd = "one\u2028two\x85three"                       # line ends to str.splitlines, not to JSON lines
    rows = [json.dumps({**T, "reference": odd, "source": 7}, ensure_ascii=False), "",
            json.dumps({**T, "id": "b", "context": None})]
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    assert load_triplets(tmp_path / "t") == [Triplet("a", "g", "q?", odd), Triplet("b", "g", "q?", "r")]
    (tmp_path / "a").write_bytes(lines({**A, "answer": "", "tokens": 5}, {**A, "model": "n"}))
    assert load_answers(tmp_path / "a") == [Answer("a", "m", ""), Answer("a", "n", "x")]


def test_word_results_in_a_question_is_no_ragchecker_file(tmp_path):
    (tmp_path / "t").write_bytes(lines({**T, "question": 'what does "results" mean?'}))
    assert load_triplets(tmp_path / "t")[0].question == 'what does "results" mean?'


def test_answer_of_5_mb(tmp_path):
    long = "growth of 5 % " * 360_000                   # 14 characters each: 5.04 MB
    write_jsonl(tmp_path / "a", [Answer("a", "m", long)])
    assert load_answers(tmp_path / "a")[0].answer == long


def test_join_reports_gaps_and_refuses_strangers():
    triplets = [Triplet(i, "g", "q", "r") for i in "abc"]
    done = [Answer(i, "m", "x") for i in "abc"]
    assert check_join(triplets, done) == {}
    assert check_join(triplets, [*done, Answer("b", "n", "")]) == {"n": ["a", "c"]}
    with pytest.raises(InputError,
                       match=r"2 triplet ids .* not among the 3 triplets: 'x', 'y'; known ids look"):
        check_join(triplets, [Answer("y", "m", ""), Answer("x", "m", ""), *done])
    with pytest.raises(InputError, match="'b by m' occur more than once"):
        check_join(triplets, [*done, done[1]])
    with pytest.raises(InputError, match="triplet ids must be unique; 'a'"):
        check_join([*triplets, triplets[0]], done)
    alike = [Triplet("a by b", "g", "q", "r"), Triplet("a", "g", "q", "r")]
    assert check_join(alike, [Answer("a by b", "c", "x"), Answer("a", "b by c", "x")]).keys() == {"c", "b by c"}


# ---- writing -------------------------------------------------------------------------------------

def test_written_as_utf8_in_order_and_read_back(tmp_path):
    triplets = [Triplet("é", "g", "q", "5 €"), Triplet("b", "g", "q", "r", "c")]
    path = write_jsonl(tmp_path / "new" / "t.jsonl", triplets)
    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"id": "é", "group": "g", "question": "q", "reference": "5 €"}',
        '{"id": "b", "group": "g", "question": "q", "reference": "r", "context": "c"}']
    assert load_triplets(path) == triplets
    assert [p.name for p in path.parent.iterdir()] == ["t.jsonl"]


def test_own_dictionary_of_a_record_is_used(tmp_path):
    @dataclass
    class Result:
        value: float
        def to_dict(self):
            return {"value": None if math.isnan(self.value) else self.value}
    path = write_jsonl(tmp_path / "r", [Result(math.nan), {"z": 1, "a": 2}])
    assert path.read_text() == '{"value": null}\n{"z": 1, "a": 2}\n'


@pytest.mark.parametrize(("row", "kind"), [
    ({"x": math.nan}, ValueError), ({"x": "\udc00"}, InputError), ({"x": {1}}, TypeError),
])
def test_old_file_stays_when_a_row_cannot_be_written(tmp_path, row, kind):
    path = write_jsonl(tmp_path / "t", [{"x": 1}])
    with pytest.raises(kind):
        write_jsonl(path, [{"x": 2}, row])
    assert path.read_text() == '{"x": 1}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_old_file_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "t", [{"x": 1}])
    def full(fd):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_jsonl(path, [{"x": 2}])
    assert path.read_text() == '{"x": 1}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_place_that_takes_no_file(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "t.jsonl"):
        with pytest.raises(InputError, match="cannot be written"):
            write_jsonl(place, [{"x": 1}])


def test_a_link_and_a_pipe_stay_what_they_are(tmp_path):
    (tmp_path / "far").mkdir()
    link, pipe = tmp_path / "link.jsonl", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "file.jsonl")
    os.mkfifo(pipe)
    write_jsonl(link, [{"x": 1}])
    assert link.is_symlink()
    assert link.read_text() == '{"x": 1}\n'
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    read = []
    reader.start()
    write_jsonl(pipe, [{"x": 2}])
    reader.join(10)
    assert read == ['{"x": 2}\n']
    assert pipe.is_fifo()


def test_parts_that_killed_processes_left_are_removed_and_no_others(tmp_path):
    """A process killed while it writes leaves its part; the next writer of that file removes it."""
    code = ("import os, signal, sys\nfrom ems.io import whole_file\n"
            "with whole_file(sys.argv[1]) as file:\n"
            "    file.write(b'half'); file.flush(); print('begun', flush=True); sys.stdin.read()")
    def writer():
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "t[1].jsonl")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"begun\n"
        return process
    killed = writer()
    killed.kill()
    killed.wait()
    left, = tmp_path.iterdir()
    other = tmp_path / ".other.jsonl.0.part"
    other.write_text("of another file")
    alive = writer()  # makes a part of its own, and removes what was left
    assert not left.exists()
    write_jsonl(tmp_path / "t[1].jsonl", [{"x": 1}])
    assert len(list(tmp_path.glob(".t*.part"))) == 1       # the living writer's
    alive.communicate(b"")
    assert alive.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.jsonl.0.part", "t[1].jsonl"]
    assert (tmp_path / "t[1].jsonl").read_text() == "half"


def test_compressed_files_of_equal_content_are_equal(tmp_path, monkeypatch):
    import gzip
    import time

    first = tmp_path / "a" / "r.jsonl.gz"
    assert write_lines(first, ["one", "zwei ü"]) == 2
    monkeypatch.setattr(time, "time", lambda: 2e9)
    write_lines(tmp_path / "b.gz", ["one", "zwei ü"])
    assert first.read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress(first.read_bytes()).decode() == "one\nzwei ü\n"


def test_a_failing_source_of_lines_leaves_the_old_file(tmp_path):
    path = tmp_path / "t"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_lines(path, (str(1 / n) for n in (1, 0)))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


CELLS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "plain", "a=b", "", "1.10",
         "-5"]


def test_no_cell_of_a_table_can_be_run_by_a_spreadsheet(tmp_path):
    import csv

    import pandas as pd

    frame = pd.DataFrame({"model": CELLS, "value": [-0.5] * len(CELLS), "=1+1": 1})
    path = write_csv(tmp_path / "new" / "t.csv", frame)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["model", "value", "'=1+1"]
    assert not [row[0] for row in rows if row[0][:1] in ("=", "+", "-", "@", "\t", "\r")]
    assert {row[1] for row in rows} == {"-0.5"}                                  # numbers stay numbers
    assert [row[0] for row in rows][7:11] == ["plain", "a=b", "", "1.10"]
    assert frame.columns[2] == "=1+1"  # the caller's frame is as it was


def test_names_come_back_from_a_table_as_they_were(tmp_path):
    import pandas as pd

    for names in (CELLS, [name for name in CELLS if "\r" not in name]):
        back = read_frames(write_csv(tmp_path / "t.csv", pd.DataFrame({"model": names, "value": 0.5})))
        assert list(back["model"]) == names
        assert list(back["value"]) == [0.5] * len(names)


def test_progress_is_drawn_for_who_watches(monkeypatch):
    def drawn(text="reading"):
        with progress_bar(text, 3) as bar:
            return not bar.disable
    assert not drawn()                                      # stderr is captured here: a file
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert drawn()
    assert not drawn("")
    with progress_bars(False):
        assert not drawn()
        with progress_bars(True):                           # an inner stage cannot bring them back
            assert not drawn()
    assert drawn()


def test_evaluation_without_progress_draws_none_at_any_stage(monkeypatch, capsys):
    from scripted import judgeable, judged

    from ems.judge.client import LLMJudge
    from ems.presets import build

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    triplets, answers = judgeable(2, 2)
    for progress in (False, True):
        with Loopback(judged) as server:
            pipeline = build(LLMJudge("m", base_url=server.url), "llm")
            assert len(pipeline.evaluate(triplets, answers, progress=progress)) == 2
        assert bool(capsys.readouterr().err) == progress


# ---- frames --------------------------------------------------------------------------------------

def test_results_as_a_frame():
    from ems.presets import build

    triplets = [Triplet("a", "g", "q", "Up 5%. Costs fell."), Triplet("b", "h", "q", "Up 6%.")]
    results = build(None, "local").evaluate(triplets, [Answer("a", "m", "Up 5%."), Answer("b", "m", "")])
    frame = to_frame(results)
    assert list(frame["metric"].unique()) == ["EMS"]
    assert list(frame["part"]) == ["Precision", "Recall", "F1"] * 2
    assert list(frame["group"]) == ["a"] * 3 + ["b"] * 3  # without triplets each is a group of its own
    named = to_frame(results, "EMS(local)", triplets)
    assert list(named["group"]) == ["g"] * 3 + ["h"] * 3
    recall = named[named["part"] == "Recall"].set_index("triplet_id")
    assert recall["value"]["a"] == results[0].recall == recall["num"]["a"] / recall["den"]["a"]
    assert recall["value"]["b"] == 0
    assert named.drop(columns=["metric", "group"]).equals(frame.drop(columns=["metric", "group"]))
    assert to_frame([]).empty
    with pytest.raises(InputError, match="no triplet 'b' among the 1 given"):
        to_frame(results, triplets=triplets[:1])


def test_values_as_a_frame():
    answers = [Answer("a", "m", "x"), Answer("b", "m", "y")]
    frame = values_frame(answers, [0.25, math.nan], "BLEU", "Score", "bleu:1",
                         [Triplet("a", "g", "q", "r"), Triplet("b", "h", "q", "r")])
    assert list(frame["group"]) == ["g", "h"]
    assert list(frame["unscored"]) == [0, 1]
    assert list(frame["den"]) == [1.0, 1.0]
    assert frame["num"][0] == 0.25
    with pytest.raises(ValueError, match="zip"):
        values_frame(answers, [0.25], "BLEU", "Score", "bleu:1")


# ---- RAGChecker's JSON ---------------------------------------------------------------------------

ROW = {"query_id": "1", "query": "q", "gt_answer": "r", "response": "x"}


def test_ragchecker_input_is_triplets_and_answers(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps({"made": "x" * 500, "results": [
        {**ROW, "retrieved_context": [{"doc_id": "0", "text": "c"}, {"doc_id": "1", "text": "d"}]},
        {**ROW, "query_id": "2"}]}, indent=1))
    assert load_triplets(tmp_path / "mine.json") == [
        Triplet("1", "1", "q", "r", "c\n\nd"), Triplet("2", "2", "q", "r")]
    assert load_answers(tmp_path / "mine.json") == [Answer("1", "mine", "x"), Answer("2", "mine", "x")]
    (tmp_path / "twice.json").write_text(json.dumps({"results": [ROW, ROW]}))
    with pytest.raises(InputError, match="query_id must be unique; '1'"):
        load_triplets(tmp_path / "twice.json")


# ---- the kit's own data --------------------------------------------------------------------------

def test_the_kits_own_data_is_found_and_what_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("companies.csv", "questions.yaml", "q3-2024/references", "paper/table1.csv", "upstream.csv",
                 "human"):
        assert data_path(name).exists()
    with pytest.raises(InputError, match="no q9-2030"):
        data_path("q9-2030")


# ---- mirror, cache, download ---------------------------------------------------------------------

CONTENT = b'[{"x": 1}]\n' * 400
NAME = "set/data/a.json"


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    pin = {
        "dataset": "set",
        "repository": "owner/repo",
        "commit": "c0ffee",
        "path": "data/a.json",
        "bytes": str(len(CONTENT)),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }  # as a csv file has them
    monkeypatch.setattr(datasets, "pins", lambda: {NAME: datasets.Pin(**pin)})
    monkeypatch.setenv("EMS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "owner" / "repo" / "c0ffee" / "data" / "a.json"


@pytest.fixture
def server():
    """A code host on loopback: `replies` maps paths to (status, body, length announced)."""
    class Host(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            status, body, length = replies.get(self.path, (404, b"", 0))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    replies, asked = {}, []
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=host.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{host.server_port}", replies, asked
    host.shutdown()
    host.server_close()


PATH = "/owner/repo/c0ffee/data/a.json"


def test_download_is_verified_kept_and_not_repeated(pinned, server, monkeypatch):
    url, replies, asked = server
    replies[PATH] = (200, CONTENT, len(CONTENT))
    monkeypatch.setenv("EMS_UPSTREAM_URL", url + "/")
    assert source(NAME) == source(NAME) == pinned
    assert asked == [PATH]
    assert pinned.read_bytes() == CONTENT
    pinned.write_bytes(CONTENT[:-1])                    # a spoilt cache is fetched again
    assert source(NAME) == pinned
    assert asked == [PATH, PATH]
    assert pinned.read_bytes() == CONTENT


@pytest.mark.parametrize(("reply", "says"), [
    ((200, CONTENT[:100], len(CONTENT)), "100 bytes came"),                # cut while it came
    ((200, CONTENT[:100], 100), "100 bytes came"),
    ((200, CONTENT + b"x", len(CONTENT) + 1), f"more than {len(CONTENT)} bytes came"),
    ((200, CONTENT[:-1] + b"x", len(CONTENT)), "is not the pinned file"),  # right size, other content
    ((404, b"", 0), "HTTP 404"),
    ((500, b"oops", 4), "HTTP 500"),
])
def test_failed_download_leaves_nothing(pinned, server, reply, says, monkeypatch):
    url, replies, _ = server
    replies[PATH] = reply
    monkeypatch.setenv("EMS_UPSTREAM_URL", url)
    with pytest.raises(InputError) as error:
        source(NAME)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not [p for p in pinned.parents[4].rglob("*") if p.is_file()]


def test_no_network_says_what_to_do(pinned, monkeypatch):
    monkeypatch.setenv("EMS_UPSTREAM_URL", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"in no mirror and no cache.*Connection refused.*set EMS_DATA_MIRROR"):
        source(NAME)


def test_mirror_comes_first_and_is_said_to_differ(pinned, tmp_path, monkeypatch, caplog):
    mirror = tmp_path / "mirror" / NAME
    mirror.parent.mkdir(parents=True)
    mirror.write_bytes(b"[3]")
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "mirror"))
    assert (source(NAME), rows_of(NAME)) == (mirror, [3])
    assert "is not the file of" in caplog.text
    caplog.clear()
    mirror.write_bytes(CONTENT)
    with pytest.raises(InputError, match=r"is not JSON .*fetch it from owner/repo"):
        rows_of(NAME)
    assert not caplog.records
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"EMS_DATA_MIRROR is .*absent', which is no folder"):
        source(NAME)


def test_file_that_is_not_pinned():
    with pytest.raises(InputError, match=r"other\.json is not pinned in data/upstream\.csv"):
        source("findver/data/other.json")


def test_every_pin_is_whole():
    pins = datasets.pins()
    assert {name.split("/")[0] for name in pins} == {"findver", "financebench", "kqa", "ragchecker", "realsumm"}
    assert all(len(p.sha256) == 64 and len(p.commit) == 40 and p.size > 0 for p in pins.values())
    assert sum(name.startswith("financebench/results/") for name in pins) == 16


# ---- the data sets, made small -------------------------------------------------------------------

def put(root, name, rows):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows))


@pytest.fixture
def small_findver(tmp_path, monkeypatch):
    claim = {"subset": "ie", "report": "X-2024_10-Q.json", "entailment_label": True}
    put(tmp_path, "findver/data/testmini.json", [
        {**claim, "example_id": "ie-val-0", "statement": "s0", "explanation": "e0"},
        {**claim, "example_id": "numeric-val-1", "statement": "s1", "explaination": "e1"}])
    def outputs(kind, stem, rights):
        header = "<|start_header_id|>assistant<|end_header_id|>\n\n"
        rows = [
            {**claim, "example_id": id_, "statement": s, "result": right, "output": [f"{header}so {s}"]}
            for id_, s, right in zip(("ie-testmini-0", "numeric-testmini-1"), ("s0", "s1"), rights,
                                     strict=True)
        ]
        put(tmp_path, f"findver/outputs/testmini_outputs/rag/processed_{kind}_outputs/{stem}.json",
            rows[::-1])

    for stem, _ in datasets.FINDVER_MODELS.values():
        outputs("cot", stem, (True, False))
        outputs("do", stem, (False, True))
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path))
    return tmp_path


def test_findver_joins_by_id_and_reads_both_spellings(small_findver):
    triplets, answers, labels = findver()
    assert [(t.id, t.group, t.reference, t.context) for t in triplets] == [
        ("ie-testmini-0", "X-2024_10-Q", "e0", None), ("numeric-testmini-1", "X-2024_10-Q", "e1", None)]
    assert all(t.question.endswith(f"Claim: s{i}") for i, t in enumerate(triplets))
    assert {(a.triplet_id, a.answer) for a in answers} == {
        ("ie-testmini-0", "so s0"), ("numeric-testmini-1", "so s1")}
    assert check_join(triplets, answers) == {}
    assert len(answers) == len(labels) == 6
    first = labels.set_index("triplet_id").loc["ie-testmini-0"]
    assert first.correct.all()
    assert not first.correct_without_cot.any()
    assert list(first["size"]) == [3.0, 8.0, 70.0]


def test_findver_files_that_disagree_are_refused(small_findver):
    other = {"example_id": "ie-val-0", "statement": "other", "explanation": "e", "report": "X"}
    put(small_findver, "findver/data/testmini.json", [other])
    with pytest.raises(InputError, match="is not the claim of that id"):
        findver()


@pytest.mark.parametrize(("raw", "clean"), [
    ("<|start_header_id|>assistant<|end_header_id|>\n\nYes.", "Yes."),
    ("<|start_header_id|>assistant<|start_header_id|>assistant<|end_header_id|>\n\nYes.", "Yes."),
    ("<|start_header_id|>assistant[iV Yes.", "[iV Yes."),                # the header broke off
    ("Yes.<|python_tag|> No.<|reserved_special_token_198|>", "Yes. No."),
    ("assets < 5 | 3 <| 4", "assets < 5 | 3 <| 4"),
])
def test_chat_tokens_are_taken_off(raw, clean):
    assert datasets._without_chat_tokens(raw) == clean


def test_financebench_labels_are_normalised(tmp_path, monkeypatch):
    put(tmp_path, "financebench/data/financebench_open_source.jsonl", [
        {"financebench_id": f"f{i}", "company": "3M", "question": f"q{i}", "answer": f"${i}.00",
         "question_type": "t"} for i in range(3)])
    said = [("f2", "q2", "Refusal", "no"), ("f0", "q0", " Correct answer", 0),
            ("f1", "q1", "Incorrect Answer", " 7 ")]
    rows = [
        {"financebench_id": i, "question": q, "label": label, "model_answer": a} for i, q, label, a in said
    ]
    put(tmp_path, "financebench/results/llama2_sharedStore.jsonl", rows)
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path))
    triplets, answers, labels = financebench(["llama2_sharedStore"])
    assert triplets[0] == Triplet("f0", "3M", "q0", "$0.00")
    assert answers == [
        Answer(i, "llama2_sharedStore", a) for i, a in (("f2", "no"), ("f0", "0"), ("f1", "7"))
    ]
    assert list(labels.label) == ["refusal", "correct", "incorrect"]
    assert list(labels.correct) == [False, True, False]
    assert set(labels.llm) == {"llama2"}
    assert set(labels.setting) == {"sharedStore"}
    put(tmp_path, "financebench/results/llama2_sharedStore.jsonl", [{**rows[0], "label": "Maybe"}])
    with pytest.raises(InputError, match="correct, incorrect or refusal needed, got 'maybe'"):
        financebench(["llama2_sharedStore"])


# ---- the data sets, whole ------------------------------------------------------------------------

@pytest.fixture
def mirror(monkeypatch):
    monkeypatch.setenv("EMS_DATA_MIRROR", str(MIRROR))


@needs_mirror
def test_findver_has_the_accuracies_of_its_paper(mirror):
    triplets, answers, labels = findver()
    assert (len(triplets), len(answers), len({t.group for t in triplets})) == (700, 2100, 255)
    assert check_join(triplets, answers) == {}
    assert all(t.reference.strip() for t in triplets)
    assert not any("<|start" in a.answer or "<|end" in a.answer for a in answers)
    assert min(len(a.answer) for a in answers) > 100
    whole = (100 * labels.groupby("model").correct.mean()).round(1).to_dict()
    assert whole == {"Llama-3.2-3B": 58.4, "Llama-3.1-8B": 66.4, "Llama-3.1-70B": 75.0}  # table 3, testmini
    parts = (100 * labels.groupby(["model", "subset"]).correct.mean()).round(1).unstack()
    parts = parts[["ie", "numeric", "knowledge"]]
    assert parts.loc[list(datasets.FINDVER_MODELS)].to_numpy().tolist() == [
        [65.6, 55.6, 53.0], [70.8, 64.0, 64.0], [78.8, 66.8, 80.5]]
    bare = (100 * labels.groupby("model").correct_without_cot.mean()).round(1)
    assert (bare["Llama-3.2-3B"], bare["Llama-3.1-8B"]) == (50.6, 61.6)  # table 5, RAG


@needs_mirror
def test_findver_claims_of_the_pinned_filings(mirror):
    claims, passages, _ = findver_claims()
    assert len(passages) == len({claim["report"] for claim in claims}) == 48
    assert all(claim["relevant"] <= set(range(len(passages[claim["report"]]))) for claim in claims)


@needs_mirror
def test_financebench_counts_are_those_of_its_table_2(mirror):
    triplets, answers, labels = financebench()
    assert (len(triplets), len(answers), check_join(triplets, answers)) == (150, 1200, {})
    counts = (
        labels.groupby(["model", "label"]).size().unstack(fill_value=0)[["correct", "incorrect", "refusal"]]
    )
    assert counts.loc[list(datasets.FINANCEBENCH_SETS)].to_numpy().tolist() == [
        [14, 5, 131],           # the paper prints 126 refusals; 131 fit its 150 a row and its total of 324
        [29, 104, 17], [29, 20, 101], [62, 81, 7], [75, 17, 58], [114, 32, 4], [118, 26, 6], [128, 22, 0]]
    assert counts.sum().tolist() == [569, 307, 324]
    assert labels.groupby("question_type").size().tolist() == [400, 400, 400]


@needs_mirror
def test_ragchecker_pairs(mirror):
    triplets, answers, labels, scores = ragchecker()
    assert check_join(triplets, answers) == {}
    assert set(labels.groupby("instance_id")["annotator"].apply(tuple)) == {(0, 1)}
    assert not labels.isna().any().any()
    assert labels.overall.between(-2, 2).all()
    assert scores.filter(like="RAGChecker").apply(lambda column: column.between(0, 1)).all(axis=None)
    f1 = scores.pivot(index="triplet_id", columns="model", values="RAGChecker F1").loc[labels.instance_id]
    agreement = (f1["2"] - f1["1"]).to_numpy() * labels.overall     # both are positive for the second answer
    assert (agreement > 0).sum() > 3 * (agreement < 0).sum()


@needs_mirror
def test_ragchecker_worked_example(mirror):
    folder = MIRROR / "ragchecker" / "examples"
    triplets, answers = (load_triplets(folder / "checking_inputs.json"),
                         load_answers(folder / "checking_inputs.json"))
    assert [t.id for t in triplets] == [a.triplet_id for a in answers] == ["0", "1"]
    assert triplets[0].context


def test_import_is_light():
    code = ("import sys, ems.study.people.upstream, ems.study.dataset.calls\n"
            "print({'pandas', 'numpy', 'pyarrow', 'pypdf', 'bs4', 'yaml'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=Path(__file__).parent.parent)
    assert done.stdout == "set()\n", done.stderr
