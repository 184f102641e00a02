"""A ladder of information: one model answers with nothing, a part, and all of a call.

The answers and their scores are committed; data/README.md says how the answers were written, and
tests/study/test_ladder.py makes the scores again.
`writing_prompts` gives the prompts for such answers by another model, or of other calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd

from ems.analysis.findings import series
from ems.prompts import Prompts, sanitized
from ems.support.passages import cut
from ems.types import Answer, Triplet

from . import by_hash
from .dataset import slots_of
from .systems import families

WHOLE, AGAIN = "whole", "again"
# The share of a call's passages that the writer of each rung's answers read.
RUNGS = {"no call": 0.0, "a quarter": 0.25, "a half": 0.5, WHOLE: 1.0}
_ANSWERS = {  # what the answers of a rung are called in sentences
    "no call": "answers from memory",
    "a quarter": "answers from a quarter of the call",
    "a half": "answers from a half of the call",
    WHOLE: "answers from the whole call",
    AGAIN: "answers written again from the whole call",
}
LENGTH = "between 250 and 450 words"  # how the kit's prompt asks for the length of an answer
ROW = ["triplet_id", "model", "group"]


# --- writing the answers ---


def part_of_call(call: str, group: str, share: float) -> str:
    """A share of the passages of a call, in their order; hashes decide which.

    The passages of a small share are among those of a larger one.
    """
    passages = cut(call)
    drawn = by_hash(range(len(passages)), partial("{}|{}".format, group))
    return "\n".join(passages[i] for i in sorted(drawn[: round(share * len(passages))]))


def writing_prompts(
    triplets: Sequence[Triplet], whole_answers: Sequence[Answer]
) -> Iterator[dict[str, str]]:
    """The prompt of each answer that is to be written: triplet_id, model, text, prompt.

    A triplet has its call as context (`dataset.call_triplets`). The model is a rung; for one
    question of each group, drawn by hash, also `AGAIN`, the whole call. `text` is the part of the
    call that the prompt shows. The prompt asks for the length of the answer to the same triplet
    among `whole_answers`, within a tenth.
    """
    order = by_hash(triplets, lambda t: f"{AGAIN}|{t.id}")
    once = {t.group: t for t in reversed(order)}  # the first one of each group stays
    words = {answer.triplet_id: len(answer.answer.split()) for answer in whole_answers}
    for t in triplets:
        call = str(t.context)
        texts = {rung: part_of_call(call, t.group, share) for rung, share in RUNGS.items()}
        del texts[WHOLE]
        if t is once[t.group]:
            texts[AGAIN] = call
        length = f"between {round(0.9 * words[t.id])} and {round(1.1 * words[t.id])} words"
        for model, text in texts.items():
            slots = slots_of(sanitized(text))
            prompt = Prompts().fill("answer", **slots, question=sanitized(t.question))
            prompt = prompt.replace(LENGTH, length)
            yield {"triplet_id": t.id, "model": model, "text": text, "prompt": prompt}


# --- steps ---


def ladder_steps(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means of each rung, and each rung minus the one below it: the tables of `systems.families`.

    Intervals and tests are over groups; Holm's correction is over the three steps of a metric.
    """
    return _steps(scores, list(RUNGS))


def written_again(scores: pd.DataFrame) -> pd.DataFrame:
    """What writing the whole-call answer again changes, on the questions for which this was done.

    The second table of `systems.families`: `AGAIN` minus a half (both were written under the same
    instructions), and `WHOLE` minus `AGAIN`. Holm's correction is over both.
    """
    ids = scores.loc[scores["model"] == AGAIN, "triplet_id"]
    return _steps(scores[scores["triplet_id"].isin(ids)], ["a half", AGAIN, WHOLE])[1]


def _steps(scores: pd.DataFrame, rungs: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    metrics = {name: name for name in scores.columns.drop(ROW)}
    return families(scores, metrics, {rung: ("", "ladder", RUNGS.get(rung, 1.0)) for rung in rungs})


def ladder_findings(steps: pd.DataFrame, where: str = "") -> list[str]:
    """Sentences: by which metrics the answers of a rung are clearly higher, or lower, or none.

    `steps` is a table of `ladder_steps` or `written_again`; `where` begins each sentence.
    """
    sentences = []
    for (b, a), rows in steps.groupby(["b", "a"], sort=False):
        answers, others = _ANSWERS[a].capitalize(), _ANSWERS[b]
        clear = rows[rows["clear"]]
        if clear.empty:
            sentences.append(f"{where}{answers} and {others} differ clearly by no metric.")
        for word, side in (("higher", clear["difference"] > 0), ("lower", clear["difference"] < 0)):
            metrics = list(clear.loc[side, "metric"])
            names = series(metrics)
            if len(metrics) == len(rows):
                names = f"all {len(rows)} metrics"
            if names:
                sentences.append(f"{where}{answers} score clearly {word} than {others} by {names}.")
    return sentences
