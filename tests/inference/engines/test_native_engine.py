"""The native engine has the outputs of the torch engine, and never imports torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from tests.torch_threads import torch_threads

from headwise import load
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.settings import DecodingSettings, greedy, paper
from headwise.demo_corpus import demo_corpus
from headwise.errors import Cancelled, ModelError, SettingsError, UsageError
from headwise.inference.engines.auto_engine import AutoEngine
from headwise.inference.engines.engine import MIN_BACKGROUND_SOURCES
from headwise.inference.engines.native_engine import NativeEngine, why_no_native_engine
from headwise.inference.engines.torch_engine import TorchEngine
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import WEIGHTS

pytestmark = pytest.mark.usefixtures("uses_native_backend")

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture
def opened():
    return open_model_folder(DEMO, without_weights=True)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(DEMO, tmp_path / "model")


@pytest.fixture(scope="module")
def sources():
    pairs = demo_corpus(num_train=0, num_dev=0, num_held_out=90, seed=5).held_out
    return open_model_folder(DEMO).task.encode([pair.english for pair in pairs])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [greedy(), paper(), DecodingSettings(num_best=4, patience=2.0)],
    ids=["greedy", "paper", "n-best"],
)
def test_outputs_are_those_of_the_torch_engine_to_the_last_bit(
    opened, sources, settings, threads
):
    engine = NativeEngine(replace(opened, threads=threads))
    with torch_threads(threads):
        expected = TorchEngine(open_model_folder(DEMO)).search(sources, settings)

    assert engine.search(sources, settings) == expected
    assert engine.submit(sources, settings).result() == expected
    assert opened.weights.model is None


def test_outputs_in_bf16_are_those_of_the_torch_engine(opened, sources):
    engine = NativeEngine(opened, precision="bf16")
    theirs = TorchEngine(open_model_folder(DEMO), precision="bf16")

    assert engine.search(sources, greedy()) == theirs.search(sources, greedy())
    auto = AutoEngine(opened, precision="bf16")
    auto.search(sources[:1], greedy())
    assert auto.name == "native"
    auto.search(sources[:1], DecodingSettings(coverage=0.2))
    assert auto.name == "torch"
    assert list(auto.used) == ["native", "torch"]
    with pytest.raises(UsageError, match="computes in float32 or bf16, not 'int8'"):
        NativeEngine(opened, precision="int8")


def test_a_batch_changes_no_sentence(opened, sources):
    engine = NativeEngine(opened)
    together = engine.search(sources, DecodingSettings())

    assert [engine.search([each], DecodingSettings())[0] for each in sources] == (
        together
    )


def test_nothing_to_search_has_no_outputs(opened):
    assert NativeEngine(opened).search([], greedy()) == []


def test_a_search_of_many_sources_is_cancelled(opened, sources):
    many = list(sources) * 20
    assert len(many) >= MIN_BACKGROUND_SOURCES
    future = NativeEngine(opened).submit(many, DecodingSettings(beam=8))
    future.cancel()

    with pytest.raises(Cancelled):
        future.result()


def test_searches_that_need_torch_are_refused_by_name(opened):
    engine = NativeEngine(opened)
    with pytest.raises(SettingsError, match=r"coverage is 0\.2; --engine torch"):
        engine.search([[5, 6]], DecodingSettings(coverage=0.2))
    with pytest.raises(SettingsError, match="outputs have a forced prefix"):
        engine.submit([[5, 6]], greedy(), [Prefix((7,))])


def test_auto_takes_it_until_a_search_needs_torch(opened, sources):
    auto = AutoEngine(opened)
    expected = TorchEngine(open_model_folder(DEMO)).search(sources, greedy())

    assert auto.search(sources, greedy()) == expected
    assert (auto.name, opened.weights.model) == ("native", None)
    prefixes = [Prefix(each[0].tokens[:1]) for each in expected]
    auto.search(sources, greedy(), prefixes)
    assert auto.name == "torch"
    assert auto.search(sources, greedy()) == expected
    assert auto.used["native"].endswith(", without torch")
    assert list(auto.used) == ["native", "torch"]


def test_weights_that_were_changed_in_memory_are_those_that_translate(sources):
    translator = load(DEMO)
    before = translator.engine.search(sources, greedy())
    assert translator.engine.name == "native"

    with torch.no_grad():
        translator.models[0].target_embedding.vectors.neg_()
    after = translator.engine.search(sources, greedy())

    assert after != before
    assert after == TorchEngine(translator.opened).search(sources, greedy())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cuda:0"}, "the model is on cuda:0"),
        ({"deterministic": True}, "each sentence is to be computed alone"),
    ],
)
def test_what_it_cannot_do_is_left_to_torch(opened, changes, reason):
    asked = replace(opened, **changes)

    assert why_no_native_engine(asked) == reason
    with pytest.raises(UsageError, match=reason):
        NativeEngine(asked)


def test_a_model_in_memory_is_left_to_torch(opened):
    assert opened.model is not None
    assert why_no_native_engine(opened) is not None


def test_weights_that_do_not_fit_have_the_error_of_torch(folder, rewrite):
    weights = load_file(folder / WEIGHTS)
    name = sorted(weights)[1]
    weights[name].view(-1)[-1] = torch.nan
    rewrite(folder, WEIGHTS, save(weights))

    with pytest.raises(ModelError, match="NaN or infinity"):
        load(folder)
    weights[name] = torch.zeros(3, 5)
    rewrite(folder, WEIGHTS, save(weights))
    with pytest.raises(ModelError, match=r"has shape .3, 5., not"):
        load(folder)


def test_weights_in_bfloat16_are_read_by_torch(folder, rewrite, sources):
    weights = {name: w.bfloat16() for name, w in load_file(folder / WEIGHTS).items()}
    rewrite(folder, WEIGHTS, save(weights))
    translator = load(folder)
    translator.engine.search(sources[:2], greedy())

    assert translator.engine.name == "torch"


def test_weights_that_changed_since_are_refused(folder):
    opened = open_model_folder(folder, without_weights=True)
    with (folder / WEIGHTS).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ModelError, match="has changed since the model was opened"):
        NativeEngine(opened)
    (folder / WEIGHTS).unlink()
    with pytest.raises(ModelError, match="can no longer be read"):
        NativeEngine(opened)


def test_the_working_directory_may_change(folder, monkeypatch):
    """The weights are read again where a search needs torch."""
    monkeypatch.chdir(folder.parent)
    translator = load(folder.name)
    monkeypatch.chdir("/")

    assert translator.translate("The dog sleeps.", repetition_penalty=1.5)
    assert translator.engine.name == "torch"


FORKED = """
import os, signal, sys, headwise
translator = headwise.load(sys.argv[1], engine=sys.argv[2])
texts = [f"The dog sleeps in garden {number}." for number in range(100)]
wanted = translator.translate(texts)
reading = translator.lines(texts * 100)
next(reading)  # other blocks are searched in the background
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if translator.translate(texts) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_a_process_forked_during_a_search_translates(engine):
    """The locks that the threads of its parent hold are free in it."""
    program = [sys.executable, "-c", FORKED, str(DEMO), engine]
    subprocess.run(program, check=True, timeout=120)


NEEDED = ("numpy", "safetensors", "sentencepiece", "typer")
"""What a command that translates needs, besides Python; see docs/models.md."""

CODE = """
import sys
from importlib.metadata import packages_distributions

allowed = {needed!r}
installed = packages_distributions()
others = {{name for name in installed if installed[name][0] not in allowed}}
others -= {{"headwise", "headwise_models", "_distutils_hack", "__editable__"}}


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Refuse())
from headwise.__main__ import main

sys.argv = ["headwise", "translate", {folder!r}, *{arguments!r}]
main()
"""


def translate_alone(*arguments):
    """Translate a line where no other packages are installed than ``NEEDED``."""
    needed = {*NEEDED, *DEPENDENCIES_OF_TYPER}
    code = CODE.format(needed=needed, folder=str(DEMO), arguments=arguments)
    return subprocess.run(
        [sys.executable, "-c", code],
        input="The dog sleeps in the garden.\n",
        capture_output=True,
        text=True,
        timeout=100,
    )


DEPENDENCIES_OF_TYPER = ("shellingham", "rich", "typing_extensions", "annotated-doc")


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("size", [0, 1])
def test_a_line_is_translated_where_torch_is_not_installed(beam, size):
    """A loop is searched again without repeated n-grams."""
    done = translate_alone("--beam", str(beam), "--search", f"no_repeat_ngram={size}")

    assert done.returncode == 0, done.stderr
    translator = load(DEMO, engine="torch")
    assert done.stdout.strip() == translator.translate(
        "The dog sleeps in the garden.", beam=beam, no_repeat_ngram=size
    )
    assert done.stderr.startswith("engine: native (C kernels with")


def test_where_torch_is_not_installed_a_search_that_needs_it_says_so():
    done = translate_alone("--search", "coverage=0.2")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headwise: this needs the Python package ")
    assert "Beam and greedy search of translations need less" in done.stderr
    assert done.stderr.count("\n") == 1
