"""The left half of Figure 1.

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.deep_norm import make_add_and_norm
from headwise.model.feed_forward import FeedForward
from headwise.model.masks import AttentionMask
from headwise.model.rotary_positions import with_positions


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Make a "Multi-Head Attention" box, of any of the three kinds."""
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        d_k=config.key_width,
        d_v=config.value_width,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
    )


def make_feed_forward(config: TransformerConfig) -> FeedForward:
    """Make a "Feed Forward" box."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.feed_forward_dropout,
    )


def make_last_norm(config: TransformerConfig) -> nn.Module:
    """Make the layer norm at the end of a pre-norm stack; post-norm has none."""
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = with_positions(make_attention(config), config)
        self.feed_forward = make_feed_forward(config)
        self.around_attention = make_add_and_norm(config, "encoder")
        self.around_feed_forward = make_add_and_norm(config, "encoder")

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
        self.last_norm = make_last_norm(config)

    def forward(
        self, x: Float[Tensor, "B L D"], mask: AttentionMask
    ) -> Float[Tensor, "B L D"]:
        """Apply all blocks."""
        for block in self.blocks:
            x = block(x, mask)
        out: Tensor = self.last_norm(x)
        return out
