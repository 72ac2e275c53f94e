"""What was changed in a model by hand, which fused kernels would pass over.

Kernels go by the config and the weights alone. PyTorch calls hooks, other modules and
other forwards, and leaves frozen weights without a gradient: it trains such a model.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer

HOOKS = (
    *("_forward_pre_hooks", "_forward_hooks"),
    *("_backward_pre_hooks", "_backward_hooks"),
)
"""Where a module keeps the hooks that PyTorch would call."""


SWITCHES = ("attend", "add_and_norm", "drop", "backend", "training")
"""Attributes of modules that are not given by the config; each is looked at apart."""

Parts = dict[str, tuple[type[nn.Module], dict[str, Any]]]
"""Of each module, by name: its class, and its attributes besides tensors."""


@lru_cache(maxsize=8)
def _as_made(
    config: TransformerConfig, source_vocab_size: int, target_vocab_size: int
) -> tuple[Parts, frozenset[str]]:
    """Return the modules and the names of the weights that such a model begins with."""
    with torch.device("meta"):
        model = Transformer(config, source_vocab_size, target_vocab_size)
    parts: Parts = {}
    for name, module in model.named_modules():
        settings = {
            key: value
            for key, value in vars(module).items()
            if not key.startswith("_") and key not in SWITCHES
            if not isinstance(value, Tensor)
        }
        parts[name] = type(module), settings
    return parts, frozenset(name for name, _ in model.named_parameters())


def _changed_by_hand(model: Transformer) -> str | None:
    """Name what is not as the config says; kernels go by the config alone."""
    parts, weights = _as_made(
        model.config, model.source_vocab_size, model.target_vocab_size
    )
    for name, module in model.named_modules():
        named = name or "the model"
        if name not in parts:
            return f"{named} is no part of such a model"
        kind, settings = parts[name]
        if type(module) is not kind:
            return f"{named} is a {type(module).__name__}, which kernels do not know"
        mine = vars(module)
        if "forward" in mine:
            return f"{named} has another forward"
        for key, value in settings.items():
            if mine.get(key) != value:
                return f"{named}.{key} was changed"
        if module.training != model.training:
            mode = "training" if module.training else "evaluation"
            return f"{named} is in {mode} mode, which the model is not"
    for name, _ in model.named_parameters():
        if name not in weights:
            return f"{name} is no weight of such a model"
    return None


def what_is_special(model: Transformer) -> str | None:
    """Name what only PyTorch heeds: a frozen weight, a hook, a module that was changed.

    Kernels compute all gradients at once and call nobody meanwhile.
    """
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            return f"{name} is frozen (requires_grad = False)"
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            return f"{name} has a gradient hook"
    for name, module in model.named_modules():
        named = name or "the model"
        if any(getattr(module, hooks) for hooks in HOOKS):
            return f"{named} has a hook"
    if nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return "all modules have a hook (torch.nn.modules.module)"
    return _changed_by_hand(model)
