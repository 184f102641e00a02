"""EMS inside inspect_ai and mlflow, each with a judge on loopback, and promptfoo's contract."""

import json
import math
import re
import subprocess
import sys

import pytest
from doubles import judge_of, text_of
from loopback import Loopback

from ems.types import WITHOUT_JUDGE, InputError

REFERENCE, ANSWER = "Revenue rose 6%. Margin was 46%.", "Revenue rose 6%. The outlook is good."
LOST = "Nobody can read this."
MISSING = r"1: Margin was \[46%: not in the answer\]\.\s+not covered"  # in the text of a result


def judge(body):
    """Points are sentences, and a point is stated where the other text has it.

    The reply about LOST is no list of points. A point of 46% is contradicted by one of 64%.
    """
    prompt = body["messages"][-1]["content"]
    text = text_of(prompt.rpartition("Points, numbered")[0] or prompt)
    if "saliency points" in prompt:
        return "no list" if LOST in text else json.dumps({"points": re.findall(r"[^.]+\.", text)})
    points = re.findall(r'^\d+: "(.+)"$', prompt, re.MULTILINE)
    scores = [10 if point in text else 0 for point in points]
    contradicted = [i for i, point in enumerate(points) if point.replace("46", "64") in text]
    return json.dumps(
        {"scores": scores, "contradicted": [i for i in contradicted if not scores[i]]}
    )


@pytest.fixture
def server():
    with Loopback(judge) as running:
        yield running


def test_importing_ems_imports_no_tool():
    tools = {"inspect_ai", "mlflow", "ems.adapters"}
    code = f"import sys, ems; ems.build(); print({tools} & sys.modules.keys())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("name", "extra"), [("inspect_ai", "inspect-ai"), ("mlflow", "mlflow")])
def test_a_tool_that_is_not_installed_is_named_with_the_line_that_installs_it(
    name, extra, monkeypatch
):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"ems.adapters.{name}", raising=False)
    with pytest.raises(InputError, match=rf"needs {name}: pip install '\.\[{extra}\]'"):
        __import__(f"ems.adapters.{name}")


# --- inspect_ai ---


@pytest.fixture
def inspect_run(tmp_path, server):
    """Evaluates samples of (answer, metadata) with the scorer, in inspect's own loop."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="runs in make test-adapters")
    from inspect_ai.dataset import Sample

    from ems.adapters.inspect_ai import ems_scorer

    def run(*rows, roles=True, **settings):
        answers = iter([answer for answer, _ in rows])
        model = inspect_ai.model.get_model(
            "openai-api/loop/judge", base_url=server.url, api_key="none", memoize=False
        )

        @inspect_ai.solver.solver
        def fixed():
            async def solve(state, generate):
                state.output = inspect_ai.model.ModelOutput.from_content("m", next(answers))
                return state

            return solve

        samples = [
            Sample(input="How was it?", target=REFERENCE, id=i, metadata=meta)
            for i, (_, meta) in enumerate(rows)
        ]
        (log,) = inspect_ai.eval(
            inspect_ai.Task(dataset=samples, solver=fixed(), scorer=ems_scorer(**settings)),
            model=model,
            model_roles={"grader": model} if roles else {},
            display="none",
            log_dir=str(tmp_path),
            max_samples=1,
        )
        return log

    return run


def test_inspect_has_means_with_clustered_errors_and_leaves_unscored_samples_out(
    inspect_run, server
):
    rows = [
        (ANSWER, {"group": "a"}),
        (REFERENCE, {"group": "a"}),
        (REFERENCE, {"group": "b"}),
        (LOST, {"group": "b"}),
    ]
    log = inspect_run(*rows, scorer="coverage")
    assert log.status == "success", log.error
    assert [(s.name, s.scored_samples, s.unscored_samples) for s in log.results.scores] == [
        ("recall", 3, 1),
        ("precision", 3, 1),
        ("f1", 3, 1),
    ]
    recall = log.results.scores[0].metrics
    mean = (0.5 + 1 + 1) / 3
    assert recall["mean"].value == pytest.approx(mean)
    # Squared sums of the deviations in the clusters "a" and "b".
    clusters = (0.5 + 1 - 2 * mean) ** 2 + (1 - mean) ** 2
    assert recall["stderr"].value == pytest.approx(math.sqrt(clusters * 2 / (2 - 1)) / 3)
    first, last = (log.samples[i].scores["ems_scorer"] for i in (0, 3))
    assert re.search(MISSING, first.explanation)
    assert first.answer == ANSWER
    assert WITHOUT_JUDGE not in first.explanation
    assert (first.metadata["group"], first.metadata["question"], first.metadata["unscored"]) == (
        "a",
        "How was it?",
        0,
    )
    assert all(math.isnan(value) for value in last.value.values())
    assert "could not be read" in last.explanation


def test_inspects_grader_asks_at_once_and_is_needed(inspect_run, server):
    server.latency = 0.2
    inspect_run((ANSWER, {"group": "a"}), scorer="llm")
    assert server.peak > 1
    assert "grader" in str(inspect_run((ANSWER, {"group": "a"}), roles=False).error)
    log = inspect_run((ANSWER, {"group": "a"}), roles=False, scorer="local")
    assert log.status == "success"
    explanation = " ".join(log.samples[0].scores["ems_scorer"].explanation.split())
    assert explanation.startswith(f"```text {WITHOUT_JUDGE}")
    assert "needs a 'group'" in inspect_run((ANSWER, {}), scorer="local").error.message


# --- mlflow ---


def test_mlflow_has_three_feedbacks_and_an_error_where_unscored(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow", reason="runs in make test-adapters")
    from ems.adapters.mlflow import mlflow_scorer

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.sqlite")
    rows = [
        {
            "inputs": {"question": "How was it?"},
            "outputs": answer,
            "expectations": {"expected_response": REFERENCE},
        }
        for answer in (ANSWER, LOST)
    ]
    done = mlflow.genai.evaluate(data=rows, scorers=[mlflow_scorer(judge_of(server), "coverage")])
    assert done.metrics == pytest.approx(
        {"recall/mean": 0.5, "precision/mean": 0.5, "f1/mean": 0.5}
    )
    frame = done.result_df.set_index("response")
    for part in ("recall", "precision", "f1"):
        assert frame.loc[ANSWER, f"{part}/value"] == 0.5
        assert re.search(MISSING, frame.loc[ANSWER, f"{part}/rationale"])
        assert "could not be read" in frame.loc[LOST, f"{part}/error_message"]


# --- promptfoo: its contract is a function and a dictionary ---


def graded(output=ANSWER, reference=REFERENCE, **config):
    from ems.adapters.promptfoo import get_assert

    return get_assert(output, {"vars": {"reference": reference}, "config": config})


def test_promptfoo_has_a_component_for_each_reference_point(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    result = graded(judge="m", scorer="coverage", threshold=0.5)
    assert (result["pass"], result["score"]) == (True, 0.5)
    assert result["namedScores"] == {"recall": 0.5, "precision": 0.5, "f1": 0.5}
    assert [(one["pass"], one["score"], one["reason"]) for one in result["componentResults"]] == [
        (True, 1.0, "covered: Revenue rose 6%. | Revenue rose 6%."),
        (False, 0.0, "not covered: Margin was 46%."),
    ]
    assert not graded(judge="m", scorer="coverage", threshold=0.6)["pass"]
    assert json.loads(json.dumps(result)) == result
    lost = graded(LOST, judge="m", scorer="coverage", threshold=0)
    assert (lost["pass"], lost["score"], lost["namedScores"]) == (False, 0.0, {})
    assert lost["reason"] == "recall nan; the points of a side could not be read"


def test_promptfoo_fails_an_output_that_contradicts_the_reference(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    wrong = "Revenue rose 6%. Margin was 64%."
    settings = {"judge": "m2", "scorer": "coverage"}  # evaluators are kept by name
    failed = graded(wrong, **settings)
    assert (failed["pass"], failed["score"]) == (False, 0.5)
    assert failed["reason"] == "recall 0.50; reference points contradicted: 1"
    assert graded(wrong, contradicted=1, **settings)["pass"]
    assert graded(ANSWER, contradicted=0, **settings)["pass"]
    for others in ({"judge": "m", "scorer": "rouge"}, {}):
        with pytest.raises(InputError, match="needs a judge and the scorer 'coverage'"):
            graded(wrong, contradicted=0, **others)


def test_promptfoo_without_a_judge_grades_the_figures_of_the_output_and_warns():
    result = graded("Revenue fell 6%.")
    assert (result["pass"], result["score"]) == (True, 1.0)
    assert result["reason"].startswith(WITHOUT_JUDGE)
    wrong = graded("Revenue rose 6%. Margin was 64%.")
    assert (wrong["pass"], wrong["score"]) == (False, 0.5)
    assert graded("Revenue rose 6%. Margin was 64%.", threshold=0.5)["pass"]
    for output in ("", "Revenue rose."):
        without_figures = graded(output, threshold=0)
        assert (without_figures["pass"], without_figures["score"]) == (False, 0.0)


def test_promptfoo_shows_the_answer_point_beside_and_refuses_what_it_does_not_know():
    assert (
        graded()["componentResults"][0]["reason"] == "covered: Revenue rose 6%. | Revenue rose 6%."
    )
    for settings, words in (({"model": "m"}, "model"), ({"scorer": "judge"}, "other than 'judge'")):
        with pytest.raises(InputError, match=words):
            graded(**settings)
