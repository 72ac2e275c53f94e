"""All that a search may know about a model."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

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


class Likely(NamedTuple):
    """The most probable tokens of each row, best first; of equals the lower first."""

    log_p: Tensor
    """ln p [rows, count]; -inf for tokens that were forbidden."""

    tokens: Tensor
    """[rows, count]."""


@runtime_checkable
class Choosing(Protocol):
    """A model that can choose among its scores before they all stand in memory.

    It gives what ``best_tokens`` would make of the scores of ``step``.
    """

    def step_to_likely(
        self, tokens: Tensor, state: S, count: int, forbidden: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, S]:
        """Do as ``step``, but return ln p and id of only ``count`` tokens of a row."""
        ...


@runtime_checkable
class WritingAhead(NextToken[S], Protocol[S]):
    """A model that can go on without anybody choosing among its scores.

    Of a few rows, to look at a token takes about as long as to write one.
    """

    def write_ahead(
        self,
        tokens: Tensor,
        state: S,
        *,
        most: int,
        end: int,
        enough: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, S]:
        """Write the most probable token in every row, again and again.

        Returns ln p and tokens of the steps taken [steps, rows]: at least one, at most
        ``most``. There is no use in more once ``enough`` rows, of those whose token is
        not ``end`` already, have written it; what comes behind it has no meaning.
        Scores that are no numbers raise ``NumericsError``, or are NaN.
        """
        ...


class Attending(NextToken[S], Protocol[S]):
    """A model that can also say what it looks at while it scores what may follow.

    Only what needs it asks for it (the coverage penalty): it costs time.
    """

    def step_attending(self, tokens: Tensor, state: S) -> tuple[Tensor, Tensor, S]:
        """Do as ``step``, and return [rows, source positions] in the second place.

        Each row is a distribution over the positions of its source.
        """
        ...


class FromSource(NextToken[S], Protocol[S]):
    """A model that reads a source before it writes."""

    def start(self, source: Tensor, source_is_real: Tensor) -> S:
        """Read sources [rows, positions], padded where ``source_is_real`` is False."""
        ...
