"""BLEU, ROUGE, BERTScore, and RAGChecker against its own worked example."""

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from math import isclose, isnan, log
from pathlib import Path

import pytest
import yaml
from doubles import ScriptedJudge

from ems import data as frames
from ems.baselines import CLAIMS_PER_CALL, Claims, RAGChecker, bertscore, bleu, ragchecker_scores, rouge
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parents[1]
MIRROR = Path(os.environ.get("EMS_DATA_MIRROR") or Path(__file__).parents[2] / "shared" / "data")
EXAMPLE = MIRROR / "ragchecker" / "examples" / "checking_outputs.json"


def test_bleu_of_a_copy_is_one_and_of_nothing_is_zero():
    text = "Revenue was $5 billion in the third quarter."
    assert isclose(bleu([text], [text])[0], 1.0)
    assert bleu([text, text, ""], ["", "  ", text]) == [0.0, 0.0, 0.0]


def test_bleu_by_hand():
    # answer: a b c d e; reference: a b c d f. Precisions 4/5, 3/4, 2/3, 1/2, equal lengths: no brevity
    # penalty.
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert isclose(bleu(["a b c d f"], ["a b c d e"])[0], expected)


def test_bleu_punishes_brevity():
    # answer a b c d of reference a b c d e f: all precisions 1, brevity penalty exp(1 - 6/4).
    assert isclose(log(bleu(["a b c d e f"], ["a b c d"])[0]), 1 - 6 / 4)


def test_rouge_has_the_values_of_rouge_score():
    from rouge_score.rouge_scorer import RougeScorer

    kinds, words = ["rouge1", "rouge2", "rougeL"], "net sales rose 6% to $94.9 billion, services, a record; the the".split()
    texts = [" ".join(random.Random(n).choices(words, k=n)) for n in range(0, 60, 3)] + ["", "€ — ", "Äpfel"]
    official, pairs = RougeScorer(kinds, use_stemmer=True), [(r, a) for r in texts for a in texts]
    ours = rouge([r for r, _ in pairs], [a for _, a in pairs])
    for i, (reference, answer) in enumerate(pairs):
        theirs = official.score(reference, answer)
        for kind in kinds:
            assert ours[kind][i] == tuple(theirs[kind])


def test_rouge_by_hand():
    scores = rouge(["the cat sat on the mat"], ["the cat lay on a mat"])
    assert scores["rouge1"][0] == (4 / 6, 4 / 6, pytest.approx(4 / 6))          # the, cat, on, mat
    assert scores["rouge2"][0] == (1 / 5, 1 / 5, pytest.approx(1 / 5))          # the cat
    assert scores["rougeL"][0] == (4 / 6, 4 / 6, pytest.approx(4 / 6))          # the cat .. on .. mat


def claims(own, ref, a2r, r2a):
    return Claims("t", "m", own, ref, a2r, r2a)


def test_ragchecker_arithmetic_by_hand():
    got = ragchecker_scores(
        claims(
            ("a", "b", "c", "d"),
            ("x", "y"),
            ("Entailment", "Neutral", "Contradiction", "Entailment"),
            ("Entailment", "Neutral"),
        )
    )
    assert got == (2 / 4, 1 / 2, 0.5)


def test_a_label_that_cannot_be_read_counts_on_neither_side():
    c = claims(("a", "b"), ("x", "y"), ("Entailment", None), ("Entailment", "Neutral"))
    assert ragchecker_scores(c)[0] == 1 / 1
    assert (c.units, c.unscored) == (4, 1)


def test_claims_that_cannot_be_read_are_nan_not_zero():
    c = claims(None, ("x",), (), ("Neutral",))
    assert all(isnan(v) for v in ragchecker_scores(c))
    assert (c.units, c.unscored) == (2, 2)


def test_an_answer_without_claims_is_zero_and_a_reference_without_claims_is_nan():
    assert ragchecker_scores(claims((), ("x",), (), ("Neutral",))) == (0.0, 0.0, 0.0)
    # The judge lists no claim and yet finds one of two entailed by the text: 1 / 2, as upstream has it.
    assert ragchecker_scores(claims((), ("x", "y"), (), ("Entailment", "Neutral"))) == (0.0, 1 / 2, 0.0)
    assert all(isnan(v) for v in ragchecker_scores(claims(("a",), (), ("Neutral",), ())))


def test_an_unscored_answer_has_no_share_of_a_pooled_value():
    lost = claims(None, ("x", "y"), (), ("Entailment", "Neutral"))        # its own claims could not be read
    read = claims(("a",), ("x", "y"), ("Neutral",), ("Entailment", "Entailment"))
    values = frames.claims_frame([lost, replace(read, model="n")], "s", [Triplet("t", "g", "q", "r")])
    recall = values[values.part == "Recall"].set_index("model")
    assert isnan(recall.num["m"])
    assert isnan(recall.den["m"])
    assert (recall.num["n"], recall.den["n"]) == (2, 2)


def test_ragchecker_s_worked_example_to_the_printed_digit():
    if not EXAMPLE.exists():
        pytest.skip("RAGChecker's worked example is not here: set EMS_DATA_MIRROR to a folder that has it")
    printed = json.loads(EXAMPLE.read_text())
    scored = []
    for result in printed["results"]:
        texts = {side: tuple(" ".join(c) if isinstance(c, list) else c for c in result[side])
                 for side in ("response_claims", "gt_answer_claims")}
        own = Claims(result["query_id"], "m", *texts.values(), *(tuple(result[k]) for k in ("answer2response", "response2answer")))
        scored.append(ragchecker_scores(own))
        precision, recall, f1 = scored[-1]
        assert (precision, recall, f1) == pytest.approx([result["metrics"][k] for k in ("precision", "recall", "f1")], abs=0)
    means = [round(100 * sum(s[i] for s in scored) / len(scored), 1) for i in range(3)]
    assert means == [printed["metrics"]["overall"][k] for k in ("precision", "recall", "f1")]


TRIPLET = Triplet("t", "g", "How did it go?", "Revenue was $5 billion.")


def judged(request):
    if request.task == "claims":
        own = ["Revenue was $5 billion."] if "was $5" in request.prompt[-200:] else ["Costs fell.", "Up."]
        return json.dumps({"claims": own})
    if "Claim: " in request.prompt:
        return "Entailment" if "Revenue" in request.prompt.split("Claim: ")[1] else "Label: neutral"
    claims = re.findall(r'^\d+: (".*")$', request.prompt, re.MULTILINE)
    return json.dumps({"labels": ["Entailment" if "Revenue" in claim else "neutral" for claim in claims]})


def test_both_sides_are_checked_against_each_other():
    judge = ScriptedJudge(judged)
    got = RAGChecker(judge, check="single").check([TRIPLET], [Answer("t", "m", "Costs fell. Things went up.")])[0]
    assert got.response_claims == ("Costs fell.", "Up.")
    assert got.answer2response == ("Neutral", "Neutral")
    assert got.response2answer == ("Entailment",)
    against = {r.prompt.split("Claim: ")[1].splitlines()[0]: "went up" in r.prompt for r in judge.requests if r.task == "entail"}
    assert against == {'"Costs fell."': False, '"Up."': False, '"Revenue was $5 billion."': True}


def test_claims_are_checked_together_and_each_label_is_read_for_itself():
    judge = ScriptedJudge(judged)
    got = RAGChecker(judge).check([TRIPLET], [Answer("t", "m", "Costs fell. Things went up.")])[0]
    assert got.answer2response == ("Neutral", "Neutral")
    assert got.response2answer == ("Entailment",)
    assert [r.task for r in judge.requests].count("entail") == 2          # one a side, not one a claim


@pytest.mark.parametrize(("reply", "labels"), [
    ('{"labels": ["Entailment", "Contradiction", "Neutral"]}', ("Entailment", "Contradiction", "Neutral")),
    ('["neutral", "Maybe", "Entailment"]', ("Neutral", None, "Entailment")),      # one lost, the others kept
    # Whose is missing is not known.
    ('{"labels": ["Entailment", "Neutral"]}', (None, None, None)),
    ('{"labels": [1, null, "Neutral"]}', (None, None, "Neutral")),
    ("Entailment", (None, None, None)), ('["Neutral"] ["Neutral", "Neutral", "Neutral"]', (None, None, None)),
])
def test_one_label_a_claim_is_read_from_a_joint_reply(reply, labels):
    claims = {"claims": ["a", "b", "c"]}
    judge = ScriptedJudge(lambda r: (json.dumps(claims) if "Costs" in r.prompt[-200:] else '{"claims": []}')
                          if r.task == "claims" else reply)
    checker = RAGChecker(judge)
    got = checker.check([TRIPLET], [Answer("t", "m", "Costs fell.")])[0]
    assert got.answer2response == labels
    assert got.unscored == labels.count(None)
    assert checker.unread["entail: unreadable"] == labels.count(None)


def test_many_claims_are_checked_in_parts_and_a_lost_reply_loses_its_part_alone():
    many = [f"Claim {i}." for i in range(CLAIMS_PER_CALL + 3)]
    calls = iter(["no list", json.dumps({"labels": ["Neutral"] * 3})])
    judge = ScriptedJudge(lambda r: next(calls) if r.task == "entail" else
                          json.dumps({"claims": many if "Costs" in r.prompt[-200:] else []}))
    got = RAGChecker(judge).check([TRIPLET], [Answer("t", "m", "Costs fell.")])[0]
    assert got.answer2response == (None,) * CLAIMS_PER_CALL + ("Neutral",) * 3


def test_an_unknown_way_to_check_and_an_unknown_triplet_are_refused():
    with pytest.raises(InputError, match="joint, single, got 'both'"):
        RAGChecker(ScriptedJudge(), check="both")
    with pytest.raises(InputError, match="'x'"):
        RAGChecker(ScriptedJudge()).check([TRIPLET], [Answer("x", "m", "a")])
    with pytest.raises(InputError, match="triplet ids must be unique"):
        RAGChecker(ScriptedJudge()).check([TRIPLET, TRIPLET], [])


def test_an_empty_answer_has_no_claims_and_costs_no_call():
    judge = ScriptedJudge(judged)
    got = RAGChecker(judge).check([TRIPLET], [Answer("t", "m", "")])[0]
    assert got.response_claims == ()
    assert got.response2answer == ("Neutral",)
    assert [r.task for r in judge.requests] == ["claims"]
    assert ragchecker_scores(got) == (0.0, 0.0, 0.0)


def test_an_unreadable_list_of_claims_is_unscored():
    checker = RAGChecker(ScriptedJudge(lambda r: "I would rather not." if r.task == "claims" else "Neutral"))
    got = checker.check([TRIPLET], [Answer("t", "m", "Costs fell.")])[0]
    assert got.response_claims is None
    assert checker.unread["claims: unreadable"] == 2


# --- BERTScore and encoders ---

@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("bert_score", reason="BERTScore needs pip install 'ems-kit[encoder]'")
    from ems.local.encoder import Encoder

    try:
        return Encoder("all-MiniLM-L6-v2")
    except InputError as error:
        pytest.skip(str(error))


def test_bertscore_of_a_copy_is_one_and_orders_likeness(encoder):
    reference = "Cloud revenue grew 35% to $11.4 billion."
    same, near, far = bertscore([reference] * 3, [reference, "Revenue from cloud rose by 35%.", "The weather is nice."], encoder)
    assert isclose(same, 1.0, abs_tol=1e-5)
    assert same > near > far


def test_bertscore_of_nothing_is_zero(encoder):
    assert bertscore(["a b c", "  "], ["", "a"], encoder) == [0.0, 0.0]


def test_bertscore_in_small_portions_is_the_same(encoder, monkeypatch):
    import ems.local.encoder

    references = ["Revenue rose 5%.", "Costs fell in the quarter.", "Revenue rose 5%.", "  "]
    answers = ["Sales grew.", "Costs fell.", "Costs fell.", "Nothing."]
    whole = encoder.bertscore(references, answers)
    monkeypatch.setattr(ems.local.encoder, "TOKENS_HELD", 1)             # each pair a portion of its own
    small = encoder.bertscore(references, answers)
    assert all(a == pytest.approx(b, abs=2e-6) for a, b in zip(whole, small, strict=True))
    assert small[2][0] != small[2][2]
    assert small[2][3] == 0


def test_two_batches_at_once_give_the_same_values(encoder, monkeypatch):
    import torch

    import ems.local.encoder

    monkeypatch.setattr(ems.local.encoder, "BATCH_TOKENS", 64)
    threads, asked = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        texts = [f"Revenue of unit {i} rose {i % 7}%" + ", as costs fell" * (i % 5) for i in range(40)]
        found = []
        for idle in (False, True):
            monkeypatch.setattr(ems.local.encoder, "_core_is_idle", lambda idle=idle: asked.append(idle) or idle)
            found.append(encoder.bertscore(texts[1:], texts[:-1]))
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]
    assert len(set(found[0][2])) > 30
    assert asked.count(False) >= 10
    assert asked.count(True) == (asked.count(False) + 1) // 2        # rounds of two batches


def test_whether_a_core_is_idle_is_said_everywhere(monkeypatch):
    import ems.local.encoder

    for text, cores, idle in (("0.1 0.2 0.3 1/81 99", 2, True), ("0.1 0.2 0.3 2/81 99", 2, False), ("", 2, False),
                              ("0.1 0.2 0.3 1/81 99", 1, False)):
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert ems.local.encoder._core_is_idle() == idle


def test_bertscore_is_that_of_its_authors_for_each_pair_alone(encoder):
    references = ["Cloud revenue grew 35% to $11.4 billion, as demand was strong.", "Costs fell.", "Costs fell."]
    answers = ["Revenue from cloud rose by 35%.", "The quarter's costs were lower than a year ago.", " Costs fell. "]
    official = [encoder._scorer.score([a], [r]) for r, a in zip(references, answers, strict=True)]
    columns = zip(*[[column.item() for column in of_pair] for of_pair in official], strict=True)
    for ours, theirs in zip(encoder.bertscore(references, answers), columns, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6)


def test_portions_hold_every_pair_once_and_no_more_tokens_than_said(monkeypatch):
    import ems.local.encoder

    monkeypatch.setattr(ems.local.encoder, "TOKENS_HELD", 600)
    pairs = {0: ("b", "x"), 2: ("a", "y"), 5: ("b", "y"), 7: ("long", "z")}
    lengths = {"a": 100, "b": 300, "x": 200, "y": 200, "z": 10, "long": 512}
    portions = list(ems.local.encoder._portions(pairs, lengths))
    # By reference: a and y 300; b with x would be 800. b, x, y are 700 too many. long and z are 522.
    assert portions == [[2], [0], [5], [7]]
    assert list(ems.local.encoder._portions({i: p for i, p in pairs.items() if p[1] != "x"}, lengths)) == [[2, 5], [7]]


@pytest.mark.slow
def test_bertscore_is_the_same_to_the_last_digit_with_other_threads_and_instructions(encoder):
    references = yaml.safe_load((ROOT / "data" / "q3-2024" / "references" / "AAPL.yaml").read_text(encoding="utf-8"))
    texts = list(references.values())
    code = ("import json, sys\nfrom ems.local.encoder import Encoder\n"
            "print(json.dumps(Encoder('all-MiniLM-L6-v2').bertscore(*json.load(sys.stdin))))")
    plain = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "ATEN_CPU_CAPABILITY": "default",
             "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps([texts[:-1], texts[1:]]), text=True,
                          capture_output=True, check=True, env={**os.environ, **plain})
    assert json.loads(done.stdout) == [list(column) for column in encoder.bertscore(texts[:-1], texts[1:])]


@pytest.mark.slow
def test_texts_beyond_512_tokens_are_counted(encoder):
    before = encoder.truncated
    bertscore(["short text", "short text"], ["word " * 600, "word"], encoder)
    assert encoder.truncated == before + 1


@pytest.mark.slow
def test_a_tokenizer_that_names_no_limit_is_cut_at_512_too(encoder, tmp_path):
    from ems.local.encoder import Encoder

    # The same model, its tokenizer without model_max_length.
    for file in Path(encoder._source).iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "model_max_length"}))
    if (tmp_path / "tokenizer.json").exists():                  # it may hold a limit of its own
        whole = json.loads((tmp_path / "tokenizer.json").read_text())
        (tmp_path / "tokenizer.json").unlink()
        (tmp_path / "tokenizer.json").write_text(json.dumps({**whole, "truncation": None}))
    endless = Encoder(str(tmp_path), layers=6)
    texts = ["word " * 600], ["a word or two"]
    assert bertscore(*texts, endless) == bertscore(*texts, encoder)
    assert endless.truncated == 1


def test_embeddings_keep_order_and_have_unit_length(encoder):
    import numpy as np

    texts = ["Revenue rose.", "A much longer sentence about the weather in the mountains.", "Sales went up."]
    vectors = encoder.embed(texts)
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1]
    assert np.allclose(encoder.embed(texts[::-1])[::-1], vectors, atol=1e-5)


def test_wrong_weights_are_refused(tmp_path, monkeypatch):
    import ems.local.encoder

    package = tmp_path / "fake_model" / "model"
    package.mkdir(parents=True)
    (tmp_path / "fake_model" / "__init__.py").write_text("")
    (package / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ems.local.encoder.PACKAGED, "fake", ("fake_model", "model", 6, "0" * 64))
    with pytest.raises(InputError, match="has SHA-256"):
        ems.local.encoder.Encoder("fake")


@pytest.mark.parametrize(("name", "words"), [("no/such-model", "layers=N"), ("absent", "pip install absent-package")])
def test_an_encoder_that_cannot_be_had_says_what_to_do(name, words, monkeypatch):
    import ems.local.encoder

    monkeypatch.setitem(ems.local.encoder.PACKAGED, "absent", ("absent_package", "model", 6, "0" * 64))
    with pytest.raises(InputError, match=words):
        ems.local.encoder.Encoder(name)
