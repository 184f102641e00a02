"""The project's own notebooks: runs of its profiles."""

import csv
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import loopback
import pytest
import run as runner
from doubles import refused
from loopback import Loopback, by_words
from marks import runs_notebooks
from study import dataset

from ems.judge.cost import plan_text
from ems.prompts import KIT

ROOT = Path(__file__).parent.parent
KEY = "sk-planted-in-the-environment-000000"


# --- one run of the smoke profile, which the tests below look at ---


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A run with a key that nothing may keep, and without a mirror of public data sets."""
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EMS_DATA_MIRROR", raising=False)
        patch.setenv("OPENAI_API_KEY", KEY)
        return runner.run_profile("smoke", given={"RUN": str(folder)}, root=ROOT)


@runs_notebooks
def test_the_smoke_run_gives_everything_promised(smoke):
    promised = [
        "triplets.jsonl",
        "answers.jsonl",
        "alignments.jsonl",
        "table1.csv",
        "table1.md",
        "table1.tex",
        "manifest.json",
        "figures/pairs.png",
        "figures/alignment.png",
        "figures/alignment.pdf",
        "figures/table1.pdf",
        "report.html",
        "table1_signatures.csv",
        "findings/03_ems.md",
    ]
    assert [name for name in promised if not (smoke / name).exists()] == []
    report = (smoke / "report.html").read_text(encoding="utf-8")
    assert "<title>EMS report: SmolLM2 135M and Large LLM</title>" in report  # short names
    header, *rows = (smoke / "table1.csv").read_text(encoding="utf-8").splitlines()
    assert header == "metric,part,model,value,ci_low,ci_high,n,unscored,signature"
    assert {row.partition(",")[0] for row in rows} >= {
        "BLEU",
        "ROUGE",
        "BERTScore",
        "RAGChecker",
        "EMS(ROUGE)",
        "EMS(BERTScore)",
        "EMS(LLM)",
        "Coverage(local)",
    }


@runs_notebooks
def test_the_key_is_in_no_file_and_no_notebook_shows_a_warning(smoke):
    for path in smoke.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    for path in (smoke / "notebooks").glob("*.ipynb"):
        for output in outputs_of(path):
            assert output["output_type"] != "error", path.name
            assert "Not computed yet" not in json.dumps(output), path.name  # findings came
            if output.get("name") == "stderr":
                text = "".join(output.get("text", ""))
                assert "Warning" not in text, path.name
                assert "Error" not in text, path.name


@runs_notebooks
@pytest.mark.skipif(find_spec("myst_nb") is None, reason="needs pip install '.[html]'")
def test_the_run_becomes_a_site_without_a_warning(smoke):
    command = [sys.executable, "-m", "study.site", str(smoke)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (made.stdout, made.stderr) == (f"{smoke / 'html' / 'index.html'}\n", "")
    start = (smoke / "html" / "index.html").read_text(encoding="utf-8")
    for path in (smoke / "notebooks").glob("*.ipynb"):
        assert f'href="notebooks/{path.stem}.html"' in start
    assert "The run has 2 questions in" in start


def outputs_of(notebook):
    outputs = []
    for cell in json.loads(notebook.read_text())["cells"]:
        outputs += cell.get("outputs", [])
    return outputs


@runs_notebooks
def test_a_dry_run_counts_what_an_unknown_judge_would_be_asked_and_starts_nothing_for_a_replay(
    monkeypatch,
):
    counted = runner.plan(
        "smoke", only=["02", "03"], given={"JUDGE": {"model": "nobody", "mode": "live"}}, root=ROOT
    )
    calls = calls_of(counted)
    assert calls["claims"] == calls["extract"] == 6  # two references and four answers
    assert {"entail", "summary", "match", "score"} <= calls.keys()
    monkeypatch.setattr(runner, "_execute", lambda *args: pytest.fail("a kernel was started"))
    assert runner.plan("smoke", root=ROOT) == {}


def calls_of(plan):
    """Calls by task, over all models and notebooks."""
    calls = {}
    for tasks in plan.values():
        for task, usage in tasks.items():
            calls[task] = calls.get(task, 0) + usage.calls
    return calls


@runs_notebooks
def test_a_notebook_opens_alone_without_what_the_others_write(tmp_path):
    path = ROOT / "notebooks" / "09_table1.ipynb"
    runner._execute(path, tmp_path / path.name, {"RUN": str(tmp_path)})
    assert (tmp_path / "table1.csv").exists()


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Parameters for any profile that asks models: one question and few resamples.

    The calls and the prompt set are made up.
    """
    companies = (ROOT / "data" / "companies.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(companies.splitlines()):
        name = row["names"].partition("|")[0]
        text = f"{name}\n\n{'Sales rose. ' * 5000}\n\nThis concludes today's call."
        (tmp_path / f"{row['transcript']}.txt").write_text(text)
    (tmp_path / "home/prompts/paper").mkdir(parents=True)
    for task in ("answer", "consolidate", "extract", "match", "score"):  # what the paper has
        shutil.copy(KIT / f"{task}.txt", tmp_path / "home/prompts/paper")
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))
    return {
        "COMPANIES": ["AAPL"],
        "LIMIT": 1,
        "RESAMPLES": 50,
        "RUN": str(tmp_path / "run"),
        "ENCODER": "all-MiniLM-L6-v2",
        "WRITING.transcripts": str(tmp_path),
        "TRANSCRIPTS": str(tmp_path),
    }


PAPER_TASKS = {
    "answer",
    "consolidate",
    "summary",
    "extract",
    "match",
    "score",
    "claims",
    "entail",
    "judge",
    "support",
}


@runs_notebooks
@pytest.mark.parametrize(
    ("profile", "tasks"),
    [
        ("default", set()),
        ("findver", set()),
        ("smoke", set()),
        ("record", {"answer"}),
        ("paper", PAPER_TASKS),
    ],
)
def test_every_profile_can_be_counted_whole(profile, tasks, made_up):
    counted = runner.plan(profile, given=made_up if tasks else {}, root=ROOT)
    assert {task for task, calls in calls_of(counted).items() if calls} == tasks
    print(plan_text(counted))  # as the command does


# A prompt set like the one that is imported from the paper: lists and numbers, no JSON. The words
# are not the paper's.
LIKE_THE_PAPER = {
    "answer": "$context\nAnswer in full: $question",
    "consolidate": "Make one answer to $question\n$versions\nUse this call:\n$document",
    "extract": 'A point is "one fact".\nExample: "Sales rose."\nAnswer:\n<text>\n$answer\n</text>\n'
    "Points:",
    "match": 'Example of candidates:\n["Sales rose.",\n"Costs fell."]\nFind $reference among\n'
    "[\n$candidates\n]\nIndex:",
    "score": 'Example: "Sales rose." and "Sales fell." have 2.\nScore $reference against\n'
    "$candidate\nfrom 0 to $max_score:",
}


@pytest.fixture
def like_the_paper(made_up, tmp_path):
    for task, text in LIKE_THE_PAPER.items():
        (tmp_path / "home/prompts/paper" / f"{task}.txt").write_text(text)
    return made_up


@runs_notebooks
@pytest.mark.parametrize(("profile", "only"), [("paper", []), ("record", ["01"])])
def test_a_profile_that_asks_runs_live(profile, only, like_the_paper):
    with Loopback(by_words) as server:
        run = runner.run_profile(profile, only=only, root=ROOT, given=like_the_paper, at=server.url)
    lines = (run / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["answer"].splitlines() for line in lines]
    if profile == "record":
        assert "Sales rose." in answers[0]
        assert answers[1] == ["ok"]  # the closed book
        assert "Sales rose." in answers[2]
    if profile == "paper":  # every answer has the sentences of the reference, in some order
        whole = ["Apple", "Sales rose.", "This concludes today's call."]
        assert [sorted(answer) for answer in answers] == [whole] * 3
        assert runner.too_few_scored(run) == []
        table = (run / "table1.csv").read_text(encoding="utf-8").splitlines()
        metrics = ("RAGChecker,F1", "EMS(LLM),F1", "EMS(ROUGE),F1")
        values = [line.split(",")[3] for line in table if line.startswith(metrics)]
        assert values == ["1.0"] * 9
        assert "Changed from the profile: --at" in (run / "table1.md").read_text(encoding="utf-8")


@runs_notebooks
def test_a_run_whose_judge_cannot_be_read_has_too_few_scores(like_the_paper):
    with Loopback(lambda body: by_words(body) if body["max_tokens"] > 64 else "ok") as server:
        run = runner.run_profile(
            "paper", only=["01", "03"], root=ROOT, given=like_the_paper, at=server.url
        )
    few = runner.too_few_scored(run)
    # Without matches no scorer of EMS has pairs to score. Coverage(local) asks no judge.
    assert [line.partition(",")[0] for line in few] == ["EMS(ROUGE)", "EMS(BERTScore)", "EMS(LLM)"]
    assert all(line.endswith(" points and 3 of 3 answers") for line in few)


@runs_notebooks
def test_the_whole_profile_of_the_paper_can_be_rehearsed_by_one_command(made_up, tmp_path):
    """All five questions to ten made-up calls, with the kit's prompts: a newcomer has no others."""
    shutil.rmtree(tmp_path / "home")
    project = tmp_path / "project"
    for name in ("notebooks", "profiles", "tests"):
        shutil.copytree(ROOT / name, project / name)
    (project / "data").symlink_to(ROOT / "data")
    done = subprocess.run(
        [sys.executable, "tests/loopback.py", "--profile", "paper"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{project / 'notebooks'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "This was a rehearsal" in done.stderr
    assert "the prompt set 'paper' is not imported" in done.stderr.lower()
    assert "transcripts has no texts: the calls of this rehearsal are MADE UP" in done.stderr
    assert "WRITING.transcripts 'runs/made-up-calls'" in done.stdout
    assert "| EMS(LLM) | F1 |" in done.stdout
    assert "This run took " in done.stdout
    report = (project / "runs/paper-rehearsal/report.html").read_text(encoding="utf-8")
    assert "<title>A rehearsal: the values mean nothing</title>" in report
    lines = (project / "runs/paper-rehearsal/answers.jsonl").read_text().splitlines()
    assert len(lines) == 150


@runs_notebooks
def test_an_answer_of_your_own_to_an_unknown_triplet_is_refused(tmp_path):
    """Whatever `LIMIT` is, as by the command line."""
    text = (ROOT / "data/q3-2024/answers.jsonl").read_text(encoding="utf-8")
    answers = tmp_path / "mine.jsonl"
    row = {"triplet_id": "AAPL-Q9", "model": "mine", "answer": "Sales rose."}
    answers.write_text(text + json.dumps(row) + "\n", encoding="utf-8")
    given = {"RUN": str(tmp_path), "ANSWERS": str(answers), "LIMIT": 2}
    with refused("answers to 1 unknown triplets: 'AAPL-Q9'"):
        runner._execute(ROOT / "notebooks" / "12_your_own.ipynb", None, given)


def test_a_rehearsal_takes_the_calls_that_there_are(made_up, tmp_path, monkeypatch, capsys):
    commands = []
    monkeypatch.setattr(loopback, "main", lambda command: commands.append(command) or 0)
    monkeypatch.chdir(ROOT)
    given = ["-p", "WRITING.transcripts", str(tmp_path)]
    assert loopback.rehearse("paper", "http://127.0.0.1:1/v1", given) == 0
    assert commands[0][-3:] == given
    assert commands[0].count("WRITING.transcripts") == 1
    assert "MADE UP" not in capsys.readouterr().err


def test_every_made_up_call_can_be_read_as_a_call(tmp_path):
    folder = loopback.made_up_calls(ROOT / "data", tmp_path / "calls")
    triplets = dataset.call_triplets(ROOT / "data", transcripts=folder)
    assert len({triplet.context for triplet in triplets}) == 10
    for triplet in triplets:
        assert "made-up call" in triplet.context.partition("\n")[0]
        assert triplet.reference.splitlines()[0] in triplet.context
