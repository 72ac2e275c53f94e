"""Steps of the native decoders: one call for one step, or for several.

Arrays in, arrays out, so that a search needs no torch; ``tensor_steps.py`` has the same
for tensors. Their reference is ``step`` of the model;
``tests/backends/native/test_decoder.py`` and ``test_decoder_only.py`` hold them equal.
What is different: the KV cache is append-only
(:mod:`headwise.backends.native.kv_cache`).

Letters used for sizes in this file:

    B  rows, one a hypothesis          V  vocabulary
    K  tokens kept for each row        T  steps
"""

from __future__ import annotations

from ctypes import byref, pointer

import numpy as np

from headwise.backends.native.arrays import Array, address
from headwise.backends.native.buffer_pool import BufferPool
from headwise.backends.native.ctypes_structs import DecodeRequest, TopKRequest
from headwise.backends.native.functions import kernels
from headwise.backends.native.kv_cache import KVCache, NativeState
from headwise.backends.native.weight_arrays import ModelArrays
from headwise.backends.native.weights import NativeWeights
from headwise.backends.precision import Precision
from headwise.errors import NumericsError, UsageError

MAX_STEPS_AHEAD = 16
"""Greedy steps in one call, after which the search checks the tokens."""


class NativeSteps:
    """What native decoders share, on packed copies of weights; each has its ``start``.

    Several threads may share a decoder, each with states of its own. Raises
    ``NativeLibraryError`` where there is no native library.
    """

    def __init__(
        self, arrays: ModelArrays, vocab_size: int, precision: Precision
    ) -> None:
        self.weights = NativeWeights(arrays, precision)
        self.kernels = kernels()
        self.config = config = arrays.config
        self.vocab_size = vocab_size
        self.pool = BufferPool()
        self.element_bytes = 2 if precision == "bf16" else 4  # of the KV cache
        self.kv_width = config.num_heads * (config.key_width + config.value_width)

    def scores(self, tokens: Array, state: NativeState) -> tuple[Array, NativeState]:
        """Append one token to every row [B]; return the scores [B V] of the next."""
        tokens, state = self._begin(tokens, state)
        scores = np.empty((len(tokens), self.vocab_size), dtype=np.float32)
        newer, _ = self._decode(tokens, state, scores, None)
        return scores, newer

    def topk(
        self, tokens: Array, state: NativeState, k: int, forbidden: tuple[int, ...]
    ) -> tuple[Array, Array, NativeState]:
        """Append one token to every row [B]; return the top-k of the next one.

        That is ln p and tokens [B K] of the ``k`` most probable, best first; ties go to
        the lower token. Not all scores stand in memory at once: top-k is found while
        they are computed. NaN or infinite scores raise ``NumericsError``.
        """
        tokens, state = self._begin(tokens, state)
        shape = len(tokens), min(k, self.vocab_size)
        banned = self._token_array(forbidden)
        log_p = np.empty(shape, dtype=np.float32)
        found = np.empty(shape, dtype=np.int64)
        request = TopKRequest(
            count=shape[1],
            num_forbidden=len(banned),
            forbidden=address(banned),
            tokens=address(found),
            max_steps=1,
        )
        newer, is_finite = self._decode(tokens, state, log_p, request)
        if not is_finite:
            raise NumericsError.of_scores()
        return log_p, found, newer

    def greedy(
        self,
        tokens: Array,
        state: NativeState,
        *,
        max_steps: int,
        end: int,
        stop_at_finished: int,
        forbidden: tuple[int, ...],
        scored: bool = True,
    ) -> tuple[Array, Array, NativeState]:
        """Decode greedily for several steps; return ln p and tokens [T B] of each.

        Unless ``scored``, ln p is NaN, which saves the softmax; or -inf as ever.

        It stops when ``stop_at_finished`` rows that were not given ``end`` have
        produced it, or after ``max_steps`` or ``MAX_STEPS_AHEAD`` steps. NaN or
        infinite scores raise ``NumericsError``.
        """
        tokens, state = self._begin(tokens, state)
        max_steps = min(max_steps, MAX_STEPS_AHEAD)
        if self.config.positions == "learned":
            left = self.config.max_positions - state.longest
            max_steps = max(1, min(max_steps, left))
        shape = max_steps, len(tokens)
        banned = self._token_array(forbidden)
        log_p = np.empty(shape, dtype=np.float32)
        found = np.empty(shape, dtype=np.int64)
        request = TopKRequest(
            count=1,
            num_forbidden=len(banned),
            forbidden=address(banned),
            tokens=address(found),
            max_steps=max_steps,
            end=end,
            min_ended=stop_at_finished,
            unscored=not scored,
        )
        newer, steps = self._decode(tokens, state, log_p, request)
        if not steps:
            raise NumericsError.of_scores()
        return log_p[:steps], found[:steps], newer

    def _begin(self, tokens: Array, state: NativeState) -> tuple[Array, NativeState]:
        """Run what is before the first step; return tokens and state of the step."""
        return tokens, state

    def _token_array(self, forbidden: tuple[int, ...]) -> Array:
        known = [each for each in forbidden if 0 <= each < self.vocab_size]
        return np.array(known, dtype=np.int64)

    def _decode(
        self,
        tokens: Array,
        state: NativeState,
        scores: Array,
        request: TopKRequest | None,
    ) -> tuple[NativeState, int]:
        """Run the requested steps; return how many, 0 for NaN or infinite scores."""
        position, rows = state.position, len(tokens)
        given = self._checked(tokens, state)
        max_steps = 1 if request is None else request.max_steps
        self.weights.ensure_target_positions(state.longest + max_steps)
        state = state.with_capacity(max_steps)
        cache = self._allocate(state, max_steps)
        sources = state.sources
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
            padding=None if state.padding is None else address(state.padding),
            longest=longest,
        )
        steps = self.kernels.decode_steps(
            model,
            byref(decode_request),
            address(scores),
            None if request is None else byref(request),
            sources.scratch.of(self.kernels.step_scratch_floats(model, rows, longest)),
        )
        cache.truncate(position + steps)
        return state.advanced(position + steps, cache), steps

    def _checked(self, tokens: Array, state: NativeState) -> Array:
        """Return the tokens of a step as the kernels read them."""
        given: Array = np.ascontiguousarray(tokens, dtype=np.int64)
        require_token_ids(given, self.vocab_size)
        if len(given) != len(state.source_of):
            raise UsageError(
                f"there must be a token for each of the {len(state.source_of)} rows of "
                f"the state, not {len(given)}"
            )
        return given

    def _allocate(self, state: NativeState, count: int) -> KVCache:
        """Return the KV cache of ``state`` with space for ``count`` more positions."""
        rows, cache = len(state.source_of), state.cache.branch(state.position, count)
        size = self.config.decoder_layers * rows * self.kv_width * self.element_bytes
        cache.append(self.pool.take(size * count), rows, size, count)
        return cache


def require_token_ids(tokens: Array, vocab_size: int) -> None:
    """Refuse numbers that are no token id: the kernels do not check them."""
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise UsageError(
            f"tokens must be 0 to {vocab_size - 1}, the entries of the model's "
            f"vocabulary, not {tokens.min()} to {tokens.max()}"
        )
