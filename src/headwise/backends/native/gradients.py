"""Where weights are, and where their gradients go, as compiled kernels read it."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.backends.native.ctypes_structs import ROUNDED, WHOLE
from headwise.backends.native.layout import sizes_of
from headwise.backends.native.train_ctypes_structs import (
    AttentionBox,
    Block,
    Foot,
    LearnedNorm,
    Linear,
    Pupil,
)
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.embeddings import EnterStack, TokenEmbedding
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer

ALIGNED = 16
"""Numbers at whose multiples a gradient begins."""


class Gradients:
    """Gradients of what one batch says of all weights, and the ``pupil`` that has both.

    ``longest`` is the number of positions of its longest sentence.
    """

    def __init__(self, model: Transformer, longest: int, smoothing: float) -> None:
        self.model = model
        self._weights = list(model.parameters())
        self._found = _zeros_like(self._weights)
        self._of: dict[Tensor, Tensor] = dict(
            zip(self._weights, self._found, strict=True)
        )
        self._places: list[Tensor] = []
        config = model.config
        encoder = [
            self._encoder_block(cast(EncoderBlock, block))
            for block in model.encoder.blocks
        ]
        decoder = [
            self._decoder_block(cast(DecoderBlock, block))
            for block in model.decoder.blocks
        ]
        self.pupil = Pupil(
            **sizes_of(config),
            parts=ROUNDED if torch.is_autocast_enabled("cpu") else WHOLE,
            dropout=config.dropout if model.training else 0.0,
            smoothing=smoothing,
            reading=self._foot(model.source_embedding, model.enter_encoder, longest),
            writing=self._foot(model.target_embedding, model.enter_decoder, longest),
            scores=self._linear(model.output_vectors, model.output.bias),
            encoder=(Block * len(encoder))(*encoder),
            decoder=(Block * len(decoder))(*decoder),
        )

    def times(self, scale: float) -> list[Tensor]:
        """Return what was found for each weight, times ``scale``; to be asked once."""
        torch._foreach_mul_(self._found, scale)
        return self._found

    def _foot(self, embedding: TokenEmbedding, entry: EnterStack, longest: int) -> Foot:
        nothing = torch.zeros(1, longest, embedding.vectors.shape[1])
        self._places.append(entry.add_positions(nothing, 0)[0].contiguous())
        return Foot(
            table=embedding.vectors.data_ptr(),
            to_table=self._of[embedding.vectors].data_ptr(),
            places=self._places[-1].data_ptr(),
            scale=embedding.scale,
        )

    def _linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        return Linear(
            weight=weight.data_ptr(),
            bias=None if bias is None else bias.data_ptr(),
            to_weight=self._of[weight].data_ptr(),
            to_bias=None if bias is None else self._of[bias].data_ptr(),
            inputs=weight.shape[1],
            outputs=weight.shape[0],
        )

    def _box(self, box: nn.Linear) -> Linear:
        return self._linear(box.weight, cast("Tensor | None", box.bias))

    def _norm(self, around: AddAndNorm) -> LearnedNorm:
        norm = around.norm
        return LearnedNorm(
            weight=norm.weight.data_ptr(),
            bias=norm.bias.data_ptr(),
            to_weight=self._of[norm.weight].data_ptr(),
            to_bias=self._of[norm.bias].data_ptr(),
            eps=norm.eps,
        )

    def _attention(self, box: MultiHeadAttention, around: AddAndNorm) -> AttentionBox:
        return AttentionBox(
            queries=self._box(box.to_queries),
            keys=self._box(box.to_keys),
            values=self._box(box.to_values),
            join=self._box(box.to_output),
            around=self._norm(around),
        )

    def _block(
        self,
        own: AttentionBox,
        source: AttentionBox,
        box: FeedForward,
        around: AddAndNorm,
    ) -> Block:
        return Block(
            own=own,
            source=source,
            widen=self._box(box.widen),
            narrow=self._box(box.narrow),
            around=self._norm(around),
        )

    def _encoder_block(self, block: EncoderBlock) -> Block:
        own = self._attention(block.self_attention, block.around_attention)
        return self._block(
            own, AttentionBox(), block.feed_forward, block.around_feed_forward
        )

    def _decoder_block(self, block: DecoderBlock) -> Block:
        own = self._attention(block.self_attention, block.around_self)
        source = self._attention(block.cross_attention, block.around_cross)
        return self._block(own, source, block.feed_forward, block.around_feed_forward)


def _zeros_like(weights: list[nn.Parameter]) -> list[Tensor]:
    """Return a tensor of zeros for each weight, all in one piece of memory."""
    sizes = [-(-each.numel() // ALIGNED) * ALIGNED for each in weights]
    # Numpy asks the system for zeros, and torch would write them once more.
    zeros = torch.from_numpy(np.zeros(sum(sizes), dtype=np.float32))
    pieces = torch.split(zeros, sizes)
    return [
        piece[: each.numel()].view(each.shape)
        for piece, each in zip(pieces, weights, strict=True)
    ]
