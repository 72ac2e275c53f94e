"""What training knows of a task; it brings in torch and the model."""

from __future__ import annotations

from headwise.metrics.perplexity import perplexity
from headwise.metrics.score import Score
from headwise.model.compiled_learning import what_is_special, why_not_compiled
from headwise.model.config import TransformerConfig
from headwise.model.training_path import use_kernels
from headwise.model.transformer import Transformer
from headwise.tasks.compiled import CompiledLoss, compiling_explained
from headwise.tasks.translation import Translation, summed_loss

__all__ = [
    "CompiledLoss",
    "Score",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "compiling_explained",
    "perplexity",
    "summed_loss",
    "use_kernels",
    "what_is_special",
    "why_not_compiled",
]
