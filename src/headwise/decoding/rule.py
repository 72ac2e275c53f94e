"""What a rule on scores is, and what it may look at.

Letters used for sizes: R rows, one a hypothesis, V vocabulary, L tokens written so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Written:
    """What a rule may look at, besides the scores."""

    tokens: Tensor
    """[R, L], without START."""

    sentences: Tensor
    """[R], the number of the sentence that each row belongs to."""

    log_p: Tensor
    """[R, V], ln p of each token as the model gives it."""


Rule = Callable[[Tensor, Written], Tensor]
"""Scores [R, V] to scores [R, V], which may be the same tensor, changed."""
