"""A PDF as TeX sets it, in miniature: page heads and numbers, ligatures, kerning, broken words."""

from __future__ import annotations

import re

WIDTH, LINES = 92, 56


def pdf(text: str, head: str = "Published as a workshop paper", width: int = WIDTH) -> bytes:
    """The text as a PDF: lines of up to `width` characters, `head` above and a number below every page."""
    lines = [line for paragraph in text.split("\n") for line in filled(paragraph, width)]
    pages = [[head, *lines[i:i + LINES], str(i // LINES + 1)] for i in range(0, len(lines), LINES)]
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding << /Type /Encoding /BaseEncoding "
        b"/WinAnsiEncoding /Differences [1 /fi /fl] >> >>")]
    kids = []
    for page in pages:
        shown = b"\n".join(b"[" + kerned(line) + b"] TJ T*" for line in page)
        stream = b"BT /F1 9 Tf 12 TL 60 780 Td\n" + shown + b"\nET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
                       b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table) + trailer


def filled(paragraph: str, width: int) -> list[str]:
    """Lines of a paragraph; a long word that does not fit is broken in its middle, as a typesetter would."""
    lines, line = [], ""
    for word in paragraph.split():
        if line and len(line) + 1 + len(word) > width:
            room = width - len(line) - 2
            half = len(word) // 2
            if re.fullmatch("[a-z]{9,}", word) and half < room:
                lines.append(f"{line} {word[:half]}-")
                line = word[half:]
                continue
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line] if line else []


def kerned(line: str) -> bytes:
    """The line's letters in pieces with small corrections between them, ligatures in place."""
    pieces = re.findall(r".{1,7}", line.replace("fi", "\x01").replace("fl", "\x02"))
    coded = [piece.encode("cp1252", "replace") for piece in pieces]
    escaped = [re.sub(rb"([()\\])", rb"\\\1", piece) for piece in coded]
    return b" -12 ".join(b"(" + piece + b")" for piece in escaped)
