"""CTranslate2 behind our protocol: the words of the torch engine, and its manners."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headwise import load
from headwise.data.demo_corpus import demo_corpus
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.engines import AutoEngine, CTranslate2Engine, TorchEngine
from headwise.errors import SettingsError, UsageError
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import open_model_folder, write_model_folder
from headwise.text.vocabulary import PAD, START

DEMO = Path(__file__).parents[1] / "models" / "demo"


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
    "cut off": DecodingSettings(max_length_factor=0.7, max_length_offset=1),
    "cut off, greedy": DecodingSettings(
        beam=1, max_length_factor=0.7, max_length_offset=1
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_it_finds_what_the_torch_engine_finds(opened, engine, sources, name):
    settings = SEARCHES[name]
    slow = TorchEngine(opened).search(sources, settings)
    fast = engine.search(sources, settings)

    for mine, theirs in zip(slow, fast, strict=True):
        assert [each.tokens for each in theirs] == [each.tokens for each in mine]
        assert [each.finished for each in theirs] == [each.finished for each in mine]
        for one, other in zip(mine, theirs, strict=True):
            assert other.score == pytest.approx(one.score, abs=1e-4)
            assert other.log_probability == pytest.approx(one.log_probability, abs=1e-3)


def test_what_may_not_be_written_is_not(opened, sources, tmp_path):
    """A model that would like to write pad everywhere, and START now and then."""
    config = replace(opened.model.config, output_bias=True)
    model = Transformer(config, opened.model.source_vocab_size)
    model.load_state_dict(opened.model.state_dict(), strict=False)
    model.output.bias.data[PAD] = 9.0
    model.output.bias.data[START] = 5.0
    write_model_folder(
        tmp_path / "model",
        model=model,
        tokenizers=opened.tokenizers,
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


def test_a_search_it_does_not_have_is_refused_with_every_reason(engine, sources):
    with pytest.raises(SettingsError) as refusal:
        engine.search(sources[:1], paper())

    assert len(refusal.value.problems) == 2


def test_the_export_is_kept_and_made_once(opened):
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
        tokenizers=trained.tokenizers,
        decoding=trained.decoding,
        facts=trained.facts,
        card="# other\n",
    )
    shutil.copytree(opened.path / "exports", tmp_path / "model" / "exports")
    kept = tmp_path / "model" / "exports" / "ctranslate2-float32" / "model.bin"
    before = kept.read_bytes()

    CTranslate2Engine(open_model_folder(tmp_path / "model"))

    assert kept.read_bytes() != before


def test_int8_is_asked_for(opened, sources):
    engine = CTranslate2Engine(opened, precision="int8")
    found = engine.search(sources, DecodingSettings())
    same = TorchEngine(opened).search(sources, DecodingSettings())

    equal = sum(a[0].tokens == b[0].tokens for a, b in zip(found, same, strict=True))
    assert equal >= 0.95 * len(sources)
    assert (opened.path / "exports" / "ctranslate2-int8" / "model.bin").is_file()


def test_a_precision_that_is_none_is_refused(opened):
    with pytest.raises(UsageError, match="float32, float16, int8"):
        CTranslate2Engine(opened, precision="int3")
    with pytest.raises(UsageError, match="torch computes in float32"):
        TorchEngine(opened, precision="int8")


def test_auto_takes_ctranslate2_where_the_search_can_be_expressed(opened, sources):
    auto = AutoEngine(opened)

    auto.search(sources[:2], DecodingSettings())
    assert auto.name == "ctranslate2"
    auto.search(sources[:2], paper())
    assert auto.name == "torch"


def test_auto_does_without_ctranslate2(opened, sources, monkeypatch):
    monkeypatch.setattr(
        "headwise.engines.ctranslate2_engine.find_spec", lambda name: None
    )
    auto = AutoEngine(opened)
    auto.search(sources[:2], DecodingSettings())
    assert auto.name == "torch"

    with pytest.raises(UsageError, match=r"pip install 'headwise\[fast\]'"):
        CTranslate2Engine(opened)


def test_auto_does_not_pass_over_a_precision_that_was_asked_for(opened, sources):
    with pytest.raises(SettingsError, match="gnmt"):
        AutoEngine(opened, precision="int8").search(sources[:1], paper())


def test_it_is_reached_from_python(opened):
    fast = load(opened.path, engine="ctranslate2")
    slow = load(opened.path)

    texts = ["Is this school old?", "", "The letters that Alice wrote were long."]
    assert fast.translate(texts) == slow.translate(texts)


def test_where_nothing_may_be_written_the_export_is_kept_elsewhere(
    opened, tmp_path, monkeypatch
):
    folder = shutil.copytree(DEMO, tmp_path / "model")
    (folder / "exports").write_text("in the way: no folder can be made here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()

    CTranslate2Engine(open_model_folder(folder))
    assert list((tmp_path / "elsewhere").rglob("model.bin"))
