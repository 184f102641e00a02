"""What holds of every page that the kit writes."""

import base64
import hashlib
import re


def assert_runs_only_its_own(page):
    """The policy allows the page's own script and style, and the page loads nothing else."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts.pop("default-src") == "'none'"
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        source = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert parts.pop(directive) == f"'sha256-{digest}'"
    assert not parts
    assert not re.search(r"<[^>]*\s(on\w+|src|href|style)=", page)
