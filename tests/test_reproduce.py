"""`ems reproduce`: what runs, into which folder, what it prints, and how a failure ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run as runner
from doubles import refused, until
from marks import runs_notebooks
from project import PARAMETERS, project

from ems.judge.cost import Usage
from ems.types import InputError

ROOT = Path(__file__).parent.parent


# --- which notebooks wait for which ---


def test_every_notebook_has_its_line_in_the_schedule_and_waits_for_earlier_ones():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert list(runner.SCHEDULE) == numbers_of(notebooks)
    for number, waits_for in runner.SCHEDULE.items():
        assert all(other < number for other in waits_for)
    assert set(runner.OPTIONAL) <= set(runner.SCHEDULE)


@pytest.mark.parametrize(
    ("numbers", "waves"),
    [
        (["01", "02", "03", "04", "07", "09"], [["01"], ["02", "03", "07"], ["04", "09"]]),
        (["01", "04"], [["01"], ["04"]]),  # 04 waits for 01 also where 02 and 03 do not run
        (["04", "02"], [["02"], ["04"]]),
        (["05"], [["05"]]),
        ([], []),
    ],
)
def test_a_notebook_runs_after_those_that_it_waits_for(numbers, waves):
    paths = [Path(f"{number}_x.ipynb") for number in numbers]
    assert [numbers_of(wave) for wave in runner._waves(paths)] == waves


def numbers_of(paths):
    return [path.stem[:2] for path in paths]


def test_a_notebook_without_a_line_in_the_schedule_is_refused(tmp_path):
    with pytest.raises(InputError, match="SCHEDULE of notebooks/run.py has no notebook '77'"):
        runner.run_profile("p", root=project(tmp_path, _77_x=[PARAMETERS]))


# --- runs, with notebooks that are played ---


def test_a_folder_without_notebooks_is_no_project(tmp_path):
    with pytest.raises(InputError, match="run this in a clone of the project"):
        runner.run_profile(root=tmp_path)


@pytest.fixture
def played(monkeypatch, tmp_path):
    """A project whose notebooks note that they ran and write a file; no kernel is started."""
    names = ("_01_a", "_02_b", "_03_c", "_04_d", "_10_e")
    root = project(tmp_path, "{}", **{name: [PARAMETERS] for name in names})
    ran = []

    def execute(path, target, values):
        ran.append(path.stem[:2])
        target.write_text(f"N = {values['N']}")
        if values["N"] == 0 and path.stem == "02_b":
            raise InputError("broken")
        if values["NAMES"]:
            os.kill(os.getpid(), signal.SIGINT)  # which the main thread gets
            time.sleep(1)
            raise InputError("its kernel died")
        if path.stem == "04_d":
            (root / values["RUN"] / "table1.md").write_text("the table\n")
        figures = root / values["RUN"] / "figures"
        figures.mkdir(parents=True, exist_ok=True)
        (figures / f"{path.stem}.png").write_text(str(values["N"]))

    monkeypatch.setattr(runner, "_execute", execute)

    def run(profile="p", **how):
        ran.clear()
        runner.run_profile(profile, root=root, **how)
        return sorted(ran)

    return root, run


def test_the_notebooks_of_a_run_and_a_failure_among_them(played):
    root, run = played
    assert run() == ["01", "02", "03", "04"]  # 10 is optional
    assert run(only=["10"]) == ["10"]
    (root / "profiles" / "p.yaml").write_text("common: {N: 0}")
    with pytest.raises(InputError, match="broken"):
        run()
    notes = json.loads((root / "runs" / "p" / "manifest.json").read_text())["notebooks"]
    numbers = {name: note["parameters"]["N"] for name, note in notes.items()}
    # 03 ran beside 02; 04 did not run again.
    assert numbers == {"01_a": 0, "03_c": 0, "04_d": 1, "10_e": 1}
    folder = root / "runs" / "p"
    assert (folder / "02_b.ipynb").read_text() == "N = 0"  # it shows where it failed
    assert (folder / "notebooks" / "02_b.ipynb").read_text() == "N = 1"
    assert not (folder / "03_c.ipynb").exists()


# In the folder of a rehearsal another one, with other parameters, may run.
REHEARSED = {"RUN": "runs/x", "JUDGE.mode": "live"}
AT = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("given", "error"),
    [({"N": 0}, InputError), ({"NAMES": ["x"]}, KeyboardInterrupt)],
    ids=["a failing cell", "Ctrl-C"],
)
def test_a_run_that_fails_before_it_changes_a_result_leaves_the_earlier_one_whole(
    played, given, error
):
    root, run = played
    folder = root / "runs" / "x"
    run(given=REHEARSED, at=AT)
    earlier = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(error):
        run(only=["02"], given={**given, **REHEARSED}, at=AT)
    assert {path: path.read_bytes() for path in earlier} == earlier
    (folder / "02_b.ipynb").unlink()
    run(only=["02"], given={"N": 3, **REHEARSED}, at=AT)
    manifest = json.loads((folder / "manifest.json").read_text())
    unchanged = {"JUDGE.mode": "live", "--at": AT}
    assert manifest["changed"] == {
        **dict.fromkeys(["01_a", "03_c", "04_d"], unchanged),
        "02_b": {"N": 3, **unchanged},
    }


def test_a_run_that_fails_after_it_changed_a_result_has_a_manifest_of_what_is_there(played):
    root, run = played
    run(given={"N": 5, **REHEARSED}, at=AT)
    with pytest.raises(InputError, match="broken"):
        run(given={"N": 0, **REHEARSED}, at=AT)
    manifest = json.loads((root / "runs" / "x" / "manifest.json").read_text())
    # 04 did not begin: its table is the earlier one.
    numbers = {name: changed["N"] for name, changed in manifest["changed"].items()}
    assert numbers == {**dict.fromkeys(["01_a", "02_b", "03_c"], 0), "04_d": 5}
    assert set(manifest["notebooks"]) == {"01_a", "03_c", "04_d"}


def test_the_manifest_says_what_ran_with_what(played):
    root, run = played
    run(given={"N": 7, "RUN": "runs/seven"})
    manifest = json.loads((root / "runs" / "seven" / "manifest.json").read_text())
    assert manifest["profile"] == "p"
    assert manifest["changed"]["02_b"] == {"N": 7}
    assert manifest["packages"]["numpy"]
    assert manifest["notebooks"]["02_b"]["parameters"] == {
        "RUN": "runs/seven",
        "N": 7,
        "NAMES": [],
        "ANYTHING": None,
        "JUDGE": {"model": "m", "mode": "replay"},
    }
    assert set(manifest["files_sha256"]) == {
        "table1.md",
        *(f"figures/{name}.png" for name in ("01_a", "02_b", "03_c", "04_d")),
    }


def test_pages_and_figures_of_every_kind_are_in_the_manifest_but_not_the_site(played):
    root, run = played
    (root / "runs" / "p").mkdir(parents=True)
    for name in ("report.html", "figure.pdf", "replies.sqlite", "html/values.csv"):
        path = root / "runs" / "p" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    run(only=["01"])
    files = json.loads((root / "runs" / "p" / "manifest.json").read_text())["files_sha256"]
    assert set(files) == {"report.html", "figure.pdf", "figures/01_a.png"}


def test_the_manifest_says_before_a_notebook_runs_which_parameters_were_changed(
    played, monkeypatch
):
    root, run = played
    changed = []

    def execute(path, target, values):
        target.touch()
        changed.append(json.loads((root / values["RUN"] / "manifest.json").read_text())["changed"])

    monkeypatch.setattr(runner, "_execute", execute)
    run(only=["01"], given={"N": 2, "JUDGE.seed": None, **REHEARSED}, at=AT)
    run(only=["02"], given={"N": 1, "JUDGE.seed": 3, "RUN": "runs/x"})
    run(only=["01"], given=REHEARSED, at=AT)
    # What is as in the profile was not changed; a notebook that ran again replaces its own entry.
    first = {"N": 2, "JUDGE.seed": None, "JUDGE.mode": "live", "--at": AT}
    seed, again = {"JUDGE.seed": 3}, {"JUDGE.mode": "live", "--at": AT}
    assert changed == [
        {"01_a": first},
        {"01_a": first, "02_b": seed},
        {"01_a": again, "02_b": seed},
    ]


def test_other_parameters_need_a_folder_of_their_own(played):
    root, run = played
    with refused("runs/p is made with: N;", "name another folder for this run"):
        run(given={"N": 2})
    with refused("made with: N;"):
        run(given={"N": 2, "RUN": str(root / "runs" / "p")})
    with refused("made with: JUDGE.mode, --at;"):
        run(given={"JUDGE.mode": "live", "RUN": "runs/p"}, at=AT)
    assert not (root / "runs").exists()
    assert run(given={"N": 1}) == ["01", "02", "03", "04"]  # the profile's own value


def test_a_named_folder_keeps_the_parameters_that_its_notebooks_finished_with(played):
    root, run = played
    nine = {"N": 9, "RUN": "runs/nine"}
    run(only=["01", "02"], given=nine)
    kept = (root / "runs" / "nine" / "manifest.json").read_bytes()
    with refused("runs/nine is made with: N;", "name another folder for this run"):
        run(only=["02"], given={**nine, "N": 2})
    with refused("made with: N;"):
        run(only=["01"], given={"RUN": "runs/nine"})  # the profile's own value
    with refused("made with: NAMES;"):
        run(only=["02", "03"], given={**nine, "NAMES": ["AAPL"]})
    with refused("made with: JUDGE.mode, --at;"):
        run(only=["01"], given={**nine, "JUDGE.mode": "live"}, at=AT)
    (root / "profiles" / "other.yaml").write_text("common: {}")
    with refused("made with: --profile;"):
        run("other", only=["01"], given=nine)
    assert (root / "runs" / "nine" / "manifest.json").read_bytes() == kept
    assert run(given=nine) == ["01", "02", "03", "04"]
    # A notebook that has not finished there may get any parameter.
    assert run(only=["10"], given={**nine, "N": 3}) == ["10"]


@pytest.mark.parametrize(
    ("profile", "how", "shown"),
    [
        ("default", {}, "2"),
        ("default", {"given": {"N": 3, "RUN": "runs/three"}}, "committed"),
        ("default", {"only": ["01"]}, "committed"),
        ("p", {}, "committed"),
    ],
    ids=["whole", "another parameter", "one notebook", "another profile"],
)
def test_only_a_whole_default_run_refreshes_the_figures_that_are_shown(played, profile, how, shown):
    root, run = played
    (root / "profiles" / "default.yaml").write_text("common: {N: 2}")
    (root / "figures").mkdir()
    (root / "figures" / "01_a.png").write_text("committed")
    run(profile, **how)
    assert (root / "figures" / "01_a.png").read_text() == shown


def test_a_parameter_of_the_command_is_yaml(monkeypatch):
    seen = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(runner, "plan", lambda profile, **how: seen.update(how["given"]) or {})
    assert runner.main(["--dry-run", "-p", "N", "7", "-p", "NAMES", "[AAPL]"]) == 0
    assert seen == {"N": 7, "NAMES": ["AAPL"]}
    with pytest.raises(InputError, match="-p N is not YAML"):
        runner.main(["--dry-run", "-p", "N", "a: ["])


# --- the command ---


@pytest.fixture
def command(played, monkeypatch):
    """A function: runs the command in the played project; returns its exit status."""
    root, _ = played
    monkeypatch.chdir(root)
    return lambda *arguments: runner.main(["--profile", "p", *arguments])


def test_a_run_is_named_and_its_notebooks_are_chosen_in_one_option_or_several(command):
    assert command("--run", "one.2_3-b", "--only", "01, 03", "--only", "02", "-p", "N", "5") == 0
    figures = sorted(path.stem for path in Path("runs/one.2_3-b/figures").iterdir())
    assert figures == ["01_a", "02_b", "03_c"]
    assert not Path("runs/p").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--run", "../x"], "letters, digits, '.', '_' and '-'"),
        (["--run", "-x/y"], "begins with a letter or a digit"),
        (["--run", "p"], "runs/p holds the results of the profile p; give another name"),
        (["-p", "RUN", "runs/p"], "name the folder of results with --run NAME"),
        (["-p", "N", "2"], "with --run NAME"),
    ],
)
def test_a_name_that_could_overwrite_results_is_refused(command, arguments, words):
    arguments = [f"--run={arguments[1]}"] if arguments[0] == "--run" else arguments
    with refused(words):
        command(*arguments)
    assert not Path("runs").exists()


def test_the_table_is_printed_where_the_run_made_it(command, capsys):
    assert command() == 0
    assert capsys.readouterr().out == "the table\n\n"
    old = Path("runs/p/table1.md")
    os.utime(old, (0, 0))
    assert command("--only", "03") == 0
    assert capsys.readouterr().out == ""
    assert command("--only", "01,04") == 0
    assert capsys.readouterr().out == "the table\n\n"


def test_what_a_slice_cost_is_printed_without_what_other_notebooks_cost_before(
    command, capsys, monkeypatch
):
    def execute(path, target, values):
        target.touch()
        usage = vars(Usage(calls=int(path.stem[:2]), cost=0.25))
        file = Path(values["RUN"], f"usage_{path.stem}.json")
        file.write_text(json.dumps({"m": {"match": usage}}))

    monkeypatch.setattr(runner, "_execute", execute)
    assert command("--only", "02,03") == 0
    assert "This run took 5 calls" in capsys.readouterr().out
    for file in Path("runs/p").glob("usage_*"):
        os.utime(file, (0, 0))
    assert command("--only", "04") == 0
    assert "This run took 4 calls, 0 prompt tokens and 0 completion tokens; money: 0.25." in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("unscored", "value", "few"),
    [
        (5, 0.5, False),
        (6, 0.5, True),  # 6 of 100 points
        (0, "", True),  # an answer of one has no value
    ],
)
def test_a_run_with_too_many_unscored_points_ends_with_3_and_names_the_metric(
    command, capsys, unscored, value, few
):
    Path("runs/p").mkdir(parents=True)
    Path("runs/p/values_ems.csv").write_text(
        "metric,part,value,units,unscored\n"
        f"EMS(LLM),Recall,,100,100\nEMS(LLM),F1,{value},100,{unscored}\nJudge alone,Score,1,1,0\n"
    )
    assert command() == (3 if few else 0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "UNSCORED" in line]
    assert len(lines) == few
    if few:
        lost = int(value == "")
        assert f"UNSCORED: EMS(LLM), {unscored} of 100 points and {lost} of 1 answers." in lines[0]


# --- kernels ---


@runs_notebooks
@pytest.mark.parametrize(
    ("run", "source", "words"),
    [
        (
            runner.run_profile,
            "1 / 0",
            r"01_a.ipynb, cell 3: ZeroDivisionError: division by zero; the executed copy",
        ),
        # A dry run's copy is deleted.
        (runner.plan, "1 / 0", r"01_a.ipynb, cell 3: ZeroDivisionError: division by zero$"),
        (runner.run_profile, "import os\nos._exit(1)", "its kernel died"),
    ],
)
def test_a_failing_cell_is_named_once(run, source, words, tmp_path):
    with pytest.raises(InputError, match=words):
        run(
            "p",
            given={"JUDGE.mode": "live", "RUN": "runs/live"},
            root=project(tmp_path, _01_a=[PARAMETERS, source]),
        )


@runs_notebooks
def test_a_kernel_whose_messages_go_to_a_file_draws_no_progress_bar(tmp_path):
    source = "from ems.terminal import progress_bar\nassert progress_bar('asking', 3).disable"
    runner.run_profile("p", root=project(tmp_path, _01_a=[PARAMETERS, source]))


@runs_notebooks
def test_ctrl_c_ends_the_command_and_the_kernel(tmp_path):
    write_pid = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    source = f"import os, time\n{write_pid}\ntime.sleep(300)"
    project(tmp_path, _01_a=[PARAMETERS, source])
    for name in ("run.py", "profiles.py", "manifest.py"):
        shutil.copy(ROOT / "notebooks" / name, tmp_path / "notebooks")
    command = subprocess.Popen(
        [sys.executable, "-m", "ems", "reproduce", "--profile", "p"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    command.send_signal(signal.SIGINT)
    assert command.wait(20) == 130
    assert "Traceback" not in command.stderr.read()
    kernel = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{kernel}").exists())
