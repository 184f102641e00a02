"""A judge in a few lines: answers the kit's prompts by counting shared words. Deterministic and fast.

`Loopback(judged)` serves it; `python tests/loopback.py --judged` does so in a process of its own. `judgeable`
makes triplets and answers for it that are as long as real ones.
"""

from __future__ import annotations

import json
import re

from ems.types import Answer, Triplet

_WORDS = re.compile(r"[a-z]+|\d[\d.,]*")
_MENU = re.compile(r'^(\d+): (".*")$', re.MULTILINE)


def judged(body: dict) -> str:
    """The reply to one chat completion's prompt."""
    prompt = body["messages"][-1]["content"]
    if prompt.startswith("Below is an answer"):
        return '{"blocks": []}'
    if prompt.startswith(("Break the answer", "List the claims")):
        text = prompt.rpartition("<text>\n")[2].partition("\n</text>")[0]
        name = "points" if prompt.startswith("Break") else "claims"
        return json.dumps({name: sentences(text)}, ensure_ascii=False)
    if prompt.startswith("<text>"):
        text, _, rest = prompt.partition("\n</text>\n\nClaim: ")
        return "Entailment" if shared(rest.partition("\n")[0], text) > 0.6 else "Neutral"
    if prompt.startswith("Point 1: "):
        one, two = re.findall(r'^Point [12]: (".*")$', prompt, re.MULTILINE)
        return str(round(10 * shared(one, two)))
    if prompt.startswith("A reference point is to be found"):
        reference, = re.findall(r'^Reference point: (".*")$', prompt, re.MULTILINE)
        index = str(best(reference, _MENU.findall(prompt)))
        return f"The words decide.\n{index}" if "alone on the last line" in prompt else index
    if prompt.startswith("For each reference point"):
        tail = prompt.rpartition("\nExample\n")[2].partition("\n\n")[2]
        references, _, candidates = tail.partition("\nCandidate points:\n")
        menu = _MENU.findall(candidates)
        return json.dumps({"matches": [best(point, menu) for _, point in _MENU.findall(references)]})
    if prompt.startswith("Below are numbered pairs"):
        pairs = re.findall(r'^\d+: (".*")\n +(".*")$', prompt, re.MULTILINE)
        return json.dumps({"scores": [round(10 * shared(one, two)) for one, two in pairs]})
    raise AssertionError(f"a prompt that nobody here can answer: {prompt[:80]!r}")


def best(reference: str, menu: list[tuple[str, str]]) -> int:
    """Number of the point that shares most words with the reference point; -1 when none shares half."""
    likeness = {int(number): shared(reference, point) for number, point in menu}
    index = max(likeness, key=likeness.get)
    return index if likeness[index] >= 0.5 else -1


def shared(one: str, two: str) -> float:
    """Share of the words of `one` that `two` has."""
    words, others = set(_WORDS.findall(one.lower())), set(_WORDS.findall(two.lower()))
    return len(words & others) / max(1, len(words))


def sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.;])\s+", " ".join(text.split())) if s]


FACTS = ("Revenue of {c} was ${a}.{b} billion, up {b} percent from a year before.",
         "The gross margin of {c} stood at {a} percent because of a better mix of products.",
         "Management of {c} expects sales of ${a}.{b} billion in the coming quarter.",
         "Operating expenses at {c} rose by ${b}{a} million, driven by research in region {b}.",
         "{c} bought back {a}{b} million shares and paid a dividend of ${b} a share.",
         "An analyst asked about demand in market {a}; the chief executive of {c} named {b} new customers.",
         "Inventories of {c} fell to {b}{a} days, the lowest level since year {a}.",
         "{c} plans to open {a} sites in {b} countries, among them Spain and Peru.")


def judgeable(n: int, facts: int = 16) -> tuple[list[Triplet], list[Answer]]:
    """n triplets of `facts` sentences, and an answer to each without a third and with wrong figures."""
    triplets, answers = [], []
    for i in range(n):
        whole = [FACTS[k % len(FACTS)].format(c=f"Firm{i}", a=10 + k + i % 7, b=2 + k % 6)
                 for k in range(facts)]
        partial = [s if k % 5 else s.replace("1", "4") for k, s in enumerate(whole) if k % 3]
        paragraphs = ["\n\n".join(" ".join(side[k:k + 5]) for k in range(0, len(side), 5))
                      for side in (whole, partial)]
        triplets.append(Triplet(f"t{i}", f"Firm{i // 5}", f"What did Firm{i} report?", paragraphs[0]))
        answers.append(Answer(f"t{i}", "model", paragraphs[1]))
    return triplets, answers
