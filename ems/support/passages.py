"""A document cut into passages, and the passages that speak of the same thing as a text (BM25).

BM25 as in Robertson and Zaragoza (2009), section 3, with the idf that is never negative (Lucene's).
How a document is cut and how its passages are ranked decides what a judge is shown, and so the keys
of its replies: after a change here no recorded reply of `support` can be used.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from string import ascii_letters, digits

from ..types import InputError

SIZE = 1000  # characters of a passage, about
# The usual values of BM25: how soon repetition saturates, and how much a passage's length counts.
_K1 = 1.2
_B = 0.75
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_PLURAL = re.compile(r"(?<=...)(?:ies|(?<=...ss)es|(?<![sui])s)$")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Scripts written without spaces: each character is a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


class Passages:
    """The passages of a document, and an index of their words, which is built once.

    InputError when no passage has a word or a number.
    """

    def __init__(self, texts: Sequence[str]):
        self.texts = tuple(texts)
        words = [terms(text) for text in texts]
        mean_length = sum(map(len, words)) / max(1, len(words))
        if not mean_length:
            raise InputError(
                "the document is empty; give the text that answers are to be checked against"
            )
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)  # term -> passage -> count
        for i, passage in enumerate(words):
            for term, count in Counter(passage).items():
                self._counts[term][i] = count
        self._norms = [_K1 * (1 - _B + _B * len(passage) / mean_length) for passage in words]

    def top(self, text: str, k: int) -> list[int]:
        """Indices of the `k` best passages, the best first; of two equal ones the earlier.

        Fewer where fewer share a word with `text`.
        """
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(terms(text)):
            counts = self._counts.get(term, {})
            idf = math.log(1 + (len(self.texts) - len(counts) + 0.5) / (len(counts) + 0.5))
            for i, count in counts.items():
                scores[i] += idf * (_K1 + 1) * count / (count + self._norms[i])
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


@lru_cache(maxsize=64)
def passages_of(context: str | tuple[str, ...]) -> Passages:
    """The passages of a document's text, cut by `cut`, or those that the caller has cut."""
    return Passages(cut(context) if isinstance(context, str) else context)


def cut(text: str) -> list[str]:
    """The passages of a text, each of about `SIZE` characters.

    A text is cut at empty lines, and a long paragraph at a line's end, a sentence's end or a space.
    A cut within a word or a number is made only when that is longer than a passage. Short pieces
    are joined.
    """
    passages: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        for piece in _pieces(block.strip()):
            if passages and len(passages[-1]) + len(piece) < SIZE:
                passages[-1] += "\n" + piece
            else:
                passages.append(piece)
    return passages


def _pieces(block: str) -> Iterator[str]:
    while len(block) > SIZE:
        end = _end_of_piece(block[:SIZE])
        yield block[:end].strip()
        block = block[end:]
    if block.strip():
        yield block.strip()


def _end_of_piece(window: str) -> int:
    """Where to cut: at the best mark in the second half, else before the last word or number."""
    for end in (window.rfind("\n"), window.rfind(". ") + 1, window.rfind(" ")):
        if end > SIZE // 2:
            return end
    return len(window.rstrip(f"{ascii_letters}{digits}.,")) or SIZE


def terms(text: str) -> list[str]:
    """The words of a text for retrieval: stems, then every number as one word without commas."""
    stems: list[str] = []
    for word in _WORD.findall(_NUMBER.sub(" ", text)):
        word = word.lower()
        if _UNSPACED.search(word):
            stems += word
        else:
            stems.append(_stem(re.sub("['’]s?$|['’]", "", word)))
    numbers = [number.replace(",", "") for number in _NUMBER.findall(text)]
    return stems + numbers


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """A light English stemmer: plurals, -ing, -ed, -ly and a final e go; short words stay whole."""
    word = _PLURAL.sub(lambda ending: "y" if ending[0] == "ies" else "", word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3 and re.search("[aeiouy]", stem):
            has_double_letter = stem[-1] == stem[-2] and stem[-1] not in "lsz"
            word = stem[:-1] if has_double_letter else stem
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
