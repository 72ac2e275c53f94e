"""Decoding on a CPU by the C kernels: one call for one step, or for several.

Its reference is :class:`TorchDecoder`, which does the same in PyTorch, and in the end
``Transformer.start`` and ``step``; ``tests/backends/native/test_decoder.py`` holds them
equal. What is different: sources are encoded without padding, and the KV cache is
append-only (:mod:`headwise.backends.native.kv_cache`).

Letters used for sizes in this file:

    B  rows, one a hypothesis          V  vocabulary
    N  sources                         K  tokens kept for each row
    S  source positions                T  steps
"""

from __future__ import annotations

from ctypes import byref, pointer

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.api import Precision
from headwise.backends.native.buffer_pool import BufferPool
from headwise.backends.native.ctypes_structs import (
    LANES,
    CrossKV,
    DecodeRequest,
    EncodeRequest,
    TopKRequest,
)
from headwise.backends.native.functions import kernels
from headwise.backends.native.kv_cache import (
    Array,
    EncodedSources,
    NativeState,
    Scratch,
    address,
    initial_state,
)
from headwise.backends.native.weights import NativeWeights
from headwise.errors import NumericsError, UsageError
from headwise.model.transformer import Transformer

MAX_STEPS_AHEAD = 16
"""Greedy steps in one call, after which the search checks the tokens."""


class NativeDecoder:
    """A decoder on packed copies of a model's weights; see ``is_current``.

    Several threads may share it, each with states of its own. Raises
    ``NativeLibraryError`` where there is no native library, and ``ModelError`` for a
    model whose weights are not float32 on a CPU.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        self.weights = NativeWeights(model, precision)
        self.kernels = kernels()
        self.model = model
        self.config = config = model.config
        self.vocab_size = model.target_vocab_size
        self.pool = BufferPool()
        self.element_bytes = 2 if precision == "bf16" else 4  # of the KV cache
        self.kv_width = config.num_heads * (config.key_width + config.value_width)

    def is_current(self, model: Transformer) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self.weights.is_current(model)

    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> NativeState:
        """Encode the sources; return a state with one row for each."""
        real = source_is_real.numpy()
        tokens = np.ascontiguousarray(source.numpy()[real], dtype=np.int64)
        positions = np.ascontiguousarray(real.nonzero()[1])
        lengths = real.sum(1)
        longest = max(1, int(lengths.max(initial=0)))
        _require_token_ids(tokens, self.model.source_vocab_size)
        self.weights.ensure_source_positions(source.shape[1])
        cross_kv, buffers = self._allocate_cross_kv(lengths)
        scratch, model = Scratch(self.pool), byref(self.weights.model)
        request = EncodeRequest(
            sentences=len(lengths),
            tokens=address(tokens),
            positions=address(positions),
            cross=pointer(cross_kv),
            longest=longest,
        )
        floats = self.kernels.encode_scratch_floats(model, longest)
        self.kernels.encode(model, byref(request), scratch.of(floats))
        sources = EncodedSources(cross_kv, longest, buffers, scratch)
        return initial_state(sources, len(lengths))

    def _allocate_cross_kv(self, lengths: Array) -> tuple[CrossKV, tuple[object, ...]]:
        """Allocate keys and values of sources of these lengths; also what it holds."""
        config, layers = self.config, self.config.decoder_layers
        starts = np.concatenate([[0], lengths.cumsum()])
        padded = -(-lengths // LANES) * LANES * config.num_heads * config.key_width
        ends = padded.cumsum()
        key_offsets = ends - padded
        keys_size = int(ends[-1]) if len(ends) else 0
        values_size = int(starts[-1]) * config.num_heads * config.value_width
        buffers, layer_addresses = [], []
        for size in (keys_size, values_size):
            buffer = self.pool.take(layers * size * self.element_bytes)
            buffers.append(buffer)
            layer_addresses.append(
                buffer.data_ptr() + np.arange(layers) * (size * self.element_bytes)
            )
        cross_kv = CrossKV(
            starts=address(starts),
            key_offsets=address(key_offsets),
            keys=address(layer_addresses[0]),
            values=address(layer_addresses[1]),
        )
        return cross_kv, (starts, key_offsets, layer_addresses, buffers)

    def step(
        self, tokens: Int[Tensor, " B"], state: NativeState
    ) -> tuple[Float[Tensor, "B V"], NativeState]:
        """Append one token to every row; return the scores of the next one."""
        scores = torch.empty(len(tokens), self.vocab_size)
        newer, _ = self._decode(tokens, state, scores, None)
        return scores, newer

    def step_topk(
        self,
        tokens: Int[Tensor, " B"],
        state: NativeState,
        k: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"], NativeState]:
        """Append one token to every row; return the top-k of the next one.

        That is ln p and tokens of the ``k`` most probable, best first; ties go to
        the lower token. Not all scores stand in memory at once: top-k is found while
        they are computed. NaN or infinite scores raise ``NumericsError``.
        """
        shape = tokens.shape[0], min(k, self.vocab_size)
        banned = self._token_array(forbidden)
        log_p, found = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        request = TopKRequest(
            count=shape[1],
            num_forbidden=len(banned),
            forbidden=address(banned),
            tokens=found.data_ptr(),
            max_steps=1,
        )
        newer, is_finite = self._decode(tokens, state, log_p, request)
        if not is_finite:
            raise NumericsError.of_scores()
        return log_p, found, newer

    def decode_greedily(
        self,
        tokens: Int[Tensor, " B"],
        state: NativeState,
        *,
        max_steps: int,
        end: int,
        stop_at_finished: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "T B"], Int[Tensor, "T B"], NativeState]:
        """Decode greedily for several steps; return ln p and tokens of each.

        It stops when ``stop_at_finished`` rows that were not given ``end`` have
        produced it, or after ``max_steps`` or ``MAX_STEPS_AHEAD`` steps. NaN or
        infinite scores raise ``NumericsError``.
        """
        max_steps = min(max_steps, MAX_STEPS_AHEAD)
        if self.config.positions == "learned":
            left = self.config.max_positions - state.position
            max_steps = max(1, min(max_steps, left))
        shape = max_steps, tokens.shape[0]
        banned = self._token_array(forbidden)
        log_p, found = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
        request = TopKRequest(
            count=1,
            num_forbidden=len(banned),
            forbidden=address(banned),
            tokens=found.data_ptr(),
            max_steps=max_steps,
            end=end,
            min_ended=stop_at_finished,
        )
        newer, steps = self._decode(tokens, state, log_p, request)
        if not steps:
            raise NumericsError.of_scores()
        return log_p[:steps], found[:steps], newer

    def _token_array(self, forbidden: tuple[int, ...]) -> Array:
        known = [each for each in forbidden if 0 <= each < self.vocab_size]
        return np.array(known, dtype=np.int64)

    def _decode(
        self,
        tokens: Int[Tensor, " B"],
        state: NativeState,
        scores: Tensor,
        request: TopKRequest | None,
    ) -> tuple[NativeState, int]:
        """Run the requested steps; return how many, 0 for NaN or infinite scores."""
        position, rows = state.position, tokens.shape[0]
        given = tokens.to(torch.int64).contiguous().numpy()
        _require_token_ids(given, self.vocab_size)
        if rows != len(state.source_of):
            raise UsageError(
                f"there must be a token for each of the {len(state.source_of)} rows of "
                f"the state, not {rows}"
            )
        max_steps = 1 if request is None else request.max_steps
        self.weights.ensure_target_positions(position + max_steps)
        state = state.with_capacity(max_steps)
        cache, sources = state.cache.branch(position, max_steps), state.sources
        size = self.config.decoder_layers * rows * self.kv_width * self.element_bytes
        cache.append(self.pool.take(size * max_steps), rows, size, max_steps)
        longest = max(sources.longest, position + max_steps)
        model = byref(self.weights.model)
        decode_request = DecodeRequest(
            tokens=address(given),
            rows=rows,
            position=position,
            kv_blocks=address(cache.blocks),
            rows_at=address(cache.rows_at),
            ancestors=address(state.ancestors),
            ld=state.ancestors.shape[1],
            cross=pointer(sources.cross_kv),
            source_of=address(state.source_of),
            longest=longest,
        )
        steps = self.kernels.decode_steps(
            model,
            byref(decode_request),
            scores.data_ptr(),
            None if request is None else byref(request),
            sources.scratch.of(self.kernels.step_scratch_floats(model, rows, longest)),
        )
        cache.truncate(position + steps)
        newer = NativeState(
            sources, state.source_of, state.ancestors, position + steps, cache
        )
        return newer, steps


def _require_token_ids(tokens: Array, vocab_size: int) -> None:
    """Refuse numbers that are no token id: the kernels do not check them."""
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise UsageError(
            f"tokens must be 0 to {vocab_size - 1}, the entries of the model's "
            f"vocabulary, not {tokens.min()} to {tokens.max()}"
        )
