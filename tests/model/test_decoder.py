"""The decoder: the right half of Figure 1."""

import pytest
import torch

from headwise.model.attention import scaled_dot_product_attention
from headwise.model.masks import make_causal_mask, make_padding_mask

NORMS = pytest.mark.parametrize("norm", ["post", "pre", "deep"])


def decoded(model, encoded, x, is_real):
    state = model.decoder.initial_state(encoded, make_padding_mask(is_real))
    return model.decoder(x, state, make_causal_mask(x.shape[1], x.device))


@NORMS
def test_a_decoder_block_is_three_sublayers_with_residual_connections(small, norm):
    model = small(norm=norm, decoder_layers=1)
    block = model.decoder.blocks[0]
    arounds = (block.around_self, block.around_cross, block.around_feed_forward)
    first, second, third = (around.norm for around in arounds)
    x, encoded = torch.randn(1, 4, 16), torch.randn(1, 3, 16)
    past, real = make_causal_mask(4, x.device), torch.ones(1, 3, dtype=torch.bool)

    if norm != "pre":
        scale = 3**0.25 if norm == "deep" else 1  # (3 M)^(1/4) with M = 1
        y = first(scale * x + block.self_attention(x, x, past))
        z = second(scale * y + block.cross_attention(y, encoded))
        expected = third(scale * z + block.feed_forward(z))
    else:
        y = x + block.self_attention(first(x), first(x), past)
        z = y + block.cross_attention(second(y), encoded)
        expected = model.decoder.last_norm(z + block.feed_forward(third(z)))

    torch.testing.assert_close(decoded(model, encoded, x, real), expected)


@pytest.mark.parametrize("readable", [False, True])
@NORMS
def test_no_position_depends_on_a_later_one(small, norm, readable):
    """The derivative of position i by position j is exactly 0 for every j > i."""
    model = small(norm=norm, dtype=torch.float64)
    if readable:
        for module in model.modules():
            if hasattr(module, "attend"):
                module.attend = scaled_dot_product_attention
    encoded = torch.randn(1, 3, 16, dtype=torch.float64)
    embedded = torch.randn(1, 6, 16, dtype=torch.float64)
    real = torch.ones(1, 3, dtype=torch.bool)

    def scores(embedded):
        x = model.enter_decoder(embedded, 0)
        return model.logits(decoded(model, encoded, x, real))

    seen = torch.autograd.functional.jacobian(scores, embedded)
    seen = seen[0, :, :, 0].abs().amax(dim=(1, 3))  # 1 L V 1 L D -> L L

    past = torch.ones(6, 6, dtype=torch.bool).tril()
    assert (seen[~past] == 0).all()
    assert (seen[past] > 0).all()


def test_no_position_depends_on_padding_of_the_source(small):
    """The derivative of every score by every padded source word is exactly 0."""
    model = small(dtype=torch.float64)
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    is_real = torch.arange(5) < 3

    def scores(embedded):
        entered = model.enter_encoder(embedded, 0)
        encoded = model.encoder(entered, make_padding_mask(is_real[None]))
        return model.logits(decoded(model, encoded, x, is_real[None]))

    embedded = torch.randn(1, 5, 16, dtype=torch.float64)
    seen = torch.autograd.functional.jacobian(scores, embedded)
    seen = seen[0, :, :, 0].abs().amax(dim=(1, 3))

    assert (seen[:, ~is_real] == 0).all()
    assert (seen[:, is_real] > 0).all()


def test_every_block_projects_its_own_cross_attention_keys(small):
    model = small()
    encoded, real = torch.randn(1, 3, 16), torch.ones(1, 3, dtype=torch.bool)

    state = model.decoder.initial_state(encoded, make_padding_mask(real))

    assert len(state.cross_kv) == 2
    for block, source in zip(model.decoder.blocks, state.cross_kv, strict=True):
        assert torch.equal(
            source.keys, block.cross_attention.project_keys_values(encoded).keys
        )
    assert not torch.equal(state.cross_kv[0].keys, state.cross_kv[1].keys)
