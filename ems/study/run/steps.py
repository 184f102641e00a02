"""What notebooks 1 to 3 do with models; a dry run does the same, with judges that only count."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import data as frames
from ...asking import Judge
from ...io import write_file
from ...judge.budget import Usage
from ...judge.client import LLMJudge
from ...judge.endpoint import ModelEndpoint
from ...judge.store import Replies
from ...prompting import Prompts
from ...types import Answer, InputError, Triplet
from ..dataset import calls
from ..dataset.writers import Written, write_answers, write_references
from ..people import upstream

if TYPE_CHECKING:
    import pandas as pd

Settings = Mapping[str, Any]


class Judges:
    """The models that a notebook asks, on one store of replies and counted together.

    `store` is the file of the run's replies, None for none, and `recorded` files of recorded replies; they
    are opened when the first model is. `mode`, `workers` and `timeout` are those of `LLMJudge`. `counting`
    makes, of each judge, one that asks nothing and counts what would be asked.
    """

    def __init__(self, store: Path | None, *, recorded: Sequence[Path] = (), mode: str = "live",
                 workers: int = 32, timeout: float = 3600.0,
                 counting: Callable[[LLMJudge], Judge] | None = None):
        self._open_store = lru_cache(maxsize=1)(lambda: Replies(store, recorded=recorded))
        self._open_recorded = lru_cache(maxsize=1)(lambda: Replies(recorded=recorded))
        self.mode, self.workers, self.timeout, self.counting = mode, workers, timeout, counting
        self.opened: list[Any] = []

    def open(self, **settings: Any) -> Any:
        """The judge at an endpoint, from `ModelEndpoint`'s settings; InputError for a wrong one."""
        return self.of(ModelEndpoint.of(settings))

    def of(self, model: ModelEndpoint) -> Any:
        """The judge that asks this model. A `recorded` one is never asked, and what it lacks is not noted."""
        if model.recorded:
            judge = model.judge(self._open_recorded(), mode="replay")
        else:
            judge = model.judge(self._open_store(), mode=self.mode, workers=self.workers,
                                timeout=self.timeout)
        self.opened.append(self.counting(judge) if self.counting and not model.recorded else judge)
        return self.opened[-1]

    def usage(self) -> Usage:
        """What all of them were asked and cost, by model and task (`data.judge_usage`)."""
        return frames.judge_usage(*self.opened)

    def save_usage(self, path: Path) -> Usage:
        """Write the usage as JSON, for the manifest; returns it."""
        usage = self.usage()
        write_file(path, json.dumps(usage).encode())
        return usage


@dataclass(frozen=True, slots=True)
class DataSet:
    """What a run evaluates. `labels` says, for data that come with them, which answers are right."""

    triplets: list[Triplet]
    answers: list[Answer]  # those that come with the data
    labels: pd.DataFrame  # triplet_id, model, correct and more; without rows where there are none


def load_data(root: Path, source: str, *, companies: Sequence[str] = (), triplets: str = "",
              answers: str = "", prompts: Prompts | None = None, transcripts: str = "",
              references: bool = True, limit: int = 0) -> DataSet:
    """The triplets of a source and the answers that come with it; paths are relative to `root`.

    source       "q3-2024": the kit's calls, of the tickers in `companies` (none named: all ten);
                 "findver": the released answers to FinDVer's claims; "files": the file `triplets`.
    answers      file of answers, "" for none; not for findver, which brings its own.
    prompts      the set whose questions are asked (q3-2024).
    transcripts  folder or parquet file with the calls, for models that read them (q3-2024).
    references   False leaves the references of q3-2024 empty, to be written.
    limit        take the first so many triplets; 0 for all.

    InputError for a source, ticker or file that does not exist, and for answers to absent triplets.
    """
    import pandas as pd

    given = frames.load_answers(root / answers) if answers and source != "findver" else []
    labels = pd.DataFrame(columns=["triplet_id", "model", "correct"])
    if source == "findver":
        rows, given, labels = upstream.findver()
    elif source == "files":
        rows = frames.load_triplets(root / triplets)
        frames.check_join(rows, given)
    elif source == calls.OWN:
        rows = _calls(root, companies, prompts or Prompts(), transcripts, references)
    else:
        raise InputError(f"SOURCE must be one of {calls.OWN}, findver, files, got {source!r}")
    rows = rows[:limit or None]
    known = {t.id for t in rows}
    given = [a for a in given if a.triplet_id in known]
    return DataSet(rows, given, labels[labels["triplet_id"].isin(known)])


def _calls(root: Path, companies: Sequence[str], prompts: Prompts, transcripts: str,
           references: bool) -> list[Triplet]:
    data = root / "data"
    known = calls.load_companies(data / "companies.csv")
    if unknown := sorted(set(companies) - {c["ticker"] for c in known}):
        raise InputError(f"COMPANIES: no {unknown[0]!r} in data/companies.csv; there are "
                         f"{[c['ticker'] for c in known]}")
    chosen = [c for c in known if c["ticker"] in companies or not companies]
    questions = (prompts.folder or data) / "questions.yaml"          # a set may have questions of its own
    return calls.build_triplets(chosen, questions if questions.is_file() else data / "questions.yaml",
                                data / "q3-2024" / "references" if references else None,
                                root / transcripts if transcripts else None)


def write_all_references(triplets: Sequence[Triplet], writers: Sequence[Settings], consolidator: Settings,
                         judges: Judges, prompts: Prompts) -> tuple[list[Triplet], list[Written]]:
    """The triplets with references that models write, and their drafts (`writers.write_references`)."""
    models = [(model, judges.of(model)) for model in map(ModelEndpoint.of, writers)]
    final = ModelEndpoint.of(consolidator) if consolidator else None
    return write_references(triplets, models, (final, judges.of(final)) if final else None, prompts)


def write_all_answers(triplets: Sequence[Triplet], writers: Sequence[Settings], judges: Judges,
                      prompts: Prompts) -> list[Written]:
    """The answers of every model in `writers` to every triplet."""
    return [answer for model in map(ModelEndpoint.of, writers)
            for answer in write_answers(triplets, judges.of(model), model, prompts)]


def prompt_set(root: Path, name: str) -> Prompts:
    """The prompt set of this name (`Prompts.named`), or the folder of one, relative to `root`."""
    return Prompts.named(str(root / name) if (root / name).is_dir() else name)


def of_models(answers: Sequence[Any], models: Sequence[str]) -> list[Any]:
    """The answers of these models, of all when none is named. InputError for a model without an answer."""
    known = {a.model for a in answers}
    if unknown := sorted(set(models) - known):
        raise InputError(f"MODELS: no answer of {unknown[0]!r}; there are {sorted(known)}")
    return [a for a in answers if a.model in models or not models]
