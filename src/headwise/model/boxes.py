"""The boxes of Figure 1 as settings choose them, variants among them."""

from __future__ import annotations

from typing import cast

from torch import nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import Stack, TransformerConfig
from headwise.model.deep_norm import DeepAddAndNorm, residual_scale
from headwise.model.feed_forward import FeedForward
from headwise.model.variants.attention import as_self_attention, with_scores
from headwise.model.variants.gated_feed_forward import GATES, GatedFeedForward
from headwise.model.variants.norms import NORMS
from headwise.model.variants.residuals import RESIDUALS


def make_cross_attention(config: TransformerConfig) -> MultiHeadAttention:
    """Make the "Multi-Head Attention" box that attends to the source."""
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


def make_self_attention(
    config: TransformerConfig, *, causal: bool
) -> MultiHeadAttention:
    """Make one that attends to its own text, masked or not: it may have positions."""
    return as_self_attention(make_cross_attention(config), config, causal=causal)


def make_feed_forward(config: TransformerConfig) -> FeedForward:
    """Make a "Feed Forward" box, gated or not."""
    sizes, dropout = (config.d_model, config.d_ff), config.feed_forward_dropout
    if config.feed_forward in GATES:
        gated = GatedFeedForward(*sizes, gate=config.feed_forward, dropout=dropout)
        # Backends and exports that read its layers refuse a gated one by name.
        return cast(FeedForward, gated)
    return FeedForward(*sizes, activation=config.activation, dropout=dropout)


def make_add_and_norm(config: TransformerConfig, stack: Stack) -> AddAndNorm:
    """Make an "Add & Norm" box of a stack."""
    if config.norm == "deep":
        scale = residual_scale(config, stack)
        return DeepAddAndNorm(config.d_model, config.dropout, scale)
    return AddAndNorm(
        config.d_model,
        config.dropout,
        config.norm,
        make_norm=NORMS[config.norm_kind],
        residual=RESIDUALS[config.residual](config),
    )


def make_last_norm(config: TransformerConfig) -> nn.Module:
    """Make the layer norm at the end of a pre-norm stack; post-norm has none."""
    if config.norm != "pre":
        return nn.Identity()
    return NORMS[config.norm_kind](config.d_model)
