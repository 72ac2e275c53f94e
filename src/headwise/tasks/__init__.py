"""What the numbers mean: data, model, loss, search and metric bound for one use.

Training knows a task by these names, and nothing of the parts that they come from.
They are reached when they are asked for: turning text into tokens needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.tasks.for_training import (
        CompiledLoss,
        Score,
        Transformer,
        TransformerConfig,
        Translation,
        compiling_explained,
        perplexity,
        summed_loss,
        use_kernels,
        what_is_special,
        why_not_compiled,
    )

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'headwise.tasks' has no attribute {name!r}")
    from headwise.tasks import for_training

    return getattr(for_training, name)
