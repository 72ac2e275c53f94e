"""Decoding on a GPU: each step has fixed shapes and is replayed as a CUDA graph.

The words are those of :class:`SteppingDecoder`, the reference. What is different: the
KV cache has static buffers (:mod:`headwise.backends.cuda.cuda_graphs`), the position is
a number on the device, and sources are filled up to a power of two; so a step is
captured once and then replayed in one call. Greedily, several tokens are written
before the host looks at them.

Letters used for sizes in this file:

    B  rows, one a hypothesis          S  source positions
    N  sources, each with W rows       V  vocabulary
    T  steps
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.cuda.cuda_graphs import AHEAD, Lent, Room, Rooms, Size
from headwise.backends.pytorch.decoder import SteppingDecoder
from headwise.backends.pytorch.layers import Precision
from headwise.model.embeddings import EnterStack
from headwise.model.positions import Places, Sinusoids
from headwise.model.transformer import Transformer

LEAST_LENGTH = 32
"""Positions of the smallest room."""

MOST_SHARING = 8
"""Rows up to which as many as there are share a source."""


class FixedState:
    """Who is in a room; what comes of it by ``rows`` or a step replaces it."""

    def __init__(
        self,
        decoder: FixedDecoder,
        lent: Lent,
        position: int,
        source_of: Sequence[int],
    ) -> None:
        self.decoder = decoder
        self.lent = lent
        self.position = position
        self.source_of = source_of
        """The source of each row, by its place in the room."""

    @torch.inference_mode()
    def rows(self, index: Int[Tensor, " rows"]) -> FixedState:
        """Keep these rows, repeats allowed."""
        chosen = index.tolist()
        kept, width = _shared([self.source_of[row] for row in chosen])
        old, written = self.lent.room, self.position
        size = self.decoder.size(len(kept), width, old.size.length)
        own = old.own[:, :, :, :written].index_select(1, index)
        lent = self.lent
        if size != old.size:
            lent = self.decoder.rooms.lend(size)
            lent.room.begin(old.here)
        if size != old.size or kept != list(range(len(kept))):
            among = torch.tensor(kept, device=index.device)
            lent.room.source[:, : len(kept)] = old.source.index_select(1, among)
            lent.room.padding[: len(kept)] = old.padding[among]
        lent.room.own[:, : len(chosen), :, :written] = own
        source_of = [place // width for place in range(len(chosen))]
        return FixedState(self.decoder, lent, written, source_of)

    def with_room(self) -> FixedState:
        """Return this, moved to where further tokens can be written, if need be."""
        old, size = self.lent.room, self.lent.room.size
        if self.position < size.length:
            return self
        lent = self.decoder.rooms.lend(
            self.decoder.size(size.sources, size.width, size.length + 1)
        )
        room, before = lent.room, size.length
        room.begin(old.here)
        room.source.zero_()
        room.source[..., :before, :] = old.source
        room.own[..., :before, :] = old.own
        room.padding.fill_(-math.inf)
        room.padding[..., :before] = old.padding
        return FixedState(self.decoder, lent, self.position, self.source_of)


class FixedDecoder:
    """Copies of a model's weights; see ``still_of`` for when they are out of date.

    Several threads may use it, each with states of its own.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        self.laid_out = laid_out = SteppingDecoder(model, precision)
        self.config = model.config
        own, on_a_gpu = laid_out.decoder[0].own, model.device.type == "cuda"
        make = partial(
            Room,
            memory=(len(laid_out.decoder), own.heads, own.width),
            vocab_size=model.target_vocab_size,
            like=laid_out.project.weight,
            pool=torch.cuda.graph_pool_handle() if on_a_gpu else None,
        )
        self.rooms = Rooms(make)

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        return self.laid_out.still_of(model)

    def size(self, sources: int, width: int, length: int) -> Size:
        """Return the size of a room for so many: few sizes, as each is recorded."""
        longest = max(LEAST_LENGTH, _power_of_two(length))
        if self.config.positions == "learned":
            longest = min(longest, max(length, self.config.max_positions))
        return Size(_power_of_two(sources), width, longest)

    @torch.inference_mode()
    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> FixedState:
        """Read the sources."""
        sources, length = source.shape
        lent = self.rooms.lend(self.size(sources, 1, length))
        room = lent.room
        room.given.zero_()
        room.given[:sources, :length] = source
        room.is_real.zero_()
        room.is_real[:, 0] = True  # attention to nothing would divide 0 by 0
        room.is_real[:sources, :length] = source_is_real
        room.do("read", self._read)
        return FixedState(self, lent, 0, range(sources))

    @torch.inference_mode()
    def step(
        self, tokens: Int[Tensor, " B"], state: FixedState
    ) -> tuple[Float[Tensor, "B V"], FixedState]:
        """Write one more token in every row; score what may follow."""
        state = state.with_room()
        room = state.lent.room
        room.tokens[: len(tokens)] = tokens
        room.do("write", self._write)
        scores = room.logits[: len(tokens)].clone()
        return scores, self._after(state, 1)

    @torch.inference_mode()
    def write_ahead(
        self,
        tokens: Int[Tensor, " B"],
        state: FixedState,
        *,
        most: int,
        end: int,
        enough: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "T B"], Int[Tensor, "T B"], FixedState]:
        """Write up to ``most`` tokens in every row, each the most probable one.

        Returns ln p and the tokens that follow ``tokens``. There are ``AHEAD`` steps at
        most, fewer where the room is full; ``end`` and ``enough`` do not matter here:
        to ask whether rows have ended would take longer than to go on.
        """
        state = state.with_room()
        room = state.lent.room
        steps = min(most, AHEAD, room.size.length - state.position)
        room.refuse(forbidden)
        room.tokens[: len(tokens)] = tokens
        room.turn.zero_()
        for _ in range(steps):
            room.do("choose", self._choose)
        log_p, found = (
            each[:steps, : len(tokens)].clone() for each in (room.log_p, room.found)
        )
        return log_p, found, self._after(state, steps)

    def _after(self, state: FixedState, steps: int) -> FixedState:
        position = state.position + steps
        return FixedState(self, state.lent, position, state.source_of)

    def _read(self, room: Room) -> None:
        laid_out = self.laid_out
        room.padding.copy_(laid_out.padding_of(room.is_real))
        x = laid_out.encoded(room.given, room.padding)
        _hold_places(room, "read", laid_out.model.enter_encoder)
        for number, block in enumerate(laid_out.decoder):
            room.source[number].copy_(block.read(x, room.size.sources))
        room.own.zero_()
        room.here.zero_()

    def _write(self, room: Room) -> None:
        laid_out, model = self.laid_out, self.laid_out.model
        where = Places(room.here.expand(room.size.rows)[:, None], room.size.length)
        x = model.enter_decoder(model.target_embedding(room.tokens[:, None]), where)
        _hold_places(room, "write", model.enter_decoder)
        x = x[:, 0].to(laid_out.numbers)
        room.past.zero_().masked_fill_(room.places > room.here, -math.inf)
        for number, block in enumerate(laid_out.decoder):
            remember = partial(_remembered, room, number)
            x = block(x, remember, room.source[number], room.padding)
        room.logits.copy_(laid_out.scores(x))
        room.here.add_(1)

    def _choose(self, room: Room) -> None:
        self._write(room)
        best, tokens = (room.logits + room.refused).max(-1)
        log_p = best - room.logits.logsumexp(-1)
        room.log_p.index_copy_(0, room.turn, log_p[None])
        room.found.index_copy_(0, room.turn, tokens[None])
        room.tokens.copy_(tokens)
        room.turn.add_(1)


def _remembered(room: Room, layer: int, new: Tensor) -> tuple[Tensor, Tensor]:
    memory = room.own[layer]
    memory.index_copy_(2, room.here, new[:, :, None])
    return memory, room.past


def _hold_places(room: Room, name: str, stack: EnterStack) -> None:
    """Keep the table that a recording reads, should the scheme make a longer one."""
    if isinstance(stack.add_positions.scheme, Sinusoids):
        room.held[name] = stack.add_positions.scheme.table


def _shared(sources: Sequence[int]) -> tuple[list[int], int]:
    """Return sources that stand one behind the other, and how many rows each has.

    Where not all have as many, nothing is shared; nor where they are many, unless a
    power of two: each number of rows has a recording of its own.
    """
    groups = [(source, len(list(rows))) for source, rows in groupby(sources)]
    widths = {width for _, width in groups}
    width = widths.pop() if widths else 1
    if widths or (width > MOST_SHARING and width != _power_of_two(width)):
        return list(sources), 1
    return [source for source, _ in groups], width


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
