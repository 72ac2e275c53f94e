"""Activation patching: which head carries the difference between two sentences.

Two sources of equal length differ in a word, such as *tired* and *wide*, and so in what
the model says next, such as *il* and *elle*. One activation of the run on one source is
put into the run on the other; what that does to ln p of the two answers says how much
of their difference goes through it. Vig et al. (2020), Causal Mediation Analysis; Meng
et al. (2022), Locating and Editing Factual Associations.

Letters used for sizes: R rows computed together, L positions of a stack, D model width,
H heads, V channels of a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwise.errors import UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.hooks import (
    capture_inputs,
    capture_outputs,
)
from headwise.inspection.places import (
    AttentionKind,
    Head,
    attention_layers,
    blocks,
)
from headwise.model.transformer import Transformer
from headwise.tasks.translation.pair_scorer import BATCH_TOKENS
from headwise.tasks.translation.thread_pool import CheckStop
from headwise.text.vocabulary import START


@dataclass(frozen=True, eq=False)
class HeadPatch:
    """The output of one head, patched at one position at a time."""

    head: Head
    carried: Tensor
    """[L], the share of the difference that each position carries: 0 for none, 1 for
    all; below 0 if it works against it."""


@dataclass(frozen=True, eq=False)
class LayerPatch:
    """The output of a whole block, patched at one position at a time."""

    stack: Literal["encoder", "decoder"]
    layer: int
    carried: Tensor
    """[L], as of a head."""


@dataclass(frozen=True, eq=False)
class Patching:
    """How much of a difference each activation carries."""

    source: tuple[str, ...]
    donor: tuple[str, ...]
    decoder_input: tuple[str, ...]
    answers: tuple[str, str]

    source_difference: float
    """ln p of the first answer less that of the second, of the source."""

    donor_difference: float
    """The same of the donor, whose activations are put into the run on the source."""

    heads: tuple[HeadPatch, ...]
    layers: tuple[LayerPatch, ...]

    def best(self, count: int = 5) -> list[tuple[Head, int, float]]:
        """Return the heads and positions that carry most, and how much."""
        found = [
            (each.head, position, share)
            for each in self.heads
            for position, share in enumerate(each.carried.tolist())
        ]
        return sorted(found, key=lambda each: each[2], reverse=True)[:count]


@torch.no_grad()
def patch_activations(
    model: Transformer,
    source: Sequence[int],
    donor: Sequence[int],
    prefix: Sequence[int],
    answers: tuple[int, int],
    *,
    kinds: Sequence[AttentionKind] = ("encoder", "decoder", "cross"),
    check_stop: CheckStop = lambda: None,
) -> tuple[float, float, tuple[HeadPatch, ...], tuple[LayerPatch, ...]]:
    """Patch every head and layer at every position; return both differences and both.

    ``source`` and ``donor`` are tokens with END; ``prefix`` is the target so far, after
    which one of the two ``answers`` may come. ``check_stop`` is called before each
    forward pass, and may raise. Raises ``UsageError`` unless both sources
    are equally long and the model's answers to them differ.
    """
    if len(source) != len(donor):
        raise UsageError(
            "activations are patched position by position, so both sentences need the "
            f"same number of tokens; they have {len(source)} and {len(donor)}"
        )
    if list(source) == list(donor):
        raise UsageError("both sentences are the same, so no activation differs")
    patcher = _Patcher(model, source, donor, (START, *prefix), answers, check_stop)
    with evaluation_mode(model):
        patcher.run_both()
        if patcher.receiver == patcher.giver:
            raise UsageError(
                "both sentences give both answers the same probability, so there is no "
                "difference to carry; choose other answers"
            )
        heads = patcher.heads(kinds)
        layers = patcher.layers()
    return patcher.receiver, patcher.giver, heads, layers


class _Patcher:
    """The run on a source, into which activations of the run on a donor are put."""

    def __init__(
        self,
        model: Transformer,
        source: Sequence[int],
        donor: Sequence[int],
        inputs: Sequence[int],
        answers: tuple[int, int],
        check_stop: CheckStop,
    ) -> None:
        self.model = model
        self.answers = answers
        self.check_stop = check_stop
        device = model.device
        self.source = torch.tensor([source], device=device)
        self.donor = torch.tensor([donor], device=device)
        self.inputs = torch.tensor([inputs], device=device)
        self.lengths = {"encoder": len(source), "decoder": len(inputs)}
        self.joined = {
            str(name): layer.to_output
            for name, layer in attention_layers(model).items()
        }
        self.blocks = {
            f"{stack}.{number}": block
            for stack in ("encoder", "decoder")
            for number, block in enumerate(blocks(model, stack))
        }
        self.of_donor: dict[str, Tensor] = {}
        self.receiver = self.giver = 0.0

    def run_both(self) -> None:
        """Run both sources; keep the activations of the donor."""
        with (
            capture_inputs(self.joined) as joined,
            capture_outputs(self.blocks) as outputs,
        ):
            (self.giver,) = self._difference(self.donor).tolist()
        self.of_donor = {f"heads of {name}": each for name, each in joined.items()}
        self.of_donor |= outputs
        (self.receiver,) = self._difference(self.source).tolist()

    def heads(self, kinds: Sequence[AttentionKind]) -> tuple[HeadPatch, ...]:
        """Patch each head of ``kinds`` at each position."""
        found = []
        for name, layer in attention_layers(self.model).items():
            if name.kind not in kinds:
                continue
            donated = self.of_donor[f"heads of {name}"]
            width = donated.shape[2] // layer.num_heads
            length = donated.shape[1]
            for head in range(layer.num_heads):
                channels = slice(head * width, (head + 1) * width)
                carried = self._patched(layer.to_output, donated, channels, length)
                found.append(HeadPatch(Head(name.kind, name.layer, head), carried))
        return tuple(found)

    def layers(self) -> tuple[LayerPatch, ...]:
        """Patch the output of each block at each position."""
        found = []
        for name, block in self.blocks.items():
            stack, number = name.split(".")
            donated = self.of_donor[name]
            carried = self._patched(block, donated, None, donated.shape[1])
            found.append(
                LayerPatch(stack, int(number), carried)  # type: ignore[arg-type]
            )
        return tuple(found)

    def _patched(
        self, module: nn.Module, donated: Tensor, channels: slice | None, length: int
    ) -> Tensor:
        """Return what each of ``length`` positions of a module carries, [L].

        With ``channels`` its input is patched, and else its output.
        """
        rows = max(1, BATCH_TOKENS // max(self.lengths.values()))
        shares = []
        for first in range(0, length, rows):
            positions = torch.arange(first, min(first + rows, length))
            with ExitStack() as stack:
                stack.callback(_patch(module, donated, channels, positions))
                source = self.source.expand(len(positions), -1)
                found = self._difference(source)
            shares.append(found)
        differences = torch.cat(shares)
        return (differences - self.receiver) / (self.giver - self.receiver)

    def _difference(self, source: Tensor) -> Tensor:
        """Return ln p of the first answer less that of the second, for R rows."""
        self.check_stop()
        inputs = self.inputs.expand(len(source), -1)
        hidden = self.model.decode(source, inputs, torch.ones_like(source).bool())
        log_p = self.model.logits(hidden[:, -1]).double().log_softmax(dim=-1)
        return log_p[:, self.answers[0]] - log_p[:, self.answers[1]]


def _patch(
    module: nn.Module, donated: Tensor, channels: slice | None, positions: Tensor
) -> Any:
    """Patch row r of what goes into ``module``, or comes out, at ``positions[r]``."""
    rows = torch.arange(len(positions))

    def patched(activation: Tensor, chosen: slice) -> Tensor:
        activation = activation.clone()
        activation[rows, positions, chosen] = donated[0, positions, chosen]
        return activation

    if channels is None:
        return module.register_forward_hook(
            lambda _, inputs, output: patched(output, slice(None))
        ).remove
    return module.register_forward_pre_hook(
        lambda _, inputs: (patched(inputs[0], channels),)
    ).remove
