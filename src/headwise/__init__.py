"""headwise: the Transformer of "Attention Is All You Need", from text to translator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.predictor import Translator

__version__ = "0.1.0"

__all__ = ["Translator", "__version__", "load"]


def __getattr__(name: str) -> object:
    """Reach ``load`` and ``Translator`` only when asked, so that importing is cheap."""
    if name in ("load", "Translator"):
        from headwise import predictor

        return getattr(predictor, name)
    raise AttributeError(f"module 'headwise' has no attribute {name!r}")
