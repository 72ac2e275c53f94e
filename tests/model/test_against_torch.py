"""The whole stack computes what torch.nn.Transformer computes with the same weights.

Theirs: queries, keys and values in one matrix, biases everywhere, a norm at the end of
each stack. So we set its biases to zero, and leave the final norms out where ours, like
the paper's, has none.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headwise.model.attention import scaled_dot_product_attention
from headwise.model.positions import sinusoids

EXACT = {torch.float64: (1e-12, 1e-12), torch.float32: (2e-6, 1e-5)}
"""Norm-wise distance allowed in the output and in each gradient."""

RENAMED = {
    "blocks": "layers",
    "self_attention": "self_attn",
    "cross_attention": "multihead_attn",
    "to_output": "out_proj",
    "feed_forward.widen": "linear1",
    "feed_forward.narrow": "linear2",
    "around_attention.norm": "norm1",
    "around_self.norm": "norm1",
    "around_cross.norm": "norm2",
    "last_norm": "norm",
}
THIRDS = ["to_queries.", "to_keys.", "to_values."]
LAST_NORM = {"encoder": "norm2", "decoder": "norm3"}


def their_part(theirs, name):
    """Find the weight of theirs, or the third of one, that we call ``name``."""
    stack = name.partition(".")[0]
    name = name.replace("around_feed_forward.norm", LAST_NORM[stack])
    for our_word, their_word in RENAMED.items():
        name = name.replace(our_word, their_word)
    for number, word in enumerate(THIRDS):
        if word in name:
            return theirs[name.replace(word, "in_proj_")].chunk(3)[number]
    return theirs[name]


def theirs_like(model, *, pre):
    """Make torch's Transformer with the weights of ``model``."""
    first = next(model.parameters())
    kind = {"dtype": first.dtype, "batch_first": True, "norm_first": pre}
    kind["activation"] = model.config.activation
    widths = (model.config.d_model, model.config.num_heads, model.config.d_ff, 0.0)
    ends = [nn.LayerNorm(widths[0], dtype=first.dtype) if pre else None for _ in "ab"]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*widths, **kind),
        model.config.encoder_layers,
        ends[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*widths, **kind),
        model.config.decoder_layers,
        ends[1],
    )
    theirs = nn.Transformer(
        *widths[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    state = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, weight in state.items():
            if name.endswith(("in_proj_bias", "out_proj.bias")):
                weight.zero_()
        for name, weight in stack_weights(model):
            their_part(state, name).copy_(weight)
    return theirs


def stack_weights(model):
    return [
        (name, weight)
        for name, weight in model.named_parameters()
        if name.startswith(("encoder.", "decoder."))
    ]


def distance(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm()).item()


@pytest.fixture
def compared(small, batch):
    """Run both on one batch; return outputs, and gradients by our names, as pairs."""

    def compare(dtype, *, norm="post", attend=None, **changes):
        ours = small(dtype=dtype, norm=norm, **changes).train()
        if attend is not None:
            for module in ours.modules():
                if hasattr(module, "attend"):
                    module.attend = attend
        theirs = theirs_like(ours, pre=norm == "pre").train()
        vectors = ours.target_embedding.vectors.detach().clone().requires_grad_()
        source, target, is_real = batch
        target_is_real = torch.arange(6) < torch.tensor([[4], [6], [5]])

        def enter(tokens):
            width = vectors.shape[1]
            place = sinusoids(torch.arange(tokens.shape[1]), width).to(dtype)
            return F.embedding(tokens, vectors) * math.sqrt(width) + place

        top = theirs(
            enter(source),
            enter(target),
            tgt_mask=torch.ones(6, 6).triu(1).bool(),  # True hides, with torch
            src_key_padding_mask=~is_real,
            memory_key_padding_mask=~is_real,
            tgt_key_padding_mask=~target_is_real,
        )
        outputs = (
            ours(source, target, is_real)[target_is_real],
            F.linear(top, vectors)[target_is_real],
        )
        direction = torch.randn_like(outputs[0])
        for out in outputs:
            out.backward(direction)
        state = {name: weight.grad for name, weight in theirs.named_parameters()}
        gradients = {"vectors": (ours.target_embedding.vectors.grad, vectors.grad)}
        for name, weight in stack_weights(ours):
            gradients[name] = (weight.grad, their_part(state, name))
        return outputs, gradients

    return compare


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_output_and_every_gradient_equal_torch(compared, dtype, norm, activation):
    outputs, gradients = compared(dtype, norm=norm, activation=activation)

    forward, backward = EXACT[dtype]
    assert distance(*outputs) <= forward
    for name, pair in gradients.items():
        assert distance(*pair) <= backward, name


def test_the_reference_backend_equals_torch_as_well(compared):
    outputs, gradients = compared(torch.float64, attend=scaled_dot_product_attention)

    assert distance(*outputs) <= 1e-12
    assert all(distance(*pair) <= 1e-12 for pair in gradients.values())


def test_stacks_of_unequal_depth_equal_torch(compared):
    outputs, gradients = compared(torch.float64, encoder_layers=3, decoder_layers=1)

    assert distance(*outputs) <= 1e-12
    assert all(distance(*pair) <= 1e-12 for pair in gradients.values())


def test_biases_in_attention_equal_torch(compared):
    """The bias of the keys shifts all scores of a query alike: it has no gradient."""
    outputs, gradients = compared(torch.float64, attention_bias=True)

    assert distance(*outputs) <= 1e-12
    for name, pair in gradients.items():
        if name.endswith("to_keys.bias"):
            assert all(each.abs().max() < 1e-12 for each in pair)
        else:
            assert distance(*pair) <= 1e-12, name
