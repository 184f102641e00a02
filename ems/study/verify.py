"""FinDVer's claims as answers of one point, checked against their filings by the local supporter.

A claim is taken as refuted when it is contradicted or a number of it is missing, else as entailed: a claim
without an amount always is. The rule was chosen on one half of the filings (`CHOSEN`) and is measured on the
other; which half a filing is in follows from its name alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..data import read_frames
from ..io import write_csv
from ..stats import mean_over
from ..support.document import Document
from ..support.retrieve import average_precision, recall_at, reciprocal_rank
from ..support.support import LocalSupporter
from .upstream import findver_claims

CHOSEN, MEASURED = "chosen on", "measured on"
SUBSETS = {"all": "all claims", "ie": "FDV-IE", "numeric": "FDV-MATH", "knowledge": "FDV-KNOW"}
K = 10                       # passages that are retrieved


def claims(committed: Path, recompute: bool, save: Path | None = None) -> pd.DataFrame:
    """A row a claim, from the file `committed` or computed from the pinned filings (and written to `save`).

    Columns: triplet_id, group (the filing), half, subset, entailed, label, checked, said, right, recall_3 to
    recall_10, map_relevant, map_found, mrr, signature, and `right: <model>` for each released model.
    """
    if not recompute:
        return read_frames(committed)
    frame = _checked_claims()
    if save is not None:
        write_csv(save, frame.round(5))
    return frame


def half_of(filings: Sequence[str]) -> dict[str, str]:
    """Every second filing in the order of the SHA-256 of its name, the first one included, is `CHOSEN`."""
    ordered = sorted(set(filings), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return {name: (CHOSEN, MEASURED)[i % 2] for i, name in enumerate(ordered)}


def _checked_claims() -> pd.DataFrame:
    given, passages, released = findver_claims()
    halves, supporter = half_of([claim["report"] for claim in given]), LocalSupporter()
    documents = {name: Document(texts) for name, texts in passages.items()}
    rows = []
    for claim in given:
        document, relevant = documents[claim["report"]], claim["relevant"]
        ranked = document.index.top(claim["statement"], K)
        support, = supporter.check(document, [claim["statement"]])
        said = not (support.label == "contradicted" or support.missing)
        id_ = claim["triplet_id"]
        rows.append({
            "triplet_id": id_, "group": claim["report"].removesuffix(".json"),
            "half": halves[claim["report"]], "subset": claim["subset"], "entailed": claim["entailed"],
            "label": support.label, "checked": support.checked, "said": said,
            "right": said == claim["entailed"],
            **{f"recall_{k}": recall_at(ranked, relevant, k) for k in (3, 5, K)},
            "map_relevant": average_precision(ranked, relevant),
            "map_found": average_precision(ranked, relevant, over="found"),
            "mrr": reciprocal_rank(ranked, relevant), "signature": supporter.signature,
            **{f"right: {model}": results[id_] for model, results in released.items()}})
    return pd.DataFrame(rows)


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """The rule by half and subset: claims, share right with its interval over filings, share right of those
    with a number to check, share refuted of those flagged (and how many), and on the same claims the best and
    the median released model.
    """
    rows = []
    for half in (CHOSEN, MEASURED):
        for subset, name in SUBSETS.items():
            cell = frame[(frame["half"] == half) & ((frame["subset"] == subset) | (subset == "all"))]
            if cell.empty:
                continue
            flagged, with_number = cell[~cell["said"].astype(bool)], cell[cell["checked"].astype(bool)]
            models = cell.filter(like="right: ").mean()
            rows.append({"half": half, "claims of": name, "n": len(cell), **_interval(cell),
                         "right, of those with a number": with_number["right"].mean(),
                         "refuted, of those flagged": (~flagged["entailed"].astype(bool)).mean(),
                         "flagged": len(flagged), "best model": models.max(),
                         "median model": models.median()})
    return pd.DataFrame(rows)


def _interval(cell: pd.DataFrame) -> dict[str, float]:
    """Share right with its 95 % interval over filings."""
    share = mean_over(cell["right"].astype(float), cell["group"])
    return {"right": share.value, "ci_low": share.ci_low, "ci_high": share.ci_high}


def retrieval(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean recall at 3, 5 and 10, average precision both ways, and reciprocal rank of BM25, by half."""
    columns = ["recall_3", "recall_5", "recall_10", "map_relevant", "map_found", "mrr"]
    return pd.concat([frame.groupby("half")[columns].mean(), frame[columns].mean().to_frame("all").T])


def findings(table: pd.DataFrame, ranks: pd.DataFrame) -> str:
    """What the rule is worth, in words; only the half that it was not chosen on counts."""
    rows = table[table["half"] == MEASURED].set_index("claims of")
    whole, math_, ie, know = (rows.loc[SUBSETS[name]] for name in ("all", "numeric", "ie", "knowledge"))

    worth = ("which is not above the 50 % of guessing" if not whole["ci_low"] > 0.5
             else "which is above the 50 % of guessing")
    with_amount, flagged = (_percent(row[name]) for row, name in (
        (whole, "right, of those with a number"), (ie, "refuted, of those flagged")))
    return (
        f"- **FinDVer's claims.** The rule, on {whole['n']} claims of filings on which it was not chosen, is "
        f"right about {_share(whole)}, {worth} (the median released model: "
        f"{_percent(whole['median model'])}); {with_amount} of those with an amount. On FDV-MATH "
        f"{_share(math_)} ({_percent(math_['median model'])}), on FDV-IE {_share(ie)} "
        f"({_percent(ie['median model'])}), on FDV-KNOW {_share(know)} ({_percent(know['median model'])}). "
        f"Of the {ie['flagged']} FDV-IE claims that it flags, {flagged} are refuted.\n"
        f"- **Retrieval.** BM25 has {_percent(ranks.loc['all', 'recall_10'])} of the experts' passages "
        "among its ten best, over all filings at hand.")


def _share(row: pd.Series) -> str:
    """The share right, with its interval where there is one."""
    ends = f" [{100 * row['ci_low']:.0f}, {100 * row['ci_high']:.0f}]"
    return _percent(row["right"]) + ("" if pd.isna(row["ci_low"]) else ends)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
