"""How much each token of the input matters for each part of an output.

Attention weights are one answer; these two ask the output itself. Letters used for
sizes: R rows computed together, O parts of the output, such as target positions,
S positions of the input, E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.patch_grid import PatchGrid
from headwise.inspection.token_pair import TokenPair
from headwise.model.decoder_only import DecoderOnly, make_window_mask
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer
from headwise.tasks.translation.pair_scorer import BATCH_TOKENS
from headwise.tasks.translation.thread_pool import CheckStop

LOGITS_AT_ONCE = 1 << 22
"""Logits of a batch at most: with what autograd keeps of them 64 MiB."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each part of an output owes to each token of the input.

    A part is ln p of a target token, of a label, of a tag or of a masked word; of
    regression it is the number.
    """

    source: tuple[str, ...]
    """The pieces of the input; of a decoder alone, those of the decoder input."""

    target: tuple[str, ...]

    positions: tuple[int, ...]
    """Which of ``target`` have rows, by default all that are output."""

    gradient_input: Tensor
    """[O S], the gradient by the embedding of the input token, times it: a first-order
    estimate of what its embedding adds."""

    leave_one_out: Tensor
    """[O S], what is lost if nothing attends to the input token; positions of other
    tokens stay as they are. Of an encoder or a decoder alone, which reads its output
    off the same positions, the embedding of the token is zero as well (Li et al. 2016,
    Understanding Neural Networks through Representation Erasure)."""

    unit: str = "nats"
    """Of both; empty for a number, whose unit is that of the training text."""

    patches: PatchGrid | None = None
    """Where the patches lie that ``source`` names; None of a text."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributedOutput:
    """Parts of an output as functions of the input, which attribution asks."""

    model: SequenceModel
    columns: tuple[str, ...]
    """The S pieces of the input."""

    rows: tuple[str, ...]
    """The O parts."""

    default: Sequence[int]
    """The rows that are attributed unless others are asked for."""

    entrance: nn.Module
    """What the embeddings [R S E] go into."""

    numbers: Callable[[Tensor], Tensor]
    """Where the input is real [R S] -> the parts [R O], of the input R times."""

    vocabulary: int = 1
    """V, logits of each part."""

    unit: str = "nats"
    patches: PatchGrid | None = None

    @property
    def length(self) -> int:
        """Positions of a row of a batch."""
        return max(len(self.columns), len(self.rows))


def attribution_of(
    output: AttributedOutput,
    *,
    positions: Sequence[int] | None = None,
    check_stop: CheckStop = lambda: None,
) -> Attribution:
    """Return both attributions, of ``positions`` of the output or of all.

    Rows are computed in batches of at most ``BATCH_TOKENS`` positions and
    ``LOGITS_AT_ONCE`` logits; ``check_stop`` is called before each, and may raise.
    Raises ``UsageError`` for a position that there is not.
    """
    chosen = tuple(output.default if positions is None else positions)
    for each in chosen:
        if not 0 <= each < len(output.rows):
            raise UsageError(
                f"there is no target position {each}; there are {len(output.rows)}, "
                "counted from 0"
            )
    with evaluation_mode(output.model):
        return Attribution(
            output.columns,
            output.rows,
            chosen,
            gradient_times_input(output, chosen, check_stop),
            leave_one_out(output, chosen, check_stop),
            output.unit,
            output.patches,
        )


def gradient_times_input(
    output: AttributedOutput,
    positions: Sequence[int],
    check_stop: CheckStop = lambda: None,
) -> Tensor:
    """Return the gradient times the input embedding, [O S].

    The input is the embedding times √d_model, before positions are added. Each row of a
    batch is one part of the output, so one backward pass serves several.
    """
    rows = []
    for batch in _batches(positions, output):
        check_stop()
        is_real = _all_real(output, len(batch))
        with torch.enable_grad(), _leaf(output.entrance) as vectors:
            numbers = output.numbers(is_real)
            total = numbers[torch.arange(len(batch)), torch.tensor(batch)].sum()
            (gradient,) = torch.autograd.grad(total, vectors[0])
        rows.append((gradient * vectors[0].detach()).sum(dim=-1))  # R S E -> R S
    return torch.cat(rows) if rows else torch.zeros(0, len(output.columns))


@torch.no_grad()
def leave_one_out(
    output: AttributedOutput,
    positions: Sequence[int],
    check_stop: CheckStop = lambda: None,
) -> Tensor:
    """Return the parts less the same without each token of the input, [O S]."""
    whole = output.numbers(_all_real(output, 1))
    columns = []
    for batch in _batches(range(len(output.columns)), output):
        check_stop()
        is_real = _all_real(output, len(batch))
        is_real[torch.arange(len(batch)), torch.tensor(batch)] = False
        columns.append(whole - output.numbers(is_real))
    lost = torch.cat(columns).T  # S O -> O S
    return lost[torch.tensor(positions, dtype=torch.long)]


def target_of_transformer(model: Transformer, pair: TokenPair) -> AttributedOutput:
    """Return ln p of each target token, as a function of the source."""

    def log_p(is_real: Tensor) -> Tensor:
        source = pair.source_rows(model.device, len(is_real))
        inputs = pair.input_rows(model.device, len(is_real))
        return _log_p(model(source, inputs, is_real), pair.target)

    return AttributedOutput(
        model=model,
        columns=pair.source_pieces,
        rows=pair.target_pieces,
        default=range(len(pair.target)),
        entrance=model.enter_encoder,
        numbers=log_p,
        vocabulary=len(model.output_vectors),
        patches=pair.patches,
    )


def text_of_decoder(model: DecoderOnly, pair: TokenPair) -> AttributedOutput:
    """Return ln p of each token of a text, as a function of those before it."""

    def log_p(is_real: Tensor) -> Tensor:
        inputs = pair.input_rows(model.device, len(is_real))
        positions = torch.arange(inputs.shape[1], device=model.device)[None]
        mask = make_window_mask(positions, positions, model.window)
        mask = mask & is_real[:, None, None, :]
        embedded = model.embedding(inputs)
        embedded = embedded * is_real[:, :, None].to(embedded.dtype)
        x = model.decoder(model.enter_decoder(embedded, 0), mask)
        return _log_p(model.logits(x), pair.target)

    return AttributedOutput(
        model=model,
        columns=pair.decoder_pieces,
        rows=pair.target_pieces,
        default=range(pair.given, len(pair.target)),
        entrance=model.enter_decoder,
        numbers=log_p,
        vocabulary=len(model.output_vectors),
    )


def _log_p(logits: Tensor, target: Sequence[int]) -> Tensor:
    """Return ln p [R O] of target tokens, of logits [R O V]."""
    rows = torch.tensor([target], device=logits.device).expand(len(logits), -1)
    return logits.log_softmax(dim=-1).gather(2, rows[:, :, None])[:, :, 0]


def _batches(numbers: Sequence[int], output: AttributedOutput) -> Iterator[list[int]]:
    logits = max(1, len(output.rows)) * output.vocabulary
    rows = max(1, min(BATCH_TOKENS // output.length, LOGITS_AT_ONCE // logits))
    for first in range(0, len(numbers), rows):
        yield list(numbers[first : first + rows])


def _all_real(output: AttributedOutput, rows: int) -> Tensor:
    """Return that the whole input is real, for R rows."""
    device = output.model.device
    return torch.ones(rows, len(output.columns), dtype=torch.bool, device=device)


@contextmanager
def _leaf(entrance: nn.Module) -> Iterator[list[Tensor]]:
    """Make what goes into a module a leaf of the graph; yield the list it goes to."""
    found: list[Tensor] = []

    def make_leaf(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        leaf = inputs[0].detach().requires_grad_()
        found.append(leaf)
        return (leaf, *inputs[1:])

    remove: Callable[[], None] = entrance.register_forward_pre_hook(make_leaf).remove
    try:
        yield found
    finally:
        remove()
