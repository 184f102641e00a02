"""How long references and answers are, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.terminal import first_few
from ems.types import Answer, Triplet

from . import values_frame

REFERENCE = "(reference)"  # in the place of a model's name


def words_frame(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """A frame of values with the words of every reference and answer."""
    references = [Answer(t.id, REFERENCE, t.reference_text) for t in triplets]
    texts = [*references, *answers]
    lengths = [len(text.answer.split()) for text in texts]
    return values_frame(texts, lengths, "words", "Score", {}, triplets)


def length_findings(words: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """Sentences about a `words_frame`: its size, who clearly writes more or less, what is missing.

    A difference from the references is named where `ems.paired_table` calls it clear. `names` has
    the models with short names.
    """
    table = words.pivot(index="triplet_id", columns="model", values="value")
    sentences = [
        f"The run has {len(table)} questions in {words['group'].nunique()} groups and "
        f"{len(words) - len(table)} answers of {len(names)} systems. A reference has "
        f"{table[REFERENCE].mean():.0f} words on average."
    ]
    pairs = ems.paired_table(words, models=[*names, REFERENCE])
    clear = pairs[pairs["clear"] & (pairs["a"] == REFERENCE)]
    shorter, longer = clear[clear["difference"] > 0], clear[clear["difference"] < 0]
    for word, rows in (("shorter", shorter), ("longer", longer)):
        told = [f"{names[r.b]} {abs(r.difference):.0f} words {word}" for r in rows.itertuples()]
        if told:
            sentences.append(
                f"Answers are clearly {word} than the references, on average: {series(told)}."
            )
    for model, name in names.items():
        unanswered = list(table.index[table[model].isna()])
        if unanswered:
            sentences.append(
                f"{name} left unanswered, which does not count as zero: {first_few(unanswered)}."
            )
    return sentences
