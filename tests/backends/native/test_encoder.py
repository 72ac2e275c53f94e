"""The native encoder in inference: the vectors of EncoderOnly.encode."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.backends.native.one_stack import encoder_only, texts
from tests.model.one_stack_choices import OF_BACKENDS

from headwise.backends.native import encoder as native_encoder
from headwise.backends.native.encoder import NativeEncoder
from headwise.backends.reference import ReferenceEncoding
from headwise.backends.select_encoder import encode_batch
from headwise.errors import ModelError

pytestmark = pytest.mark.usefixtures("uses_native_backend")


@OF_BACKENDS
@torch.no_grad()
def test_the_vectors_are_those_of_the_model(choice):
    model, tokens = encoder_only(**choice).eval(), texts([7, 1, 4, 64, 1] * 9)

    expected = ReferenceEncoding().encode(model, tokens)

    found = encode_batch(model, tokens)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.no_grad()
def test_a_text_is_the_same_bits_in_any_batch(precision):
    lengths = [9, 30, 1, 300, 22]
    fast, tokens = NativeEncoder(encoder_only().eval(), precision), texts(lengths)

    together = fast.encode(tokens).split(lengths)
    for number, vectors in enumerate(together):
        alone = fast.encode(tokens.rows(torch.tensor([number])))
        assert torch.equal(vectors, alone)


@torch.no_grad()
def test_bfloat16_is_near():
    model, tokens = encoder_only(norm="pre").eval(), texts()
    exact = NativeEncoder(model).encode(tokens)
    near = NativeEncoder(model, "bf16").encode(tokens)

    torch.testing.assert_close(near, exact, rtol=0.08, atol=0.08)
    assert not torch.equal(near, exact)


@torch.no_grad()
def test_weights_are_packed_once_until_they_change():
    model, tokens = encoder_only().eval(), texts()
    before = encode_batch(model, tokens)
    packed = native_encoder._encoder_of(model)
    assert native_encoder._encoder_of(model) is packed

    model.encoder.blocks[0].feed_forward.widen.weight.mul_(2)

    assert native_encoder._encoder_of(model) is not packed
    after = encode_batch(model, tokens)
    assert not torch.equal(before, after)
    expected = ReferenceEncoding().encode(model, tokens)
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_model_that_is_dropped_is_freed():
    """Its packed weights are kept as long as there is a model, and no longer."""
    model = encoder_only().eval()
    encode_batch(model, texts())
    gone = weakref.ref(model)

    del model
    gc.collect()

    assert gone() is None


def test_only_float32_models_are_packed():
    with pytest.raises(ModelError, match="float32 on a CPU"):
        NativeEncoder(encoder_only().double())
