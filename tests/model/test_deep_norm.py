"""DeepNorm (Wang et al. 2022): its constants, its initial weights, its purpose."""

import pytest
import torch

from headwise.model import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.model.deep_norm import deep_norm, initial_gain, residual_scale
from headwise.model.encoder_only import EncoderOnly
from headwise.model.transformer import Transformer


def config(encoder_layers, decoder_layers, norm="deep", **changes):
    return TransformerConfig(
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        norm=norm,
        **{"d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.0, **changes},
    )


@pytest.mark.parametrize(
    ("layers", "stack", "alpha", "beta"),
    [
        # An encoder or a decoder alone of 8 layers: 16^(1/4) = 2, 64^(-1/4) = 8^(-1/2).
        ((8, 0), "encoder", 2, 8**-0.5),
        ((0, 8), "decoder", 2, 8**-0.5),
        # (N⁴ M)^(1/16) with N = 16 and M = 1 is 65,536^(1/16) = 2.
        ((16, 1), "encoder", 1.62, 0.435),
        ((16, 1), "decoder", 3**0.25, 12**-0.25),
        # The decoder's constants do not depend on the encoder: (3 · 27)^(1/4) = 3.
        ((5, 27), "decoder", 3, 324**-0.25),
    ],
)
def test_the_constants_are_those_of_the_table(layers, stack, alpha, beta):
    found = deep_norm(config(*layers), stack)

    assert found.residual_scale == pytest.approx(alpha, rel=1e-12)
    assert found.initial_gain == pytest.approx(beta, rel=1e-12)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_other_norms_scale_nothing(norm):
    assert residual_scale(config(3, 3, norm), "encoder") == 1


@pytest.mark.parametrize(
    ("layer", "is_scaled"),
    [
        ("encoder.blocks.0.self_attention.to_queries", False),
        ("encoder.blocks.0.self_attention.to_keys", False),
        ("encoder.blocks.0.self_attention.to_values", True),
        ("encoder.blocks.0.self_attention.to_output", True),
        ("encoder_only.encoder.blocks.1.feed_forward.widen", True),
        ("encoder.blocks.1.feed_forward.narrow", True),
        ("dense", False),
    ],
)
def test_values_outputs_and_feed_forward_begin_smaller(layer, is_scaled):
    shape = config(8, 0)

    assert initial_gain(shape, layer) == pytest.approx(8**-0.5 if is_scaled else 1)


def test_initial_weights_have_the_variance_of_the_paper():
    """Xavier-normal: the standard deviation is gain · √(2 / (inputs + outputs))."""
    shape = config(8, 1, d_model=64, d_ff=256)
    model = Transformer(shape, 50, seed=3)
    block = model.encoder.blocks[0]
    beta = 0.87 / 8**0.25

    for layer, gain in (
        (block.self_attention.to_queries, 1),
        (block.self_attention.to_values, beta),
        (block.self_attention.to_output, beta),
        (block.feed_forward.widen, beta),
        (block.feed_forward.narrow, beta),
    ):
        inputs_and_outputs = sum(layer.weight.shape)
        expected = gain * (2 / inputs_and_outputs) ** 0.5
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
        assert layer.weight.abs().max() > 3 * expected  # normal, not uniform


@pytest.mark.parametrize("model", [EncoderOnly, DecoderOnly])
def test_one_stack_has_its_own_constants(model):
    layers = (8, 0) if model is EncoderOnly else (0, 8)
    made = model(config(*layers), 50)

    scales = [
        each.residual_scale
        for each in made.modules()
        if hasattr(each, "residual_scale")
    ]
    assert scales == pytest.approx([2] * 16)


@torch.no_grad()
def test_each_sublayer_of_a_deep_stack_changes_less_than_in_a_shallow_one():
    """The purpose: a sublayer's share of the sum falls as the square root of depth.

    With LayerNorm before it, α x has length α √D, and f of Sublayer(x) about β² of the
    length of x: their ratio is β² / α ~ (8N)^(-1/2) (2N)^(-1/4). From 2 to 32 layers it
    falls by 16^(3/4) = 8; 4 is asked for, as the weights are random.
    """
    shares = []
    for layers in (2, 32):
        shape = config(layers, 0, d_model=64, d_ff=256, num_heads=4)
        block = EncoderOnly(shape, 50, seed=1).encoder.blocks[0]
        x = torch.nn.functional.layer_norm(torch.randn(1, 9, 64), (64,))
        added = block.feed_forward(x)
        scale = block.around_feed_forward.residual_scale
        shares.append((added.norm() / (scale * x).norm()).item())

    assert shares[1] < shares[0] / 4
