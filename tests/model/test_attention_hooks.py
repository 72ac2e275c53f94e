"""Attention weights are recorded as they were used, and nothing stays changed."""

import pytest
import torch

from headwise.backends.pytorch.fused_attention import fused_attention
from headwise.backends.pytorch.install_fused import use_backend
from headwise.model.attention import MultiHeadAttention
from headwise.model.attention_hooks import record_attention_weights

NAMES = {
    *(f"encoder.blocks.{block}.self_attention" for block in range(2)),
    *(f"decoder.blocks.{block}.self_attention" for block in range(2)),
    *(f"decoder.blocks.{block}.cross_attention" for block in range(2)),
}


def attention_layers(model):
    return [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]


def test_the_attention_weights_of_every_layer_and_head_are_recorded(small, batch):
    source, target, is_real = batch
    with record_attention_weights(small()) as record:
        pass
    model = small()
    with record_attention_weights(model) as record:
        model(source, target, is_real)

    assert record.keys() == NAMES
    shapes = {name: [tuple(each.shape) for each in record[name]] for name in NAMES}
    assert shapes["encoder.blocks.1.self_attention"] == [(3, 4, 7, 7)]
    assert shapes["decoder.blocks.0.self_attention"] == [(3, 4, 6, 6)]
    assert shapes["decoder.blocks.1.cross_attention"] == [(3, 4, 6, 7)]


def test_recorded_weights_sum_to_one_and_are_zero_where_masked(small, batch):
    source, target, is_real = batch
    model = small()
    with record_attention_weights(model) as record:
        model(source, target, is_real)

    for weights in (each for found in record.values() for each in found):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    (crossing,) = record["decoder.blocks.1.cross_attention"]
    assert (crossing[2, :, :, 2:] == 0).all()  # the third source has two words
    (own,) = record["decoder.blocks.0.self_attention"]
    assert (own.triu(diagonal=1) == 0).all()


def test_the_recorded_weights_give_the_output(small, batch):
    """The last layer again, from its weights and values by hand."""
    model = small(decoder_layers=1, norm="pre")
    layer = model.decoder.blocks[0].cross_attention
    x, source = torch.randn(3, 6, 16), torch.randn(3, 7, 16)
    with record_attention_weights(model) as record:
        found = layer(x, source)

    (weights,) = record["decoder.blocks.0.cross_attention"]
    heads = weights @ layer.project_keys_values(source).values
    joined = heads.transpose(1, 2).flatten(start_dim=2)
    torch.testing.assert_close(found, layer.to_output(joined))


def test_recording_changes_no_output(small, batch):
    source, target, is_real = batch
    model = small()
    plain = model(source, target, is_real)
    with record_attention_weights(model):
        recorded = model(source, target, is_real)

    torch.testing.assert_close(recorded, plain)


def test_attention_functions_are_restored_even_after_an_error(small):
    model = use_backend(small(), "auto")
    with pytest.raises(RuntimeError, match="why"), record_attention_weights(model):
        raise RuntimeError("why")

    assert all(layer.attend is fused_attention for layer in attention_layers(model))
