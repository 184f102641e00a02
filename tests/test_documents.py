"""One reader of documents: kinds told by content, HTML as a browser shows it, pages without running heads."""

import pytest
from typeset import pdf

from ems.study.dataset.documents import (
    english_share,
    html_text,
    parse_html,
    read_pages,
    without_running_heads,
)
from ems.types import InputError


@pytest.mark.parametrize(("content", "pages"), [
    (b"One.\n\fTwo.", ["One.\n", "Two."]),
    (b"<!DOCTYPE html><body><p>One.</p></body>", ["One."]),
    (b"Of <b>marks</b> in a text.", ["Of <b>marks</b> in a text."]),
    (pdf("One."), ["Published as a workshop paper\nOne.\n1"]),
])
def test_the_kind_is_told_from_the_content(tmp_path, content, pages):
    for name in ("copy", "copy.pdf", "copy.html", "copy.txt"):
        (tmp_path / name).write_bytes(content)
        assert [page.strip() for page in read_pages(tmp_path / name)] == [page.strip() for page in pages]


def test_what_cannot_be_read_is_refused_by_its_name(tmp_path):
    for name, content in (("a.pdf", b"%PDF-1.4\n%broken"), ("a.txt", b"caf\xe9")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read_pages(tmp_path / name)
    with pytest.raises(InputError, match="absent"):
        read_pages(tmp_path / "absent")


@pytest.mark.parametrize(("markup", "text"), [
    ("<p>One\n  two</p><p>three</p>", "One two\n\n\n\nthree"),
    ("<p>One<br>two</p>", "One\ntwo"),
    ("<pre>a\n b</pre>", "a\n b"),
    ("<style>p{}</style><nav>menu</nav><p>One</p><script>x()</script>", "One"),
    ('<p>at <math alttext="x^2"><mi>x</mi><annotation>y</annotation></math></p>', "at x^2"),
    ('<span class="ltx_p">One</span><span class="ltx_p">two</span>', "One\n\n\n\ntwo"),
    ('<span class="ltx_pretty">One</span><span>two</span>', "Onetwo"),
])
def test_html_as_a_browser_shows_it(markup, text):
    assert html_text(parse_html(markup)).strip() == text


def test_page_numbers_and_running_heads_go_and_other_numbers_stay():
    pages = [f" \n {n}\nA Head, {'ab'[n % 2]}\ntext {n}\n7\nThe same foot \n" for n in range(1, 5)]
    text = without_running_heads(pages)
    assert "foot" not in text
    assert [line for line in text.split("\n") if line.isdecimal()] == ["7"] * 4
    assert text.count("A Head") == 4                              # a second line is no running head
    assert without_running_heads(["1\nOne page."]) == "1\nOne page."       # it may be a heading
    assert without_running_heads([]) == ""


def test_a_number_too_long_for_a_page_is_text():
    assert without_running_heads(["8" * 5000, "9" * 5000]) == "8" * 5000 + "\n" + "9" * 5000


def test_share_of_english_words():
    assert english_share("The sum of it") == 3 / 4
    assert english_share("수익 the") == 1 / 3  # a letter of another script counts as a word
    assert english_share("") == 0
