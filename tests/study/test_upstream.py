"""Pinned files: where a file comes from, and what is refused."""

import hashlib

import pytest
from doubles import refused
from study import upstream
from study.datasets import FINANCEBENCH_RESULTS, SETS

CONTENT = b'[{"x": 1}]\n' * 400
NAME = "set/data/a.json"
ADDRESS = "owner/repo/c0ffee/data/a.json"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """One pinned file and no mirror: its path in the cache, and on a code host that is a folder."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    pin = upstream.Pin("owner/repo", "c0ffee", "data/a.json", len(CONTENT), digest)
    monkeypatch.setattr(upstream, "pins", lambda: {NAME: pin})
    monkeypatch.setenv("EMS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EMS_UPSTREAM_URL", f"file://{tmp_path}/host/")
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)
    cached, host = tmp_path / "cache" / ADDRESS, tmp_path / "host" / ADDRESS
    host.parent.mkdir(parents=True)
    return cached, host


def test_a_download_is_verified_kept_and_not_repeated(places):
    cached, host = places
    host.write_bytes(CONTENT)
    assert upstream.source(NAME) == cached
    host.unlink()
    assert upstream.source(NAME) == cached
    assert cached.read_bytes() == CONTENT
    cached.write_bytes(CONTENT[:-1])  # a damaged cache is fetched again
    host.write_bytes(CONTENT)
    assert upstream.source(NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CONTENT[:100], "100 bytes were read"),
        (CONTENT + b"x", f"{len(CONTENT) + 1} bytes were read"),
        (CONTENT[:-1] + b"x", "is not the file pinned"),  # the right size, another content
        (None, "No such file or directory"),
    ],
)
def test_a_failed_download_leaves_nothing(places, content, says):
    cached, host = places
    if content is not None:
        host.write_bytes(content)
    with refused(says, "set EMS_DATA_MIRROR" if content is None else "nothing was kept"):
        upstream.source(NAME)
    assert not cached.parent.exists() or not list(cached.parent.iterdir())


def test_the_mirror_comes_first_and_a_part_of_a_file_is_named(places, tmp_path, monkeypatch):
    there = tmp_path / "mirror" / NAME
    there.parent.mkdir(parents=True)
    there.write_bytes(b"[3]")
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "mirror"))
    with pytest.warns(UserWarning, match="a.json is not the whole file of owner/repo"):
        assert upstream.pinned_rows(NAME) == [3]
    there.write_bytes(CONTENT)  # whole, and no JSON
    with refused("is not JSON", "fetch it from owner/repo"):
        upstream.pinned_rows(NAME)
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "absent"))
    with refused("absent', which is no folder"):
        upstream.source(NAME)


def test_every_pin_is_whole_and_other_names_are_refused():
    pins = upstream.pins()
    sets = {name.split("/")[0] for name in pins}
    assert sets == SETS.keys() - {"systems"}  # whose files are those of findver
    for pin in pins.values():
        assert len(pin.sha256) == 64
        assert len(pin.commit) == 40
        assert pin.size > 0
    assert len(upstream.pinned(FINANCEBENCH_RESULTS)) == 16
    with refused("other.json is not pinned in data/upstream.csv"):
        upstream.source("findver/data/other.json")
