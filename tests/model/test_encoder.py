"""The encoder: the left half of Figure 1."""

import pytest
import torch

from headwise.model.attention import scaled_dot_product_attention
from headwise.model.masks import make_padding_mask

NORMS = pytest.mark.parametrize("norm", ["post", "pre", "deep"])
ALL_REAL = make_padding_mask(torch.ones(2, 5, dtype=torch.bool))


@NORMS
def test_an_encoder_block_is_two_sublayers_with_residual_connections(small, norm):
    """LayerNorm(α x + Sublayer(x)) twice, or x + Sublayer(LayerNorm(x)), then a norm.

    α is 1 unless norm is "deep": 0.81 (N⁴ M)^(1/16) with N = 1 and M = 2.
    """
    encoder = small(norm=norm, encoder_layers=1).encoder
    block = encoder.blocks[0]
    first, second = block.around_attention.norm, block.around_feed_forward.norm
    x = torch.randn(2, 5, 16)

    if norm != "pre":
        scale = 0.81 * 2 ** (1 / 16) if norm == "deep" else 1
        y = first(scale * x + block.self_attention(x, x, ALL_REAL))
        expected = second(scale * y + block.feed_forward(y))
    else:
        y = x + block.self_attention(first(x), first(x), ALL_REAL)
        expected = encoder.last_norm(y + block.feed_forward(second(y)))

    assert torch.equal(encoder(x, ALL_REAL), expected)


@NORMS
def test_without_positions_the_order_of_words_does_not_matter(small, norm):
    """A shuffled sentence comes out shuffled the same way, and otherwise the same."""
    encoder = small(norm=norm, dtype=torch.float64).encoder
    x, order = torch.randn(2, 5, 16, dtype=torch.float64), torch.randperm(5)

    shuffled = encoder(x[:, order], ALL_REAL)

    expected = encoder(x, ALL_REAL)[:, order]
    torch.testing.assert_close(shuffled, expected, rtol=0, atol=1e-12)


def test_with_positions_the_order_of_words_matters(small):
    model = small(dtype=torch.float64)
    words, order = torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([1, 0, 2, 3, 4])

    def encoded(tokens):
        x = model.enter_encoder(model.source_embedding(tokens), 0)
        return model.encoder(x, ALL_REAL[:1])

    moved = encoded(words)[:, order] - encoded(words[:, order])
    assert moved.abs().max() > 0.01


def test_nothing_attends_to_padding(small):
    """The derivative of every real word by every padded one is exactly 0."""
    model = small(dtype=torch.float64)
    is_real = torch.arange(5) < 3
    mask = make_padding_mask(is_real[None])
    x = torch.randn(1, 5, 16, dtype=torch.float64)

    for attend in (None, scaled_dot_product_attention):
        if attend:
            for block in model.encoder.blocks:
                block.self_attention.attend = attend
        seen = torch.autograd.functional.jacobian(lambda x: model.encoder(x, mask), x)
        seen = seen[0, :, :, 0].abs().amax(dim=(1, 3))  # 1 L D 1 L D -> L L

        assert (seen[is_real][:, ~is_real] == 0).all()
        assert (seen[is_real][:, is_real] > 0).all()


@pytest.mark.parametrize("readable", [False, True])
@pytest.mark.parametrize("training", [False, True])
@NORMS
def test_a_sentence_of_padding_alone_stays_finite(small, norm, training, readable):
    model = small(norm=norm, dropout=0.1, attention_dropout=0.1).train(training)
    if readable:
        for module in model.modules():
            if hasattr(module, "attend"):
                module.attend = scaled_dot_product_attention
    is_real = torch.tensor([[True, True], [False, False]])

    scores = model(
        torch.tensor([[1, 2], [0, 0]]), torch.tensor([[1, 2], [3, 4]]), is_real
    )
    scores.square().sum().backward()

    assert scores.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
