"""How weights begin."""

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


def test_every_matrix_is_normal_and_small(model):
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            assert weight.mean().item() == pytest.approx(0, abs=0.002), name
            assert weight.std().item() == pytest.approx(0.02, abs=0.002), name


@torch.no_grad()
def test_at_first_a_box_adds_little_to_what_goes_around_it(model):
    x = torch.randn(2, 10, 64, generator=torch.Generator().manual_seed(0))
    for block in (model.encoder.blocks[0], model.decoder.blocks[0]):
        for box in (block.self_attention(x, x), block.feed_forward(x)):
            assert box.norm() < 0.2 * x.norm()


@torch.no_grad()
def test_at_first_every_word_is_about_as_likely(model):
    source = torch.arange(4, 14)[None]
    scores = model.eval()(source, source, source > 0)

    assert scores.softmax(-1).max().item() < 5 / 2000


def test_biases_begin_at_zero_and_norms_change_nothing(model):
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (weight == 1).all(), name
        elif weight.dim() == 1:
            assert (weight == 0).all(), name
