"""What the tests of the command line share; conftest.py has their commands."""

import json

from ems.cli import main

REFERENCE = "Revenue was $5 billion, up 10%. Gross margin was 46%. The dividend is $0.25 per share."
ANSWER = "Revenue rose 10% to $5 billion. The gross margin came to 46%."
# Characters that move the cursor, set a colour or a title, or turn the direction of a text.
HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202egnihton\x9b2J"


def judge_options(server, tmp_path, *options):
    """The options of a judge behind a loopback server."""
    store = str(tmp_path / "s.sqlite")
    return ["--judge", "m", "--base-url", server.url, "--store", store, *options]


def read_results(tmp_path):
    """The lines that `evaluate_command` has written."""
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def check_refused(command, capsys, words):
    """The command must end with status 2 and one line on stderr with these words; returns it."""
    assert main(command) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert words in message
    return message


def is_harmless(text):
    return not any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\x9b"))
