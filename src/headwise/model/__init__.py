"""The architecture of the paper, on its own: it imports torch and our errors only.

Its boxes also make an encoder alone (BERT) and a decoder alone (GPT). Settings can be
imported without torch: the models are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS, Preset

if TYPE_CHECKING:
    from headwise.model.decoder_only import DecoderOnly
    from headwise.model.encoder_only import EncoderOnly
    from headwise.model.transformer import Transformer

__all__ = [
    "PRESETS",
    "DecoderOnly",
    "EncoderOnly",
    "Preset",
    "Transformer",
    "TransformerConfig",
]


def __getattr__(name: str) -> object:
    """Import a model, and with it torch, when it is first used."""
    if name == "DecoderOnly":
        from headwise.model.decoder_only import DecoderOnly

        return DecoderOnly
    if name == "EncoderOnly":
        from headwise.model.encoder_only import EncoderOnly

        return EncoderOnly
    if name == "Transformer":
        from headwise.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'headwise.model' has no attribute {name!r}")
