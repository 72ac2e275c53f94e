"""Residual connections that carry less than everything."""

from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL
from tests.model.variant_choices import CONCATENATED

from headwise.errors import SettingsError
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.variants.residuals import LastChannels

PLACEMENTS = pytest.mark.parametrize("placement", ["post", "pre"])


def test_the_last_channels_are_carried():
    carried = LastChannels(2)(torch.tensor([[[1.0, 2, 3, 4, 5]]]))
    assert carried.tolist() == [[[0, 0, 0, 4, 5]]]


@PLACEMENTS
def test_without_residual_connections_the_output_of_the_sublayer_goes_on(placement):
    layer = AddAndNorm(4, 0.0, placement, residual=torch.zeros_like)
    x, out = torch.randn(2, 1, 3, 4)
    wanted = layer.norm(out) if placement == "post" else out
    torch.testing.assert_close(layer.add_residual(x, out), wanted)


@PLACEMENTS
def test_only_positions_go_around_a_sublayer(placement):
    layer = AddAndNorm(4, 0.0, placement, residual=LastChannels(1))
    x, out = torch.randn(2, 1, 3, 4)
    total = torch.cat([out[..., :3], out[..., 3:] + x[..., 3:]], dim=-1)
    wanted = layer.norm(total) if placement == "post" else total
    torch.testing.assert_close(layer.add_residual(x, out), wanted)


def test_positions_reach_the_last_block_around_all_sublayers(encoder_only):
    """Pre-norm, with sublayers that add nothing: what is left are the encodings."""
    model = encoder_only(residual="positions", norm="pre", d_position=6, **CONCATENATED)
    for block in model.encoder.blocks:
        for output in (block.self_attention.to_output, block.feed_forward.narrow):
            for each in output.parameters():
                torch.nn.init.zeros_(each)
    outputs = []
    model.encoder.blocks[-1].register_forward_hook(
        lambda m, i, out: outputs.append(out)
    )
    tokens = torch.randint(1, 11, (2, 5))

    model(tokens, tokens > 0)

    x = model.enter_encoder(model.embedding(tokens), 0)
    assert torch.equal(outputs[0][..., -6:], x[..., -6:])
    assert not outputs[0][..., :-6].any()


def test_there_must_be_channels_of_positions():
    with pytest.raises(SettingsError, match="has channels of its own with"):
        replace(SMALL, residual="positions")
