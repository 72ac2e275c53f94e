"""A trained model laid out for writing one token after another.

The words are those of :class:`Transformer`, whose own ``start`` and ``step`` are the
readable twin. What is different: no dropout and no module calls; queries, keys and
values come from one product; the keys and values of a source are kept once and shared by
all its hypotheses, which ask as further positions of one query.

Letters used for sizes in this file:

    B  rows, one a hypothesis          D  model width
    N  sources, each with W rows       H  heads
    S  source positions                C  channels of a key and a value together
    L  positions set aside             V  vocabulary
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.masks import to_real_tokens
from headwise.model.transformer import Transformer

Precision = Literal["float32", "bf16"]

LEAST_ROOM = 8
"""Positions by which room grows; more when a quarter of what is written is more."""

LARGE = 1 << 18
"""Entries from which a matrix is kept in bfloat16 where that is asked for: products of
smaller ones take longer to set up than they save."""

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class SteppingState:
    """What is written and read so far; an older state may not be stepped on."""

    position: int
    own: tuple[Float[Tensor, "B H L C"], ...]
    source: tuple[Float[Tensor, "N H S C"], ...]
    may_attend: Bool[Tensor, "N 1 1 S"] | None
    source_of: Int[Tensor, " B"]
    """The source of each row; each has as many rows, one behind the other."""

    def rows(self, index: Int[Tensor, " rows"]) -> SteppingState:
        """Keep these rows, repeats allowed."""
        own = tuple(each.index_select(0, index) for each in self.own)
        sources = self.source_of[index]
        if torch.equal(sources, self.source_of):
            return SteppingState(
                self.position, own, self.source, self.may_attend, self.source_of
            )
        kept, counts = sources.unique_consecutive(return_counts=True)
        if bool((counts != counts[0]).any()):
            kept = sources  # not as many rows for each, so nothing is shared
        source, may_attend = self.source, self.may_attend
        if len(kept) != len(source[0]) or bool((kept[1:] <= kept[:-1]).any()):
            source = tuple(each.index_select(0, kept) for each in source)
            may_attend = None if may_attend is None else may_attend[kept]
        numbers = torch.arange(len(kept), device=index.device)
        width = len(index) // max(1, len(kept))
        source_of = numbers.repeat_interleave(width)
        return SteppingState(self.position, own, source, may_attend, source_of)


class SteppingDecoder:
    """Copies of a model's weights; see ``still_of`` for when they are out of date."""

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        with torch.no_grad():
            self._of = _versions(model)
            self.model = model
            self.encoder = [
                _EncoderBlock(cast(EncoderBlock, block), precision)
                for block in model.encoder.blocks
            ]
            self.decoder = [
                _DecoderBlock(cast(DecoderBlock, block), precision)
                for block in model.decoder.blocks
            ]
            self.project = _product(model.output_vectors, model.output.bias, precision)

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        return self._of == _versions(model)

    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> SteppingState:
        """Read the sources."""
        may_attend = None if bool(source_is_real.all()) else source_is_real
        mask = None if may_attend is None else to_real_tokens(may_attend)
        x = self.model.enter_encoder(self.model.source_embedding(source), 0)
        for block in self.encoder:
            x = block(x, mask)
        x = self.model.encoder.last_norm(x)
        return SteppingState(
            0,
            tuple(block.no_memory(len(source), x) for block in self.decoder),
            tuple(block.read(x) for block in self.decoder),
            mask,
            torch.arange(len(source), device=source.device),
        )

    def step(
        self, tokens: Int[Tensor, " B"], state: SteppingState
    ) -> tuple[Float[Tensor, "B V"], SteppingState]:
        """Write one more token in every row; score what may follow."""
        here = state.position
        own = state.own
        if here == own[0].shape[2]:
            own = tuple(_with_room(each) for each in own)
        embedded = self.model.target_embedding(tokens[:, None])
        x = self.model.enter_decoder(embedded, here)[:, 0]
        for block, memory, source in zip(self.decoder, own, state.source, strict=True):
            x = block(x, memory, here, source, state.may_attend)
        logits = self.project(self.model.decoder.last_norm(x))
        return logits, SteppingState(
            here + 1, own, state.source, state.may_attend, state.source_of
        )


class _Attention:
    """The products of an attention box, each with as few calls as there can be."""

    def __init__(self, box: MultiHeadAttention, precision: Precision) -> None:
        self.heads = box.num_heads
        self.channels = box.to_queries.weight.shape[0] // self.heads
        both = [_by_head(each, self.heads) for each in (box.to_keys, box.to_values)]
        weight = torch.cat([each for each, _ in both], 1).flatten(0, 1)
        bias = None
        if box.to_keys.bias is not None:
            bias = torch.cat([cast(Tensor, each) for _, each in both], 1).flatten()
        self.width = len(weight) // self.heads  # of a key and a value
        query = box.to_queries
        all_bias = None if bias is None else torch.cat([query.bias, bias])
        self.queries = _product(query.weight, query.bias, precision)
        self.remember = _product(weight, bias, precision)
        self.together = _product(torch.cat([query.weight, weight]), all_bias, precision)
        self.join = _product(box.to_output.weight, box.to_output.bias, precision)

    def split(self, both: Tensor, rows: int) -> Tensor:
        """Lay out keys and values by head: B·L H·C -> B H L C."""
        return both.view(rows, -1, self.heads, self.width).transpose(1, 2)

    def attend(
        self, queries: Tensor, memory: Tensor, may_attend: Tensor | None
    ) -> Tensor:
        """Ask a memory [N H L C] by queries [N H Q channels]."""
        keys, values = memory[..., : self.channels], memory[..., self.channels :]
        return F.scaled_dot_product_attention(queries, keys, values, may_attend)


class _Around:
    """The "Add & Norm" around a box."""

    def __init__(self, box: AddAndNorm) -> None:
        norm = box.norm
        self.pre = box.pre
        self.norm = (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def enter(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, *self.norm) if self.pre else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        total = out.add_(x)
        return total if self.pre else F.layer_norm(total, *self.norm)


class _FeedForward:
    def __init__(self, box: FeedForward, precision: Precision) -> None:
        self.widen = _product(box.widen.weight, box.widen.bias, precision)
        self.narrow = _product(box.narrow.weight, box.narrow.bias, precision)
        self.bend = torch.relu_ if box.bend is F.relu else box.bend

    def __call__(self, x: Tensor) -> Tensor:
        return self.narrow(self.bend(self.widen(x)))


class _EncoderBlock:
    def __init__(self, block: EncoderBlock, precision: Precision) -> None:
        self.attention = _Attention(block.self_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_attention = _Around(block.around_attention)
        self.around_feed_forward = _Around(block.around_feed_forward)

    def __call__(self, x: Tensor, may_attend: Tensor | None) -> Tensor:
        box, rows = self.attention, len(x)
        split = box.heads * box.channels
        asked = box.together(self.around_attention.enter(x))
        queries = asked[..., :split].unflatten(-1, (box.heads, -1)).transpose(1, 2)
        memory = asked[..., split:].unflatten(-1, (box.heads, -1)).transpose(1, 2)
        heads = box.attend(queries, memory, may_attend)
        out = box.join(heads.transpose(1, 2).reshape(rows, x.shape[1], -1))
        x = self.around_attention.leave(x, out)
        out = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, out)


class _DecoderBlock:
    def __init__(self, block: DecoderBlock, precision: Precision) -> None:
        self.own = _Attention(block.self_attention, precision)
        self.cross = _Attention(block.cross_attention, precision)
        self.feed_forward = _FeedForward(block.feed_forward, precision)
        self.around_own = _Around(block.around_self)
        self.around_cross = _Around(block.around_cross)
        self.around_feed_forward = _Around(block.around_feed_forward)

    def no_memory(self, rows: int, like: Tensor) -> Tensor:
        """Return room in which nothing is written yet."""
        return like.new_empty(rows, self.own.heads, LEAST_ROOM, self.own.width)

    def read(self, encoded: Tensor) -> Tensor:
        """Return the keys and values of sources [N S D]."""
        kept = self.cross.remember(encoded)
        return self.cross.split(kept, len(encoded)).contiguous()

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        here: int,
        source: Tensor,
        may_attend: Tensor | None,
    ) -> Tensor:
        rows, box = len(x), self.own
        split = box.heads * box.channels
        asked = box.together(self.around_own.enter(x))
        memory[:, :, here] = asked[:, split:].view(rows, box.heads, box.width)
        queries = asked[:, :split].view(rows, box.heads, 1, box.channels)
        heads = box.attend(queries, memory[:, :, : here + 1], None)
        x = self.around_own.leave(x, box.join(heads.view(rows, -1)))

        box, sources = self.cross, len(source)
        queries = box.queries(self.around_cross.enter(x))
        queries = queries.view(sources, -1, box.heads, box.channels).transpose(1, 2)
        heads = box.attend(queries, source, may_attend)  # N H W channels
        out = box.join(heads.transpose(1, 2).reshape(rows, -1))
        x = self.around_cross.leave(x, out)
        out = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, out)


def _product(weight: Tensor, bias: Tensor | None, precision: Precision) -> Map:
    """Return the map x -> x Wᵀ + b, whose result is float32 in either precision."""
    weight = weight.detach()
    bias = None if bias is None else bias.detach()
    if precision == "float32" or weight.numel() < LARGE:
        return lambda x: F.linear(x, weight, bias)
    half, half_bias = weight.bfloat16(), None if bias is None else bias.bfloat16()
    return lambda x: F.linear(x.bfloat16(), half, half_bias).float()


def _by_head(linear: nn.Linear, heads: int) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.unflatten(0, (heads, -1))
    return linear.weight.unflatten(0, (heads, -1)), bias


def _with_room(full: Float[Tensor, "B H L C"]) -> Float[Tensor, "B H M C"]:
    rows, heads, length, channels = full.shape
    wider = full.new_empty(rows, heads, length + max(LEAST_ROOM, length // 4), channels)
    wider[:, :, :length] = full
    return wider


def _versions(model: Transformer) -> list[tuple[int, int]]:
    return [(each.data_ptr(), each._version) for each in model.parameters()]
