"""Which of the ways to write token by token a model is laid out for."""

from __future__ import annotations

import torch

from headwise.backends.cuda.cuda_graph_decoder import FixedDecoder
from headwise.backends.native.compiler import NoKernelsError
from headwise.backends.native.decoder import CompiledDecoder
from headwise.backends.native.selection import takes_kernels
from headwise.backends.pytorch.decoder import SteppingDecoder
from headwise.backends.pytorch.layers import Precision
from headwise.errors import ModelError
from headwise.model.transformer import Transformer

WritingDecoder = CompiledDecoder | FixedDecoder | SteppingDecoder


def can_be_compiled(model: Transformer) -> bool:
    """Tell whether kernels in C, where there are any, can write with this model."""
    return all(
        each.dtype == torch.float32 and each.device.type == "cpu"
        for each in model.parameters()
    )


def laid_out(
    model: Transformer,
    precision: Precision = "float32",
    *,
    compiled: bool | None = None,
) -> WritingDecoder:
    """Lay a model out for the device it is on.

    On a CPU that is for kernels in C where they can run it, on a GPU for recorded
    steps; else, and where not ``compiled``, for PyTorch. Where that is None, kernels
    are taken only if they were measured to be faster than PyTorch.
    """
    if compiled is not False and model.device.type == "cuda":
        return FixedDecoder(model, precision)
    if compiled or (compiled is None and takes_kernels("decoding")):
        try:
            return CompiledDecoder(model, precision)
        except (NoKernelsError, ModelError):
            pass  # `headwise doctor` says why
    return SteppingDecoder(model, precision)
