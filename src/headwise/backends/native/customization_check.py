"""Finds what was customized in a model by hand, which the C kernels would bypass.

The kernels go by the config and the weights alone; PyTorch calls hooks, replaced
modules and other forwards, and leaves frozen weights without a gradient, so it trains
such a model. ``tests/backends/native/test_training.py`` has a case for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from headwise.backends.reference import why_intervened
from headwise.model.captioner import Captioner
from headwise.model.config import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_only import EncoderOnly
from headwise.model.picture_encoder import PictureEncoder
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


KINDS: dict[type[SequenceModel], tuple[str, ...]] = {
    Transformer: ("source_vocab_size", "target_vocab_size"),
    Captioner: ("patch_values", "target_vocab_size"),
    EncoderOnly: ("vocab_size",),
    PictureEncoder: ("patch_values",),
    DecoderOnly: ("vocab_size", "window"),
}
"""The models that kernels run -> attributes that their constructors take besides the
config. Any other model is made of these, and of modules that PyTorch runs."""

_KNOWN = tuple(KINDS)


def is_known(module: nn.Module) -> bool:
    """Tell whether kernels run such a model, as far as its kind goes."""
    return isinstance(module, _KNOWN)


@lru_cache(maxsize=8)
def _as_constructed(
    make: Callable[..., SequenceModel],
    config: TransformerConfig,
    arguments: tuple[tuple[str, int | None], ...],
) -> tuple[Modules, frozenset[str]]:
    """Return the modules and the names of the weights of a newly made model."""
    with torch.device("meta"):
        model = make(config, **dict(arguments))
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


class NamedParts(NamedTuple):
    """All modules and weights of a model with their names, each once."""

    modules: list[tuple[str, nn.Module]]
    weights: list[tuple[str, nn.Parameter]]


def named_parts(model: nn.Module) -> NamedParts:
    """Return what ``named_modules`` and ``named_parameters`` do, but faster.

    Each batch asks for it.
    """
    parts = NamedParts([], [])
    known: set[int] = set()

    def visit(name: str, module: nn.Module) -> None:
        known.add(id(module))
        parts.modules.append((name, module))
        prefix = f"{name}." if name else ""
        for key, weight in module._parameters.items():
            if weight is not None and id(weight) not in known:
                known.add(id(weight))
                parts.weights.append((prefix + key, weight))
        for key, child in module._modules.items():
            if child is not None and id(child) not in known:
                visit(prefix + key, child)

    visit("", model)
    return parts


def _find_replaced(
    model: SequenceModel, of_whole: str, parts: NamedParts
) -> str | None:
    """Name a module, an attribute or a weight that is not as the config says.

    ``of_whole`` is the name of ``model`` in the whole model, "" if it is that itself,
    and ``parts`` are its own.
    """
    kind = next(each for each in type(model).__mro__ if each in KINDS)
    arguments = tuple((name, getattr(model, name)) for name in KINDS[kind])
    make: Callable[..., SequenceModel] = kind
    modules, weights = _as_constructed(make, model.config, arguments)

    def label(name: str) -> str:
        return ".".join(filter(None, (of_whole, name))) or "the model"

    for name, module in parts.modules:
        if name not in modules:
            return f"{label(name)} is no part of such a model"
        expected, attributes = modules[name]
        if type(module) is not expected:
            kind_of_it = type(module).__name__
            return f"{label(name)} is a {kind_of_it}, which kernels do not know"
        own = vars(module)
        if "forward" in own:
            return f"{label(name)} has another forward"
        for key, value in attributes.items():
            if own.get(key) != value:
                return f"{label(name)}.{key} was changed"
        if module.training != model.training:
            mode = "training" if module.training else "evaluation"
            return f"{label(name)} is in {mode} mode, which the model is not"
    for name, _ in parts.weights:
        if name not in weights:
            return f"{label(name)} is no weight of such a model"
    return None


def find_customization(
    model: SequenceModel, parts: NamedParts | None = None
) -> str | None:
    """Name an intervention, frozen weight, hook or changed module; None if none is.

    The kernels compute all gradients at once and call no hook meanwhile. Of a model
    that contains others, such as an encoder with a head, its own modules may be any.
    ``parts`` are those of ``model``, where they are at hand.
    """
    if reason := why_intervened(model):
        return reason
    parts = parts or named_parts(model)
    for name, weight in parts.weights:
        if not weight.requires_grad:
            return f"{name} is frozen (requires_grad = False)"
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            return f"{name} has a gradient hook"
    for name, module in parts.modules:
        own = vars(module)
        if any(own[hooks] for hooks in HOOKS):
            return f"{name or 'the model'} has a hook"
    if nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return "all modules have a hook (torch.nn.modules.module)"
    for name, module in parts.modules:
        if is_known(module):
            own_parts = parts if module is model else named_parts(module)
            known = cast(SequenceModel, module)
            if found := _find_replaced(known, name, own_parts):
                return found
    return None
