"""`ems reproduce`: run the notebooks of a profile in order, strictly, and never twice for the same result.

A profile is a YAML file of notebook parameters: one mapping per notebook, and `common` for what several share. Each
notebook says in its metadata (`ems.reads`, `ems.writes`) which files of the run it needs and makes. A notebook is
skipped when its source, its parameters, the package, and every file it reads are what they were at its last success.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from ..io import home, read_text, write_json
from ..judge.store import FINAL
from ..types import InputError

PACKAGES = ("openai", "nltk", "rouge-score", "bert-score", "torch", "transformers", "numpy", "pandas", "scipy",
            "matplotlib", "seaborn", "papermill", "jupyterlab")


def project_root(start: Path | None = None) -> Path:
    """The nearest folder, from `start` upwards or beside the package, that holds notebooks/ and profiles/."""
    start = start or Path.cwd()
    for folder in (start, *start.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "profiles").is_dir():
            return folder
    raise InputError(f"no notebooks/ and profiles/ in {start} or above; run this inside a clone of the project")


def load_profile(root: Path, name: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook (and `common`) of a profile, by name or by path; InputError names what is allowed."""
    import yaml

    path = Path(name) if name.endswith((".yaml", ".yml")) else root / "profiles" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in (root / "profiles").glob("*.yaml")))
        raise InputError(f"no profile {name!r}; there are {known}, or give the path of a .yaml file")
    try:
        profile = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(profile, dict) or not all(isinstance(v, dict) for v in profile.values()):
        raise InputError(f"{path} must map notebook names (and common) to parameters")
    return profile


def notebooks(root: Path, only: Sequence[str] = ()) -> list[Path]:
    """The numbered notebooks in order, or those whose names begin with one of `only`."""
    found = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    for prefix in only:
        if not any(p.name.startswith(prefix) for p in found):
            raise InputError(f"no notebook begins with {prefix!r}; there are {', '.join(p.stem for p in found)}")
    return [p for p in found if not only or p.name.startswith(tuple(only))]


def declared(path: Path) -> dict[str, Any]:
    """The parameters of a notebook's tagged cell with their default values, which are plain literals."""
    import ast

    cells = [c for c in _read(path)["cells"] if "parameters" in c["metadata"].get("tags", ())]
    if len(cells) != 1:
        raise InputError(f"{path.name} must have one cell tagged 'parameters', it has {len(cells)}")
    tree = ast.parse("".join(cells[0]["source"]))
    return {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body}


def parameters_of(paths: Sequence[Path], profile: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any],
                  all_paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """What each notebook is run with: profile, then `given`. InputError for an unknown name or another kind of value."""
    known = {p.stem: declared(p) for p in all_paths}
    if unknown := set(profile) - known.keys() - {"common"}:
        raise InputError(f"the profile names notebooks that do not exist: {sorted(unknown)}; there are {sorted(known)}")
    everywhere = {name for names in known.values() for name in names}
    for where, names in (("the profile's common part", profile.get("common", {})), ("-p", given)):
        if spare := set(names) - everywhere:
            raise InputError(f"{where}: no notebook has a parameter {sorted(spare)}; there are {sorted(everywhere)}")
    chosen: dict[str, dict[str, Any]] = {}
    for path in paths:
        names = known[path.stem]
        if spare := set(profile.get(path.stem, {})) - names.keys():
            raise InputError(f"{path.name}: no parameter {sorted(spare)}; it has {sorted(names)}")
        values = {**profile.get("common", {}), **profile.get(path.stem, {}), **given}
        chosen[path.stem] = {k: v for k, v in values.items() if k in names}
        for name, value in chosen[path.stem].items():
            if not _same_kind(names[name], value):
                raise InputError(f"{path.name}: {name} must be {type(names[name]).__name__} like "
                                 f"{names[name]!r:.60}, got {value!r:.60}")
    return chosen


def reproduce(profile: str = "default", *, only: Sequence[str] = (), given: Mapping[str, Any] | None = None,
              root: Path | None = None) -> Path:
    """Run a profile; returns its folder `runs/<profile>`. Executed copies go to `<run>/notebooks/`.

    After a failure the same call goes on with the notebook that failed. A notebook whose judge left questions without
    a reply (a timeout, a server's fault) is not done: the same call runs it again and asks for what is missing.
    InputError when a notebook fails, with its last line; the executed copy shows the rest.
    """
    papermill, root = _papermill(), project_root(root)
    settings = load_profile(root, profile)
    paths, everything = notebooks(root, only), notebooks(root)
    chosen = parameters_of(paths, settings, given or {}, everything)
    run = _folder(root, profile, settings, given or {})
    (run / "notebooks").mkdir(parents=True, exist_ok=True)
    code, started, done = _code_hash(), time.time(), []
    for number, path in enumerate(paths, 1):
        values = {**chosen[path.stem], **({"RUN": str(run)} if "RUN" in declared(path) else {})}
        stamp = run / ".stamps" / f"{path.stem}.json"
        wants = _fingerprint(path, values, code, run, root)
        title = f"[{number}/{len(paths)}] {path.stem}"
        if _unchanged(stamp, wants, run):
            _say(f"{title}: unchanged, skipped")
            done.append(json.loads(stamp.read_text())["report"])
            continue
        _say(f"{title} ...")
        began, usage = time.time(), _usage_files(run)
        _execute(papermill, path, run / "notebooks" / path.name, values, root)
        writes = _about(path).get("writes", ())
        if absent := [name for name in writes if not (run / name).exists()]:
            raise InputError(f"{path.name} ended without writing {absent}; see {run / 'notebooks' / path.name}")
        report = {"notebook": path.stem, "seconds": round(time.time() - began, 1), "parameters": values}
        done.append(report)
        if lost := _unanswered(file for file, age in _usage_files(run).items() if usage.get(file) != age):
            stamp.unlink(missing_ok=True)
            _say(f"{title}: {report['seconds']} s; {sum(lost.values())} questions had no reply ("
                 + ", ".join(f"{reason} {n}" for reason, n in lost.most_common()) + "): the same command asks again")
            continue
        # Inputs are hashed again: a live notebook fills the reply store while it runs.
        write_json(stamp, {"fingerprint": _fingerprint(path, values, code, run, root),
                            "writes": {name: _hash(run / name) for name in writes}, "report": report})
        _say(f"{title}: {report['seconds']} s")
    write_json(run / "manifest.json", _manifest(profile, run, done, code, time.time() - started))
    if run == root / "runs" / "default" and not only:       # the figures that the project shows
        shutil.copytree(run / "figures", root / "figures", dirs_exist_ok=True)
    if not only:
        _say(f"done in {time.time() - started:.0f} s: {os.path.relpath(run)}")
    return run


def plan(profile: str, *, only: Sequence[str] = (), given: Mapping[str, Any] | None = None,
         root: Path | None = None) -> str:
    """What a profile's judges would be asked and cost (`cost.plan_text`), without a single call.

    The notebooks that ask a judge run with MODE = "dry", and once more "likely", on temporary copies of the run: what
    its store of replies has is not asked again, and nothing in it changes. Only what those of `only` ask is counted;
    the ones before them run as well, since they write what those read.
    """
    import sqlite3
    from contextlib import closing
    from tempfile import TemporaryDirectory

    from ..judge.budget import merged, plan_text

    papermill, root = _papermill(), project_root(root)
    settings, everything, given = load_profile(root, profile), notebooks(root), dict(given or {})
    counting = [p for p in notebooks(root, only) if "MODE" in declared(p)]
    paths = [p for p in everything if "MODE" in declared(p) and counting and p <= counting[-1]]
    chosen = parameters_of(paths, settings, given, everything)
    store = _folder(root, profile, settings, given) / "replies.sqlite"
    counted = []
    for mode in ("dry", "likely"):
        with TemporaryDirectory() as folder:
            if store.exists():
                with closing(sqlite3.connect(store)) as saved, closing(sqlite3.connect(f"{folder}/{store.name}")) as copy:
                    saved.backup(copy)
            usage: list[Path] = []
            for path in paths:
                _say(f"{path.stem}: counting ({mode}) ...")
                values, before = {**chosen[path.stem], "RUN": folder, "MODE": mode}, _usage_files(Path(folder))
                _execute(papermill, path, Path(folder, path.name), values, root, quiet=True)
                usage += [p for p in _usage_files(Path(folder)) if p not in before and path in counting]
            counted.append(merged(json.loads(p.read_text()) for p in usage))
    return plan_text(*counted)


def _usage_files(run: Path) -> dict[Path, int]:
    """What the notebooks of a run wrote about their judges (`data.judge_usage`), and when."""
    return {p: p.stat().st_mtime_ns for p in sorted(run.glob("usage_*.json"))}


def _unanswered(files: Iterable[Path]) -> Counter[str]:
    """Questions without a reply by reason, as usage files have it, other than those whose reply is no use: it is saved."""
    lost: Counter[str] = Counter()
    for tasks in (tasks for file in files for tasks in json.loads(file.read_text()).values()):
        for used in tasks.values():
            lost.update({reason: n for reason, n in used["failures"].items() if reason not in FINAL})
    return lost


def _papermill() -> Any:
    try:
        import papermill
    except ImportError:
        raise InputError("ems reproduce needs papermill: pip install 'ems-kit[notebooks]'") from None
    return papermill


def _folder(root: Path, profile: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> Path:
    return root / (given.get("RUN") or settings.get("common", {}).get("RUN") or f"runs/{Path(profile).stem}")


def _execute(papermill: Any, path: Path, target: Path, values: Mapping[str, Any], root: Path, *,
             quiet: bool = False) -> None:
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    # The package must be found by the kernel, whichever python its kernel specification names.
    try:
        papermill.execute_notebook(str(path), str(target), parameters=dict(values), cwd=str(root),
                                   kernel_name="python3", progress_bar=False, stderr_file=None if quiet else sys.stderr,
                                   request_save_on_cell_execute=True, extra_arguments=["--log-level=40"])
    except PapermillExecutionError as error:
        raise InputError(f"{path.name}, cell {error.exec_count}: {error.ename}: {error.evalue}\n"
                         f"the executed copy shows where: {target}; the same command goes on from here") from None
    except DeadKernelError:
        raise InputError(f"{path.name}: its kernel died, most often for want of memory; the executed copy ends where it "
                         f"did: {target}; the same command goes on from here") from None


def _fingerprint(path: Path, values: Mapping[str, Any], code: str, run: Path, root: Path) -> str:
    """A hash over all that a notebook's result depends on: source, parameters, package, files read, data mirror."""
    cells = [(c["cell_type"], "".join(c["source"])) for c in _read(path)["cells"]]
    reads = {name: _hash(run / name) for name in _about(path).get("reads", ())}
    named = {v: _hash(root / v) for v in _strings(values) if v and len(v) < 300 and (root / v).exists()
             and not (root / v).is_relative_to(run)}
    mirror, prompts = os.environ.get("EMS_DATA_MIRROR", ""), _hash(home() / "prompts" / values.get("PROMPTS", "kit"))
    return hashlib.sha256(json.dumps([cells, dict(values), code, reads, named, mirror, prompts], sort_keys=True,
                                     default=str).encode()).hexdigest()


def _unchanged(stamp: Path, fingerprint: str, run: Path) -> bool:
    try:
        last = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    return last["fingerprint"] == fingerprint and all(_hash(run / n) == h for n, h in last["writes"].items())


def _manifest(profile: str, run: Path, done: list[dict], code: str, seconds: float) -> dict[str, Any]:
    """What was run, with what, on what, and what it cost."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    usage = {p.stem.removeprefix("usage_"): json.loads(p.read_text()) for p in sorted(run.glob("usage_*.json"))}
    files = {str(p.relative_to(run)): _hash(p) for p in sorted(run.rglob("*"))
             if p.is_file() and p.suffix in (".jsonl", ".csv", ".md", ".tex", ".png")}
    return {"profile": profile, "ems": __version__, "code_sha256": code, "python": platform.python_version(),
            "platform": platform.platform(terse=True), "packages": versions, "seconds": round(seconds, 1),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "notebooks": done, "judge": usage,
            "files_sha256": files}


def _about(path: Path) -> dict[str, Any]:
    return _read(path)["metadata"].get("ems", {})


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _same_kind(default: Any, value: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return type(default) is type(value)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for v in value.values() for s in _strings(v)]
    return [s for v in value for s in _strings(v)] if isinstance(value, (list, tuple)) else []


def _hash(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files with their names; empty when there is nothing."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    parts = [f"{p.relative_to(path)}:{_hash(p)}" for p in sorted(path.rglob("*")) if p.is_file()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _code_hash() -> str:
    package = Path(__file__).resolve().parents[1]
    parts = [f"{p.relative_to(package)}:{_hash(p)}" for p in sorted(package.rglob("*")) if p.suffix in (".py", ".txt")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
