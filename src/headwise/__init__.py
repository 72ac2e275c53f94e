"""headwise: the Transformer of "Attention Is All You Need", from text to translator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.inference.load import load
    from headwise.inference.predictor import Predictor
    from headwise.inference.translator import TranslationWarning, Translator
    from headwise.pipelines import TranslationPipeline, pipeline

__version__ = "0.1.0"

__all__ = [
    "Predictor",
    "TranslationPipeline",
    "TranslationWarning",
    "Translator",
    "__version__",
    "load",
    "pipeline",
]


def __getattr__(name: str) -> object:
    """Import lazily what needs torch, so that ``import headwise`` is fast."""
    if name == "load":
        from headwise.inference.load import load

        return load
    if name == "Predictor":
        from headwise.inference.predictor import Predictor

        return Predictor
    if name in ("TranslationWarning", "Translator"):
        from headwise.inference import translator

        return getattr(translator, name)
    if name in ("pipeline", "TranslationPipeline"):
        from headwise import pipelines

        return getattr(pipelines, name)
    raise AttributeError(f"module 'headwise' has no attribute {name!r}")
