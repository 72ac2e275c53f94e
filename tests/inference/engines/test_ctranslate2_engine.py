"""The CTranslate2 engine gives the translations of the torch engine."""

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headwise import load
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.demo_corpus import demo_corpus
from headwise.errors import ResourceError, SettingsError, UsageError
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.torch_engine import TorchEngine
from headwise.interop import export_cache
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import open_model_folder, write_model_folder
from headwise.tasks.translation.task import Translation
from headwise.text.vocabulary import PAD, START

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Open a copy of the trained model, beside which exports may be kept."""
    folder = tmp_path_factory.mktemp("engines") / "model"
    return open_model_folder(shutil.copytree(DEMO, folder))


@pytest.fixture(scope="module")
def sources(opened):
    pairs = demo_corpus(num_train=0, num_dev=0, num_held_out=60, seed=5).held_out
    return opened.task.encode([pair.english for pair in pairs])


@pytest.fixture(scope="module")
def engine(opened):
    return CTranslate2Engine(opened)


SEARCHES = {
    "greedy": greedy(),
    "default": DecodingSettings(),
    "beam 5, alpha 0.6": DecodingSettings(beam=5, alpha=0.6),
    "no penalty": DecodingSettings(length_penalty="none"),
    "alpha 0": DecodingSettings(alpha=0.0),
    "greedy, scored as the paper": DecodingSettings(beam=1, length_penalty="gnmt"),
    "three best": DecodingSettings(num_best=3),
    "no patience": DecodingSettings(patience=1.0),
    "little patience": DecodingSettings(patience=0.3, num_best=2),
    "uneven patience": DecodingSettings(beam=3, patience=1.2, num_best=3),
    "patience, cut off": DecodingSettings(
        patience=3.0, max_length_factor=0.7, max_length_offset=1, num_best=4
    ),
    "cut off": DecodingSettings(max_length_factor=0.7, max_length_offset=1),
    "cut off, greedy": DecodingSettings(
        beam=1, max_length_factor=0.7, max_length_offset=1
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_ctranslate2_finds_the_outputs_of_the_torch_engine(
    opened, engine, sources, name
):
    settings = SEARCHES[name]
    slow = TorchEngine(opened).search(sources, settings)
    fast = engine.search(sources, settings)

    for mine, theirs in zip(slow, fast, strict=True):
        assert [each.tokens for each in theirs] == [each.tokens for each in mine]
        assert [each.finished for each in theirs] == [each.finished for each in mine]
        for one, other in zip(mine, theirs, strict=True):
            assert other.score == pytest.approx(one.score, abs=1e-4)
            assert other.log_probability == pytest.approx(one.log_probability, abs=1e-3)


@pytest.mark.parametrize("name", SEARCHES)
def test_without_scores_the_words_are_the_same(engine, sources, name):
    """And of a beam, which compares them, the scores are still there."""
    settings = SEARCHES[name]
    found = engine.search(sources, replace(settings, scores=False))
    expected = engine.search(sources, settings)

    for mine, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in mine] == [each.tokens for each in theirs]
        assert [each.finished for each in mine] == [each.finished for each in theirs]
        if settings.beam > 1:
            assert mine == theirs
        else:
            assert all(math.isnan(each.score) for each in mine)
            assert all(math.isnan(each.log_probability) for each in mine)


def test_forbidden_tokens_are_not_generated(opened, sources, tmp_path):
    """A model that would like to write pad everywhere, and START now and then."""
    config = replace(opened.model.config, output_bias=True)
    model = Transformer(config, opened.model.source_vocab_size)
    model.load_state_dict(opened.model.state_dict(), strict=False)
    model.output.bias.data[PAD] = 9.0
    model.output.bias.data[START] = 5.0
    write_model_folder(
        tmp_path / "model",
        model=model,
        task=Translation(opened.tokenizers),
        decoding=opened.decoding,
        facts=opened.facts,
        card="# pad\n",
    )
    biased = open_model_folder(tmp_path / "model")

    slow = TorchEngine(biased).search(sources, greedy())
    fast = CTranslate2Engine(biased).search(sources, greedy())
    plain = CTranslate2Engine(opened).search(sources, greedy())

    assert [each[0].tokens for each in fast] == [each[0].tokens for each in slow]
    assert [each[0].tokens for each in fast] == [each[0].tokens for each in plain]


def test_nothing_to_search_finds_nothing(engine):
    assert engine.search([], DecodingSettings()) == []


def test_an_unsupported_search_is_refused_with_every_reason(engine, sources):
    with pytest.raises(SettingsError) as refusal:
        engine.search(sources[:1], paper())

    assert len(refusal.value.problems) == 2


def test_the_export_is_cached_and_made_once(opened):
    CTranslate2Engine(opened)
    kept = opened.path / "exports" / "ctranslate2-float32" / "model.bin"
    made = kept.stat().st_mtime_ns
    CTranslate2Engine(opened)

    assert kept.stat().st_mtime_ns == made


def test_a_damaged_or_foreign_export_is_made_again(opened):
    CTranslate2Engine(opened)
    kept = opened.path / "exports" / "ctranslate2-float32"
    whole = (kept / "model.bin").read_bytes()
    (kept / "model.bin").write_bytes(whole[:1000])
    CTranslate2Engine(opened)
    assert (kept / "model.bin").read_bytes() == whole

    shutil.rmtree(kept)
    kept.mkdir()
    (kept / "notes.txt").write_text("mine")
    CTranslate2Engine(opened)
    assert (kept / "model.bin").read_bytes() == whole


def test_an_export_of_other_weights_is_made_again(opened, engine, tmp_path):
    trained = open_model_folder(DEMO)
    trained.model.target_embedding.vectors.data *= 2
    write_model_folder(
        tmp_path / "model",
        model=trained.model,
        task=Translation(trained.tokenizers),
        decoding=trained.decoding,
        facts=trained.facts,
        card="# other\n",
    )
    shutil.copytree(opened.path / "exports", tmp_path / "model" / "exports")
    kept = tmp_path / "model" / "exports" / "ctranslate2-float32" / "model.bin"
    before = kept.read_bytes()

    CTranslate2Engine(open_model_folder(tmp_path / "model"))

    assert kept.read_bytes() != before


def test_the_precision_int8_is_passed_on(opened, sources):
    engine = CTranslate2Engine(opened, precision="int8")
    found = engine.search(sources, DecodingSettings())
    same = TorchEngine(opened).search(sources, DecodingSettings())

    equal = sum(a[0].tokens == b[0].tokens for a, b in zip(found, same, strict=True))
    assert equal >= 0.95 * len(sources)
    assert (opened.path / "exports" / "ctranslate2-int8" / "model.bin").is_file()


def test_an_unknown_precision_is_refused(opened):
    with pytest.raises(UsageError, match="float32, float16, int8"):
        CTranslate2Engine(opened, precision="int3")
    with pytest.raises(UsageError, match="torch computes in float32"):
        TorchEngine(opened, precision="int8")


def test_a_folder_whose_name_is_not_utf_8_is_not_for_ctranslate2(opened, tmp_path):
    """It was a TypeError of its constructor, and "a bug in headwise"."""
    folder = shutil.copytree(opened.path, tmp_path / "caf\udce9")
    auto = load(folder)

    assert auto.translate("one two.") == load(folder, engine="torch").translate(
        "one two."
    )
    assert list(auto.engine.used) in (["native"], ["torch"])
    with pytest.raises(UsageError, match="whose name is not UTF-8; another name or "):
        load(folder, engine="ctranslate2")
    with pytest.raises(UsageError, match="whose name is not UTF-8"):
        CTranslate2Engine(opened, folder=folder)


def test_headwise_load_opens_the_ctranslate2_engine(opened):
    fast = load(opened.path, engine="ctranslate2")
    slow = load(opened.path, engine="torch")

    texts = ["Is this school old?", "", "The letters that Alice wrote were long."]
    assert fast.translate(texts) == slow.translate(texts)


def test_a_text_beyond_the_positions_of_the_export_is_refused(opened, engine, sources):
    with pytest.raises(SettingsError, match=r"a source may have 1,201 tokens"):
        engine.search([[5] * 1200], greedy())
    with pytest.raises(SettingsError, match=r"an output may have 2,\d+ tokens"):
        engine.search(sources[:1], DecodingSettings(max_length_offset=2000))


def test_without_write_permission_the_export_is_temporary(
    opened, sources, tmp_path, monkeypatch
):
    folder = shutil.copytree(DEMO, tmp_path / "model")
    (folder / "exports").write_text("in the way: no folder can be made here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()

    engine = CTranslate2Engine(open_model_folder(folder))
    found = engine.search(sources[:3], greedy())

    assert found == CTranslate2Engine(opened).search(sources[:3], greedy())
    assert engine.note.startswith("exported to a temporary folder: ")
    assert list((tmp_path / "elsewhere").iterdir()) == []  # none is left behind


def test_the_export_of_a_process_that_was_quicker_is_taken(
    opened, tmp_path, monkeypatch
):
    folder = shutil.copytree(DEMO, tmp_path / "model")
    mine = open_model_folder(folder)
    write = export_cache.export

    def beaten(*arguments, **how):
        write(*arguments, **how)
        raise ResourceError("another has renamed its own folder just now")

    monkeypatch.setattr(export_cache, "export", beaten)
    engine = CTranslate2Engine(mine)

    assert engine.note == ""
    assert (folder / "exports" / "ctranslate2-float32" / "model.bin").is_file()


def test_a_model_that_was_replaced_meanwhile_does_not_get_its_export(
    opened, sources, tmp_path
):
    """A run replaces its best model while somebody has the older one open."""
    folder = shutil.copytree(DEMO, tmp_path / "model")
    older = open_model_folder(folder)
    newer = open_model_folder(folder)
    with torch.no_grad():
        newer.model.target_embedding.vectors.mul_(2)
    write_model_folder(
        folder,
        model=newer.model,
        task=Translation(newer.tokenizers),
        decoding=newer.decoding,
        facts=newer.facts,
        card="# newer\n",
    )

    of_the_older = CTranslate2Engine(older).search(sources[:5], greedy())
    of_the_newer = CTranslate2Engine(open_model_folder(folder))

    assert of_the_older == CTranslate2Engine(opened).search(sources[:5], greedy())
    assert of_the_newer.note.startswith("exported to ")
    assert of_the_newer.search(sources[:5], greedy()) != of_the_older


FORKED = """
import os, signal, sys, headwise
translator = headwise.load(sys.argv[1], engine="ctranslate2")
text = "Is this school old?"
wanted = translator.translate(text)
for works in (True, False):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        sys.exit(0 if not works or translator.translate(text) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0, works
"""


def test_a_process_that_is_forked_translates_and_ends(opened):
    """Neither waits for threads of its parent, which were not copied."""
    program = [sys.executable, "-c", FORKED, opened.path]
    subprocess.run(program, check=True, timeout=120)


WITHOUT_TORCH = """
import sys
from headwise import load
translator = load(sys.argv[1], engine="ctranslate2")
print(translator.translate("The dog sees a bird."))
print("torch" in sys.modules)
print(len(translator.models), "torch" in sys.modules)
"""


def test_torch_is_not_imported_where_the_export_is_there_already(opened, engine):
    """To import it takes longer than to translate a thousand sentences."""
    probe = [sys.executable, "-c", WITHOUT_TORCH, str(opened.path)]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=120)

    said, *torch_is_here = done.stdout.splitlines()
    assert said == load(opened.path, engine="torch").translate("The dog sees a bird.")
    assert torch_is_here == ["False", "1 True"], done.stderr
