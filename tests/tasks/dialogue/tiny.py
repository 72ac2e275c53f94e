"""A small model of dialogues, and batches for it."""

import torch

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.config import TransformerConfig

USER, ASSISTANT = 5, 6
"""Tokens of the symbols of roles."""

CONFIG = TransformerConfig(
    encoder_layers=0, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)


def batch_of(rows):
    """Return a batch of these turns and answers."""
    sides = []
    for side in zip(*rows, strict=True):
        tokens = torch.tensor([token for row in side for token in row]).long()
        sides.append(RaggedTokens.from_lengths(tokens, torch.tensor([*map(len, side)])))
    return Batch(*sides, torch.arange(len(rows)))
