"""v3 and v4 give the same bits: AVX-512 changes the speed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headwise.backends.native.library import NativeLibraryError, load_variant
from headwise.backends.native.variants import VARIANTS

CODE = """
import hashlib, torch
from headwise.backends.native import library
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.training import native_loss
from headwise.backends.pytorch.install_fused import use_backend
from headwise.model import TransformerConfig
from headwise.model.transformer import Transformer

SIZES = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 24, "d_ff": 40}
MODELS = (
    {},
    {"norm": "pre", "activation": "gelu", "embedding_norm": True},
    {"activation": "swish", "d_model": 128, "num_heads": 2, "positions": "learned"},
    {"d_k": 7, "d_v": 5, "d_ff": 9, "attention_bias": True, "output_bias": True},
    {"attention_dropout": 0.3, "feed_forward_dropout": 0.2, "dropout": 0.1},
)
torch.manual_seed(0)
torch.set_num_threads(1)
for changes in MODELS:
    config = TransformerConfig(**{"num_heads": 3, "dropout": 0.0, **SIZES, **changes})
    model = use_backend(Transformer(config, 1100, seed=1).train(), "native")
    real = torch.arange(19) < torch.tensor([19, 1, 7, 16, 17])[:, None]
    source, target_in, target_out = torch.randint(4, 1100, (3, 5, 19))
    batch = (source * real, target_in * real, target_out * real, real, real)
    for half in (False, True):
        found = hashlib.sha256()
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = native_loss(model, *batch, 0.1)
        loss.backward()
        for each in [loss.detach(), *(each.grad for each in model.parameters())]:
            found.update(each.numpy().tobytes())
        decoder = NativeDecoder(model, "bf16" if half else "float32")
        state = decoder.start(source * real, real)
        for column in range(3):
            scores, state = decoder.step(target_in[:, column], state)
            found.update(scores.numpy().tobytes())
            state = state.rows(torch.tensor([4, 0, 0, 2, 1]))
        print(library.build().variant, changes, half, found.hexdigest())
"""
"""Prints a digest of losses, gradients and scores, for each model and precision."""


def digests(name: str) -> list[str]:
    variant = next(each for each in VARIANTS if each.name == name)
    try:
        load_variant(variant)
    except NativeLibraryError as error:
        pytest.skip(f"{name}: {error}")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "HEADWISE_NATIVE": name},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith(f"{name} ") for line in lines)
    return [line.removeprefix(f"{name} ") for line in lines]


@pytest.mark.parametrize("other", ["v3", "v4"])
def test_training_and_decoding_give_the_same_bits_by_v3_and_by(other):
    """By v3 once more as well: it depends on no memory that was not written."""
    found = digests("v3")

    assert len(set(found)) == 10
    assert found == digests(other)
