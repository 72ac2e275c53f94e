"""The right half of Figure 1.

Letters used for sizes: B batch rows, L target positions, S source positions,
D model width.
"""

from __future__ import annotations

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.attention import KeyValues
from headwise.model.boxes import (
    make_add_and_norm,
    make_cross_attention,
    make_feed_forward,
    make_last_norm,
    make_self_attention,
)
from headwise.model.config import TransformerConfig
from headwise.model.kv_cache import DecoderState, KVCache
from headwise.model.masks import AttentionMask
from headwise.model.variants.relative_positions import share_positions


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = make_self_attention(config, causal=True)
        self.cross_attention = make_cross_attention(config)
        self.feed_forward = make_feed_forward(config)
        self.around_self = make_add_and_norm(config)
        self.around_cross = make_add_and_norm(config)
        self.around_feed_forward = make_add_and_norm(config)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        cross_kv: KeyValues,
        self_mask: AttentionMask | None,
        cross_mask: AttentionMask,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Apply the three sublayers; append new keys and values to ``cache``."""
        y = self.around_self.sublayer_input(x)
        self_kv = self.self_attention.project_keys_values(y)
        if cache is not None:
            self_kv = cache.append(self_kv)
        out = self.self_attention(y, self_kv, self_mask)
        x = self.around_self.add_residual(x, out)

        y = self.around_cross.sublayer_input(x)
        out = self.cross_attention(y, cross_kv, cross_mask)
        x = self.around_cross.add_residual(x, out)

        y = self.around_feed_forward.sublayer_input(x)
        x = self.around_feed_forward.add_residual(x, self.feed_forward(y))
        return x


class Decoder(nn.Module):
    """A stack of N blocks."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        blocks = (DecoderBlock(config) for _ in range(config.decoder_layers))
        self.blocks = nn.ModuleList(blocks)
        share_positions(self.blocks)
        self.last_norm = make_last_norm(config)

    def initial_state(
        self, encoded: Float[Tensor, "B S D"], cross_mask: AttentionMask
    ) -> DecoderState:
        """Project the cross-attention keys and values of every block."""
        cross_kv = tuple(
            cast(DecoderBlock, block).cross_attention.project_keys_values(encoded)
            for block in self.blocks
        )
        return DecoderState(0, (), cross_kv, cross_mask)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        state: DecoderState,
        self_mask: AttentionMask | None,
    ) -> Float[Tensor, "B L D"]:
        """Apply all blocks to ``x``, which continues the target of ``state``."""
        caches = state.self_kv or (None,) * len(self.blocks)
        for block, cross_kv, cache in zip(
            self.blocks, state.cross_kv, caches, strict=True
        ):
            x = block(x, cross_kv, self_mask, state.cross_mask, cache)
        out: Tensor = self.last_norm(x)
        return out
