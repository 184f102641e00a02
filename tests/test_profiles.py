"""Profiles against notebooks: which parameters a notebook is run with."""

from pathlib import Path

import pytest
from project import PARAMETERS, project

import profiles
from ems.types import InputError

ROOT = Path(__file__).parent.parent


def test_a_value_comes_from_the_default_then_common_then_the_notebooks_block_then_the_command(
    tmp_path,
):
    root = project(tmp_path, _01_a=[PARAMETERS], _02_b=["RUN = ''\nN = 1"])
    profile = {
        "common": {"N": 2, "JUDGE.seed": 3, "ANYTHING": "x"},
        "01_a": {"N": 4, "JUDGE.mode": "live"},
    }
    one, two = profiles.parameters_of(
        root, profile, {"JUDGE.base_url": "u", "NAMES": ["n"]}
    ).values()
    assert two == {"RUN": "", "N": 2}
    assert one == {
        "RUN": "runs/lab",
        "N": 4,
        "NAMES": ["n"],
        "ANYTHING": "x",
        "JUDGE": {"model": "m", "mode": "live", "seed": 3, "base_url": "u"},
    }
    one, _ = profiles.parameters_of(root, {"common": {"JUDGE": {}}}, {}).values()
    assert one["JUDGE"] == {}  # replaced whole


@pytest.mark.parametrize(
    ("profile", "given", "words"),
    [
        ({"commn": {}}, {}, "'commn'; did you mean 'common'"),
        ({"common": {"JUGDE": {}}}, {}, "common: no parameter 'JUGDE'; did you mean 'JUDGE'"),
        ({"01_a": {"X": 1}}, {}, "01_a: no parameter 'X'; there are ANYTHING, JUDGE"),
        ({}, {"M": 5}, "-p: no parameter 'M'"),
        ({}, {"N": True}, "01_a.ipynb: N must be int, got True"),
        ({}, {"JUDGE": "gpt-4o"}, "JUDGE must be dict"),
        ({}, {"N.x": 5}, "N must be int, got {'x': 5}"),
    ],
)
def test_what_no_notebook_has_is_refused_with_the_nearest(tmp_path, profile, given, words):
    with pytest.raises(InputError) as error:
        profiles.parameters_of(project(tmp_path, _01_a=[PARAMETERS]), profile, given)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"), [("[1, 2]", "must map"), ("a: [", "is not YAML"), ("a: 1", "must map")]
)
def test_a_profile_is_a_mapping_of_mappings(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        profiles.load_profile(project(tmp_path, content), "p")


@pytest.mark.parametrize(
    "profile", [path.stem for path in sorted((ROOT / "profiles").glob("*.yaml"))]
)
def test_every_profile_fits_the_notebooks_and_repeats_no_default(profile):
    settings = profiles.load_profile(ROOT, profile)
    for path, values in profiles.parameters_of(ROOT, settings, {}).items():
        defaults = profiles.declared(path)
        assert defaults["RUN"] == "runs/lab"
        idle = [
            name
            for name, value in settings.get(path.stem, {}).items()
            if defaults.get(name) == value and settings.get("common", {}).get(name, value) == value
        ]
        assert idle == [], path.stem
        assert values.keys() == defaults.keys()


def test_all_models_that_are_not_replayed_are_asked_at_one_address_without_prices():
    priced = {"prices": {"prompt": 1, "completion": 2}, "spend_limit": 9.0}
    values = {
        "JUDGE": {"model": "m", "mode": "live", "base_url": "u", "key_env": "K", **priced},
        "WRITING": {"mode": "live", "answers": [{"model": "n"}]},
        "OTHER": {"model": "o", "mode": "replay"},
        "NONE": {"base_url": "u"},
    }
    assert profiles.ask_at("http://127.0.0.1:1/v1", values)
    place = {"base_url": "http://127.0.0.1:1/v1", "key_env": "none", "prices": {}, "spend_limit": 0}
    assert values == {
        "JUDGE": {"model": "m", "mode": "live", **place},
        "WRITING": {"mode": "live", "answers": [{"model": "n", **place}]},
        "OTHER": {"model": "o", "mode": "replay"},
        "NONE": {"base_url": "u"},
    }
    assert not profiles.ask_at("u", {"JUDGE": {}, "OTHER": {"model": "o", "mode": "replay"}})
