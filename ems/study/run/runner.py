"""`ems reproduce`: run the notebooks of a profile strictly, and never twice for the same result.

A profile is a YAML file of notebook parameters: one mapping per notebook, and `common` for what several
share. Each notebook says in its metadata (`ems.reads`, `ems.writes`) which files of the run it needs and
makes. A notebook is skipped when its source, its parameters, the package, and every file it reads are what
they were at its last success. Notebooks that do not need each other run side by side.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...io import home, meant, write_json
from ...judge.store import FINAL
from ...types import InputError
from ..dataset.calls import read_yaml
from ..own import pipeline_with, source_of
from .preflight import check_inputs, check_models, check_transcripts
from .project import project_root

if TYPE_CHECKING:
    from ...judge.budget import Usage
    from .steps import Judges

PACKAGES = ("openai", "nltk", "rouge-score", "bert-score", "torch", "transformers", "numpy", "pandas",
            "scipy", "matplotlib", "seaborn", "papermill", "jupyterlab")
HASHED = (".jsonl", ".csv", ".md", ".tex", ".png")       # products of a run whose hashes the manifest holds
Parameters = Mapping[str, Any]


# --- profiles and parameters ---

def load_profile(root: Path, name: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook (and `common`) of a profile, by name or path; InputError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else root / "profiles" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in (root / "profiles").glob("*.yaml")))
        raise InputError(f"no profile {name!r}{meant(name, known.split(', '))}; there are {known}, or give "
                         "the path of a .yaml file")
    profile = read_yaml(path)
    if not isinstance(profile, dict) or not all(isinstance(v, dict) for v in profile.values()):
        raise InputError(f"{path} must map notebook names (and common) to parameters")
    return profile


def notebooks(root: Path, only: Sequence[str] = ()) -> list[Path]:
    """The numbered notebooks in order, or those whose names begin with one of `only`."""
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    for prefix in only:
        if not any(p.name.startswith(prefix) for p in paths):
            raise InputError(f"no notebook begins with {prefix!r}; there are "
                             f"{', '.join(p.stem for p in paths)}")
    return [p for p in paths if not only or p.name.startswith(tuple(only))]


def chosen_notebooks(root: Path, profile: Mapping[str, Parameters], only: Sequence[str] = ()) -> list[Path]:
    """The notebooks of a run: those of `only`, or all but the optional ones (`ems.optional` in a notebook's
    metadata) that the profile does not name.
    """
    return [p for p in notebooks(root, only)
            if only or p.stem in profile or not _read(p)["metadata"].get("ems", {}).get("optional")]


def declared(path: Path) -> dict[str, Any]:
    """The parameters of a notebook's tagged cell with their default values, which are plain literals."""
    cells = [c for c in _read(path)["cells"] if "parameters" in c["metadata"].get("tags", ())]
    if len(cells) != 1:
        raise InputError(f"{path.name} must have one cell tagged 'parameters', it has {len(cells)}")
    values = {}
    for node in ast.parse("".join(cells[0]["source"])).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            raise InputError(f"{path.name}, line {node.lineno} of its parameters: each must read "
                             "NAME = VALUE")
        values[node.targets[0].id] = ast.literal_eval(node.value)
    return values


def parameters_of(paths: Sequence[Path], profile: Mapping[str, Parameters], given: Parameters,
                  all_paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """What each notebook is run with: profile, then `given`. InputError for an unknown name or wrong type."""
    known = {p.stem: declared(p) for p in all_paths}
    _refuse_unknown(profile, given, known)
    chosen: dict[str, dict[str, Any]] = {path.stem: {} for path in paths}
    for stem, values in chosen.items():
        for name, value in {**profile.get("common", {}), **profile.get(stem, {}), **given}.items():
            if name in known[stem]:
                values[name] = _like(known[stem][name], value, f"{stem}.ipynb: {name}")
    return chosen


def _refuse_unknown(profile: Mapping[str, Parameters], given: Parameters,
                    known: Mapping[str, Parameters]) -> None:
    """InputError for a notebook, or a parameter, that does not exist."""
    if unknown := set(profile) - known.keys() - {"common"}:
        raise InputError(f"the profile names notebooks that do not exist: {sorted(unknown)}; "
                         f"there are {sorted(known)}")
    everywhere = {name for names in known.values() for name in names}
    for where, names in (("the profile's common part", profile.get("common", {})), ("-p", given)):
        if spare := set(names) - everywhere:
            raise InputError(f"{where}: no notebook has a parameter "
                             f"{sorted(spare)}{meant(min(spare), everywhere)}; "
                             f"there are {sorted(everywhere)}")
    for stem, names in known.items():
        if spare := set(profile.get(stem, {})) - names.keys():
            raise InputError(f"{stem}.ipynb: no parameter {sorted(spare)}{meant(min(spare), names)}; it has "
                             f"{sorted(names)}")


def _like(default: Any, value: Any, name: str) -> Any:
    """A parameter's value; where its default is "yes" or "no", YAML's reading of these words is undone.
    InputError for one of another type than the default.
    """
    if isinstance(value, bool) and default in ("yes", "no", "auto"):
        return "yes" if value else "no"
    kinds = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, kinds) or isinstance(default, bool) != isinstance(value, bool):
        raise InputError(f"{name} must be {type(default).__name__} like {default!r:.60}, got {value!r:.60}")
    return value


# --- a run ---

@dataclass(frozen=True, slots=True)
class Step:
    """A notebook of a run: with what it is run, and which files of the run it reads and writes."""

    path: Path
    values: dict[str, Any]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A profile's run: the project, the run's folder, its notebooks, the hash of the package."""

    root: Path
    folder: Path
    steps: tuple[Step, ...]
    code: str

    def stamp_of(self, step: Step) -> Path:
        """The record of a notebook's last success."""
        return self.folder / ".stamps" / f"{step.path.stem}.json"

    def fingerprint(self, step: Step) -> str:
        """A hash over a notebook's source, parameters, package, data mirror and the files that it reads."""
        cells = [(c["cell_type"], "".join(c["source"])) for c in _read(step.path)["cells"]]
        reads = {name: _hash(self.folder / name) for name in step.reads}
        named = {text: _hash(self.root / text) for text in _strings(step.values)
                 if 0 < len(text) < 300 and not (self.root / text).is_relative_to(self.folder)
                 and (self.root / text).exists()}
        prompts = _hash(home() / "prompts" / step.values.get("PROMPTS", "kit"))
        own = {text: _hash(file) for text in _strings(step.values) if (file := source_of(text)) is not None}
        parts = [cells, step.values, self.code, reads, named, own, os.environ.get("EMS_DATA_MIRROR", ""),
                 prompts]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    def last_report(self, step: Step) -> dict[str, Any] | None:
        """What a notebook's last success reported; None when it has to run (again)."""
        try:
            last = _read(self.stamp_of(step))
        except (OSError, ValueError):
            return None
        unchanged = last["fingerprint"] == self.fingerprint(step) and all(
            _hash(self.folder / name) == digest for name, digest in last["writes"].items())
        return last["report"] if unchanged else None


def reproduce(profile: str = "default", *, only: Sequence[str] = (), given: Parameters | None = None,
              root: Path | None = None) -> Path:
    """Run a profile; returns its folder `runs/<profile>`. Executed copies go to `<run>/notebooks/`.

    Two notebooks run at a time where neither needs the other's files and none asks a model. The same call
    goes on after a failure, and asks again for what a judge left without a reply. The default profile, whole
    and with its own parameters, also refreshes figures/. InputError before anything runs when a file, a call
    or a model is missing that a profile names, and with its last line when a notebook fails.
    """
    if find_spec("papermill") is None:
        raise InputError("ems reproduce needs papermill: pip install 'ems-kit[notebooks]'")
    root, given, started = project_root(root), dict(given or {}), time.time()
    settings, everything = load_profile(root, profile), notebooks(root)
    chosen = parameters_of(chosen_notebooks(root, settings, only), settings, given, everything)
    folder, steps = _folder(root, profile, settings, given), []
    for path in [p for p in everything if p.stem in chosen]:
        about, defaults, values = _read(path)["metadata"].get("ems", {}), declared(path), chosen[path.stem]
        values |= {"RUN": str(folder)} if "RUN" in defaults else {}
        check_inputs(root, path.name, {**defaults, **values})
        steps.append(Step(path, values, tuple(about.get("reads", ())), tuple(about.get("writes", ()))))
    run = Run(root, folder, tuple(steps), _hash(Path(__file__).resolve().parents[2], (".py", ".txt")))
    due = [{**declared(step.path), **step.values} for step in steps if run.last_report(step) is None]
    check_transcripts(root, due)
    check_models(root, folder / "replies.sqlite", due)
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    live = any(step.values.get("MODE", "replay") != "replay" for step in steps)
    kernels = Kernels(jobs=1 if live else min(2, os.cpu_count() or 1))
    reports = side_by_side(steps, lambda step: _run_step(run, step, kernels), kernels)
    write_json(folder / "manifest.json", _manifest(profile, run, reports, time.time() - started))
    if profile == "default" and not only and not given:       # the figures that the project shows
        shutil.copytree(folder / "figures", root / "figures", dirs_exist_ok=True)
    if not only:
        _say(f"done in {time.time() - started:.0f} s: {os.path.relpath(folder)}")
    return folder


def _folder(root: Path, profile: str, settings: Mapping[str, Parameters], given: Parameters) -> Path:
    return root / (given.get("RUN") or settings.get("common", {}).get("RUN") or f"runs/{Path(profile).stem}")


def side_by_side(steps: Sequence[Step], work: Callable[[Step], Any], kernels: Kernels) -> list[Any]:
    """`work` of every step, in order; `kernels.jobs` at a time, each after those that write what it reads.

    When one fails, those under way are finished and no other is begun. Ctrl-C ends the kernels.
    """
    results: dict[int, Any] = {}
    running: dict[Future[Any], int] = {}
    waiting: list[int] = []
    order = TopologicalSorter({i: [k for k, other in enumerate(steps) if k != i and
                                   set(other.writes) & set(step.reads)] for i, step in enumerate(steps)})
    try:
        order.prepare()
    except CycleError as error:
        circle = [steps[i].path.stem for i in sorted(set(error.args[1]))]
        raise InputError(f"{' and '.join(circle)} wait for each other's files; mend their ems.reads and "
                         "ems.writes") from None
    with ThreadPoolExecutor(kernels.jobs) as pool:
        try:
            while order.is_active():
                waiting = sorted([*waiting, *order.get_ready()])
                while waiting and len(running) < kernels.jobs:
                    i = waiting.pop(0)
                    running[pool.submit(work, steps[i])] = i
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    results[running[future]] = future.result()
                    order.done(running.pop(future))
        except KeyboardInterrupt:
            kernels.kill()
            raise
    return [results[i] for i in range(len(steps))]


def _run_step(run: Run, step: Step, kernels: Kernels) -> dict[str, Any]:
    """Run one notebook unless it is up to date; its report, for the manifest."""
    title = f"[{run.steps.index(step) + 1}/{len(run.steps)}] {step.path.stem}"
    copy = run.folder / "notebooks" / step.path.name
    if (last := run.last_report(step)) is not None:
        _say(f"{title}: unchanged, skipped")
        return last
    _say(f"{title} ...")
    began = time.time()
    kernels.execute(step.path, copy, step.values, run.root)
    if absent := [name for name in step.writes if not (run.folder / name).exists()]:
        raise InputError(f"{step.path.name} ended without writing {absent}; see {copy}")
    report = {"notebook": step.path.stem, "finished": _now(), "seconds": round(time.time() - began, 1),
              "code_sha256": run.code, "parameters": step.values}
    if lost := _unanswered(run.folder / name for name in step.writes if name.startswith("usage_")):
        run.stamp_of(step).unlink(missing_ok=True)
        reasons = ", ".join(f"{reason} {n}" for reason, n in lost.most_common())
        _say(f"{title}: {report['seconds']} s; {sum(lost.values())} questions had no reply ({reasons}): "
             "the same command asks again")
        return report
    # Inputs are hashed again: a live notebook fills the reply store while it runs.
    write_json(run.stamp_of(step), {"fingerprint": run.fingerprint(step), "report": report,
                                    "writes": {name: _hash(run.folder / name) for name in step.writes}})
    _say(f"{title}: {report['seconds']} s")
    return report


def _unanswered(files: Iterable[Path]) -> Counter[str]:
    """Questions without a reply, by reason, from usage files. A useless reply is saved, so not counted."""
    tasks = [used for file in files for by_task in _read(file).values() for used in by_task.values()]
    lost = sum((Counter(used["failures"]) for used in tasks), Counter())
    return Counter({reason: n for reason, n in lost.items() if reason not in FINAL})


def _manifest(profile: str, run: Run, reports: Sequence[Parameters], seconds: float) -> dict[str, Any]:
    """What was run, with what, on what, and what it cost; notebooks that an earlier call ran are kept."""
    last = run.folder / "manifest.json"
    earlier = _read(last)["notebooks"] if last.exists() else []
    known = {report["notebook"]: report for report in [*earlier, *reports]}
    usage = {p.stem.removeprefix("usage_"): _read(p) for p in sorted(run.folder.glob("usage_*.json"))}
    files = {str(p.relative_to(run.folder)): _hash(p) for p in sorted(run.folder.rglob("*"))
             if p.is_file() and p.suffix in HASHED}
    return {"profile": profile, "ems": __version__, "code_sha256": run.code,
            "python": platform.python_version(), "platform": platform.platform(terse=True),
            "packages": {name: _version(name) for name in PACKAGES}, "seconds": round(seconds, 1),
            "finished": _now(), "notebooks": [known[name] for name in sorted(known)], "judge": usage,
            "files_sha256": files}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# --- kernels ---

class Kernels:
    """Runs notebooks, `jobs` at a time; each kernel has its share of the cores for torch and numpy."""

    def __init__(self, jobs: int = 1):
        self.jobs = jobs
        self._started: list[Any] = []

    def execute(self, path: Path, target: Path, values: Parameters, root: Path) -> None:
        """Run one notebook in `root` and keep its executed copy. InputError names the cell that failed.

        Without a copy where the kernel died.
        """
        from nbclient.exceptions import DeadKernelError
        from papermill import execute_notebook
        from papermill.exceptions import PapermillExecutionError

        begun: list[str] = []                      # the source of each cell that has begun
        try:
            execute_notebook(
                str(path), str(target), parameters=dict(values), cwd=str(root), kernel_name="python3",
                # The copy is written once: after every cell, that would take longer than many cells.
                progress_bar=False, stderr_file=sys.stderr, request_save_on_cell_execute=False,
                on_cell_execute=lambda cell, cell_index: begun.append(cell.source),
                # A kernel is interrupted before it is ended, which it may call an error.
                extra_arguments=["--log-level=50"], kernel_manager_class=self._kernel_manager())
        except PapermillExecutionError as error:
            raise InputError(f"{path.name}, cell {error.exec_count}: {error.ename}: {error.evalue}\nthe "
                             f"executed copy shows where: {target}; the same command goes on from "
                             "here") from None
        except DeadKernelError:
            line = begun[-1].strip().partition("\n")[0] if begun else ""
            raise InputError(f"{path.name}: its kernel died, most often for want of memory, in the cell that "
                             f"begins {line!r}; the same command goes on from here") from None

    def kill(self) -> None:
        """End every kernel that still runs."""
        for manager in self._started:
            if (process := getattr(manager.provisioner, "process", None)) is not None:
                process.kill()

    def _kernel_manager(self) -> type:
        from jupyter_client.manager import AsyncKernelManager

        started, share = self._started, max(1, (os.cpu_count() or 1) // self.jobs)
        threads = {"OMP_NUM_THREADS": str(share)} if self.jobs > 1 else {}

        class Manager(AsyncKernelManager):
            async def start_kernel(self, **settings: Any) -> None:  # type: ignore[override]
                started.append(self)
                environment = {**os.environ, **(settings.pop("env", None) or {})}
                await super().start_kernel(env={**threads, **environment}, **settings)

        return Manager


# --- what a run would ask ---

ASKING = ("01", "02", "03")          # numbers of the notebooks that ask models


def plan(profile: str, *, only: Sequence[str] = (), given: Parameters | None = None,
         root: Path | None = None) -> str:
    """What a profile's models would be asked and cost (`budget.plan_text`), without a call or a kernel.

    The functions of notebooks 1 to 3 run with judges that count: what the run's store has is not asked again.
    With `only`, what other notebooks ask is not counted; the answers of notebook 1 are assumed in any case.
    """
    from ...judge.budget import LIKELY, plan_text

    root, given = project_root(root), given or {}
    settings, everything = load_profile(root, profile), notebooks(root)
    chosen = parameters_of(everything, settings, given, everything)
    asking = {p.stem[:2]: p for p in everything if p.stem[:2] in ASKING}
    parameters = {number: {**declared(p), **chosen[p.stem]} for number, p in asking.items()}
    counted = {p.stem[:2] for p in notebooks(root, only)} & {
        number for number, p in parameters.items()
        if p.get("JUDGE") or p.get("WRITERS") or p.get("REFERENCE_WRITERS")}
    if not counted:
        return plan_text({}, {})
    for number in sorted({"01"} | counted):
        check_inputs(root, asking[number].name, parameters[number])
    store = _folder(root, profile, settings, given) / "replies.sqlite"
    return plan_text(*(_count(root, store, parameters, counted, share) for share in (1.0, LIKELY)))


def _count(root: Path, store: Path, parameters: Mapping[str, Parameters], counted: set[str],
           share: float) -> Usage:
    """The usage of the notebooks `counted`, if lists and answers have a `share` of their greatest length."""
    from ...baselines import RAGChecker
    from ...data import load_answers
    from ...judge.budget import merged
    from ...pipeline import rescored
    from ...presets import build
    from ...variants.sides import SidesLLMScorer
    from ..ablations import shortening
    from ..ablations.reliability import drawn, judged_again, raters
    from . import steps

    one, saved = parameters["01"], set[str]()
    judges, prompts = _counting(root, store, one, share, saved), steps.prompt_set(root, one["PROMPTS"])
    data = steps.load_data(
        root, one["SOURCE"], companies=one["COMPANIES"], triplets=one["TRIPLETS"], prompts=prompts,
        answers="" if one["WRITERS"] else one["ANSWERS"], transcripts=one["TRANSCRIPTS"],
        references=not one["REFERENCE_WRITERS"], limit=one["LIMIT"])
    triplets = data.triplets
    if one["REFERENCE_WRITERS"]:
        triplets, _ = steps.write_all_references(triplets, one["REFERENCE_WRITERS"], one["CONSOLIDATOR"],
                                                 judges, prompts)
    written = steps.write_all_answers(triplets, one["WRITERS"], judges, prompts)
    answers: list[Any] = steps.of_models([*data.answers, *written], one["MODELS"])
    usages = [judges.usage()] if "01" in counted else []
    for number in sorted(counted - {"01"}):
        p = parameters[number]
        judges, prompts = _counting(root, store, p, share, saved), steps.prompt_set(root, p["PROMPTS"])
        judge = judges.open(model=p["JUDGE"], base_url=p["BASE_URL"], key_env=p["KEY_ENV"],
                            weights=p["WEIGHTS"], prices=p["PRICES"], spend_limit=p["SPEND_LIMIT"],
                            **p["DECODING"])
        if number == "02":
            RAGChecker(judge, prompts, check=p["CHECK"]).check(triplets, answers)
        else:
            asked = {"prompts": prompts, "max_score": p["MAX_SCORE"], "variant": p["VARIANT"]}
            pipeline = pipeline_with(build(judge, "llm", **asked), p["EXTRACTOR"], p["MATCHER"])
            results = pipeline.evaluate(triplets, answers)
            if p["SIDES"]:
                rescored(results, SidesLLMScorer(judge, prompts, max_score=p["MAX_SCORE"]), pipeline)
            other = judges.open(**p["OTHER_JUDGE"]) if p["OTHER_JUDGE"] else None
            judged_again(judge, triplets, answers, again=p["AGAIN"], one_by_one=p["ONE_BY_ONE"], other=other,
                         other_variants=p["OTHER_VARIANTS"], **asked)
            raters(judge, triplets, drawn(answers, p["AGAIN"]), repeats=p["REPEATS"],
                   judges=[judges.open(**one) for one in p["JUDGES"]], incomplete=True, **asked)
            short = load_answers(root / p["SHORTENED"]) if p["SHORTENED"] else []
            shortening.study(triplets, answers, short, pipeline, checker=RAGChecker(judge, prompts))
        usages.append(judges.usage())
    return merged(usages)


def _counting(root: Path, store: Path, p: Parameters, share: float, saved: set[str]) -> Judges:
    """Judges that count what the run's store lacks, or, for a run that asks again, everything; once."""
    from ...judge.budget import Planner
    from .steps import Judges

    fresh = p["MODE"] == "refresh"
    return Judges(store if store.exists() and not fresh else None, mode="replay",
                  recorded=[] if fresh else [root / name for name in p.get("REPLIES", ())],
                  counting=lambda judge: Planner(judge, share, saved))


# --- files ---

def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _strings(value: Any) -> list[str]:
    """Every text in a parameter, at any depth."""
    if isinstance(value, str):
        return [value]
    value = list(value.values()) if isinstance(value, Mapping) else value
    return [text for one in value for text in _strings(one)] if isinstance(value, (list, tuple)) else []


def _hash(path: Path, suffixes: tuple[str, ...] = ()) -> str:
    """SHA-256 of a file, or of a folder's files (of these suffixes) with their names; "" for nothing."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    parts = [f"{p.relative_to(path)}:{_hash(p)}" for p in sorted(path.rglob("*"))
             if p.is_file() and (not suffixes or p.suffix in suffixes)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
