"""Models of one stack for the tests of the native backend, as after some training."""

from __future__ import annotations

from typing import Any

import torch

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model import DecoderOnly, EncoderOnly, TransformerConfig

VOCABULARY = 101
LENGTHS = [7, 1, 4, 16, 17, 1, 33]
SIZES: dict[str, Any] = {"d_model": 24, "d_ff": 40, "num_heads": 2, "dropout": 0.0}


def trained(model):
    """Return ``model`` with no weight that is 0 or 1, trained natively."""
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for each in model.parameters():
            each += 0.1 * torch.randn(each.shape, generator=chance)
    return use_backend(model.train(), "auto")


def encoder_only(**changes):
    config = TransformerConfig(
        **{"encoder_layers": 2, **SIZES, **changes, "decoder_layers": 0}
    )
    return trained(EncoderOnly(config, VOCABULARY, seed=1))


def decoder_only(vocabulary=VOCABULARY, *, window=None, **changes):
    config = TransformerConfig(
        **{"decoder_layers": 2, **SIZES, **changes, "encoder_layers": 0}
    )
    return trained(DecoderOnly(config, vocabulary, window=window, seed=1))


def texts(lengths=LENGTHS, vocabulary=VOCABULARY, seed=0):
    """Return random texts of these lengths."""
    chance = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, vocabulary, (sum(lengths),), generator=chance)
    return RaggedTokens.from_lengths(tokens, torch.tensor(lengths))


def nothing(rows):
    """Return so many texts without a token: the source of a decoder alone."""
    return RaggedTokens.from_lengths(
        torch.zeros(0, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
    )


def text_batch(lengths=LENGTHS, vocabulary=VOCABULARY, seed=0):
    target = texts(lengths, vocabulary, seed)
    return Batch(nothing(len(lengths)), target, torch.arange(len(lengths)))


def double_copy(model):
    """Return a copy in float64 that computes as the layers are written."""
    if isinstance(model, DecoderOnly):
        copy = DecoderOnly(model.config, model.vocab_size, window=model.window)
    else:
        copy = EncoderOnly(model.config, model.vocab_size)
    copy.load_state_dict(model.state_dict())
    return use_backend(copy.double().train(model.training), "reference")
