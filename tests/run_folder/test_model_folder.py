"""A model folder gives back what was put in, or says which file is amiss."""

import json
import math
import pickletools
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, load_file, save

from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import ModelError, NumericsError
from headwise.run_folder.card import CARD
from headwise.run_folder.model_folder import (
    ModelFacts,
    golden_pairs,
    open_model_folder,
    write_model_folder,
)
from headwise.run_folder.safetensors_files import FLOATS
from headwise.storage.manifests import manifest_sha256
from headwise.tasks.translation.task import Translation

DEMO = Path(__file__).parents[1] / "models" / "demo"
TEXTS = ["one two three.", "six.", "four four five one."]
FILES = (
    *("config.json", "model.safetensors", "generation.json", "golden.json"),
    *("README.md", "tokenizer/tokenizer.json", "tokenizer/spm.model"),
)


def refusal(folder):
    with pytest.raises(ModelError) as caught:
        open_model_folder(folder)
    return str(caught.value)


def table(folder, name="config.json"):
    return json.loads((folder / name).read_text())


def test_a_written_model_folder_is_opened_again(tiny_run, tmp_path):
    before = open_model_folder(tiny_run / "best")
    settings = DecodingSettings(beam=3, alpha=0.5, length_penalty="gnmt")
    write_model_folder(
        tmp_path / "copy",
        model=before.model,
        task=Translation(before.tokenizers),
        decoding=settings,
        facts=before.facts,
        card="card",
        golden_sources=TEXTS,
    )
    after = open_model_folder(tmp_path / "copy")

    for name, weight in before.model.state_dict().items():
        assert torch.equal(weight, after.model.state_dict()[name]), name
    assert after.model.config == before.model.config
    assert after.facts == before.facts
    assert after.decoding == settings
    assert not after.model.training
    one, other = (
        each.task.predict(each.model, TEXTS, greedy()) for each in (before, after)
    )
    assert one == other
    again = golden_pairs(after.task, after.model, TEXTS, settings)
    assert [(each.source, each.output) for each in after.golden] == [
        (each.source, each.output) for each in again
    ]


def test_writing_leaves_a_model_that_trains_in_training(tiny_run, tmp_path):
    opened = open_model_folder(tiny_run / "best")
    opened.model.train()
    golden_pairs(opened.task, opened.model, TEXTS, greedy())

    assert opened.model.training


def test_the_folder_is_what_its_docstring_lists(model_folder):
    found = {
        path.relative_to(model_folder).as_posix()
        for path in model_folder.rglob("*")
        if path.is_file()
    }
    assert found == {*FILES, "manifest.json"}


def test_n_best_lists_are_asked_for_and_no_default_of_a_model(tiny_run, tmp_path):
    opened = open_model_folder(tiny_run / "best")
    write_model_folder(
        tmp_path / "copy",
        model=opened.model,
        task=Translation(opened.tokenizers),
        decoding=DecodingSettings(beam=3, num_best=3),
        facts=opened.facts,
        card=CARD,
    )

    assert open_model_folder(tmp_path / "copy").decoding.num_best == 1


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(model_folder, name):
    (model_folder / name).unlink()

    message = refusal(model_folder)
    assert name in message
    assert "is missing" in message


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_seen(model_folder, name):
    path = model_folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    message = refusal(model_folder)
    assert str(path) in message
    assert "copy the folder again" in message


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_file_that_was_cut_is_seen(model_folder, name, left):
    path = model_folder / name
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content))])

    assert str(path) in refusal(model_folder)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": 99, "files": {}}', "\0", "null"]
)
def test_a_manifest_that_is_none_is_refused(model_folder, content):
    (model_folder / "manifest.json").write_text(content)

    assert "model" in refusal(model_folder)


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "tokenizer/../../secret", "..\\secret", ""]
)
def test_a_manifest_names_nothing_outside_its_folder(model_folder, name):
    manifest = table(model_folder, "manifest.json")
    manifest["files"][name] = {"bytes": 0, "sha256": ""}
    manifest["sha256"] = manifest_sha256(manifest)
    (model_folder / "manifest.json").write_text(json.dumps(manifest))
    (model_folder.parent / "secret").write_text("secret")

    assert "has an invalid list of files" in refusal(model_folder)


# From here on the manifest agrees: somebody made these folders with care.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "is not of format 1"),
        ({"source_vocab_size": 49}, "needs one vocabulary, but the source has 49"),
        ({"source_vocab_size": "many"}, "source_vocab_size must be a whole number"),
        ({"longest_source": None}, "longest_source"),
        ({"colour": "red"}, "colour is not a setting"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(model_folder, rewrite, change, said):
    config = {**table(model_folder), **change}
    rewrite(model_folder, "config.json", json.dumps(config))

    assert said in refusal(model_folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"d_model": 32}, "has shape [50, 16], not [50, 32]"),
        ({"decoder_layers": 2}, "is missing"),
        ({"positions": "learned"}, "is missing"),
        ({"d_model": 7}, "architecture.d_model must divide evenly"),
        ({"d_modell": 7}, "architecture.d_modell is not a setting"),
        ({"norm": "both"}, "architecture.norm must be"),
        # Terabytes of weights, or hours of making layers, before shapes are compared:
        ({"d_model": 2**24}, "has shape [50, 16]"),
        ({"encoder_layers": 10**9}, "layers: the parts of this folder"),
    ],
)
def test_another_architecture_is_refused(model_folder, rewrite, change, said):
    config = table(model_folder)
    config["architecture"] |= change
    rewrite(model_folder, "config.json", json.dumps(config))

    assert said in refusal(model_folder)


@pytest.mark.parametrize("content", ["5", "[1]", '"text"', "null", '{"a": 1}', "["])
@pytest.mark.parametrize("name", ["config.json", "generation.json", "golden.json"])
def test_json_that_is_not_what_we_write_is_refused(
    model_folder, rewrite, name, content
):
    rewrite(model_folder, name, content)

    assert str(model_folder) in refusal(model_folder)


def test_a_search_that_no_search_can_do_is_refused(model_folder, rewrite):
    rewrite(model_folder, "generation.json", '{"beam": 0}')

    assert "beam must be 1 or more" in refusal(model_folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 64,
        b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ",
        (2**62).to_bytes(8, "little") + b"{}",
        b"\x80\x04\x95\x00.",  # what a pickle looks like
    ],
)
def test_weights_that_are_no_safetensors_are_refused(model_folder, rewrite, content):
    rewrite(model_folder, "model.safetensors", content)

    assert "model.safetensors" in refusal(model_folder)


def test_a_tensor_more_or_less_is_named(model_folder, rewrite):
    weights = load_file(model_folder / "model.safetensors")
    name = next(iter(weights))
    more = {**weights, "extra": torch.zeros(1)}
    less = {key: value for key, value in weights.items() if key != name}

    rewrite(model_folder, "model.safetensors", save(more))
    assert "extra is unexpected" in refusal(model_folder)
    rewrite(model_folder, "model.safetensors", save(less))
    assert f"{name} is missing" in refusal(model_folder)


def with_dtype(folder, rewrite, dtype):
    weights = load((folder / "model.safetensors").read_bytes())
    changed = {name: weight.to(dtype) for name, weight in weights.items()}
    rewrite(folder, "model.safetensors", save(changed))
    return weights


@pytest.mark.parametrize(
    "dtype",
    [torch.int8, torch.int32, torch.int64, torch.bool, torch.float8_e4m3fn],
)
def test_weights_that_are_no_plain_floats_are_refused(model_folder, rewrite, dtype):
    """Of int32 the folder opened, and every translation was blank."""
    weights = with_dtype(model_folder, rewrite, dtype)

    message = refusal(model_folder)
    found = str(dtype).removeprefix("torch.")
    assert sum(f"{name} is {found}" in message for name in weights) >= 3
    assert "allowed: float32, float64, bfloat16, float16" in message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused(model_folder, rewrite, value):
    """CTranslate2 translated with them, and nobody was told."""
    weights = load((model_folder / "model.safetensors").read_bytes())
    name = sorted(weights)[1]
    weights[name].view(-1)[-1] = value
    rewrite(model_folder, "model.safetensors", save(weights))

    assert f"NaN or infinity in {name}:" in refusal(model_folder)


@pytest.mark.parametrize("name", [*FILES[:4], "tokenizer/tokenizer.json"])
def test_a_manifest_that_does_not_list_what_is_read_is_refused(model_folder, name):
    """A file that it leaves out was read unchecked."""
    manifest = table(model_folder, "manifest.json")
    del manifest["files"][name]
    manifest["sha256"] = manifest_sha256(manifest)
    (model_folder / "manifest.json").write_text(json.dumps(manifest))

    assert f"does not list {name}" in refusal(model_folder)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0, "longest_source must be 1 or more for translation"),
        (-1, "longest_source must be from 0 to 10,000,000, not -1"),
        (10**12, "longest_source must be from 0 to 10,000,000, not 1,000,000,000,000"),
    ],
)
def test_lengths_that_no_text_has_are_refused(model_folder, rewrite, value, reason):
    described = {**table(model_folder), "longest_source": value}
    rewrite(model_folder, "config.json", json.dumps(described))

    assert reason in refusal(model_folder)


@pytest.mark.parametrize("dtype", FLOATS)
def test_weights_in_other_floats_are_used_as_float32(model_folder, rewrite, dtype):
    weights = with_dtype(model_folder, rewrite, dtype)

    for name, weight in open_model_folder(model_folder).model.state_dict().items():
        assert torch.equal(weight, weights[name].to(dtype).float()), name


def test_the_tokenizer_of_another_model_is_refused(model_folder, rewrite):
    """Its size differs; one of the same size is caught by the golden translations."""
    from headwise.text.settings import TextSettings
    from headwise.text.tokenizer import train_tokenizers

    other = train_tokenizers(
        lambda: [("other words here", "noch andere Wörter")],
        TextSettings(vocab_size=40),
        seed=1,
    )
    other.save(model_folder.parent / "other")
    for name in ("tokenizer.json", "spm.model"):
        content = (model_folder.parent / "other" / name).read_bytes()
        rewrite(model_folder, f"tokenizer/{name}", content)

    message = refusal(model_folder)
    assert "tokenizer" in message
    assert "parts of this folder come from different models" in message


def test_half_of_another_tokenizer_is_refused(model_folder, rewrite):
    rewrite(model_folder, "tokenizer/spm.model", b"not this one")

    assert "spm.model" in refusal(model_folder)


def test_no_file_of_a_folder_is_a_pickle_or_an_archive(run_folder):
    for path in run_folder.rglob("*"):
        if not path.is_file() or not path.stat().st_size:
            continue
        start = path.read_bytes()[:4]
        assert not start.startswith((b"\x80", b"PK", b"\x1f\x8b")), path
        with pytest.raises((ValueError, IndexError)):
            list(pickletools.genops(path.read_bytes()))


def test_a_missing_path_or_a_file_is_no_model_folder(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()

    for name in ("file", "empty", "missing"):
        assert str(tmp_path / name) in refusal(tmp_path / name)


def test_an_older_model_folder_stays_until_the_new_one_is_whole(model_folder):
    """Golden translations fail half-way; what stood there is untouched."""
    opened = open_model_folder(model_folder)
    with torch.no_grad():
        opened.model.target_embedding.vectors.fill_(math.nan)
    with pytest.raises(NumericsError):
        write_model_folder(
            model_folder,
            model=opened.model,
            task=Translation(opened.tokenizers),
            decoding=greedy(),
            facts=opened.facts,
            card="",
            golden_sources=TEXTS,
        )

    assert isinstance(open_model_folder(model_folder).facts, ModelFacts)
    assert [path.name for path in model_folder.parent.iterdir()] == ["model"]


def test_a_folder_that_was_moved_still_opens(model_folder, tmp_path):
    moved = shutil.move(model_folder, tmp_path / "with a space und ü")

    assert open_model_folder(moved).facts.source_vocab_size == 50


def test_an_opened_model_does_not_depend_on_its_files(model_folder):
    """A file that is read where it lies would change a model that is in use."""
    opened = open_model_folder(model_folder)
    before = {name: t.clone() for name, t in opened.model.state_dict().items()}
    path = model_folder / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(path.stat().st_size // 4))

    after = opened.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(each.requires_grad for each in opened.model.parameters())


def test_a_folder_older_than_patience_searches_as_it_did(model_folder, rewrite):
    """Its generation.json names none; what it meant was 1, whatever the default is."""
    search = table(model_folder, "generation.json")
    del search["patience"]
    rewrite(model_folder, "generation.json", json.dumps(search).encode())

    assert DecodingSettings().patience != 1.0
    assert open_model_folder(model_folder).decoding.patience == 1.0


def test_weights_that_are_read_later_are_the_same():
    now = open_model_folder(DEMO)
    later = open_model_folder(DEMO, without_weights=True)

    assert later.weights.model is None
    found = later.model.state_dict()
    for name, weight in now.model.state_dict().items():
        assert torch.equal(weight, found[name]), name
    assert later.model is later.model


def test_weights_that_were_replaced_since_are_not_read_later(tmp_path):
    """Training puts a newer model there, which belongs to another tokenizer."""
    folder = tmp_path / "model"
    shutil.copytree(DEMO, folder)
    opened = open_model_folder(folder, without_weights=True)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").write_bytes(
        save({name: weight + 1 for name, weight in weights.items()})
    )
    with pytest.raises(ModelError, match="open the model again"):
        _ = opened.model


def test_damaged_weights_are_found_though_they_are_not_read(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(DEMO, folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        open_model_folder(folder, without_weights=True)
