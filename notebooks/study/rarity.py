"""Makes the table of the local evaluator, ems/local/rarity.txt.

Run `PYTHONPATH=notebooks python -m study.rarity`. It needs the upstream files in EMS_DATA_MIRROR,
with the transcripts of the calls and REALSumm.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from pathlib import Path

from ems.local.figures import read_terms
from ems.local.words import RARITY_TABLE

from .datasets import SETS

MAX_STEMS = 8000  # the most common ones
# In characters. Shorter texts, such as a speaker's name, are not counted.
MIN_LENGTH = 80
HEADER = """\
# A weight, then the stems that have it: minus the logarithm of the share of texts with the stem.
# Six sources count alike: paragraphs of ten earnings calls; answers and references of
# FinanceBench, FinDVer, RAGChecker's pairs of even number, K-QA; REALSumm's summaries.
# Made by notebooks/study/rarity.py.
"""


def rarity_table(mirror: Path) -> str:
    """The text of the table, from the upstream files in the folder `mirror`."""
    sources = [
        lines_of(mirror, "transcripts/*.txt"),
        lines_of(mirror, "realsumm/data/REALSumm/summaries/*"),
        *map(texts_of, ("financebench", "findver", "ragchecker", "kqa")),
    ]
    shares: dict[str, float] = defaultdict(float)
    for texts in sources:
        for stem, share in stem_shares(texts).items():
            shares[stem] += share / len(sources)
    stems_of: dict[float, list[str]] = defaultdict(list)  # by weight, in the order of their shares
    for stem in sorted(shares, key=lambda stem: (-shares[stem], stem))[:MAX_STEMS]:
        weight = max(0.1, round(-math.log(shares[stem]), 1))
        stems_of[weight].append(stem)
    lines = [f"{weight} {' '.join(stems)}\n" for weight, stems in stems_of.items()]
    return HEADER + "".join(lines)


def lines_of(mirror: Path, pattern: str) -> list[str]:
    """The lines of all files that a pattern names."""
    lines = []
    for path in sorted(mirror.glob(pattern)):
        lines += path.read_text("utf-8").splitlines()
    return lines


def texts_of(name: str) -> list[str]:
    """The references and answers of one of `SETS`; of RAGChecker only the pairs of even number."""
    triplets, answers, _ = SETS[name].load()
    texts = {}
    for triplet in triplets:
        if name != "ragchecker" or int(triplet.id) % 2 == 0:
            points = " ".join(point.text for point in triplet.points)
            texts[triplet.id] = triplet.reference or points
    return [*texts.values(), *(a.answer for a in answers if a.triplet_id in texts)]


def stem_shares(texts: list[str]) -> dict[str, float]:
    """The share of the longer texts that have a stem, by stem."""
    long = [text for text in texts if len(text) > MIN_LENGTH]
    counts: Counter[str] = Counter()
    for text in long:
        counts.update(term for term in set(read_terms(text)) if isinstance(term, str))
    return {stem: count / len(long) for stem, count in counts.items()}


if __name__ == "__main__":
    RARITY_TABLE.write_text(rarity_table(Path(os.environ["EMS_DATA_MIRROR"])), "utf-8")
