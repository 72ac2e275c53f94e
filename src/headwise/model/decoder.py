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
from headwise.model.memory import DecoderState, GrowingMemory
from headwise.model.packing import MayAttend
from headwise.model.recompute import BlockCall, plainly, run_block


class DecoderBlock(nn.Module):
    """Attend to what is written, then to the source, then think alone."""

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
        memory: GrowingMemory | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Follow the right column upwards; what is written goes into ``memory``."""
        y = self.around_self.enter(x)
        own = self.self_attention.remember(y)
        if memory is not None:
            own = memory.extended(own)
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
        self.recompute = False  # see Transformer.checkpoint_activations

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
        *,
        call: BlockCall = plainly,
    ) -> Float[Tensor, "B L D"]:
        """Decode ``x``, whose first position follows everything in ``state``."""
        own = state.own or (None,) * len(self.blocks)
        recompute = self.recompute and not state.own  # a memory is written only once
        for block, source, memory in zip(self.blocks, state.source, own, strict=True):
            inputs = (x, source, may_attend, state.source_may_attend, memory)
            x = run_block(block, *inputs, recompute=recompute, call=call)
        out: Tensor = self.last_norm(x)
        return out
