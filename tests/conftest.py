"""What all tests share: shape annotations are checked while they run, and only then."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook
from tests.tiny import SETTINGS, write_text
from tests.torch_threads import torch_threads

LAYERS = "attention feed_forward add_and_norm embeddings positions masks dropout"
STACKS = "encoder decoder kv_cache transformer attention_hooks"
OTHERS = "encoder_only decoder_only heads patches rotary_positions"
VARIANTS = "attention scores relative_positions position_encodings norms residuals"
MODULES = [
    *(f"headwise.model.{name}" for name in f"{LAYERS} {STACKS} {OTHERS}".split()),
    *(f"headwise.model.variants.{name}" for name in VARIANTS.split()),
    "headwise.model.variants.gated_feed_forward",
]

install_import_hook(MODULES, "beartype.beartype")

# A shell ignores SIGINT for what it runs in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Whatever a test starts inherits this: a crash in C code says where Python was.
os.environ["PYTHONFAULTHANDLER"] = "1"

# How long an example takes says how busy a machine is.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")

# Small matrices gain nothing from threads, and tests run side by side.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fixed_seed():
    """Let what torch draws be the same in each run, whatever ran before."""
    torch.manual_seed(2017)


@pytest.fixture(scope="session")
def needs_native_library() -> None:
    """Skip what needs the native library where there is none."""
    from headwise.backends.native.library import why_unavailable

    if why_unavailable():
        pytest.skip(str(why_unavailable()))


@pytest.fixture
def prefers_native_backend(monkeypatch):
    """Take kernels in C wherever there are any, also where others are faster."""
    from headwise.backends.native.library import SWITCH

    monkeypatch.setenv(SWITCH, "on")


@pytest.fixture
def uses_native_backend(needs_native_library, prefers_native_backend) -> None:
    """Run by kernels in C, whatever this processor is; skip where there are none."""


@pytest.fixture
def three_threads():
    """Give torch three threads, and those that it had afterwards."""
    with torch_threads(3):
        yield


@pytest.fixture
def no_kernels_to_choose(monkeypatch):
    """Let the engine ``auto`` choose as where there are no compiled kernels."""
    from headwise.inference.engines import auto_engine

    monkeypatch.setattr(auto_engine, "why_not_preferred", lambda *_: "")


@pytest.fixture
def rewrite():
    """Change a file of a folder and make the manifest agree, as an attacker would."""
    from headwise.storage.manifests import manifest_sha256

    def change(folder, name, content):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"][name] = {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        manifest["sha256"] = manifest_sha256(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Return the folder of real corpora; tests that need it are skipped without it."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HEADWISE_CORPORA", default))
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; HEADWISE_CORPORA may name their folder")
    return folder


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory):
    """Return the two files of a small parallel text; not to be changed."""
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory, tiny_text):
    """Return the folder of a finished run on ``tiny_text``; not to be changed."""
    from headwise.data.prepare import prepare
    from headwise.recipe import resolve
    from headwise.run_folder.paths import PREPARED
    from headwise.run_folder.run import train_run

    source, target = map(str, tiny_text)
    data = {"corpora": [{"source": source, "target": target}]}
    recipe = resolve(extra={**SETTINGS, "data": data})
    folder = tmp_path_factory.mktemp("tiny") / "run"
    corpus = prepare(recipe.data, recipe.text, folder / PREPARED, seed=recipe.seed)
    train_run(folder, recipe, corpus)
    SHARED.append(folder)
    return folder


SHARED: list[Path] = []
"""Folders that many tests read."""

KEPT = Path(__file__).parent / "models" / "demo" / "exports"


@pytest.fixture(autouse=True)
def unshared():
    """Take away the exports that a translation with a shared folder left beside it.

    The model of the repository is copied by whoever translates with an export.
    """
    before = KEPT.exists()
    yield
    assert before or not KEPT.exists(), f"this test left {KEPT}; copy the model first"
    for folder in SHARED:
        shutil.rmtree(folder / "best" / "exports", ignore_errors=True)
