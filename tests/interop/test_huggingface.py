"""What transformers makes of our folders: text in, text out, as a user would."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.interop.conftest import (
    CHANCE_SOURCES,
    CHANCE_TARGETS,
    in_batches,
    in_vocabulary,
    our_logits_of,
)
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    MarianMTModel,
    MarianTokenizer,
)

from headwise.decoding.settings import DecodingSettings, paper
from headwise.errors import SettingsError, UsageError
from headwise.interop.huggingface import generation, write_huggingface
from headwise.model.feed_forward import ACTIVATIONS
from headwise.storage import verify
from headwise.text.vocabulary import END, PAD, START

ENOUGH = 0.999
"""Share of translations that must be the same string; one in 1,000 may be a tie."""

BATCH = 125


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("huggingface") / "model"
    (note,) = write_huggingface(folder, trained.opened)
    assert "transformers has no patience" in note
    return folder


@pytest.fixture(scope="module")
def model(exported):
    return AutoModelForSeq2SeqLM.from_pretrained(exported).eval()


@pytest.fixture(scope="module")
def tokenizer(exported):
    return AutoTokenizer.from_pretrained(exported)


def logits(model, source, target):
    """Score what follows START and each token of ``target``, with theirs or ours."""
    tokens = torch.tensor([[*source, END]])
    target_in = torch.tensor([[START, *target]])
    with torch.inference_mode():
        if isinstance(model, MarianMTModel):
            return model(input_ids=tokens, decoder_input_ids=target_in).logits[0]
        return model(tokens, target_in, tokens != PAD)[0]


def test_an_export_opens_as_marian(model, tokenizer):
    assert isinstance(model, MarianMTModel)
    assert isinstance(tokenizer, MarianTokenizer)


@pytest.mark.parametrize("beam", [1, 4], ids=["greedy", "beam 4"])
def test_text_in_gives_the_same_text_out(trained, ours, model, tokenizer, beam):
    theirs, scores = [], []
    for first in range(0, len(trained.sentences), BATCH):
        batch = tokenizer(
            trained.sentences[first : first + BATCH], return_tensors="pt", padding=True
        )
        with torch.inference_mode():
            found = model.generate(
                **batch,
                num_beams=beam,
                return_dict_in_generate=True,
                output_scores=beam > 1,
                **(
                    {} if beam > 1 else {"early_stopping": None, "length_penalty": None}
                ),
            )
        theirs += tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        if beam > 1:
            scores += found.sequences_scores.tolist()
    mine = trained.decode(ours[beam])

    differing = [n for n, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    assert len(differing) <= (1 - ENOUGH) * len(mine)
    for number in differing if beam > 1 else ():  # two outputs, neither is better
        assert scores[number] == pytest.approx(ours[beam][number].score, abs=1e-4)


def test_the_search_of_the_model_is_the_default(trained, ours, model, tokenizer):
    """Nobody has to say how the model is to be searched."""
    some = trained.sentences[:8]
    with torch.inference_mode():
        found = model.generate(**tokenizer(some, return_tensors="pt", padding=True))

    theirs = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert theirs == trained.decode(ours[4])[:8]


@pytest.mark.parametrize(
    "search",
    [
        {"length_penalty": "none"},
        {"alpha": 0.6, "beam": 3},
        {"stopping": "exact"},
    ],
    ids=str,
)
def test_other_searches_are_the_same_too(trained, model, tokenizer, search):
    settings = DecodingSettings(patience=1.0, **search)
    opened = replace(trained.opened, decoding=settings)
    found = opened.task.search(opened.model, trained.ids[:40], settings)
    batch = tokenizer(trained.sentences[:40], return_tensors="pt", padding=True)
    with torch.inference_mode():
        theirs = model.generate(**batch, **generation(opened))

    texts = tokenizer.batch_decode(theirs, skip_special_tokens=True)
    assert texts == trained.decode([best for (best,) in found])


def test_the_trained_model_gives_the_same_logits(trained, ours, model):
    """Every score of every entry of the vocabulary, at every step of 500 outputs."""
    targets = [best.tokens for best in ours[1]]
    wanted = our_logits_of(trained, targets)
    compared = 0
    for places, sources, before in in_batches(trained, targets):
        with torch.inference_mode():
            theirs = model(
                input_ids=sources,
                attention_mask=(sources != PAD).long(),
                decoder_input_ids=before,
            ).logits
        for row, number in enumerate(places):
            mine = wanted[number]
            np.testing.assert_allclose(
                theirs[row, : len(mine)].numpy(), mine, atol=1e-4, rtol=0
            )
            compared += 1
    assert compared == 500


@pytest.mark.parametrize(
    "text",
    [
        "Is this school old?",
        "  two   spaces\tand a tab ",
        "ﬁne ½ … “quotes” — ①",
        "never seen: 雪 ☃ и",
        "don't; 3.5 , 4 !",
        "",
    ],
)
def test_text_becomes_the_same_tokens(trained, tokenizer, text):
    ours = trained.opened.tokenizers.source.encode(text)
    assert tokenizer(text).input_ids == [*ours, END]


SEPARATE = {"joint": False}
EACH_SETTING = [
    {"tie_embeddings": "all"},
    {"tie_embeddings": "output"},
    {"tie_embeddings": "none"},
    {"tie_embeddings": "output", "text": SEPARATE},
    {"tie_embeddings": "none", "text": SEPARATE, "output_bias": True},
    {"attention_bias": True, "output_bias": True},
    {"positions": "sinusoidal_halves"},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"norm": "deep", "encoder_layers": 3, "attention_bias": True},
    {"d_k": 4, "d_v": 4},
    *({"activation": activation} for activation in ACTIVATIONS),
]


@pytest.mark.parametrize("changes", EACH_SETTING, ids=str)
def test_every_setting_that_can_be_expressed_gives_the_same_logits(
    chance_model, tmp_path, changes
):
    opened = chance_model(**changes)
    write_huggingface(tmp_path / "out", opened)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()

    sources = in_vocabulary(CHANCE_SOURCES, opened.model.source_vocab_size)
    targets = in_vocabulary(CHANCE_TARGETS, opened.model.target_vocab_size)
    for source, target in zip(sources, targets, strict=True):
        np.testing.assert_allclose(
            logits(theirs, source, target).numpy(),
            logits(opened.model, source, target).numpy(),
            atol=1e-4,
            rtol=0,
        )


@pytest.mark.parametrize(
    "text",
    [
        {"tokenizer": "unigram"},
        {"byte_fallback": True, "vocab_size": 400},
        {"symbols": ("<fr>", "__x")},
        {"normalization": "none"},
    ],
    ids=str,
)
def test_each_kind_of_sentencepiece_gives_the_same_tokens(chance_model, tmp_path, text):
    opened = chance_model(text=text)
    write_huggingface(tmp_path / "out", opened)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")

    for line in ("<fr> one four", "one__x four ½ ☃", "sechs<fr>fünf", "<fr>"):
        ours = opened.tokenizers.source.encode(line)
        assert tokenizer(line).input_ids == [*ours, END]


def test_a_language_code_becomes_other_tokens_there_so_it_is_refused(
    chance_model, tmp_path, monkeypatch
):
    """Should this fail one day, the refusal in ``limits`` can go."""
    opened = chance_model(text={"symbols": (">>fr<<",)})
    with pytest.raises(SettingsError, match=">>fr<<"):
        write_huggingface(tmp_path / "out", opened)

    monkeypatch.setattr(
        "headwise.interop.huggingface.check_expressible",
        lambda *anything: None,
    )
    write_huggingface(tmp_path / "out", opened)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = opened.tokenizers.source.encode(">>fr<< one")
    assert tokenizer(">>fr<< one").input_ids != [*ours, END]


def test_two_vocabularies_are_two_there_too(chance_model, tmp_path):
    opened = chance_model(tie_embeddings="output", text=SEPARATE)
    write_huggingface(tmp_path / "out", opened)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")

    source = opened.tokenizers.source.encode("one four")
    target = opened.tokenizers.target.encode("eins fünf")
    assert tokenizer("one four").input_ids == [*source, END]
    assert tokenizer(text_target="eins fünf").input_ids == [*target, END]
    assert tokenizer.decode([*target, END], skip_special_tokens=True) == "eins fünf"


def test_an_export_is_the_same_after_transformers_saved_it(model, exported, tmp_path):
    """Nothing that we write is dropped when somebody trains on and saves."""
    model.save_pretrained(tmp_path / "saved")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved").eval()

    asked = [5, 9, 17], [8, 4]
    torch.testing.assert_close(logits(again, *asked), logits(model, *asked))


def test_what_cannot_be_expressed_is_refused_with_every_reason(chance_model, tmp_path):
    opened = chance_model(norm="pre", d_k=3, positions="learned")
    with pytest.raises(SettingsError) as refusal:
        write_huggingface(tmp_path / "out", opened)

    assert len(refusal.value.problems) == 3
    assert not (tmp_path / "out").exists()


def test_other_numbers_than_float32_are_chosen_when_it_is_opened(trained, tmp_path):
    with pytest.raises(UsageError, match="dtype="):
        write_huggingface(tmp_path / "out", trained.opened, quantization="int8")


def test_another_search_is_named_and_not_passed_over(chance_model, tmp_path):
    (note,) = write_huggingface(tmp_path / "out", chance_model(decoding=paper()))

    assert "gnmt" in note
    assert note in (tmp_path / "out" / "README.md").read_text()
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["early_stopping"] == "never"


def test_a_greedy_search_has_no_settings_of_a_beam(chance_model, tmp_path):
    """transformers warns of settings that a greedy search does not use."""
    opened = chance_model(decoding=DecodingSettings(beam=1, length_penalty="gnmt"))
    assert write_huggingface(tmp_path / "out", opened) == []

    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["num_beams"] == 1
    assert not {"length_penalty", "early_stopping"} & written.keys()


def test_tokens_that_are_no_output_are_suppressed(chance_model, tmp_path):
    write_huggingface(tmp_path / "out", chance_model())

    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert set(written["suppress_tokens"]) == {PAD, START}


def test_the_card_says_how_it_is_used_there(exported):
    card = (exported / "README.md").read_text()

    assert card.startswith("---\n")
    assert "\nlibrary_name: transformers\npipeline_tag: translation" in card
    assert re.findall("^## (.*)", card, re.MULTILINE) == [
        *("Use with transformers", "Data", "Scores", "Architecture", "Limits")
    ]
    assert "headwise translate" not in card


def test_the_folder_has_a_manifest_that_names_the_weights(trained, exported):
    manifest = verify(exported)
    source = json.loads((trained.opened.path / "manifest.json").read_text())

    assert manifest["target"] == "huggingface"
    weights = source["files"]["model.safetensors"]
    assert manifest["weights_sha256"] == weights["sha256"]


def test_what_the_search_loses_is_named_whatever_it_is(chance_model, tmp_path):
    search = DecodingSettings(no_repeat_ngram=3, epsilon=0.5, patience=1.0)
    notes = write_huggingface(tmp_path / "out", chance_model(decoding=search))

    assert [note.split(" is not exported")[0] for note in notes] == [
        "epsilon = 0.5",
        "no_repeat_ngram = 3",
    ]


@pytest.mark.parametrize(
    ("patience", "nearest", "notes"),
    [(1.0, True, 0), (2.0, "never", 1), (0.5, True, 1)],
)
def test_patience_becomes_the_nearest_rule_that_it_has(
    chance_model, tmp_path, patience, nearest, notes
):
    opened = chance_model(decoding=DecodingSettings(patience=patience))
    told = write_huggingface(tmp_path / "out", opened)

    assert len(told) == notes
    assert all("no patience" in note for note in told)
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["early_stopping"] == nearest
