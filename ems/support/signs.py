"""Which way a sentence points: negated or not, rising or falling. Read from word lists alone."""

from __future__ import annotations

import hashlib
import re

_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot|lack(?:s|ed|ing)?|fail(?:s|ed"
                       r"|ure)?|unable|\w+n['’]t|refut\w+|incorrect\w*|inaccurate|untrue|false)\b",
                       re.IGNORECASE)
_FALL = re.compile(r"\b(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower\w*|reduc\w+|weak\w*"
                   r"|shr[aiu]nk\w*|slow(?:ed|ing|er|s)?|worse\w*|deteriorat\w+|contract(?:ed|ing|ion)"
                   r"|headwinds?|less|fewer|below)\b", re.IGNORECASE)
_RISE = re.compile(r"\b(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain\w*|higher"
                   r"|rais\w+|climb\w*|improv\w+|expand\w*|expansion|strong\w*|strength\w*|accelerat\w+"
                   r"|jump\w*|surg\w+|tailwinds?|above)\b", re.IGNORECASE)
# Changes with every word list above.
SIGNS = hashlib.sha256("\n".join(p.pattern for p in (_NEGATION, _FALL, _RISE)).encode()).hexdigest()[:8]


def point_signs(text: str) -> tuple[bool, int]:
    """Whether a text has an odd number of negations, and its trend: -1 falling, +1 rising, 0 none or both."""
    return len(_NEGATION.findall(text)) % 2 == 1, bool(_RISE.search(text)) - bool(_FALL.search(text))
