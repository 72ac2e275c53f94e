"""Which decoder a model gets: by its device, its weights, and what is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headwise.backends.native import library
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.decoder_only import NativeDecoderOnly
from headwise.backends.native.library import NativeLibraryError
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.reference import ReferenceDecoder
from headwise.backends.select_decoder import make_decoder, runs_natively
from headwise.model import DecoderOnly
from headwise.model.config import TransformerConfig
from headwise.model.kinds import ENCODER_DECODERS, new_encoder_decoder
from headwise.model.transformer import Transformer

CONFIG = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=16, d_ff=32, num_heads=2
)


def test_without_kernels_pytorch_decodes(monkeypatch, tmp_path):
    """A model gets the PyTorch decoder, and whoever asks is told why."""
    model = Transformer(CONFIG, 50).eval()

    def none():
        raise NativeLibraryError("no library")

    monkeypatch.setattr("headwise.backends.native.weights.kernels", none)
    monkeypatch.setattr(library, "_library_or_reason", lambda: "no library")

    assert isinstance(make_decoder(model), TorchDecoder)
    assert isinstance(make_decoder(model, native=True), TorchDecoder)
    assert library.why_unavailable() == "no library"


@pytest.mark.usefixtures("uses_native_backend")
def test_a_model_that_the_kernels_cannot_run_gets_pytorch():
    model = Transformer(CONFIG, 50).eval()

    assert isinstance(make_decoder(model), NativeDecoder)
    assert isinstance(make_decoder(model, native=False), TorchDecoder)
    assert isinstance(make_decoder(model.to(torch.float64)), TorchDecoder)


@pytest.mark.usefixtures("uses_native_backend")
def test_a_decoder_alone_has_kernels_or_is_its_own_decoder():
    model = DecoderOnly(replace(CONFIG, encoder_layers=0), 50).eval()

    assert isinstance(make_decoder(model), NativeDecoderOnly)
    assert isinstance(make_decoder(model, "bf16", native=True), NativeDecoderOnly)
    for other in (model, DecoderOnly(model.config, 50).to(torch.float64)):
        decoder = make_decoder(other, native=False if other is model else None)
        assert isinstance(decoder, ReferenceDecoder)
        assert decoder.is_current(other)
        assert not decoder.is_current(DecoderOnly(model.config, 50))


def test_only_float32_models_run_natively():
    model = Transformer(CONFIG, 50)

    assert runs_natively(model)
    assert not runs_natively(model.to(torch.float64))


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_transformers_alone_run_natively(kind):
    model = new_encoder_decoder(replace(CONFIG, kind=kind), 50)

    assert runs_natively(model) == (kind == "transformer")
