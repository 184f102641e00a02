"""How long references and answers are, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.analysis.stats import with_verdicts
from ems.data import check_join
from ems.terminal import first_few
from ems.types import Answer, Triplet

from . import values_frame

REFERENCE = "reference"


def length_table(
    triplets: Sequence[Triplet], answers: Sequence[Answer], names: Mapping[str, str]
) -> pd.DataFrame:
    """Words of the reference and of each system's answers: n, least, median, most.

    `names` has the models in the order of the rows, with short names.
    """
    words = {REFERENCE: _reference_lengths(triplets)}
    for model, name in names.items():
        words[name] = [len(a.answer.split()) for a in answers if a.model == model]
    rows = []
    for text, lengths in words.items():
        counts = {"n": len(lengths), "least": min(lengths), "most": max(lengths)}
        rows.append({"text": text, **counts, "median": round(median(lengths))})
    return pd.DataFrame(rows)[["text", "n", "least", "median", "most"]]


def _reference_lengths(triplets: Sequence[Triplet]) -> list[int]:
    return [len(triplet.reference_text.split()) for triplet in triplets]


def length_findings(
    triplets: Sequence[Triplet], answers: Sequence[Answer], names: Mapping[str, str]
) -> list[str]:
    """Sentences about what is evaluated, and which systems write more or less than the reference.

    A difference is named where `ems.paired_table` calls it clear. `names` has the models with short
    names.
    """
    groups = len({triplet.group for triplet in triplets})
    words = _reference_lengths(triplets)
    sentences = [
        f"The run has {len(triplets)} questions in {groups} groups and {len(answers)} answers of "
        f"{len(names)} systems. A reference has {median(words):.0f} words in the median."
    ]
    if not names:
        return sentences
    clear = _differences(triplets, answers, names).query("clear")
    shorter, longer = clear[clear["difference"] < 0], clear[clear["difference"] > 0]
    for word, rows in (("shorter", shorter), ("longer", longer)):
        told = [f"{names[row.a]} {abs(row.difference):.0f}" for row in rows.itertuples()]
        if told:
            sentences.append(
                f"Answers are clearly {word} than the references, by this mean number of words: "
                f"{series(told)}."
            )
    for model, missing in check_join(triplets, answers).items():
        sentences.append(
            f"{names[model]} left {len(missing)} questions unanswered, which do not count as zero: "
            f"{first_few(missing)}."
        )
    return sentences


def _differences(
    triplets: Sequence[Triplet], answers: Sequence[Answer], names: Mapping[str, str]
) -> pd.DataFrame:
    """Words of each model's answers minus those of the references, as `ems.paired_table` has them.

    Holm's correction is over the models.
    """
    references = [Answer(t.id, REFERENCE, t.reference_text) for t in triplets]
    texts = [*references, *answers]
    lengths = [len(text.answer.split()) for text in texts]
    values = values_frame(texts, lengths, "words", "Score", {}, triplets)
    tables = [ems.paired_table(values, models=[REFERENCE, model]) for model in names]
    return with_verdicts(pd.concat(tables))
