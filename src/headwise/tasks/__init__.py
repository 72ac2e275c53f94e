"""Each use of the model, bound together: data, model, loss, search and metrics.

A task is imported when it is asked for: turning text into tokens needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwise.text.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from headwise.tasks.task import Task


def _translation(tokenizers: TokenizerPair) -> Task:
    from headwise.tasks.translation.task import Translation

    return Translation(tokenizers)


TASKS: dict[str, Callable[[TokenizerPair], Task]] = {"translation": _translation}
"""Every task by its name, made of the tokenizers of both sides."""
