"""Finds what was customized in a model by hand, which the C kernels would bypass.

The kernels go by the config and the weights alone; PyTorch calls hooks, replaced
modules and other forwards, and leaves frozen weights without a gradient, so it trains
such a model. ``tests/backends/native/test_training.py`` has a case for each kind.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from headwise.model.config import TransformerConfig
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer

HOOKS = (
    *("_forward_pre_hooks", "_forward_hooks"),
    *("_backward_pre_hooks", "_backward_hooks"),
)
"""Attributes in which a module keeps its hooks."""


INSTALLED = ("attend", "add_and_norm", "drop", "backend", "training")
"""Attributes that the config does not determine; each is checked elsewhere."""

Modules = dict[str, tuple[type[nn.Module], dict[str, Any]]]
"""Module name -> its class, and its attributes besides tensors."""


@lru_cache(maxsize=8)
def _as_constructed(
    config: TransformerConfig, source_vocab_size: int, target_vocab_size: int
) -> tuple[Modules, frozenset[str]]:
    """Return the modules and the names of the weights of a newly made model."""
    with torch.device("meta"):
        model = Transformer(config, source_vocab_size, target_vocab_size)
    modules: Modules = {}
    for name, module in model.named_modules():
        attributes = {
            key: value
            for key, value in vars(module).items()
            if not key.startswith("_") and key not in INSTALLED
            if not isinstance(value, Tensor)
        }
        modules[name] = type(module), attributes
    return modules, frozenset(name for name, _ in model.named_parameters())


def _find_replaced(model: Transformer) -> str | None:
    """Name a module, an attribute or a weight that is not as the config says."""
    modules, weights = _as_constructed(
        model.config, model.source_vocab_size, model.target_vocab_size
    )
    for name, module in model.named_modules():
        label = name or "the model"
        if name not in modules:
            return f"{label} is no part of such a model"
        kind, attributes = modules[name]
        if type(module) is not kind:
            return f"{label} is a {type(module).__name__}, which kernels do not know"
        own = vars(module)
        if "forward" in own:
            return f"{label} has another forward"
        for key, value in attributes.items():
            if own.get(key) != value:
                return f"{label}.{key} was changed"
        if module.training != model.training:
            mode = "training" if module.training else "evaluation"
            return f"{label} is in {mode} mode, which the model is not"
    for name, _ in model.named_parameters():
        if name not in weights:
            return f"{name} is no weight of such a model"
    return None


def find_customization(model: SequenceModel) -> str | None:
    """Name a frozen weight, a hook, or a module that was changed; None if all is usual.

    The kernels compute all gradients at once and call no hook meanwhile.
    """
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            return f"{name} is frozen (requires_grad = False)"
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            return f"{name} has a gradient hook"
    for name, module in model.named_modules():
        label = name or "the model"
        if any(getattr(module, hooks) for hooks in HOOKS):
            return f"{label} has a hook"
    if nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return "all modules have a hook (torch.nn.modules.module)"
    return _find_replaced(model) if isinstance(model, Transformer) else None
