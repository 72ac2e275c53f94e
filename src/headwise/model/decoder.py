"""The right half of Figure 1.

Letters used for sizes: B batch rows, L target positions, S source positions,
K target positions that may be asked, D model width.
"""

from __future__ import annotations

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.attention import KeyValues
from headwise.model.config import TransformerConfig
from headwise.model.encoder import (
    add_and_norm_box,
    attention_box,
    feed_forward_box,
    last_norm,
)
from headwise.model.kv_cache import DecoderState, KVCache
from headwise.model.masks import MayAttend


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = attention_box(config)
        self.cross_attention = attention_box(config)
        self.feed_forward = feed_forward_box(config)
        self.around_self = add_and_norm_box(config)
        self.around_cross = add_and_norm_box(config)
        self.around_feed_forward = add_and_norm_box(config)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        source: KeyValues,
        may_attend: MayAttend | None,
        source_may_attend: MayAttend,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Follow the right column upwards; keys and values go into ``cache``."""
        y = self.around_self.enter(x)
        own = self.self_attention.remember(y)
        if cache is not None:
            own = cache.extended(own)
        x = self.around_self.leave(x, self.self_attention(y, own, may_attend))

        y = self.around_cross.enter(x)
        seen = self.cross_attention(y, source, source_may_attend)
        x = self.around_cross.leave(x, seen)

        y = self.around_feed_forward.enter(x)
        x = self.around_feed_forward.leave(x, self.feed_forward(y))
        return x


class Decoder(nn.Module):
    """N blocks, one after another."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        blocks = (DecoderBlock(config) for _ in range(config.decoder_layers))
        self.blocks = nn.ModuleList(blocks)
        self.last_norm = last_norm(config)

    def read(
        self,
        encoded: Float[Tensor, "B S D"],
        source_may_attend: MayAttend,
    ) -> DecoderState:
        """Let every block read the source once; nothing is written yet."""
        blocks = [cast(DecoderBlock, block) for block in self.blocks]
        source = tuple(block.cross_attention.remember(encoded) for block in blocks)
        return DecoderState(0, (), source, source_may_attend)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        state: DecoderState,
        may_attend: MayAttend | None,
    ) -> Float[Tensor, "B L D"]:
        """Decode ``x``, whose first position follows everything in ``state``."""
        caches = state.self_kv or (None,) * len(self.blocks)
        for block, source, cache in zip(
            self.blocks, state.cross_kv, caches, strict=True
        ):
            x = block(x, source, may_attend, state.cross_may_attend, cache)
        out: Tensor = self.last_norm(x)
        return out
