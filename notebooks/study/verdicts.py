"""Answers of the sixteen systems without the words that name a verdict.

The reference of a refuted claim states the verdict, and so do most answers. Is one number for a
whole answer ahead of EMS because it compares verdicts? The first `N_MASKED` answers were judged
without the words of data/human/verdict_words.txt, and the first `N_AGAIN` a second time as they
are written. Both tables of scores are committed; tests/study/test_verdicts.py makes them again from
the recorded replies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pandas as pd

from ems.io import read_text
from ems.local.sentences import SentenceExtractor
from ems.types import Answer, Points, Triplet

from . import by_hash
from .datasets import findver_systems
from .rescoring import HUMAN

N_MASKED, N_AGAIN = 160, 120  # answers, the first by hash
MASK = "[...]"


# --- texts ---


@cache
def _verdict_words() -> re.Pattern[str]:
    """A word that names a verdict, with the words before it that would show a denial.

    A verb or adverb before it may begin inside a word: "This supports" becomes "Th[...]". The
    recorded replies are about texts that were masked so, and their keys hold the texts.
    """
    verb = r"(?:do|does|did|is|are|was|were|be|been|has|have|can|could|cannot)(?:n['\u2019]t)?"
    adverb = r"(?:not|never|be|been|being|also|therefore|directly|neither|either)"
    before = rf"(?:{verb}\s+)?(?:{adverb}\s+)*(?:(?!only\b)\w+ly\s+)?"
    words = "|".join(read_text(HUMAN / "verdict_words.txt").split())
    return re.compile(rf"{before}(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def masked(text: str) -> str:
    """The text with `MASK` in place of every word that names a verdict."""
    return _verdict_words().sub(MASK, text)


class MaskedSentences:
    """An extractor: points are the masked sentences of the text."""

    signature = "sentences, masked"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        return [tuple(map(masked, points or ())) for points in SentenceExtractor()(texts)]


def drawn_answers(number: int) -> tuple[list[Triplet], list[Answer]]:
    """The triplets of FinDVer's sixteen systems, and so many of their answers, drawn by hash."""
    triplets, answers, _ = findver_systems()
    return triplets, by_hash(answers, lambda a: f"{a.triplet_id}|{a.model}")[:number]


# --- findings ---


def masked_findings(table: pd.DataFrame) -> list[str]:
    """Sentences: is one number ahead of EMS in telling right from wrong verdicts?

    `table` has rows of `agreement.answer_agreement`, of the judge alone against EMS; their column
    `texts` says which texts were judged.
    """
    sentences = []
    for row in table.itertuples():
        sentences.append(
            f"Of the texts {row.texts}, the judge alone tells right from wrong verdicts with an "
            f"AUC of {row.value:.2f}, EMS(LLM) F1 with {row.value - row.difference:.2f}, on "
            f"{row.n} answers: the difference of {row.difference:.2f} [{row.difference_low:.2f}, "
            f"{row.difference_high:.2f}] is {'clear' if row.clear == 'above' else 'not clear'}."
        )
    return sentences
