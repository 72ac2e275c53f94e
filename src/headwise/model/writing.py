"""Which of the ways to write token by token a model is laid out for."""

from __future__ import annotations

import torch

from headwise.errors import ModelError
from headwise.model.compiled_stepping import CompiledDecoder
from headwise.model.fixed_stepping import FixedDecoder
from headwise.model.stepping import SteppingDecoder
from headwise.model.stepping_boxes import Precision
from headwise.model.transformer import Transformer
from headwise.native.compiler import NoKernelsError, why_not

WritingDecoder = CompiledDecoder | FixedDecoder | SteppingDecoder


def is_written_compiled(model: Transformer) -> bool:
    """Tell whether compiled kernels would write with this model."""
    return why_not() is None and all(
        each.dtype == torch.float32 and each.device.type == "cpu"
        for each in model.parameters()
    )


def laid_out(
    model: Transformer, precision: Precision = "float32", *, compiled: bool = True
) -> WritingDecoder:
    """Lay a model out for the device it is on.

    On a CPU that is for compiled kernels where they can run it, on a GPU for recorded
    steps; else, and where not ``compiled``, for PyTorch.
    """
    if compiled and model.device.type == "cuda":
        return FixedDecoder(model, precision)
    if compiled:
        try:
            return CompiledDecoder(model, precision)
        except (NoKernelsError, ModelError):
            pass  # `headwise doctor` says why
    return SteppingDecoder(model, precision)
