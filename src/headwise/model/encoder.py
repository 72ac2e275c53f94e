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
from headwise.model.masks import AttentionMask
from headwise.model.variants.attention import as_self_attention, with_scores
from headwise.model.variants.gated_feed_forward import GATES, GatedFeedForward
from headwise.model.variants.norms import NORMS
from headwise.model.variants.relative_positions import share_positions
from headwise.model.variants.residuals import RESIDUALS


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Make a "Multi-Head Attention" box, of any of the three kinds."""
    layer = MultiHeadAttention(
        config.d_model,
        config.num_heads,
        d_k=config.key_width,
        d_v=config.value_width,
        num_key_value_heads=config.num_key_value_heads,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
    )
    return with_scores(layer, config)


def make_feed_forward(config: TransformerConfig) -> FeedForward | GatedFeedForward:
    """Make a "Feed Forward" box."""
    sizes, dropout = (config.d_model, config.d_ff), config.feed_forward_dropout
    if config.feed_forward in GATES:
        return GatedFeedForward(*sizes, gate=config.feed_forward, dropout=dropout)
    return FeedForward(*sizes, activation=config.activation, dropout=dropout)


def make_add_and_norm(config: TransformerConfig) -> AddAndNorm:
    """Make an "Add & Norm" box."""
    return AddAndNorm(
        config.d_model,
        config.dropout,
        config.norm,
        make_norm=NORMS[config.norm_kind],
        residual=RESIDUALS[config.residual](config),
    )


def make_last_norm(config: TransformerConfig) -> nn.Module:
    """Make the layer norm at the end of a pre-norm stack; post-norm has none."""
    if config.norm == "post":
        return nn.Identity()
    return NORMS[config.norm_kind](config.d_model)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        layer = make_attention(config)
        self.self_attention = as_self_attention(layer, config, causal=False)
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
