"""Incremental decoding in PyTorch: the model without dropout and module calls.

Its reference is ``Transformer.start`` and ``step``; ``tests/backends/pytorch/
test_decoder.py`` holds them equal. What is different: queries, keys and values come
from one matmul; the cross-attention KV cache of a source is shared by all its
hypotheses, whose queries are stacked as further positions.

Letters used for sizes in this file:

    B  rows, one a hypothesis          D  model width
    N  sources, each with W rows       H  heads
    S  source positions                C  channels of a key and a value together
    L  positions allocated             V  vocabulary
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from headwise.backends.api import WeightVersions
from headwise.backends.precision import Precision
from headwise.backends.pytorch.layers import (
    MIN_GROWTH,
    InferenceDecoderBlock,
    InferenceEncoderBlock,
    InferenceLinear,
    in_precision,
)
from headwise.backends.reference import require_no_variant
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.masks import make_padding_mask
from headwise.model.rotary_positions import RotaryPositions
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class TorchState:
    """The KV caches and the position; only the newest state may be stepped on."""

    position: int
    self_kv: tuple[Float[Tensor, "B H L C"], ...]
    cross_kv: tuple[Float[Tensor, "N H S C"], ...]
    cross_mask: Float[Tensor, "N 1 1 S"] | None
    """Added to cross-attention scores: -inf for padding, else 0."""
    source_of: Int[Tensor, " B"]
    """The source of each row; all have the same number of consecutive rows."""

    def index_select(self, index: Int[Tensor, " rows"]) -> TorchState:
        """Keep these rows, repeats allowed."""
        self_kv = tuple(each.index_select(0, index) for each in self.self_kv)
        sources = self.source_of[index]
        if torch.equal(sources, self.source_of):
            return TorchState(
                self.position, self_kv, self.cross_kv, self.cross_mask, self.source_of
            )
        kept, counts = torch.unique_consecutive(sources, return_counts=True)
        if bool((counts != counts[0]).any()):
            kept = sources  # their numbers of rows differ: nothing is shared
        cross_kv, cross_mask = self.cross_kv, self.cross_mask
        if len(kept) != len(cross_kv[0]) or bool((kept[1:] <= kept[:-1]).any()):
            cross_kv = tuple(each.index_select(0, kept) for each in cross_kv)
            cross_mask = None if cross_mask is None else cross_mask[kept]
        numbers = torch.arange(len(kept), device=index.device)
        width = len(index) // max(1, len(kept))
        source_of = numbers.repeat_interleave(width)
        return TorchState(self.position, self_kv, cross_kv, cross_mask, source_of)


class TorchDecoder:
    """A decoder on copies of a model's weights; see ``is_current``.

    Raises ``ModelError`` for a variant (``model/variants``), by name.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        require_no_variant(model)
        with torch.no_grad():
            self._versions = WeightVersions(model)
            self.model = model
            self.encoder = [
                InferenceEncoderBlock(cast(EncoderBlock, block), precision)
                for block in model.encoder.blocks
            ]
            self.decoder = [
                InferenceDecoderBlock(cast(DecoderBlock, block), precision)
                for block in model.decoder.blocks
            ]
            self.dtype = in_precision(model.output_vectors, precision).dtype
            self.model_dtype = model.output_vectors.dtype
            self.output = InferenceLinear(
                model.output_vectors, model.output.bias, precision
            )
            self.rotary: RotaryPositions | None = None
            if model.config.positions == "rotary":
                self.rotary = RotaryPositions(model.config.key_width)

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self._versions.are_of(model)

    def start(
        self, source: Integer[Tensor, "N S *P"], source_is_real: Bool[Tensor, "N S"]
    ) -> TorchState:
        """Encode the sources; return a state with one row for each."""
        cross_mask = None
        if not bool(source_is_real.all()):
            cross_mask = self.additive_mask(source_is_real)
        rows = len(source)
        x = self.encode(source, cross_mask)
        return TorchState(
            0,
            tuple(block.empty_kv(rows, x) for block in self.decoder),
            tuple(block.source_kv(x, rows) for block in self.decoder),
            cross_mask,
            torch.arange(rows, device=source.device),
        )

    def rotations(self, count: int) -> Float[Tensor, "L C"] | None:
        """Return the table of ``count`` positions; None unless they are rotary."""
        if self.rotary is None:
            return None
        return self.rotary.up_to(count, self.model.output_vectors.detach())

    def additive_mask(self, is_real: Bool[Tensor, "N S"]) -> Float[Tensor, "N 1 1 S"]:
        """Return what is added to attention scores: -inf for padding, else 0."""
        mask = make_padding_mask(is_real)
        additive = torch.zeros(mask.shape, device=is_real.device)
        additive.masked_fill_(~mask, -math.inf)
        return additive.to(self.dtype)

    def encode(
        self, source: Integer[Tensor, "N S *P"], mask: Float[Tensor, "N 1 1 S"] | None
    ) -> Float[Tensor, "NS D"]:
        """Return the output of the encoder, one row for each position."""
        x = self.model.enter_encoder(self.model.embed_source(source), 0)
        x = x.flatten(0, 1).to(self.dtype)
        rotations = self.rotations(source.shape[1])
        for block in self.encoder:
            x = block(x, len(source), mask, rotations)
        out: Tensor = self.model.encoder.last_norm(x.to(self.model_dtype))
        return out.to(self.dtype)

    def logits(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """Score all tokens, given the output of the last block."""
        x = self.model.decoder.last_norm(x.to(self.model_dtype)).to(self.dtype)
        return self.output(x).to(self.model_dtype)

    def step(
        self, tokens: Int[Tensor, " B"], state: TorchState
    ) -> tuple[Float[Tensor, "B V"], TorchState]:
        """Append one token to every row; return the scores of the next one."""
        position = state.position
        self_kv = state.self_kv
        if position == self_kv[0].shape[2]:
            self_kv = tuple(_grown(each) for each in self_kv)
        embedded = self.model.target_embedding(tokens[:, None])
        x = self.model.enter_decoder(embedded, position)[:, 0].to(self.dtype)
        rotations = self.rotations(position + 1)
        rotation = None if rotations is None else rotations[position:]
        for block, kv, cross_kv in zip(
            self.decoder, self_kv, state.cross_kv, strict=True
        ):
            append_kv = partial(_append_kv, kv, position)
            x = block(x, append_kv, cross_kv, state.cross_mask, rotation)
        return self.logits(x), TorchState(
            position + 1, self_kv, state.cross_kv, state.cross_mask, state.source_of
        )


def _append_kv(
    kv: Float[Tensor, "B H L C"], position: int, new: Float[Tensor, "B H C"]
) -> tuple[Float[Tensor, "B H P C"], None]:
    kv[:, :, position] = new
    return kv[:, :, : position + 1], None


def _grown(full: Float[Tensor, "B H L C"]) -> Float[Tensor, "B H M C"]:
    rows, heads, length, channels = full.shape
    wider = full.new_empty(rows, heads, length + max(MIN_GROWTH, length // 4), channels)
    wider[:, :, :length] = full
    return wider
