"""Hooks of a look inside: nothing is swapped unless somebody looks.

Letters used for sizes are those of ``model/attention.py``; N batch rows B, positions L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn

from headwise.inspection.places import SublayerKind, add_and_norm_of
from headwise.model.attention import MultiHeadAttention, attention_weights
from headwise.model.masks import AttentionMask


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one attention layer computed in one call, before the heads are joined."""

    queries: Tensor
    """[B H Q C], rotated if positions are rotary, and so are the keys [B H K C]."""

    keys: Tensor
    values: Tensor
    """[B H K V]."""

    mask: AttentionMask | None
    weights: Tensor
    """[B H Q K]."""

    heads: Tensor
    """[B H Q V], the weighted sums of values, and what positions add to them."""


OnCall = Callable[[AttentionCall], None]


@contextmanager
def observe_attention(
    observers: Mapping[MultiHeadAttention, OnCall],
) -> Iterator[None]:
    """Call an observer after each call of its layer, which computes as it did.

    Attention is computed as written, so that there are weights; those of an
    intervention are its own.
    """
    originals = {layer: layer.attend for layer in observers}
    for layer, observer in observers.items():
        layer.attend = _observed(originals[layer], observer)
    try:
        yield
    finally:
        for layer, original in originals.items():
            layer.attend = original


def _observed(original: Any, observer: OnCall) -> Callable[..., Tensor]:
    weigh = getattr(original, "weigh", attention_weights)
    mix = getattr(original, "mix", torch.matmul)

    def attend(
        queries: Tensor, keys: Tensor, values: Tensor, mask: Any, dropout: float
    ) -> Tensor:
        weights = weigh(queries, keys, mask)
        heads: Tensor = mix(weights, values)
        observer(AttentionCall(queries, keys, values, mask, weights, heads))
        return heads

    # For those who look as well.
    attend.weigh, attend.mix = weigh, mix  # type: ignore[attr-defined]
    return attend


@contextmanager
def capture_outputs(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Yield the dict that will hold the last output of each module, under its name."""
    with _capture(modules, lambda inputs, output: output) as found:
        yield found


@contextmanager
def capture_inputs(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Yield the same of the first input of each module, as interventions leave it."""
    with _capture(modules, lambda inputs, output: inputs[0]) as found:
        yield found


@contextmanager
def _capture(
    modules: Mapping[str, nn.Module], choose: Callable[[Any, Tensor], Tensor]
) -> Iterator[dict[str, Tensor]]:
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            found[name] = choose(inputs, output)

        return hook

    with ExitStack() as stack:
        for name, module in modules.items():
            stack.callback(module.register_forward_hook(keep(name)).remove)
        yield found


@dataclass(frozen=True, eq=False)
class SublayerCall:
    """What one sublayer computed in one call, each [B L D]."""

    x: Tensor
    """What goes around it."""

    input: Tensor
    output: Tensor
    result: Tensor
    """After the residual connection, and layer normalization if post-norm."""


@contextmanager
def observe_sublayers(
    block: nn.Module,
) -> Iterator[dict[SublayerKind, SublayerCall]]:
    """Yield the dict that will hold the last call of each sublayer of a block."""
    found: dict[SublayerKind, SublayerCall] = {}
    kinds = [each for each in get_args(SublayerKind) if hasattr(block, each)]
    modules = {kind: getattr(block, kind) for kind in kinds}

    def observe(
        kind: SublayerKind, before: Callable[..., Tensor]
    ) -> Callable[..., Any]:
        def add_residual(x: Tensor, out: Tensor) -> Tensor:
            result = before(x, out)
            found[kind] = SublayerCall(x, inputs[kind], out, result)
            return result

        return add_residual

    with ExitStack() as stack:
        inputs = stack.enter_context(capture_inputs(modules))
        for kind in kinds:
            box = add_and_norm_of(block, kind)
            add_residual = observe(kind, box.add_residual)
            stack.callback(replace_attribute(box, "add_residual", add_residual))
        yield found


def replace_attribute(
    module: nn.Module, name: str, value: object
) -> Callable[[], None]:
    """Set an attribute of an instance; return what restores it."""
    had, before = name in vars(module), vars(module).get(name)
    setattr(module, name, value)

    def undo() -> None:
        if had:
            setattr(module, name, before)
        else:
            delattr(module, name)

    return undo
