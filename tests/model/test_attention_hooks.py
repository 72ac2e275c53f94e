"""Looking inside: weights come out as they were used, and nothing stays changed."""

import pytest
import torch

from headwise.backends.pytorch.fused_attention import fused_attention
from headwise.backends.pytorch.install_fused import use_backend
from headwise.model.attention import MultiHeadAttention
from headwise.model.attention_hooks import attention_seen

NAMES = {
    *(f"encoder.blocks.{block}.self_attention" for block in range(2)),
    *(f"decoder.blocks.{block}.self_attention" for block in range(2)),
    *(f"decoder.blocks.{block}.cross_attention" for block in range(2)),
}


def boxes(model):
    return [box for box in model.modules() if isinstance(box, MultiHeadAttention)]


def test_every_box_is_seen_with_every_head(small, batch):
    source, target, is_real = batch
    with attention_seen(small()) as seen:
        pass
    model = small()
    with attention_seen(model) as seen:
        model(source, target, is_real)

    assert seen.keys() == NAMES
    shapes = {name: [tuple(each.shape) for each in seen[name]] for name in NAMES}
    assert shapes["encoder.blocks.1.self_attention"] == [(3, 4, 7, 7)]
    assert shapes["decoder.blocks.0.self_attention"] == [(3, 4, 6, 6)]
    assert shapes["decoder.blocks.1.cross_attention"] == [(3, 4, 6, 7)]


def test_weights_are_shares_and_what_is_masked_gets_none(small, batch):
    source, target, is_real = batch
    model = small()
    with attention_seen(model) as seen:
        model(source, target, is_real)

    for weights in (each for found in seen.values() for each in found):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    (crossing,) = seen["decoder.blocks.1.cross_attention"]
    assert (crossing[2, :, :, 2:] == 0).all()  # the third source has two words
    (own,) = seen["decoder.blocks.0.self_attention"]
    assert (own.triu(diagonal=1) == 0).all()


def test_the_weights_seen_are_those_that_made_the_output(small, batch):
    """The last box again, from its weights and values by hand."""
    model = small(decoder_layers=1, norm="pre")
    box = model.decoder.blocks[0].cross_attention
    asking, told = torch.randn(3, 6, 16), torch.randn(3, 7, 16)
    with attention_seen(model) as seen:
        found = box(asking, told)

    (weights,) = seen["decoder.blocks.0.cross_attention"]
    heads = weights @ box.remember(told).values
    joined = heads.transpose(1, 2).flatten(start_dim=2)
    torch.testing.assert_close(found, box.to_output(joined))


def test_looking_changes_no_output(small, batch):
    source, target, is_real = batch
    model = small()
    plain = model(source, target, is_real)
    with attention_seen(model):
        looked_at = model(source, target, is_real)

    torch.testing.assert_close(looked_at, plain)


def test_afterwards_everything_is_as_before_even_after_an_error(small):
    model = use_backend(small(), "auto")
    with pytest.raises(RuntimeError, match="why"), attention_seen(model):
        raise RuntimeError("why")

    assert all(box.attend is fused_attention for box in boxes(model))
