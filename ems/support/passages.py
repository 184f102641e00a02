"""A document cut into passages, and the passages that speak of the same thing as a text (BM25).

BM25 as in Robertson and Zaragoza (2009), section 3, with the idf that is never negative (Lucene's). How a
document is cut and how passages are ranked decides what a judge is shown, and so the keys of its recorded
replies: a change here makes recorded replies of `support` unusable.
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
K1, B = 1.2, 0.75  # the usual values of BM25: how soon repetition saturates, how much length counts
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_PLURAL = re.compile(r"(?<=...)(?:ies|(?<=...ss)es|(?<![sui])s)$")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Scripts written without spaces: each character is a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


class Passages:
    """The passages of a document and an index of their words, built once and asked for many texts.

    InputError when no passage has a word or a number.
    """

    def __init__(self, texts: Sequence[str]):
        self.texts = tuple(texts)
        words = [terms(text) for text in texts]
        if not any(words):
            raise InputError(
                "the document is empty; give the text that answers are to be checked against"
            )
        self._holders: dict[str, list[tuple[int, int]]] = defaultdict(
            list
        )  # term -> (passage, count)
        for i, own in enumerate(words):
            for term, n in Counter(own).items():
                self._holders[term].append((i, n))
        mean = sum(map(len, words)) / len(words)
        self._norms = [K1 * (1 - B + B * len(own) / mean) for own in words]

    def top(self, text: str, k: int) -> list[int]:
        """Indices of the `k` best passages, the best first; of two equal ones the earlier.

        Fewer where fewer share a word with `text`.
        """
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(terms(text)):
            holders = self._holders.get(term, ())
            idf = math.log(1 + (len(self.texts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for i, n in holders:
                scores[i] += idf * (K1 + 1) * n / (n + self._norms[i])
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


@lru_cache(maxsize=64)
def passages_of(context: str | tuple[str, ...]) -> Passages:
    """The passages of a document's text, cut by `cut`, or those that the caller has cut."""
    return Passages(cut(context) if isinstance(context, str) else context)


def cut(text: str) -> list[str]:
    """The passages of a text, each of about `SIZE` characters.

    A text is cut at empty lines; a long paragraph at a line's end, a sentence's end or a space, within a word
    or a number only when that is longer than a passage. Short pieces are joined.
    """
    passages: list[str] = []
    for piece in (
        piece for block in re.split(r"\n\s*\n", text) for piece in _pieces(block.strip())
    ):
        if passages and len(passages[-1]) + len(piece) < SIZE:
            passages[-1] += "\n" + piece
        else:
            passages.append(piece)
    return passages


def _pieces(block: str) -> Iterator[str]:
    while len(block) > SIZE:
        window = block[:SIZE]
        ends = (window.rfind("\n"), window.rfind(". ") + 1, window.rfind(" "))
        before_last_word = len(window.rstrip(f"{ascii_letters}{digits}.,")) or SIZE
        end = next((end for end in ends if end > SIZE // 2), before_last_word)
        yield block[:end].strip()
        block = block[end:]
    if block.strip():
        yield block.strip()


def terms(text: str) -> list[str]:
    """The words of a text for retrieval: stems, then every number as one word without its commas."""
    stems: list[str] = []
    for word in map(str.lower, _WORD.findall(_NUMBER.sub(" ", text))):
        stems += word if _UNSPACED.search(word) else [stem(re.sub("['’]s?$|['’]", "", word))]
    return stems + [number.replace(",", "") for number in _NUMBER.findall(text)]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light English stemmer: plurals, -ing, -ed, -ly and a final e go; short words stay whole."""
    word = _PLURAL.sub(lambda ending: "y" if ending[0] == "ies" else "", word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        shorter = word.removesuffix(ending)
        if shorter != word and len(shorter) >= 3 and re.search("[aeiouy]", shorter):
            doubled = shorter[-1] == shorter[-2] and shorter[-1] not in "lsz"
            word = shorter[:-1] if doubled else shorter
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
