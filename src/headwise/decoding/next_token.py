"""All that a search may know about a model."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """What the model carries from one token to the next, one row a hypothesis."""

    def rows(self, index: Tensor) -> Self:
        """Keep these rows in this order, repeats allowed."""
        ...


S = TypeVar("S", bound=State)


class NextToken(Protocol[S]):
    """Something that writes one token in every row and scores what may follow.

    The state that comes back replaces the one given; a search never returns to it.
    """

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Map tokens [rows] to logits [rows, vocabulary], which stay unchanged."""
        ...
