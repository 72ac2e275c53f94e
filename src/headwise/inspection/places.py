"""Names of what a model is made of: attention layers, heads and sublayers.

    encoder.0.2                 head 2 of the self-attention of encoder layer 0
    decoder.1.0                 head 0 of the self-attention of decoder layer 1
    cross.1.3                   head 3 of the cross-attention of decoder layer 1
    decoder.1.feed_forward      a sublayer; also self_attention, cross_attention

Layers and heads are counted from 0, as in ``decoding.alignment_head``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from torch import nn

from headwise.errors import UsageError
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.sequence_model import SequenceModel

AttentionKind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder, of the decoder, or cross-attention of the decoder."""

SublayerKind = Literal["self_attention", "cross_attention", "feed_forward"]

_ATTENTION = re.compile(
    r"(?:^|\.)(encoder|decoder)\.blocks\.(\d+)\.(self|cross)_attention$"
)
_BLOCK = re.compile(r"(?:^|\.)(encoder|decoder)\.blocks\.(\d+)$")

RESIDUALS: dict[SublayerKind, tuple[str, ...]] = {
    "self_attention": ("around_self", "around_attention"),
    "cross_attention": ("around_cross",),
    "feed_forward": ("around_feed_forward",),
}
"""Sublayer -> what a block calls the residual connection around it."""


@dataclass(frozen=True, order=True, slots=True)
class AttentionName:
    """An attention layer."""

    kind: AttentionKind
    layer: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}"

    @property
    def sublayer(self) -> SublayerName:
        """The same layer among the sublayers of its block."""
        if self.kind == "cross":
            return SublayerName("decoder", self.layer, "cross_attention")
        return SublayerName(self.kind, self.layer, "self_attention")


@dataclass(frozen=True, order=True, slots=True)
class Head:
    """One head of an attention layer."""

    kind: AttentionKind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}"

    @property
    def attention(self) -> AttentionName:
        """The attention layer that it is part of."""
        return AttentionName(self.kind, self.layer)


@dataclass(frozen=True, order=True, slots=True)
class SublayerName:
    """A sublayer of a block of the encoder or the decoder."""

    stack: Literal["encoder", "decoder"]
    layer: int
    sublayer: SublayerKind

    def __str__(self) -> str:
        return f"{self.stack}.{self.layer}.{self.sublayer}"


def config_of(model: nn.Module) -> TransformerConfig:
    """Return the architecture of a model, or of that which it contains."""
    found = (each for each in model.modules() if isinstance(each, SequenceModel))
    return next(found).config


def attention_layers(model: nn.Module) -> dict[AttentionName, MultiHeadAttention]:
    """Return the attention layers of a model, in the order of Figure 1.

    Raises ``UsageError`` for a model without any, such as a recurrent one.
    """
    found = {}
    for name, module in model.named_modules():
        match = _ATTENTION.search(name)
        if match and isinstance(module, MultiHeadAttention):
            kind = "cross" if match[3] == "cross" else match[1]
            found[AttentionName(cast(AttentionKind, kind), int(match[2]))] = module
    if not found:
        raise UsageError(
            f"a {type(model).__name__} has no multi-head attention to look into; "
            "models of kind 'transformer' have"
        )
    kinds = get_args(AttentionKind)
    order = sorted(found, key=lambda each: (kinds.index(each.kind), each.layer))
    return {each: found[each] for each in order}


def all_heads(model: nn.Module) -> list[Head]:
    """Return every head of a model."""
    return [
        Head(name.kind, name.layer, head)
        for name, layer in attention_layers(model).items()
        for head in range(layer.num_heads)
    ]


def blocks(model: nn.Module, stack: Literal["encoder", "decoder"]) -> list[nn.Module]:
    """Return the blocks of one stack, which may be none."""
    return [
        module
        for name, module in model.named_modules()
        if (match := _BLOCK.search(name)) and match[1] == stack
    ]


def find_attention(model: nn.Module, name: AttentionName) -> MultiHeadAttention:
    """Return an attention layer; raise ``UsageError`` if there is none of this name."""
    layers = attention_layers(model)
    if name not in layers:
        raise UsageError(
            f"there is no attention layer {name}; this model has {_listed(layers)}"
        )
    return layers[name]


def find_head(model: nn.Module, head: Head) -> MultiHeadAttention:
    """Return the attention layer of a head; raise ``UsageError`` if there is none."""
    layer = find_attention(model, head.attention)
    if not 0 <= head.head < layer.num_heads:
        raise UsageError(
            f"there is no head {head}: {head.attention} has {layer.num_heads} heads, "
            f"{head.attention}.0 to {head.attention}.{layer.num_heads - 1}"
        )
    return layer


def find_sublayer(model: nn.Module, name: SublayerName) -> tuple[nn.Module, AddAndNorm]:
    """Return a sublayer with its "Add & Norm" box; else raise ``UsageError``."""
    stack = blocks(model, name.stack)
    block = stack[name.layer] if 0 <= name.layer < len(stack) else None
    sublayer = getattr(block, name.sublayer, None)
    if block is None or sublayer is None:
        raise UsageError(
            f"there is no sublayer {name}; this model has {_listed(sublayers(model))}"
        )
    return sublayer, add_and_norm_of(block, name.sublayer)


def add_and_norm_of(block: nn.Module, kind: SublayerKind) -> AddAndNorm:
    """Return the "Add & Norm" box around a sublayer of ``block``."""
    names = (each for each in RESIDUALS[kind] if hasattr(block, each))
    return cast(AddAndNorm, getattr(block, next(names)))


def sublayers(model: nn.Module) -> list[SublayerName]:
    """Return the name of every sublayer, in the order in which they run."""
    return [
        SublayerName(stack, layer, kind)
        for stack in ("encoder", "decoder")
        for layer, block in enumerate(blocks(model, stack))
        for kind in get_args(SublayerKind)
        if hasattr(block, kind)
    ]


def as_head(given: Head | str) -> Head:
    """Return a head, which may be given by its name."""
    return given if isinstance(given, Head) else parse_head(given)


def as_heads(given: Head | str | Iterable[Head | str]) -> list[Head]:
    """Return heads, one or several, each of which may be given by its name."""
    if isinstance(given, Head | str) or not isinstance(given, Iterable):
        return [as_head(given)]
    return [as_head(each) for each in given]


def as_sublayer(given: SublayerName | str) -> SublayerName:
    """Return a sublayer, which may be given by its name."""
    if isinstance(given, SublayerName):
        return given
    place = given if isinstance(given, Head) else parse_place(given)
    if isinstance(place, Head):
        raise UsageError(
            f"{place} is a head, and not a sublayer such as decoder.1.feed_forward"
        )
    return place


def parse_head(text: str) -> Head:
    """Read a name such as ``cross.1.3``; raise ``UsageError`` for anything else."""
    kind, *numbers = _parts(text)
    if kind not in get_args(AttentionKind) or not _are_numbers(numbers, 2):
        raise UsageError(
            f"{text!r} does not name a head; names are such as {', '.join(_EXAMPLES)}: "
            "the kind of attention, layer and head, both counted from 0"
        )
    return Head(cast(AttentionKind, kind), *map(int, numbers))


def parse_place(text: str) -> Head | SublayerName:
    """Read the name of a head or of a sublayer, such as ``encoder.0.feed_forward``."""
    stack, *rest = _parts(text)
    if len(rest) == 2 and rest[1] in get_args(SublayerKind) and rest[0].isdecimal():
        if stack in ("encoder", "decoder"):
            return SublayerName(
                cast(Literal["encoder", "decoder"], stack),
                int(rest[0]),
                cast(SublayerKind, rest[1]),
            )
        raise UsageError(
            f"{text!r} does not name a sublayer; those are encoder.LAYER.SUBLAYER and "
            f"decoder.LAYER.SUBLAYER, with {', '.join(get_args(SublayerKind))}"
        )
    if stack not in get_args(AttentionKind) or not _are_numbers(rest, 2):
        raise UsageError(
            f"{text!r} names neither a head, such as {', '.join(_EXAMPLES)}, nor a "
            "sublayer, such as encoder.0.feed_forward or decoder.1.cross_attention"
        )
    return parse_head(text)


_EXAMPLES = ("encoder.0.2", "decoder.1.0", "cross.1.3")


def _parts(name: object) -> list[str]:
    """Return what the dots of a name separate; what is not a str names nothing."""
    return name.strip().split(".") if isinstance(name, str) else [""]


def _are_numbers(texts: Sequence[str], count: int) -> bool:
    return len(texts) == count and all(each.isdecimal() for each in texts)


def _listed(names: object) -> str:
    texts = [str(each) for each in cast(Iterator[object], names)]
    if len(texts) > 12:
        return f"{', '.join(texts[:6])}, ... {texts[-1]}"
    return ", ".join(texts)
