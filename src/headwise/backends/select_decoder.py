"""The one place that chooses a decoding backend."""

from __future__ import annotations

import torch

from headwise.backends.api import DecoderBackend, GenerativeModel
from headwise.backends.cuda.cuda_graph_decoder import CudaGraphDecoder
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.decoder_only import NativeDecoderOnly
from headwise.backends.native.library import NativeLibraryError
from headwise.backends.native.measured_speed import prefers_native
from headwise.backends.precision import Precision
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.reference import ReferenceDecoder, why_reference_only
from headwise.errors import ModelError
from headwise.model.decoder_only import DecoderOnly
from headwise.model.patches import PatchEmbedding
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer


def runs_natively(model: SequenceModel) -> bool:
    """Tell whether the native backend, where there is one, can decode with a model."""
    return isinstance(model, Transformer | DecoderOnly) and all(
        each.dtype == torch.float32 and each.device.type == "cpu"
        for each in model.parameters()
    )


def make_decoder(
    model: GenerativeModel,
    precision: Precision = "float32",
    *,
    native: bool | None = None,
) -> DecoderBackend:
    """Return a decoder for the device that a model is on.

    ``native`` asks for a device's own backend, C kernels on a CPU or CUDA graphs on a
    GPU (True), or for PyTorch (False). None takes CUDA graphs on a GPU, and on a CPU
    the C kernels if they were measured to be faster than PyTorch. A model that the C
    kernels cannot run gets PyTorch. A decoder alone has C kernels on a CPU, or else
    decodes by its own ``step``, in its own precision; a recurrent model always does,
    and so does any model with interventions or variants (:func:`why_reference_only`).
    """
    if why_reference_only(model) is not None:
        return ReferenceDecoder(model)
    if (
        native is not False
        and model.device.type == "cuda"
        and isinstance(model, Transformer)
        and not any(isinstance(each, PatchEmbedding) for each in model.modules())
    ):
        return CudaGraphDecoder(model, precision)
    if native or (native is None and prefers_native("decoding")):
        try:
            if isinstance(model, DecoderOnly):
                return NativeDecoderOnly(model, precision)
            if isinstance(model, Transformer):
                return NativeDecoder(model, precision)
        except (NativeLibraryError, ModelError):
            pass  # `headwise doctor` says why
    if isinstance(model, Transformer):
        return TorchDecoder(model, precision)
    return ReferenceDecoder(model)
