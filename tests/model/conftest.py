"""What the tests of the model share: small models of any kind, one batch."""

from dataclasses import replace

import pytest
import torch

from headwise.model import DecoderOnly, EncoderOnly, TransformerConfig
from headwise.model.kinds import new_encoder_decoder

VOCABULARY = 11

SMALL = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, num_heads=4, dropout=0.0
)


def perturbed(model, dtype=torch.float32):
    """Return ``model`` with no weight that is 0 or 1, as after some training."""
    model = model.to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


@pytest.fixture
def small():
    """Make a small model, as after some training."""

    def make(*, dtype=torch.float32, **changes):
        config = replace(SMALL, **changes)
        return perturbed(new_encoder_decoder(config, VOCABULARY, seed=1), dtype)

    return make


@pytest.fixture
def encoder_only():
    """Make a small model of an encoder alone."""

    def make(*, dtype=torch.float32, **changes):
        config = replace(SMALL, **{**changes, "decoder_layers": 0})
        return perturbed(EncoderOnly(config, VOCABULARY, seed=1), dtype)

    return make


@pytest.fixture
def decoder_only():
    """Make a small model of a decoder alone."""

    def make(*, dtype=torch.float32, window=None, **changes):
        config = replace(SMALL, **{**changes, "encoder_layers": 0})
        model = DecoderOnly(config, VOCABULARY, window=window, seed=1)
        return perturbed(model, dtype)

    return make


@pytest.fixture
def batch():
    """Return three sentences of 7, 5 and 2 words, and six words of each target."""
    source = torch.randint(1, VOCABULARY, (3, 7))
    target = torch.randint(1, VOCABULARY, (3, 6))
    is_real = torch.arange(7) < torch.tensor([[7], [5], [2]])
    return source, target, is_real
