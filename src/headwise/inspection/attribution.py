"""How much each source token matters for each output token.

Attention weights are one answer; these two ask the output itself. Letters used for
sizes: R rows computed together, T target and S source positions, END's last in both;
E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.errors import UsageError
from headwise.inspection.hooks import evaluation_mode
from headwise.inspection.token_pair import TokenPair
from headwise.model.transformer import Transformer
from headwise.tasks.translation.pair_scorer import BATCH_TOKENS
from headwise.tasks.translation.thread_pool import CheckStop


@dataclass(frozen=True, eq=False)
class Attribution:
    """What ln p of each output token owes to each source token, in nats."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    positions: tuple[int, ...]
    """The target positions of the rows, by default all."""

    gradient_input: Tensor
    """[T S], the gradient of ln p by the embedding of the source token, times it: a
    first-order estimate of what its embedding adds."""

    leave_one_out: Tensor
    """[T S], by how much ln p falls if nothing attends to the source token; positions
    of other tokens stay as they are."""


def attribution_of(
    model: Transformer,
    pair: TokenPair,
    *,
    positions: Sequence[int] | None = None,
    check_stop: CheckStop = lambda: None,
) -> Attribution:
    """Return both attributions, of ``positions`` of the target or of all.

    Rows are computed in batches of at most ``BATCH_TOKENS`` positions; ``check_stop``
    is called before each, and may raise.
    """
    chosen = tuple(range(len(pair.target)) if positions is None else positions)
    for each in chosen:
        if not 0 <= each < len(pair.target):
            raise UsageError(
                f"there is no target position {each}; there are {len(pair.target)}, "
                "END's the last, counted from 0"
            )
    with evaluation_mode(model):
        return Attribution(
            pair.source_pieces,
            pair.target_pieces,
            chosen,
            gradient_times_input(model, pair, chosen, check_stop),
            leave_one_out(model, pair, chosen, check_stop),
        )


def gradient_times_input(
    model: Transformer,
    pair: TokenPair,
    positions: Sequence[int],
    check_stop: CheckStop = lambda: None,
) -> Tensor:
    """Return the gradient of ln p times the input embedding, [T S].

    The input is the embedding times √d_model, before positions are added. Each row of a
    batch is one target position, so one backward pass serves several.
    """
    rows = []
    for batch in _batches(positions, pair):
        check_stop()
        source, inputs, is_real = _repeated(model, pair, len(batch))
        with torch.enable_grad(), _source_vectors(model) as vectors:
            log_p = _log_p(model, pair, source, inputs, is_real)
            total = log_p[torch.arange(len(batch)), torch.tensor(batch)].sum()
            (gradient,) = torch.autograd.grad(total, vectors[0])
        rows.append((gradient * vectors[0].detach()).sum(dim=-1))  # R S E -> R S
    return torch.cat(rows) if rows else torch.zeros(0, len(pair.source))


@torch.no_grad()
def leave_one_out(
    model: Transformer,
    pair: TokenPair,
    positions: Sequence[int],
    check_stop: CheckStop = lambda: None,
) -> Tensor:
    """Return ln p less ln p without each source token, [T S]."""
    whole = _log_p(model, pair, *_repeated(model, pair, 1))
    columns = []
    for batch in _batches(range(len(pair.source)), pair):
        check_stop()
        source, inputs, is_real = _repeated(model, pair, len(batch))
        is_real[torch.arange(len(batch)), torch.tensor(batch)] = False
        columns.append(whole - _log_p(model, pair, source, inputs, is_real))
    lost = torch.cat(columns).T  # S T -> T S
    return lost[torch.tensor(positions, dtype=torch.long)]


def _batches(numbers: Sequence[int], pair: TokenPair) -> Iterator[list[int]]:
    rows = max(1, BATCH_TOKENS // max(len(pair.source), len(pair.target)))
    for first in range(0, len(numbers), rows):
        yield list(numbers[first : first + rows])


def _repeated(
    model: Transformer, pair: TokenPair, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return source, decoder input and which source tokens are real, for R rows."""
    source = torch.tensor([pair.source] * rows, device=model.device)
    inputs = torch.tensor([pair.decoder_input] * rows, device=model.device)
    return source, inputs, torch.ones_like(source).bool()


def _log_p(
    model: Transformer,
    pair: TokenPair,
    source: Tensor,
    inputs: Tensor,
    is_real: Tensor,
) -> Tensor:
    """Return ln p of the target tokens [R T]."""
    logits: Tensor = model(source, inputs, is_real)
    target = torch.tensor([pair.target], device=model.device).expand(len(source), -1)
    return logits.log_softmax(dim=-1).gather(2, target[:, :, None])[:, :, 0]


@contextmanager
def _source_vectors(model: Transformer) -> Iterator[list[Tensor]]:
    """Make the input of the encoder a leaf of the graph; yield the list it goes to."""
    found: list[Tensor] = []

    def make_leaf(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        leaf = inputs[0].detach().requires_grad_()
        found.append(leaf)
        return (leaf, *inputs[1:])

    remove: Callable[[], None] = model.enter_encoder.register_forward_pre_hook(
        make_leaf
    ).remove
    try:
        yield found
    finally:
        remove()
