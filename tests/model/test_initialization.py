"""Initial weights."""

import pytest
import torch

from headwise.model import TransformerConfig
from headwise.model.transformer import Transformer


@pytest.fixture(scope="module")
def model():
    config = TransformerConfig(
        encoder_layers=1,
        decoder_layers=1,
        d_model=64,
        d_ff=256,
        attention_bias=True,
        output_bias=True,
        positions="learned",
    )
    return Transformer(config, 2000)


def test_scaled_embeddings_are_as_large_as_positional_encodings(model):
    """After the factor √d_model a channel has variance 1; a sinusoid's is 1/2."""
    embedded = model.target_embedding(torch.arange(2000)[None])

    assert embedded.std().item() == pytest.approx(1, abs=0.02)
    assert embedded.mean().item() == pytest.approx(0, abs=0.02)


def test_xavier_matrices_keep_the_variance(model):
    """Xavier-uniform: between ±√(6 / (inputs + outputs)), and up to that bound."""
    inside = ("to_queries.weight", "to_keys.weight", "to_values.weight", "widen.weight")
    found = [p for name, p in model.named_parameters() if name.endswith(inside)]

    assert len(found) == 3 * 3 + 2  # three attentions, two feed-forwards
    for weight in found:
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.98 * bound < weight.abs().max().item() <= bound


@torch.no_grad()
def test_at_first_a_sublayer_adds_little_to_its_residual_connection(model):
    x = torch.randn(2, 10, 64, generator=torch.Generator().manual_seed(0))
    for block in (model.encoder.blocks[0], model.decoder.blocks[0]):
        for added in (block.self_attention(x, x), block.feed_forward(x)):
            assert added.norm() < 0.3 * x.norm()


def test_biases_begin_at_zero_and_norms_change_nothing(model):
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (weight == 1).all(), name
        elif weight.dim() == 1:
            assert (weight == 0).all(), name
