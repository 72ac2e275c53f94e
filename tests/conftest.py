"""What all tests share: shape annotations are checked while they run, and only then."""

import os
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

BOXES = "attention feed_forward add_and_norm embeddings positions masks dropout"
WHOLES = "encoder decoder memory transformer refill"
MODULES = [f"headwise.model.{name}" for name in f"{BOXES} {WHOLES}".split()]

install_import_hook(MODULES, "beartype.beartype")

# Small matrices gain nothing from threads, and tests run side by side.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Return the folder of real corpora; tests that need it are skipped without it."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HEADWISE_CORPORA", default))
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; HEADWISE_CORPORA may name their folder")
    return folder
