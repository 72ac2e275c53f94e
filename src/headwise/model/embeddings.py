"""The "Input Embedding", "Output Embedding" and "Linear" boxes (Section 3.4).

Letters used for sizes: B batch rows, L positions, E embedding width, D model width.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.positions import AddPositions, PositionIds
from headwise.model.variants.norms import NORMS


class TokenEmbedding(nn.Module):
    """A vector for each entry of a vocabulary, times √d_model when looked up."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(vocab_size, width))
        self.scale = math.sqrt(width)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L E"]:
        """Look up and scale."""
        return F.embedding(tokens, self.vectors) * self.scale


class StackInput(nn.Module):
    """The input of a stack in Figure 1: embedding + position, then dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.add_positions = AddPositions(config)
        make_norm = NORMS[config.norm_kind] if config.embedding_norm else nn.Identity
        self.norm = make_norm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "B L E"],
        positions: int | PositionIds,
        is_real: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Return the input of the first block; arguments as in AddPositions."""
        x = self.add_positions(x, positions, is_real)
        out: Tensor = self.dropout(self.norm(x))
        return out


class OutputProjection(nn.Module):
    """The "Linear" box: a logit for every entry of the target vocabulary.

    ``vectors`` is None if the matrix is tied to the target embedding.
    """

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.vectors: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if config.tie_embeddings == "none":
            self.vectors = nn.Parameter(torch.empty(vocab_size, config.d_model))
        if config.output_bias:
            self.bias = nn.Parameter(torch.empty(vocab_size))
