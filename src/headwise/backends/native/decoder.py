"""Decoding of an encoder-decoder in memory, on a CPU by the C kernels.

Its reference is :class:`TorchDecoder`, which does the same in PyTorch, and in the end
``Transformer.start`` and ``step``; ``tests/backends/native/test_decoder.py`` holds them
equal.

Letters used for sizes in this file: N sources, S source positions, P values of a patch.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Integer
from torch import Tensor

from headwise.backends.native.arrays_of_model import arrays_of_model
from headwise.backends.native.encoder_decoder import NativeEncoderDecoder
from headwise.backends.native.kv_cache import NativeState
from headwise.backends.native.patch_vectors import embed_patches
from headwise.backends.native.tensor_steps import TensorSteps
from headwise.backends.precision import Precision
from headwise.model.captioner import Captioner
from headwise.model.patches import PatchEmbedding
from headwise.model.transformer import Transformer


class NativeDecoder(TensorSteps):
    """A decoder on packed copies of a model's weights.

    Raises ``NativeLibraryError`` where there is no native library, and ``ModelError``
    for a model whose weights are not float32 on a CPU, or that is a variant.
    """

    steps: NativeEncoderDecoder

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        sizes = model.source_vocab_size, model.target_vocab_size
        self._patch_embedding: PatchEmbedding | None = None
        if isinstance(model, Captioner):
            self._patch_embedding = model.patch_embedding
        steps = NativeEncoderDecoder(arrays_of_model(model), *sizes, precision)
        super().__init__(model, steps)

    def start(
        self, source: Integer[Tensor, "N S *P"], source_is_real: Bool[Tensor, "N S"]
    ) -> NativeState:
        """Encode the sources; return a state with one row for each."""
        real = source_is_real.numpy()
        positions, lengths = np.ascontiguousarray(real.nonzero()[1]), real.sum(1)
        if self._patch_embedding is None:
            return self.steps.start(source.numpy()[real], positions, lengths)
        rows, vectors = (
            np.flatnonzero(real),
            embed_patches(self._patch_embedding, source),
        )
        return self.steps.start(rows, positions, lengths, vectors.numpy())
