"""Short names of systems: the kit's own, others by a rule, and never one name for two systems."""

import pytest
from study import read_answers
from study.names import short_names


def test_the_kits_systems_have_short_names_in_the_order_of_the_answers(tmp_path):
    models = dict.fromkeys(answer.model for answer in read_answers(tmp_path))
    assert list(short_names(models).values()) == [
        "SmolLM2 135M",
        "Qwen2.5 1.5B (no call)",
        "Qwen2.5 1.5B",
        "Large LLM",
    ]


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("Mistral-7B-Instruct-v0.3", "Mistral 7B-v0.3"),
        ("llama3.2_1b_instruct", "Llama 3.2 1B"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
        ("gemma-2-9b-it", "gemma-2 9b"),
        ("Chatterbox", "Chatterbox"),
        ("-Instruct", "-Instruct"),
        ("one\x1b\nline", "one\ufffd line"),
    ],
)
def test_another_name_is_shortened_by_a_rule(model, short):
    assert short_names([model]) == {model: short}


def test_two_systems_never_share_a_name():
    assert short_names(["m-7B", "m-7B-Chat", "n"]) == {
        "m-7B": "m-7B",
        "m-7B-Chat": "m-7B-Chat",
        "n": "n",
    }
    long = [f"{'x' * 60}{middle}{'x' * 60}" for middle in "ab"]  # the same beginning and end
    assert list(short_names(long).values()) == long
