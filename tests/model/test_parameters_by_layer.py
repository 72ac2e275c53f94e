"""Every parameter of every block is listed once, and is the model's own."""

import torch

from headwise.model.config import TransformerConfig
from headwise.model.parameters_by_layer import AttentionParameters, parameters_by_layer
from headwise.model.transformer import Transformer

CONFIG = TransformerConfig(
    encoder_layers=2, decoder_layers=3, d_model=16, d_ff=24, num_heads=2
)


def modules(layer: AttentionParameters) -> list[torch.nn.Module]:
    return [layer.queries, layer.keys, layer.values, layer.output, layer.norm]


def test_the_blocks_of_both_stacks_are_covered_once():
    model = Transformer(CONFIG, 50)
    weights = parameters_by_layer(model)

    found = []
    for block in (*weights.encoder, *weights.decoder):
        found += modules(block.self_attention)
        found += modules(block.cross_attention) if block.cross_attention else []
        found += [block.expand, block.project, block.norm]

    stacks = [*model.encoder.blocks, *model.decoder.blocks]
    expected = [each for block in stacks for each in block.parameters()]
    named = [each for module in found for each in module.parameters()]
    assert (len(weights.encoder), len(weights.decoder)) == (2, 3)
    assert sorted(map(id, named)) == sorted(map(id, expected))


def test_only_the_decoder_has_cross_attention():
    weights = parameters_by_layer(Transformer(CONFIG, 50))

    assert all(each.cross_attention is None for each in weights.encoder)
    assert all(each.cross_attention is not None for each in weights.decoder)


def test_parameters_are_of_the_right_layer():
    model = Transformer(CONFIG, 50)
    weights, block = parameters_by_layer(model).decoder[1], model.decoder.blocks[1]

    assert weights.self_attention.keys is block.self_attention.to_keys
    assert weights.self_attention.norm is block.around_self.norm
    assert weights.cross_attention.output is block.cross_attention.to_output
    assert weights.cross_attention.norm is block.around_cross.norm
    assert weights.expand is block.feed_forward.widen
    assert weights.norm is block.around_feed_forward.norm
