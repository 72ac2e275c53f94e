"""What a model is built from, for any task; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwise.model.config import TransformerConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDescription:
    """What the model of a task is built from, besides its weights."""

    task: str
    """Name of the task in ``TASKS``."""

    config: TransformerConfig
    source_vocab_size: int
    target_vocab_size: int

    options: Any = None
    """Settings of the task: an instance of its ``TaskSpec.options``."""
