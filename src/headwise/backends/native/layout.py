"""Weights as compiled kernels read them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from headwise.backends.native.ctypes_structs import (
    ALIGNED,
    ROUNDED,
    WHOLE,
    Attention,
    Layer,
    Norm,
    Product,
    kernels,
)
from headwise.backends.pytorch.layers import Precision
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward


def sizes_of(config: TransformerConfig) -> dict[str, int]:
    """Return the sizes of a model under the names that kernels have for them."""
    return {
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "model": config.d_model,
        "heads": config.num_heads,
        "key": config.key_width,
        "value": config.value_width,
        "inner": config.d_ff,
    }


class Layout:
    """Lays out boxes of a model, and keeps what it laid out."""

    def __init__(self, precision: Precision) -> None:
        # A source has rows enough for parts to pay, a step may have one; to choose by
        # their number would make a sentence depend on its batch.
        self._reading = ROUNDED if precision == "bf16" else WHOLE
        self._writing = ROUNDED if precision == "bf16" else 0
        self._kept: list[Tensor] = []

    def kept(self, each: Tensor) -> int:
        """Return the address of these numbers, which stay there."""
        self._kept.append(each.detach().contiguous())
        return self._kept[-1].data_ptr()

    def product(
        self, weight: Tensor, bias: Tensor | None, *, reads: bool = False
    ) -> Product:
        """Lay out the map x -> x Wᵀ + b; ``reads``: of a source, not of steps."""
        parts = self._reading if reads else self._writing
        outputs, inputs = weight.shape
        size = kernels().product_size(inputs, outputs, parts)
        room = torch.empty(size + ALIGNED, dtype=torch.uint8)
        self._kept.append(room)
        address = -(-room.data_ptr() // ALIGNED) * ALIGNED
        whole = weight.detach().contiguous()
        kernels().product_pack(whole.data_ptr(), inputs, outputs, parts, address)
        return Product(
            inputs=inputs,
            outputs=outputs,
            parts=parts,
            weight=address,
            bias=None if bias is None else self.kept(bias),
        )

    def norm(self, norm: nn.Module) -> Norm:
        """Lay out a layer norm, or that there is none."""
        if not isinstance(norm, nn.LayerNorm):
            return Norm()
        return Norm(
            weight=self.kept(norm.weight), bias=self.kept(norm.bias), eps=norm.eps
        )

    def encoder_layer(self, block: EncoderBlock) -> Layer:
        """Lay out the left column of the figure."""
        own = self._attention(block.self_attention, block.around_attention, reads=True)
        return self._layer(own, None, block.feed_forward, block.around_feed_forward)

    def decoder_layer(self, block: DecoderBlock) -> Layer:
        """Lay out the right column."""
        own = self._attention(block.self_attention, block.around_self)
        source = self._attention(
            block.cross_attention, block.around_cross, asks_others=True
        )
        return self._layer(own, source, block.feed_forward, block.around_feed_forward)

    def _layer(
        self,
        own: Attention,
        source: Attention | None,
        box: FeedForward,
        around: AddAndNorm,
    ) -> Layer:
        reads = source is None
        return Layer(
            own=own,
            source=source or Attention(),
            widen=self.product(box.widen.weight, box.widen.bias, reads=reads),
            narrow=self.product(box.narrow.weight, box.narrow.bias, reads=reads),
            around=self.norm(around.norm),
        )

    def _attention(
        self,
        box: MultiHeadAttention,
        around: AddAndNorm,
        *,
        reads: bool = False,
        asks_others: bool = False,
    ) -> Attention:
        queries, both = [box.to_queries], [box.to_keys, box.to_values]
        found = Attention(
            asked=self._joined(queries if asks_others else [*queries, *both], reads),
            join=self._joined([box.to_output], reads),
            around=self.norm(around.norm),
        )
        if asks_others:
            found.remember = self._joined(both, reads=True)
        return found

    def _joined(self, boxes: list[nn.Linear], reads: bool) -> Product:
        weight, bias = torch.cat([box.weight for box in boxes]), None
        if boxes[0].bias is not None:
            bias = torch.cat([cast(Tensor, box.bias) for box in boxes])
        return self.product(weight, bias, reads=reads)
