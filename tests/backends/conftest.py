"""The backends are tested with the models that the model is tested with."""

from tests.model.conftest import (
    batch,
    decoder_only,
    encoder_only,
    small,
)

__all__ = ["batch", "decoder_only", "encoder_only", "small"]
