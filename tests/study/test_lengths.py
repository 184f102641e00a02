"""Lengths of texts in words, and which systems clearly write more or less than the reference."""

from study.lengths import REFERENCE, length_findings, words_frame

from ems.types import Answer, GivenPoint, Triplet

NAMES = {"long": "Long", "same": "Same", "short": "Short"}
TRIPLETS = [Triplet(f"g{g}-Q1", f"g{g}", "q", "word " * (10 + g)) for g in range(8)]
ANSWERS = []
for _g, _triplet in enumerate(TRIPLETS):
    ANSWERS.append(Answer(_triplet.id, "short", "word " * 5))
    ANSWERS.append(Answer(_triplet.id, "same", "word " * (10 + _g + (-1) ** _g)))
    ANSWERS.append(Answer(_triplet.id, "long", "word " * 30))


def findings(triplets, answers, names=NAMES):
    return length_findings(words_frame(triplets, answers), names)


def test_a_frame_has_the_words_of_every_text():
    words = words_frame(TRIPLETS, ANSWERS)
    assert len(words) == 8 + 24
    assert list(words[words["model"] == REFERENCE]["value"]) == list(range(10, 18))
    assert set(words[words["model"] == "short"]["value"]) == {5}
    points = (GivenPoint("three words here"), GivenPoint("two more"))
    assert list(words_frame([Triplet("t", "g", "q", "", points=points)], [])["value"]) == [5]


def test_findings_count_and_name_what_is_clearly_longer_or_shorter():
    assert findings(TRIPLETS, ANSWERS) == [
        "The run has 8 questions in 8 groups and 24 answers of 3 systems. A reference has 14 words "
        "on average.",
        "Answers are clearly shorter than the references, on average: Short 8 words shorter.",
        "Answers are clearly longer than the references, on average: Long 16 words longer.",
    ]


def test_questions_without_an_answer_are_named():
    assert "Same left unanswered, which does not count as zero: 'g0-Q1'." in findings(
        TRIPLETS, [ANSWERS[0], *ANSWERS[2:]]
    )


def test_a_run_without_answers_has_its_count():
    triplets = [*TRIPLETS[:2], Triplet("long", "g1", "q", "word " * 39)]
    assert findings(triplets, [], {}) == [
        "The run has 3 questions in 2 groups and 0 answers of 0 systems. A reference has 20 words "
        "on average."
    ]
