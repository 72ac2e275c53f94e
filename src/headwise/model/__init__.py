"""The architecture of the paper, on its own: it imports torch and our errors only.

Settings can be imported without torch: :class:`Transformer` is imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS, Preset

if TYPE_CHECKING:
    from headwise.model.transformer import Transformer

__all__ = ["PRESETS", "Preset", "Transformer", "TransformerConfig"]


def __getattr__(name: str) -> object:
    """Import :class:`Transformer`, and with it torch, when it is first used."""
    if name == "Transformer":
        from headwise.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'headwise.model' has no attribute {name!r}")
