"""The architecture, on its own: torch below it, nothing of ours but errors.

Settings can be imported without torch; the model is reached when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS, Preset

if TYPE_CHECKING:
    from headwise.model.transformer import Transformer

__all__ = ["PRESETS", "Preset", "Transformer", "TransformerConfig"]


def __getattr__(name: str) -> object:
    """Reach :class:`Transformer`, and with it torch, only when asked."""
    if name == "Transformer":
        from headwise.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'headwise.model' has no attribute {name!r}")
