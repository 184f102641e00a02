"""Makes the table of the local evaluator, ems/local/rarity.txt: PYTHONPATH=notebooks python -m study.rarity

Needs the upstream files in EMS_DATA_MIRROR, with the transcripts of the calls and REALSumm.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from pathlib import Path

from ems.local.terms import read_terms
from ems.local.words import RARITY_TABLE

from .datasets import SETS

STEMS = 8000  # the most common ones are kept
SHORT = 80  # characters; shorter texts, such as a speaker's name, are not counted
ABOUT = """# A weight, then the stems that have it: minus the logarithm of the share of texts with the stem.
# Six sources count alike: paragraphs of ten earnings calls; answers and references of FinanceBench, FinDVer,
# RAGChecker's pairs of even number, K-QA; REALSumm's summaries. Made by notebooks/study/rarity.py.
"""


def table(mirror: Path) -> str:
    """The text of the table."""
    shares: dict[str, float] = defaultdict(float)
    sources = [
        [
            line
            for path in sorted(mirror.glob(files))
            for line in path.read_text("utf-8").splitlines()
        ]
        for files in ("transcripts/*.txt", "realsumm/data/REALSumm/summaries/*")
    ]
    for name in ("financebench", "findver", "ragchecker", "kqa"):
        triplets, answers, _ = SETS[name].load()
        kept = {t.id for t in triplets if name != "ragchecker" or int(t.id) % 2 == 0}
        texts = [
            t.reference or " ".join(p.text for p in t.points) for t in triplets if t.id in kept
        ]
        sources.append(texts + [a.answer for a in answers if a.triplet_id in kept])
    for texts in sources:
        long = [text for text in texts if len(text) > SHORT]
        for term, count in Counter(term for text in long for term in set(read_terms(text))).items():
            if isinstance(term, str):
                shares[term] += count / len(long) / len(sources)
    lines: dict[float, list[str]] = defaultdict(list)
    for stem in sorted(shares, key=lambda stem: (-shares[stem], stem))[:STEMS]:
        lines[max(0.1, round(-math.log(shares[stem]), 1))].append(stem)
    return ABOUT + "".join(f"{weight} {' '.join(stems)}\n" for weight, stems in lines.items())


if __name__ == "__main__":
    RARITY_TABLE.write_text(table(Path(os.environ["EMS_DATA_MIRROR"])), "utf-8")
