"""Fast backends have no code for variants: they say so by name, and the model runs."""

from dataclasses import replace

import pytest
import torch
from tests.backends.test_select_training import batch_of, learned
from tests.model.conftest import SMALL, VOCABULARY
from tests.model.variant_choices import EACH, ONE_OF_EACH

from headwise.backends.cuda.cuda_graph_decoder import CudaGraphDecoder
from headwise.backends.native.customization_check import find_customization
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.encoder import NativeEncoder
from headwise.backends.native.training import why_not_native
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.uncached_decoder import UncachedDecoder
from headwise.backends.reference import (
    ReferenceDecoder,
    ReferenceEncoding,
    ReferenceTraining,
    why_reference_only,
)
from headwise.backends.select_decoder import make_decoder
from headwise.backends.select_encoder import ENCODING_BACKENDS, encoding_backend
from headwise.backends.select_training import TRAINING_BACKENDS, training_backend
from headwise.errors import ModelError
from headwise.inspection.interventions import HeadOff, intervene
from headwise.inspection.places import Head
from headwise.model.encoder_only import EncoderOnly
from headwise.model.transformer import Transformer

SETTINGS = pytest.mark.parametrize("name", ONE_OF_EACH)


def made(name):
    config = replace(SMALL, **{name: ONE_OF_EACH[name]})
    return Transformer(config, VOCABULARY, seed=1).eval()


@SETTINGS
def test_the_reason_names_the_setting(name):
    reason = why_reference_only(made(name))
    assert f"model.{name} = {ONE_OF_EACH[name]!r}: variants, which only" in reason
    assert why_not_native(made(name)) == reason


def test_interventions_are_named_before_variants():
    model = made("attention")
    with intervene(model, HeadOff(Head("encoder", 0, 1))):
        assert "encoder.0.1 off" in why_reference_only(model)


def test_the_paper_has_no_reason():
    assert why_reference_only(Transformer(SMALL, VOCABULARY)) is None


@pytest.mark.parametrize("native", [None, True, False])
@SETTINGS
def test_the_model_itself_decodes(name, native):
    assert isinstance(make_decoder(made(name), native=native), ReferenceDecoder)


@pytest.mark.parametrize("backend", TRAINING_BACKENDS)
@SETTINGS
def test_the_model_itself_trains(name, backend):
    model = use_backend(made(name).train(), backend)
    chosen = training_backend(model, batch_of([5, 2], [1, 6]))
    assert isinstance(chosen, ReferenceTraining)


@pytest.mark.parametrize("backend", ENCODING_BACKENDS)
@SETTINGS
def test_the_model_itself_encodes(name, backend):
    config = replace(SMALL, decoder_layers=0, **{name: ONE_OF_EACH[name]})
    model = use_backend(EncoderOnly(config, VOCABULARY), backend)
    texts = batch_of([5, 2], [1, 6]).source
    assert isinstance(encoding_backend(model, texts), ReferenceEncoding)


@pytest.mark.parametrize("decoder", [TorchDecoder, CudaGraphDecoder, NativeDecoder])
@SETTINGS
def test_a_fast_decoder_refuses_by_name(name, decoder, needs_native_library):
    with pytest.raises(ModelError, match=f"model.{name} = .* make_decoder runs it"):
        decoder(made(name))


@SETTINGS
def test_the_native_encoder_refuses_by_name(name, needs_native_library):
    config = replace(SMALL, decoder_layers=0, **{name: ONE_OF_EACH[name]})
    with pytest.raises(ModelError, match=f"model.{name} = "):
        NativeEncoder(EncoderOnly(config, VOCABULARY))


@EACH
def test_fused_functions_train_as_those_of_the_paper(choice):
    """What a variant leaves of the paper is fused, and its own boxes stay its own."""
    model = Transformer(replace(SMALL, **choice), VOCABULARY, seed=1).train()
    batch = batch_of([5, 2, 4], [1, 6, 3])
    statistics = {n: each.clone() for n, each in model.named_buffers()}
    loss, gradients = learned(use_backend(model, "reference"), batch)
    model.load_state_dict(statistics, strict=False)

    fused_loss, fused = learned(use_backend(model, "auto"), batch)

    assert fused_loss == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(fused, gradients, rtol=1e-4, atol=1e-5)


@EACH
def test_a_variant_is_not_taken_for_a_customized_model(choice):
    """So data-parallel workers, which build it from its settings, may train it."""
    model = Transformer(replace(SMALL, **choice), VOCABULARY, seed=1).train()
    assert find_customization(use_backend(model, "auto")) is None


@EACH
def test_decoding_equals_that_without_a_cache(choice):
    """Token by token, as a search does; batch mates and padding included."""
    model = Transformer(replace(SMALL, **choice), VOCABULARY, seed=1).eval()
    source = torch.randint(4, VOCABULARY, (3, 5))
    is_real = torch.arange(5) < torch.tensor([[5], [3], [1]])
    cached, uncached = (
        make_decoder(model),
        UncachedDecoder(model, length=8, padding=0),
    )
    states = cached.start(source, is_real), uncached.start(source, is_real)
    tokens = torch.tensor([1, 1, 1])
    for _ in range(7):
        scores, first = cached.step(tokens, states[0])
        wanted, second = uncached.step(tokens, states[1])
        torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-5)
        tokens, states = scores.argmax(-1), (first, second)
