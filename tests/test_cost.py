"""Cost before, during and after: a dry run's counts against the real run's, prices, and the spend limit."""

from collections import Counter
from contextlib import suppress

import pytest
from loopback import Fault, Loopback, completion, refusing
from scripted import judgeable, judged

import ems.judge.wire
from ems import data as frames
from ems.asking import Request, list_schema
from ems.baselines import RAGChecker
from ems.cli import main
from ems.io import write_jsonl
from ems.judge import budget as cost
from ems.judge.budget import LIKELY, PER_CALL, Planner, Prices, TaskUsage, longest_list, tokens_at_most
from ems.judge.client import JudgeUnavailable, LLMJudge, SpendLimit
from ems.judge.store import Replies
from ems.presets import build
from ems.reading import read_list
from ems.types import Answer, InputError, Triplet

TRIPLETS, ANSWERS = judgeable(5, 12)


@pytest.fixture(autouse=True)
def endpoint(monkeypatch):
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})


# --- bounds ---

@pytest.mark.parametrize(("text", "tokens"), [
    ("", 0), ("abcdefgh", 2), ("12", 3), ("a, b", 2), ("ü", 3), ("four", 1),
    ("sales of 10%", 5),                      # 9 letters and blanks / 4 + 2 digits x 1.3 + 1 sign = 5.85 -> 6
])
def test_tokens_by_hand(text, tokens):
    letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
    digits, foreign = sum(c.isdigit() for c in text), sum(not c.isascii() for c in text)
    signs = len(text) - letters - digits - foreign
    expected = letters / 4 + 1.3 * digits + signs + 2.2 * foreign
    assert expected <= tokens_at_most(text) < expected + 1


def test_the_longest_list_has_distinct_points_enough():
    text = "Revenue was $5 billion. " * 100
    points = read_list(longest_list(text, list_schema("points", text)), "points")
    assert len(points) == len(set(points)) == 2 * (100 + 1)   # two a sentence end, and for what follows
    assert sum(map(len, points)) > len(text)


def work(judge):
    """Everything a judge is asked: EMS in three stages, and RAGChecker."""
    build(judge, "llm").evaluate(TRIPLETS, ANSWERS)
    RAGChecker(judge).check(TRIPLETS, ANSWERS)
    return judge.usage()


def test_a_dry_run_bounds_the_real_run_and_asks_nothing(tmp_path):
    with Loopback(judged) as server:
        store = Replies(tmp_path / "r.sqlite")
        planned = work(Planner(LLMJudge("m", base_url=server.url, store=store)))
        assert server.count == 0
        assert len(store) == 0
        real = work(LLMJudge("m", base_url=server.url, store=store))
    assert planned.keys() == real.keys() == {"summary", "extract", "match", "score", "claims", "entail"}
    for task in ("summary", "extract", "claims"):                 # rest on no other stage: exact
        assert (planned[task].requests, planned[task].calls) == (real[task].requests, real[task].calls)
    for task in ("match", "score", "entail"):
        assert 0 < real[task].calls <= planned[task].calls
        assert real[task].requests <= planned[task].requests
    for task in real:
        assert real[task].prompt_tokens <= planned[task].prompt_tokens
        assert real[task].completion_tokens <= planned[task].completion_tokens


def test_the_likely_numbers_are_near_and_the_bounds_above():
    usage = {}
    with Loopback(judged) as server:
        for mode in ("likely", "dry", "live"):
            judge = LLMJudge("m", base_url=server.url, store=Replies(), prices={"prompt": 1, "completion": 4})
            judge = judge if mode == "live" else Planner(judge, 1.0 if mode == "dry" else LIKELY)
            work(judge)
            usage[mode] = judge.usage()
            if mode == "dry":
                assert server.count == 0
    for task, real in usage["live"].items():
        likely, most = usage["likely"][task], usage["dry"][task]
        assert 0.6 < likely.calls / real.calls < 2       # the scripted judge writes one point a sentence
        assert likely.calls <= most.calls
        assert likely.cost <= most.cost
    shown = cost.plan_text(*(frames.judge_usage(Spent(usage[mode])) for mode in ("dry", "likely")))
    lines = {line.split()[1]: line for line in shown.splitlines()}
    assert lines["claims"].split()[3] == str(usage["live"]["claims"].calls)             # exact: one number
    assert f"{usage['likely']['match'].calls} (<= {usage['dry']['match'].calls})" in lines["match"]
    assert shown.endswith(cost.ASSUMED)


def test_answers_that_begin_alike_are_counted_apart():
    start = "Revenue rose by five percent to ten billion dollars in the quarter that ended in September. "
    triplets = [Triplet("t", "t", "How did it go?", start + "Margins fell. The board raised its dividend by a cent.")]
    answers = [Answer("t", str(n), start + f"The outlook for the next quarter is {n} percent of growth.") for n in range(3)]
    planner = Planner(LLMJudge("m", store=Replies()))
    build(planner, "llm", variant="all").evaluate(triplets, answers)
    assert planner.usage()["score"].calls == 3


class Spent:
    """What `frames.judge_usage` needs of a judge."""

    name = "m"

    def __init__(self, usage):
        self.usage = lambda: usage


def test_two_judges_of_one_name_are_summed():
    one = TaskUsage(calls=2, failures=Counter(timeout=1))
    two = TaskUsage(calls=3, failures=Counter(timeout=1))
    usage = frames.judge_usage(Spent({"match": one}), Spent({"match": two, "score": one}))
    assert {task: u["calls"] for task, u in usage["m"].items()} == {"match": 5, "score": 2}
    assert usage["m"]["match"]["failures"] == {"timeout": 2}


def test_a_dry_run_is_exact_where_the_store_has_the_stage_before(tmp_path):
    with Loopback(judged) as server:
        store = Replies(tmp_path / "r.sqlite")
        pipeline = build(LLMJudge("m", base_url=server.url, store=store), "llm")
        pipeline.align({t.id: t for t in TRIPLETS}, ANSWERS)           # stages 1 and 2 are there
        dry = Planner(LLMJudge("m", base_url=server.url, store=store))
        build(dry, "llm").evaluate(TRIPLETS, ANSWERS)
        planned = dry.usage()
        live = LLMJudge("m", base_url=server.url, store=store)
        build(live, "llm").evaluate(TRIPLETS, ANSWERS)
        done = live.usage()
        assert planned["match"].calls == planned["extract"].calls == 0
        assert planned["score"].calls == done["score"].calls > 0
        for task in done:
            assert (planned[task].requests, planned[task].stored) == (done[task].requests, done[task].stored)
        again = Planner(LLMJudge("m", base_url=server.url, store=store, prices={"prompt": 1, "completion": 1}))
        build(again, "llm").evaluate(TRIPLETS, ANSWERS)
    assert sum(u.calls for u in again.usage().values()) == 0
    assert "<=" not in cost.plan_text(frames.judge_usage(again), frames.judge_usage(again))


def test_a_dry_run_counts_what_each_call_can_take_at_most():
    judge = Planner(LLMJudge("m", prices={"prompt": 2, "cached": 1, "completion": 10}))
    judge.ask([Request("t", "word" * 10, 16), Request("t", "word" * 10, 16), Request("t", "other", 100)])
    usage = judge.usage()["t"]
    assert (usage.requests, usage.shared, usage.calls) == (3, 1, 2)
    assert usage.prompt_tokens == (PER_CALL + 10) + (PER_CALL + 2)
    assert usage.completion_tokens == 16 + 100
    assert usage.cost == pytest.approx((150 - 10 + 0) * 2 / 1e6 + 116 * 10 / 1e6)


def test_an_unknown_price_is_said_to_be_unknown():
    judge = Planner(LLMJudge("m"))
    judge.ask([Request("match", "p", 16)])
    assert judge.usage()["match"].cost is None
    assert "unknown" in cost.plan_text(frames.judge_usage(judge), frames.judge_usage(judge))
    assert cost.plan_text({}, {}) == "no judge is asked: nothing to pay"


def test_a_plan_is_the_work_done_twice_without_a_call(tmp_path):
    with Loopback(judged) as server:
        judge = LLMJudge("m", base_url=server.url, store=Replies(tmp_path / "r.sqlite"))
        shown = cost.plan(work, judge)
        assert server.count == len(judge.store) == 0
        assert judge.usage() == {}
    counted = [frames.judge_usage(planner) for planner in (Planner(judge), Planner(judge, LIKELY)) if work(planner)]
    assert shown == cost.plan_text(*counted)


def test_a_planner_of_a_refresh_takes_nothing_from_the_store():
    with Loopback("yes") as server:
        store = Replies()
        LLMJudge("m", base_url=server.url, store=store).ask(questions(3))
    for mode, stored in (("live", 3), ("replay", 3), ("refresh", 0)):
        planner = Planner(LLMJudge("m", store=store, mode=mode))
        planner.ask(questions(5))
        assert (planner.usage()["t"].stored, planner.usage()["t"].calls) == (stored, 5 - stored)


@pytest.mark.parametrize("share", [0, -1, 1.5, float("nan")])
def test_a_share_is_above_0_and_at_most_1(share):
    with pytest.raises(InputError, match="share must be above 0 and at most 1"):
        Planner(LLMJudge("m"), share)


# --- prices and the limit ---

def test_money_by_hand():
    prices = Prices.of({"prompt": 2.5, "cached": 1.25, "completion": 10})
    assert prices.cost(1_000_000, 20_000, cached=400_000) == pytest.approx(0.6 * 2.5 + 0.4 * 1.25 + 0.02 * 10)
    assert Prices.of({"prompt": 2, "completion": 8}).cached == 2
    assert Prices.of(None) is Prices.of({}) is None


@pytest.mark.parametrize("given", [
    {"prompt": 2}, *({"prompt": 2, "completion": wrong} for wrong in ("8", -1, True, float("nan"))),
    {"prompt": 2, "completion": 8, "input": 1},
])
def test_bad_prices(given):
    with pytest.raises(InputError, match="prices must be numbers of money for a million tokens"):
        LLMJudge("m", prices=given)


@pytest.mark.parametrize("settings", [{"spend_limit": 5},
                                      {"spend_limit": -1, "prices": {"prompt": 1, "completion": 1}}])
def test_bad_limits(settings):
    with pytest.raises(InputError, match="a spend limit is an amount of money above 0 and needs prices"):
        LLMJudge("m", **settings)


ONE = {"prompt": 1e6, "completion": 1e6}         # a token costs 1


def questions(n):
    return [Request("t", f"question {i}", 16) for i in range(n)]


@pytest.mark.parametrize("workers", [1, 4])
def test_the_limit_holds_to_the_cent_and_the_next_run_goes_on(tmp_path, workers):
    # A call may cost 64 + 4 prompt tokens and 16 reply tokens = 84, and does cost 2 + 1 = 3. After five calls
    # there are 100 - 5 x 3 = 85 left, room for a sixth; the 82 left after it are too few.
    with Loopback("yes") as server:
        judge = LLMJudge("m", base_url=server.url, store=Replies(tmp_path / "r.sqlite"), prices=ONE,
                         spend_limit=100, workers=workers)
        says = r"limit of 100 reached: 18 spent in 6 calls of m, the next may cost 84; .*r.sqlite: raise"
        with pytest.raises(SpendLimit, match=says) as error:
            judge.ask(questions(20))
        assert isinstance(error.value, JudgeUnavailable)
        assert server.count == 6
        assert judge.usage()["t"].cost == 18
        again = LLMJudge("m", base_url=server.url, store=judge.store, prices=ONE, spend_limit=1000)
        assert [r.text for r in again.ask(questions(20))] == ["yes"] * 20
        assert server.count == 20


def test_a_limit_that_allows_no_call_sends_none():
    with Loopback("yes") as server:
        with pytest.raises(SpendLimit, match="0 spent in 0 calls"):
            LLMJudge("m", base_url=server.url, prices=ONE, spend_limit=10).ask(questions(3))
        assert server.count == 0


def test_calls_under_way_count_at_their_largest():
    with Loopback("yes", latency=0.05) as server:
        judge = LLMJudge("m", base_url=server.url, prices=ONE, spend_limit=84 * 3, workers=16)
        with suppress(SpendLimit):
            judge.ask(questions(60))
        assert server.peak <= 3
        assert judge.usage()["t"].cost <= 84 * 3


def test_no_limit_can_be_kept_where_the_length_of_a_reply_cannot():
    with Loopback("yes", faults=refusing("max_tokens", "max_completion_tokens")) as server:
        with pytest.raises(SpendLimit, match=f"m at {server.url} takes no limit on a reply's length"):
            LLMJudge("m", base_url=server.url, prices=ONE, spend_limit=1000).ask(questions(3))
        limits = {"max_tokens", "max_completion_tokens"}
        assert not [body for body in server.bodies if not limits & body.keys()]
        assert LLMJudge("m", base_url=server.url, prices=ONE).ask(questions(1))[0].text == "yes"


def test_a_question_given_up_on_can_be_asked_again_while_the_old_call_trickles_in():
    with Loopback("yes") as server:
        LLMJudge("m", base_url=server.url).ask(questions(1))            # the first imports take their time
    with Loopback("yes", faults=[Fault(drip=0.005)]) as server:         # of some 300 bytes
        judge = LLMJudge("m", base_url=server.url, store=Replies(), timeout=0.5, prices=ONE, spend_limit=1000)
        assert judge.ask(questions(1))[0].error == "timeout"
        judge.timeout, server.latency = 60, 2
        assert judge.ask(questions(1))[0].text == "yes"
    assert judge._calls.held == []


@pytest.mark.parametrize(("usage", "prices", "money"), [
    (None, ONE, 64 + 4 + 16),                           # a server that counts nothing: charged at the most
    ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, ONE, 135),   # reasoning: in the total alone
    ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 80}},
     {"prompt": 10, "cached": 1, "completion": 100}, (20 * 10 + 80 * 1 + 10 * 100) / 1e6),
])
def test_what_a_call_costs(usage, prices, money):
    with Loopback(lambda body: {**completion("yes"), "usage": usage}) as server:
        judge = LLMJudge("m", base_url=server.url, prices=prices)
        judge.ask(questions(1))
    assert judge.usage()["t"].cost == pytest.approx(money)


def test_what_a_useless_body_counts_is_counted():
    broken = completion("1", finish="error")
    broken["usage"] = {"prompt_tokens": 60, "completion_tokens": 16}
    silent = completion("1", finish="error")
    del silent["usage"]
    with Loopback("yes", faults=[Fault(body=broken), Fault(body=silent)]) as server:
        judge = LLMJudge("m", base_url=server.url, prices=ONE)
        assert judge.ask(questions(1))[0].text == "yes"
    assert judge.usage()["t"].cost == 60 + 16 + 2 + 1                # the silent one is taken to cost nothing
    assert judge.usage()["t"].calls == 3


# --- tables ---

def test_the_table_sums_each_model_and_all():
    used = {"requests": 4, "stored": 1, "shared": 1, "calls": 3, "prompt_tokens": 100, "cached_tokens": 10,
            "completion_tokens": 20, "seconds": 2.0, "failures": {"length": 1}, "cost": 0.5}
    usage = {"a": {"match": used, "score": used}, "b": {"match": {**used, "cost": None}}}
    table = cost.table(usage).set_index(["model", "task"])
    rows = ["a match", "a score", "a all", "b match", "b all", "all all"]
    assert [" ".join(row) for row in table.index] == rows
    assert table.loc[("a", "all"), "cost"] == 1.0
    assert table.loc[("a", "all"), "unread"] == 2
    assert table.cost.isna().tolist() == [False, False, False, True, True, True]
    assert table.loc[("all", "all"), "calls"] == 3 * 3
    both = cost.merged([{"a": {"match": used}}, {"a": {"match": used}, "b": {"match": used}}])
    assert both["a"]["match"]["calls"] == 6
    assert both["a"]["match"]["failures"] == {"length": 2}
    assert both["b"]["match"] == used


# --- the commands ---

@pytest.fixture
def files(tmp_path):
    return [str(write_jsonl(tmp_path / "t.jsonl", TRIPLETS)), str(write_jsonl(tmp_path / "a.jsonl", ANSWERS)),
            "-o", str(tmp_path / "out.jsonl"), "--store", str(tmp_path / "r.sqlite"), "--judge", "m"]


def test_evaluate_dry_and_then_live_with_a_limit(files, tmp_path, capsys):
    with Loopback(judged) as server:
        asked = ["evaluate", *files, "--base-url", server.url, "--prices", "2.5,10,1.25"]
        assert main([*asked, "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert "match" in shown
        assert server.count == 0
        assert {p.name for p in tmp_path.iterdir()} == {"t.jsonl", "a.jsonl"}
        assert main([*asked, "--spend-limit", "0.01"]) == 2
        assert "spend limit of 0.01 reached" in capsys.readouterr().err
        assert not (tmp_path / "out.jsonl").exists()
        assert main([*asked, "--spend-limit", "10"]) == 0
        used = capsys.readouterr().err
        assert "completion_tokens" in used
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(ANSWERS)


def test_a_dry_run_of_a_refresh_counts_what_the_store_has(files, capsys):
    with Loopback(judged) as server:
        asked = ["evaluate", *files, "--base-url", server.url]
        assert main(asked) == 0
        before = server.count
        capsys.readouterr()
        assert main([*asked, "--mode", "refresh", "--dry-run"]) == 0
        rows = map(str.split, capsys.readouterr().out.splitlines())
        planned = {row[1]: int(row[3]) for row in rows if row[0] == "m"}
        assert server.count == before
        assert main([*asked, "--mode", "refresh"]) == 0
        rows = map(str.split, capsys.readouterr().err.splitlines())
        used = {row[1]: int(row[5]) for row in rows if row[:1] == ["m"]}
        for task in ("extract", "summary"):                # rest on no other stage: exact
            assert planned[task] == used[task] > 0


def test_a_dry_run_with_the_local_scorer_counts_no_matches(files, capsys):
    with Loopback(judged) as server:
        asked = ["evaluate", *files, "--base-url", server.url, "--scorer", "local"]
        assert main([*asked, "--dry-run"]) == 0
        planned = {row[1]: row[3] for row in map(str.split, capsys.readouterr().out.splitlines())}
        assert main(asked) == 0
        assert planned["all"] == str(server.count)
        assert "match" not in planned


def test_a_dry_run_refuses_a_scorer_that_there_is_not(files, capsys):
    assert main(["evaluate", *files, "--scorer", "rogue", "--dry-run"]) == 2
    assert "did you mean 'rouge'" in capsys.readouterr().err


@pytest.mark.parametrize("prices", ["2.5", "a,b", "1,2,3,4"])
def test_prices_that_are_none_are_refused(files, prices, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", *files, "--prices", prices])
    assert stop.value.code == 2
    assert "--prices" in capsys.readouterr().err


# --- live ---

@pytest.mark.slow
def test_the_bounds_hold_on_a_real_server(tmp_path):
    pytest.importorskip("xllamacpp", reason="the live test needs xllamacpp (pip install 'ems-kit[test]')")
    from model_server import serve, smollm2
    try:
        model = smollm2()
    except FileNotFoundError as error:
        pytest.skip(f"{error} (make setup installs it)")
    said = ("Revenue was $5 billion.", "Margin was 20%.")
    told = ("Sales came to 5 billion dollars.", "Costs fell.")
    with serve(model, slots=1, threads=1) as url:
        store, usage = Replies(tmp_path / "r.sqlite"), []
        for mode in ("dry", "live"):
            judge = LLMJudge("smollm2-135m", store=store, base_url=url, workers=2)
            judge = Planner(judge) if mode == "dry" else judge
            pipeline = build(judge, "llm")
            pipeline.extractor([said[0]])
            pipeline.matcher([(said, told)])
            pipeline.scorer([(said[0], told[0])])
            usage.append(judge.usage())
    planned, real = usage
    assert real.pop("probe").calls == 1         # the server lists the model's file: its name is tried first
    assert {task: u.calls for task, u in real.items()} == {"extract": 1, "match": 2, "score": 1}
    for task, used in real.items():
        assert used.calls == planned[task].calls
        assert planned[task].prompt_tokens / 2 < used.prompt_tokens <= planned[task].prompt_tokens
        assert 0 < used.completion_tokens <= planned[task].completion_tokens
