"""Models with one stack, by the structs that encoder-decoders use: equal to autograd.

They are made of the stacks of an encoder-decoder: its encoder alone, as in BERT, and
its decoder without cross-attention, as in GPT.
"""

from __future__ import annotations

import math
from ctypes import byref

import numpy as np
import pytest
import torch
from tests.backends.native.test_training import assert_close, batch_of, trained

from headwise.backends.native.ctypes_structs import (
    ALIGNMENT,
    CROSS_ATTENTION,
    FEED_FORWARD,
    RaggedTokens,
    Stack,
    TrainBatch,
)
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.functions import kernels
from headwise.backends.native.gradients import GradientBuffers
from headwise.backends.native.model_struct import make_stack
from headwise.backends.pytorch.install_fused import use_backend
from headwise.losses import cross_entropy
from headwise.model.masks import make_padding_mask
from headwise.model.transformer import Transformer

pytestmark = pytest.mark.usefixtures("uses_native_backend")

VARIANTS = [{}, {"norm": "pre", "activation": "gelu", "positions": "learned"}]


def without_cross_attention(stack: Stack) -> Stack:
    table = [stack.sublayers[i] for i in range(stack.num_sublayers)]
    kept = [each for each in table if each.kind != CROSS_ATTENTION]
    return make_stack(kept, embedding=stack.embedding, norm=stack.norm)


def decoder_only(model: Transformer) -> Transformer:
    """Skip the cross-attention sublayers of a model, with their norms."""
    for block in model.decoder.blocks:
        block.around_cross.add_residual = lambda x, out: x
    return model


def run_natively(model, side, targets, *, is_decoder):
    """Return loss and gradients of one stack of ``model`` on the sentences ``side``."""
    buffers = GradientBuffers(model, side.max_length)
    given = RaggedTokens(side.tokens.data_ptr(), side.offsets.data_ptr())
    batch = TrainBatch(
        sentences=len(side.lengths), targets=targets.data_ptr(), smoothing=0.1
    )
    if is_decoder:
        batch.decoder_input = given
        stack = without_cross_attention(buffers.struct.decoder)
        buffers.struct.decoder, buffers.struct.encoder = stack, Stack()
    else:
        batch.source, buffers.struct.decoder = given, Stack()
    arguments = byref(buffers.struct), byref(batch)
    size = kernels().train_scratch_bytes(*arguments)
    scratch = np.empty(size + ALIGNMENT, np.uint8)
    begin = -(-scratch.ctypes.data // ALIGNMENT) * ALIGNMENT
    loss = kernels().forward_backward(*arguments, begin).total
    return loss, buffers.hand_over()


def run_by_autograd(model, side, targets, *, is_decoder):
    copy = Transformer(model.config, model.source_vocab_size)
    copy.load_state_dict(model.state_dict())
    use_backend(decoder_only(copy).double().train(), "reference")
    tokens = side.padded()
    if is_decoder:
        out = copy.decode(tokens, tokens, side.is_real)
    else:
        x = copy.enter_encoder(copy.source_embedding(tokens), 0)
        out = copy.encoder(x, make_padding_mask(side.is_real))
    loss = cross_entropy(copy.logits(out)[side.is_real], targets, 0.1)
    loss.backward()
    zeros = [torch.zeros_like(each) for each in copy.parameters()]
    pairs = zip(copy.parameters(), zeros, strict=True)
    return loss.item(), [
        zero if each.grad is None else each.grad for each, zero in pairs
    ]


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("is_decoder", [False, True], ids=["encoder", "decoder"])
def test_a_model_of_one_stack_trains_as_by_autograd(is_decoder, changes):
    model = trained(**changes)
    side = batch_of(101, ([7, 1, 4, 150, 17, 33, 140], [1] * 7)).source
    targets = torch.randint(4, 101, (len(side.tokens),))

    loss, gradients = run_natively(model, side, targets, is_decoder=is_decoder)
    expected, theirs = run_by_autograd(model, side, targets, is_decoder=is_decoder)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


@pytest.mark.parametrize("changes", VARIANTS)
@torch.inference_mode()
def test_a_decoder_without_cross_attention_decodes(changes):
    """The KV cache has an entry for each self-attention sublayer alone."""
    model = trained(**changes).eval()
    fast = NativeDecoder(model)
    struct = fast.steps.weights.model
    struct.decoder = without_cross_attention(struct.decoder)
    source, tokens = torch.tensor([[5], [6], [7]]), torch.tensor([1, 2, 3])
    state, slow = fast.start(source, source > 0), decoder_only(model)
    expected = slow.start(source, source > 0)

    for _ in range(4):
        scores, state = fast.step(tokens, state)
        theirs, expected = slow.step(tokens, expected)
        torch.testing.assert_close(scores, theirs, rtol=1e-5, atol=1e-5)
        tokens = scores.argmax(1)


def test_the_table_has_the_sublayers_of_both_stacks():
    struct = NativeDecoder(trained()).steps.weights.model

    assert (struct.encoder.num_sublayers, struct.decoder.num_sublayers) == (4, 6)
    assert struct.decoder.sublayers[4].kind == CROSS_ATTENTION
    assert struct.decoder.sublayers[5].kind == FEED_FORWARD
