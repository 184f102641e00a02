"""Run the notebooks of a profile with papermill, with strict parameters; `ems reproduce` starts it.

`profiles.py` says which parameters a notebook gets. The folder runs/<profile> belongs to the
profile, and any other folder to the parameters that it was made with: a run with other parameters
needs a folder of another name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

from manifest import Manifest

from ems import InputError
from ems.commands import SCORED_SHARE
from ems.io import parse_yaml, read_text
from ems.judge.cost import Usage, plan_text, together, usage_table, used_text
from ems.terminal import notify
from profiles import (
    Parameters,
    ask_at,
    check_names,
    differing,
    load_profile,
    mappings,
    parameters_of,
)

# Every notebook by its number, with the numbers of those whose files it reads: it waits for these.
SCHEDULE = {
    "01": (),
    "02": ("01",),
    "03": ("01",),
    "04": ("01", "02", "03"),
    "05": ("01", "03"),
    "06": ("01",),  # reads no file of 01; it takes long, and so it begins beside 02 and 03
    "07": ("01",),  # as 06, it reads no file of 01
    "08": ("01", "03"),
    "09": ("01", "02", "03"),
    "10": (),
    "11": ("01",),
    "12": (),
}
OPTIONAL = ("10", "11", "12")  # these run only where a profile or --only names them
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


# --- runs ---


class _Run(NamedTuple):
    """What a run does."""

    folder: Path
    values: dict[Path, dict[str, Any]]  # the parameters of every notebook
    chosen: list[Path]  # the notebooks that it runs
    # By a chosen notebook's name: what was given and makes a parameter other than the profile's.
    changed: dict[str, dict[str, Any]]


def _selected(profile: str, only: Sequence[str], given: Parameters, root: Path, at: str) -> _Run:
    """What a run with these settings does; they are those of `run_profile`."""
    if not (root / "notebooks").is_dir():
        raise InputError(f"no notebooks/ in {root.resolve()}; run this in a clone of the project")
    settings = load_profile(root, profile)
    given = {"RUN": f"runs/{profile}", **given}
    values = deepcopy(parameters_of(root, settings, given))  # changed by `ask_at`
    unchanged = parameters_of(root, settings, {"RUN": given["RUN"]})
    numbers = [_number(path) for path in values]
    check_names(numbers, SCHEDULE, "the list SCHEDULE of notebooks/run.py has no notebook")
    check_names([name[:2] for name in only], numbers, "no notebook")
    if only:
        chosen = [path for path in values if path.name.startswith(tuple(only))]
    else:
        chosen = [path for path in values if path.stem in settings or _number(path) not in OPTIONAL]
    changed = {}
    for path in chosen:
        differs = differing(given, values[path], unchanged[path])
        if at and ask_at(at, values[path]):
            differs["--at"] = at
        changed[path.stem] = differs
    return _Run(root / given["RUN"], values, chosen, changed)


def _number(path: Path) -> str:
    return path.stem[:2]


def run_profile(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
    at: str = "",
) -> Path:
    """Run a profile; returns its folder, with executed copies of the notebooks in `notebooks/`.

    `root` is the project's folder. The parameter RUN in `given` is the run's folder, by default
    runs/<profile>; at the address `at` all models are asked, without a key. InputError for a failed
    cell, and for other parameters than those of the results in the folder: see `_check_folder`.
    What a judge replied before a failure is in the run's store. A run that fails before it has
    changed a result of an earlier one leaves the manifest of that one as it was. The whole default
    profile, with no parameter changed, refreshes figures/ of the project.
    """
    run = _selected(profile, only, given or {}, root, at)
    manifest = Manifest(run.folder, profile, root)
    _check_folder(run, manifest, profile, root)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two kernels with a core each
    if not sys.stderr.isatty():
        os.environ["TQDM_DISABLE"] = "1"  # of the kernels: no progress bar in a file
    (run.folder / "notebooks").mkdir(parents=True, exist_ok=True)
    try:
        for wave in _waves(run.chosen):
            manifest.begin([path.stem for path in wave], run.changed)
            with ThreadPool(2) as pool:  # Ctrl-C ends its threads, and so the kernels
                pool.starmap(_run, [(path, run, manifest) for path in wave], 1)
    except BaseException:
        manifest.keep_earlier()
        raise
    manifest.write()
    if profile == "default" and not only and not given:
        shutil.copytree(run.folder / "figures", root / "figures", dirs_exist_ok=True)
    notify(f"done: tables in {run.folder}, its figures/ and notebooks/ beside them")
    return run.folder


def _check_folder(run: _Run, manifest: Manifest, profile: str, root: Path) -> None:
    """InputError where a notebook would replace its results by those of other parameters.

    The profile's own folder is for the profile as it is. Any other folder is for the profile and
    the changed parameters that a notebook finished with. A rehearsal may replace a rehearsal.
    """
    own = {"--profile": profile}
    for path in run.chosen:
        now = {**own, **run.changed[path.stem]}
        before = manifest.made_with(path.stem) or now
        if run.folder.resolve() == (root / "runs" / profile).resolve():
            before = own
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if names and not ("--at" in before and "--at" in now):
            raise InputError(
                f"changed from what {run.folder} is made with: {', '.join(names)}; it keeps its "
                "results, so name another folder for this run with --run NAME (where a copy of "
                "replies.sqlite saves the calls)"
            )
    manifest.content["profile"] = profile


def _waves(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Groups of notebooks: each waits for notebooks of earlier groups only. See `SCHEDULE`."""
    depth: dict[str, int] = {}  # the number of notebooks in the longest chain that ends with it
    for path in sorted(paths):  # a notebook waits for earlier ones alone
        before = [depth[other] for other in SCHEDULE[_number(path)] if other in depth]
        depth[_number(path)] = max(before, default=0) + 1
    for wave in sorted(set(depth.values())):
        yield [path for path in paths if depth[_number(path)] == wave]


def _run(path: Path, run: _Run, manifest: Manifest) -> None:
    """Run a notebook, and note it.

    Until it has ended its copy lies in the run's folder; that of an earlier run is kept as it is.
    """
    notify(f"{path.stem} ...")
    started = time.monotonic()
    copy = run.folder / path.name
    _execute(path, copy, run.values[path])
    copy.replace(run.folder / "notebooks" / path.name)
    notify(f"{path.stem}: done in {time.monotonic() - started:.0f} s")
    manifest.note(path, run.values[path])


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


# --- dry runs ---


def plan(
    profile: str = "default",
    *,
    only: Sequence[str] = (),
    given: Parameters | None = None,
    root: Path = Path(),
    at: str = "",
) -> dict[str, dict[str, Usage]]:
    """What the models of a run would be asked, by model and task. Arguments as of `run_profile`.

    Notebook 1 and those that may ask run in a folder that is deleted, with judges that plan:
    replies that the run's store and the recordings hold are not counted, all others are assumed.
    """
    run = _selected(profile, only, given or {}, root, at)
    asking = [path for path in run.chosen if _may_ask(run.values[path])]
    if not asking:
        return {}
    first = next(iter(run.values))  # it writes the answers that the others read
    with tempfile.TemporaryDirectory() as scratch:
        for path in dict.fromkeys([first, *asking]):
            notify(f"{path.stem}, counted ...")
            store = run.folder / "replies.sqlite"
            _execute(path, None, _planned(run.values[path], scratch, store))
        return _usages(Path(scratch).glob("usage_*.json"))


def _may_ask(values: Parameters) -> bool:
    """Whether a parameter describes a model that does more than replay recorded replies."""
    return any(settings.get("mode", "replay") != "replay" for settings in mappings(values))


def _planned(values: Parameters, run: str, store: Path) -> dict[str, Any]:
    """The parameters of a dry run: its own folder, judges that plan, and no encoder.

    BERTScore asks no judge. The judges look for replies in `store`, where they name none.
    """
    planned = {**deepcopy(dict(values)), "RUN": run}
    if "ENCODER" in planned:
        planned["ENCODER"] = ""
    for settings in mappings(planned):
        if settings.get("model"):
            settings.setdefault("store", str(store))
            settings["mode"] = "plan"
    return planned


def _usages(files: Iterable[Path]) -> dict[str, dict[str, Usage]]:
    """What notebooks asked of each model, by task, from the files that they wrote."""
    pairs = []
    for file in sorted(files):
        for model, tasks in json.loads(read_text(file)).items():
            usages = {}
            for task, counts in tasks.items():
                failures = Counter(counts.pop("failures"))
                usages[task] = Usage(**counts, failures=failures)
            pairs.append((model, usages))
    return together(pairs)


# --- what a run came to ---


def _print_results(folder: Path, started: float) -> None:
    """Print Table 1, and what models were asked, as far as files were written since `started`."""
    table = folder / "table1.md"
    if table in _written([table], started):
        print(read_text(table))
    usages = _usages(_written(folder.glob("usage_*.json"), started))
    if usage_table(usages)["calls"].any():
        print(f"This run took {used_text(usages)}")


def _written(files: Iterable[Path], started: float) -> list[Path]:
    return [file for file in files if file.exists() and file.stat().st_mtime >= started]


def _status(folder: Path) -> int:
    """3 where a metric of the run has under 95 % of its points or answers scored, else 0.

    These metrics are printed in one line.
    """
    few = too_few_scored(folder)
    if few:
        notify(
            f"UNSCORED: {'; '.join(few)}. The values are those of the rest; "
            "the judge's replies could not be read or did not come."
        )
    return 3 if few else 0


def too_few_scored(folder: Path) -> list[str]:
    """A text for each metric of the run's files values_*.csv with too few scores.

    Points that F1 or a single score is made of are counted, and answers with a value.
    """
    import pandas as pd

    few = []
    for file in sorted(folder.glob("values_*.csv")):
        values = pd.read_csv(file)
        main = values[values["part"].isin(["F1", "Score"])]
        for metric, rows in main.groupby("metric", sort=False):
            units, unscored = rows["units"].sum(), rows["unscored"].sum()
            answers, lost = len(rows), rows["value"].isna().sum()
            tolerated = 1 - SCORED_SHARE
            if unscored > tolerated * units or lost > tolerated * answers:
                few.append(
                    f"{metric}, {unscored} of {units} points and {lost} of {answers} answers"
                )
    return few


# --- the command ---


def main(argv: Sequence[str] | None = None) -> int:
    """Run a profile, or count what it would ask, as the arguments say; returns the exit status."""
    args = _parser().parse_args(argv)
    given = {name: parse_yaml(value, f"-p {name}") for name, value in args.parameters}
    if "RUN" in given:
        raise InputError("-p RUN: name the folder of results with --run NAME, for runs/NAME")
    if args.run:
        given["RUN"] = _folder_named(args.run)
    only = [name.strip() for name in ",".join(args.only).split(",") if name.strip()]
    settings = {"only": only, "given": given, "at": args.at}
    if args.dry_run:
        print(plan_text(plan(args.profile, **settings)))
        return 0
    started = time.time()
    folder = run_profile(args.profile, **settings)
    _print_results(folder, started)
    return _status(folder)


def _folder_named(name: str) -> str:
    """The folder of the run with this name.

    InputError for a name with other characters than `RUN_NAME` has, and for a profile's name.
    """
    if not RUN_NAME.fullmatch(name):
        raise InputError(
            f"--run {name!r}: a name has letters, digits, '.', '_' and '-', and begins with a "
            "letter or a digit"
        )
    if Path("profiles", f"{name}.yaml").exists():
        raise InputError(
            f"--run {name}: runs/{name} holds the results of the profile {name}; give another name"
        )
    return f"runs/{name}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ems reproduce",
        description="Run the notebooks of a profile: into runs/<profile>/, or runs/NAME/.",
        epilog="example: ems reproduce --profile paper --dry-run. Exit status: 0 done; 2 bad "
        "input; 3 done, but a metric has less than 95 % of its points or answers scored.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--profile", default="default", metavar="P", help="a name in profiles/")
    add(
        "--run",
        default="",
        metavar="NAME",
        help="the folder of results is runs/NAME (letters, digits, '.', '_', '-'); needed where -p "
        "or --at makes a run differ from its profile",
    )
    add(
        "--only",
        default=[],
        action="append",
        metavar="03,09",
        help="these notebooks alone; may be given several times",
    )
    add(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a notebook parameter, or a key of one (JUDGE.mode); its value as YAML",
    )
    add("--at", default="", metavar="URL", help="rehearse: ask all models here, without a key")
    add("--dry-run", action="store_true", help="count calls, tokens and cost without a call")
    return parser
