"""What an edit of a true text does to its support by the document, for notebook 8.

References about a document are edited in known ways (`edits`) and every sentence is checked against the
document. Changed numbers should lower the support; an order turned round should not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ... import data as frames
from ...io import write_csv
from ...local.sentences import SentenceExtractor
from ...stats import paired
from ...support.stage import with_support
from ...support.support import LocalSupporter
from ...types import EMSResult, Triplet
from ..choices.edits import EDITS, edited_answers

SEED = 7
DOSE = 0.75               # share of an edit's possible changes that are made
TEXTS = 10                # references that are edited, at most


def values(triplets: Sequence[Triplet], *, stored: Path | None = None, save: Path | None = None
           ) -> pd.DataFrame:
    """EMS-Support of one reference a group, unedited and after each edit (`model`), as a values frame.

    Of more than `TEXTS` groups the first by name are taken. The documents are the triplets' contexts; without
    them, rows come from the file `stored`, for these triplets alone: none where it has none. What was
    computed is written to `save`.
    """
    first = {t.group: t for t in sorted(triplets, key=lambda t: t.id, reverse=True)}
    texts = [t for _, t in sorted(first.items())[:TEXTS]]
    if any(not t.context for t in texts):
        none = pd.DataFrame(columns=frames.COLUMNS)
        kept = frames.read_frames(stored) if stored and stored.is_file() else none
        return kept[kept["triplet_id"].isin([t.id for t in texts])].reset_index(drop=True)
    answers, _ = edited_answers(texts, [DOSE], seed=SEED)
    points = SentenceExtractor()([answer.answer for answer in answers])
    results = [EMSResult(a.triplet_id, a.model.partition("@")[0], (), of_answer or (), (),
                         signature=f"edits:dose={DOSE},seed={SEED}")
               for a, of_answer in zip(answers, points, strict=True)]
    frame = frames.support_frame(with_support(results, texts, LocalSupporter()), texts)
    frame = frame[frame["metric"] == "EMS-Support"].reset_index(drop=True)
    if save is not None:
        write_csv(save, frame.round(5))
    return frame


def losses(frame: pd.DataFrame) -> pd.DataFrame:
    """A row an edit, in `edits`' order: harm, support before, loss with its 95 % interval over groups, texts.

    Loss is the support of a text less that of its edited version, in [-1, 1], over the texts for which both
    have a sentence to check. Without rows for an empty frame.
    """
    before = frame.loc[frame["model"] == "unedited", "value"].mean()
    rows = []
    for edit in EDITS:
        if edit.name in set(frame["model"]):
            gap = paired(frame, "EMS-Support", "Score", "unedited", edit.name)
            rows.append((edit.name, edit.harm, before, gap.difference, gap.ci_low, gap.ci_high, gap.n))
    columns = ["edit", "harm", "support before", "loss", "ci_low", "ci_high", "texts"]
    return pd.DataFrame(rows, columns=columns)
