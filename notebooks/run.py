"""Run the notebooks of a profile with papermill, with strict parameters; `ems reproduce` starts it.

A profile (profiles/NAME.yaml) holds parameters: `common`, for every notebook that has them, and blocks by a
notebook's name. `NAME: value` sets a parameter, `NAME.key: value` one key of a mapping.
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
from collections.abc import Mapping, Sequence
from copy import deepcopy
from importlib import metadata
from itertools import groupby
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import ems
from ems import InputError
from ems.io import parse_yaml, read_text, write_json
from ems.judge.cost import Usage, plan_text
from ems.judge.store import utc
from ems.terminal import did_you_mean, notify

OPTIONAL = ("09", "10")  # run only where a profile or --only names them
PRODUCTS = (".jsonl", ".csv", ".md", ".tex", ".png")
Parameters = Mapping[str, Any]


def load_profile(root: Path, name: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook (and `common`) of a profile."""
    path = root / "profiles" / f"{name}.yaml"
    _check([name], [p.stem for p in path.parent.glob("*.yaml")], "no profile")
    profile = parse_yaml(read_text(path), path) or {}
    if not isinstance(profile, dict) or not all(
        isinstance(block, dict) for block in profile.values()
    ):
        raise InputError(f"{path} must map notebook names (and common) to parameters")
    return profile


def declared(notebook: Path) -> dict[str, Any]:
    """The parameters of a notebook with their defaults: the literals of its cell tagged `parameters`."""
    cells = json.loads(read_text(notebook))["cells"]
    cell = next(c for c in cells if "parameters" in c["metadata"].get("tags", ()))
    lines: Any = ast.parse("".join(cell["source"])).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}


def parameters_of(
    root: Path, profile: Mapping[str, Parameters], given: Parameters
) -> dict[Path, dict[str, Any]]:
    """What each notebook would be run with: its defaults, `common`, its block, `given`; the later one wins.

    InputError for a notebook or a parameter that does not exist, and for a value of another type than the
    default's (None may become anything).
    """
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    chosen = {path.stem: declared(path) for path in paths}
    everywhere = {name for values in chosen.values() for name in values}
    allowed: dict[str, Any] = {"common": everywhere, "-p": everywhere, **chosen}
    for where, block in {**profile, "-p": given}.items():
        _check([where], allowed, "no notebook")
        _check([name.partition(".")[0] for name in block], allowed[where], f"{where}: no parameter")
    for stem, values in chosen.items():
        for block in (profile.get("common", {}), profile.get(stem, {}), given):
            _update(values, block, stem)
    return {path: chosen[path.stem] for path in paths}


def _check(names: Sequence[str], known: Any, what: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                f"{what} {name!r}{did_you_mean(name, known)}; there are {', '.join(sorted(known))}"
            )


def _update(values: dict[str, Any], block: Parameters, stem: str) -> None:
    """Set those parameters of a block, or single keys of them, that this notebook has."""
    for dotted, value in block.items():
        name, _, key = dotted.partition(".")
        if name in values:
            default = values[name]
            if key:
                value = {**(default if isinstance(default, dict) else {}), key: value}
            if type(value) is not type(default) and default is not None:
                raise InputError(
                    f"{stem}.ipynb: {name} must be {type(default).__name__}, got {value!r:.60}"
                )
            values[name] = value


def reproduce(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
) -> Path:
    """Run a profile; returns its folder, with executed copies in `notebooks/`. InputError for a failed cell.

    `root` is the project's folder. What a judge replied before a failure is in the run's store. The whole
    default profile as it is refreshes figures/ of the project.
    """
    folder, values, chosen = _opened(profile, only, given or {}, root)
    path = folder / "manifest.json"
    notes = json.loads(read_text(path))["notebooks"] if path.exists() else {}
    manifest = {
        "profile": profile,
        "ems": ems.__version__,
        "python": sys.version,
        "packages": {d.name: d.version for d in metadata.distributions()},
        "sources_sha256": _hash(
            Path(ems.__file__).parent, root / "notebooks" / "study", root / "data"
        ),
        "notebooks": notes,
    }
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two kernels with a core each
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    try:
        for _, wave in groupby(sorted(chosen, key=_wave), _wave):
            with ThreadPool(2) as pool:  # Ctrl-C ends its threads, and so the kernels
                pool.starmap(_run, [(path, values[path], folder, notes) for path in wave], 1)
    finally:
        files = [p for p in sorted(folder.rglob("*")) if p.suffix in PRODUCTS]
        manifest["files_sha256"] = {str(p.relative_to(folder)): _hash(p) for p in files}
        write_json(path, manifest)
    if profile == "default" and not only and not given:
        shutil.copytree(folder / "figures", root / "figures", dirs_exist_ok=True)
    notify(f"done: tables in {folder}, its figures/ and notebooks/ beside them")
    return folder


def plan(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
) -> dict[str, dict[str, Usage]]:
    """What the models of a run would be asked, by model and notebook, and by task.

    Notebook 1 and those that may ask run in a folder that is deleted, with judges that plan: replies that the
    run's store and the recordings hold are not counted, all others are assumed.
    """
    folder, values, chosen = _opened(profile, only, given or {}, root)
    asking = [
        path
        for path in chosen
        if any(part.get("mode", "replay") != "replay" for part in _mappings(values[path]))
    ]
    with tempfile.TemporaryDirectory() as scratch:
        for path in dict.fromkeys([next(iter(values)), *asking]) if asking else ():
            planned = {**deepcopy(values[path]), "RUN": scratch}
            planned |= {"ENCODER": ""} if "ENCODER" in planned else {}  # BERTScore asks no judge
            for model in _mappings(planned):
                if model.get("model"):
                    model |= {"store": str(folder / "replies.sqlite"), **model, "mode": "plan"}
            notify(f"{path.stem}, counted ...")
            _execute(path, None, planned)
        return {
            f"{model} ({file.stem})": {task: Usage(**used) for task, used in tasks.items()}
            for file in sorted(Path(scratch).glob("usage_*.json"))
            for model, tasks in json.loads(read_text(file)).items()
        }


def _opened(
    profile: str, only: Sequence[str], given: Parameters, root: Path
) -> tuple[Path, dict[Path, dict[str, Any]], list[Path]]:
    """The run's folder, the parameters of every notebook, and the notebooks of the run."""
    if not (root / "notebooks").is_dir():
        raise InputError(f"no notebooks/ in {root.resolve()}; run this in a clone of the project")
    settings = load_profile(root, profile)
    given = {"RUN": f"runs/{profile}", **given}
    values = parameters_of(root, settings, given)
    _check([number[:2] for number in only], [path.stem[:2] for path in values], "no notebook")
    usual = [path for path in values if not path.name.startswith(OPTIONAL) or path.stem in settings]
    chosen = [path for path in values if path.name.startswith(tuple(only))] if only else usual
    return root / given["RUN"], values, chosen


def _wave(path: Path) -> int:
    """Notebooks of one wave run beside each other, and may read the files of those of earlier waves."""
    return {"01": 0, "02": 1, "03": 1, "06": 1}.get(path.stem[:2], 2)


def _run(path: Path, values: Parameters, folder: Path, notes: dict[str, Any]) -> None:
    """Run a notebook, and note with what."""
    notes.pop(path.stem, None)
    notify(f"{path.stem} ...")
    _execute(path, folder / "notebooks" / path.name, values)
    notify(f"{path.stem}: done")
    notes[path.stem] = {"parameters": values, "sha256": _hash(path), "finished": utc()}


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings that a parameter is or holds, at any depth."""
    own = [value] if isinstance(value, dict) else []
    held = value.values() if own else value if isinstance(value, list) else ()
    return own + [mapping for entry in held for mapping in _mappings(entry)]


def _execute(path: Path, target: Path | None, values: Parameters) -> None:
    """Run one notebook in its folder, and keep the copy as `target`; InputError for a failed cell."""
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
            extra_arguments=["--log-level=50"],
        )  # else each kernel warns when it is ended
    except PapermillExecutionError as error:
        at = f"; the executed copy shows where: {target}" if target else ""
        raise InputError(
            f"{path.name}, cell {error.exec_count}: {error.ename}: {error.evalue}{at}"
        ) from None
    except DeadKernelError:
        raise InputError(f"{path.name}: its kernel died, most often for want of memory") from None


def _hash(*places: Path) -> str:
    """One hash over files, and over the files of folders with their names; "" for what does not exist."""
    found = []
    for place in places:
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        found += [
            (p.name, hashlib.sha256(p.read_bytes()).hexdigest())
            for p in files
            if p.suffix != ".pyc"
        ]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else ""


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
    add("--only", default="", metavar="03,08", help="these notebooks alone")
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
    table = reproduce(args.profile, only=only, given=given) / "table1.md"
    if table.exists() and not only:
        print(read_text(table))
    return 0
