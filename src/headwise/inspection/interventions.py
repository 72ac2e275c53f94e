"""Changes of a model for a while: heads, sublayers and residual connections off.

Each is a hook that is there only inside :func:`intervene`. Fast backends would bypass
hooks, so they fall back to the model itself meanwhile, and say which intervention it is
(``backends.reference.why_reference_only``).

Letters used for sizes are those of ``model/attention.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import UsageError
from headwise.inspection.arguments import check_index
from headwise.inspection.hooks import replace_attribute
from headwise.inspection.places import (
    Head,
    SublayerName,
    as_head,
    as_sublayer,
    attention_layers,
    find_head,
    find_sublayer,
    parse_place,
)
from headwise.model.attention import MultiHeadAttention, attention_weights
from headwise.model.sequence_model import SequenceModel

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class HeadOff:
    """A head adds nothing: as if its slice of W^O were zero, bit for bit."""

    head: Head
    """Or its name, such as ``cross.1.3``; so everywhere here."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", as_head(self.head))

    def __str__(self) -> str:
        return f"{self.head} off"

    def install(self, model: nn.Module) -> Undo:
        """Zero what ``to_output`` reads of the head."""
        layer = find_head(model, self.head)
        width = layer.to_output.in_features // layer.num_heads
        channels = slice(self.head.head * width, (self.head.head + 1) * width)

        def zero_head(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
            concatenated = inputs[0].clone()
            concatenated[..., channels] = 0
            return concatenated

        return layer.to_output.register_forward_pre_hook(zero_head).remove


@dataclass(frozen=True, slots=True)
class SublayerOff:
    """A sublayer adds nothing; the residual connection and layer norm stay."""

    sublayer: SublayerName

    def __post_init__(self) -> None:
        object.__setattr__(self, "sublayer", as_sublayer(self.sublayer))

    def __str__(self) -> str:
        return f"{self.sublayer} off"

    def install(self, model: nn.Module) -> Undo:
        """Let the sublayer return zeros."""
        sublayer, _ = find_sublayer(model, self.sublayer)

        def zero(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            return torch.zeros_like(output)

        return sublayer.register_forward_hook(zero).remove


@dataclass(frozen=True, slots=True)
class ResidualOff:
    """The residual connection around a sublayer adds nothing.

    What goes on is LayerNorm(Sublayer(x)), or Sublayer(LayerNorm(x)) if pre-norm.
    """

    sublayer: SublayerName

    def __post_init__(self) -> None:
        object.__setattr__(self, "sublayer", as_sublayer(self.sublayer))

    def __str__(self) -> str:
        return f"{self.sublayer} without residual connection"

    def install(self, model: nn.Module) -> Undo:
        """Let the "Add & Norm" box add zeros to the output of its sublayer."""
        _, box = find_sublayer(model, self.sublayer)
        before = box.add_residual

        def add_nothing(x: Tensor, out: Tensor) -> Tensor:
            return before(torch.zeros_like(x), out)

        return replace_attribute(box, "add_residual", add_nothing)


@dataclass(frozen=True, slots=True)
class ReplaceRow:
    """One row of the weights of a head is another: where one position attends to.

    ``weights`` are of the first positions, and 0 of those that follow; they should sum
    to 1, and be 0 where attention is masked. It applies to every row of a batch.
    """

    head: Head
    position: int
    """The query position, from 0: of the source, or of the decoder input."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", as_head(self.head))
        check_index(self.position, "a position")
        try:
            total = math.fsum(self.weights)
        except TypeError:
            raise UsageError(
                f"the weights of {self.head} must be a tuple of numbers, not "
                f"{self.weights!r}"
            ) from None
        wrong = [each for each in self.weights if not 0 <= each <= 1]
        if wrong or not math.isclose(total, 1, abs_tol=1e-3):
            raise UsageError(
                f"the weights of {self.head} at position {self.position} must be from "
                f"0 to 1 and sum to 1, not to {total:g}"
            )

    def __str__(self) -> str:
        return f"{self.head} row {self.position} replaced"

    def install(self, model: nn.Module) -> Undo:
        """Swap ``attend`` for a function with a row of its own."""
        layer = find_head(model, self.head)
        if getattr(layer.attend, "window", None) is not None:
            raise UsageError(
                f"{self}: rows cannot be replaced where attention has a window "
                "(model.attention_window)"
            )
        if self.head.kind != "cross":
            return replace_attribute(layer, "attend", self._attend(layer, None))
        # Of one step, only self-attention, which runs before, knows the position.
        name = Head("decoder", self.head.layer, 0).attention
        own = attention_layers(model)[name]
        positions = _Positions(own.attend)
        undo = replace_attribute(own, "attend", positions)
        try:
            undo_row = replace_attribute(
                layer, "attend", self._attend(layer, positions)
            )
        except Exception:
            undo()
            raise

        def undo_both() -> None:
            undo_row()
            undo()

        return undo_both

    def _attend(
        self, layer: MultiHeadAttention, positions: _Positions | None
    ) -> _RowAttention:
        before = getattr(layer.attend, "weigh", attention_weights)
        mix = getattr(layer.attend, "mix", torch.matmul)
        return _RowAttention(self, before, mix, positions)


Intervention = HeadOff | SublayerOff | ResidualOff | ReplaceRow


def parse_off(name: str) -> HeadOff | SublayerOff:
    """Read the name of a head or sublayer that is switched off.

    Raises ``UsageError`` for anything else.
    """
    place = parse_place(name)
    return HeadOff(place) if isinstance(place, Head) else SublayerOff(place)


def parse_no_residual(name: str) -> ResidualOff:
    """Read the name of a sublayer whose residual connection is switched off.

    Raises ``UsageError`` for anything else, a head too.
    """
    place = parse_place(name)
    if isinstance(place, Head):
        raise UsageError(
            f"{name}: a residual connection is around a sublayer, such as "
            "decoder.1.feed_forward, and not around one head"
        )
    return ResidualOff(place)


@contextmanager
def intervene(model: SequenceModel, *changes: Intervention) -> Iterator[None]:
    """Apply interventions to ``model`` for a while; several at a time add up.

    Raises ``UsageError``, before anything is changed, for a head or a sublayer that
    there is not, and for what is no intervention.
    """
    for change in changes:
        if not isinstance(change, Intervention):
            raise UsageError(
                "an intervention is a HeadOff, SublayerOff, ResidualOff or ReplaceRow, "
                f"such as HeadOff('cross.1.3'), not {change!r}"
            )
    owners = [each for each in model.modules() if isinstance(each, SequenceModel)]
    before = [each.interventions for each in owners]
    with ExitStack() as stack:
        for change in changes:
            stack.callback(change.install(model))
        stack.callback(_set_interventions, owners, before)
        names = (*model.interventions, *map(str, changes))
        _set_interventions(owners, [names] * len(owners))
        yield


class _RowAttention:
    """Attention as written, one row of whose weights is given."""

    def __init__(
        self,
        change: ReplaceRow,
        before: Callable[..., Tensor],
        mix: Callable[..., Tensor],
        positions: _Positions | None,
    ) -> None:
        self.change = change
        self.before = before
        self.mix = mix
        self.positions = positions

    def weigh(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights [B H Q K] with the row replaced."""
        weights: Tensor = self.before(queries, keys, mask)
        change, length = self.change, keys.shape[2]
        first = length - queries.shape[2]
        if self.positions is not None:
            first = self.positions.first
        elif change.head.kind == "encoder":
            first = 0
        index = change.position - first
        if not 0 <= index < queries.shape[2]:
            return weights
        given = change.weights[:length]
        if any(change.weights[length:]):
            raise UsageError(
                f"{change}: there are {len(change.weights)} weights, but position "
                f"{change.position} has {length} positions to attend to"
            )
        row = weights.new_zeros(length)
        row[: len(given)] = weights.new_tensor(given)
        if mask is not None:
            forbidden = ~mask.expand(*weights.shape[:2], *mask.shape[2:])
            of_row = forbidden[:, change.head.head, min(index, mask.shape[2] - 1)]
            if bool((of_row & (row > 0)).any()):
                raise UsageError(
                    f"{change}: attention is masked where a weight is not 0: the "
                    "future of a target, or padding"
                )
        weights = weights.clone()
        weights[:, change.head.head, index] = row
        return weights

    def __call__(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Any, dropout: float
    ) -> Tensor:
        return self.mix(F.dropout(self.weigh(queries, keys, mask), dropout), values)


class _Positions:
    """Self-attention that notes at which position its queries begin."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        self.attend = attend
        self.before = getattr(attend, "weigh", attention_weights)
        self.mix = getattr(attend, "mix", torch.matmul)
        self.first = 0

    def weigh(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights [B H Q K], for whoever records them."""
        self.first = keys.shape[2] - queries.shape[2]
        weights: Tensor = self.before(queries, keys, mask)
        return weights

    def __call__(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Any, dropout: float
    ) -> Tensor:
        self.first = keys.shape[2] - queries.shape[2]
        return self.attend(queries, keys, values, mask, dropout)


def _set_interventions(
    owners: list[SequenceModel], names: list[tuple[str, ...]]
) -> None:
    for owner, of_owner in zip(owners, names, strict=True):
        owner.interventions = of_owner
