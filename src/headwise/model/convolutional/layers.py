"""Layers of convolutional encoder-decoders (Gehring et al. 2017, Section 3).

Every sum of two vectors is multiplied by √½ (their Section 3.4), so that its variance
is that of one; as in the authors' code also where attention adds.

Letters used for sizes: B batch rows, S source positions, L target positions, D model
width, R positions before the first that a convolution reads, W = L + R.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.config import TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.source_attention import (
    SimilarityAttention,
    SourceMemory,
    dot_product,
)

DILATION_CYCLE = 5
"""Dilations are 1, 2, 4, 8, 16, and 1 again (Kalchbrenner et al. 2016)."""


def dilation_of(config: TransformerConfig, layer: int) -> int:
    """Return by how many positions the inputs of a kernel are apart in a layer."""
    return 2 ** (layer % DILATION_CYCLE) if config.kind == "dilated" else 1


def averaged_sum(
    x: Float[Tensor, "B L D"], y: Float[Tensor, "B L D"]
) -> Float[Tensor, "B L D"]:
    """Compute (x + y) √½."""
    return (x + y) * math.sqrt(0.5)


class GatedConvolution(nn.Module):
    """Dropout, a convolution over positions, and a gated linear unit: A ⊗ sigmoid(B).

    ``reach`` is R: a position reads as many others, (kernel size - 1) · dilation of
    them, as far as they are apart.
    """

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        dilation = dilation_of(config, layer)
        self.reach = (config.kernel_size - 1) * dilation
        self.dropout = Dropout(config.dropout)
        self.convolution = nn.Conv1d(
            config.d_model,
            2 * config.d_model,
            config.kernel_size,
            dilation=dilation,
        )

    def forward(self, x: Float[Tensor, "B W D"]) -> Float[Tensor, "B L D"]:
        """Return a vector for each window of R + 1 inputs."""
        channels_first = self.dropout(x).transpose(1, 2)  # B W D -> B D W
        gated = F.glu(self.convolution(channels_first), dim=1)
        return gated.transpose(1, 2)  # B D L -> B L D


class EncoderLayer(nn.Module):
    """A gated convolution of as many positions on both sides, and a residual."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config, layer)

    def forward(
        self, x: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Return the output, for which padding is zeros, as what is beyond a text."""
        side = self.convolution.reach // 2
        given = F.pad(x.masked_fill(~is_real[:, :, None], 0), (0, 0, side, side))
        return averaged_sum(self.convolution(given), x)


class DecoderLayer(nn.Module):
    """A gated convolution of earlier positions, attention, and a residual."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config, layer)
        self.to_queries = nn.Linear(config.d_model, config.d_model)
        self.cross_attention = SimilarityAttention(dot_product)

    def initial_inputs(self, like: Float[Tensor, "B S D"]) -> Float[Tensor, "B R D"]:
        """Return what comes before the first position: zeros."""
        return like.new_zeros(like.shape[0], self.convolution.reach, like.shape[2])

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        embedded: Float[Tensor, "B L D"],
        earlier: Float[Tensor, "B R D"],
        memory: SourceMemory,
    ) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B R D"]]:
        """Return the output, and the last inputs, which later positions read.

        A query is a projection of the hidden vector and the embedding of the target
        token that is read there.
        """
        given = torch.cat([earlier, x], dim=1)
        hidden = self.convolution(given)
        queries = averaged_sum(self.to_queries(hidden), embedded)
        hidden = averaged_sum(hidden, self.cross_attention(queries, memory))
        return averaged_sum(hidden, x), given[:, x.shape[1] :]
