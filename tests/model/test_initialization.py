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


def test_embedded_words_are_as_large_as_positions(model):
    """After the factor √d_model a channel has variance 1; a sinusoid's is 1/2."""
    embedded = model.target_embedding(torch.arange(2000)[None])

    assert embedded.std().item() == pytest.approx(1, abs=0.02)
    assert embedded.mean().item() == pytest.approx(0, abs=0.02)


def test_matrices_keep_the_size_of_what_passes(model):
    """Xavier-uniform: between ±√(6 / (inputs + outputs)), and up to that bound."""
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and not name.endswith("vectors"):
            bound = (6 / sum(weight.shape)) ** 0.5
            assert 0.98 * bound < weight.abs().max().item() <= bound, name


def test_biases_begin_at_zero_and_norms_change_nothing(model):
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (weight == 1).all(), name
        elif weight.dim() == 1:
            assert (weight == 0).all(), name
