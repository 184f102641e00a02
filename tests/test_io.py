"""Files in and out: what cannot be read is one clear line, what is written is whole."""

import gzip
import math
import os
import sys
import threading

import pytest
from doubles import refused

from ems import io, terminal
from ems.types import InputError

# --- reading


def test_a_text_is_read_as_it_stands_but_for_the_byte_order_mark(tmp_path):
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbfone\r\ntwo\xe2\x80\xa8three\n\xef\xbb\xbf")
    assert io.read_text(tmp_path / "t") == "one\r\ntwo\u2028three\n\ufeff"
    assert list(io.read_lines(tmp_path / "t")) == ["one\r\n", "two\u2028three\n", "\ufeff"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"good\n\x81\n", "t is not UTF-8 text: save a workbook (.xlsx) as CSV UTF-8"),
        ("a,b\n".encode("utf-16")[:-1], "is not UTF-8"),
        (b"PK\x03\x04rest", "is a workbook or an archive: save a workbook (.xlsx) as CSV UTF-8"),
        (b"PAR1rest", "is a parquet file: read it with pandas"),
        (gzip.compress(b"good", mtime=0), "is compressed: unpack it with gunzip"),
        (
            "id,text\n".encode("utf-16-le"),
            "t seems to be UTF-16 without a byte order mark: save it",
        ),
        (
            "id,text\n".encode("utf-16-be"),
            "t seems to be UTF-16 without a byte order mark: save it",
        ),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, content, says):
    path = tmp_path / "t"
    if content is not None:
        path.write_bytes(content)
    for any_encoding in (False, True):
        with refused(says):
            io.read_text(path, any_encoding)
    with refused("Is a directory"):
        io.read_text(tmp_path)


@pytest.mark.parametrize(
    ("encoding", "notice"),
    [
        ("cp1252", "Windows-1252, for example 'a;Zürich'"),
        ("utf-16", "UTF-16"),
        ("utf-16-be", "UTF-16"),
    ],
)
def test_other_encodings_are_read_with_one_notice_where_that_is_allowed(
    tmp_path, capsys, encoding, notice
):
    text = "id;text\r\na;Zürich – 5 €\r\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = tmp_path / "t"
    path.write_bytes((mark + text).encode(encoding))
    for _ in range(2):
        assert io.read_text(path, any_encoding=True) == text
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"ems: {path} is not UTF-8; it is read as {notice}"
    with refused("is not UTF-8 text"):
        io.read_text(path)


def test_a_pipe_is_read_in_any_encoding(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = "é\n".encode("utf-16")
    writer = threading.Thread(target=pipe.write_bytes, args=[content], daemon=True)
    writer.start()
    assert io.read_text(pipe, any_encoding=True) == "é\n"
    writer.join(10)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": ', "line 3 is not JSON: Expecting value"),
        ("[" * 100_000, "line 3 is not JSON: maximum recursion depth"),
    ],
)
def test_a_line_that_is_no_json_is_named(line, says):
    rows = io.parse_jsonl(["1\n", "\n", line], "f.jsonl")
    assert next(rows) == (1, 1)
    with refused(f"f.jsonl, {says}"):
        next(rows)


# --- writing


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    path = io.write_jsonl(tmp_path / "new" / "f.jsonl", [{"x": "é"}, {"x": None}])
    assert path.read_text(encoding="utf-8") == '{"x": "é"}\n{"x": null}\n'
    assert os.listdir(path.parent) == ["f.jsonl"]
    assert oct(path.stat().st_mode)[-3:] == "644"


def failing(error):
    yield "half"
    raise error


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda path: io.write_file(path, failing(ZeroDivisionError())), ZeroDivisionError),
        (
            lambda path: io.write_file(path, failing(OSError(28, "No space left on device"))),
            InputError,
        ),
        (lambda path: io.write_jsonl(path, [{"x": 1}, {"x": math.nan}]), ValueError),
        (lambda path: io.write_jsonl(path, [{"x": "\udc00"}]), InputError),
        (lambda path: io.write_file(path / "below", ["x"]), InputError),
        (lambda path: io.write_file(path.parent, ["x"]), InputError),
    ],
)
def test_the_old_file_stays_when_the_new_one_cannot_be_made(tmp_path, write, kind):
    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(kind):
        write(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_and_a_pipe_stay_what_they_are(tmp_path):
    (tmp_path / "far").mkdir()
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "file")
    os.mkfifo(pipe)
    assert io.write_file(link, ["x"]).is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "x"
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    io.write_file(pipe, ["one", "two"])
    reader.join(10)
    assert read == ["onetwo"]
    assert pipe.is_fifo()


def test_progress_is_drawn_for_who_watches(monkeypatch):
    def drawn(text):
        with terminal.progress_bar(text, 3) as bar:
            return not bar.disable

    # Tests that run notebooks import ipykernel.
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert not drawn("reading")  # stderr is captured here: a file
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert drawn("reading")
    assert not drawn("")
