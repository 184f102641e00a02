"""How many functions a reader opens to follow one question to a judge, and one cell of Table 1.

Run `PYTHONPATH=notebooks python tests/ways.py` to see them by file, in the order in which they are
entered. Functions of ems/ and notebooks/study/ count: methods, properties, lambdas and nested
functions as well. Comprehensions, and what a class decorator writes, have no definition of their
own and do not count.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import study
from loopback import Loopback, by_words
from study import ROOT
from study.table1 import save_table1

import ems
from ems.judge.client import LLMJudge
from ems.match import LLMMatcher
from ems.prompts import quoted

COUNTED = (str(ROOT / "ems"), str(ROOT / "notebooks" / "study"))
TEXT = "Sales rose by 20%. Costs fell."


class Way:
    """The functions that run in its block, in all threads, in the order of their first call.

    What runs below a function of the names in `apart` does not count, nor that function. The block
    of a way may `end` before its last line: when the function with this code returns.
    """

    def __init__(self, apart: tuple[str, ...], end: CodeType | None = None):
        self.functions: dict[CodeType, None] = {}
        self._apart = apart
        self._end = end
        self._has_ended = False

    def __enter__(self) -> Way:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        if self._has_ended:
            return
        if event == "return" and frame.f_code is self._end:
            self._has_ended = True
        if event == "call" and self._counts(frame):
            self.functions.setdefault(frame.f_code)

    def _counts(self, frame: FrameType) -> bool:
        code = frame.f_code
        if not code.co_filename.startswith(COUNTED):
            return False
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return False
        below: FrameType | None = frame
        while below is not None:
            if below.f_code.co_name in self._apart:
                return False
            below = below.f_back
        return True

    def by_file(self) -> dict[str, list[str]]:
        files: dict[str, list[str]] = defaultdict(list)
        for code in self.functions:
            file = str(Path(code.co_filename).relative_to(ROOT))
            files[file].append(code.co_qualname)
        return files


def request_way() -> Way:
    """One judge's question about matches: from `EMS.evaluate`, over HTTP, and back to the match.

    One answer is evaluated with a live judge, as in notebook 3. The points come from stage 1, whose
    replies are in the store already; stage 1, with the figures of both texts, is another way. The
    way ends where the matcher returns the match.
    """
    triplets = [ems.Triplet("t", "g", "How did it go?", TEXT)]
    answers = [ems.Answer("t", "m", "Sales rose by 20%. Nothing else changed.")]
    with Loopback(by_words) as server:
        judge = LLMJudge("m", base_url=server.url, api_key="none")
        pipeline = ems.build(judge, joint=True)
        points = pipeline.points_of(pipeline.extractor, {"t": triplets[0]}, answers)
        assert len(points[0].ref_points) == len(points[0].ans_points) == 2
        before = server.count
        quoted.cache_clear()
        with Way(apart=("points_of",), end=LLMMatcher.__call__.__code__) as way:
            (result,) = pipeline.evaluate(triplets, answers)
        assert result.match == (0, -1)
        assert server.count == before + 2  # a question about matches and one about their scores
    return way


def cell_way() -> Way:
    """One cell of table1.csv: from the values in a run's files to the file.

    Apart are the check of the run's answers, and the other tables: table1.md and .tex, with the
    paper's values, short names and notes.
    """
    values = study.read_frames(study.COMMITTED / "values.csv.gz")
    paper = study.read_frames(ROOT / "data" / "paper" / "table1.csv")
    summarise, _ = ems.summarise, ems.table1  # the first look at a name imports its module
    apart = ("_check_answers", "table1", "beside_paper", "_notes", "run_notes", "short_names")
    apart += ("with_short_names", "_markdown", "_latex")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        notebook = values["metric"].map(study.notebook_of)
        for number, name in study.VALUES_FILES.items():
            study.write_csv(run / name, values[notebook == number])
        for name in ("triplets.jsonl", "answers.jsonl"):
            (run / name).write_bytes((study.COMMITTED / name).read_bytes())
        with Way(apart) as way, contextlib.redirect_stdout(io.StringIO()):
            save_table1(summarise(study.read_values(run)), run, paper)
        assert (run / "table1.csv").read_text().startswith("metric,part,model,value")
    return way


WAYS: dict[str, Callable[[], Way]] = {
    "one question to a judge": request_way,
    "one cell of table1.csv": cell_way,
}


def main() -> None:
    for title, follow in WAYS.items():
        way = follow()
        files = way.by_file()
        print(f"{title}: {len(way.functions)} functions in {len(files)} files")
        for file, names in files.items():
            print(f"  {file} ({len(names)}): {', '.join(names)}")


if __name__ == "__main__":
    main()
