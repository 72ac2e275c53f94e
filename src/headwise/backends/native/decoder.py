"""A trained model laid out for kernels that write one token after another on a CPU.

The words are those of :class:`SteppingDecoder`, which is the readable twin and does the
same in PyTorch. What is different: a step is one call into compiled code
(``csrc/decoder.c``), sources are read without padding, and no row is ever moved
(:mod:`headwise.backends.native.kv_cache`).

Letters used for sizes in this file:

    B  rows, one a hypothesis          V  vocabulary
    N  sources                         K  tokens kept for each row
    S  source positions                T  steps
"""

from __future__ import annotations

from ctypes import byref

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.native.buffer_pool import Pool
from headwise.backends.native.ctypes_structs import LANES, SourceMemory, Wanted, kernels
from headwise.backends.native.kv_cache import (
    CompiledState,
    Numbers,
    Room,
    Sources,
    address,
    nothing_written,
)
from headwise.backends.native.weights import CompiledWeights
from headwise.backends.pytorch.layers import Precision
from headwise.errors import NumericsError, UsageError
from headwise.model.transformer import Transformer

AHEAD = 16
"""Tokens that are written at most before a search looks at them."""


class CompiledDecoder:
    """Copies of a model's weights; see ``still_of`` for when they are out of date.

    Several threads may use it, each with states of its own. Raises ``NoKernelsError``
    where there are no compiled kernels, and ``ModelError`` for a model whose weights
    are not float32 numbers of a CPU.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        self.weights = CompiledWeights(model, precision)
        self.kernels = kernels()
        self.model = model
        self.config = config = model.config
        self.vocab_size = model.target_vocab_size
        self.pool = Pool()
        self.bytes = 2 if precision == "bf16" else 4  # of a number that is remembered
        self.record = config.num_heads * (config.key_width + config.value_width)

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        return self.weights.still_of(model)

    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> CompiledState:
        """Read the sources."""
        real = source_is_real.numpy()
        tokens = np.ascontiguousarray(source.numpy()[real], dtype=np.int64)
        where = np.ascontiguousarray(real.nonzero()[1])
        lengths = real.sum(1)
        longest = max(1, int(lengths.max(initial=0)))
        _require_entries(tokens, self.model.source_vocab_size)
        self.weights.let_read(source.shape[1])
        config, layers = self.config, self.config.decoder_layers
        starts = np.concatenate([[0], lengths.cumsum()])
        wide = -(-lengths // LANES) * LANES * config.num_heads * config.key_width
        ends = wide.cumsum()
        keys_at = ends - wide
        wide_keys = int(ends[-1]) if len(ends) else 0
        wide_values = len(tokens) * config.num_heads * config.value_width
        held, begin = [], []
        for width in (wide_keys, wide_values):
            block = self.pool.take(layers * width * self.bytes)
            held.append(block)
            begin.append(
                block.data_ptr() + np.arange(layers) * (width * self.bytes),
            )
        memory = SourceMemory(
            starts=address(starts),
            keys_at=address(keys_at),
            keys=address(begin[0]),
            values=address(begin[1]),
        )
        room, stacks = Room(self.pool), byref(self.weights.stacks)
        self.kernels.encode(
            stacks,
            address(tokens),
            address(where),
            len(lengths),
            byref(memory),
            longest,
            room.of(self.kernels.encode_floats(stacks, longest)),
        )
        kept = (starts, keys_at, begin, held)
        return nothing_written(Sources(memory, longest, kept, room), len(lengths))

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
        shape = tokens.shape[0], min(count, self.vocab_size)
        refused = self._refused(forbidden)
        log_p, found = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        wanted = Wanted(
            count=shape[1],
            num_refused=len(refused),
            refused=address(refused),
            tokens=found.data_ptr(),
            most=1,
        )
        newer, are_numbers = self._step(tokens, state, log_p, wanted)
        if not are_numbers:
            raise NumericsError.of_scores()
        return log_p, found, newer

    def write_ahead(
        self,
        tokens: Int[Tensor, " B"],
        state: CompiledState,
        *,
        most: int,
        end: int,
        enough: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "T B"], Int[Tensor, "T B"], CompiledState]:
        """Write the most probable token in every row, again and again.

        It ends when ``enough`` rows that were not given ``end`` have written it, or
        after ``most`` steps or ``AHEAD``; returns ln p and the tokens. Scores that are
        not numbers raise ``NumericsError``.
        """
        most = min(most, AHEAD)
        if self.config.positions == "learned":
            most = max(1, min(most, self.config.max_positions - state.position))
        shape = most, tokens.shape[0]
        refused = self._refused(forbidden)
        log_p, found = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        wanted = Wanted(
            count=1,
            num_refused=len(refused),
            refused=address(refused),
            tokens=found.data_ptr(),
            most=most,
            end=end,
            enough=enough,
        )
        newer, steps = self._step(tokens, state, log_p, wanted)
        if not steps:
            raise NumericsError.of_scores()
        return log_p[:steps], found[:steps], newer

    def _refused(self, forbidden: tuple[int, ...]) -> Numbers:
        known = [each for each in forbidden if 0 <= each < self.vocab_size]
        return np.array(known, dtype=np.int64)

    def _step(
        self,
        tokens: Int[Tensor, " B"],
        state: CompiledState,
        scores: Tensor,
        wanted: Wanted | None,
    ) -> tuple[CompiledState, int]:
        """Take the steps that are wanted; return how many, 0 if scores are none."""
        here, rows = state.position, tokens.shape[0]
        given = tokens.to(torch.int64).contiguous().numpy()
        _require_entries(given, self.vocab_size)
        if rows != len(state.source_of):
            raise UsageError(
                f"there must be a token for each of the {len(state.source_of)} rows of "
                f"the state, not {rows}"
            )
        most = 1 if wanted is None else wanted.most
        self.weights.let_write(here + most)
        state = state.with_room(most)
        records, sources = state.records.of(here, most), state.sources
        size = self.config.decoder_layers * rows * self.record * self.bytes
        records.add(self.pool.take(size * most), rows, size, most)
        longest = max(sources.longest, here + most)
        stacks = byref(self.weights.stacks)
        steps = self.kernels.write_on(
            stacks,
            address(given),
            rows,
            here,
            address(records.begin),
            address(records.rows),
            address(state.stems),
            state.stems.shape[1],
            byref(sources.memory),
            address(state.source_of),
            longest,
            scores.data_ptr(),
            None if wanted is None else byref(wanted),
            sources.room.of(self.kernels.spare_floats(stacks, rows, longest)),
        )
        records.end_at(here + steps)
        there = here + steps
        newer = CompiledState(sources, state.source_of, state.stems, there, records)
        return newer, steps


def _require_entries(tokens: Numbers, vocab_size: int) -> None:
    """Refuse numbers that are no entry: what is compiled does not look."""
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise UsageError(
            f"tokens must be 0 to {vocab_size - 1}, the entries of the model's "
            f"vocabulary, not {tokens.min()} to {tokens.max()}"
        )
