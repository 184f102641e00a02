"""Two sets of results held against each other, joined by id and text, and read line by line."""

import math
import tracemalloc
from dataclasses import replace

import pytest
from doubles import refused

import ems
from ems.analysis.compare import compare, text
from ems.baselines import Claims
from ems.io import write_jsonl
from ems.results import CoverageResult, EMSResult, ScoreResult

SIGNED = {"signature": {"score": "llm:kit"}}


def many(model, gain=0.0, n=8):
    """An answer to each of n questions: one matched point of score 0.2 and one of 0.4, each plus the gain."""
    return [
        EMSResult(
            f"t{i}",
            model,
            ("a", "b"),
            ("x", "y"),
            (0, 1),
            (0.2 + gain, 0.4 + gain),
            0.3 + gain,
            0.3 + gain,
            0.3 + gain,
            **SIGNED,
        )
        for i in range(n)
    ]


def f1(found):
    return found["parts"].set_index("part").loc["F1"]


def saved(path, results, metric="EMS(LLM)"):
    return write_jsonl(path, [{"metric": metric, **r.to_dict()} for r in results])


def test_a_known_difference_comes_out_with_its_exact_p():
    found = compare(many("m"), many("m", 0.5))
    row = f1(found)
    assert (row["a"], row["b"], row["difference"]) == pytest.approx((0.3, 0.8, 0.5))
    assert row["p"] == row["p_holm"] == 2 / 2**8  # all eight signs alike, and their mirror image
    assert row["clear"]
    assert (row["n"], row["clusters"], row["only_a"], row["only_b"], row["unscored"]) == (
        8,
        8,
        0,
        0,
        0,
    )
    assert list(found["answers"]["change"]) == pytest.approx([0.5] * 8)


def test_groups_in_the_results_are_what_intervals_are_over():
    sides = [
        [replace(r, group="AB"[i % 2]) for i, r in enumerate(many("m", gain))] for gain in (0, 0.5)
    ]
    assert (f1(compare(*sides))["clusters"], f1(compare(*sides))["p"]) == (2, 2 / 2**2)
    assert f1(compare(*sides, cluster="triplet_id"))["clusters"] == 8


def test_results_are_joined_by_id_whatever_their_order_and_an_unscored_one_is_no_zero():
    a, b = many("m"), [replace(r, f1=0.3 + i / 100) for i, r in enumerate(many("m"))]
    b[0] = replace(
        b[0], recall=math.nan, precision=math.nan, f1=math.nan, score=(None, None), unscored=2
    )
    straight, turned = compare(a, b), compare(a, b[::-1])
    for name in ("parts", "answers"):
        assert straight[name].equals(turned[name])
    assert list(straight["answers"]["triplet_id"]) == [
        f"t{i}" for i in range(7, 0, -1)
    ]  # the largest change first
    row = f1(straight)
    assert (row["n"], row["unscored"], row["difference"]) == (7, 1, pytest.approx(0.04))


def test_several_models_are_joined_by_name_and_one_of_a_with_every_model_of_b():
    assert set(compare(many("m") + many("n"), many("m", 0.1) + many("k"))["parts"]["model"]) == {
        "m"
    }
    found = compare(many("small")[:7], [*many("large", 0.5)[1:], *many("small", 0.1)])
    rows = found["parts"][found["parts"]["part"] == "F1"].set_index("model")
    assert list(rows.index) == ["large", "small"]
    assert list(rows["difference"]) == pytest.approx([0.5, 0.1])
    assert list(zip(rows["n"], rows["only_a"], rows["only_b"], strict=True)) == [
        (6, 1, 1),
        (7, 0, 1),
    ]
    assert list(rows["p_holm"]) == [max(2 / 2**6, 2 * 2 / 2**7), 2 * 2 / 2**7]  # over both models


def test_every_kind_of_result_can_be_compared():
    for kind in (
        lambda v: ScoreResult("t", "m", v, signature={"judge": "j"}),
        lambda v: CoverageResult("t", "m", ("a",), ("x",), (v,), (v,), recall=v, precision=v, f1=v),
        lambda v: Claims("t", "m", ("x",), ("a",), ("Neutral",), ("Neutral",), v, v, v),
    ):
        found = compare([kind(0.25)], [kind(0.75)])
        assert found["answers"]["change"].tolist() == [0.5]


def test_files_of_several_metrics_are_compared_by_metric(tmp_path):
    rows = [{"metric": name, **r.to_dict()} for name in ("one", "two") for r in many("m")]
    a, b = write_jsonl(tmp_path / "a", rows), saved(tmp_path / "b", many("m", 0.1), "two")
    found = compare(a, b)
    assert set(found["parts"]["metric"]) == {"two"}
    for metric in ("one", "twoo"):
        with refused(f"nothing to compare: A and B need {metric}"):
            compare(a, b, metric=metric)


def test_the_models_of_one_set_are_held_against_each_other(tmp_path):
    systems = [*many("x-7b", 0.5), *many("x-1b")[1:]]  # t0 has no answer of x-1b
    found = compare(saved(tmp_path / "a", systems))
    assert found["parts"].equals(ems.paired_table(ems.to_frame(systems)))
    assert list(found) == ["parts"]
    assert text(found).startswith("Differences are a less b: above 0, a is higher.\n")
    for metric, has in (("nonsense", 0), (None, 1)):
        with refused(
            f"nothing to compare: A alone needs two models with a metric in common, and has {has}"
        ):
            compare(many("m"), metric=metric)


@pytest.mark.parametrize(
    "other", [{"triplet_id": "u"}, {"signature": {"score": "rouge:l"}}]
)  # a question, a metric
def test_nothing_to_compare_says_what_is_needed(other):
    with refused("nothing to compare: A and B need a metric and triplets"):
        compare(many("m"), [replace(many("m")[0], **other)])


def test_the_text_names_what_changed_and_cannot_steer_the_terminal():
    shown = text(compare([*many("m\x1b[31m"), *many("n")], many("m\x1b[31m", 0.25)), top=1)
    assert "\x1b" not in shown
    assert shown.startswith("Differences are B less A: above 0, B is higher.\n")
    assert "t0 0.300 0.550   0.250" in shown
    assert "t1 0.300 0.550" not in shown  # one answer is asked for


@pytest.mark.slow
def test_points_of_many_answers_are_never_all_held(tmp_path):
    """Two files of 1,000 answers of 9 kB: what is held of an answer is a fraction of that."""

    def stream(gain):
        for i in range(1000):
            points = tuple(f"point {i} {j} " + "x" * 120 for j in range(30))
            yield EMSResult(
                f"t{i}",
                "m",
                points,
                points,
                tuple(range(30)),
                (0.5 + gain,) * 30,
                0.5,
                0.5,
                0.5 + gain,
                group=f"g{i % 40}",
                **SIGNED,
            )

    a, b = (saved(tmp_path / str(gain), stream(gain)) for gain in (0, 0.1))
    compare(a, b)  # loads what is loaded once
    tracemalloc.start()
    found = compare(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f1(found)["n"] == 1000
    assert peak < 0.6 * (a.stat().st_size + b.stat().st_size)
