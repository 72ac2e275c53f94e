"""A trained model laid out for writing one token after another.

The words are those of :class:`Transformer`, whose own ``start`` and ``step`` are the
readable twin. What is different: no dropout and no module calls; queries, keys and
values come from one product; the keys and values of a source are kept once for all its
hypotheses, which ask as further positions of one query.

Letters used for sizes in this file:

    B  rows, one a hypothesis          D  model width
    N  sources, each with W rows       H  heads
    S  source positions                C  channels of a key and a value together
    L  positions set aside             V  vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.backends.pytorch.layers import (
    LEAST_ROOM,
    Precision,
    Product,
    SteppingDecoderBlock,
    SteppingEncoderBlock,
    held,
)
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.masks import to_real_tokens
from headwise.model.transformer import Transformer


@dataclass(frozen=True)
class SteppingState:
    """What is written and read so far; an older state may not be stepped on."""

    position: int
    own: tuple[Float[Tensor, "B H L C"], ...]
    source: tuple[Float[Tensor, "N H S C"], ...]
    padding: Float[Tensor, "N 1 1 S"] | None
    """Added to what queries score: -inf where a source is over, else 0."""
    source_of: Int[Tensor, " B"]
    """The source of each row; each has as many rows, one behind the other."""

    def rows(self, index: Int[Tensor, " rows"]) -> SteppingState:
        """Keep these rows, repeats allowed."""
        own = tuple(each.index_select(0, index) for each in self.own)
        sources = self.source_of[index]
        if torch.equal(sources, self.source_of):
            return SteppingState(
                self.position, own, self.source, self.padding, self.source_of
            )
        kept, counts = torch.unique_consecutive(sources, return_counts=True)
        if bool((counts != counts[0]).any()):
            kept = sources  # not as many rows for each, so nothing is shared
        source, padding = self.source, self.padding
        if len(kept) != len(source[0]) or bool((kept[1:] <= kept[:-1]).any()):
            source = tuple(each.index_select(0, kept) for each in source)
            padding = None if padding is None else padding[kept]
        numbers = torch.arange(len(kept), device=index.device)
        width = len(index) // max(1, len(kept))
        source_of = numbers.repeat_interleave(width)
        return SteppingState(self.position, own, source, padding, source_of)


class SteppingDecoder:
    """Copies of a model's weights; see ``still_of`` for when they are out of date."""

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        with torch.no_grad():
            self._parameters = list(model.parameters())
            self._of = versions(self._parameters)
            self.model = model
            self.encoder = [
                SteppingEncoderBlock(cast(EncoderBlock, block), precision)
                for block in model.encoder.blocks
            ]
            self.decoder = [
                SteppingDecoderBlock(cast(DecoderBlock, block), precision)
                for block in model.decoder.blocks
            ]
            self.numbers = held(model.output_vectors, precision).dtype
            self.whole = model.output_vectors.dtype
            self.project = Product(model.output_vectors, model.output.bias, precision)

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        same = next(model.parameters()) is self._parameters[0]
        return same and self._of == versions(self._parameters)

    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> SteppingState:
        """Read the sources."""
        padding = None
        if not bool(source_is_real.all()):
            padding = self.padding_of(source_is_real)
        rows = len(source)
        x = self.encoded(source, padding)
        return SteppingState(
            0,
            tuple(block.no_memory(rows, x) for block in self.decoder),
            tuple(block.read(x, rows) for block in self.decoder),
            padding,
            torch.arange(rows, device=source.device),
        )

    def padding_of(self, is_real: Bool[Tensor, "N S"]) -> Float[Tensor, "N 1 1 S"]:
        """Return what is added to scores: -inf where a source is over."""
        may_attend = to_real_tokens(is_real)
        padding = torch.zeros(may_attend.shape, device=is_real.device)
        padding.masked_fill_(~may_attend, -math.inf)
        return padding.to(self.numbers)

    def encoded(
        self, source: Int[Tensor, "N S"], padding: Float[Tensor, "N 1 1 S"] | None
    ) -> Float[Tensor, "NS D"]:
        """Return the top of the encoder, one row for each position."""
        x = self.model.enter_encoder(self.model.source_embedding(source), 0)
        x = x.flatten(0, 1).to(self.numbers)
        for block in self.encoder:
            x = block(x, len(source), padding)
        out: Tensor = self.model.encoder.last_norm(x.to(self.whole))
        return out.to(self.numbers)

    def scores(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """Score all tokens by the rows that leave the last block of the decoder."""
        x = self.model.decoder.last_norm(x.to(self.whole)).to(self.numbers)
        return self.project(x).to(self.whole)

    def step(
        self, tokens: Int[Tensor, " B"], state: SteppingState
    ) -> tuple[Float[Tensor, "B V"], SteppingState]:
        """Write one more token in every row; score what may follow."""
        here = state.position
        own = state.own
        if here == own[0].shape[2]:
            own = tuple(_with_room(each) for each in own)
        embedded = self.model.target_embedding(tokens[:, None])
        x = self.model.enter_decoder(embedded, here)[:, 0].to(self.numbers)
        for block, memory, source in zip(self.decoder, own, state.source, strict=True):
            x = block(x, partial(_remembered, memory, here), source, state.padding)
        return self.scores(x), SteppingState(
            here + 1, own, state.source, state.padding, state.source_of
        )


def _remembered(
    memory: Float[Tensor, "B H L C"], here: int, new: Float[Tensor, "B H C"]
) -> tuple[Float[Tensor, "B H P C"], None]:
    memory[:, :, here] = new
    return memory[:, :, : here + 1], None


def _with_room(full: Float[Tensor, "B H L C"]) -> Float[Tensor, "B H M C"]:
    rows, heads, length, channels = full.shape
    wider = full.new_empty(rows, heads, length + max(LEAST_ROOM, length // 4), channels)
    wider[:, :, :length] = full
    return wider


def versions(parameters: Sequence[nn.Parameter]) -> list[tuple[int, int]]:
    """Return what changes when these weights do."""
    return [
        (each.data_ptr(), 0 if each.is_inference() else each._version)
        for each in parameters
    ]
