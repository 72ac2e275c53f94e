"""The left half of Figure 1.

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.boxes import (
    make_add_and_norm,
    make_feed_forward,
    make_last_norm,
    make_self_attention,
)
from headwise.model.config import TransformerConfig
from headwise.model.masks import AttentionMask
from headwise.model.variants.relative_positions import share_positions


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = make_self_attention(config, causal=False)
        self.feed_forward = make_feed_forward(config)
        self.around_attention = make_add_and_norm(config)
        self.around_feed_forward = make_add_and_norm(config)

    def forward(
        self, x: Float[Tensor, "B L D"], mask: AttentionMask
    ) -> Float[Tensor, "B L D"]:
        """Apply both sublayers, each with its residual connection."""
        y = self.around_attention.sublayer_input(x)
        x = self.around_attention.add_residual(x, self.self_attention(y, y, mask))
        y = self.around_feed_forward.sublayer_input(x)
        x = self.around_feed_forward.add_residual(x, self.feed_forward(y))
        return x


class Encoder(nn.Module):
    """A stack of N blocks."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        blocks = (EncoderBlock(config) for _ in range(config.encoder_layers))
        self.blocks = nn.ModuleList(blocks)
        share_positions(self.blocks)
        self.last_norm = make_last_norm(config)

    def forward(
        self, x: Float[Tensor, "B L D"], mask: AttentionMask
    ) -> Float[Tensor, "B L D"]:
        """Apply all blocks."""
        for block in self.blocks:
            x = block(x, mask)
        out: Tensor = self.last_norm(x)
        return out
