"""Is the judge still there? The endpoint's list of models, and one word where the list is silent."""

import logging

import pytest
from loopback import Fault, Loopback

import ems.judge.offered
import ems.judge.wire
from ems.asking import Request
from ems.judge.client import JudgeUnavailable, LLMJudge, SpendLimit
from ems.judge.offered import find
from ems.judge.store import Replies

ASKED = [Request("match", f"question {i}", 16) for i in range(3)]
LISTED = ["judge-2", "judge-2-mini", "embedder"]
GONE = Fault(404, {"error": {"message": "The model `judge-1` does not exist", "code": "model_not_found"}})


@pytest.fixture(autouse=True)
def _no_memory_of_endpoints(monkeypatch):
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})


def judge_of(server, model="judge-1", **settings):
    return LLMJudge(model, base_url=server.url, **settings)


@pytest.mark.parametrize("refusal", [
    GONE, Fault(400, {"error": {"message": "Invalid model: judge-1"}}),
    Fault(422, {"detail": "no model of this name"}),
], ids=["404", "400", "422"])
def test_a_model_that_is_gone_is_named_with_near_names_before_any_question(refusal):
    with Loopback(models=LISTED, faults=lambda n, body: refusal) as server:
        judge = judge_of(server, store=Replies())
        with pytest.raises(JudgeUnavailable) as error:
            judge.ask(ASKED)
    said = str(error.value)
    assert "near names: 'judge-2', 'judge-2-mini'" in said
    assert "embedder" not in said
    assert '"When a judge is gone"' in said
    assert "\n" not in said
    assert server.prompts == [ems.judge.offered.PROBE.prompt]       # none of ours was sent
    assert len(judge.store) == 0


def test_a_listed_model_is_looked_up_once_and_never_probed():
    with Loopback(models=LISTED) as server:
        judge = judge_of(server, "judge-2")
        judge.ask(ASKED[:1])
        judge.ask(ASKED)
        judge_of(server, "judge-2").ask(ASKED)
        assert server.listings == 1
        assert "Reply with one word" not in "".join(server.prompts)
        assert judge.usage().keys() == {"match"}


def test_an_unlisted_model_that_answers_is_used_and_the_list_is_shown(caplog):
    with Loopback(models=["/models/some.gguf"]) as server, caplog.at_level(logging.WARNING, "ems"):
        judge = judge_of(server, prices={"prompt": 1, "completion": 1})
        assert [reply.text for reply in judge.ask(ASKED)] == ["ok"] * 3
    assert "it lists '/models/some.gguf'" in caplog.text
    assert judge.usage()["probe"].calls == 1
    assert judge.usage()["probe"].cost > 0                          # the one word is counted


@pytest.mark.parametrize("models", [
    None, [], Fault(500), Fault(401), Fault(reset=True), Fault(body="<html>no</html>"), Fault(body={"count": 1}),
    Fault(body={"data": [{"name": "x"}, 3]}), Fault(body={"data": 3}),
], ids=str)
def test_an_endpoint_without_a_list_is_asked_all_the_same(models):
    with Loopback(models=models) as server:
        assert [reply.text for reply in judge_of(server).ask(ASKED)] == ["ok"] * 3
        assert server.count == 3


@pytest.mark.parametrize("slow", [Fault(delay=9), Fault(body={"data": []}, drip=0.1)], ids=["silent", "dripping"])
def test_a_list_that_does_not_come_is_not_waited_for(monkeypatch, slow):
    monkeypatch.setattr(ems.judge.offered, "LISTING", 0.2)
    with Loopback(models=slow) as server:
        assert judge_of(server, timeout=5).ask(ASKED)[0].text == "ok"


@pytest.mark.parametrize("fault", [
    Fault(429), Fault(500), Fault(400, {"error": {"message": "max_tokens is not supported with this model"}}),
], ids=["busy", "broken", "about a parameter"])
def test_a_word_that_fails_for_another_reason_does_not_speak_against_the_model(fault, monkeypatch):
    with Loopback(models=LISTED, faults=[fault]) as server:
        assert [reply.text for reply in judge_of(server).ask(ASKED)] == ["ok"] * 3


def test_the_one_word_stays_within_the_spend_limit():
    with Loopback(models=LISTED) as server:
        judge = judge_of(server, prices={"prompt": 1e6, "completion": 1e6}, spend_limit=0.01)
        with pytest.raises(SpendLimit):
            judge.ask(ASKED)
        assert server.count == 0


def test_a_date_of_deprecation_is_shown_and_stops_nothing(caplog):
    entry = {"id": "judge-1", "deprecation": "2026-12-01\x1b[2J"}
    with Loopback(models=[entry]) as server, caplog.at_level(logging.WARNING, "ems"):
        judge_of(server).ask(ASKED)
    assert "deprecated from '2026-12-01" in caplog.text
    assert "\x1b" not in caplog.text


def test_stored_replies_of_a_model_that_is_gone_need_no_endpoint():
    store = Replies()
    with Loopback() as server:
        judge_of(server, store=store).ask(ASKED)
    with Loopback(models=LISTED, faults=lambda n, body: GONE) as server:
        assert [reply.text for reply in judge_of(server, store=store).ask(ASKED)] == ["ok"] * 3
        assert server.listings == 0


def test_asked_by_itself():
    with Loopback(models=LISTED, faults=lambda n, body: GONE) as server:
        judge_of(server, "judge-2").check_offered()
        with pytest.raises(JudgeUnavailable, match="no such model there"):
            judge_of(server).check_offered()
    judge_of(server, "another").check_offered()                     # now down: that is for the first ask to say


@pytest.mark.parametrize(("model", "listed", "found"), [
    ("m", "m", True), ("M", "m", True), ("m", "models/m", True), ("m", "m:latest", True), ("m:free", "m", True),
    ("openai/m", "openai/*", True), ("m", "m-mini", False), ("m-mini", "m", False), ("m", "", False),
])
def test_names_as_services_write_them(model, listed, found):
    assert (find(model, [{"id": "other"}, {"id": listed}]) is not None) == found


def test_aliases_count():
    assert find("m-latest", [{"id": "m-2411", "aliases": ["m-latest"]}])["id"] == "m-2411"
    assert find("m-latest", [{"id": "m-2411", "aliases": None}]) is None
