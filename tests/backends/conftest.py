"""The backends are tested with the models that the model is tested with."""

from tests.model.conftest import batch, fixed_seed, small

__all__ = ["batch", "fixed_seed", "small"]
