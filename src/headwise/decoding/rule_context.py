"""The type of a rule on scores, a "logits processor", and the context it is given.

Letters used for sizes: R rows, one a hypothesis, V vocabulary, L tokens so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class RuleContext:
    """What a rule may depend on besides the scores."""

    tokens: Tensor
    """[R, L], the tokens generated so far, without START."""

    sentences: Tensor
    """[R], the index of the sentence that each row belongs to."""

    log_p: Tensor
    """[R, V], ln p of each token as the model gives it, before any rule."""


Rule = Callable[[Tensor, RuleContext], Tensor]
"""Scores [R, V] to scores [R, V], which may be the same tensor, changed in place."""
