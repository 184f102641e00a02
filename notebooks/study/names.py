"""Short names of systems, the same in every table and figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd

from ems.analysis.tables import shortened
from ems.io import parse_yaml, read_text
from ems.terminal import visible

from . import ROOT

_FILE = ROOT / "data" / "short_names.yaml"
_TUNING = re.compile(r"[-_](?:instruct|chat|it|hf)(?![a-z0-9])", re.IGNORECASE)
_BEFORE_SIZE = re.compile(r"[-_](?=[0-9]+(?:\.[0-9]+)?[bm](?![a-z0-9]))", re.IGNORECASE)


def short_names(models: Iterable[str]) -> dict[str, str]:
    """A short name for each model, in the order in which the models first come.

    data/short_names.yaml has those of the kit's systems. Any other name loses the words that say
    only how a model was tuned, and a space stands before its size: "Mistral-7B-Instruct-v0.3" is
    "Mistral 7B-v0.3". A short name has at most 48 letters. Models that would get the same one keep
    their own names.
    """
    given = parse_yaml(read_text(_FILE), _FILE)
    short = {}
    for model in models:
        name = _BEFORE_SIZE.sub(" ", _TUNING.sub("", model)).strip()
        short[model] = given.get(model) or shortened(name or model)
    times = Counter(short.values())
    return {model: name if times[name] == 1 else visible(model) for model, name in short.items()}


def with_short_names(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """A table of `ems.table1` whose columns of models have their short names."""
    return table.rename(columns={shortened(model): name for model, name in names.items()})
