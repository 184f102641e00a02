"""Documents as plain text: PDF read by pypdf, HTML by beautifulsoup4, text and Markdown as they are.

Both libraries are optional, and imported when the first document of their kind is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...io import read_text
from ...types import InputError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

HTML_MARK = re.compile(r"<(?:!doctype html|html|body|article)\b", re.IGNORECASE)
# LaTeXML, which makes the HTML pages of arXiv, marks paragraphs by class: many of them are spans.
LATEXML_BLOCK = re.compile(r"ltx_(?:p|para|item|title|caption|listingline|itemize|enumerate)\b")
ENGLISH = frozenset("the of and to in that we our is for on you as with it".split())
BLOCK_TAG = re.compile(r"p|div|li|tr|pre|section|figcaption|h[1-6]")


def read_pages(path: Path) -> list[str]:
    """The text of each page of a document, whose kind is told from what it holds. InputError when unreadable.

    An HTML page is one page, each <br> the end of a paragraph; form feeds set the pages of a text apart.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError:
        head = b""                # read_text says what is wrong
    if b"%PDF-" in head:
        return pdf_pages(path)
    text = read_text(path)
    return [html_text(parse_html(text), "\n\n")] if HTML_MARK.search(text[:5000]) else text.split("\f")


def pdf_pages(path: Path) -> list[str]:
    """The text of each page of a PDF; "" for a page that is an image. InputError for what is no PDF."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise InputError(f"{path}: reading PDF needs pypdf; pip install 'ems-kit[transcripts]'") from None
    try:
        return [page.extract_text() for page in PdfReader(path).pages]
    except (PyPdfError, ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{path} is no readable PDF ({error}); save it again, or give the text") from None


def parse_html(text: str) -> BeautifulSoup:
    """An HTML page without what a reader does not see, its formulas as the text they were typeset from."""
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise InputError("reading HTML needs beautifulsoup4; pip install 'ems-kit[transcripts]'") from None
    page = BeautifulSoup(text, "html.parser")
    for hidden in page(["script", "style", "nav", "head", "annotation"]):
        hidden.decompose()
    for formula in page("math"):
        formula.replace_with(str(formula.get("alttext") or formula.get_text()))
    return page


def html_text(element: Tag, line_break: str = "\n") -> str:
    """The text of a page or of a part of it: blocks apart by empty lines, a `line_break` for each <br>.

    White space is one space, as a browser shows it, except within <pre>. Changes the element.
    """
    for text in element.find_all(string=re.compile(r"\s")):
        if not text.find_parent("pre"):
            text.replace_with(re.sub(r"\s+", " ", text))
    for tag in element("br"):
        tag.replace_with(line_break)
    for block in element.find_all(lambda tag: BLOCK_TAG.fullmatch(tag.name)
                                  or any(map(LATEXML_BLOCK.match, tag.get("class") or ()))):
        block.insert_before("\n\n")
        block.insert_after("\n\n")
    return element.get_text()


def without_running_heads(pages: Sequence[str]) -> str:
    """The text of all pages, one after the other, without page numbers and running heads.

    Only the first and the last line of a page can be one: a number that grows by one a page, on two pages or
    more, or a line with the same letters on more than half of the pages.
    """
    lines_of_pages = [page.strip().split("\n") for page in pages]
    for edge in (0, -1):
        edges = [lines[edge].strip() for lines in lines_of_pages]
        numbers = {i: int(line) - i for i, line in enumerate(edges) if re.fullmatch(r"\d{1,4}", line)}
        offset, count = max(Counter(numbers.values()).items(), key=lambda item: item[1], default=(0, 0))
        heads = Counter(letters(line) for i, line in enumerate(edges) if i not in numbers)
        for i, (lines, line) in enumerate(zip(lines_of_pages, edges, strict=True)):
            is_head = letters(line) and heads[letters(line)] > max(1, len(pages) // 2)
            if is_head or (count > 1 and numbers.get(i) == offset):
                lines[edge] = ""
    return "\n".join("\n".join(lines) for lines in lines_of_pages)


def letters(text: str) -> str:
    """The letters and digits of a text in lower case: what stays the same however it was typeset."""
    return "".join(c for c in text if c.isalnum()).lower()


def english_share(text: str) -> float:
    """Share of the commonest English words among all words; a letter of another script counts as a word."""
    words = re.findall(r"[a-zà-ÿ]+|[^\W\d_]", text.lower())
    return sum(word in ENGLISH for word in words) / len(words) if words else 0.0
