"""Which settings make a model a variant. Needs no torch, so exports can use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KNOWN_EVERYWHERE: Mapping[str, tuple[Any, ...]] = {
    "positions": ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"),
    "attention": ("scaled",),
    "attention_window": (None,),
    "num_key_value_heads": (None,),
    "norm_kind": ("layer",),
    "feed_forward": ("plain",),
    "residual": ("all",),
}
"""Setting -> values that every backend has code for; any other makes a variant."""


def variants_of(config: Any) -> list[str]:
    """Return the settings of a ``TransformerConfig`` that make it a variant.

    Each is written as in a recipe, such as ``model.attention = 'cosine'``.
    """
    return [
        f"model.{name} = {value!r}"
        for name, known in KNOWN_EVERYWHERE.items()
        if (value := getattr(config, name)) not in known
    ]
