"""The number formats in which a model is run."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bf16"]
"""Format of the copied weights and of the KV cache."""
