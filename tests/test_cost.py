"""Cost before, during and after: bounds, prices, the spend limit, tables."""

import math
from collections import Counter

import pytest
from doubles import ask, judge_of, refused, texts
from hypothesis import example, given
from hypothesis import strategies as st
from loopback import Fault, Loopback, completion

from ems.judge import Request, cost
from ems.judge.client import JudgeUnavailable, LLMJudge
from ems.judge.cost import (
    Usage,
    checked_prices,
    money,
    plan_text,
    text_tokens_at_most,
    together,
    tokens_at_most,
    usage_table,
)
from ems.judge.store import Replies

ONE = {"prompt": 1e6, "completion": 1e6}  # a token costs 1


# --- bounds ---


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("abcdefgh", 2),
        ("four", 1),
        ("12", 3),  # 2 x 1.3
        ("a, b", 2),  # 3 letters and blanks / 4 + 1 sign
        ("ü", 3),
        ("sales of 10%", 6),  # 9 / 4 + 2 x 1.3 + 1
    ],
)
def test_tokens_by_hand(text, tokens):
    assert text_tokens_at_most(text) == tokens


@given(st.text(), st.text())
@example("üüüüü", "11üü")  # 11 and 7 tokens; a sum of fractions gave 19
def test_the_bound_grows_with_the_text(one, two):
    assert (
        max(map(text_tokens_at_most, (one, two)))
        <= text_tokens_at_most(one + two)
        <= text_tokens_at_most(one) + text_tokens_at_most(two)
    )


def test_a_call_takes_at_most_its_prompt_its_schema_and_its_limit():
    assert tokens_at_most(Request("t", "word" * 10, 16)) == (cost.TEMPLATE_TOKENS + 10, 16)
    assert tokens_at_most(Request("t", "word" * 10, 16, {"a": 1}))[0] > cost.TEMPLATE_TOKENS + 10


# --- prices and the limit ---


def test_money_by_hand():
    prices = checked_prices({"prompt": 2.5, "cached": 1.25, "completion": 10})
    assert money(prices, 1_000_000, 20_000, cached=400_000) == pytest.approx(
        0.6 * 2.5 + 0.4 * 1.25 + 0.02 * 10
    )
    assert checked_prices({"prompt": 2, "completion": 8})["cached"] == 2
    assert checked_prices(None) is checked_prices({}) is None


@pytest.mark.parametrize(
    "prices",
    [
        {"prompt": 2},
        *({"prompt": 2, "completion": wrong} for wrong in ("8", -1, True, math.nan)),
        {"prompt": 2, "completion": 8, "input": 1},
        "2.5,10",
    ],
)
def test_bad_prices(prices):
    with refused("prices must be numbers of money for a million tokens"):
        LLMJudge("m", prices=prices)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_limit_holds_to_the_cent_and_the_next_run_goes_on(tmp_path, workers):
    # A call may cost 64 + 4 prompt tokens and 16 reply tokens = 84, and does cost 2 + 1 = 3. After
    # five calls there are 100 - 5 x 3 = 85 left, room for a sixth; the 82 after it are too few.
    with Loopback("yes") as server:
        judge = judge_of(
            server,
            store=Replies(tmp_path / "r.sqlite"),
            prices=ONE,
            spend_limit=100,
            workers=workers,
        )
        with pytest.raises(
            JudgeUnavailable, match="limit of 100 reached: 18 spent, .* 84; 6 replies"
        ):
            judge.ask(ask(20, "t"))
        assert server.count == 6
        assert judge.usage()["t"].cost == 18
        again = judge_of(server, store=judge.store, prices=ONE, spend_limit=1000)
        assert texts(again.ask(ask(20, "t"))) == ["yes"] * 20
        assert server.count == 20


def test_calls_under_way_count_at_their_largest():
    with Loopback("yes", latency=0.05) as server:
        judge = judge_of(server, prices=ONE, spend_limit=84 * 3, workers=16)
        with pytest.raises(JudgeUnavailable):
            judge.ask(ask(90, "t"))
        assert server.peak <= 3
        assert 84 * 2 <= judge.usage()["t"].cost <= 84 * 3


@pytest.mark.parametrize(
    ("usage", "prices", "charged"),
    [
        (None, ONE, 64 + 4 + 16),  # a server that counts nothing: charged at the most
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, ONE, 135),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 80},
            },
            {"prompt": 10, "cached": 1, "completion": 100},
            (20 * 10 + 80 * 1 + 10 * 100) / 1e6,
        ),
    ],
)
def test_what_a_call_costs(usage, prices, charged):
    with Loopback(lambda body: {**completion("yes"), "usage": usage}) as server:
        judge = judge_of(server, prices=prices)
        judge.ask(ask(1, "t"))
    assert judge.usage()["t"].cost == pytest.approx(charged)


def test_what_a_useless_body_counts_is_counted():
    broken = {
        **completion("1", finish="error"),
        "usage": {"prompt_tokens": 60, "completion_tokens": 16},
    }
    with Loopback("yes", faults=[Fault(body=broken)]) as server:
        judge = judge_of(server, prices=ONE)
        assert judge.ask(ask(1, "t"))[0].text == "yes"
    assert (judge.usage()["t"].calls, judge.usage()["t"].cost) == (2, 60 + 16 + 2 + 1)


# --- tables ---


def used(cost=None):
    return Usage(
        requests=4,
        stored=1,
        calls=3,
        prompt_tokens=100,
        cached_tokens=10,
        completion_tokens=20,
        seconds=2.0,
        failures=Counter(length=1),
        cost=cost,
    )


def test_the_table_sums_each_model_and_all():
    table = usage_table(
        {"a": {"match": used(0.5), "score": used(0.5)}, "b": {"match": used()}}
    ).set_index(["model", "task"])
    assert [" ".join(row) for row in table.index] == [
        "a match",
        "a score",
        "b match",
        "a all",
        "b all",
        "all all",
    ]
    assert table.loc[("a", "all"), ["cost", "failures"]].tolist() == [1.0, 2]
    assert table["cost"].isna().tolist() == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]  # b's prices are not known
    assert table["calls"].tolist() == [3, 3, 3, 2 * 3, 3, 3 * 3]
    assert usage_table({"a": {}, "b": {}}).empty


def test_a_plan_tells_unknown_prices_from_nothing_to_pay():
    first, header, line, last = plan_text({"a": {"match": used(1234.5)}}).splitlines()
    assert first == (
        "At most 3 calls, 100 prompt tokens and 20 completion tokens; money: 1,234.50."
    )
    assert line.split() == ["a", "match", "1", "3", "100", "20", "1,234.50"]
    assert (len(line), "At most" in last) == (len(header), True)
    unknown = plan_text({"a": {"match": used()}}).splitlines()
    assert (unknown[0][-14:], unknown[2].split()[-1]) == ("money unknown.", "unknown")
    assert unknown[-1].endswith("Money needs prices: --prices, or a profile.")
    stored = plan_text({"a": {"match": Usage(requests=3, stored=3)}}).splitlines()
    assert stored[0].startswith("At most 0 calls")
    assert stored[2].endswith("0.00")
    for other, total in (
        (used(1000), "money: 2,234.50."),
        (used(), "money unknown."),
        (Usage(requests=3, stored=3), "money: 1,234.50."),
    ):
        first = plan_text({"a": {"match": used(1234.5)}, "b": {"match": other}}).splitlines()[0]
        assert total in first


def test_a_plan_begins_with_the_total_and_names_the_largest_part():
    match = Usage(calls=328, cost=300.0)
    tasks = {"match": match, "score": Usage(calls=125, cost=100.0)}
    first, _, *lines = plan_text({"a": tasks, "b": {"answer": Usage(calls=900)}}).splitlines()
    # The prices of b are not known, so that its calls are what can be compared.
    assert first.endswith("money unknown. The largest part is answer by b: 67% of the calls.")
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["a", "match"],
        ["a", "score"],
        ["b", "answer"],
    ]
    first = plan_text({"a": tasks}).splitlines()[0]
    assert first.endswith("money: 400.00. The largest part is match by a: 75% of the money.")


def test_usages_of_one_model_and_task_are_added():
    usages = [("a", {"match": used(1.5)}), ("b", {}), ("a", {"match": used(1.0), "score": used()})]
    summed = together(usages)
    assert list(summed) == ["a", "b"]
    match = summed["a"]["match"]
    assert (match.calls, match.cost, match.failures) == (6, 2.5, Counter(length=2))
    assert (used() + used(1.0)).cost is None  # the price of some calls is not known
    assert (Usage(stored=3) + used(1.0)).cost == 1.0
