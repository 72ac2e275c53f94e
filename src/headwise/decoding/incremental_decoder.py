"""The protocols of incremental decoders: what a search asks of a model.

The backends implement them (:mod:`headwise.backends.api`), and so do the readable model
and ensembles. All have ``step``; some also fuse top-k or several greedy steps with it.

Letters used for sizes in this file:

    B  rows, one a hypothesis          V  vocabulary
    S  source positions                T  decoding steps
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor


class DecoderState(Protocol):
    """The KV cache, or whatever a decoder keeps between steps; a row per hypothesis."""

    def index_select(self, index: Tensor) -> Self:
        """Select rows in this order, repeats allowed, as a beam reorders its cache."""
        ...


S = TypeVar("S", bound=DecoderState)


class IncrementalDecoder(Protocol[S]):
    """Decodes one step at a time, with a state such as a KV cache.

    The state that ``step`` returns replaces the one given; a search never reuses an
    older state.
    """

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Append ``tokens`` [B]; return the logits [B V] of what follows, read-only."""
        ...


class TopK(NamedTuple):
    """The most probable tokens of each row, best first; ties by the lower id."""

    log_p: Tensor
    """ln p [B, k]; -inf for forbidden tokens."""

    tokens: Tensor
    """[B, k]."""


@runtime_checkable
class TopKDecoder(Protocol):
    """A decoder that fuses top-k with the projection to the vocabulary.

    The logits are never in memory all at once. The result is that of ``topk_tokens``
    on the logits of ``step``.
    """

    def step_topk(
        self, tokens: Tensor, state: S, k: int, forbidden: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, S]:
        """Append ``tokens``; return ln p and ids [B k] of the best next tokens.

        Raises ``NumericsError`` if logits are NaN or infinite.
        """
        ...


@runtime_checkable
class GreedyDecoder(IncrementalDecoder[S], Protocol[S]):
    """A decoder that takes several greedy steps without returning to Python.

    For small batches a host check costs as much as a decoding step.
    """

    def decode_greedily(
        self,
        tokens: Tensor,
        state: S,
        *,
        max_steps: int,
        end: int,
        stop_at_finished: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Tensor, Tensor, S]:
        """Append ``tokens``, then the most probable token of each row, repeatedly.

        Returns ln p and tokens [T B] of 1 to ``max_steps`` steps. It may stop once
        ``stop_at_finished`` rows, not counting those whose given token is ``end``, have
        produced ``end``; what a row produces after that is meaningless. Raises
        ``NumericsError`` if logits are NaN or infinite.
        """
        ...


@runtime_checkable
class AttentionDecoder(IncrementalDecoder[S], Protocol[S]):
    """A decoder that can return its cross-attention, for the coverage penalty.

    Recording attention costs time, so nothing else asks for it.
    """

    def step_with_attention(self, tokens: Tensor, state: S) -> tuple[Tensor, Tensor, S]:
        """Run ``step``; return logits [B V], attention weights [B S] and the state.

        Each row of the weights is a distribution over its source positions.
        """
        ...
