"""Run the notebooks of a profile with papermill, with strict parameters; `ems reproduce` starts it.

A profile (profiles/NAME.yaml) holds parameters: `common`, for every notebook that has them, and
blocks by a notebook's name. `NAME: value` sets a parameter, `NAME.key: value` one key of a mapping.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from graphlib import TopologicalSorter
from importlib import metadata
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

import ems
from ems import InputError
from ems.io import parse_yaml, read_text, write_file
from ems.judge.cost import Usage, plan_text
from ems.judge.store import utc
from ems.terminal import did_you_mean, notify


class _Place(NamedTuple):
    """When a notebook runs."""

    waits_for: tuple[str, ...] = ()  # numbers of the notebooks that must end before it starts
    optional: bool = False  # runs only where a profile or --only names it


# Every notebook by its number. A notebook waits for those whose files it reads.
SCHEDULE = {
    "01": _Place(),
    "02": _Place(("01",)),
    "03": _Place(("01",)),
    "04": _Place(("01", "02", "03")),
    "05": _Place(("01", "03")),
    "06": _Place(("01",)),  # reads no file of 01; it takes long, and so it begins beside 02 and 03
    "07": _Place(("01",)),  # as 06, it reads no file of 01
    "08": _Place(("01", "03")),
    "09": _Place(("01", "02", "03")),
    "10": _Place(optional=True),
    "11": _Place(optional=True),
}
PRODUCTS = (".jsonl", ".csv", ".md", ".tex", ".png")  # suffixes of files that the manifest lists
Parameters = Mapping[str, Any]


# --- profiles and parameters ---


def load_profile(root: Path, name: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook (and `common`) of a profile. InputError when there is no such one."""
    path = root / "profiles" / f"{name}.yaml"
    _check([name], [p.stem for p in path.parent.glob("*.yaml")], "no profile")
    profile = parse_yaml(read_text(path), path) or {}
    blocks = profile.values() if isinstance(profile, dict) else [None]
    if not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"{path} must map notebook names (and common) to parameters")
    return profile


def declared(notebook: Path) -> dict[str, Any]:
    """The parameters of a notebook with their defaults: the literals of its tagged cell."""
    cells = json.loads(read_text(notebook))["cells"]
    cell = next(c for c in cells if "parameters" in c["metadata"].get("tags", ()))
    lines: Any = ast.parse("".join(cell["source"])).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}


def parameters_of(
    root: Path, profile: Mapping[str, Parameters], given: Parameters
) -> dict[Path, dict[str, Any]]:
    """What each notebook would be run with: its defaults, `common`, its block, `given`.

    The later one wins. InputError for a notebook or a parameter that does not exist, and for a
    value of another type than the default's (None may become anything).
    """
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    parameters = {path: declared(path) for path in paths}
    _check_blocks({**profile, "-p": given}, {path.stem: parameters[path] for path in paths})
    for path, values in parameters.items():
        for block in (profile.get("common", {}), profile.get(path.stem, {}), given):
            _update(values, block, path.stem)
    return parameters


def _check_blocks(blocks: Mapping[str, Parameters], notebooks: Mapping[str, Parameters]) -> None:
    """InputError for a block of no notebook, and for a parameter that its notebook does not have.

    The blocks `common` and `-p` may name the parameters of all notebooks.
    """
    of_all: set[str] = set()
    of_all.update(*notebooks.values())
    allowed = {"common": of_all, "-p": of_all, **notebooks}
    for block_name, block in blocks.items():
        _check([block_name], allowed, "no notebook")
        names = [dotted.partition(".")[0] for dotted in block]
        _check(names, allowed[block_name], f"{block_name}: no parameter")


def _check(names: Sequence[str], known: Collection[str], message: str) -> None:
    """InputError, which begins with `message`, for the first name that is not known."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{message} {name!r}{hint}; there are {', '.join(sorted(known))}")


def _update(values: dict[str, Any], block: Parameters, stem: str) -> None:
    """Set those parameters of a block, or single keys of them, that this notebook has."""
    for dotted, value in block.items():
        name, _, key = dotted.partition(".")
        if name not in values:
            continue
        default = values[name]
        if key:
            value = {**default, key: value} if isinstance(default, dict) else {key: value}
        if type(value) is not type(default) and default is not None:
            expected = type(default).__name__
            raise InputError(f"{stem}.ipynb: {name} must be {expected}, got {value!r:.60}")
        values[name] = value


def _selected(
    profile: str, only: Sequence[str], given: Parameters, root: Path
) -> tuple[Path, dict[Path, dict[str, Any]], list[Path]]:
    """The run's folder, the parameters of every notebook, and the notebooks of the run."""
    if not (root / "notebooks").is_dir():
        raise InputError(f"no notebooks/ in {root.resolve()}; run this in a clone of the project")
    settings = load_profile(root, profile)
    given = {"RUN": f"runs/{profile}", **given}
    values = parameters_of(root, settings, given)
    numbers = [_number(path) for path in values]
    _check(numbers, SCHEDULE, "the list SCHEDULE of notebooks/run.py has no notebook")
    _check([name[:2] for name in only], numbers, "no notebook")
    if only:
        chosen = [path for path in values if path.name.startswith(tuple(only))]
    else:
        chosen = [
            path for path in values if path.stem in settings or not SCHEDULE[_number(path)].optional
        ]
    return root / given["RUN"], values, chosen


def _number(path: Path) -> str:
    return path.stem[:2]


# --- runs ---


def run_profile(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
) -> Path:
    """Run a profile; returns its folder, with executed copies of the notebooks in `notebooks/`.

    `root` is the project's folder. InputError for a failed cell; what a judge replied before the
    failure is in the run's store. The whole default profile, with no parameter changed, refreshes
    figures/ of the project.
    """
    folder, values, chosen = _selected(profile, only, given or {}, root)
    path = folder / "manifest.json"
    notes = json.loads(read_text(path))["notebooks"] if path.exists() else {}
    study = root / "notebooks" / "study"
    manifest = {
        "profile": profile,
        "ems": ems.__version__,
        "python": sys.version,
        "packages": {d.name: d.version for d in metadata.distributions()},
        "sources_sha256": _hash(Path(ems.__file__).parent, study, root / "data"),
        "notebooks": notes,
    }
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two kernels with a core each
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    try:
        for wave in _waves(chosen):
            with ThreadPool(2) as pool:  # Ctrl-C ends its threads, and so the kernels
                pool.starmap(_run, [(path, values[path], folder, notes) for path in wave], 1)
    finally:
        files = [p for p in sorted(folder.rglob("*")) if p.suffix in PRODUCTS]
        manifest["files_sha256"] = {str(p.relative_to(folder)): _hash(p) for p in files}
        write_file(path, [json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"])
    if profile == "default" and not only and not given:
        shutil.copytree(folder / "figures", root / "figures", dirs_exist_ok=True)
    notify(f"done: tables in {folder}, its figures/ and notebooks/ beside them")
    return folder


def _waves(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Groups of notebooks: each waits for notebooks of earlier groups only. See `SCHEDULE`."""
    by_number = {_number(path): path for path in paths}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for number in by_number:
        sorter.add(number, *(other for other in SCHEDULE[number].waits_for if other in by_number))
    sorter.prepare()
    while sorter.is_active():
        ready = sorter.get_ready()
        yield [by_number[number] for number in sorted(ready)]
        sorter.done(*ready)


def _run(path: Path, values: Parameters, folder: Path, notes: dict[str, Any]) -> None:
    """Run a notebook, and note with what."""
    notes.pop(path.stem, None)
    notify(f"{path.stem} ...")
    _execute(path, folder / "notebooks" / path.name, values)
    notify(f"{path.stem}: done")
    notes[path.stem] = {"parameters": values, "sha256": _hash(path), "finished": utc()}


def _execute(path: Path, target: Path | None, values: Parameters) -> None:
    """Run one notebook and keep the copy as `target`, if given; InputError for a failed cell."""
    try:
        from nbclient.exceptions import DeadKernelError
        from papermill import execute_notebook
        from papermill.exceptions import PapermillExecutionError
    except ImportError as error:
        raise InputError(f"notebooks need {error.name}; in a clone: pip install '.[all]'") from None

    try:
        execute_notebook(
            path,
            target,
            parameters=dict(values),
            kernel_name="python3",
            progress_bar=False,
            stderr_file=sys.stderr,
            request_save_on_cell_execute=False,
            resources={"metadata": {"path": str(path.parent)}},
            # Without this each kernel prints a warning when it is ended.
            extra_arguments=["--log-level=50"],
        )
    except PapermillExecutionError as error:
        copy = f"; the executed copy shows where: {target}" if target else ""
        raise InputError(
            f"{path.name}, cell {error.exec_count}: {error.ename}: {error.evalue}{copy}"
        ) from None
    except DeadKernelError:
        raise InputError(
            f"{path.name}: its kernel died, most often because memory was full"
        ) from None


def _hash(*places: Path) -> str:
    """One hash over files, and over the files of folders with their names; "" for no files."""
    hashes = []
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                hashes.append((file.name, hashlib.sha256(file.read_bytes()).hexdigest()))
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest() if hashes else ""


# --- dry runs ---


def plan(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
) -> dict[str, dict[str, Usage]]:
    """What the models of a run would be asked, by model and notebook, and by task.

    Notebook 1 and those that may ask run in a folder that is deleted, with judges that plan:
    replies that the run's store and the recordings hold are not counted, all others are assumed.
    """
    folder, values, chosen = _selected(profile, only, given or {}, root)
    asking = [path for path in chosen if _may_ask(values[path])]
    if not asking:
        return {}
    first = next(iter(values))  # it writes the answers that the others read
    with tempfile.TemporaryDirectory() as scratch:
        for path in dict.fromkeys([first, *asking]):
            notify(f"{path.stem}, counted ...")
            _execute(path, None, _planned(values[path], scratch, folder / "replies.sqlite"))
        return _usages(Path(scratch))


def _may_ask(values: Parameters) -> bool:
    """Whether a parameter describes a model that does more than replay recorded replies."""
    return any(settings.get("mode", "replay") != "replay" for settings in _mappings(values))


def _planned(values: Parameters, run: str, store: Path) -> dict[str, Any]:
    """The parameters of a dry run: its own folder, judges that plan, and no encoder.

    BERTScore asks no judge. The judges look for replies in `store`, where they name none.
    """
    planned = {**deepcopy(dict(values)), "RUN": run}
    if "ENCODER" in planned:
        planned["ENCODER"] = ""
    for settings in _mappings(planned):
        if settings.get("model"):
            settings.setdefault("store", str(store))
            settings["mode"] = "plan"
    return planned


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """The mappings that a parameter is or holds, at any depth."""
    entries: Any = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
        entries = value.values()
    for entry in entries:
        yield from _mappings(entry)


def _usages(run: Path) -> dict[str, dict[str, Usage]]:
    """What the notebooks of a run asked of each model, from the files that they wrote."""
    usages = {}
    for file in sorted(run.glob("usage_*.json")):
        for model, tasks in json.loads(read_text(file)).items():
            usage = {task: Usage(**counts) for task, counts in tasks.items()}
            usages[f"{model} ({file.stem})"] = usage
    return usages


# --- the command ---


def main(argv: Sequence[str] | None = None) -> int:
    """Run a profile, or count what it would ask, as the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="ems reproduce",
        description="Run the notebooks of a profile: into runs/<profile>/.",
        epilog="example: ems reproduce --profile paper --dry-run",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--profile", default="default", metavar="P", help="a name in profiles/")
    add("--only", default="", metavar="03,09", help="these notebooks alone")
    add(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a notebook parameter, or a key of one (JUDGE.mode); its value as YAML",
    )
    add("--dry-run", action="store_true", help="count calls, tokens and cost without a call")
    args = parser.parse_args(argv)
    given = {name: parse_yaml(value, f"-p {name}") for name, value in args.parameters}
    only = args.only.split(",") if args.only else []
    if args.dry_run:
        print(plan_text(plan(args.profile, only=only, given=given)))
        return 0
    table = run_profile(args.profile, only=only, given=given) / "table1.md"
    if table.exists() and not only:
        print(read_text(table))
    return 0
