"""Generation with a decoder alone (GPT) on a CPU by the C kernels.

Its reference is ``DecoderOnly.start`` and ``step``;
``tests/backends/native/test_decoder_only.py`` holds them equal. What is different:
prompts go through the model without padding (``csrc/prefill.c``), all tokens but the
last, which is the first step; for steps see :mod:`headwise.backends.native.steps`.

Letters used for sizes in this file: B rows, P tokens of a prompt.
"""

from __future__ import annotations

from ctypes import byref

import numpy as np
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.backends.native.arrays import Array, address
from headwise.backends.native.arrays_of_model import arrays_of_model
from headwise.backends.native.ctypes_structs import CrossKV, PrefillRequest
from headwise.backends.native.kv_cache import (
    EncodedSources,
    NativeState,
    Scratch,
    initial_state,
)
from headwise.backends.native.steps import NativeSteps, require_token_ids
from headwise.backends.native.tensor_steps import TensorSteps
from headwise.backends.precision import Precision
from headwise.model.decoder_only import DecoderOnly


class NativeDecoderOnly(TensorSteps):
    """A decoder on packed copies of a model's weights.

    Raises ``NativeLibraryError`` where there is no native library, and ``ModelError``
    for a model whose weights are not float32 on a CPU, or that is a variant.
    """

    steps: StepsAfterPrompts

    def __init__(self, model: DecoderOnly, precision: Precision = "float32") -> None:
        arrays = arrays_of_model(model)
        super().__init__(model, StepsAfterPrompts(arrays, model.vocab_size, precision))

    def start(
        self, prompt: Int[Tensor, "B P"], prompt_is_real: Bool[Tensor, "B P"]
    ) -> NativeState:
        """Begin texts with these prompts: see ``DecoderOnly.start``."""
        return self.steps.start(prompt.numpy(), prompt_is_real.numpy())


class StepsAfterPrompts(NativeSteps):
    """Steps of texts that begin with prompts."""

    def start(self, prompt: Array, real: Array) -> NativeState:
        """Return a state with a row for each prompt [B P]."""
        lengths = real.sum(1)
        longest = int(lengths.max(initial=0))
        tokens = prompt[real].astype(np.int64)
        require_token_ids(tokens, self.vocab_size)
        padding = np.ascontiguousarray(longest - lengths)
        prompts = np.zeros((len(real), longest), dtype=np.int64)
        prompts[np.arange(longest) >= padding[:, None]] = tokens  # padding comes first
        nothing = EncodedSources(CrossKV(), 0, (), Scratch(self.pool))
        return initial_state(nothing, len(real), padding, prompts)

    def _begin(self, tokens: Array, state: NativeState) -> tuple[Array, NativeState]:
        """Prefill the prompts, if that is still to be done.

        A text is the given token, then the prompt: all but its last token go to the KV
        cache, and the last one is returned.
        """
        if state.prompts is None or state.padding is None:
            return tokens, state
        given, (rows, count) = self._checked(tokens, state), state.prompts.shape
        texts = np.empty((rows, count + 1), dtype=np.int64)
        texts[:, 1:] = state.prompts
        texts[np.arange(rows), state.padding] = given
        if count:
            state = self._prefilled(texts[:, :-1], state, state.padding)
        else:
            state = state.advanced(0, state.cache)
        return texts[:, -1], state

    def _prefilled(
        self, texts: Array, state: NativeState, padding: Array
    ) -> NativeState:
        """Return the state after ``texts`` [B P], whose padding comes first."""
        count = texts.shape[1]
        tokens = texts[np.arange(count) >= padding[:, None]]
        starts = np.concatenate([[0], (count - padding).cumsum()])
        self.weights.ensure_target_positions(count)
        state = state.with_capacity(count)
        cache = self._allocate(state, count)
        model = byref(self.weights.model)
        request = PrefillRequest(
            tokens=address(tokens),
            starts=address(starts),
            rows=len(texts),
            end=count,
            kv_blocks=address(cache.blocks),
        )
        most = self.kernels.prefill_rows(byref(request))
        floats = self.kernels.step_scratch_floats(model, most, count)
        scratch = state.sources.scratch.of(floats)
        self.kernels.prefill(model, byref(request), scratch)
        return state.advanced(count, cache)
