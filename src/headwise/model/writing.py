"""Which of the ways to write token by token a model is laid out for."""

from __future__ import annotations

from headwise.errors import ModelError
from headwise.model.compiled_stepping import CompiledDecoder
from headwise.model.stepping import SteppingDecoder
from headwise.model.stepping_boxes import Precision
from headwise.model.transformer import Transformer
from headwise.native.compiler import NoKernelsError

WritingDecoder = CompiledDecoder | SteppingDecoder


def laid_out(
    model: Transformer, precision: Precision = "float32", *, compiled: bool = True
) -> WritingDecoder:
    """Lay a model out for compiled kernels where they can run it, else for PyTorch."""
    if compiled:
        try:
            return CompiledDecoder(model, precision)
        except (NoKernelsError, ModelError):
            pass  # `headwise doctor` says why
    return SteppingDecoder(model, precision)
