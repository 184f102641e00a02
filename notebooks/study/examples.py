"""One answer to look at: chosen by parameters, by a selector, or side by side with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any, TypeVar

import pandas as pd
from IPython.display import Markdown, display

from ems.results import EMSResult
from ems.terminal import did_you_mean, visible
from ems.types import Answer, InputError, Triplet

from .names import short_names

Row = TypeVar("Row", Answer, EMSResult)

_MAX_ANSWERS = 4  # side by side
_MAX_LETTERS = 600  # of a text, side by side


def rows_of_example(rows: Sequence[Row], chosen: Sequence[str]) -> list[Row]:
    """The answers, or results, that `chosen` allows.

    `chosen` has the id of a triplet and a model, or one of them, or none; "" allows all. A model
    may be given by its short name. InputError for an unknown triplet or model, and where the model
    has no answer to the triplet.
    """
    if len(chosen) > 2:
        raise InputError(f"EXAMPLE must be [triplet, model], got {len(chosen)} items")
    triplet_id, model = [*chosen, "", ""][:2]
    if model:
        model = _model_named((r.model for r in rows), model)
        rows = [r for r in rows if r.model == model]
    of_triplet = [r for r in rows if triplet_id in ("", r.triplet_id)]
    if not of_triplet:
        ids = list(dict.fromkeys(r.triplet_id for r in rows))
        raise InputError(
            f"EXAMPLE: no answer to {triplet_id!r}{did_you_mean(triplet_id, ids)}; there are "
            f"{', '.join(ids)}"
        )
    return of_triplet


def example_result(results: Sequence[EMSResult], chosen: Sequence[str] = ()) -> EMSResult:
    """A result to look at, of the rows that `rows_of_example` allows.

    It has the median F1 of the model with the best mean F1 in these rows.
    """
    allowed = rows_of_example(results, chosen)
    valued = [r for r in allowed if r.f1 == r.f1] or allowed
    best = _best_model(valued)
    of_best = [r for r in valued if r.model == best]
    of_best.sort(key=lambda r: (r.f1, r.triplet_id))
    return of_best[len(of_best) // 2]


def _best_model(results: Sequence[EMSResult]) -> str:
    rows = pd.DataFrame([{"model": r.model, "f1": r.f1} for r in results])
    return str(rows.groupby("model")["f1"].mean().fillna(0.0).idxmax())


def _model_named(models: Iterable[str], name: str) -> str:
    """The model with this name, or with this short name."""
    short = short_names(models)
    for model in short:
        if name in (model, short[model]):
            return model
    hint = did_you_mean(name, short.values())
    raise InputError(
        f"EXAMPLE: no answers of {name!r}{hint}; there are {', '.join(short.values())}"
    )


def browse(results: Sequence[EMSResult]) -> Any:
    """A selector that shows any result, where ipywidgets is installed; else what can be chosen."""
    short = short_names(r.model for r in results)
    ids = list(dict.fromkeys(r.triplet_id for r in results))
    try:
        from ipywidgets import Dropdown, interactive
    except ImportError:
        return Markdown(
            "Another answer is drawn with EXAMPLE = [triplet, model]. The triplets are "
            f"{', '.join(ids)}, and the models are {'; '.join(short.values())}. "
            "With the package ipywidgets a selector stands here."
        )
    shown = {(r.triplet_id, r.model): r for r in results}

    def show(triplet: str, model: str) -> None:
        display(shown.get((triplet, model), "This model has no answer to it."))

    models = [(name, model) for model, name in short.items()]
    return interactive(show, triplet=Dropdown(options=ids), model=Dropdown(options=models))


def side_by_side(triplet: Triplet, answers: Sequence[Answer], names: Mapping[str, str]) -> Any:
    """A table of texts: the beginnings of the reference and of up to four answers, side by side.

    `names` has the models from the left, with short names; a model without an answer is left out.
    """
    answer_of = {a.model: a.answer for a in answers if a.triplet_id == triplet.id}
    texts = {"reference": triplet.reference_text}
    for model in [model for model in names if model in answer_of][:_MAX_ANSWERS]:
        texts[names[model]] = answer_of[model]
    cells = {}
    for name, text in texts.items():
        head = f"{name}: {len(text.split())} words"
        cells[head] = shorten(visible(text), _MAX_LETTERS, placeholder=" …")
    style = pd.DataFrame([cells]).style.hide(axis="index").set_uuid("texts")
    style = style.format(escape="html").format_index(escape="html", axis="columns")
    return style.set_properties(**{"text-align": "left", "vertical-align": "top"})
