"""Wording that follows from numbers, and names from outside that stay plain text in Markdown."""

import pytest

from ems.study.verdicts import as_markdown, comparison, with_interval

ROW = {"value": 0.625, "ci_low": 0.5, "ci_high": 0.75, "vs M": 0.1, "vs M low": -0.1, "vs M high": 0.3}


def test_a_value_with_its_interval():
    assert with_interval(ROW) == "0.62 [0.50, 0.75]"


@pytest.mark.parametrize(("gap", "low", "high", "words"), [
    (0.1, -0.1, 0.3, "not distinguishable from M (+0.10 [-0.10, +0.30])"),
    (0.1, 0.05, 0.3, "above M (+0.10 [+0.05, +0.30])"),
    (-0.1, -0.3, -0.05, "below M (-0.10 [-0.30, -0.05])"),
    (0.1, 0.0, 0.3, "not distinguishable from M (+0.10 [+0.00, +0.30])"),        # an interval that touches 0
])
def test_a_comparison_says_no_more_than_its_interval(gap, low, high, words):
    assert comparison(ROW | {"vs M": gap, "vs M low": low, "vs M high": high}, "M") == words


def test_a_name_cannot_become_markup():
    name = "<script>alert(1)</script> [x](javascript:alert(1))"
    row = {f"vs {name}{end}": 0.0 for end in ("", " low", " high")}
    for text in (as_markdown(name), comparison(row, name)):
        assert "<script>" not in text.replace("\\<", "")
        assert "[x]" not in text.replace("\\[", "")
    assert as_markdown("a|b *c* `d` $e$") == r"a\|b \*c\* \`d\` \$e\$"
    assert as_markdown("a\nb\x1b[31m") == "a b\ufffd\\[31m"
    for plain in ("EMS(local)", "ROUGE-L", "llama-3.2 90b (closed book)"):
        assert as_markdown(plain) == plain


def test_markdown_that_was_escaped_renders_as_the_name():
    markdown = pytest.importorskip(
        "mistune", reason="nbconvert's Markdown, with pip install 'ems-kit[notebooks]'"
    )
    name = "<script>alert(1)</script> [x](javascript:alert(1)) *a* _b_ | `c` &lt; ~~d~~"
    html = markdown.html(as_markdown(name))
    assert "<script" not in html
    assert "<a" not in html
    assert "<em>" not in html
    assert "<code>" not in html
