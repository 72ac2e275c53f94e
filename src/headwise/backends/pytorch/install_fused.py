"""Installs fused functions in a model, in place of those of ``headwise.model``.

They replace ``scaled_dot_product_attention``, ``add_and_norm`` and dropout, and compute
the same. The reference backend has those of ``headwise.model``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar, get_args

from torch import nn
from torch.nn import functional as F

from headwise.backends.pytorch.cpu_autograd import (
    dropout_in_autocast,
    fast_dropout,
    fused_add_and_norm,
)
from headwise.backends.pytorch.fused_attention import fused_attention
from headwise.errors import UsageError
from headwise.model.add_and_norm import AddAndNorm, add_and_norm
from headwise.model.attention import MultiHeadAttention, scaled_dot_product_attention
from headwise.model.dropout import Dropout
from headwise.model.embeddings import StackInput
from headwise.model.sequence_model import SequenceModel
from headwise.model.variants.attention import VariantAttention

Backend = Literal["auto", "native", "torch", "reference", "torch_compile"]


Model = TypeVar("Model", bound=SequenceModel)


def use_backend(model: Model, backend: str) -> Model:
    """Install a backend for training and whole forward passes; return ``model``.

    Models that ``model`` contains, such as the encoder below a head, get it too.
    """
    if backend not in get_args(Backend):
        names = ", ".join(get_args(Backend))
        raise UsageError(f"the backend must be one of {names}, not {backend!r}")
    for module in model.modules():
        if isinstance(module, SequenceModel):
            module.backend = backend
    install(model, fused=backend != "reference")
    return model


def install(model: nn.Module, *, fused: bool) -> None:
    """Install the fused functions in all layers of ``model``, or those of the paper.

    Variants of attention and of norms keep their own.
    """
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            if isinstance(module.attend, VariantAttention):
                continue
            module.attend = fused_attention if fused else scaled_dot_product_attention
        elif isinstance(module, AddAndNorm):
            if not isinstance(module.norm, nn.LayerNorm):
                continue
            module.add_and_norm = fused_add_and_norm if fused else add_and_norm
        elif isinstance(module, Dropout):
            module.drop = fast_dropout if fused else F.dropout
    for module in model.modules():
        if isinstance(module, StackInput) and fused:
            module.dropout.drop = dropout_in_autocast


def what_is_swapped(modules: Iterable[tuple[str, nn.Module]]) -> str | None:
    """Name a layer whose function is not one that is installed here, or None."""
    for name, module in modules:
        if isinstance(module, MultiHeadAttention):
            same = module.attend is fused_attention
        elif isinstance(module, AddAndNorm):
            same = module.add_and_norm is fused_add_and_norm
        elif isinstance(module, Dropout):
            same = module.drop in (fast_dropout, dropout_in_autocast)
        else:
            continue
        if not same:
            return f"{name} computes in another way than kernels do"
    return None
