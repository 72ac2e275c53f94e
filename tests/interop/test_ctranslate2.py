"""What CTranslate2 makes of our folders, beside what we make of the same weights."""

import json
from itertools import product

import ctranslate2
import numpy as np
import pytest
import torch
from tests.interop.conftest import (
    CHANCE_SOURCES,
    CHANCE_TARGETS,
    in_vocabulary,
    our_logits_of,
)

from headwise.decoding.settings import DecodingSettings, paper
from headwise.decoding.warning_settings import WarningSettings
from headwise.errors import SettingsError, UsageError
from headwise.interop.ctranslate2 import (
    write_ctranslate2,
)
from headwise.interop.unsupported_models import QUANTIZATIONS
from headwise.metrics.registry import measure
from headwise.model.feed_forward import ACTIVATIONS
from headwise.storage import verify
from headwise.text.vocabulary import END, PAD, START

ENOUGH = 0.999
"""Share of translations that must be the same string; one in 1,000 may be a tie."""


def opened_by_ctranslate2(folder):
    return ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)


def pieces_of(opened, ids):
    return [opened.tokenizers.source.pieces(each) for each in ids]


def our_logits(model, source, target):
    """Score what follows START and each token of ``target``."""
    tokens = torch.tensor([[*source, END]])
    target_in = torch.tensor([[START, *target]])
    with torch.inference_mode():
        return model(tokens, target_in, tokens != PAD)[0]


def forced(opened, source, target):
    """Return ln p of each token of ``target`` and of END."""
    log_p = our_logits(opened.model, source, target).log_softmax(-1)
    return log_p.gather(1, torch.tensor([*target, END])[:, None])[:, 0].numpy()


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Return a function that exports the trained model, each way once."""
    place = tmp_path_factory.mktemp("ctranslate2")

    def export(quantization):
        if not (place / quantization).exists():
            write_ctranslate2(
                place / quantization, trained.opened, quantization=quantization
            )
        return place / quantization

    return export


@pytest.fixture(scope="module")
def translate(exported, trained):
    """Return a function that translates all sentences in CTranslate2."""

    def run(quantization, beam):
        folder = exported(quantization)
        search = json.loads((folder / "translate_batch.json").read_text())
        return opened_by_ctranslate2(folder).translate_batch(
            pieces_of(trained.opened, trained.ids),
            max_batch_size=64,
            return_scores=True,
            **{**search, "beam_size": beam},
        )

    return run


@pytest.mark.parametrize("beam", [1, 4], ids=["greedy", "beam 4"])
def test_the_trained_model_writes_the_same_strings(trained, ours, translate, beam):
    target = trained.opened.tokenizers.target
    theirs = translate("float32", beam)

    mine = [target.pieces(best.tokens) for best in ours[beam]]
    differing = [
        number
        for number, (pieces, result) in enumerate(zip(mine, theirs, strict=True))
        if pieces != result.hypotheses[0]
    ]

    assert len(differing) <= (1 - ENOUGH) * len(mine)
    for number in differing:  # two outputs of which neither is better
        assert theirs[number].scores[0] == pytest.approx(
            ours[beam][number].score, abs=1e-3
        )
    assert all(best.finished for best in ours[beam])


def test_the_trained_model_gives_the_same_logits(trained, exported):
    """Every score of every entry of the vocabulary, at every step of 500 outputs."""
    translator = opened_by_ctranslate2(exported("float32"))
    results = translator.translate_batch(
        pieces_of(trained.opened, trained.ids),
        max_batch_size=64,
        beam_size=1,
        min_decoding_length=0,
        return_logits_vocab=True,
    )

    entries = ids_of_pieces(trained.opened.tokenizers.target)
    targets = [[entries[each] for each in result.hypotheses[0]] for result in results]
    ours = our_logits_of(trained, targets)
    assert len(ours) == 500
    for wanted, result in zip(ours, results, strict=True):
        theirs = np.array([np.array(step) for step in result.logits[0]])
        np.testing.assert_allclose(theirs, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_smaller_numbers_change_little(trained, ours, translate, quantization):
    """What is opted for: nearly the same strings, which BLEU confirms."""
    target = trained.opened.tokenizers.target
    ids = ids_of_pieces(target)
    theirs = [
        target.decode([ids[piece] for piece in result.hypotheses[0]])
        for result in translate(quantization, 4)
    ]
    mine = trained.decode(ours[4])

    equal = sum(a == b for a, b in zip(mine, theirs, strict=True))
    assert equal >= 0.98 * len(mine)
    assert measure("bleu", theirs, mine).value > 99


def ids_of_pieces(tokenizer):
    pieces = tokenizer.pieces(range(tokenizer.size))
    return {piece: number for number, piece in enumerate(pieces)}


def test_smaller_numbers_make_smaller_files(exported):
    sizes = [(exported(each) / "model.bin").stat().st_size for each in QUANTIZATIONS]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < sizes[0] / 2


SEPARATE = {"joint": False}
EACH_SETTING = [
    {"tie_embeddings": "all"},
    {"tie_embeddings": "output"},
    {"tie_embeddings": "none"},
    {"tie_embeddings": "output", "text": SEPARATE},
    {"tie_embeddings": "none", "text": SEPARATE, "output_bias": True},
    {"attention_bias": True, "output_bias": True},
    {"embedding_norm": True},
    {"norm": "pre", "embedding_norm": True, "attention_bias": True},
    {"norm": "deep", "encoder_layers": 3, "attention_bias": True},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"d_k": 4, "d_v": 4},
    *(
        {"positions": positions, "norm": norm}
        for positions, norm in product(
            ["sinusoidal", "sinusoidal_halves", "learned", "none"], ["post", "pre"]
        )
    ),
    *({"activation": activation} for activation in ACTIVATIONS),
    {"text": {"tokenizer": "characters"}},
    {"text": {"tokenizer": "words", "target_tokenizer": "bpe", "joint": False}},
]


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": "output" if "text" in each else "all", **each}
        for each in EACH_SETTING
    ],
    ids=str,
)
def test_every_setting_that_can_be_expressed_gives_the_same_probabilities(
    chance_model, tmp_path, changes
):
    opened = chance_model(**changes)
    write_ctranslate2(tmp_path / "out", opened)

    sources = in_vocabulary(CHANCE_SOURCES, opened.model.source_vocab_size)
    targets = in_vocabulary(CHANCE_TARGETS, opened.model.target_vocab_size)
    theirs = opened_by_ctranslate2(tmp_path / "out").score_batch(
        pieces_of(opened, sources),
        [opened.tokenizers.target.pieces(target) for target in targets],
    )

    for source, target, result in zip(sources, targets, theirs, strict=True):
        np.testing.assert_allclose(
            result.log_probs, forced(opened, source, target), atol=1e-4, rtol=0
        )


def test_what_cannot_be_expressed_is_refused_with_every_reason(chance_model, tmp_path):
    opened = chance_model(
        d_k=3, d_v=5, position_join="concatenate", tie_embeddings="none"
    )
    with pytest.raises(SettingsError) as refusal:
        write_ctranslate2(tmp_path / "out", opened)

    assert [problem.split(" ")[5] for problem in refusal.value.problems] == [
        "model.d_k",
        "model.d_v",
        "model.position_join",
    ]
    assert not (tmp_path / "out").exists()


def test_another_search_is_named_and_not_passed_over(chance_model, tmp_path):
    notes = write_ctranslate2(tmp_path / "out", chance_model(decoding=paper()))

    assert len(notes) == 2
    assert "gnmt" in notes[0]
    assert "exact" in notes[1]
    card = (tmp_path / "out" / "README.md").read_text()
    assert all(note in card for note in notes)


def test_a_search_that_both_know_needs_no_note(chance_model, tmp_path):
    search = DecodingSettings(beam=3, alpha=0.6, max_length_factor=1.5)
    assert write_ctranslate2(tmp_path / "out", chance_model(decoding=search)) == []

    written = json.loads((tmp_path / "out" / "translate_batch.json").read_text())
    assert (written["beam_size"], written["length_penalty"]) == (3, 0.6)
    assert written["max_decoding_length"] == 28  # 1.5 * 12 + 10


@pytest.mark.parametrize(
    ("search", "patience"),
    [
        ({}, 2.0),
        ({"patience": 1.0}, 1.0),
        ({"beam": 3, "patience": 1.2}, 4 / 3),  # 3.6 outputs: it rounds, we wait for 4
        ({"beam": 3, "patience": 0.1}, 1 / 3),
        ({"beam": 1}, 1.0),  # greedy: there is nothing to wait for
        ({"stopping": "exact", "patience": 1.0}, 2.0),
    ],
    ids=str,
)
def test_patience_is_so_many_finished_outputs(chance_model, tmp_path, search, patience):
    settings = DecodingSettings(**search)
    write_ctranslate2(tmp_path / "out", chance_model(decoding=settings))

    written = json.loads((tmp_path / "out" / "translate_batch.json").read_text())
    assert written["patience"] == patience


def test_no_source_is_cut_and_an_output_may_be_empty(chance_model, tmp_path):
    """Unless it is told so, CTranslate2 cuts sources and writes a token at least."""
    write_ctranslate2(tmp_path / "out", chance_model())

    written = json.loads((tmp_path / "out" / "translate_batch.json").read_text())
    assert written["max_input_length"] == written["min_decoding_length"] == 0


def test_layer_normalization_has_the_models_epsilon(chance_model, tmp_path):
    opened = chance_model()
    write_ctranslate2(tmp_path / "out", opened)

    (epsilon,) = {
        each.eps
        for each in opened.model.modules()
        if isinstance(each, torch.nn.LayerNorm)
    }
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["layer_norm_epsilon"] == epsilon


def test_no_length_penalty_is_an_exponent_that_is_almost_0(chance_model, tmp_path):
    search = DecodingSettings(length_penalty="none")
    assert write_ctranslate2(tmp_path / "out", chance_model(decoding=search)) == []

    written = json.loads((tmp_path / "out" / "translate_batch.json").read_text())
    assert written["length_penalty"] > 0
    assert np.float32(100) ** np.float32(written["length_penalty"]) == 1


def test_the_card_has_the_models_own_name(exported):
    """And not that of its folder, which in a run is best."""
    card = (exported("int8") / "README.md").read_text()

    assert card.startswith("# demo-model, for CTranslate2\n")
    assert "in\nint8, exported by headwise" in card


def test_a_form_of_numbers_that_is_not_known_is_refused(chance_model, tmp_path):
    with pytest.raises(UsageError, match="int4 is unknown"):
        write_ctranslate2(tmp_path / "out", chance_model(), quantization="int4")


def test_tokens_that_are_not_of_sentencepiece_are_told_of(chance_model, tmp_path):
    opened = chance_model(text={"tokenizer": "characters"})
    (note,) = write_ctranslate2(tmp_path / "out", opened)

    assert "the tokens are characters" in note
    assert not (tmp_path / "out" / "source.spm").exists()


def test_the_folder_has_a_manifest_that_names_the_weights(trained, exported):
    manifest = verify(exported("int8"))
    source = json.loads((trained.opened.path / "manifest.json").read_text())

    assert manifest["target"] == "ctranslate2"
    assert manifest["quantization"] == "int8"
    assert manifest["weights_sha256"] == source["files"]["model.safetensors"]["sha256"]


def test_what_the_search_loses_is_named_whatever_it_is(chance_model, tmp_path):
    search = DecodingSettings(no_repeat_ngram=3, epsilon=0.5)
    notes = write_ctranslate2(tmp_path / "out", chance_model(decoding=search))

    assert [note.split(" is not exported")[0] for note in notes] == [
        "epsilon = 0.5",
        "no_repeat_ngram = 3",
    ]
    card = (tmp_path / "out" / "README.md").read_text()
    assert all(note in card for note in notes)


def test_when_a_model_warns_is_no_matter_of_its_search(chance_model, tmp_path):
    """Folders that spell the thresholds of an older version lose nothing."""
    search = DecodingSettings(warnings=WarningSettings(shorter_than=0.25))

    assert write_ctranslate2(tmp_path / "out", chance_model(decoding=search)) == []


def test_the_limit_of_each_source_can_be_computed(chance_model, tmp_path):
    search = DecodingSettings(max_length_factor=1.5, max_length_offset=4)
    opened = chance_model(decoding=search)
    write_ctranslate2(tmp_path / "out", opened)
    limit = json.loads((tmp_path / "out" / "max_length.json").read_text())

    for length in range(30):
        computed = int(limit["factor"] * length) + limit["offset"]
        assert computed == search.max_length(length)
