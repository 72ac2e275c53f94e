"""Adam as in the paper (Section 5.3), AdamW, Muon; their state as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from headwise.errors import ModelError
from headwise.model.attention import MultiHeadAttention
from headwise.model.convolutional.layers import DecoderLayer
from headwise.model.feed_forward import FeedForward
from headwise.model.source_attention import SourceAttention
from headwise.model.variants.gated_feed_forward import GatedFeedForward
from headwise.training.fsdp import shard_like
from headwise.training.muon import Muon
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import PendingStep

MOMENTS = ("exp_avg", "exp_avg_sq")
MOMENTUM = ("momentum_buffer",)
UPDATES = "updates"

INNER_LAYERS = (
    *(MultiHeadAttention, FeedForward, GatedFeedForward, SourceAttention, nn.RNNBase),
    DecoderLayer,
)
"""Layers whose matrices Muon updates: those that turn vectors into vectors. Tables of
relative positions are none, though they are parts of attention."""


class Optimizer:
    """Adam for all weights, or Muon for the matrices inside and Adam for the others.

    Weight decay, if any, is decoupled (AdamW, Loshchilov and Hutter 2019), and of
    matrices alone.
    """

    def __init__(self, model: nn.Module, settings: TrainingSettings) -> None:
        of_muon: list[nn.Parameter] = []
        if settings.optimizer == "muon":
            of_muon = _inner_matrices(model)
        self._of_muon = {id(each) for each in of_muon}
        of_adam = [x for x in model.parameters() if id(x) not in self._of_muon]
        decay = settings.weight_decay
        self.adam = torch.optim.Adam(
            _decayed_and_others(of_adam, decay) if decay else of_adam,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            decoupled_weight_decay=True,
            fused=True,
        )
        self.muon = Muon(of_muon, weight_decay=decay) if of_muon else None
        self.param_groups: list[dict[str, Any]] = self.adam.param_groups
        if self.muon:
            self.param_groups = [*self.param_groups, *self.muon.param_groups]

    def step(self, found_inf: Tensor | None = None) -> None:
        """Update the weights, unless ``found_inf`` is 1; training has to stop then."""
        # As torch's GradScaler does: 1 on the device makes fused Adam skip the step.
        self.adam.found_inf = found_inf  # type: ignore[attr-defined]
        self.adam.step()
        # Fused Adam does not, so that copies of the weights would pass for current.
        for group in self.adam.param_groups:
            increment_version(group["params"])
        if self.muon:
            self.muon.step(found_inf=found_inf)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def part_of(
        self, parameter: nn.Parameter
    ) -> tuple[torch.optim.Optimizer, tuple[str, ...]]:
        """Return who updates a weight, and the names of its tensors."""
        if self.muon and id(parameter) in self._of_muon:
            return self.muon, MOMENTUM
        return self.adam, MOMENTS


def apply_update(optimizer: Optimizer, update: PendingStep) -> None:
    """Apply the gradients to the weights, unless a number is not finite."""
    for group in optimizer.param_groups:
        group["lr"] = update.learning_rate
    optimizer.step(update.found_inf())


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the moments of each weight under its name, and the number of updates.

    Skipped updates do not count: Adam's bias correction depends on the number.
    """
    tensors = {UPDATES: torch.tensor(0)}
    for name, parameter in model.named_parameters():
        part, names = optimizer.part_of(parameter)
        found = part.state.get(parameter)
        if found:
            if "step" in found:
                tensors[UPDATES] = found["step"].to(torch.int64).cpu()
            tensors |= {f"{name}.{moment}": found[moment] for moment in names}
    return tensors


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Load what :func:`optimizer_tensors` returned; raise ``ModelError`` if amiss."""
    if UPDATES not in tensors:
        raise ModelError(
            f"the optimizer state does not say after how many {UPDATES} it was saved; "
            "it is not whole"
        )
    for name, parameter in model.named_parameters():
        if not tensors[UPDATES]:
            continue  # every update so far was skipped
        part, names = optimizer.part_of(parameter)
        found = [tensors.get(f"{name}.{moment}") for moment in names]
        if any(each is None or each.shape != parameter.shape for each in found):
            raise ModelError(
                f"the optimizer state does not fit the model at {name}; it was "
                "saved for another architecture"
            )
        part.state[parameter] = {
            moment: shard_like(tensors[f"{name}.{moment}"], parameter)
            for moment in names
        }
        if part is optimizer.adam:
            updates = tensors[UPDATES].to(torch.float32).to(parameter.device)
            part.state[parameter]["step"] = updates.clone()


def _inner_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices of ``INNER_LAYERS``, in the order of the model."""
    found = {
        id(parameter): parameter
        for layer in model.modules()
        if isinstance(layer, INNER_LAYERS)
        for part in layer.modules()
        if isinstance(part, nn.Linear | nn.RNNBase)
        for parameter in part.parameters()
        if parameter.ndim == 2
    }
    return [*found.values()]


def _decayed_and_others(
    parameters: Iterable[nn.Parameter], decay: float
) -> list[dict[str, Any]]:
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for each in parameters:
        (decayed if each.ndim >= 2 else others).append(each)
    return [
        {"params": decayed, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
