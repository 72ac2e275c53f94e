"""A trained model laid out for kernels that write one token after another on a CPU.

The words are those of :class:`SteppingDecoder`, which is the readable twin and does the
same in PyTorch. What is different: a step is one call into compiled code
(:mod:`headwise.native`), sources are read without padding, and what rows have written
stays where it is: a row knows which row of each earlier step it stems from, so that
picking rows copies nothing but these numbers.

Letters used for sizes in this file:

    B  rows, one a hypothesis          D  model width
    N  sources                         E  channels of an embedding
    S  source positions                V  vocabulary
    P  positions written
"""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headwise.errors import ModelError, NumericsError
from headwise.model.decoder import DecoderBlock
from headwise.model.embeddings import EnterStack, TokenEmbedding
from headwise.model.encoder import EncoderBlock
from headwise.model.layout import Layout
from headwise.model.positions import LearnedPositions
from headwise.model.stepping import versions
from headwise.model.stepping_boxes import Precision
from headwise.model.transformer import Transformer
from headwise.native.structures import (
    BENDS,
    Entry,
    Layer,
    SourceMemory,
    Stacks,
    Wanted,
    kernels,
)

LANES = 16
"""Positions to multiples of which keys are filled up; as in ``kernels.h``."""

FIRST_PLACES = 256
"""Positions whose vectors are computed at first; they double as needed."""

Numbers = NDArray[Any]


class Room:
    """Memory for what is computed on the way, kept from step to step."""

    def __init__(self) -> None:
        self._floats = torch.empty(0)

    def of(self, size: int) -> int:
        """Return the address of so many floats, which may have held others before."""
        if len(self._floats) < size:
            self._floats = torch.empty(size)
        return self._floats.data_ptr()


@dataclass(frozen=True)
class Sources:
    """What N sources were read to, for every row that writes from them."""

    memory: SourceMemory
    longest: int
    held: tuple[object, ...]
    """What ``memory`` points to."""
    room: Room


@dataclass(frozen=True)
class CompiledState:
    """What is written and read so far; stepping on leaves it as it is."""

    sources: Sources
    source_of: Numbers
    """The source of each row [B]."""
    stems: Numbers
    """Which row of each earlier step a row stems from [B P]."""
    written: tuple[Float[Tensor, "layers rows channels"], ...] = ()
    """Keys and values of each position, of the rows of that time."""

    def rows(self, index: Int[Tensor, " rows"]) -> CompiledState:
        """Keep these rows, repeats allowed."""
        kept = index.numpy()
        return replace(self, source_of=self.source_of[kept], stems=self.stems[kept])


class CompiledDecoder:
    """Copies of a model's weights; see ``still_of`` for when they are out of date.

    Raises ``NoKernelsError`` where there are no compiled kernels, and ``ModelError``
    for a model whose weights are not float32 numbers of a CPU.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        self.kernels = kernels()
        self.parameters = list(model.parameters())
        if any(
            each.dtype != torch.float32 or each.device.type != "cpu"
            for each in self.parameters
        ):
            raise ModelError(
                "compiled kernels run models in float32 on a CPU; the weights of this "
                "one are other numbers or elsewhere"
            )
        self._of = versions(self.parameters)
        self.model = model
        config = self.config = model.config
        self.vocab_size = model.target_vocab_size
        self.record = config.num_heads * (config.key_width + config.value_width)
        with torch.no_grad():
            layout = self.layout = Layout(precision)
            encoder = [
                layout.encoder_layer(cast(EncoderBlock, block))
                for block in model.encoder.blocks
            ]
            decoder = [
                layout.decoder_layer(cast(DecoderBlock, block))
                for block in model.decoder.blocks
            ]
            self.stacks = Stacks(
                encoder_layers=len(encoder),
                decoder_layers=len(decoder),
                model=config.d_model,
                heads=config.num_heads,
                key=config.key_width,
                value=config.value_width,
                inner=config.d_ff,
                pre=config.norm == "pre",
                bend=BENDS[config.activation],
                reading=self._entry(model.source_embedding, model.enter_encoder),
                writing=self._entry(model.target_embedding, model.enter_decoder),
                encoder_last=layout.norm(model.encoder.last_norm),
                decoder_last=layout.norm(model.decoder.last_norm),
                scores=layout.product(model.output_vectors, model.output.bias),
                encoder=(Layer * len(encoder))(*encoder),
                decoder=(Layer * len(decoder))(*decoder),
            )

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        same = next(model.parameters()) is self.parameters[0]
        return same and self._of == versions(self.parameters)

    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> CompiledState:
        """Read the sources."""
        real = source_is_real.numpy()
        tokens = source.numpy()[real]
        where = np.ascontiguousarray(real.nonzero()[1])
        lengths = real.sum(1)
        longest = max(1, int(lengths.max(initial=0)))
        self._require(tokens, self.model.source_vocab_size)
        self._make_places(
            self.stacks.reading, self.model.enter_encoder, source.shape[1]
        )
        config, layers = self.config, self.config.decoder_layers
        starts = np.concatenate([[0], lengths.cumsum()])
        wide = -(-lengths // LANES) * LANES * config.num_heads * config.key_width
        ends = wide.cumsum()
        keys_at = ends - wide
        keys = torch.empty(layers, int(ends[-1]) if len(ends) else 0)
        values = torch.empty(layers, len(tokens), config.num_heads * config.value_width)
        addresses = [
            np.array([each.data_ptr() for each in both]) for both in (keys, values)
        ]
        memory = SourceMemory(
            starts=starts.ctypes.data,
            keys_at=keys_at.ctypes.data,
            keys=addresses[0].ctypes.data,
            values=addresses[1].ctypes.data,
        )
        room = Room()
        self.kernels.encode(
            byref(self.stacks),
            tokens.ctypes.data,
            where.ctypes.data,
            len(lengths),
            byref(memory),
            longest,
            room.of(self.kernels.encode_floats(byref(self.stacks), longest)),
        )
        held = (starts, keys_at, keys, values, addresses)
        return CompiledState(
            Sources(memory, longest, held, room),
            np.arange(len(lengths)),
            np.empty((len(lengths), 0), dtype=np.int32),
        )

    def step(
        self, tokens: Int[Tensor, " B"], state: CompiledState
    ) -> tuple[Float[Tensor, "B V"], CompiledState]:
        """Write one more token in every row; score what may follow."""
        scores = torch.empty(len(tokens), self.vocab_size)
        newer, _ = self._step(tokens, state, scores, None)
        return scores, newer

    def step_to_likely(
        self,
        tokens: Int[Tensor, " B"],
        state: CompiledState,
        count: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"], CompiledState]:
        """Write one more token in every row; return ln p and tokens that may follow.

        They are the ``count`` most probable, best first, of equals the lower first.

        Not all scores stand in memory at once: they are looked at while they are
        computed. Scores that are not numbers raise ``NumericsError``.
        """
        shape = len(tokens), min(count, self.vocab_size)
        refused = np.array(forbidden, dtype=np.int64)
        log_p, found = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        wanted = Wanted(
            count=shape[1],
            num_refused=len(refused),
            refused=refused.ctypes.data,
            tokens=found.data_ptr(),
        )
        newer, numbers = self._step(tokens, state, log_p, wanted)
        if not numbers:
            raise NumericsError(
                "the model gave scores for the next token that are not numbers (NaN, "
                "infinite, or -inf for every token); a checkpoint from before training "
                "diverged may help"
            )
        return log_p, found, newer

    def _step(
        self,
        tokens: Int[Tensor, " B"],
        state: CompiledState,
        scores: Tensor,
        wanted: Wanted | None,
    ) -> tuple[CompiledState, bool]:
        here, rows = len(state.written), len(tokens)
        given = tokens.contiguous().numpy()
        self._require(given, self.vocab_size)
        self._make_places(self.stacks.writing, self.model.enter_decoder, here + 1)
        new = torch.empty(self.config.decoder_layers, rows, self.record)
        written = (*state.written, new)
        addresses = np.array([each.data_ptr() for each in written])
        rows_then = np.array([each.shape[1] for each in written])
        stems = np.ascontiguousarray(state.stems)
        longest = max(state.sources.longest, here + 1)
        done = self.kernels.step(
            byref(self.stacks),
            given.ctypes.data,
            rows,
            here,
            addresses.ctypes.data,
            rows_then.ctypes.data,
            stems.ctypes.data,
            byref(state.sources.memory),
            state.source_of.ctypes.data,
            longest,
            scores.data_ptr(),
            None if wanted is None else byref(wanted),
            state.sources.room.of(
                self.kernels.spare_floats(byref(self.stacks), rows, longest)
            ),
        )
        mine = np.arange(rows, dtype=np.int32)[:, None]
        newer = CompiledState(
            state.sources, state.source_of, np.hstack([stems, mine]), written
        )
        return newer, bool(done)

    def _entry(self, embedding: TokenEmbedding, foot: EnterStack) -> Entry:
        entry = Entry(
            table=self.layout.kept(embedding.vectors),
            positions=0,
            width=embedding.vectors.shape[1],
            scale=embedding.scale,
            around=self.layout.norm(foot.norm),
        )
        self._make_places(entry, foot, 1)
        return entry

    def _make_places(self, entry: Entry, foot: EnterStack, count: int) -> None:
        """See to it that ``count`` positions have vectors."""
        if count <= entry.positions:
            return
        scheme = foot.add_positions.scheme
        if isinstance(scheme, LearnedPositions):
            room = max(count, len(scheme.vectors))  # beyond them, it says what is wrong
        else:
            room = max(FIRST_PLACES, 1 << (count - 1).bit_length())
        nothing = torch.zeros(1, room, self.config.embedding_width)
        with torch.no_grad():
            places = foot.add_positions(nothing, 0)[0]
        if self.config.position_join == "concatenate":
            places = places.contiguous()
        # What another thread may be reading now stays as it is.
        entry.places = self.layout.kept(places)
        entry.positions = room

    @staticmethod
    def _require(tokens: Numbers, vocab_size: int) -> None:
        """Refuse numbers that are no entry: what is compiled does not look."""
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
            raise IndexError(
                f"tokens must be 0 to {vocab_size - 1}, not {tokens.min()} to "
                f"{tokens.max()}"
            )
