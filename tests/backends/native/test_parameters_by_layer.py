"""Every parameter of every sublayer is listed once, and is the model's own."""

from dataclasses import fields, replace

import pytest
import torch

from headwise.backends.native.parameters_by_layer import (
    AttentionParameters,
    SublayerParameters,
    parameters_by_layer,
)
from headwise.model.captioner import Captioner
from headwise.model.config import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_only import EncoderOnly
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.transformer import Transformer

CONFIG = TransformerConfig(
    encoder_layers=2, decoder_layers=3, d_model=16, d_ff=24, num_heads=2
)


def modules(layer: SublayerParameters) -> list[torch.nn.Module]:
    values = [getattr(layer, field.name) for field in fields(layer)]
    return [each for each in values if isinstance(each, torch.nn.Module)]


def kinds(stack: list[SublayerParameters]) -> list[str]:
    return [
        each.kind if isinstance(each, AttentionParameters) else "feed-forward"
        for each in stack
    ]


MODELS = {
    "encoder-decoder": Transformer(CONFIG, 50),
    "encoder-only": EncoderOnly(replace(CONFIG, decoder_layers=0), 50),
    "captioner": Captioner(replace(CONFIG, tie_embeddings="output"), 12, 50),
    "picture-encoder": PictureEncoder(replace(CONFIG, decoder_layers=0), 12),
    "decoder-only": DecoderOnly(replace(CONFIG, encoder_layers=0), 50),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_sublayers_of_all_stacks_are_covered_once(name):
    model = MODELS[name]
    weights = parameters_by_layer(model)

    found = [
        module
        for sublayer in (*weights.encoder, *weights.decoder)
        for module in modules(sublayer)
    ]

    blocks = [
        block for each in model.children() for block in getattr(each, "blocks", [])
    ]
    expected = [each for block in blocks for each in block.parameters()]
    named = [each for module in found for each in module.parameters()]
    assert expected
    assert sorted(map(id, named)) == sorted(map(id, expected))


def test_sublayers_stand_in_the_order_in_which_they_run():
    weights = parameters_by_layer(Transformer(CONFIG, 50))

    assert kinds(weights.encoder) == ["self", "feed-forward"] * 2
    assert kinds(weights.decoder) == ["causal", "cross", "feed-forward"] * 3


def test_a_model_of_one_stack_has_one_table():
    encoder, decoder = (
        parameters_by_layer(MODELS[name]) for name in ("encoder-only", "decoder-only")
    )

    assert kinds(encoder.encoder) == ["self", "feed-forward"] * 2
    assert kinds(decoder.decoder) == ["causal", "feed-forward"] * 3
    assert encoder.decoder == decoder.encoder == []


def test_parameters_are_of_the_right_sublayer():
    model = Transformer(CONFIG, 50)
    block = model.decoder.blocks[1]
    causal, cross, feed_forward = parameters_by_layer(model).decoder[3:6]

    assert causal.keys is block.self_attention.to_keys
    assert causal.around is block.around_self
    assert cross.output is block.cross_attention.to_output
    assert cross.around is block.around_cross
    assert feed_forward.expand is block.feed_forward.widen
    assert feed_forward.around is block.around_feed_forward
