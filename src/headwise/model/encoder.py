"""The left half of Figure 1.

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.feed_forward import FeedForward
from headwise.model.masks import MayAttend


def attention_box(config: TransformerConfig) -> MultiHeadAttention:
    """Make one of the three kinds of attention of Figure 1."""
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        d_k=config.key_width,
        d_v=config.value_width,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
    )


def feed_forward_box(config: TransformerConfig) -> FeedForward:
    """Make the box that every block ends with."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.feed_forward_dropout,
    )


def add_and_norm_box(config: TransformerConfig) -> AddAndNorm:
    """Make what stands around each of the others."""
    return AddAndNorm(config.d_model, config.dropout, config.norm)


def last_norm(config: TransformerConfig) -> nn.Module:
    """Make the end of a stack: pre-norm leaves sums that nobody has normalised yet."""
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = attention_box(config)
        self.feed_forward = feed_forward_box(config)
        self.around_attention = add_and_norm_box(config)
        self.around_feed_forward = add_and_norm_box(config)

    def forward(
        self, x: Float[Tensor, "B L D"], may_attend: MayAttend
    ) -> Float[Tensor, "B L D"]:
        """Follow the left column of the figure upwards."""
        y = self.around_attention.enter(x)
        x = self.around_attention.leave(x, self.self_attention(y, y, may_attend))
        y = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(y))
        return x


class Encoder(nn.Module):
    """N blocks, one after another."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        blocks = (EncoderBlock(config) for _ in range(config.encoder_layers))
        self.blocks = nn.ModuleList(blocks)
        self.last_norm = last_norm(config)

    def forward(
        self, x: Float[Tensor, "B L D"], may_attend: MayAttend
    ) -> Float[Tensor, "B L D"]:
        """Pass ``x`` through all blocks."""
        for block in self.blocks:
            x = block(x, may_attend)
        out: Tensor = self.last_norm(x)
        return out
