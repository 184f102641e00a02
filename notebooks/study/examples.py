"""One answer to look at: chosen by parameters, by a selector, or side by side with others."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from IPython.display import HTML, Markdown, display

from ems.results import EMSResult
from ems.terminal import did_you_mean, visible
from ems.types import Answer, InputError, Triplet

from .names import short_names

_MAX_ANSWERS = 4  # side by side
_MAX_WORDS = 90  # of a text, side by side


def example_result(
    results: Sequence[EMSResult], triplet_id: str = "", model: str = ""
) -> EMSResult:
    """A result to look at: the answer of `model` to `triplet_id`.

    Without a model it is one of the model with the best mean F1, and without a triplet the result
    with the model's median F1. A model may be given by its short name. InputError for an unknown
    triplet or model, and where the model has no answer to the triplet.
    """
    valued = [r for r in results if r.f1 == r.f1] or list(results)
    model = _model_named(results, model) if model else _best_model(valued)
    if triplet_id:
        of_triplet = [r for r in results if r.triplet_id == triplet_id and r.model == model]
        if of_triplet:
            return of_triplet[0]
        ids = dict.fromkeys(r.triplet_id for r in results if r.model == model)
        hint = did_you_mean(triplet_id, ids)
        raise InputError(
            f"EXAMPLE: {model} has no answer to {triplet_id!r}{hint}; there are {', '.join(ids)}"
        )
    of_model = [r for r in valued if r.model == model] or [r for r in results if r.model == model]
    of_model.sort(key=lambda r: (r.f1, r.triplet_id))
    return of_model[len(of_model) // 2]


def _best_model(results: Sequence[EMSResult]) -> str:
    rows = pd.DataFrame([{"model": r.model, "f1": r.f1} for r in results])
    return str(rows.groupby("model")["f1"].mean().fillna(0.0).idxmax())


def _model_named(results: Sequence[EMSResult], name: str) -> str:
    """The model with this name, or with this short name."""
    short = short_names(dict.fromkeys(r.model for r in results))
    for model in short:
        if name in (model, short[model]):
            return model
    hint = did_you_mean(name, [*short, *short.values()])
    raise InputError(f"EXAMPLE_MODEL: no answers of {name!r}{hint}; there are {', '.join(short)}")


def browse(results: Sequence[EMSResult]) -> Any:
    """A selector that shows any result, where ipywidgets is installed; else what can be chosen."""
    short = short_names(dict.fromkeys(r.model for r in results))
    ids = list(dict.fromkeys(r.triplet_id for r in results))
    try:
        from ipywidgets import Dropdown, interactive
    except ImportError:
        return Markdown(
            "Another answer is drawn with EXAMPLE, one of the triplets "
            f"{', '.join(ids)}, and EXAMPLE_MODEL, one of the models {'; '.join(short.values())}. "
            "With the package ipywidgets a selector stands here."
        )
    shown = {(r.triplet_id, r.model): r for r in results}

    def show(triplet: str, model: str) -> None:
        display(shown.get((triplet, model), "This model has no answer to it."))

    models = [(name, model) for model, name in short.items()]
    return interactive(show, triplet=Dropdown(options=ids), model=Dropdown(options=models))


def side_by_side(triplet: Triplet, answers: Sequence[Answer], names: Mapping[str, str]) -> HTML:
    """A question, with the beginnings of its reference and of up to four answers side by side.

    `names` has the models from the left, with short names; a model without an answer is left out.
    """
    answer_of = {a.model: a.answer for a in answers if a.triplet_id == triplet.id}
    texts = {"reference": triplet.reference}
    for model in [model for model in names if model in answer_of][:_MAX_ANSWERS]:
        texts[names[model]] = answer_of[model]
    head = "".join(
        f"<th>{_safe(name)}: {len(text.split())} words</th>" for name, text in texts.items()
    )
    body = "".join(f"<td>{_beginning(text)}</td>" for text in texts.values())
    style = "text-align:left;vertical-align:top;white-space:normal"
    return HTML(
        f"<p><b>{_safe(triplet.id)}</b> {_safe(triplet.question)}</p>"
        f'<table><tr style="{style}">{head}</tr><tr style="{style}">{body}</tr></table>'
    )


def _beginning(text: str) -> str:
    words = text.split()
    rest = len(words) - _MAX_WORDS
    beginning = _safe(" ".join(words[:_MAX_WORDS]))
    return f"{beginning} <i>… {rest} more words</i>" if rest > 0 else beginning


def _safe(text: str) -> str:
    return html.escape(visible(text))
