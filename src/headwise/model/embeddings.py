"""The "Input Embedding", "Output Embedding" and "Linear" boxes (Section 3.4)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.positions import AddPositions, Places


class TokenEmbedding(nn.Module):
    """A vector for each entry of a vocabulary, times √d_model when looked up."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(vocab_size, width))
        self.scale = math.sqrt(width)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L E"]:
        """Look up and scale."""
        return F.embedding(tokens, self.vectors) * self.scale


class EnterStack(nn.Module):
    """The foot of a stack in Figure 1: embedding + position, then dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.add_positions = AddPositions(config)
        normed = config.embedding_norm
        self.norm = nn.LayerNorm(config.d_model) if normed else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "B L E"], start: int | Places
    ) -> Float[Tensor, "B L D"]:
        """Prepare embeddings that begin at position ``start`` for the first block."""
        out: Tensor = self.dropout(self.norm(self.add_positions(x, start)))
        return out


class OutputProjection(nn.Module):
    """The "Linear" box: a score for every entry of the target vocabulary.

    When the matrix is the target embedding itself, this holds no matrix of its own.
    """

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.vectors: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if config.tie_embeddings == "none":
            self.vectors = nn.Parameter(torch.empty(vocab_size, config.d_model))
        if config.output_bias:
            self.bias = nn.Parameter(torch.empty(vocab_size))
