"""The auto engine: the same translations whatever it chooses, with a note."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import pytest
import torch

from headwise import load
from headwise.backends import select_decoder
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.library import SWITCH, build
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.demo_corpus import demo_corpus
from headwise.errors import ResourceError, SettingsError, UsageError
from headwise.inference.engines import auto_engine, torch_engine
from headwise.inference.engines.auto_engine import AutoEngine
from headwise.inference.engines.ctranslate2_support import unsupported_search
from headwise.inference.engines.torch_engine import TorchEngine
from headwise.interop import export_cache
from headwise.interop.unsupported_decoding import EXPORTED
from headwise.run_folder.model_folder import open_model_folder
from headwise.tasks.translation.generator import Generator

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(autouse=True)
def no_kernels(request):
    """Let there be no compiled kernels, but for tests that ask for them."""
    if "uses_native_backend" not in request.fixturenames:
        request.getfixturevalue("no_kernels_to_choose")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a copy of the trained model, beside which exports may be kept."""
    return shutil.copytree(DEMO, tmp_path_factory.mktemp("auto") / "model")


@pytest.fixture
def opened(folder):
    return open_model_folder(folder)


@pytest.fixture(scope="module")
def sources():
    pairs = demo_corpus(num_train=0, num_dev=0, num_held_out=12, seed=5).held_out
    return open_model_folder(DEMO).task.encode([pair.english for pair in pairs])


@pytest.fixture(scope="module")
def wanted(sources):
    return words(TorchEngine(open_model_folder(DEMO)).search(sources, greedy()))


def words(found):
    return [[each.tokens for each in outputs] for outputs in found]


def test_auto_is_the_default_engine(folder):
    translator = load(folder)
    assert isinstance(translator.engine, AutoEngine)
    assert translator.engine.used == {}

    translator.translate("Is this school old?")
    assert translator.engine.name == "ctranslate2"


@pytest.mark.usefixtures("uses_native_backend")
def test_auto_takes_torch_with_the_native_backend(tmp_path, sources, wanted):
    """Nothing is exported for it, and what int8 needs is left to CTranslate2."""
    made = build()
    folder = shutil.copytree(DEMO, tmp_path / "model")
    auto = AutoEngine(open_model_folder(folder))

    assert words(auto.search(sources, greedy())) == wanted
    assert auto.used == {"torch": f"by the native backend, with {made.vectors}"}
    assert not (folder / "exports").exists()

    changed = open_model_folder(folder)
    changed.model.double()
    other = AutoEngine(changed)
    other.search(sources, greedy())
    assert other.used == {"torch": "the model was changed to torch.float64"}
    smaller = AutoEngine(open_model_folder(folder), precision="int8")
    smaller.search(sources[:1], greedy())
    assert smaller.name == "ctranslate2"


SLOWER = "the native backend is slower here, with AVX2"


def test_auto_takes_ctranslate2_where_the_native_backend_is_slower(
    tmp_path, sources, wanted, monkeypatch
):
    """Without AVX-512 they took four times as long, and were taken all the same."""
    monkeypatch.setattr(auto_engine, "why_not_preferred", lambda *_: SLOWER)
    auto = AutoEngine(
        open_model_folder(shutil.copytree(DEMO, tmp_path / "model")),
    )

    assert words(auto.search(sources, greedy())) == wanted
    auto.search(sources[:2], paper())

    assert auto.used["ctranslate2"].endswith(f"; {SLOWER}")
    assert auto.used["torch"].startswith("CTranslate2 does not support length_")
    assert auto.used["torch"].endswith(f"; {SLOWER}")


@pytest.mark.usefixtures("needs_native_library")
@pytest.mark.parametrize("taken", [False, True])
def test_torch_uses_its_faster_backend_where_ctranslate2_cannot_search(
    opened, monkeypatch, taken
):
    monkeypatch.setattr(auto_engine, "why_not_preferred", lambda *_: SLOWER)
    monkeypatch.setattr(select_decoder, "prefers_native", lambda use: taken)
    auto = AutoEngine(opened)
    auto.search([[5, 6]], paper())

    (decoder,) = auto._torch.generator.decoders.values()
    assert isinstance(decoder, NativeDecoder) is taken


@pytest.mark.usefixtures("needs_native_library")
def test_engine_torch_with_native_kernels_notes_that_they_are_slower(
    opened, monkeypatch
):
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(torch_engine, "why_not_preferred", lambda *_: SLOWER)
    engine = TorchEngine(opened)
    engine.search([[5, 6]], greedy())

    (decoder,) = engine.generator.decoders.values()
    assert isinstance(decoder, NativeDecoder)
    assert engine.used == {"torch": f"{SLOWER}; --engine auto takes what is faster"}
    assert TorchEngine(opened, native=False).used == {"torch": ""}

    monkeypatch.setenv(SWITCH, "on")
    assert TorchEngine(opened).used == {"torch": ""}


def test_auto_takes_ctranslate2_if_it_supports_the_search(opened, sources, wanted):
    auto = AutoEngine(opened)

    assert words(auto.search(sources, greedy())) == wanted
    assert auto.name == "ctranslate2"
    auto.search(sources[:2], paper())
    assert auto.name == "torch"
    assert list(auto.used) == ["ctranslate2", "torch"]
    assert auto.used["torch"] == (
        "CTranslate2 does not support length_penalty = 'gnmt'; CTranslate2 does not "
        "support stopping = 'exact'"
    )


def test_nothing_to_search_makes_no_export(tmp_path):
    folder = shutil.copytree(DEMO, tmp_path / "model")
    auto = AutoEngine(open_model_folder(folder))

    assert auto.search([], greedy()) == []
    assert auto.used == {}
    assert not (folder / "exports").exists()


def test_auto_takes_torch_without_the_ctranslate2_package(
    opened, sources, wanted, monkeypatch
):
    monkeypatch.setattr(
        "headwise.inference.engines.ctranslate2_support.find_spec", lambda name: None
    )
    auto = AutoEngine(opened)

    assert words(auto.search(sources, greedy())) == wanted
    assert "pip install 'headwise[fast]'" in auto.used["torch"]
    with pytest.raises(UsageError, match=r"pip install 'headwise\[fast\]'"):
        AutoEngine(opened, precision="int8")


def test_auto_takes_torch_on_another_device(opened, sources, monkeypatch):
    """As on a GPU; meta, which computes nothing, is the other that is everywhere."""
    asked = []
    monkeypatch.setattr(Generator, "search", lambda _, *given: asked.append(given))
    auto = AutoEngine(opened)
    opened.model.to("meta")

    auto.search(sources[:1], greedy())

    assert asked == [(sources[:1], greedy(), None)]
    assert auto.used == {"torch": "the model is on meta"}


def test_auto_takes_torch_on_a_full_disk(opened, sources, wanted, monkeypatch):
    def full(*_, **__):
        raise ResourceError("No space left on device")

    monkeypatch.setattr(export_cache, "export", full)
    monkeypatch.setattr(export_cache, "_is_current", lambda *_: False)
    auto = AutoEngine(opened)

    assert words(auto.search(sources, greedy())) == wanted
    assert auto.used == {"torch": "No space left on device"}


def test_a_processor_that_ctranslate2_does_not_run_on_leaves_it_to_torch(
    opened, sources, wanted, monkeypatch
):
    tried = []

    def refuse(*_, **__):
        tried.append(1)
        raise RuntimeError("this CPU lacks something")

    monkeypatch.setattr(ctranslate2, "Translator", refuse)
    auto = AutoEngine(opened)

    assert words(auto.search(sources, greedy())) == wanted
    assert words(auto.search(sources, greedy())) == wanted
    assert "this CPU lacks something" in auto.used["torch"]
    assert len(tried) == 1


def test_weights_that_were_changed_since_are_those_that_translate(
    opened, sources, wanted
):
    """The export has the weights of the file."""
    auto = AutoEngine(opened)
    auto.search(sources, greedy())
    with torch.no_grad():
        opened.model.target_embedding.vectors.neg_()
    found = words(auto.search(sources, greedy()))

    assert auto.name == "torch"
    assert found == words(TorchEngine(opened).search(sources, greedy()))
    assert found != wanted


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_another_dtype_is_for_torch(opened, sources, wanted):
    auto = AutoEngine(opened)
    opened.model.double()

    assert words(auto.search(sources, greedy())) == wanted
    assert auto.used == {"torch": "the model was changed to torch.float64"}


def test_a_text_longer_than_the_positions_of_an_export_is_for_torch(opened, sources):
    auto = AutoEngine(opened)
    short = DecodingSettings(beam=1, max_length_factor=0.0, max_length_offset=3)
    (found,) = auto.search([sources[0] * 200], short)

    assert auto.name == "torch"
    assert len(found[0].tokens) == 3


def test_a_requested_precision_is_kept(opened, sources):
    auto = AutoEngine(opened, precision="int8")
    auto.search(sources[:1], greedy())

    assert auto.name == "ctranslate2"
    with pytest.raises(SettingsError, match="gnmt"):
        auto.search(sources[:1], paper())


def test_bf16_is_for_the_torch_engine_only(opened, sources):
    auto = AutoEngine(opened, precision="bf16")
    auto.search(sources[:1], paper())

    assert list(auto.used) == ["torch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Newer(DecodingSettings):
    """A search with a setting that nobody has heard of here."""

    temperament: float = 1.0


@pytest.mark.parametrize("beam", [1, 4])
def test_an_unknown_setting_is_unsupported_by_ctranslate2(beam):
    assert unsupported_search(Newer(beam=beam)) == []
    (reason,) = unsupported_search(Newer(beam=beam, temperament=0.5))

    assert str(reason) == (
        "CTranslate2 does not support temperament = 0.5; temperament = 1.0 or "
        "--engine torch would do"
    )


def test_settings_passed_to_ctranslate2_are_decoding_settings():
    assert {*DecodingSettings.__dataclass_fields__} >= EXPORTED
